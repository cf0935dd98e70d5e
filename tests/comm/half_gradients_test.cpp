// SPDX-License-Identifier: Apache-2.0
// Gradients that travel in 16 bits.
#include "comm/communicator.hpp"
#include "comm/gradient_reducer.hpp"
#include "core/op.hpp"
#include "core/rng.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/mpi_main.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace bora {
namespace {

using bora::testing::message_of;
using bora::testing::session;
using ::testing::HasSubstr;

/// Its gradient for w is c.
struct Give {
  static constexpr OpInfo info{"give", Precision::full};
  Tensor c;
  Tensor forward(OpContext& ctx, const Tensor& total, const Tensor&) { return ctx.like(total); }
  std::array<Tensor, 2> backward(OpContext&, const Tensor& dy) { return {dy, c.clone()}; }
};

/// Parameters in f32 with given gradients.
struct Given {
  FlatBuffer gradients;
  std::vector<Tensor> weights;
  std::vector<Leaf*> leaves;
  explicit Given(const std::vector<int64_t>& counts, const MemorySource& memory = {}) {
    FlatLayout layout;
    for (size_t i = 0; i < counts.size(); ++i) layout.add(detail::join("w", i), {counts[i]});
    gradients = FlatBuffer::make(layout, DType::f32, cpu(), memory);
    for (size_t i = 0; i < counts.size(); ++i) {
      weights.push_back(make_leaf(Tensor::zeros({counts[i]}, DType::f32), detail::join("w", i)));
      leaves.push_back(&leaf_of(weights.back()));
      leaves.back()->set_gradient_buffer(gradients.part(static_cast<int>(i)));
    }
  }
  template <class Value>  // value(i, k)
  void run_backward(Value&& value) {
    Tensor total = Tensor::zeros({}, DType::f32);
    for (size_t i = weights.size(); i-- > 0;) {
      Tensor c = Tensor::empty(weights[i].shape(), DType::f32);
      for (int64_t k = 0; k < c.numel(); ++k) c.data<float>()[k] = value(i, k);
      total = apply(Give{c}, total, weights[i]);
    }
    backward(total);
  }
};

const std::vector<int64_t> kCounts = {300, 5000, 64, 1025};
constexpr BucketSizes kManyBuckets{4096, 512, 256};

/// Of every size from far below f16's smallest number up to its largest.
float value(int rank, size_t i, int64_t k) {
  const RngKey key{7, static_cast<uint64_t>(100 * rank + static_cast<int>(i))};
  const auto at = static_cast<uint64_t>(2 * k);
  return static_cast<float>(key.normal(at) *
                            std::exp2(-34.0 + 44.0 * static_cast<double>(key.uniform(at + 1))));
}

std::unique_ptr<Collective> communicator(AllReduceAlgorithm algorithm) {
  CommunicatorOptions options;
  options.timeout_s = 30;
  options.all_reduce = algorithm;
  return make_communicator(session(), options);
}

// The bound is HalfStaging's own: P (sum_r max(u |g_r| / P, s) + max(u |sum| / P, s)).  Terms in
// u^2, and the sum in f32 (at most size 2^-24 of the values), are below a hundredth of it.
void expect_within_bound(DType type, ReduceOp op, AllReduceAlgorithm algorithm) {
  const auto comm = communicator(algorithm);
  const double u = type == DType::f16 ? 0x1p-11 : 0x1p-8,
               s = type == DType::f16 ? 0x1p-25 : 0x1p-134;
  const int n = comm->size();
  const double p = n <= 2 ? n : 4;
  Given given(kCounts);
  ReducerOptions options;
  options.op = op;
  options.travel = type;
  options.buckets = kManyBuckets;
  GradientReducer reducer(given.gradients, given.leaves, *comm, options);
  EXPECT_GT(reducer.buckets().size(), 2u);
  double largest_share = 0;
  for (int window = 0; window < 2; ++window) {
    for (Leaf* leaf : given.leaves) leaf->clear_gradient();
    given.run_backward([&](size_t i, int64_t k) { return value(comm->rank(), i, k); });
    reducer.finish();
    for (size_t i = 0; i < kCounts.size(); ++i)
      for (int64_t k = 0; k < kCounts[i]; ++k) {
        double sum = 0, bound = 0;
        for (int r = 0; r < n; ++r) {
          const double g = value(r, i, k);
          sum += g;
          bound += p * std::max(u * std::fabs(g) / p, s);
        }
        bound += p * std::max(u * std::fabs(sum) / p, s);
        const double got = given.gradients.part(static_cast<int>(i)).data<float>()[k] *
                           (op == ReduceOp::mean ? static_cast<double>(n) : 1.0);
        const double off = std::fabs(got - sum);
        ASSERT_LE(off, n == 1 ? 0.0 : 1.01 * bound) << i << ", " << k << ": " << sum;
        largest_share = std::max(largest_share, off / bound);
      }
  }
  // The bound is no mile away: rounding is seen.
  if (n > 1) {
    EXPECT_GT(largest_share, 0.25);
  }
  const int64_t item = n > 1 ? 2 : 4;
  EXPECT_EQ(2 * given.gradients.all().numel() * item, reducer.counters().bytes);
}

TEST(HalfGradients, SumsAreWithinTheBoundOfTheirRoundings) {
  for (const DType type : {DType::f16, DType::bf16})
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean})
      for (const auto algorithm : {AllReduceAlgorithm::automatic, AllReduceAlgorithm::exchange})
        expect_within_bound(type, op, algorithm);
}

