// SPDX-License-Identifier: Apache-2.0
// Windows of updates on many ranks against the full batch, for numbers of samples that nothing
// divides.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "apps/common/window_plan.hpp"
#include "apps/unet3d/loss.hpp"
#include "apps/unet3d/model.hpp"
#include "comm/communicator.hpp"
#include "comm/gradient_reducer.hpp"
#include "comm/shard_reducer.hpp"
#include "core/rng.hpp"
#include "nn/parameter_arena.hpp"
#include "tests/support/mpi_main.hpp"

namespace bora::unet3d {
namespace {

using apps::WindowOptions;
using apps::WindowPlan;

const Shape kSample{8, 5, 6};

/// Samples by number, with unequal numbers of open cells.
struct Samples {
  Tensor input, target, region;
  explicit Samples(const std::vector<int64_t>& indices) {
    const auto n = static_cast<int64_t>(indices.size());
    const int64_t cells = kSample.numel();
    std::vector<double> in, out;
    region = Tensor::zeros({n, kSample[0], kSample[1], kSample[2]}, DType::u8);
    for (int64_t s = 0; s < n; ++s) {
      const RngKey key{11, static_cast<uint64_t>(indices[static_cast<size_t>(s)])};
      for (int64_t i = 0; i < cells; ++i) {
        const auto at = static_cast<uint64_t>(3 * i);
        in.push_back(key.normal(at));
        out.push_back(key.normal(at + 1));
        region.data<uint8_t>()[s * cells + i] =
            key.uniform(at + 2) <
            0.3 + 0.1 * static_cast<double>(indices[static_cast<size_t>(s)] % 7);
      }
    }
    const Shape shape{n, kSample[0], kSample[1], kSample[2], 1};
    input = Tensor::from<double>(shape, in);
    target = Tensor::from<double>(shape, out);
  }
};

struct Rig {
  UNet3d net;
  nn::ParameterArena arena;
  explicit Rig(const ModelConfig& model) : net(1, 1, model), arena(net, DType::f64) {
    nn::initialise(net, 5);
  }
  void forward_backward(const std::vector<int64_t>& indices, double weight) {
    const Samples s(indices);
    const Loss loss = compute_loss({}, net.forward(s.input), s.target, s.region);
    backward(loss.total, Tensor::full({}, weight, DType::f64));
  }
  std::vector<double> gradients() const { return arena.gradients().all().to_vector<double>(); }
  std::vector<double> running() {
    std::vector<double> all;
    for (const nn::NamedBuffer& b : nn::named_buffers(net))
      for (const double v : b.buffer->to(DType::f64).to_vector<double>()) all.push_back(v);
    return all;
  }
};

void expect_close(const std::vector<double>& got, const std::vector<double>& wanted,
                  const std::string& what) {
  ASSERT_EQ(wanted.size(), got.size());
  double largest = 0, off = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::fabs(wanted[i]));
    off = std::max(off, std::fabs(got[i] - wanted[i]));
  }
  ASSERT_GT(largest, 1e-3);
  EXPECT_LE(off, 1e-10 * largest) << what;
}

struct Case {
  int64_t n_samples, batch, accumulate, shard_samples = 0;
  ModelConfig model{.base = 2, .levels = 2};
  BucketSizes buckets{};
};

class ParallelWindows : public ::testing::Test {
 protected:
  static std::unique_ptr<Collective> communicator(AllReduceAlgorithm algorithm) {
    CommunicatorOptions options;
    options.timeout_s = 60;
    options.all_reduce = algorithm;
    return make_communicator(bora::testing::session(), options);
  }

