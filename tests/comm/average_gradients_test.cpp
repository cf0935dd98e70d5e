// SPDX-License-Identifier: Apache-2.0
// Row 31: gradients averaged one parameter at a time.  Row 46: a reducer on the wrong device.
#include "comm/communicator.hpp"
#include "comm/gradient_reducer.hpp"
#include "tests/comm/reducer_chain.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/mpi_main.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <type_traits>

namespace bora {
namespace {

using bora::testing::Chain;
using bora::testing::message_of;
using bora::testing::session;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<Collective> communicator() {
  CommunicatorOptions options;
  options.timeout_s = 30;
  return make_communicator(session(), options);
}

TEST(AverageGradients, GivesTheMeanOfEveryGradient) {
  const auto comm = communicator();
  Chain chain({1, 200, 0, 65});
  chain.run_backward(comm->rank());
  average_gradients(chain.leaves, *comm);
  chain.expect_reduced(comm->size(), 1);
}

// Row 31: a parameter without a gradient on one rank neither hangs nor shifts the pairing; one that
// nobody uses is left alone.
TEST(AverageGradients, AParameterUnusedOnOneRankCountsAsZeroThere) {
  const auto comm = communicator();
  Chain chain({3, 200, 64, 65});
  chain.gradients.all().fill(77.0);  // an earlier window's, which must not count
  const int odd = comm->size() - 1;
  chain.used[1] = comm->rank() != odd;
  chain.used[3] = false;
  chain.run_backward(comm->rank());
  average_gradients(chain.leaves, *comm);
  for (const int i : {0, 1, 2}) {
    const auto got = chain.gradients.part(i).to_vector<double>();
    for (size_t k = 0; k < got.size(); ++k) {
      double sum = 0;
      bool any = false;
      for (int r = 0; r < comm->size(); ++r) {
        if (i == 1 && r == odd) continue;
        sum += Chain::coefficient(r, 0, static_cast<size_t>(i), static_cast<int64_t>(k));
        any = true;
      }
      ASSERT_EQ(any ? sum / comm->size() : 77.0, got[k]) << i << ", " << k;
    }
  }
  for (const double v : chain.gradients.part(3).to_vector<double>()) ASSERT_EQ(77.0, v);
}

TEST(AverageGradients, AMissingBufferIsNamedOnAllRanks) {
  const auto comm = communicator();
  if (comm->size() < 2) GTEST_SKIP() << "wants two ranks";
  Chain chain({3, 5});
  if (comm->rank() == 1) {
    chain.leaves[1]->set_gradient_buffer(Tensor());
    chain.used[1] = false;
  }
  chain.run_backward(comm->rank());
  EXPECT_THAT(message_of([&] { average_gradients(chain.leaves, *comm); }),
              AllOf(HasSubstr("'w1'"), HasSubstr("on rank 1 not even a buffer")));
  comm->barrier("still good");
}

/// Says that it works on a GPU.  Only asked, never used.
class OnGpu final : public Collective {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  DeviceType device_type() const override { return DeviceType::cuda; }
  Work all_reduce_async(Tensor, ReduceOp, std::string_view) override { used(); }
  void broadcast(Tensor&, int, std::string_view) override { used(); }
  void all_gather(const Tensor&, Tensor&, std::string_view) override { used(); }
  void gather(const Tensor&, Tensor&, int, std::string_view) override { used(); }
  void reduce(Tensor&, int, ReduceOp, std::string_view) override { used(); }
  void reduce_scatter(const Tensor&, Tensor&, ReduceOp, std::string_view) override { used(); }
  void barrier(std::string_view) override { used(); }
  std::unique_ptr<Collective> split(int, int) override { used(); }

 private:
  [[noreturn]] static void used() { BORA_FAIL("the group was used"); }
};

// Row 46: a model on the host with a group of GPUs is refused before anything is sent; that the
// group must exist is in the types.
TEST(GradientReducer, AModelOnTheHostWithAGroupOfGpusIsRefused) {
  static_assert(!std::is_constructible_v<GradientReducer, FlatBuffer&, std::vector<Leaf*>>);
  Chain chain({3, 5});
  OnGpu gpu;
  EXPECT_THAT(message_of([&] { GradientReducer(chain.gradients, chain.leaves, gpu); }),
              AllOf(HasSubstr("the gradients are on cpu"), HasSubstr("works on cuda")));
}

}  // namespace
}  // namespace bora
