// SPDX-License-Identifier: Apache-2.0
// The end of a window, on the device under test against the CPU: reports, skips, refusals, loading
// (features 129, 131, 134), and the average
// of the weights beside them (135, 183).
#include "apps/common/updater.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "core/rng.hpp"
#include "core/step_graph.hpp"
#include "core/tape.hpp"
#include "nn/layers/conv3d.hpp"
#include "nn/ops.hpp"
#include "tests/apps/device_under_test.hpp"

namespace bora::apps {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// One rank has nothing to exchange.
struct Alone final : GradientExchange {
  void begin_micro_step(bool) override {}
  void end_micro_step() override {}
  void finish() override {}
  void abandon() override {}
};

struct Net : nn::Module {
  nn::Linear a{17, 13, nn::Bias::yes}, b{13, 3, nn::Bias::yes};
  void visit(nn::Visitor& v) override {
    v.child("a", a);
    v.child("b", b);
  }
};

const nn::Schedule kSchedule{.peak = 0.02, .total = 40};

struct Rig {
  Net net;
  nn::ParameterArena arena;
  std::unique_ptr<nn::Optimizer> optimizer;
  Alone exchange;
  nn::GradScaler scaler;
  nn::Ema ema;
  Updater updater;

  explicit Rig(Device device, bool scales = true, const kernels::LossScaleRule& rule = {})
      : arena(net, DType::f32, device),
        optimizer(nn::make_adamw(arena, {})),
        scaler(rule, device),
        ema(arena, 0.9),
        updater(arena, *optimizer, exchange, kSchedule, 1.0, scales ? &scaler : nullptr) {
    const int64_t n = arena.layout().size();
    std::vector<float> start(static_cast<size_t>(n));
    for (size_t i = 0; i < start.size(); ++i) start[i] = std::sin(static_cast<float>(i));
    arena.values().all().copy_from(Tensor::from<float>({n}, start));
    ema.begin(0);
    updater.average_with(&ema);
  }
  /// Gradients of window w on the device, without a wait in the calls that are counted.
  Tensor gradients_of(int w, double scale, bool overflow) {
    const int64_t n = arena.layout().size();
    std::vector<float> g(static_cast<size_t>(n));
    const RngKey key{3, static_cast<uint64_t>(w)};
    for (size_t i = 0; i < g.size(); ++i) g[i] = static_cast<float>(scale * key.normal(i));
    if (overflow) g[1] = std::numeric_limits<float>::quiet_NaN();
    return Tensor::from<float>({n}, g, arena.device());
  }
  int64_t window(const Tensor& gradients) {
    updater.begin_window();
    arena.gradients().all().copy_from(gradients);
    return updater.end_window();
  }
  std::vector<float> weights() { return arena.values().all().to_vector<float>(); }
  std::vector<float> average() { return ema.average().all().to_vector<float>(); }
};

TEST(Updater, ReportsOnTheDeviceAreThoseOfTheCpu) {
  const Device device = testing::device_under_test();
  for (const bool scales : {true, false}) {
    const kernels::LossScaleRule rule{.initial = 1024, .interval = 4};
    Rig host(cpu(), scales, rule), there(device, scales, rule);
    EXPECT_EQ(there.updater.on_device(), device != cpu());
    for (int w = 1; w <= 20; ++w) {
      const bool overflow = scales && w % 6 == 3;
      const double scale = host.updater.loss_scale();
      EXPECT_EQ(there.updater.loss_scale(), scale);
      EXPECT_EQ(there.updater.seed(0.3).item(),
                static_cast<double>(static_cast<float>(0.3 * scale)));
      EXPECT_EQ(host.window(host.gradients_of(w, scale, overflow)), w);
      EXPECT_EQ(there.window(there.gradients_of(w, scale, overflow)), w);
      const std::vector<UpdateReport> want = host.updater.reports(), got = there.updater.reports(w);
      ASSERT_EQ(want.size(), 1u);
      ASSERT_EQ(got.size(), 1u);
      const UpdateReport &a = want[0], &b = got[0];
      EXPECT_EQ(b.window, w);
      EXPECT_EQ(b.update, a.update);
      EXPECT_EQ(b.lr, a.lr);
      EXPECT_NEAR(b.clip, a.clip, 300 * 0x1p-53);
      EXPECT_EQ(b.skipped, a.skipped);
      EXPECT_EQ(b.skipped, overflow);
      EXPECT_EQ(b.loss_scale, a.loss_scale);
      EXPECT_EQ(b.next_loss_scale, a.next_loss_scale);
      EXPECT_EQ(b.skipped_so_far, a.skipped_so_far);
      if (!overflow) {
        // Summed in another order, in f64: 300 terms of one sign, 2^-53 each.
        EXPECT_NEAR(b.gradient_norm, a.gradient_norm, 300 * 0x1p-53 * a.gradient_norm);
      }
      EXPECT_EQ(there.optimizer->updates(), host.optimizer->updates());
      ASSERT_EQ(there.weights(), host.weights()) << "window " << w;
      ASSERT_EQ(there.average(), host.average()) << "window " << w;
      ASSERT_NE(host.average(), host.weights());
    }
  }
}

TEST(Updater, ReportsComeInOrderEachOnce) {
  Rig rig(testing::device_under_test());
  const Tensor g = rig.gradients_of(1, 65536, false);
  for (int w = 1; w <= 4; ++w) rig.window(g);
  EXPECT_EQ(rig.updater.pending(), 4);
  EXPECT_THROW(rig.updater.finish_window(), Error);
  const std::vector<UpdateReport> all = rig.updater.reports(4);
  ASSERT_EQ(all.size(), 4u);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].window, static_cast<int64_t>(i) + 1);
  EXPECT_TRUE(rig.updater.reports(4).empty());
  EXPECT_EQ(rig.updater.finish_window().window, 5);
}