  /// Two epochs: after each window the gradient on every rank is the mean over exactly the window's
  /// samples.  Returns the gradients of the last window.
  std::vector<double> run(const Case& c) {
    const auto ranks = communicator(c.shard_samples > 0 ? AllReduceAlgorithm::reproducible
                                                        : AllReduceAlgorithm::automatic);
    const WindowPlan plan({.n_samples = c.n_samples,
                           .n_ranks = ranks->size(),
                           .rank = ranks->rank(),
                           .seed = 3,
                           .batch = c.batch},
                          {c.batch, c.accumulate, c.shard_samples});
    Rig truth(c.model), rig(c.model);
    rig.net.set_collective(ranks.get());
    std::unique_ptr<GradientExchange> exchange;
    if (plan.sharded()) {
      exchange = std::make_unique<ShardReducer>(rig.arena.gradients(), rig.arena.leaves(), *ranks,
                                                ShardOptions{.n_shards = plan.n_shards()});
    } else {
      ReducerOptions options;
      options.op = ReduceOp::sum;
      options.buckets = c.buckets;
      exchange = std::make_unique<GradientReducer>(rig.arena.gradients(), rig.arena.leaves(),
                                                   *ranks, options);
    }
    int64_t windows = 0, reductions_before = 0;
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      const auto order = data::epoch_order(c.n_samples, 3, epoch, true);
      const auto slots = plan.slots({epoch, 0});
      size_t next = 0;
      for (data::EpochPosition at{epoch, 0}; at.position < c.n_samples; ++windows) {
        const int64_t samples = plan.samples_at(at);
        const std::string what =
            detail::join(c.n_samples, " samples, batch ", c.batch, " x ", c.accumulate, ", epoch ",
                         epoch, " from ", at.position);
        truth.arena.clear_gradients();
        truth.forward_backward({order.begin() + at.position, order.begin() + at.position + samples},
                               1.0);
        rig.arena.clear_gradients();
        const auto steps = plan.micro_steps(samples);
        EXPECT_LE(static_cast<int64_t>(steps.size()),
                  c.shard_samples > 0 ? plan.n_shards() : c.accumulate);
        for (size_t k = 0; k < steps.size(); ++k) {
          std::vector<int64_t> mine;
          for (int64_t i = 0; i < steps[k]; ++i, ++next)
            if (!slots.at(next).padding) mine.push_back(slots[next].index);
          exchange->begin_micro_step(k + 1 == steps.size());
          rig.forward_backward(mine,
                               static_cast<double>(mine.size()) / static_cast<double>(samples));
          exchange->end_micro_step();
          // Nothing is sent before the last micro-step (row 49).
          if (k + 1 < steps.size()) {
            EXPECT_EQ(exchange->counters().reductions, reductions_before) << what;
          }
        }
        exchange->finish();
        reductions_before = exchange->counters().reductions;
        expect_close(rig.gradients(), truth.gradients(), what);
        at.position += samples;
      }
      EXPECT_EQ(next, slots.size());  // all of the epoch's, none more
    }
    EXPECT_EQ(windows, 2 * plan.updates_an_epoch());
    EXPECT_EQ(windows, exchange->counters().windows);
    if (c.model.norm == "sync_batch" && c.accumulate == 1)
      expect_close(rig.running(), truth.running(), "running statistics");
    return rig.gradients();
  }
};

// Features 45, 48, 50, 51: full windows, leftover ones, short last batches, ranks that have none.
TEST_F(ParallelWindows, EqualTheFullBatchForAnyNumberOfSamples) {
  for (const auto& [n, batch, accumulate] :
       {std::array<int64_t, 3>{7, 2, 2}, {5, 3, 1}, {1, 1, 1}, {1, 2, 3}, {13, 1, 3}, {9, 2, 1}})
    run({.n_samples = n, .batch = batch, .accumulate = accumulate});
}

TEST_F(ParallelWindows, ShardsEqualTheFullBatchToo) {
  for (const auto& [n, batch, accumulate, shard] :
       {std::array<int64_t, 4>{7, 2, 2, 1}, {5, 4, 1, 2}, {1, 1, 1, 1}, {13, 1, 4, 2}})
    run({.n_samples = n, .batch = batch, .accumulate = accumulate, .shard_samples = shard});
}

