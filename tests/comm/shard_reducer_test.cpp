// SPDX-License-Identifier: Apache-2.0
#include "comm/shard_reducer.hpp"

#include "comm/communicator.hpp"
#include "tests/comm/reducer_chain.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/mpi_main.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bora {
namespace {

using bora::testing::Chain;
using bora::testing::message_of;
using bora::testing::session;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kShards = 8;  // of a window, on 1, 2 and 4 ranks
const std::vector<int64_t> kCounts = {1, 200, 64, 65};

std::unique_ptr<Collective> communicator(AllReduceAlgorithm algorithm) {
  CommunicatorOptions options;
  options.timeout_s = 30;
  options.all_reduce = algorithm;
  return make_communicator(session(), options);
}

/// Shard s gives coefficient(s, 0, ...); summed as ((0+1)+(2+3))+((4+5)+(6+7)).
double tree(size_t i, int64_t k, int begin, int n) {
  if (n == 1) return Chain::coefficient(begin, 0, i, k);
  return tree(i, k, begin, n / 2) + tree(i, k, begin + n / 2, n / 2);
}

/// One window, shard by shard.
void run_window(ShardReducer& reducer, Chain& chain, const Collective& comm) {
  const int here = kShards / comm.size();
  for (int k = 0; k < here; ++k) {
    reducer.begin_micro_step(k + 1 == here);
    chain.run_backward(comm.rank() * here + k);
    reducer.end_micro_step();
  }
  reducer.finish();
}

// The same expectation for every number of ranks, to the bit.
TEST(ShardReducer, SumsShardsInOneTreeForAnyNumberOfRanks) {
  const auto comm = communicator(AllReduceAlgorithm::reproducible);
  Chain chain(kCounts);
  ShardReducer reducer(chain.gradients, chain.leaves, *comm, {.n_shards = kShards});
  bool order_shows = false;
  for (int window = 1; window <= 2; ++window) {
    run_window(reducer, chain, *comm);
    for (size_t i = 0; i < kCounts.size(); ++i) {
      const auto got = chain.gradients.part(static_cast<int>(i)).to_vector<double>();
      for (int64_t k = 0; k < kCounts[i]; ++k) {
        ASSERT_EQ(tree(i, k, 0, kShards), got[static_cast<size_t>(k)]) << i << ", " << k;
        double in_a_row = 0;
        for (int s = 0; s < kShards; ++s) in_a_row += Chain::coefficient(s, 0, i, k);
        order_shows = order_shows || in_a_row != tree(i, k, 0, kShards);
      }
    }
    EXPECT_EQ(window, reducer.counters().windows);
    EXPECT_EQ(window, reducer.counters().reductions);
    EXPECT_EQ(window * chain.gradients.all().bytes(), reducer.counters().bytes);
  }
  EXPECT_TRUE(order_shows) << "the sums are exact in any order: nothing is tested";
}

// A parameter that some shards do not use: nothing of the shard before it counts again.
TEST(ShardReducer, AShardWithoutAParameterAddsNothingToIt) {
  const auto comm = communicator(AllReduceAlgorithm::reproducible);
  Chain chain(kCounts);
  ShardReducer reducer(chain.gradients, chain.leaves, *comm,
                       {.n_shards = kShards, .unused_as_zero = true});
  const int here = kShards / comm->size();
  for (int k = 0; k < here; ++k) {
    const int shard = comm->rank() * here + k;
    chain.used[1] = shard == 5;
    reducer.begin_micro_step(k + 1 == here);
    chain.run_backward(shard);
    reducer.end_micro_step();
  }
  reducer.finish();
  EXPECT_EQ(Chain::coefficient(5, 0, 1, 3), chain.gradients.part(1).data<double>()[3]);
  EXPECT_EQ(tree(2, 3, 0, kShards), chain.gradients.part(2).data<double>()[3]);
}

TEST(ShardReducer, NamesParametersThatNoShardUses) {
  const auto comm = communicator(AllReduceAlgorithm::reproducible);
  Chain chain(kCounts);
  chain.used[0] = chain.used[2] = false;
  ShardReducer reducer(chain.gradients, chain.leaves, *comm, {.n_shards = kShards});
  EXPECT_THAT(message_of([&] { run_window(reducer, chain, *comm); }),
              AllOf(HasSubstr("'w0', 'w2'"), HasSubstr("no gradient")));
}

TEST(ShardReducer, MiscountedMicroStepsAreErrors) {
  const auto comm = communicator(AllReduceAlgorithm::reproducible);
  Chain chain(kCounts);
  ShardReducer reducer(chain.gradients, chain.leaves, *comm, {.n_shards = 2 * comm->size()});
  EXPECT_THAT(message_of([&] { reducer.begin_micro_step(true); }),
              HasSubstr("shard 1 of the 2 of this rank is said to be the last"));
  reducer.begin_micro_step(false);
  chain.run_backward(0);
  reducer.end_micro_step();
  EXPECT_THAT(message_of([&] { reducer.finish(); }), HasSubstr("1 of the 2 shards"));
  EXPECT_THAT(message_of([&] { reducer.begin_micro_step(false); }),
              HasSubstr("shard 2 of the 2 of this rank is not said to be the last"));
}

TEST(ShardReducer, WantsPowersOfTwoAndSumsInATree) {
  const auto tree_comm = communicator(AllReduceAlgorithm::reproducible);
  Chain chain(kCounts);
  EXPECT_THROW(
      ShardReducer(chain.gradients, chain.leaves, *tree_comm, {.n_shards = 3 * tree_comm->size()}),
      UsageError);
  if (tree_comm->size() == 1) return;
  const auto plain = communicator(AllReduceAlgorithm::automatic);
  EXPECT_THROW(ShardReducer(chain.gradients, chain.leaves, *plain, {.n_shards = kShards}),
               UsageError);
}

TEST(ShardReducer, DifferentModelsOnTheRanksAreNamed) {
  const auto comm = communicator(AllReduceAlgorithm::reproducible);
  if (comm->size() < 2) GTEST_SKIP() << "wants two ranks";
  Chain chain({64, comm->rank() == 1 ? 62 : 61});
  EXPECT_THAT(message_of([&] {
                ShardReducer(chain.gradients, chain.leaves, *comm, {.n_shards = kShards});
              }),
              AllOf(HasSubstr("rank 0 has 'w1' (61)"), HasSubstr("rank 1 has 'w1' (62)")));
}

}  // namespace
}  // namespace bora
