// SPDX-License-Identifier: Apache-2.0
// Wrong use: ranks that disagree, tensors that do not fit; and what an idle communicator costs.
#include "comm/communicator.hpp"
#include "comm/flight_recorder.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/mpi_main.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <thread>

namespace bora {
namespace {

using bora::testing::message_of;

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::session;

std::unique_ptr<Collective> communicator(bool threaded = true) {
  CommunicatorOptions options;
  options.timeout_s = 30;
  options.threaded = threaded;
  return make_communicator(session(), options);
}

// Row 32.  Each case: what rank 0 does, what the others do, and what the message must name.  Large
// and small data take different ways, so both are tried.
class Mismatch : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (session().size() < 2) GTEST_SKIP() << "wants two ranks";
    comm_ = communicator(GetParam());
  }
  void expect(const std::function<void()>& first, const std::function<void()>& others,
              const std::string& of_first, const std::string& of_others) {
    const std::string text = message_of(comm_->rank() == 0 ? first : others);
    EXPECT_THAT(text, AllOf(HasSubstr("rank 0 calls " + of_first), HasSubstr("calls " + of_others),
                            HasSubstr("rank 0 on host " + session().host())));
    // Everybody has the error, nobody has wrong data, and the communicator is still good.
    EXPECT_EQ(static_cast<int64_t>(comm_->size()),
              comm_->all_reduce(int64_t{1}, ReduceOp::sum, "after"));
  }
  std::unique_ptr<Collective> comm_;
};

