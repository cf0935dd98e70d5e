// SPDX-License-Identifier: Apache-2.0
// Sends and receives between pairs of ranks, and sums over virtual shards.
#include "comm/shard_sum.hpp"
#include "tests/comm/collective_values.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/mpi_main.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace bora {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Large enough that MPI cannot buffer it: a blocking send first would wait for the peer's receive.
constexpr int64_t kLarge = 3'000'000;

TEST(Pairs, NeighboursSwapInBothOrdersWithoutDeadlock) {
  const auto comm = make_communicator(session(), normal());
  const int n = comm->size(), r = comm->rank();
  if (n < 2) GTEST_SKIP() << "wants two ranks";
  const int right = (r + 1) % n, left = (r + n - 1) % n;
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{1009}, kLarge}) {
    for (const bool send_first : {true, false}) {
      const Tensor out = Tensor::full({count}, 100.0 + r, DType::i32);
      Tensor in = Tensor::zeros({count}, DType::i32);
      Work leaves, arrives;
      if (send_first) leaves = comm->send_async(out, right, "around");
      arrives = comm->receive_async(in, left, "around");
      if (!send_first) leaves = comm->send_async(out, right, "around");
      leaves.wait();
      arrives.wait();
      EXPECT_EQ(0, count_wrong<int32_t>(in, [&](int64_t) { return 100 + left; })) << count;
      Tensor again = Tensor::zeros({count}, DType::i32);
      comm->swap(out, right, again, left, "again");
      EXPECT_EQ(0, count_wrong<int32_t>(again, [&](int64_t) { return 100 + left; }));
    }
  }
}

TEST(Pairs, MessagesKeepTheirOrderWhateverIsWaitedForFirst) {
  const auto comm = make_communicator(session(), small_pieces());
  if (comm->size() < 2 || comm->rank() > 1) {
    comm->barrier("end");
    return;
  }
  std::vector<Tensor> tensors;
  std::vector<Work> works;
  for (int k = 0; k < 10; ++k) {
    const int64_t count = 1 + 100 * (k % 3);
    if (comm->rank() == 0) {
      works.push_back(comm->send_async(Tensor::full({count}, k, DType::f32), 1, "m"));
    } else {
      tensors.push_back(Tensor::zeros({count}, DType::f32));
      works.push_back(comm->receive_async(tensors.back(), 0, "m"));
    }
  }
  for (size_t k = works.size(); k-- > 0;) works[k].wait();
  for (size_t k = 0; k < tensors.size(); ++k)
    EXPECT_EQ(0, count_wrong<float>(tensors[k], [&](int64_t) { return static_cast<float>(k); }));
  comm->barrier("end");
}

// A large message needs its sender's help, which waits in a collective meanwhile.
TEST(Pairs, GoOnWhileTheSenderIsInACollective) {
  const auto comm = make_communicator(session(), normal());
  if (comm->size() < 2) GTEST_SKIP() << "wants two ranks";
  Tensor x = Tensor::full({kLarge}, comm->rank() == 0 ? 7.0 : 0.0, DType::f32);
  Work work;
  if (comm->rank() == 0) work = comm->send_async(x, 1, "large");
  if (comm->rank() == 1) comm->receive(x, 0, "large");
  comm->barrier("behind it");
  work.wait();
  const float wanted = comm->rank() <= 1 ? 7.0f : 0.0f;
  EXPECT_EQ(0, count_wrong<float>(x, [&](int64_t) { return wanted; }));
}

// And so may the receiver be elsewhere.
TEST(Pairs, GoOnWhileTheReceiverIsInACollective) {
  const auto comm = make_communicator(session(), normal());
  if (comm->size() < 2) GTEST_SKIP() << "wants two ranks";
  Tensor x = Tensor::full({kLarge}, comm->rank() == 1 ? 7.0 : 0.0, DType::f32);
  Work work;
  if (comm->rank() == 0) work = comm->receive_async(x, 1, "large");
  if (comm->rank() == 1) comm->send(x, 0, "large");
  comm->barrier("behind it");
  work.wait();
  const float wanted = comm->rank() <= 1 ? 7.0f : 0.0f;
  EXPECT_EQ(0, count_wrong<float>(x, [&](int64_t) { return wanted; }));
}

