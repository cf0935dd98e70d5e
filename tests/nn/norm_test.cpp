// SPDX-License-Identifier: Apache-2.0
// Batch norm's state and its ranks.  (Values and gradients of all norms: norm_cases.cpp.)  Features
// 55, 56, 58-60.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cmath>
#include <cstring>
#include <thread>

#include "core/recompute.hpp"
#include "core/tape.hpp"
#include "nn/ops.hpp"
#include "tests/support/device.hpp"
#include "tests/support/random.hpp"
#include "tests/support/tolerance.hpp"

namespace bora::nn {
namespace {

using test::differences;
using test::make_tensor;
using test::normal_values;
using test::values_of;

/// Ranks that are threads of this process: what batch norm needs of a Collective, by shared memory.
class ThreadRanks {
 public:
  explicit ThreadRanks(int n) : barrier_(n), slots_(static_cast<size_t>(n)) {}
  int size() const { return static_cast<int>(slots_.size()); }

  /// Every rank's tensor, in rank order, as copies.
  std::vector<Tensor> exchange(int rank, const Tensor& mine) {
    slots_[static_cast<size_t>(rank)] = mine.clone();
    barrier_.arrive_and_wait();
    std::vector<Tensor> all;
    for (const Tensor& t : slots_) all.push_back(t.clone());
    barrier_.arrive_and_wait();
    ++operations_;
    return all;
  }
  int operations() const { return operations_; }

 private:
  std::barrier<> barrier_;
  std::vector<Tensor> slots_;
  std::atomic<int> operations_ = 0;
};

class ThreadRank final : public Collective {
 public:
  ThreadRank(ThreadRanks& ranks, int rank) : ranks_(ranks), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return ranks_.size(); }
  DeviceType device_type() const override { return test::device().type; }

  Work all_reduce_async(Tensor x, ReduceOp op, std::string_view) override {
    BORA_CHECK(op == ReduceOp::sum && x.dtype() == DType::f64, "ThreadRank: sums of f64 only");
    const std::vector<Tensor> all = ranks_.exchange(rank_, x);
    std::vector<double> sums(static_cast<size_t>(x.numel()));
    for (const Tensor& t : all) {
      const std::vector<double> part = t.to_vector<double>();
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
    }
    x.copy_from(test::from<double>(x.shape(), sums));
    return {};
  }
  void all_gather(const Tensor& x, Tensor& out, std::string_view) override {
    const std::vector<Tensor> all = ranks_.exchange(rank_, x);
    for (int r = 0; r < size(); ++r)
      out.rows(r, r + 1).reshape(x.shape()).copy_from(all[static_cast<size_t>(r)]);
  }
  void broadcast(Tensor&, int, std::string_view) override { BORA_FAIL("not used"); }
  void gather(const Tensor&, Tensor&, int, std::string_view) override { BORA_FAIL("not used"); }
  void reduce(Tensor&, int, ReduceOp, std::string_view) override { BORA_FAIL("not used"); }
  void reduce_scatter(const Tensor&, Tensor&, ReduceOp, std::string_view) override {
    BORA_FAIL("not used");
  }
  void barrier(std::string_view) override { BORA_FAIL("not used"); }
  std::unique_ptr<Collective> split(int, int) override { BORA_FAIL("not used"); }