TEST_P(Mismatch, CountsDiffer) {
  for (int64_t n : {3, 100'000}) {
    Tensor a = Tensor::full({n}, 7.0, DType::f32), b = Tensor::full({n + 1}, 7.0, DType::f32);
    expect([&] { comm_->all_reduce(a, ReduceOp::sum, "x"); },
           [&] { comm_->all_reduce(b, ReduceOp::sum, "x"); },
           detail::join("all_reduce 'x' #", n == 3 ? 1 : 3, " (sum, f32, ", n, " elements)"),
           detail::join("all_reduce 'x' #", n == 3 ? 1 : 3, " (sum, f32, ", n + 1, " elements)"));
    for (const Tensor& t : {a, b})
      for (float v : t.to_vector<float>()) ASSERT_EQ(7.0f, v);
  }
}

TEST_P(Mismatch, TypesDiffer) {
  Tensor a = Tensor::zeros({1000}, DType::f32), b = Tensor::zeros({1000}, DType::i32);
  expect([&] { comm_->all_reduce(a, ReduceOp::sum, "x"); },
         [&] { comm_->all_reduce(b, ReduceOp::sum, "x"); }, "all_reduce 'x' #1 (sum, f32",
         "all_reduce 'x' #1 (sum, i32");
}

TEST_P(Mismatch, ReductionsDiffer) {
  Tensor a = Tensor::zeros({4}, DType::f32);
  expect([&] { comm_->all_reduce(a, ReduceOp::sum, "x"); },
         [&] { comm_->all_reduce(a, ReduceOp::mean, "x"); }, "all_reduce 'x' #1 (sum",
         "all_reduce 'x' #1 (mean");
}

TEST_P(Mismatch, OperationsDiffer) {
  Tensor a = Tensor::zeros({5000}, DType::f32);
  expect([&] { comm_->all_reduce(a, ReduceOp::sum, "x"); }, [&] { comm_->broadcast(a, 0, "x"); },
         "all_reduce 'x'", "broadcast 'x'");
  expect([&] { comm_->barrier("x"); }, [&] { comm_->split(0, 0); }, "barrier 'x'", "split");
}

TEST_P(Mismatch, RootsDiffer) {
  Tensor a = Tensor::zeros({5000}, DType::f32);
  expect([&] { comm_->broadcast(a, 0, "x"); }, [&] { comm_->broadcast(a, 1, "x"); },
         "broadcast 'x' #1 (f32, 5000 elements, root 0)",
         "broadcast 'x' #1 (f32, 5000 elements, "
         "root 1)");
}

// Row 137, pitfall 33: a reduction inside `if (rank == 0)` meets the others' next operation.
TEST_P(Mismatch, CallOnOneRankOnlyIsFoundAtTheNextOperation) {
  Tensor a = Tensor::zeros({8}, DType::f32);
  expect([&] { comm_->all_reduce(a, ReduceOp::mean, "loss for the log"); },
         [&] { comm_->all_reduce(a, ReduceOp::mean, "gradients, bucket 0"); },
         "all_reduce 'loss for the log'", "all_reduce 'gradients, bucket 0'");
}

// One rank has left out an operation, or made one more: found at once, and both are named.
TEST_P(Mismatch, OneRankIsAWholeOperationAhead) {
  Tensor a = Tensor::zeros({8}, DType::f32);
  for (const char* label : {"bucket 0", "bucket 1"}) comm_->all_reduce(a, ReduceOp::mean, label);
  expect([&] { comm_->all_reduce(a, ReduceOp::mean, "bucket 2"); },
         [&] { comm_->barrier("epoch end"); }, "all_reduce 'bucket 2' #3 (mean, f32, 8 elements)",
         "barrier 'epoch end' #3");
}

// In a group, ranks are named as the group counts them and as the world does.
TEST_P(Mismatch, InAGroup) {
  const int n = comm_->size(), last = n - 1;
  const auto reversed = comm_->split(0, n - comm_->rank());
  Tensor a = Tensor::zeros({8}, DType::f32), b = Tensor::zeros({9}, DType::f32);
  const bool is_first = reversed->rank() == 0;
  const std::string text =
      message_of([&] { reversed->all_reduce(is_first ? a : b, ReduceOp::sum, "x"); });
  EXPECT_THAT(
      text,
      AllOf(HasSubstr("ranks of world/split 1 color 0 disagree"),
            HasSubstr("rank 0 calls all_reduce 'x' #1 (sum, f32, 8 elements)"),
            HasSubstr("rank 1 calls all_reduce 'x' #1 (sum, f32, 9 elements)"),
            HasSubstr(detail::join("rank 0 (world rank ", last, ") on host ", session().host())),
            HasSubstr(detail::join("rank 1 (world rank ", last - 1, ") on host "))));
  reversed->barrier("still good");
  comm_->barrier("the world too");
}

TEST_P(Mismatch, OfAMessage) {
  Tensor a = Tensor::zeros({8}, DType::f32), b = Tensor::zeros({9}, DType::i32);
  if (comm_->rank() == 0) comm_->send(a, 1, "halo");
  if (comm_->rank() == 1) {
    EXPECT_THAT(message_of([&] { comm_->receive(b, 0, "flux"); }),
                AllOf(HasSubstr("rank 0 sends 'halo' (f32, 8 elements)"),
                      HasSubstr("rank 1 wants 'flux' (i32, 9 elements)"),
                      HasSubstr("rank 0 on host " + session().host())));
  }
  comm_->barrier("still good");
}

// What went wrong stands in the flight record, on all ranks.
TEST_P(Mismatch, IsRecorded) {
  Tensor a = Tensor::zeros({8}, DType::f32);
  expect([&] { comm_->barrier("x"); }, [&] { comm_->all_reduce(a, ReduceOp::sum, "x"); },
         "barrier 'x'", "all_reduce 'x'");
  bool found = false;
  for (const FlightEntry& e : FlightRecorder::instance().entries())
    found = found || (e.state == FlightState::failed && e.sequence == 1 &&
                      std::string(e.fault).starts_with("ranks disagree on what to do"));
  EXPECT_TRUE(found);
}

INSTANTIATE_TEST_SUITE_P(Threads, Mismatch, ::testing::Bool(), [](const auto& threaded) {
  return std::string(threaded.param ? "Threaded" : "Inline");
});

// Row 33.  No device is needed to have a tensor that claims to be on one.
TEST(Arguments, CudaTensorIsAnExplicitError) {
  const auto comm = communicator();
  float host = 0;
  Tensor x = Tensor::wrap(&host, {1}, DType::f32, cuda(0));
  EXPECT_THAT(message_of([&] { comm->all_reduce(x, ReduceOp::sum, "loss"); }),
              AllOf(HasSubstr("all_reduce 'loss'"), HasSubstr("cuda:0"), HasSubstr("cpu")));
  Tensor undefined;
  EXPECT_THAT(message_of([&] { comm->broadcast(undefined, 0, "w"); }), HasSubstr("undefined"));
  comm->barrier("nothing was sent");
}

TEST(Arguments, ShapesAndRootsAreChecked) {
  const auto comm = communicator();
  Tensor x = Tensor::zeros({3}, DType::f32);
  Tensor bad = Tensor::zeros({comm->size(), 4}, DType::f32);
  Tensor other = Tensor::zeros({comm->size(), 3}, DType::f64);
  EXPECT_THAT(message_of([&] { comm->all_gather(x, bad, "g"); }), HasSubstr("(3)"));
  EXPECT_THAT(message_of([&] { comm->all_gather(x, other, "g"); }), HasSubstr("types differ"));
  EXPECT_THAT(message_of([&] { comm->reduce_scatter(bad, x, ReduceOp::sum, "g"); }),
              HasSubstr("(3)"));
  EXPECT_THAT(message_of([&] { comm->broadcast(x, comm->size(), "b"); }), HasSubstr("root"));
  EXPECT_THAT(message_of([&] { comm->split(-1, 0); }), HasSubstr("color"));
  comm->barrier("nothing was sent");
}

TEST(Agree, AFailureOnOneRankIsAFailureOnAllWithOneCause) {
  const auto comm = communicator();
  const int bad = comm->size() - 1;
  const std::string text = message_of([&] {
    comm->agree("open data", [&] {
      if (comm->rank() == bad) throw UsageError("file x is missing");
    });
  });
  EXPECT_THAT(text, HasSubstr("file x is missing"));
  EXPECT_THROW(comm->agree("open data",
                           [&] {
                             if (comm->rank() == bad) throw UsageError("file x is missing");
                           }),
               UsageError);
  comm->agree("fine", [] {});
}

TEST(Idle, CommunicatorCostsNoCpuTime) {
  const auto comm = communicator();
  comm->barrier("warm up");
  const auto cpu = [] {  // of the whole process, the communication thread too
    timespec t{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double before = cpu();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LT(cpu() - before, 0.05);  // a polling thread would show 0.1 and more, a spinning one 0.5
  comm->barrier("end");
}

TEST(Timeout, IsCheckedAndCanBeChanged) {
  const auto comm = communicator();
  EXPECT_THROW(set_timeout(*comm, 0), Error);
  set_timeout(*comm, 20);
  comm->barrier("still works");
  CommunicatorOptions bad;
  bad.message_bytes = int64_t{1} << 31;
  EXPECT_THROW(make_communicator(session(), bad), Error);
}

// A rank that is late but within the limit: notes are exchanged, and nothing of them is left over.
TEST(Timeout, ALateRankWithinTheLimitIsNoError) {
  const auto comm = communicator();
  set_timeout(*comm, 4.0);  // notes travel after 2 s
  for (int late : {0, comm->size() - 1}) {
    if (comm->rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(2400));
    EXPECT_EQ(static_cast<int64_t>(comm->size()),
              comm->all_reduce(int64_t{1}, ReduceOp::sum, "late"));
  }
  set_timeout(*comm, 30);  // the end of the program waits as long as it says
}

}  // namespace
}  // namespace bora