TEST(Pairs, DifferentMessagesAreNamedByTheReceiver) {
  if (session().size() < 2) GTEST_SKIP() << "wants two ranks";
  for (const auto& options : {normal(), small_pieces()}) {
    const auto comm = make_communicator(session(), options);
    for (const int64_t lacking : {-100, -1, 1, 100}) {  // elements; pieces are 25 or all
      const Tensor sent = Tensor::full({200}, 1.0, DType::f32);
      Tensor wanted = Tensor::zeros({200 + lacking}, DType::f32),
             next = Tensor::zeros({200}, DType::f32);
      if (comm->rank() == 0) {
        comm->send(sent, 1, "a");
        comm->send(sent, 1, "b");
      } else if (comm->rank() == 1) {
        EXPECT_THAT(message_of([&] { comm->receive(wanted, 0, "a"); }),
                    AllOf(HasSubstr("rank 0 sends 'a' (f32, 200 elements)"),
                          HasSubstr(detail::join("rank 1 wants 'a' (f32, ", 200 + lacking))));
        comm->receive(next, 0, "b");  // the next one is not disturbed
        EXPECT_EQ(0, count_wrong<float>(next, [](int64_t) { return 1.0f; }));
      }
    }
    Tensor x = Tensor::zeros({1}, DType::f32);
    EXPECT_THAT(message_of([&] { comm->send(x, comm->rank(), "me"); }),
                HasSubstr("is not another rank"));
    comm->barrier("end");
  }
}

std::unique_ptr<Collective> reproducible(int ranks_per_host = 0) {
  CommunicatorOptions o = normal();
  o.all_reduce = AllReduceAlgorithm::reproducible;
  o.ranks_per_host = ranks_per_host;
  return make_communicator(session(), o);
}

constexpr int64_t kShards = 8, kCount = 100'003;

/// Shard s: values of very different size, so that every change of order shows.
float shard_value(int64_t s, int64_t i) {
  const RngKey key{99, rng_stream("shards", static_cast<uint64_t>(s))};
  const uint32_t bits = key.bits(static_cast<uint64_t>(i));
  const float x = static_cast<float>(static_cast<int32_t>(bits)) * 0x1p-31f;
  return std::ldexp(x, static_cast<int>(bits % 13) - 6);
}

// The tree over shards, written down: every number of ranks is compared with the same bits.
TEST(ShardSum, OneTwoAndFourRanksGiveTheSameBits) {
  if (kShards % session().size() != 0) GTEST_SKIP() << "wants 1, 2, 4 or 8 ranks";
  std::vector<float> wanted(kCount), in_order(kCount);
  for (int64_t i = 0; i < kCount; ++i) {
    float v[kShards];
    for (int64_t s = 0; s < kShards; ++s) v[s] = shard_value(s, i);
    wanted[static_cast<size_t>(i)] =
        ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
    float sum = 0;
    for (const float x : v) sum += x;
    in_order[static_cast<size_t>(i)] = sum;
  }
  int64_t differ = 0;
  for (size_t i = 0; i < wanted.size(); ++i) differ += wanted[i] != in_order[i];
  EXPECT_GT(differ, kCount / 10);  // else the test could not tell the orders apart

  for (const int ranks_per_host : {0, 1}) {  // by shared memory, and by messages
    const auto comm = reproducible(ranks_per_host);
    ShardSum sum(*comm, kShards, kCount, DType::f32);
    for (int round = 0; round < 2; ++round) {
      const int64_t first = sum.first_shard();
      for (int64_t s = first; s < first + sum.shards_here(); ++s) {
        Tensor x = Tensor::empty({kCount}, DType::f32);
        for (int64_t i = 0; i < kCount; ++i) x.data<float>()[i] = shard_value(s, i);
        sum.add(x);
      }
      Tensor total = Tensor::empty({kCount}, DType::f32);
      const ReduceOp op = round == 0 ? ReduceOp::sum : ReduceOp::mean;
      sum.finish(total, op, "shards");
      EXPECT_EQ(0, count_wrong<float>(total, [&](int64_t i) {
                  const float w = wanted[static_cast<size_t>(i)];
                  return round == 0 ? w : w / static_cast<float>(kShards);
                }));
    }
  }
}

TEST(ShardSum, RefusesWhatWouldNotBeReproducible) {
  const auto comm = reproducible();
  const int n = comm->size();
  EXPECT_THROW(ShardSum(*comm, 3 * n, 10, DType::f32), UsageError);
  if (n > 1) {
    EXPECT_THROW(ShardSum(*comm, n + 1, 10, DType::f32), UsageError);
    const auto other = make_communicator(session(), normal());
    EXPECT_THROW(ShardSum(*other, n, 10, DType::f32), UsageError);
  }
  ShardSum sum(*comm, 2 * n, 10, DType::f16);
  Tensor out = Tensor::zeros({10}, DType::f32), x = Tensor::full({10}, 60000.0, DType::f16);
  EXPECT_THROW(sum.finish(out, ReduceOp::sum, "too early"), Error);
  sum.add(x);
  sum.add(x);
  EXPECT_THROW(sum.add(x), Error);
  sum.finish(out, ReduceOp::sum, "in f32");  // beyond the range of f16
  const float wanted = 2.0f * static_cast<float>(n) * static_cast<float>(x.data<Half>()[0]);
  EXPECT_EQ(0, count_wrong<float>(out, [&](int64_t) { return wanted; }));
}

}  // namespace
}  // namespace bora
