// SPDX-License-Identifier: Apache-2.0
// main() of tests that run on several ranks, by MPI or by TCP.  A test fails on every rank if it
// fails on one; rank 0 alone prints the progress, the others only their failures.
#include "tests/support/mpi_main.hpp"

#include "comm/communicator.hpp"

#include <gtest/gtest.h>

#include <cstdio>

namespace bora::testing {
namespace {

const MpiSession* g_session = nullptr;

// Tests run in the same order on all ranks (the flags are the same), so each ends with a vote.
class Vote final : public ::testing::EmptyTestEventListener {
 public:
  explicit Vote(const MpiSession& session) : session_(session) {
    // No threads and no shared memory: less to count for tests that count such things.
    CommunicatorOptions options;
    options.threaded = false;
    options.stage_bytes = 0;
    comm_ = make_communicator(session, options);
  }
  bool failed() const { return failed_; }

  void OnTestPartResult(const ::testing::TestPartResult& part) override {
    if (session_.rank() == 0 || !part.failed()) return;
    std::fprintf(stderr, "[rank %d] %s:%d: %s\n", session_.rank(),
                 part.file_name() ? part.file_name() : "?", part.line_number(), part.summary());
  }
  void OnTestEnd(const ::testing::TestInfo& info) override {
    const int64_t mine = info.result()->Failed() ? 1 : 0;
    const int64_t n_failed = comm_->all_reduce(mine, ReduceOp::sum, info.name());
    if (n_failed == 0) return;
    failed_ = true;
    if (session_.rank() == 0)
      std::fprintf(stderr, "%s.%s failed on %d of %d ranks\n", info.test_suite_name(), info.name(),
                   static_cast<int>(n_failed), session_.size());
  }

 private:
  const MpiSession& session_;
  std::unique_ptr<Collective> comm_;
  bool failed_ = false;
};

int run(const MpiSession& session) {
  g_session = &session;
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (session.rank() != 0) delete listeners.Release(listeners.default_result_printer());
  auto* vote = new Vote(session);
  listeners.Append(vote);
  const int own = RUN_ALL_TESTS();
  const bool failed = vote->failed() || own != 0;
  delete listeners.Release(vote);  // before the session ends
  return failed ? 1 : 0;
}

}  // namespace

const MpiSession& session() { return *g_session; }

}  // namespace bora::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return bora::run_ranks(argc, argv, bora::testing::run);
}