// Without the division by P the sum of two ranks would be infinite; rings, which keep partial sums
// in f16, too.
TEST(HalfGradients, TheLargestF16OnEveryRankDoesNotOverflow) {
  for (const auto algorithm : {AllReduceAlgorithm::automatic, AllReduceAlgorithm::ring,
                               AllReduceAlgorithm::halving, AllReduceAlgorithm::library}) {
    if (algorithm == AllReduceAlgorithm::library &&
        session().transport_name() != std::string("MPI"))
      continue;
    const auto comm = communicator(algorithm);
    Given given({4096});
    ReducerOptions options;
    options.op = ReduceOp::sum;
    options.travel = DType::f16;
    GradientReducer reducer(given.gradients, given.leaves, *comm, options);
    given.run_backward([](size_t, int64_t) { return 65504.0f; });
    reducer.finish();
    for (const float v : given.gradients.part(0).to_vector<float>())
      ASSERT_EQ(65504.0f * static_cast<float>(comm->size()), v) << name_of(algorithm);
  }
}

// What one rank cannot hold in f16 is infinite on all: the update is skipped, never wrong.
TEST(HalfGradients, AnOverflowOfOneRankReachesAll) {
  const auto comm = communicator(AllReduceAlgorithm::automatic);
  if (comm->size() < 2) GTEST_SKIP() << "one rank rounds nothing";
  Given given({70});
  ReducerOptions options;
  options.travel = DType::f16;
  GradientReducer reducer(given.gradients, given.leaves, *comm, options);
  const float big = 1e6f * static_cast<float>(comm->size());
  given.run_backward([&](size_t, int64_t k) { return comm->rank() == 1 && k == 69 ? big : 1.0f; });
  reducer.finish();
  EXPECT_EQ(std::numeric_limits<float>::infinity(), given.gradients.part(0).data<float>()[69]);
  EXPECT_EQ(1.0f, given.gradients.part(0).data<float>()[68]);
}

// Gradients, or their 16-bit copies, in memory that the ranks share: the same bits as in their own.
TEST(HalfGradients, SharedMemoryGivesTheSameBits) {
  const auto comm = communicator(AllReduceAlgorithm::automatic);
  const MemorySource shared = [&](int64_t bytes) { return make_shared_tensor(*comm, bytes); };
  for (const auto travel : {std::optional<DType>{}, std::optional(DType::f16)}) {
    std::vector<std::vector<float>> results;
    for (const MemorySource& memory : {MemorySource{}, shared}) {
      Given given(kCounts, memory);
      ReducerOptions options;
      options.travel = travel;
      options.staging_memory = memory;
      options.buckets = kManyBuckets;
      GradientReducer reducer(given.gradients, given.leaves, *comm, options);
      given.run_backward([&](size_t i, int64_t k) { return value(comm->rank(), i, k); });
      reducer.finish();
      results.push_back(given.gradients.all().to_vector<float>());
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

TEST(HalfGradients, OtherTypesAreRefused) {
  const auto comm = communicator(AllReduceAlgorithm::automatic);
  Given given({4});
  ReducerOptions options;
  options.travel = DType::f64;
  EXPECT_THAT(message_of([&] { GradientReducer(given.gradients, given.leaves, *comm, options); }),
              HasSubstr("f32 gradients on cpu cannot travel as f64"));
}

TEST(HalfGradients, RanksThatDisagreeOnTheTypeAreNamed) {
  const auto comm = communicator(AllReduceAlgorithm::automatic);
  if (comm->size() < 2) GTEST_SKIP() << "wants two ranks";
  Given given({4});
  ReducerOptions options;
  if (comm->rank() == 1) options.travel = DType::bf16;
  EXPECT_THAT(message_of([&] { GradientReducer(given.gradients, given.leaves, *comm, options); }),
              HasSubstr("rank 1 has f32 travelling as bf16"));
}

}  // namespace
}  // namespace bora