#if defined(BORA_EMULATED_CUDA)
// backward's end -> reduce -> statistics -> scalars -> AdamW -> readback: the host never waits.
TEST(Updater, NothingWaitsForTheDevice) {
  Rig rig(cuda(0));
  const Tensor good = rig.gradients_of(1, 65536, false), bad = rig.gradients_of(2, 65536, true);
  rig.window(good);
  rig.updater.reports(1);
  const int64_t allocations = simt::counters().allocations;
  EXPECT_EQ(testing::count_synchronisations([&] {
              for (int w = 0; w < 10; ++w) {
                const Tensor seed = rig.updater.seed(0.5);
                rig.window(w % 4 == 2 ? bad : good);
                rig.updater.reports();
              }
            }),
            0);
  EXPECT_EQ(simt::counters().allocations, allocations);
  EXPECT_EQ(rig.optimizer->updates() + rig.scaler.skipped(), 11);
}
#endif

TEST(Updater, ARefusalNamesWhatItFoundAndLeavesTheWeights) {
  const Device device = testing::device_under_test();
  for (const bool scales : {true, false}) {
    Rig rig(device, scales, {.initial = 1, .lowest = 1});
    const Tensor good = rig.gradients_of(1, 1, false), bad = rig.gradients_of(2, 1, true);
    rig.window(good);
    rig.updater.reports(1);
    const std::vector<float> before = rig.weights(), average = rig.average();
    rig.updater.find_suspect_with([](int64_t) { return std::string("the output of silu"); });
    const auto run = [&] {
      rig.window(bad);
      rig.updater.reports(2);
    };
    EXPECT_THAT(run,
                ThrowsMessage<Error>(AllOf(HasSubstr("update 2: 1 gradient values are NaN or inf"),
                                           HasSubstr("the first in the gradient of '"),
                                           HasSubstr("the weights are untouched"))));
    EXPECT_EQ(rig.weights(), before);
    EXPECT_EQ(rig.average(), average);
    if (device == cpu()) continue;
    // Windows that were on their way change nothing either, and say the same.
    EXPECT_THAT(
        [&] {
          rig.window(good);
          rig.updater.reports(3);
        },
        ThrowsMessage<Error>(HasSubstr("the first was the output of silu")));
    EXPECT_EQ(rig.weights(), before);
    EXPECT_EQ(rig.average(), average);
  }
}

