// SPDX-License-Identifier: Apache-2.0
// Synchronised batch norm over real ranks: features 55-60.  (The same among threads: norm_test.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "comm/communicator.hpp"
#include "comm/gradient_exchange.hpp"
#include "nn/layers/conv3d.hpp"
#include "nn/layers/norm.hpp"
#include "nn/optim/optimizer.hpp"
#include "nn/parameter_arena.hpp"
#include "tests/support/counting_collective.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/mpi_main.hpp"
#include "tests/support/random.hpp"
#include "tests/support/tolerance.hpp"

namespace bora::nn {
namespace {

using bora::testing::CountingCollective;
using bora::testing::message_of;
using bora::testing::session;
using test::differences;
using test::make_tensor;
using test::normal_values;
using test::values_of;
using ::testing::HasSubstr;

constexpr int64_t kChannels = 5, kBatch = 8;
const Shape kShape{kBatch, 3, 2, 4, kChannels};

/// Rows whose mean grows with their place, so that each rank's share has another one.
Tensor rows(uint64_t seed, double step) {
  std::vector<double> v = normal_values(kShape.numel(), seed);
  const int64_t row = kShape.numel() / kBatch;
  for (size_t i = 0; i < v.size(); ++i)
    v[i] += step * static_cast<double>(static_cast<int64_t>(i) / row);
  return make_tensor(kShape, v, DType::f64);
}

/// Where ranks' shares of the batch begin and end.
struct Split {
  const char* name;
  std::vector<int64_t> ends;
};
std::vector<Split> splits(int n) {
  if (n == 1) return {{"alone", {0, 8}}};
  if (n == 2)
    return {{"equal", {0, 4, 8}},
            {"unequal", {0, 1, 8}},
            {"an empty rank", {0, 8, 8}},
            {"the first is empty", {0, 0, 8}}};
  return {{"equal", {0, 2, 4, 6, 8}},
          {"unequal", {0, 1, 4, 6, 8}},
          {"empty ranks", {0, 0, 3, 3, 8}},
          {"one has all", {0, 0, 0, 8, 8}}};
}

struct Outcome {
  std::vector<double> y, dx, dgamma, dbeta, mean, var;
};

/// Two steps of training, so that running statistics are those of statistics that were joined
/// twice.
Outcome train(const Tensor& x, const Tensor& dy, Collective* sync) {
  const Tensor x_leaf = make_leaf(x, "x");
  const Tensor gamma =
      make_leaf(make_tensor({kChannels}, normal_values(kChannels, 71), DType::f64), "g");
  const Tensor beta =
      make_leaf(make_tensor({kChannels}, normal_values(kChannels, 72), DType::f64), "b");
  BatchNormState state{Tensor::zeros({kChannels}, DType::f64),
                       Tensor::full({kChannels}, 1.0, DType::f64)};
  Tensor y;
  for (int step = 0; step < 2; ++step) {
    for (const Tensor* t : {&x_leaf, &gamma, &beta}) leaf_of(*t).clear_gradient();
    y = batch_norm(x_leaf, gamma, beta, state, true, 1e-5, {Activation::silu, 0.0, {}}, sync);
    backward(y, dy);
  }
  const auto gradient = [](const Tensor& t) { return values_of(leaf_of(t).gradient()); };
  return {values_of(y),
          gradient(x_leaf),
          gradient(gamma),
          gradient(beta),
          values_of(state.running_mean),
          values_of(state.running_var)};
}

std::vector<double> part(const std::vector<double>& all, int64_t begin, int64_t end) {
  const int64_t row = kShape.numel() / kBatch;
  return {all.begin() + begin * row, all.begin() + end * row};
}

class SyncBatchNormRanks : public ::testing::Test {
 protected:
  std::unique_ptr<Collective> comm = make_communicator(session());
  std::vector<double> sum(const std::vector<double>& v) {
    return comm->all_reduce(v, ReduceOp::sum, "sum of gradients");
  }
};

// Features 55, 56.  Each value is a sum over 192 terms of size up to 20 in f64: rounding of the
// order of 192 x 20 x 2^-53 = 4e-13 relative to a standard deviation of 1; ten times that is
// allowed, far below the 1e-10 that is asked for.
TEST_F(SyncBatchNormRanks, EqualOneProcessOnTheWholeBatch) {
  const Tensor x = rows(3, 2.5), dy = rows(4, 0.1);
  const Outcome whole = train(x, dy, nullptr);
  for (const Split& split : splits(comm->size())) {
    SCOPED_TRACE(split.name);
    const int64_t begin = split.ends[static_cast<size_t>(comm->rank())];
    const int64_t end = split.ends[static_cast<size_t>(comm->rank()) + 1];
    CountingCollective counting(*comm);
    const Outcome mine = train(x.rows(begin, end), dy.rows(begin, end), &counting);
    if (comm->size() > 1) {  // one exchange forward, one backward
      EXPECT_EQ((std::map<std::string, int>{{"batch_norm.forward", 2}, {"batch_norm.backward", 2}}),
                counting.counts());
    }
    EXPECT_EQ("", differences(mine.y, part(whole.y, begin, end), 4e-12));
    EXPECT_EQ("", differences(mine.dx, part(whole.dx, begin, end), 4e-12));
    EXPECT_EQ("", differences(mine.mean, whole.mean, 4e-12));
    EXPECT_EQ("", differences(mine.var, whole.var, 4e-11));  // of size 60
    EXPECT_EQ("", differences(sum(mine.dgamma), whole.dgamma, 4e-11));
    EXPECT_EQ("", differences(sum(mine.dbeta), whole.dbeta, 4e-11));
    // All ranks keep the same bits, also one without a sample.
    const std::vector<double> most = comm->all_reduce(mine.var, ReduceOp::max, "largest");
    EXPECT_EQ(most, comm->all_reduce(mine.var, ReduceOp::min, "smallest"));
  }
}

// Feature 59: left alone, ranks have statistics of their own, and results differ far more than by
// rounding.
TEST_F(SyncBatchNormRanks, PlainBatchNormDiffers) {
  if (comm->size() < 2) GTEST_SKIP() << "wants two ranks";
  const int64_t share = kBatch / comm->size(), begin = comm->rank() * share;
  const Tensor x = rows(3, 2.5), dy = rows(4, 0.1);
  const Outcome whole = train(x, dy, nullptr);
  const Outcome mine = train(x.rows(begin, begin + share), dy.rows(begin, begin + share), nullptr);
  EXPECT_NE("", differences(mine.y, part(whole.y, begin, begin + share), 0.1));
  const double highest = comm->all_reduce(mine.mean[0], ReduceOp::max, "highest mean");
  const double lowest = comm->all_reduce(mine.mean[0], ReduceOp::min, "lowest mean");
  EXPECT_GT(highest - lowest, 0.5);
}

/// A convolution, a block with norms of two kinds inside, a norm at its own level.
class Inner final : public Module {
 public:
  Norm batch{NormKind::batch, kChannels}, group{NormKind::group, kChannels, 1};
  void visit(Visitor& v) override {
    v.child("batch", batch);
    v.child("group", group);
  }
};
class Net final : public Module {
 public:
  Conv3d conv{kChannels, kChannels, Dims3::all(1), Bias::yes};
  Inner inner;
  Norm last{NormKind::batch, kChannels};
  Tensor forward(const Tensor& x) {
    return last.forward(inner.group.forward(inner.batch.forward(conv.forward(x))));
  }
  void visit(Visitor& v) override {
    v.child("conv", conv);
    v.child("inner", inner);
    v.child("last", last);
  }
};

std::vector<std::string> names_of(Module& module) {
  std::vector<std::string> names;
  for (const auto& p : named_parameters(module)) names.push_back(p.name);
  for (const auto& b : named_buffers(module)) names.push_back(b.name);
  return names;
}

// Feature 57: at any depth, the module itself too; the rest is left alone.
TEST_F(SyncBatchNormRanks, ConversionReachesAllBatchNormsAndNothingElse) {
  Net net;
  const auto names = names_of(net);
  EXPECT_EQ(2, convert_to_sync_batch_norm(net, comm.get()));
  EXPECT_EQ(NormKind::sync_batch, net.inner.batch.kind());
  EXPECT_EQ(NormKind::sync_batch, net.last.kind());
  EXPECT_EQ(NormKind::group, net.inner.group.kind());
  EXPECT_EQ(names, names_of(net));
  EXPECT_EQ(2, convert_to_sync_batch_norm(net, comm.get()));  // again: nothing changes
  Norm alone(NormKind::batch, 3), other(NormKind::instance, 3);
  EXPECT_EQ(1, convert_to_sync_batch_norm(alone, comm.get()));
  EXPECT_EQ(NormKind::sync_batch, alone.kind());
  EXPECT_EQ(0, convert_to_sync_batch_norm(other, comm.get()));
  EXPECT_THAT(message_of([&] { other.synchronise(comm.get()); }), HasSubstr("InstanceNorm 3"));
}

/// Trains on this rank's share for three updates and gives all weights and running statistics.
/// when: 0 converts before the arena is made, 1 after the optimizer is, 2 after one update of all
/// ranks on the whole batch, -1 not at all (every rank trains on the whole batch).
std::vector<double> trained(Collective& comm, int when) {
  Net net;
  if (when == 0) convert_to_sync_batch_norm(net, &comm);
  ParameterArena arena(net, DType::f64);
  initialise(net, 3);
  const auto optimizer = make_sgd(arena, {.momentum = 0.9});
  const Tensor x = rows(3, 2.5);
  const std::vector<double> weights = normal_values(kShape.numel(), 9);
  const Tensor dy = make_tensor(kShape, weights, DType::f64);
  const auto update = [&](bool whole) {
    const int64_t share = whole ? kBatch : kBatch / comm.size(),
                  begin = whole ? 0 : comm.rank() * share;
    arena.clear_gradients();
    backward(net.forward(x.rows(begin, begin + share)), dy.rows(begin, begin + share));
    if (!whole) comm.all_reduce(arena.gradients().all(), ReduceOp::sum, "gradients");
    optimizer->step({.lr = 1e-2, .momentum = -1.0, .gradient_factor = 1.0});
  };
  if (when == 1) convert_to_sync_batch_norm(net, &comm);
  update(/*whole=*/when == 2 || when == -1);
  if (when == 2) {
    const auto before = values_of(arena.values().all());
    const auto running = values_of(*named_buffers(net)[0].buffer);
    convert_to_sync_batch_norm(net, &comm);
    EXPECT_EQ(before, values_of(arena.values().all()));
    EXPECT_EQ(running, values_of(*named_buffers(net)[0].buffer));
  }
  for (int k = 0; k < 2; ++k) update(when == -1);
  std::vector<double> out = values_of(arena.values().all());
  for (const auto& b : named_buffers(net))
    for (const double v : values_of(*b.buffer)) out.push_back(v);
  return out;
}

// Feature 57: converted before the arena, after the optimizer, or in the middle of training, a
// network trains as one process does on the whole batch.  (Not AdamW: it blows up the rounding of
// gradients that are zero but for it, as of a bias before a norm.)
TEST_F(SyncBatchNormRanks, ConvertedAtAnyTimeItTrainsLikeOneProcess) {
  const std::vector<double> one = trained(*comm, -1);
  for (const int when : {0, 1, 2})
    EXPECT_EQ("", differences(trained(*comm, when), one, 1e-10)) << when;
}

// Feature 58, 42: rank 0 alone evaluates, the others are elsewhere; then all train on.
TEST_F(SyncBatchNormRanks, EvaluationOnOneRankNeedsNobody) {
  Net net;
  CountingCollective counting(*comm);
  convert_to_sync_batch_norm(net, &counting);
  ParameterArena arena(net, DType::f64);
  initialise(net, 3);
  const Tensor x = rows(3, 2.5);
  net.forward(x);
  const int before = counting.total();
  if (comm->rank() == 0) {
    net.set_training(false);
    const Tensor y = net.forward(x);
    backward(y, x);  // gradients of an evaluation need nobody either
    net.set_training(true);
    arena.clear_gradients();
  }
  EXPECT_EQ(before, counting.total());
  backward(net.forward(x), x);
  if (comm->size() > 1) {
    EXPECT_GT(counting.total(), before);
  }
}

// Feature 60: one value a channel on each rank.  Joined, or in groups, it trains; alone it is
// refused.
TEST_F(SyncBatchNormRanks, BatchOfOneValuePerRank) {
  const Tensor x = Tensor::full({1, 1, 1, 1, 4}, 3.0 + 2.0 * comm->rank(), DType::f32);
  const auto train_once = [&](NormKind kind, Collective* ranks) {
    Norm norm(kind, 4, 2);
    norm.set_collective(ranks);
    ParameterArena arena(norm, DType::f32);
    initialise(norm, 1);
    const Tensor y = norm.forward(make_leaf(x, "x"));
    backward(y, Tensor::full(x.shape(), 1.0, DType::f32));
    return y.to_vector<float>();
  };
  EXPECT_THAT(message_of([&] { train_once(NormKind::batch, nullptr); }),
              HasSubstr("one value per channel has no variance to train with"));
  EXPECT_EQ("no error", message_of([&] { train_once(NormKind::group, nullptr); }));
  if (comm->size() == 1) return;
  const float mine = train_once(NormKind::sync_batch, comm.get())[0];
  const float sum =
      static_cast<float>(comm->all_reduce(static_cast<double>(mine), ReduceOp::sum, "y"));
  EXPECT_NEAR(0.0f, sum, 1e-5f);  // centred over the ranks
  EXPECT_GT(std::abs(mine), 0.3f);
}

}  // namespace
}  // namespace bora::nn
