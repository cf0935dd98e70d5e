// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/evaluation.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <optional>
#include <type_traits>

#include "apps/unet3d/pulse.hpp"
#include "apps/unet3d/regions.hpp"
#include "apps/unet3d/trivial.hpp"
#include "core/log.hpp"
#include "core/precision.hpp"

namespace bora::unet3d {
namespace {

constexpr int kRegions = static_cast<int>(kRegionNames.size());

const char* predictor_name(int p) {
  return p == 0 ? "unet3d" : TrivialPredictors::kNames[static_cast<size_t>(p - 1)];
}

/// Each rank's share of n cases, each once.
std::vector<int64_t> share(int64_t n, const Collective& ranks) {
  std::vector<int64_t> mine;
  for (int64_t i = ranks.rank(); i < n; i += ranks.size()) mine.push_back(i);
  return mine;
}

Tensor physical_target(const data::Sample& sample) {
  Tensor t = sample.target.clone();
  data::denormalise(t, sample.scaling);
  return t.reshape(sample.region.shape());
}

Dims3 shape_of(const Tensor& t) { return {t.size(0), t.size(1), t.size(2)}; }

/// The box of a case that is scored.
data::Window area_of(const TrainedModel& trained, const EvaluationTask& task, int64_t index) {
  return plan_field(*task.config, trained, task.cases->all().at(index).grid).area;
}

/// How many trivial predictors these cases allow, decided by their shapes alone.
int n_trivial(const TrainedModel& trained, const EvaluationTask& task) {
  std::optional<Dims3> first;
  int n = static_cast<int>(TrivialPredictors::kNames.size());
  for (const data::Dataset* part : {&task.cases->training(), task.part})
    for (int64_t i = 0; i < part->size(); ++i) {
      const Dims3 shape = area_of(trained, task, index_among_all(*part, i)).shape;
      if (!first) first = shape;
      if (shape.w != first->w) return 0;
      if (!(shape == *first)) n = 2;
    }
  return n;
}

std::optional<TrivialPredictors> fit_trivial(const TrainedModel& trained,
                                             const EvaluationTask& task, int n, Collective& ranks) {
  if (n < 3 && ranks.rank() == 0)
    log_warn(n == 0 ? "the cases have different numbers of levels: no trivial predictors"
                    : "the cases have different shapes: no mean field, cell by cell");
  if (n == 0) return std::nullopt;
  const data::Dataset& training = task.cases->training();
  std::optional<TrivialPredictors> fit;
  ranks.agree("fitting the trivial predictors", [&] {
    BORA_CHECK(training.size() > 0, "evaluate: no training case to fit trivial predictors on");
    const Dims3 shape = area_of(trained, task, index_among_all(training, 0)).shape;
    fit.emplace(n == 3 ? TrivialPredictors(shape) : TrivialPredictors::of_levels(shape.w));
    for (const int64_t i : share(training.size(), ranks)) {
      const int64_t index = index_among_all(training, i);
      const data::Sample sample =
          task.cases->all().read_window(index, area_of(trained, task, index));
      fit->add(physical_target(sample), sample.region);
    }
  });
  fit->reduce(ranks);
  return fit;
}

/// Rows of sums, as their bits: the ranks fill their own and leave zeros elsewhere, so that joining
/// them is exact.  Behind the rows of a case, its sigma and its seconds.
class Table {
 public:
  static constexpr int64_t kFields =
      static_cast<int64_t>(sizeof(kernels::ErrorSums) / sizeof(int64_t));
  static_assert(std::is_trivially_copyable_v<kernels::ErrorSums> &&
                sizeof(kernels::ErrorSums) % sizeof(int64_t) == 0);

  Table(int64_t n_cases, int n_predictors)
      : n_predictors_(n_predictors),
        bits_(Tensor::zeros({n_cases, n_predictors * kRegions * kFields + 2}, DType::i64)) {}

  void set(int64_t i, int p, int r, const kernels::ErrorSums& sums) {
    std::memcpy(row(i) + (p * kRegions + r) * kFields, &sums, sizeof sums);
  }
  kernels::ErrorSums sums(int64_t i, int p, int r) const {
    kernels::ErrorSums sums;
    std::memcpy(static_cast<void*>(&sums), row(i) + (p * kRegions + r) * kFields, sizeof sums);
    return sums;
  }
  void set_numbers(int64_t i, double sigma, double seconds) {
    const double numbers[] = {sigma, seconds};
    std::memcpy(row(i) + n_predictors_ * kRegions * kFields, numbers, sizeof numbers);
  }
  double number(int64_t i, int which) const {
    double value = 0;
    std::memcpy(&value, row(i) + n_predictors_ * kRegions * kFields + which, sizeof value);
    return value;
  }
  double sigma(int64_t i) const { return number(i, 0); }
  double seconds(int64_t i) const { return number(i, 1); }
  void join(Collective& ranks) { ranks.all_reduce(bits_, ReduceOp::sum, "evaluation sums"); }

