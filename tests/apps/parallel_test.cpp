// SPDX-License-Identifier: Apache-2.0
// N ranks with batch b follow one rank with batch N b (features 21, 36-38, 48, 49): f64 gradients
// to 1e-10, f32 loss curves to 1e-4 over 20 updates.  Runs under mpirun with 1, 2 and 4 ranks; each
// rank computes the single-rank truth by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "apps/common/updater.hpp"
#include "apps/unet3d/loss.hpp"
#include "apps/unet3d/model.hpp"
#include "comm/broadcast_state.hpp"
#include "comm/communicator.hpp"
#include "comm/gradient_reducer.hpp"
#include "core/precision.hpp"
#include "core/rng.hpp"
#include "nn/parameter_arena.hpp"
#include "tests/support/mpi_main.hpp"

namespace bora::unet3d {
namespace {

constexpr int64_t kGlobalBatch = 4;
const ModelConfig kModel{.base = 4, .levels = 2};

Tensor noise(const Shape& shape, DType type, uint64_t seed) {
  const RngKey key{seed, 21};
  std::vector<double> v(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = key.normal(i);
  return Tensor::from<double>(shape, v).to(type);
}

struct Problem {
  Tensor x, t, region;  // kGlobalBatch samples with unequal numbers of open cells
  explicit Problem(DType type, uint64_t seed = 1) {
    const Shape shape{kGlobalBatch, 9, 8, 6, 1};
    x = noise(shape, type, seed);
    t = noise(shape, type, seed + 1);
    region = Tensor::zeros({kGlobalBatch, 9, 8, 6}, DType::u8);
    const RngKey key{seed, 3};
    const int64_t cells = 9 * 8 * 6;
    for (int64_t i = 0; i < region.numel(); ++i)
      region.data<uint8_t>()[i] =
          key.uniform(static_cast<uint64_t>(i)) < 0.2 + 0.2 * static_cast<double>(i / cells);
  }
  Problem rows(int64_t begin, int64_t end) const {
    Problem part = *this;
    part.x = x.rows(begin, end);
    part.t = t.rows(begin, end);
    part.region = region.rows(begin, end);
    return part;
  }
};

struct Rig {
  UNet3d net{1, 1, kModel};
  nn::ParameterArena arena;
  Rig(DType type, uint64_t seed) : arena(net, type) { nn::initialise(net, seed); }

  double forward_backward(const Problem& p, double weight) {
    const Loss loss = compute_loss({}, net.forward(p.x), p.t, p.region);
    backward(loss.total, Tensor::full({}, weight, p.x.dtype()));
    return loss.value(0);
  }
};

class Parallel : public ::testing::Test {
 protected:
  std::unique_ptr<Collective> ranks = make_communicator(bora::testing::session());
  int64_t share = kGlobalBatch / ranks->size();
  Problem mine(const Problem& all) const {
    return all.rows(ranks->rank() * share, (ranks->rank() + 1) * share);
  }
};

// Features 21, 37: gradients of all ranks equal the full batch's.
TEST_F(Parallel, GradientsEqualTheFullBatchIn64Bit) {
  const Problem all(DType::f64);
  Rig truth(DType::f64, 5), rig(DType::f64, 5);
  truth.forward_backward(all, 1.0);
  GradientReducer reducer(rig.arena.gradients(), rig.arena.leaves(), *ranks, {.op = ReduceOp::sum});
  rig.forward_backward(mine(all), static_cast<double>(share) / kGlobalBatch);
  reducer.finish();
  const auto expected = truth.arena.gradients().all().to_vector<double>();
  const auto got = rig.arena.gradients().all().to_vector<double>();
  double largest = 0, off = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::fabs(expected[i]));
    off = std::max(off, std::fabs(expected[i] - got[i]));
  }
  ASSERT_GT(largest, 1e-3);
  EXPECT_LE(off, 1e-10 * largest);
}

// Feature 36: seeds differ, yet all ranks hold rank 0's parameters after the broadcast.
TEST_F(Parallel, DifferentSeedsAreJoinedByTheBroadcast) {
  Rig rig(DType::f32, 100 + static_cast<uint64_t>(ranks->rank())), rank0(DType::f32, 100);
  Tensor all = rig.arena.values().all();
  broadcast_buffers(*ranks, {&all});
  EXPECT_EQ(rig.arena.values().all().to_vector<float>(),
            rank0.arena.values().all().to_vector<float>());
}

// Features 38, 47, 48: 20 updates of AdamW with clipping; also with the share cut into micro-steps.
TEST_F(Parallel, LossCurveFollowsOneRank) {
  for (const int64_t micro_steps : {int64_t{1}, share}) {
    Rig truth(DType::f32, 5), rig(DType::f32, 5);
    const nn::Schedule schedule{.peak = 3e-3, .total = 20};
    const auto self = make_self_communicator();
    const auto truth_optimizer = nn::make_adamw(truth.arena, {}),
               optimizer = nn::make_adamw(rig.arena, {});
    GradientReducer truth_reducer(truth.arena.gradients(), truth.arena.leaves(), *self,
                                  {.op = ReduceOp::sum});
    GradientReducer reducer(rig.arena.gradients(), rig.arena.leaves(), *ranks,
                            {.op = ReduceOp::sum});
    apps::Updater truth_updater(truth.arena, *truth_optimizer, truth_reducer, schedule, 1.0);
    apps::Updater updater(rig.arena, *optimizer, reducer, schedule, 1.0);
    double first = 0, last = 0;
    for (uint64_t step = 0; step < 20; ++step) {
      const Problem all(DType::f32, step % 3);
      truth_updater.begin_window();
      const double expected = truth.forward_backward(all, 1.0);
      truth_updater.finish_window();

      updater.begin_window();
      double sum = 0;
      const int64_t per_step = share / micro_steps;
      for (int64_t k = 0; k < micro_steps; ++k) {
        reducer.set_enabled(k + 1 == micro_steps);
        const Problem part = mine(all).rows(k * per_step, (k + 1) * per_step);
        sum += static_cast<double>(per_step) *
               rig.forward_backward(
                   part, static_cast<double>(per_step) / static_cast<double>(kGlobalBatch));
      }
      updater.finish_window();
      const double loss =
          ranks->all_reduce(sum, ReduceOp::sum, "loss") / static_cast<double>(kGlobalBatch);
      EXPECT_NEAR(loss / expected, 1.0, 1e-4)
          << "update " << step << ", " << micro_steps << " micro-steps";
      if (step == 0) first = loss;
      last = loss;
    }
    EXPECT_LT(last, 0.95 * first);
    // Feature 49: one reduction a window.
    EXPECT_EQ(reducer.counters().windows, 20);
    EXPECT_EQ(reducer.counters().reductions, 20 * static_cast<int64_t>(reducer.buckets().size()));
    check_same_everywhere(*ranks, {{"weights", rig.arena.values().all()}},
                          "weights after 20 updates");
  }
}

// A rank with nothing of its own takes part with weight 0.
TEST_F(Parallel, WeightZeroLeavesTheOthersGradient) {
  const Problem all(DType::f64);
  Rig truth(DType::f64, 5), rig(DType::f64, 5);
  truth.forward_backward(all.rows(0, 1), 1.0);
  GradientReducer reducer(rig.arena.gradients(), rig.arena.leaves(), *ranks, {.op = ReduceOp::sum});
  rig.forward_backward(all.rows(0, 1), ranks->rank() == 0 ? 1.0 : 0.0);
  reducer.finish();
  const auto expected = truth.arena.gradients().all().to_vector<double>();
  const auto got = rig.arena.gradients().all().to_vector<double>();
  for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 1e-14) << i;
}