 private:
  ThreadRanks& ranks_;
  int rank_;
};

BatchNormState fresh_state(int64_t channels, DType type) {
  return {test::zeros({channels}, type), test::full({channels}, 1.0, type)};
}

/// One forward and backward of batch norm with SiLU (with `again`: forward once more in backward)
/// and what came out.
struct Outcome {
  std::vector<double> y, dx, dgamma, dbeta, running_mean, running_var;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome run(const Tensor& x, const Tensor& dy, bool training, Collective* sync,
            BatchNormState state, bool again = false) {
  const int64_t channels = x.size(-1);
  const Tensor x_leaf = make_leaf(x, "x");
  const Tensor gamma =
      make_leaf(make_tensor({channels}, normal_values(channels, 71), x.dtype()), "gamma");
  const Tensor beta =
      make_leaf(make_tensor({channels}, normal_values(channels, 72), x.dtype()), "beta");
  const auto norm = [&](const Tensor& t) {
    return batch_norm(t, gamma, beta, state, training, 1e-5, {Activation::silu, 0.0, {}}, sync);
  };
  const Tensor y = again ? recompute(norm, x_leaf, {gamma, beta}) : norm(x_leaf);
  backward(y, dy);
  const auto gradient = [](const Tensor& t) { return values_of(leaf_of(t).gradient()); };
  return {values_of(y),
          gradient(x_leaf),
          gradient(gamma),
          gradient(beta),
          values_of(state.running_mean),
          values_of(state.running_var)};
}

TEST(BatchNorm, RunningStatisticsFollowTheUnbiasedVariance) {
  // Channel 0: 1, 2, 3, 6: mean 3, sum of squares 14, unbiased variance 14 / 3.
  const Tensor x = test::from<float>({4, 1}, std::vector<float>{1, 2, 3, 6});
  const Tensor one = test::full({1}, 1.0, DType::f32), zero = test::zeros({1}, DType::f32);
  BatchNormState state = fresh_state(1, DType::f32);
  state.momentum = 0.25;
  batch_norm(x, one, zero, state, true);
  EXPECT_FLOAT_EQ(0.75f, test::element<float>(state.running_mean, 0));
  EXPECT_FLOAT_EQ(0.75f + 0.25f * 14.0f / 3.0f, test::element<float>(state.running_var, 0));
  batch_norm(x, one, zero, state, false);  // evaluation leaves them
  EXPECT_FLOAT_EQ(0.75f, test::element<float>(state.running_mean, 0));
}

// cases.md "norm empty batch".
TEST(BatchNorm, EmptyBatchLeavesTheStateAndGivesZeroGradients) {
  const Tensor x = test::zeros({0, 5, 9}, DType::f32);
  const Outcome o = run(x, x, true, nullptr, fresh_state(9, DType::f32));
  EXPECT_TRUE(o.y.empty());
  EXPECT_TRUE(o.dx.empty());
  EXPECT_EQ(std::vector<double>(9, 0.0), o.dgamma);
  EXPECT_EQ(std::vector<double>(9, 0.0), o.dbeta);
  EXPECT_EQ(std::vector<double>(9, 0.0), o.running_mean);
  EXPECT_EQ(std::vector<double>(9, 1.0), o.running_var);
}

TEST(BatchNorm, OneValuePerChannelIsRefusedInTraining) {  // feature 60
  const Tensor x = test::zeros({1, 1, 1, 1, 3}, DType::f32);
  const Tensor one = test::full({3}, 1.0, DType::f32);
  BatchNormState state = fresh_state(3, DType::f32);
  EXPECT_THROW(batch_norm(x, one, one, state, true), Error);
  EXPECT_EQ(0.0f, test::element<float>(state.running_mean, 0));
  EXPECT_NO_THROW(batch_norm(x, one, one, state, false));
  EXPECT_NO_THROW(group_norm(x, one, one, 1));  // one sample trains
}

TEST(BatchNorm, GradientsGoToTheParametersBuffersAndAddUp) {
  const Tensor x = make_tensor({2, 3, 4}, normal_values(24, 1), DType::f32);
  const Tensor gamma = make_leaf(test::full({4}, 1.0, DType::f32), "gamma");
  const Tensor beta = make_leaf(test::zeros({4}, DType::f32), "beta");
  Tensor buffer = test::full({8}, 99.0, DType::f32);
  leaf_of(gamma).set_gradient_buffer(buffer.view(0, {4}));
  leaf_of(beta).set_gradient_buffer(buffer.view(4, {4}));
  const Tensor dy = test::full({2, 3, 4}, 1.0, DType::f32);
  BatchNormState state = fresh_state(4, DType::f32);
  backward(batch_norm(x, gamma, beta, state, true), dy);
  for (int i = 4; i < 8; ++i) EXPECT_EQ(6.0f, test::element<float>(buffer, i));  // overwritten
  backward(batch_norm(x, gamma, beta, state, true), dy);
  for (int i = 4; i < 8; ++i) EXPECT_EQ(12.0f, test::element<float>(buffer, i));  // added
}

// Feature 108: the body of recompute runs twice, the running statistics move once; to the bit,
// alone and over ranks.
TEST(BatchNorm, RecomputeUpdatesTheRunningStatisticsOnce) {
  const Tensor x = make_tensor({4, 6, 5}, normal_values(120, 8), DType::f32);
  const Tensor dy = make_tensor(x.shape(), normal_values(120, 9), DType::f32);
  for (const bool training : {true, false}) {
    const auto outcome = [&](bool again) {
      return run(x, dy, training, nullptr, fresh_state(5, DType::f32), again);
    };
    EXPECT_EQ(outcome(false), outcome(true));
    EXPECT_EQ(training, outcome(true).running_mean != std::vector<double>(5, 0.0));
  }
  const auto on_two = [&](bool again) {
    ThreadRanks ranks(2);
    std::vector<Outcome> outcomes(2);
    std::vector<std::thread> threads;
    for (int r = 0; r < 2; ++r)
      threads.emplace_back([&, r] {
        ThreadRank rank(ranks, r);
        outcomes[static_cast<size_t>(r)] = run(x.rows(3 * r, 3 + r), dy.rows(3 * r, 3 + r), true,
                                               &rank, fresh_state(5, DType::f32), again);
      });
    for (std::thread& t : threads) t.join();
    return outcomes;
  };
  EXPECT_EQ(on_two(false), on_two(true));
}

struct Split {
  const char* name;
  std::vector<int64_t> ends;
};

// Features 55, 56: unequal shares, an empty one, ranks that differ in mean.
TEST(SyncBatchNorm, RanksEqualOneProcessOnTheWholeBatch) {
  const int64_t batch = 6, channels = 5, sample = 2 * 3 * channels;
  std::vector<double> values = normal_values(batch * sample, 3);
  for (size_t i = 0; i < values.size(); ++i) values[i] += i < 60 ? -5.0 : 9.0;
  const Tensor x = make_tensor({batch, 2, 3, channels}, values, DType::f64);
  const Tensor dy = make_tensor(x.shape(), normal_values(batch * sample, 4), DType::f64);
  const Outcome whole = run(x, dy, true, nullptr, fresh_state(channels, DType::f64));
  for (const Split& split : {Split{"equal", {0, 3, 6}}, Split{"unequal", {0, 1, 6}},
                             Split{"empty rank", {0, 2, 2, 6}}, Split{"one has all", {0, 0, 6}}}) {
    SCOPED_TRACE(split.name);
    const auto n = static_cast<int>(split.ends.size()) - 1;
    ThreadRanks ranks(n);
    std::vector<Outcome> outcomes(static_cast<size_t>(n));
    std::vector<std::thread> threads;
    for (int r = 0; r < n; ++r)
      threads.emplace_back([&, r] {
        ThreadRank rank(ranks, r);
        const int64_t begin = split.ends[static_cast<size_t>(r)];
        const int64_t end = split.ends[static_cast<size_t>(r) + 1];
        outcomes[static_cast<size_t>(r)] = run(x.rows(begin, end), dy.rows(begin, end), true, &rank,
                                               fresh_state(channels, DType::f64));
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(2 * n, ranks.operations());  // one exchange forward, one backward, on each rank
    std::vector<double> y, dx, dgamma(5), dbeta(5);
    for (const Outcome& o : outcomes) {
      y.insert(y.end(), o.y.begin(), o.y.end());
      dx.insert(dx.end(), o.dx.begin(), o.dx.end());
      for (size_t c = 0; c < 5; ++c) {
        dgamma[c] += o.dgamma[c];  // each rank's own part: the reducer adds them
        dbeta[c] += o.dbeta[c];
      }
      EXPECT_EQ(outcomes[0].running_mean, o.running_mean);  // the same bits
      EXPECT_EQ(outcomes[0].running_var, o.running_var);
      EXPECT_EQ("", differences(o.running_mean, whole.running_mean, 1e-13));
      EXPECT_EQ("", differences(o.running_var, whole.running_var, 1e-12));
    }
    EXPECT_EQ("", differences(y, whole.y, 1e-12));
    EXPECT_EQ("", differences(dx, whole.dx, 1e-12));
    EXPECT_EQ("", differences(dgamma, whole.dgamma, 1e-11));
    EXPECT_EQ("", differences(dbeta, whole.dbeta, 1e-11));
  }
}

// Feature 59: without sync each rank has statistics of its own, and that shows.
TEST(SyncBatchNorm, PlainBatchNormDiffersBetweenRanks) {
  std::vector<double> values = normal_values(40, 5);
  for (size_t i = 0; i < 20; ++i) values[i] += 10;
  const Tensor x = make_tensor({2, 10, 2}, values, DType::f64);
  const Outcome a = run(x.rows(0, 1), x.rows(0, 1), true, nullptr, fresh_state(2, DType::f64));
  const Outcome b = run(x.rows(1, 2), x.rows(1, 2), true, nullptr, fresh_state(2, DType::f64));
  EXPECT_GT(std::abs(a.running_mean[0] - b.running_mean[0]), 0.5);
}

// Feature 58: evaluation talks to nobody, forward or backward.
TEST(SyncBatchNorm, EvaluationDoesNotCommunicate) {
  ThreadRanks ranks(2);
  ThreadRank rank(ranks, 0);  // the other never comes
  const Tensor x = make_tensor({2, 3, 2}, normal_values(12, 6), DType::f64);
  const Outcome o = run(x, x, false, &rank, fresh_state(2, DType::f64));
  EXPECT_EQ(0, ranks.operations());
  EXPECT_EQ((std::vector<double>{0, 0}), o.running_mean);
}

TEST(SyncBatchNorm, OneValueOnEachOfTwoRanksTrains) {
  ThreadRanks ranks(2);
  std::vector<std::vector<double>> y(2);
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      ThreadRank rank(ranks, r);
      const Tensor x = test::full({1, 1}, r == 0 ? 3.0 : 5.0, DType::f64);
      BatchNormState state = fresh_state(1, DType::f64);
      y[static_cast<size_t>(r)] =
          values_of(batch_norm(x, test::full({1}, 1.0, DType::f64), test::zeros({1}, DType::f64),
                               state, true, 1e-5, {}, &rank));
    });
  for (std::thread& t : threads) t.join();
  EXPECT_NEAR(-1.0, y[0][0], 1e-5);
  EXPECT_NEAR(1.0, y[1][0], 1e-5);
}

TEST(Norms, RefuseWrongArguments) {
  const Tensor x = test::zeros({1, 2, 2, 2, 6}, DType::f32);
  const Tensor g = test::full({6}, 1.0, DType::f32);
  EXPECT_THROW(group_norm(x, g, g, 4), Error);
  EXPECT_THROW(group_norm(x, g, g, 0), Error);
  EXPECT_THROW(group_norm(x, g, test::zeros({5}, DType::f32), 2), Error);
  EXPECT_THROW(group_norm(x, g.to(DType::f64), g, 2), Error);
  EXPECT_THROW(group_norm(x, g, g, 2, 0.0), Error);
  EXPECT_THROW(group_norm(x, g, Tensor(), 2), Error);
  const NormFusion wrong{Activation::relu, 0.01, test::zeros({1, 2, 2, 2, 3}, DType::f32)};
  EXPECT_THROW(group_norm(x, g, g, 2, 1e-5, wrong), Error);
  EXPECT_THROW(group_norm(x, g, g, 2, 1e-5, {Activation::leaky_relu, -0.1, {}}), Error);
  BatchNormState state;
  EXPECT_THROW(batch_norm(x, g, g, state, false), Error);
}

}  // namespace
}  // namespace bora::nn
