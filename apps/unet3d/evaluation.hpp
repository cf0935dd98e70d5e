// SPDX-License-Identifier: Apache-2.0
// Evaluation: errors of the network and of the trivial predictors, case by case, region by region.
#pragma once

#include <string>
#include <vector>

#include "apps/unet3d/cases.hpp"
#include "apps/unet3d/setup.hpp"
#include "core/collective.hpp"

namespace bora::unet3d {

/// The scores of one predictor in one region, in m/s where a unit fits.
struct Score {
  std::string case_name;  ///< "pooled": all cells of all cases
  std::string predictor;  ///< "unet3d" or one of TrivialPredictors::kNames
  std::string region;     ///< one of kRegionNames
  kernels::ErrorSums sums;
};

/// Whether a prediction is the mean of that of the case and that of its mirror image in y, mirrored
/// back.
enum class Mirror { no, average };
/// Mirror::average for `wanted`; throws UsageError if the run did not train on mirrored cases:
/// their labels would be false.
Mirror mirror_mode(bool wanted, const TrainedModel& trained);

/// Scores every case of `which`, shared among the ranks; all ranks get all rows, in the order case,
/// predictor, region, pooled rows last.  The same numbers for any number of ranks: each case is
/// scored on one rank, and the sums are joined in case order.
std::vector<Score> evaluate(TrainedModel& trained, const Cases& cases, const data::Dataset& which,
                            double hit_threshold, Mirror mirror, Collective& ranks);

/// The network's field of one sample in m/s: (X, Y, Z) f32 on the host, 0 in buildings; computed
/// where the network is.
Tensor predict_field(TrainedModel& trained, const data::Sample& sample, Mirror mirror = Mirror::no);

/// One row a score; columns: case, predictor, region, cells, mae, rmse, relative_l2, mre,
/// nrmse, hit_rate, r2, max_error.
void write_scores(const std::string& path, const std::vector<Score>& scores);
/// The pooled scores as a table for people.
std::string score_table(const std::vector<Score>& scores);

}  // namespace bora::unet3d
