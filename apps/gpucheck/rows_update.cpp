// SPDX-License-Identifier: Apache-2.0
// Rows of kernels/optim.hpp, kernels/grad_stats.hpp and kernels/loss_scale.hpp.
#include "apps/gpucheck/kernel_table.hpp"
#include "kernels/ema.hpp"
#include "kernels/grad_stats.hpp"
#include "kernels/loss_scale.hpp"
#include "kernels/optim.hpp"
#include "kernels/step_scalars.hpp"

namespace bora::gpucheck {
namespace {

namespace k = kernels;

Shape flat(const Shape& s) { return {s.numel()}; }

/// The working copy is there where the type under test is narrow, as in mixed precision.
k::OptimBuffers buffers(KernelRun& r, const Shape& s, bool two_slots) {
  k::OptimBuffers b;
  b.gradient = r.input(flat(s));
  b.master = r.inout(r.input(flat(s), Role::accumulator));
  b.slot0 = r.inout(r.input(flat(s), Role::accumulator, Fill::positive));
  if (two_slots) b.slot1 = r.inout(r.input(flat(s), Role::accumulator, Fill::positive));
  if (r.type() == DType::f16 || r.type() == DType::bf16) b.working = r.output(flat(s));
  return b;
}
/// What the working copy should be, for the runs that have none.
void expect_working(KernelRun& r, const k::OptimBuffers& b) {
  if (b.working.defined()) return;
  Tensor wanted = r.output(b.master.shape());
  wanted.copy_from(b.master);
}

void adamw(KernelRun& r, const Shape& s) {
  k::OptimBuffers b = buffers(r, s, true);
  const k::AdamWUpdate update{.weight_decay = 1e-4, .step = 3, .gradient_factor = 0.5};
  r.call([&] { k::adamw(r.stream(), update, b); });
  expect_working(r, b);
}
void sgd(KernelRun& r, const Shape& s) {
  k::OptimBuffers b = buffers(r, s, false);
  const k::SgdUpdate update{.momentum = 0.9, .weight_decay = 1e-4, .nesterov = true};
  r.call([&] { k::sgd(r.stream(), update, b); });
  expect_working(r, b);
}

void grad_stats(KernelRun& r, const Shape& s) {
  const Tensor gradient = r.input(flat(s));
  Tensor out = r.output({3}, Role::f64);
  r.call([&] { k::grad_stats(r.stream(), gradient, out); });
}
void unscale_and_stats(KernelRun& r, const Shape& s) {
  Tensor gradient = r.inout(r.input(flat(s)));
  Tensor out = r.output({3}, Role::f64);
  r.call([&] { k::unscale_and_stats(r.stream(), 0.5, gradient, out); });
}
/// Numbers of a run with a loss scale of 8 at its fourth update.
Tensor scalars(KernelRun& r) {
  k::StepScalars first;
  first.updates = 3;
  first.scale.scale = 8;
  return k::step_scalars_on(r.device(), first);
}
void scaled_grad_stats(KernelRun& r, const Shape& s) {
  const Tensor gradient = r.input(flat(s));
  Tensor numbers = r.inout(scalars(r));
  Tensor out = r.output({3}, Role::f64);
  r.call([&] { k::scaled_grad_stats(r.stream(), numbers, gradient, out); });
}
void step_scalars(KernelRun& r, const Shape&) {
  k::StepRule rule;
  rule.schedule.total = 10;
  rule.max_norm = 0.5;
  rule.scales = true;
  const Tensor on_device = k::step_rule_on(r.device(), rule);
  // Column 1 counts what is not finite: nothing.
  Tensor stats = r.inout(r.input({3}, Role::f64, Fill::positive));
  Tensor count = stats.rows(1, 2);
  count.fill(0);
  Tensor numbers = r.inout(scalars(r));
  r.call([&] { k::step_scalars(r.stream(), on_device, stats, numbers); });
}
void loss_seed(KernelRun& r, const Shape&) {
  const Tensor numbers = scalars(r);
  Tensor seed = r.output({}, Role::accumulator);
  if (r.type() == DType::f64) {
    seed.fill(0.25 * 8);  // by its definition: the kernel gives f32 only
    return;
  }
  r.call([&] { k::loss_seed(r.stream(), 0.25, numbers, seed); });
}

void advance_loss_scale(KernelRun& r, const Shape&) {
  const Tensor stats = r.input({3}, Role::f64, Fill::positive);  // [1] > 0: an overflow
  Tensor state = r.inout(r.input({4}, Role::f64, Fill::positive));
  r.call([&] { k::advance_loss_scale(r.stream(), {.lowest = 0.1}, stats, state); });
}

void ema_share(KernelRun& r, const Shape&) {
  const Tensor numbers = scalars(r);
  Tensor share = r.output({}, Role::accumulator);
  if (r.type() == DType::f64) {
    share.fill(1.0 - k::ema_decay(0.999, 2));  // by its definition: the kernel gives f32 only
    return;
  }
  r.call([&] { k::ema_share(r.stream(), 0.999, 1, numbers, share); });
}
void ema_update(KernelRun& r, const Shape& s) {
  const Tensor values = r.input(flat(s));
  Tensor average = r.inout(r.input(flat(s)));
  const Tensor share = Tensor::full({}, 0.125, DType::f32, r.device());
  r.call([&] { k::ema_update(r.stream(), share, values, average); });
}
void swap_contents(KernelRun& r, const Shape& s) {
  Tensor a = r.inout(r.input(flat(s))), b = r.inout(r.input(flat(s)));
  r.call([&] { k::swap_contents(r.stream(), a, b); });
}

}  // namespace

std::vector<Row> update_rows() {
  return {{.name = "adamw", .run = adamw, .roundings = 24},
          {.name = "sgd", .run = sgd, .roundings = 16},
          {.name = "grad_stats", .run = grad_stats, .roundings = 4},
          {.name = "unscale_and_stats", .run = unscale_and_stats, .roundings = 4},
          {.name = "scaled_grad_stats", .run = scaled_grad_stats, .roundings = 4},
          {.name = "step_scalars", .run = step_scalars, .roundings = 2, .types = {DType::f32}},
          {.name = "loss_seed", .run = loss_seed, .roundings = 2, .types = {DType::f32}},
          {.name = "advance_loss_scale",
           .run = advance_loss_scale,
           .roundings = 2,
           .types = {DType::f32}},
          {.name = "ema_share", .run = ema_share, .roundings = 2, .types = {DType::f32}},
          {.name = "ema_update", .run = ema_update, .roundings = 4, .types = {DType::f32}},
          {.name = "swap_contents", .run = swap_contents, .roundings = 1, .types = {DType::f32}}};
}

const std::vector<Row>& kernel_table() {
  static const std::vector<Row> table = [] {
    std::vector<Row> all;
    for (const auto& rows : {activation_rows(), pointwise_rows(), norm_rows(), loss_rows(),
                             volume_rows(), convolution_rows(), update_rows()})
      all.insert(all.end(), rows.begin(), rows.end());
    return all;
  }();
  return table;
}

}  // namespace bora::gpucheck
