// SPDX-License-Identifier: Apache-2.0
// Evaluation: errors of the network and of the trivial predictors, case by case, region by region.
#pragma once

#include <string>
#include <vector>

#include "apps/unet3d/cases.hpp"
#include "apps/unet3d/field.hpp"
#include "apps/unet3d/setup.hpp"
#include "core/collective.hpp"
#include "data/jsonl.hpp"

namespace bora::unet3d {

/// The scores of one predictor in one region, in m/s where a unit fits.
struct Score {
  std::string case_name;  ///< "pooled": all cells of all cases
  std::string predictor;  ///< "unet3d" or one of TrivialPredictors::kNames
  std::string region;     ///< one of kRegionNames
  kernels::ErrorSums sums;
  /// The same errors in units of each case's sigma, as they are in training: sum |e|, sum e^2, and
  /// the largest.
  double abs_normalised = 0, square_normalised = 0, max_normalised = 0;

  // NaN where nothing was counted.
  double mae_normalised() const;
  double rmse_normalised() const;
  /// Joins another case's sums.
  void add(const Score& other);
  /// Sums of errors in units of sigma, out of those in m/s.
  void normalise(double sigma);
};

struct Evaluation {
  std::vector<Score> scores;       ///< in the order case, predictor, region; pooled rows last
  std::vector<std::string> names;  ///< of the cases
  std::vector<double> seconds;     ///< wall time of the network for each case, on its rank
  std::string windows;             ///< of the first case: FieldPlan::text
};

/// What is scored, and how.
struct EvaluationTask {
  const Cases* cases = nullptr;
  const data::Dataset* part = nullptr;  ///< of the cases
  const FieldConfig* config = nullptr;
  double hit_threshold = 0.5;  ///< m/s
};

/// Scores every case, shared among the ranks; all ranks get all rows.  The same numbers for any
/// number of ranks: each case is scored on one rank, and the sums are joined in case order.  Where
/// cases have different shapes there is no mean field, and with different numbers of levels no
/// trivial predictor, which rank 0 says.  Collective.
Evaluation evaluate(TrainedModel& trained, const EvaluationTask& task, Collective& ranks);

/// The index of a part's case among all cases.
int64_t index_among_all(const data::Dataset& part, int64_t index);
/// One case's truth, and the network's field for the same cells.
struct ScoredField {
  data::Sample sample;
  Tensor target;  ///< (X, Y, Z) f32, m/s
  Tensor field;   ///< (X, Y, Z) f32, m/s
  double seconds = 0;
  FieldPlan plan;
};
/// `index` among all cases; `after_window` as in FieldJob.
ScoredField score_field(TrainedModel& trained, const EvaluationTask& task, int64_t index,
                        const std::function<void()>& after_window);

/// One row a score; columns: case, predictor, region, cells, mae, rmse, relative_l2, mre, nrmse,
/// hit_rate, r2, max_error, mae_normalised, rmse_normalised, max_error_normalised.
void write_scores(const std::string& path, const std::vector<Score>& scores);
/// The same numbers as JSON: {"settings": {...}, "units": {...}, "scores": [{...}, ...], "wall_s":
/// {"<case>": ..., ...}}, one row and each of the others on a line of its own, the times last and
/// alone.  NaN is the text "nan", as in metrics.jsonl.
void write_scores_json(const std::string& path, const data::JsonRecord& settings,
                       const Evaluation& evaluation);
/// The pooled scores as a table for people.
std::string score_table(const std::vector<Score>& scores);

/// The cases of the smallest, middle and largest relative L2 error of the network (all open cells):
/// "best", "median", "worst", with the index in the part.  Fewer where there are fewer cases.
std::vector<std::pair<std::string, int64_t>> telling_cases(const Evaluation& evaluation);

}  // namespace bora::unet3d