 private:
  int64_t* row(int64_t i) { return bits_.data<int64_t>() + i * bits_.size(1); }
  const int64_t* row(int64_t i) const { return bits_.data<int64_t>() + i * bits_.size(1); }
  int n_predictors_;
  Tensor bits_;
};

}  // namespace

double Score::mae_normalised() const {
  return abs_normalised / (sums.count > 0 ? sums.count : NAN);
}
double Score::rmse_normalised() const {
  return std::sqrt(square_normalised / (sums.count > 0 ? sums.count : NAN));
}

void Score::normalise(double sigma) {
  abs_normalised = sums.abs / sigma;
  square_normalised = sums.square / (sigma * sigma);
  max_normalised = sums.max_abs / sigma;
}

void Score::add(const Score& other) {
  sums.add(other.sums);
  abs_normalised += other.abs_normalised;
  square_normalised += other.square_normalised;
  // As in ErrorSums: NaN wins.
  if (!(max_normalised >= other.max_normalised)) max_normalised = other.max_normalised;
}

int64_t index_among_all(const data::Dataset& part, int64_t index) {
  const auto* subset = dynamic_cast<const data::Subset*>(&part);
  return subset ? subset->base_index(index) : index;
}

ScoredField score_field(TrainedModel& trained, const EvaluationTask& task, int64_t index,
                        const std::function<void()>& after_window) {
  ScoredField out;
  out.plan = plan_field(*task.config, trained, task.cases->all().at(index).grid);
  out.sample = task.cases->all().read_window(index, out.plan.area);
  out.target = physical_target(out.sample);
  const auto start = std::chrono::steady_clock::now();
  out.field = predict_whole_field(
      trained, {.cases = &task.cases->all(),
                .index = index,
                .plan = out.plan,
                .scaling = out.sample.scaling,
                .mode = {flips_of(*task.config, trained), precision_type(task.config->precision)},
                .after_window = after_window});
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

Evaluation evaluate(TrainedModel& trained, const EvaluationTask& task, Collective& ranks) {
  BORA_CHECK(task.cases && task.part && task.config, "evaluate: a task without cases or settings");
  const int64_t n = task.part->size();
  BORA_CHECK(n > 0, "evaluate: there is no case to evaluate");
  const int n_predictors = 1 + n_trivial(trained, task);
  const std::optional<TrivialPredictors> fit = fit_trivial(trained, task, n_predictors - 1, ranks);

  Evaluation out;
  Table table(n, n_predictors);
  int64_t n_without_heights = 0;
  work_apart(ranks, "evaluation", [&](Pulse& pulse) {
    for (const int64_t i : share(n, ranks)) {
      const ScoredField scored =
          score_field(trained, task, index_among_all(*task.part, i), [&] { pulse.beat(); });
      const data::Sample& sample = scored.sample;
      // Without heights no cell is known to be low: that region is empty.
      std::optional<std::vector<double>> heights = task.cases->heights(sample);
      if (!heights) {
        ++n_without_heights;
        heights.emplace(static_cast<size_t>(sample.region.size(2)), INFINITY);
      }
      const auto masks = region_masks(sample.region, building_cells(sample), *heights);
      std::vector<Tensor> fields{scored.field};
      if (fit)
        for (Tensor& t : fit->fields_of(shape_of(scored.target))) fields.push_back(std::move(t));
      for (int p = 0; p < n_predictors; ++p)
        for (int r = 0; r < kRegions; ++r)
          table.set(i, p, r,
                    case_errors(fields[static_cast<size_t>(p)], scored.target,
                                masks[static_cast<size_t>(r)], task.hit_threshold));
      table.set_numbers(i, sample.scaling.sigma, scored.seconds);
    }
  });
  table.join(ranks);
  n_without_heights = ranks.all_reduce(n_without_heights, ReduceOp::sum, "cases without heights");
  if (n_without_heights > 0 && ranks.rank() == 0)
    log_warn(n_without_heights, " of ", n, " cases do not tell the heights of their levels: they ",
             "have no cell in the region ", kRegionNames[1], ". Wanted a coordinate '",
             task.cases->all().config().files.axes.at(2),
             "' in metres in the mask's file, or in an HDF5 file a data set of that name with one "
             "number a level");

  out.windows =
      plan_field(*task.config, trained, task.cases->all().at(index_among_all(*task.part, 0)).grid)
          .text;
  for (int64_t i = 0; i < n; ++i) {
    out.names.push_back(task.part->name(i));
    out.seconds.push_back(table.seconds(i));
  }
  const auto score_of = [&](int64_t i, int p, int r) {
    Score score{.case_name = task.part->name(i),
                .predictor = predictor_name(p),
                .region = kRegionNames[static_cast<size_t>(r)],
                .sums = table.sums(i, p, r)};
    score.normalise(table.sigma(i));
    return score;
  };
  for (int64_t i = 0; i < n; ++i)
    for (int p = 0; p < n_predictors; ++p)
      for (int r = 0; r < kRegions; ++r) out.scores.push_back(score_of(i, p, r));
  for (int p = 0; p < n_predictors; ++p)
    for (int r = 0; r < kRegions; ++r) {
      Score pooled{.case_name = "pooled",
                   .predictor = predictor_name(p),
                   .region = kRegionNames[static_cast<size_t>(r)],
                   .sums = {}};
      for (int64_t i = 0; i < n; ++i) pooled.add(score_of(i, p, r));
      out.scores.push_back(std::move(pooled));
    }
  return out;
}

}  // namespace bora::unet3d
