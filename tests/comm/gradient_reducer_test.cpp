// SPDX-License-Identifier: Apache-2.0
#include "comm/gradient_reducer.hpp"

#include "comm/communicator.hpp"
#include "tests/comm/reducer_chain.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/mpi_main.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace bora {
namespace {

using bora::testing::message_of;

using ::testing::AllOf;
using testing::Chain;
using ::testing::HasSubstr;
using testing::session;

const std::vector<int64_t> kCounts = {1, 200, 64, 1000, 3, 5000, 65, 128};

ReducerOptions many_buckets() {
  ReducerOptions o;
  o.buckets = {2048, 512, 1024};
  return o;
}

std::unique_ptr<Collective> communicator() {
  CommunicatorOptions options;
  options.timeout_s = 30;
  return make_communicator(session(), options);
}

// Rows 21 and 44: one bucket or many, the same bits.
TEST(GradientReducer, GivesTheMeanOfAllRanksGradientsForAnyBucketSize) {
  const auto comm = communicator();
  for (const ReducerOptions& options : {many_buckets(), ReducerOptions{}}) {
    Chain chain(kCounts);
    GradientReducer reducer(chain.gradients, chain.leaves, *comm, options);
    for (int window = 0; window < 3; ++window) {
      chain.clear();
      chain.run_backward(comm->rank());
      reducer.finish();
      chain.expect_reduced(comm->size(), 1);
    }
    const auto n = static_cast<int64_t>(reducer.buckets().size());
    EXPECT_EQ(options.buckets.target == 2048 ? 6 : 1, n);
    EXPECT_EQ(3, reducer.counters().windows);
    EXPECT_EQ(3 * n, reducer.counters().reductions);
    EXPECT_EQ(3 * chain.gradients.all().bytes(), reducer.counters().bytes);
  }
}

TEST(GradientReducer, SumsWhenTheLossIsWeightedByTheCaller) {
  const auto comm = communicator();
  Chain chain(kCounts);
  ReducerOptions options = many_buckets();
  options.op = ReduceOp::sum;
  GradientReducer reducer(chain.gradients, chain.leaves, *comm, options);
  chain.run_backward(comm->rank());
  reducer.finish();
  chain.expect_reduced(comm->size(), 1, ReduceOp::sum);
}

// Whatever order gradients become ready in - here another one on each rank - buckets go in order.
TEST(GradientReducer, LaunchesBucketsInOrderWhateverBecomesReadyFirst) {
  const auto comm = communicator();
  Chain chain(kCounts);
  std::rotate(chain.order.begin(), chain.order.begin() + 1 + comm->rank() % 3, chain.order.end());
  GradientReducer reducer(chain.gradients, chain.leaves, *comm, many_buckets());
  chain.run_backward(comm->rank());
  reducer.finish();
  chain.expect_reduced(comm->size(), 1);
  const auto& launches = reducer.launches();
  ASSERT_EQ(reducer.buckets().size(), launches.size());
  for (size_t b = 0; b < launches.size(); ++b) {
    EXPECT_TRUE(launches[b].in_backward);  // all were ready before its end
    if (b > 0) {
      EXPECT_LE(launches[b - 1].at, launches[b].at);
    }
  }
}

// Row 30, without a stop-watch (with one: overlap_test.cpp): the last step of backward does not go
// on before the first bucket is reduced, so this ends only if reductions are carried out while
// backward runs.
TEST(GradientReducer, ReducesTheFirstBucketWhileBackwardGoesOn) {
  const auto comm = communicator();
  Chain chain(kCounts);
  GradientReducer reducer(chain.gradients, chain.leaves, *comm, many_buckets());
  bool reduced = false;
  chain.steps.back().before = [&] {
    const auto end = GradientReducer::Clock::now() + std::chrono::seconds(20);
    while (!(reduced = reducer.reduced(0)) && GradientReducer::Clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  chain.run_backward(comm->rank());
  const auto backward_end = GradientReducer::Clock::now();
  EXPECT_TRUE(reduced);
  ASSERT_FALSE(reducer.launches().empty());
  EXPECT_LT(reducer.launches()[0].at, backward_end);
  reducer.finish();
  chain.expect_reduced(comm->size(), 1);
}

// Row 49.
TEST(GradientReducer, AccumulationReducesExactlyOncePerWindow) {
  const auto comm = communicator();
  constexpr int kMicro = 4;
  Chain chain(kCounts);
  GradientReducer reducer(chain.gradients, chain.leaves, *comm, many_buckets());
  const auto n = static_cast<int64_t>(reducer.buckets().size());
  for (int window = 1; window <= 2; ++window) {
    chain.clear();
    for (int micro = 0; micro < kMicro; ++micro) {
      reducer.set_enabled(micro + 1 == kMicro);
      chain.run_backward(comm->rank(), micro);
      EXPECT_EQ(micro + 1 == kMicro ? window * n : (window - 1) * n, reducer.counters().reductions);
    }
    reducer.finish();
    chain.expect_reduced(comm->size(), kMicro);
  }
  EXPECT_EQ(2 * chain.gradients.all().bytes(), reducer.counters().bytes);
}

TEST(GradientReducer, AParameterUsedOnlyInAnEarlierMicroBatchIsReducedToo) {
  const auto comm = communicator();
  Chain chain({5, 7});
  GradientReducer reducer(chain.gradients, chain.leaves, *comm, many_buckets());
  reducer.set_enabled(false);
  chain.run_backward(comm->rank());
  reducer.set_enabled(true);
  chain.used[1] = false;
  chain.run_backward(comm->rank());
  reducer.finish();
  double sum = 0;
  for (int r = 0; r < comm->size(); ++r) sum += Chain::coefficient(r, 0, 1, 3);
  EXPECT_EQ(sum / comm->size(), chain.gradients.part(1).data<double>()[3]);
}

// Row 43: never entered the graph, or was passed by without a gradient.
TEST(GradientReducer, UnusedParametersAreNamed) {
  const auto comm = communicator();
  for (bool in_graph : {false, true}) {
    Chain chain(kCounts);
    chain.used[2] = chain.used[4] = in_graph;
    chain.steps[2].without_gradient = chain.steps[4].without_gradient = true;
    GradientReducer reducer(chain.gradients, chain.leaves, *comm);
    chain.run_backward(comm->rank());
    EXPECT_THAT(message_of([&] { reducer.finish(); }),
                AllOf(HasSubstr("'w2', 'w4'"), HasSubstr("no gradient")));
  }
}

// Row 43, the option; row 31: one rank has no gradient, and pairing holds.
TEST(GradientReducer, UnusedParametersCountAsZeroIfAsked) {
  const auto comm = communicator();
  ReducerOptions options = many_buckets();
  options.unused_as_zero = true;
  Chain chain(kCounts);
  GradientReducer reducer(chain.gradients, chain.leaves, *comm, options);
  chain.run_backward(comm->rank());
  reducer.finish();  // leaves something behind in w3's part, which must not count again
  chain.clear();
  chain.used[3] = comm->rank() != 0;
  chain.used[6] = false;
  chain.run_backward(comm->rank());
  reducer.finish();
  for (int64_t k = 0; k < kCounts[3]; ++k) {
    double sum = 0;
    for (int r = 1; r < comm->size(); ++r) sum += Chain::coefficient(r, 0, 3, k);
    ASSERT_EQ(sum / comm->size(), chain.gradients.part(3).data<double>()[k]);
  }
  for (double v : chain.gradients.part(6).to_vector<double>()) ASSERT_EQ(0.0, v);
}

TEST(GradientReducer, ReadyTwiceInOneWindowIsNamed) {
  const auto comm = communicator();
  Chain chain({64});
  GradientReducer reducer(chain.gradients, chain.leaves, *comm);
  chain.run_backward(comm->rank());
  EXPECT_THAT(message_of([&] { chain.run_backward(comm->rank()); }),
              AllOf(HasSubstr("'w0'"), HasSubstr("twice")));
  EXPECT_THAT(message_of([&] { reducer.set_enabled(false); }), HasSubstr("finish()"));
  reducer.finish();
}

TEST(GradientReducer, FinishWhileDisabledIsAnError) {
  const auto comm = communicator();
  Chain chain({64});
  GradientReducer reducer(chain.gradients, chain.leaves, *comm);
  reducer.set_enabled(false);
  chain.run_backward(comm->rank());
  EXPECT_THAT(message_of([&] { reducer.finish(); }), HasSubstr("disabled"));
}

TEST(GradientReducer, DifferentModelsOnTheRanksAreNamed) {
  const auto comm = communicator();
  if (comm->size() < 2) GTEST_SKIP() << "wants two ranks";
  const bool odd = comm->rank() == 1;
  Chain chain({64, odd ? 66 : 65, 3});
  EXPECT_THAT(message_of([&] { GradientReducer(chain.gradients, chain.leaves, *comm); }),
              AllOf(HasSubstr("rank 0 has 'w1' (65)"), HasSubstr("rank 1 has 'w1' (66)")));
  Chain more(odd ? std::vector<int64_t>{64, 65, 3} : std::vector<int64_t>{64, 65});
  EXPECT_THAT(message_of([&] { GradientReducer(more.gradients, more.leaves, *comm); }),
              AllOf(HasSubstr("rank 0 has nothing"), HasSubstr("rank 1 has 'w2' (3)")));
}

TEST(GradientReducer, AGradientOutsideTheBufferIsNamed) {
  const auto comm = communicator();
  Chain chain({64, 65});
  chain.leaves[1]->set_gradient_buffer(Tensor::zeros({65}, DType::f64));
  EXPECT_THAT(message_of([&] { GradientReducer(chain.gradients, chain.leaves, *comm); }),
              HasSubstr("'w1'"));
}

TEST(GradientReducer, GivesTheHooksBack) {
  const auto comm = communicator();
  Chain chain({64});
  { const GradientReducer reducer(chain.gradients, chain.leaves, *comm); }
  chain.run_backward(comm->rank());  // would call into a dead reducer
  comm->barrier("end");
}

}  // namespace
}  // namespace bora
