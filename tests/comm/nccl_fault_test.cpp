// SPDX-License-Identifier: Apache-2.0
// What goes wrong over NCCL ends on every rank, within the limit, with the culprit's name.
#include "tests/comm/nccl_fixture.hpp"

#include <thread>

namespace bora {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::NcclTest;

class NcclFaults : public NcclTest {
 protected:
  NcclFaults() { options_.wait = NcclWait::host; }
  Tensor ones(int64_t n, const NcclCommunicator& nccl) const {
    return Tensor::full({n}, 1, DType::f32, cuda(nccl.device()));
  }
};

// Compared before each operation: nothing has moved, and the communicator is still good.
TEST_F(NcclFaults, DifferentCallsAreErrorsBeforeDataMoves) {
  if (size() < 2) GTEST_SKIP() << "wants two ranks";
  const auto nccl = make();
  const bool odd = rank() == 1;
  Tensor x = ones(10, *nccl), shorter = ones(9, *nccl);
  Tensor whole = Tensor::zeros({10}, DType::i32, cuda(nccl->device()));
  const auto differs = [&](const char* here, const char* there, const std::function<void()>& call) {
    const std::string text = message_of(call);
    EXPECT_THAT(text, AllOf(HasSubstr("different operations"), HasSubstr("rank 0 ("),
                            HasSubstr("rank 1 ("), HasSubstr(here), HasSubstr(there)));
    EXPECT_EQ(1, x.to_vector<float>()[0]);
  };
  differs("f32, 10 elements", "f32, 9 elements",
          [&] { nccl->all_reduce(odd ? shorter : x, ReduceOp::sum, "count"); });
  differs("f32, 10", "i32, 10", [&] { nccl->all_reduce(odd ? whole : x, ReduceOp::sum, "type"); });
  differs("(sum", "(max", [&] { nccl->all_reduce(x, odd ? ReduceOp::max : ReduceOp::sum, "op"); });
  differs("all_reduce 'a'", "all_reduce 'b'",
          [&] { nccl->all_reduce(x, ReduceOp::sum, odd ? "b" : "a"); });
  differs("root 0", "root 1", [&] { nccl->broadcast(x, odd ? 1 : 0, "root"); });
  differs("broadcast 'kind'", "barrier 'kind'", [&] {
    if (odd)
      nccl->barrier("kind");
    else
      nccl->broadcast(x, 0, "kind");
  });
  nccl->all_reduce(x, ReduceOp::sum, "still good");
  EXPECT_EQ(static_cast<float>(size()), x.to_vector<float>()[9]);
}

// Without that comparison NCCL hangs; the time-out compares what the ranks have issued.
TEST_F(NcclFaults, ATimeOutNamesTheFirstDifference) {
  if (size() < 2) GTEST_SKIP() << "wants two ranks";
  options_.check_every = 0;
  options_.timeout_s = 1;
  const auto nccl = make();
  Tensor x = ones(10, *nccl), shorter = ones(9, *nccl);
  nccl->all_reduce(x, ReduceOp::sum, "fine");
  nccl->all_reduce_async(rank() == 1 ? shorter : x, ReduceOp::sum, "different");
  const std::string text = message_of([&] { nccl->synchronize(); });
  EXPECT_THAT(text,
              AllOf(HasSubstr("all_reduce 'different' #2"), HasSubstr("time is over (limit 1 s)"),
                    HasSubstr("as number 2 rank 0"), HasSubstr("f32, 10 elements"),
                    HasSubstr("rank 1 ("), HasSubstr("f32, 9 elements")));
  EXPECT_THAT(nccl_double::first_difference(), HasSubstr("count 10"));
  // Whatever comes later says the same.
  EXPECT_EQ(text, message_of([&] { nccl->all_reduce(x, ReduceOp::sum, "later"); }));
  EXPECT_EQ(text, message_of([&] { nccl->check(); }));
  EXPECT_EQ(text, message_of([&] { nccl->barrier("later"); }));
}

TEST_F(NcclFaults, ADifferenceIsFoundAtTheNextAgreedPoint) {
  if (size() < 2) GTEST_SKIP() << "wants two ranks";
  options_.check_every = 0;
  const auto nccl = make();
  Tensor x = ones(10, *nccl);
  nccl->all_reduce(x, ReduceOp::sum, rank() == 1 ? "bucket 1" : "bucket 0");  // NCCL sees no label
  EXPECT_THAT(message_of([&] { nccl->barrier("end of the window"); }),
              AllOf(HasSubstr("number 1"), HasSubstr("bucket 0"), HasSubstr("bucket 1")));
  EXPECT_THAT(message_of([&] { nccl->check(); }), HasSubstr("bucket 1"));  // data had moved
}

// Every rank's own record is right; only NCCL (here: its double) mixes things up.
TEST_F(NcclFaults, WrongOrderInsideNcclIsATimeOutThatSaysSo) {
  if (size() < 2) GTEST_SKIP() << "wants two ranks";
  options_.timeout_s = 1;
  const auto nccl = make();
  nccl_double::Faults fault;
  fault.swap_operation = 2;
  set_faults_on(1, fault);
  Tensor x = ones(10, *nccl), y = ones(20, *nccl);
  nccl->all_reduce_async(x, ReduceOp::sum, "x");
  nccl->all_reduce_async(y, ReduceOp::sum, "y");
  EXPECT_THAT(
      message_of([&] { nccl->synchronize(); }),
      AllOf(HasSubstr("time is over"), HasSubstr("all ranks have issued the same 2 operations"),
            HasSubstr("rank 0 ("), HasSubstr("waits in all_reduce 'x' #1")));
}

TEST_F(NcclFaults, AHangOfNcclNamesTheOperation) {
  options_.timeout_s = 1;
  const auto nccl = make();
  nccl_double::Faults fault;
  fault.hang_operation = 3;
  set_faults_on(size() - 1, fault);
  Tensor x = ones(10, *nccl);
  nccl->all_reduce(x, ReduceOp::sum, "fine");
  EXPECT_THAT(message_of([&] { nccl->all_reduce(x, ReduceOp::sum, "hangs"); }),
              AllOf(HasSubstr("all_reduce 'hangs' #2 (sum, f32, 10 elements): time is over"),
                    HasSubstr("a device, a link or a library hangs")));
}

// Slow is not broken: the limit counts from this rank's own readiness, operation by operation.
TEST_F(NcclFaults, SlowOperationsBelowTheLimitAreFine) {
  options_.timeout_s = 20;
  const auto nccl = make();
  nccl_double::Faults fault;
  fault.delay_operation = 3;
  fault.delay_s = 0.5;
  set_faults_on(0, fault);
  Tensor x = ones(10, *nccl);
  for (int i = 0; i < 4; ++i) nccl->all_reduce(x, ReduceOp::max, "x");
  EXPECT_EQ(1, x.to_vector<float>()[9]);
}

TEST_F(NcclFaults, AnAsynchronousErrorIsFoundWithoutAnOperation) {
  const auto nccl = make();
  nccl_double::Faults fault;
  fault.error_operation = 2;
  nccl_double::set_faults(fault);  // on all ranks, so that all come to the end of this test
  Tensor x = ones(10, *nccl);
  EXPECT_THAT(message_of([&] { nccl->all_reduce(x, ReduceOp::sum, "breaks"); }),
              AllOf(HasSubstr("rank " + std::to_string(rank()) + " ("),
                    HasSubstr("remote process exited"), HasSubstr("all_reduce 'breaks' #1")));
}

TEST_F(NcclFaults, ACallThatNcclRefusesEndsTheCommunicator) {
  const auto nccl = make();
  nccl_double::Faults fault;
  fault.refuse_operation = 2;
  nccl_double::set_faults(fault);
  Tensor x = ones(10, *nccl);
  const std::string text = message_of([&] { nccl->all_reduce(x, ReduceOp::sum, "bad"); });
  EXPECT_THAT(text, AllOf(HasSubstr("all_reduce 'bad' #1"), HasSubstr("invalid usage")));
  EXPECT_EQ(text, message_of([&] { nccl->barrier("later"); }));
}

// By the watchdog, say, while the main thread waits.
TEST_F(NcclFaults, AbortFromAnotherThreadEndsAWait) {
  options_.poll_s = 0;
  const auto nccl = make();
  nccl_double::Faults fault;
  fault.hang_operation = 2;
  nccl_double::set_faults(fault);
  Tensor x = ones(10, *nccl);
  const Work work = nccl->all_reduce_async(x, ReduceOp::sum, "hangs");
  std::thread watchdog([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    nccl->abort("the watchdog has seen enough");
    nccl->abort("and says it twice");
  });
  EXPECT_THAT(message_of([&] { work.wait(); }), HasSubstr("the watchdog has seen enough"));
  watchdog.join();
  EXPECT_TRUE(work.done());
  EXPECT_THAT(message_of([&] { nccl->check(); }), HasSubstr("the watchdog has seen enough"));
}

class Recorder final : public NcclObserver {
 public:
  void issued(const NcclNote& note) override {
    issued_.push_back(note.text);
    EXPECT_EQ(issued_.size(), note.id);
  }
  void finished(const NcclNote& note) override { finished_.push_back(note.text); }
  void failed(const std::string& reason) override { failed_.push_back(reason); }
  std::vector<std::string> issued_, finished_, failed_;  // looked at when nothing runs any more
};

// The host hangs inside the device's synchronisation and calls nothing of ours: the watching thread
// ends the communicator, the host goes on, and finds out at its next call.
TEST_F(NcclFaults, AHostThatWaitsForItsDeviceIsReleased) {
  options_.wait = NcclWait::stream;
  options_.timeout_s = 1;
  const auto recorder = std::make_shared<Recorder>();
  options_.observer = recorder;
  auto nccl = make();
  nccl_double::Faults fault;
  fault.hang_operation = 3;
  nccl_double::set_faults(fault);
  Tensor x = ones(10, *nccl);
  nccl->all_reduce(x, ReduceOp::sum, "fine");
  nccl->all_reduce(x, ReduceOp::sum, "hangs");
  x.to_vector<float>();
  EXPECT_THAT(message_of([&] { nccl->check(); }), HasSubstr("all_reduce 'hangs' #2"));
  nccl.reset();
  const std::string hangs = "all_reduce 'hangs' #2 (sum, f32, 10 elements)";
  ASSERT_EQ(3u, recorder->issued_.size());  // the start's own included
  EXPECT_EQ(hangs, recorder->issued_[2]);
  EXPECT_EQ(2u, recorder->finished_.size());
  EXPECT_EQ("all_reduce 'fine' #1 (sum, f32, 10 elements)", recorder->finished_[1]);
  ASSERT_EQ(1u, recorder->failed_.size());
  EXPECT_THAT(recorder->failed_[0], HasSubstr(hangs + ": time is over"));
}

// Hung not on the device but in the host's call: who aborts must not wait for that call's lock.
TEST_F(NcclFaults, ACallThatDoesNotReturnIsEnded) {
  for (bool by_watcher : {true, false}) {
    options_.timeout_s = by_watcher ? 1 : 30;
    options_.poll_s = by_watcher ? 0.05 : 0;
    const auto nccl = make();
    nccl_double::Faults fault;
    fault.stuck_operation = 2;
    nccl_double::set_faults(fault);
    Tensor x = ones(10, *nccl);
    std::thread watchdog([&] {
      if (by_watcher) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      nccl->abort("the watchdog has seen enough");
    });
    EXPECT_THAT(message_of([&] { nccl->all_reduce(x, ReduceOp::sum, "stuck"); }),
                HasSubstr(by_watcher ? "a call of NCCL does not return: time is over (limit 1 s)"
                                     : "the watchdog has seen enough"));
    watchdog.join();
    nccl_double::set_faults({});
  }
}

// The receiver compares before NCCL could mix up bytes; the sender's stream waits until its limit.
TEST_F(NcclFaults, DifferentSendAndReceiveAreNamed) {
  if (size() < 2) GTEST_SKIP() << "wants two ranks";
  const auto nccl = make();
  Tensor x = ones(rank() == 0 ? 10 : 9, *nccl);
  Work sent;
  if (rank() == 0) {
    sent = nccl->send_async(x, 1, "halo");
    EXPECT_FALSE(sent.done());
  }
  if (rank() == 1) {
    EXPECT_THAT(message_of([&] { nccl->receive(x, 0, "halo"); }),
                AllOf(HasSubstr("receive 'halo'"), HasSubstr("rank 0 sends f32, 10 elements"),
                      HasSubstr("rank 1 wants f32, 9 elements")));
    EXPECT_EQ(1, x.to_vector<float>()[0]);
  }
  host_->barrier("the receiver has refused");
  nccl->abort("the receiver has refused");
  if (rank() == 0) {
    EXPECT_THAT(message_of([&] { sent.wait(); }), HasSubstr("has refused"));
  }
}

// An exception on one rank: its communicator must not wait for the others to finish with it.
TEST_F(NcclFaults, DestroyedByAnExceptionItAborts) {
  nccl_double::Faults fault;
  fault.hang_operation = 2;
  nccl_double::set_faults(fault);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(message_of([&] {
                const auto nccl = make();
                Tensor x = ones(10, *nccl);
                nccl->all_reduce_async(x, ReduceOp::sum, "hangs");
                throw Error("out of luck");
              }),
              HasSubstr("out of luck"));
  EXPECT_LT(std::chrono::steady_clock::now() - start,
            std::chrono::seconds(20));  // the limit is 30 s
}

TEST_F(NcclFaults, WorkOutlivesItsCommunicator) {
  auto nccl = make();
  Tensor x = ones(10, *nccl);
  const Work work = nccl->all_reduce_async(x, ReduceOp::sum, "x");
  nccl.reset();
  EXPECT_TRUE(work.done());
  work.wait();
  EXPECT_EQ(static_cast<float>(size()), x.to_vector<float>()[0]);
}

}  // namespace
}  // namespace bora