// A NaN on one rank stops all ranks at the same update, names the parameter, and leaves the weights
// alone (feature 127).
TEST_F(Parallel, NonFiniteGradientStopsAllRanksAndIsNamed) {
  Rig rig(DType::f32, 5);
  const auto optimizer = nn::make_adamw(rig.arena, {});
  GradientReducer reducer(rig.arena.gradients(), rig.arena.leaves(), *ranks, {.op = ReduceOp::sum});
  apps::Updater updater(rig.arena, *optimizer, reducer, {.total = 10}, 1.0);
  const auto before = rig.arena.values().all().to_vector<float>();
  Problem p = mine(Problem(DType::f32));
  if (ranks->rank() == ranks->size() - 1) {
    p.x = p.x.clone();
    p.x.data<float>()[0] = std::nanf("");
  }
  updater.begin_window();
  rig.forward_backward(p, 1.0);
  try {
    updater.finish_window();
    FAIL() << "went on";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("head.bias"), std::string::npos) << e.what();
  }
  EXPECT_EQ(rig.arena.values().all().to_vector<float>(), before);
  EXPECT_EQ(optimizer->updates(), 0);
}

// Features 68, 130: an overflow on one rank skips the update on all, and all agree on the scale.
TEST_F(Parallel, OverflowOnOneRankSkipsOnAll) {
  UNet3d net(1, 1, kModel);
  nn::ParameterArena arena(net, DType::f32, DType::f16);
  nn::initialise(net, 5);
  arena.refresh_working();
  const auto optimizer = nn::make_adamw(arena, {});
  GradientReducer reducer(arena.gradients(), arena.leaves(), *ranks, {.op = ReduceOp::sum});
  nn::GradScaler scaler({.initial = 1024});
  apps::Updater updater(arena, *optimizer, reducer, {.total = 10}, 1.0, &scaler);
  const auto before = arena.values().all().to_vector<float>();
  for (const bool poisoned : {true, false}) {
    Problem p = mine(Problem(DType::f32));
    p.x = p.x.clone();
    if (poisoned && ranks->rank() == ranks->size() - 1) p.x.data<float>()[0] = 1e30f;
    updater.begin_window();
    const PrecisionScope precision(DType::f16);
    const Loss loss = compute_loss({}, net.forward(p.x), p.t, p.region);
    backward(loss.total, Tensor::scalar<float>(static_cast<float>(updater.loss_scale())));
    EXPECT_EQ(updater.finish_window().skipped, poisoned);
    EXPECT_EQ(scaler.scale(), 512.0);
    EXPECT_EQ(optimizer->updates(), poisoned ? 0 : 1);
    EXPECT_EQ(arena.values().all().to_vector<float>() == before, poisoned);
    check_same_everywhere(*ranks, {{"weights", arena.values().all()}}, "weights after a skip");
  }
}

}  // namespace
}  // namespace bora::unet3d
