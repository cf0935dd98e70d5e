// SPDX-License-Identifier: Apache-2.0
#include "apps/train/memory_forecast.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "apps/train/parallel.hpp"
#include "core/log.hpp"
#include "core/memory_report.hpp"
#include "core/precision.hpp"
#include "core/profile.hpp"
#include "core/rng.hpp"
#include "core/tape.hpp"

namespace bora::train {
namespace {

/// Elements of a ParameterArena, padding included.
int64_t arena_elements(nn::Module& model) {
  FlatLayout layout;
  for (const nn::NamedParameter& p : nn::named_parameters(model))
    layout.add(p.name, p.parameter->shape);
  return layout.size();
}

/// x (X, Y, Z, ...) with other extents, repeated where it is smaller.
Tensor with_extents(const Tensor& x, const Dims3& to) {
  const Dims3 from{x.size(0), x.size(1), x.size(2)};
  Shape shape = x.shape().with(0, to.d).with(1, to.h).with(2, to.w);
  Tensor out = Tensor::empty(shape, x.dtype());
  const auto cell = static_cast<size_t>(x.bytes() / std::max<int64_t>(from.count(), 1));
  const auto* const source = static_cast<const char*>(x.raw());
  auto* const target = static_cast<char*>(out.raw());
  for (int64_t i = 0; i < to.count(); ++i) {
    const int64_t d = i / (to.h * to.w) % from.d, h = i / to.w % to.h % from.h,
                  w = i % to.w % from.w;
    std::memcpy(target + static_cast<size_t>(i) * cell,
                source + static_cast<size_t>((d * from.h + h) * from.w + w) * cell, cell);
  }
  return out;
}

data::Batch batch_like(const data::Sample& like, const Dims3& extents, int64_t samples) {
  data::Sample sample = like;
  for (Tensor* t : {&sample.input, &sample.target, &sample.region, &sample.valid, &sample.weight})
    if (t->defined()) *t = with_extents(*t, extents);
  return data::collate(std::vector<data::Sample>(static_cast<size_t>(samples), sample));
}

/// One pass: its time, and the memory that is live between forward and backward.
struct Pass {
  double seconds;
  int64_t live;
};
Pass run_once(Task& task, const RunConfig& config, nn::ParameterArena& arena,
              const data::Batch& batch) {
  const double begin_s = now_s();
  arena.clear_gradients();
  const PrecisionScope precision(precision_type(config.precision));
  const RngScope rng({.seed = config.train.seed, .base = rng_stream("step", 0, 0)});
  int64_t live = 0;
  {
    const Loss loss = task.loss(batch);
    live = memory_of(arena.device()).live;
    backward(loss.total, Tensor::full({}, 1.0, DType::f32, arena.device()));
  }
  arena.values().all().stream().synchronize();
  return {now_s() - begin_s, live};
}

}  // namespace

StateBytes state_bytes(nn::Module& model, const RunConfig& config, const apps::WindowPlan& plan,
                       int n_ranks) {
  const int64_t n = arena_elements(model), f32 = 4 * n;
  StateBytes bytes{.weights = f32, .gradients = f32};
  if (config.optim.kind == "adamw") bytes.optimizer = 2 * f32;
  if (config.optim.kind == "sgd" && config.optim.momentum > 0) bytes.optimizer = f32;
  if (config.train.ema > 0) bytes.average = f32;
  if (config.precision != "fp32") bytes.halves = 2 * n;
  if (plan.sharded()) {
    // Sums of 1, 2, 4, ... shards (comm/shard_sum.hpp).
    for (int64_t shards = plan.n_shards() / n_ranks; shards > 0; shards /= 2) bytes.exchange += f32;
  } else if (n_ranks > 1 && config.comm.gradient_type != "f32") {
    bytes.exchange = 2 * n;
  }
  for (const nn::NamedBuffer& b : nn::named_buffers(model))
    if (b.buffer->defined()) bytes.buffers += b.buffer->bytes();
  return bytes;
}

std::vector<Dims3> probe_extents(const Dims3& full, int64_t smallest) {
  BORA_CHECK(smallest >= 1 && full.d >= 1 && full.h >= 1 && full.w >= 1, "probe_extents: of ",
             full.d, 'x', full.h, 'x', full.w, " from ", smallest);
  Dims3 e{std::min(full.d, smallest), std::min(full.h, smallest), std::min(full.w, smallest)};
  std::vector<Dims3> all{e};
  while (e.count() < full.count()) {
    // The axis that is furthest from its end, the last of equals: rows stay long.
    const auto left = [](int64_t have, int64_t want) {
      return static_cast<double>(want) / static_cast<double>(have);
    };
    const double d = left(e.d, full.d), h = left(e.h, full.h), w = left(e.w, full.w);
    if (w >= h && w >= d)
      e.w = std::min(2 * e.w, full.w);
    else if (h >= d)
      e.h = std::min(2 * e.h, full.h);
    else
      e.d = std::min(2 * e.d, full.d);
    all.push_back(e);
  }
  return all;
}

StepCost extrapolate(const std::vector<StepCost>& measured, const Dims3& full, int64_t samples) {
  BORA_CHECK(!measured.empty(), "extrapolate: nothing was measured");
  const StepCost& last = measured.back();
  StepCost result = last;
  result.extents = full;
  result.samples = samples;
  const auto cells = static_cast<double>(result.cells()), have = static_cast<double>(last.cells());
  result.at_most = last.bytes;
  if (result.cells() == last.cells()) return result;
  const double ratio = cells / have, bytes = static_cast<double>(last.bytes),
               kept = static_cast<double>(last.kept);
  double by_cell = last.seconds / have;
  double slope = bytes / have;  // of one measurement
  if (measured.size() > 1) {
    const StepCost& before = measured[measured.size() - 2];
    slope = static_cast<double>(last.bytes - before.bytes) /
            static_cast<double>(last.cells() - before.cells());
    // Small passes are slower by the cell.  Two times are a shaky line: within bounds.
    by_cell = std::clamp(
        (last.seconds - before.seconds) / static_cast<double>(last.cells() - before.cells()),
        0.25 * by_cell, by_cell);
  }
  result.seconds = last.seconds + by_cell * (cells - have);
  const double line = bytes + slope * (cells - have), floor = kept * ratio + (bytes - kept);
  result.bytes = static_cast<int64_t>(std::max(line, floor));
  result.kept = static_cast<int64_t>(kept * ratio);
  result.at_most =
      grows_with_cells(measured) ? result.bytes : static_cast<int64_t>(std::ceil(bytes * ratio));
  return result;
}

bool grows_with_cells(const std::vector<StepCost>& measured) {
  if (measured.size() < 2) return false;
  const StepCost &last = measured.back(), &before = measured[measured.size() - 2];
  return static_cast<double>(last.bytes) * static_cast<double>(before.cells()) >
         0.95 * static_cast<double>(before.bytes) * static_cast<double>(last.cells());
}

std::vector<StepCost> measure_steps(Task& task, const RunConfig& config, Collective& ranks,
                                    nn::ParameterArena& arena, const data::Sample& like,
                                    const Dims3& full, int64_t samples, const ProbeLimits& limits) {
  std::vector<StepCost> measured;
  task.model().set_training(true);
  const Device device = arena.device();
  double spent_s = 0;
  const std::vector<Dims3> growing = probe_extents(full, task.smallest_extent());
  // Fewer samples where they alone would be too much to begin with.
  const int64_t n = std::clamp(limits.least_cells / 4 / growing[0].count(), int64_t{1},
                               std::max<int64_t>(samples, 1));
  for (const Dims3& extents : growing) {
    StepCost cost{.extents = extents, .samples = n};
    // Two passes of about twice the cells of the last ones.  The first one makes plans, too.
    if (measured.size() >= 3 && measured.back().cells() >= limits.least_cells &&
        (grows_with_cells(measured) || spent_s + 2 * measured.back().seconds > limits.budget_s))
      break;
    data::Batch batch = batch_like(like, extents, n);
    for (Tensor* t : {&batch.input, &batch.target, &batch.region, &batch.weight})
      if (t->defined()) *t = t->to(device);
    const int64_t before = memory_of(device).live;
    reset_memory_peaks(device);
    const Pass first = run_once(task, config, arena, batch);
    // The first pass makes plans, which matters where it is short.
    const bool short_one = ranks.all_reduce(first.seconds, ReduceOp::max, "dry run: time") < 0.3;
    const Pass second = short_one ? run_once(task, config, arena, batch) : first;
    const auto largest = [&](int64_t bytes) {
      return ranks.all_reduce(bytes, ReduceOp::max, "dry run: memory");
    };
    cost.bytes = largest(memory_of(device).peak - before);
    cost.kept = largest(second.live - before);
    cost.seconds = ranks.all_reduce(second.seconds, ReduceOp::max, "dry run: time");
    spent_s += cost.seconds * (short_one ? 2 : 1);
    measured.push_back(cost);
  }
  return measured;
}

int64_t sample_bytes(int64_t n_channels, const Dims3& extents) {
  const int64_t f32 = 4, masks = 2;
  return ((n_channels + 1) * f32 + masks) * extents.count();
}

}  // namespace bora::train