// Statistics are those of the window's own samples: repeats, and ranks without a sample, leave no
// trace in them; nor do forward passes that backward runs again.  (Features 44, 45, 55.)
TEST_F(ParallelWindows, SynchronisedStatisticsSeeEachSampleOnce) {
  for (const bool recompute : {false, true})
    for (const auto& [n, batch] : {std::array<int64_t, 2>{7, 2}, {5, 3}, {1, 1}, {9, 1}})
      run({.n_samples = n,
           .batch = batch,
           .accumulate = 1,
           .model = {.base = 2, .levels = 2, .norm = "sync_batch", .recompute = recompute}});
}

// Feature 44: cut into buckets or not, computed again in backward or kept: the same bits; with
// accumulation too.
TEST_F(ParallelWindows, BucketsAndRecomputationChangeNoBit) {
  Case c{.n_samples = 7, .batch = 1, .accumulate = 2};
  const auto once = run(c);
  c.buckets = {.target = 4096, .first = 512, .last = 1024};
  EXPECT_EQ(once, run(c));
  c.model.recompute = true;
  EXPECT_EQ(once, run(c));
}

// Feature 174: there is no epoch to be set, and so none to be forgotten: the order of an epoch is a
// function of its number, whatever was asked before.
TEST(WindowPlan, EveryEpochHasItsOwnOrder) {
  const WindowPlan plan({.n_samples = 50, .n_ranks = 2, .rank = 1, .seed = 3}, {});
  const auto first = plan.slots({0, 0}), second = plan.slots({1, 0});
  EXPECT_NE(first, second);
  int same = 0;
  for (size_t i = 0; i < first.size(); ++i) same += first[i].index == second[i].index;
  EXPECT_LT(same, 10);
  EXPECT_EQ(first, plan.slots({0, 0}));
}

// The shards of a window are the same samples for any number of ranks.
TEST(WindowPlan, ShardsDoNotKnowTheNumberOfRanks) {
  for (const int64_t shard : {1, 2})
    for (const int64_t n : {23, 16, 3}) {
      std::vector<std::vector<data::Slot>> shards_by_world;
      for (const int world : {1, 2, 4}) {
        std::vector<std::vector<data::Slot>> streams;
        std::vector<std::vector<int64_t>> steps;
        std::vector<data::Slot> all;
        std::optional<WindowPlan> plan;
        for (int r = 0; r < world; ++r) {
          plan.emplace(data::SamplerOptions{.n_samples = n, .n_ranks = world, .rank = r, .seed = 9},
                       WindowOptions{8 / world, 1, shard});
          streams.push_back(plan->slots({2, 0}));
          EXPECT_EQ(8, plan->samples());
          EXPECT_EQ(8 / shard, plan->n_shards());
        }
        std::vector<size_t> next(static_cast<size_t>(world), 0);
        for (data::EpochPosition at{2, 0}; at.position < n;) {
          const int64_t samples = plan->samples_at(at);
          for (size_t r = 0; r < next.size(); ++r)
            for (const int64_t step : plan->micro_steps(samples))
              for (int64_t i = 0; i < step; ++i) all.push_back(streams[r].at(next[r]++));
          at.position += samples;
        }
        for (size_t r = 0; r < next.size(); ++r) EXPECT_EQ(next[r], streams[r].size());
        shards_by_world.push_back(std::move(all));
      }
      EXPECT_EQ(shards_by_world[0], shards_by_world[1]);
      EXPECT_EQ(shards_by_world[0], shards_by_world[2]);
    }
}

TEST(WindowPlan, RefusesWhatCannotBeSharded) {
  const data::SamplerOptions sampler{.n_samples = 50};
  EXPECT_THROW(WindowPlan(sampler, {3, 1, 1}), UsageError);
  EXPECT_THROW(WindowPlan(sampler, {2, 1, 4}), UsageError);
  EXPECT_THROW(WindowPlan(sampler, {3, 1, 2}), UsageError);
  EXPECT_NO_THROW(WindowPlan(sampler, {3, 4, 3}));
  EXPECT_THROW(WindowPlan({.n_samples = 50, .tail = data::Tail::drop}, {}), Error);
}

}  // namespace
}  // namespace bora::unet3d
