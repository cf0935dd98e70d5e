// SPDX-License-Identifier: Apache-2.0
#include "apps/train/memory_forecast.hpp"

#include <algorithm>
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
Tensor with_extents(const Tensor& x, const Extents& to) {
  const Extents from{x.size(0), x.size(1), x.size(2)};
  Shape shape = x.shape().with(0, to.d).with(1, to.h).with(2, to.w);
  Tensor out = Tensor::empty(shape, x.dtype());
  const auto cell = static_cast<size_t>(x.bytes() / std::max<int64_t>(from.cells(), 1));
  const auto* const source = static_cast<const char*>(x.raw());
  auto* const target = static_cast<char*>(out.raw());
  for (int64_t i = 0; i < to.cells(); ++i) {
    const int64_t d = i / (to.h * to.w) % from.d, h = i / to.w % to.h % from.h,
                  w = i % to.w % from.w;
    std::memcpy(target + static_cast<size_t>(i) * cell,
                source + static_cast<size_t>((d * from.h + h) * from.w + w) * cell, cell);
  }
  return out;
}

data::Batch batch_like(const data::Sample& like, const Extents& extents, int64_t samples) {
  data::Sample sample = like;
  for (Tensor* t : {&sample.input, &sample.target, &sample.region, &sample.valid})
    *t = with_extents(*t, extents);
  return data::collate(std::vector<data::Sample>(static_cast<size_t>(samples), sample));
}

/// One pass; its time.
double run_once(Task& task, const RunConfig& config, nn::ParameterArena& arena,
                const data::Batch& batch) {
  const double begin_s = now_s();
  arena.clear_gradients();
  const PrecisionScope precision(precision_type(config.precision));
  const RngScope rng({.seed = config.train.seed, .base = rng_stream("step", 0, 0)});
  {
    const Loss loss = task.loss(batch);
    backward(loss.total, Tensor::full({}, 1.0, DType::f32, arena.device()));
  }
  arena.values().all().stream().synchronize();
  return now_s() - begin_s;
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

std::vector<Extents> probe_extents(const Extents& full, int64_t smallest) {
  BORA_CHECK(smallest >= 1 && full.d >= 1 && full.h >= 1 && full.w >= 1, "probe_extents: of ",
             full.d, 'x', full.h, 'x', full.w, " from ", smallest);
  Extents e{std::min(full.d, smallest), std::min(full.h, smallest), std::min(full.w, smallest)};
  std::vector<Extents> all{e};
  while (e.cells() < full.cells()) {
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

StepCost extrapolate(const std::vector<StepCost>& measured, const Extents& full, int64_t samples) {
  BORA_CHECK(!measured.empty(), "extrapolate: nothing was measured");
  const StepCost& last = measured.back();
  StepCost result{full, samples, last.bytes, last.seconds};
  const int64_t cells = result.cells();
  if (cells == last.cells()) return result;
  const auto ratio = static_cast<double>(cells) / static_cast<double>(last.cells());
  // Small passes are slower by the cell: a ratio says too much rather than too little.
  result.seconds = last.seconds * ratio;
  const StepCost* before = nullptr;
  for (const StepCost& m : measured)
    if (4 * m.cells() <= last.cells() + 3) before = &m;
  if (before == nullptr) {
    result.bytes = static_cast<int64_t>(static_cast<double>(last.bytes) * ratio);
    return result;
  }
  const double slope = static_cast<double>(last.bytes - before->bytes) /
                       static_cast<double>(last.cells() - before->cells());
  result.bytes =
      last.bytes + static_cast<int64_t>(slope * static_cast<double>(cells - last.cells()));
  return result;
}

std::vector<StepCost> measure_steps(Task& task, const RunConfig& config, Collective& ranks,
                                    nn::ParameterArena& arena, const data::Sample& like,
                                    const Extents& full, int64_t samples, double budget_s) {
  std::vector<StepCost> measured;
  task.model().set_training(true);
  const Device device = arena.device();
  double spent_s = 0;
  for (const Extents& extents : probe_extents(full, task.smallest_extent())) {
    StepCost cost{extents, samples, 0, 0};
    // Two passes of about twice the cells of the last ones.  The first one makes plans, too.
    if (measured.size() >= 3 && spent_s + 4 * measured.back().seconds > budget_s) break;
    data::Batch batch = batch_like(like, extents, samples);
    for (Tensor* t : {&batch.input, &batch.target, &batch.region}) *t = t->to(device);
    const int64_t before = memory_of(device).live;
    reset_memory_peaks(device);
    const double first_s = run_once(task, config, arena, batch);
    cost.seconds = run_once(task, config, arena, batch);
    cost.bytes = memory_of(device).peak - before;
    cost.bytes = ranks.all_reduce(cost.bytes, ReduceOp::max, "dry run: memory");
    spent_s += ranks.all_reduce(first_s + cost.seconds, ReduceOp::max, "dry run: time");
    cost.seconds = ranks.all_reduce(cost.seconds, ReduceOp::max, "dry run: time");
    measured.push_back(cost);
  }
  return measured;
}

int64_t sample_bytes(const data::Sample& like, const Extents& extents) {
  const int64_t cells = std::max<int64_t>(like.region.numel(), 1);
  int64_t bytes = 0;
  for (const Tensor* t : {&like.input, &like.target, &like.region, &like.valid})
    if (t->defined()) bytes += t->bytes() / cells * extents.cells();
  return bytes;
}

}  // namespace bora::train
