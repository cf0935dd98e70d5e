// SPDX-License-Identifier: Apache-2.0
// The numbers of an update that stay on the device: the same bits as the host's path (features 129,
// 131, 143).
#include "kernels/step_scalars.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "kernels/grad_stats.hpp"
#include "nn/amp/grad_scaler.hpp"
#include "nn/layers/conv3d.hpp"
#include "nn/optim/optimizer.hpp"
#include "nn/optim/schedule.hpp"
#include "tests/support/random.hpp"

namespace bora::nn {
namespace {

using kernels::StepRule;
using kernels::StepScalars;

#if defined(BORA_EMULATED_CUDA)
const Device kDevice = cuda(0);
#else
const Device kDevice = cpu();
#endif

struct Net : Module {
  Linear a{37, 29, Bias::yes}, b{29, 5, Bias::yes};
  void visit(Visitor& v) override {
    v.child("a", a);
    v.child("b", b);
  }
};

/// A network, its optimizer and what its gradients are in window w.
struct Rig {
  Net net;
  ParameterArena arena;
  std::unique_ptr<Optimizer> optimizer;

  Rig(Device device, DType half, bool sgd) : arena(net, DType::f32, half, device) {
    if (sgd)
      optimizer = make_sgd(arena, {.momentum = 0.9, .nesterov = true, .weight_decay = 0.01});
    else
      optimizer = make_adamw(arena, {.weight_decay = 0.1, .decay_all = false});
    const int64_t n = arena.layout().size();
    std::vector<float> start(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) start[static_cast<size_t>(i)] = std::sin(0.37f * float(i));
    arena.values().all().copy_from(Tensor::from<float>({n}, start));
    arena.refresh_working();
  }
  void gradients(int window, double scale, bool overflow) {
    const int64_t n = arena.layout().size();
    std::vector<float> g(static_cast<size_t>(n));
    const RngKey key{7, static_cast<uint64_t>(window)};
    for (int64_t i = 0; i < n; ++i)
      g[static_cast<size_t>(i)] =
          static_cast<float>(scale * (0.3 * key.normal(static_cast<uint64_t>(i)) + 0.01 * window));
    if (overflow) g[static_cast<size_t>(n / 2)] = std::numeric_limits<float>::infinity();
    arena.gradients().all().copy_from(Tensor::from<float>({n}, g));
  }
  std::vector<float> weights() { return arena.values().all().to_vector<float>(); }
  std::vector<float> working() { return arena.working().all().to(DType::f32).to_vector<float>(); }
};

struct Case {
  const char* name;
  Schedule schedule;
  double max_norm;
  bool scales;
  kernels::LossScaleRule scale;
  bool sgd;
};

const Case kCases[] = {
    {"one_cycle", {.peak = 0.02, .total = 30}, 1.0, true, {.interval = 5}, false},
    {"no clipping", {.kind = Schedule::Kind::constant}, 0.0, true, {.interval = 3}, false},
    {"no scale", {.kind = Schedule::Kind::cosine, .total = 20, .warmup = 4}, 2.0, false, {}, false},
    {"steps, later",
     {.kind = Schedule::Kind::step, .total = 30, .step_every = 7},
     50.0,
     true,
     {.hysteresis = 2},
     false},
    {"odd scales",
     {.peak = 0.01, .total = 25},
     0.7,
     true,
     {.initial = 1000, .growth = 1.7, .backoff = 0.3, .interval = 3, .lowest = 0.1},
     false},
    {"sgd", {.peak = 0.1, .total = 30}, 1.0, true, {.interval = 4}, true},
};

TEST(StepScalars, GiveTheBitsOfTheHostsPath) {
  for (const Case& c : kCases)
    for (const DType half : {DType::f16, DType::f32}) {
      SCOPED_TRACE(testing::Message() << c.name << ' ' << name_of(half));
      Rig host(cpu(), half, c.sgd), device(kDevice, half, c.sgd);
      GradScaler scaler(c.scale);
      const StepRule rule{.schedule = c.schedule,
                          .max_norm = c.max_norm,
                          .scales = c.scales,
                          .loss_scale = c.scale,
                          .beta1 = device.optimizer->own_momentum(),
                          .beta2 = device.optimizer->own_beta2()};
      StepScalars first;
      first.scale = {c.scales ? c.scale.initial : 1.0, 0, 0, 0};
      const Tensor rule_there = kernels::step_rule_on(kDevice, rule);
      Tensor scalars = kernels::step_scalars_on(kDevice, first);
      Tensor stats = Tensor::zeros({3}, DType::f64, kDevice);
      for (int w = 0; w < 24; ++w) {
        const bool overflow = c.scales && (w % 7 == 5 || w == 3);
        const double scale = c.scales ? scaler.scale() : 1.0;
        host.gradients(w, scale, overflow);
        device.gradients(w, scale, overflow);
        // The host's path, as apps/common/updater.cpp has it.
        const int64_t done = host.optimizer->updates();
        const GradientNorm norm = c.scales ? scaler.unscale(host.arena) : gradient_norm(host.arena);
        const double lr = learning_rate(c.schedule, done);
        if (norm.non_finite == 0)
          host.optimizer->step({.lr = lr,
                                .momentum = momentum(c.schedule, done, -1.0),
                                .gradient_factor = clip_factor(norm.norm, c.max_norm)});
        if (c.scales) scaler.advance();
        // The device's.
        const Stream s = scalars.stream();
        const std::vector<float> before = device.arena.gradients().all().to_vector<float>();
        kernels::scaled_grad_stats(s, scalars, device.arena.gradients().all(), stats);
        kernels::step_scalars(s, rule_there, stats, scalars);
        device.optimizer->step_from(scalars);
        const StepScalars now = kernels::step_scalars_of(scalars.to(cpu()));
        ASSERT_EQ(now.skip, overflow ? 1.0 : 0.0) << w;
        ASSERT_EQ(now.updates, static_cast<double>(host.optimizer->updates())) << w;
        ASSERT_EQ(now.window_scale, scale) << w;
        if (c.scales) {
          ASSERT_EQ(now.scale.scale, scaler.scale()) << w;
          ASSERT_EQ(now.scale.skipped, static_cast<double>(scaler.skipped())) << w;
        }
        ASSERT_EQ(now.rate, lr) << w;
        ASSERT_EQ(now.non_finite, static_cast<double>(norm.non_finite)) << w;
        if (!overflow) {
          // A device sums the squares in another order, in f64: n terms of one sign, 2^-53 each.
          const double order = kDevice == cpu() ? 0.0 : 2e3 * 0x1p-53;
          ASSERT_NEAR(now.norm, norm.norm, order * norm.norm) << w;
          ASSERT_EQ(now.clip, clip_factor(now.norm, c.max_norm)) << w;
        }
        ASSERT_EQ(device.weights(), host.weights()) << "window " << w;
        if (half == DType::f16) {
          ASSERT_EQ(device.working(), host.working()) << w;
        }
        if (!overflow) {
          ASSERT_EQ(device.arena.gradients().all().to_vector<float>(), before)
              << "the gradients are read only";
        }
      }
      EXPECT_GT(host.optimizer->updates(), 15);
    }
}

// Not finite where no smaller scale helps: sticky, so that windows already on their way change
// nothing either.
TEST(StepScalars, ARefusalStays) {
  for (const bool scales : {false, true}) {
    Rig rig(kDevice, DType::f32, false);
    const StepRule rule{.schedule = {.kind = Schedule::Kind::constant},
                        .scales = scales,
                        .loss_scale = {.initial = 4, .lowest = 2}};
    StepScalars first;
    first.scale = {scales ? 4.0 : 1.0, 0, 0, 0};
    const Tensor rule_there = kernels::step_rule_on(kDevice, rule);
    Tensor scalars = kernels::step_scalars_on(kDevice, first);
    Tensor stats = Tensor::zeros({3}, DType::f64, kDevice);
    const auto window = [&](bool overflow) {
      rig.gradients(1, 1.0, overflow);
      kernels::scaled_grad_stats(scalars.stream(), scalars, rig.arena.gradients().all(), stats);
      kernels::step_scalars(scalars.stream(), rule_there, stats, scalars);
      rig.optimizer->step_from(scalars);
      return kernels::step_scalars_of(scalars.to(cpu()));
    };
    if (scales) {
      EXPECT_EQ(window(true).refused, 0.0) << "4 can still be halved";
    }
    const std::vector<float> before = rig.weights();
    EXPECT_EQ(window(true).refused, 1.0);
    const StepScalars after = window(false);
    EXPECT_EQ(after.refused, 1.0);
    EXPECT_EQ(after.skip, 1.0);
    EXPECT_EQ(after.updates, 0.0);
    EXPECT_EQ(rig.weights(), before);
  }
}

TEST(StepScalars, ARuleOnTheDeviceCanBeReplaced) {
  Tensor rule = kernels::step_rule_on(kDevice, {.schedule = {.kind = Schedule::Kind::constant}});
  Tensor scalars = kernels::step_scalars_on(kDevice, {});
  const Tensor stats = Tensor::zeros({3}, DType::f64, kDevice);
  kernels::step_scalars(scalars.stream(), rule, stats, scalars);
  EXPECT_EQ(kernels::step_scalars_of(scalars.to(cpu())).rate, 1e-3);
  const void* place = rule.raw();
  kernels::set_step_rule(rule, {.schedule = {.kind = Schedule::Kind::constant, .peak = 0.5}});
  EXPECT_EQ(rule.raw(), place);
  kernels::step_scalars(scalars.stream(), rule, stats, scalars);
  EXPECT_EQ(kernels::step_scalars_of(scalars.to(cpu())).rate, 0.5);
}

TEST(StepScalars, SeedIsWeightTimesScale) {
  StepScalars s;
  s.scale.scale = 1024;
  const Tensor scalars = kernels::step_scalars_on(kDevice, s);
  Tensor seed = Tensor::empty({}, DType::f32, kDevice);
  kernels::loss_seed(seed.stream(), 0.3, scalars, seed);
  EXPECT_EQ(seed.item(), static_cast<double>(static_cast<float>(0.3 * 1024)));
}

TEST(StepScalars, RefuseWhatDoesNotFit) {
  Tensor scalars = kernels::step_scalars_on(kDevice, {}), rule = kernels::step_rule_on(kDevice, {});
  Tensor stats = Tensor::zeros({3}, DType::f64, kDevice),
         four = Tensor::zeros({4}, DType::f64, kDevice);
  const Stream s = scalars.stream();
  EXPECT_THROW(kernels::step_scalars(s, rule, four, scalars), Error);
  EXPECT_THROW(kernels::step_scalars(s, rule, stats, four), Error);
  EXPECT_THROW(kernels::step_scalars(s, stats, stats, scalars), Error);
  Rig rig(kDevice, DType::f32, false);
  EXPECT_THROW(rig.optimizer->step_from(four), Error);
  EXPECT_THROW(kernels::scaled_grad_stats(s, four, rig.arena.gradients().all(), stats), Error);
}

// A checkpoint of a device's scaler is that of the host's.
TEST(GradScaler, StateMovesIntoTheScalars) {
  GradScaler scaler({.initial = 512});
  Tensor scalars = kernels::step_scalars_on(kDevice, {});
  scaler.move_state_to(scalars.view(1, {4}));
  EXPECT_EQ(scaler.scale(), 512.0);
  EXPECT_EQ(kernels::step_scalars_of(scalars.to(cpu())).scale.scale, 512.0);
  scalars.view(1, {1}).copy_from(Tensor::from<double>({1}, std::vector<double>{64}));
  EXPECT_EQ(scaler.scale(), 64.0);
  EXPECT_THROW(scaler.move_state_to(scalars), Error);
}

}  // namespace
}  // namespace bora::nn