TEST(Updater, GoesOnFromALoadedState) {
  Rig rig(testing::device_under_test());
  rig.optimizer->set_updates(7);  // as a checkpoint does
  UpdateReport report;
  const Tensor g = rig.gradients_of(1, 65536, false);
  rig.window(g);
  report = rig.updater.reports(1).at(0);
  EXPECT_EQ(report.update, 8);
  EXPECT_EQ(report.lr, nn::learning_rate(kSchedule, 7));
  nn::Schedule other = kSchedule;
  other.peak = 0.5;
  rig.updater.set_schedule(other);
  rig.window(g);
  EXPECT_EQ(rig.updater.reports(2).at(0).lr, nn::learning_rate(other, 8));
  other.total = 0;
  EXPECT_THROW(rig.updater.set_schedule(other), Error);
}

#if defined(BORA_EMULATED_CUDA)
struct History {
  std::vector<std::vector<float>> weights, averages;
  std::vector<UpdateReport> reports;
  StepGraph::Way way = StepGraph::Way::eager;
};

/// Forward, backward and update as one step; window 7 overflows.
History train(bool graphs) {
  Rig rig(cuda(0), true, {.initial = 1024, .interval = 5});
  StepGraph graph(cuda(0), {.enabled = graphs, .warm_up = 2});
  Tensor x = Tensor::zeros({6, 17}, DType::f32, cuda(0));
  History run;
  for (int w = 1; w <= 14; ++w) {
    std::vector<float> values(6 * 17);
    const RngKey key{5, static_cast<uint64_t>(w)};
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(key.normal(i));
    if (w == 7) values[3] = std::numeric_limits<float>::infinity();
    x.copy_from(Tensor::from<float>({6, 17}, values));
    rig.updater.begin_window();
    graph.run("step", {x}, [&] {
      const Tensor y = rig.net.b.forward(nn::silu(rig.net.a.forward(x)));
      backward(nn::mean(nn::mul(y, y)), rig.updater.seed(0.5));
      rig.updater.enqueue_update();
      return std::vector<Tensor>{};
    });
    const int64_t ticket = rig.updater.post_report();
    run.reports.push_back(rig.updater.reports(ticket).at(0));
    run.weights.push_back(rig.weights());
    run.averages.push_back(rig.average());
  }
  run.way = graph.way("step");
  return run;
}

// Eager, replayed, and with all memory poisoned: the same bits, also where a replay skips.
TEST(Updater, AStepThatIsReplayedGivesTheBitsOfTheEagerOne) {
  const History eager = train(false), graph = train(true);
  set_memory_poison(true);
  const History poisoned = train(true);
  set_memory_poison(false);
  EXPECT_EQ(graph.way, StepGraph::Way::replayed);
  for (const History* run : {&graph, &poisoned}) {
    EXPECT_EQ(run->weights, eager.weights);
    EXPECT_EQ(run->averages, eager.averages);
    for (size_t i = 0; i < eager.reports.size(); ++i) {
      EXPECT_EQ(run->reports[i].skipped, i == 6) << i;
      EXPECT_EQ(run->reports[i].update, eager.reports[i].update);
      EXPECT_EQ(run->reports[i].lr, eager.reports[i].lr);
      EXPECT_EQ(run->reports[i].loss_scale, eager.reports[i].loss_scale);
    }
  }
  EXPECT_EQ(eager.weights[6], eager.weights[5]);
  EXPECT_NE(eager.weights[7], eager.weights[6]);
  EXPECT_EQ(eager.averages[6], eager.averages[5]);
  EXPECT_NE(eager.averages[7], eager.averages[6]);
}
#endif

}  // namespace
}  // namespace bora::apps
