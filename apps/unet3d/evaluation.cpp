// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/evaluation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <optional>
#include <sstream>
#include <type_traits>

#include "apps/unet3d/regions.hpp"
#include "apps/unet3d/trivial.hpp"
#include "core/tape.hpp"
#include "data/augment.hpp"
#include "data/csv.hpp"
#include "data/sampler.hpp"

namespace bora::unet3d {
namespace {

constexpr int kPredictors = 1 + static_cast<int>(TrivialPredictors::kNames.size());
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

}  // namespace

Mirror mirror_mode(bool wanted, const TrainedModel& trained) {
  if (wanted && !trained.config.data.augment.flip_y)
    throw UsageError("--mirror: the run of " + trained.path +
                     " did not train on mirrored cases (data.augment.flip_y)");
  return wanted ? Mirror::average : Mirror::no;
}

Tensor predict_field(TrainedModel& trained, const data::Sample& sample, Mirror mirror) {
  const NoGrad no_grad;
  trained.model->set_training(false);
  const Shape s = sample.input.shape();
  const Device device = trained.arena->device();
  const auto forward = [&](const Tensor& input) {
    const Tensor x = input.reshape({1, s[0], s[1], s[2], s[3]}).to(device);
    return trained.model->forward(x).to(cpu());
  };
  Tensor y = forward(sample.input).clone();
  if (mirror == Mirror::average) {
    data::Sample other = sample;
    data::vary(other, {.flip_y = true});
    const Tensor image = forward(other.input);
    const float* m = image.data<float>();
    float* values = y.data<float>();
    for (int64_t i = 0; i < y.numel(); ++i) {
      const int64_t k = i % s[2], j = i / s[2] % s[1], x = i / s[2] / s[1];
      values[i] = 0.5f * (values[i] + m[(x * s[1] + s[1] - 1 - j) * s[2] + k]);
    }
  }
  data::denormalise(y, sample.scaling);
  y = y.reshape({s[0], s[1], s[2]});
  // Inside buildings there is no wind, whatever the network says.
  float* values = y.data<float>();
  const float* mask = sample.input.data<float>();
  for (int64_t i = 0; i < y.numel(); ++i)
    if (mask[i * s[3]] < 0) values[i] = 0.0f;
  return y;
}

std::vector<Score> evaluate(TrainedModel& trained, const Cases& cases, const data::Dataset& which,
                            double hit_threshold, Mirror mirror, Collective& ranks) {
  BORA_CHECK(which.size() > 0, "evaluate: there is no case to evaluate");
  std::optional<TrivialPredictors> fit;
  ranks.agree("fitting the trivial predictors", [&] {
    const data::Sample first = cases.training().read(0, data::WindowChoice::centred());
    const Shape s = first.region.shape();
    fit.emplace(Dims3{s[0], s[1], s[2]});
    for (const int64_t i : share(cases.training().size(), ranks)) {
      const data::Sample sample = cases.training().read(i, data::WindowChoice::centred());
      BORA_CHECK(sample.region.shape() == s, "case ", sample.name, " has shape ",
                 sample.region.shape(), ", case ", first.name, " has ", s,
                 ": set data.shape so that all cases have one shape");
      fit->add(physical_target(sample), sample.region);
    }
  });
  fit->reduce(ranks);
  const std::array<Tensor, 3> trivial = fit->fields();

  // One row of sums for each (case, predictor, region); the ranks fill their own rows and zeros
  // elsewhere, so that joining is exact.
  constexpr int64_t kFields = static_cast<int64_t>(sizeof(kernels::ErrorSums) / sizeof(int64_t));
  static_assert(std::is_trivially_copyable_v<kernels::ErrorSums> &&
                sizeof(kernels::ErrorSums) % sizeof(int64_t) == 0);
  const int64_t n = which.size();
  Tensor table =
      Tensor::zeros({n, kPredictors, kRegions, kFields}, DType::i64);  // the structs' bits
  ranks.agree("evaluation", [&] {
    for (const int64_t i : share(n, ranks)) {
      const data::Sample sample = which.read(i, data::WindowChoice::centred());
      const Tensor target = physical_target(sample);
      const auto masks = region_masks(sample.region, building_cells(sample), cases.heights(sample));
      for (int p = 0; p < kPredictors; ++p) {
        const Tensor field =
            p == 0 ? predict_field(trained, sample, mirror) : trivial[static_cast<size_t>(p - 1)];
        BORA_CHECK(field.shape() == target.shape(), "case ", sample.name, " has shape ",
                   target.shape(), ", the predictors have ", field.shape());
        for (int r = 0; r < kRegions; ++r) {
          const kernels::ErrorSums sums =
              case_errors(field, target, masks[static_cast<size_t>(r)], hit_threshold);
          std::memcpy(table.data<int64_t>() + ((i * kPredictors + p) * kRegions + r) * kFields,
                      &sums, sizeof sums);
        }
      }
    }
  });
  ranks.all_reduce(table, ReduceOp::sum, "evaluation sums");

  std::vector<Score> scores;
  for (int64_t i = 0; i <= n; ++i)
    for (int p = 0; p < kPredictors; ++p)
      for (int r = 0; r < kRegions; ++r) {
        Score score{i < n ? which.name(i) : "pooled",
                    predictor_name(p),
                    kRegionNames[static_cast<size_t>(r)],
                    {}};
        for (int64_t c = i < n ? i : 0; c < (i < n ? i + 1 : n); ++c) {
          kernels::ErrorSums sums;
          std::memcpy(static_cast<void*>(&sums),
                      table.data<int64_t>() + ((c * kPredictors + p) * kRegions + r) * kFields,
                      sizeof sums);
          score.sums.add(sums);
        }
        scores.push_back(std::move(score));
      }
  return scores;
}

void write_scores(const std::string& path, const std::vector<Score>& scores) {
  data::CsvWriter csv(path, {"case", "predictor", "region", "cells", "mae", "rmse", "relative_l2",
                             "mre", "nrmse", "hit_rate", "r2", "max_error"});
  for (const Score& s : scores)
    csv.row({s.case_name, s.predictor, s.region, static_cast<int64_t>(s.sums.count), s.sums.mae(),
             s.sums.rmse(), s.sums.relative_l2(), s.sums.mre(), s.sums.nrmse(), s.sums.hit_rate(),
             s.sums.r2(), s.sums.max_abs});
  csv.close();
}

std::string score_table(const std::vector<Score>& scores) {
  std::ostringstream out;
  out << std::left << std::setw(14) << "predictor" << std::setw(10) << "region" << std::right
      << std::setw(13) << "relative L2" << std::setw(12) << "RMSE m/s" << std::setw(12) << "MAE m/s"
      << std::setw(9) << "R^2" << '\n';
  for (const char* region : kRegionNames)
    for (const Score& s : scores) {
      if (s.case_name != "pooled" || s.region != region) continue;
      out << std::left << std::setw(14) << s.predictor << std::setw(10) << s.region << std::right
          << std::fixed << std::setprecision(4) << std::setw(13) << s.sums.relative_l2()
          << std::setw(12) << s.sums.rmse() << std::setw(12) << s.sums.mae() << std::setprecision(3)
          << std::setw(9) << s.sums.r2() << '\n';
    }
  return out.str();
}

}  // namespace bora::unet3d
