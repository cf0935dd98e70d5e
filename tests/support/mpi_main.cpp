// SPDX-License-Identifier: Apache-2.0
// main() of tests that run on several ranks.  A test fails on every rank if it fails on one; rank 0
// alone prints the progress, the others only their failures.
#include "tests/support/mpi_main.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>

namespace bora::testing {
namespace {

const MpiSession* g_session = nullptr;

// Tests run in the same order on all ranks (the flags are the same), so each ends with a vote.
class Vote final : public ::testing::EmptyTestEventListener {
 public:
  explicit Vote(const MpiSession& session) : session_(session) {
    MPI_Comm_dup(MPI_COMM_WORLD, &comm_);
  }
  ~Vote() override { MPI_Comm_free(&comm_); }
  bool failed() const { return failed_; }

  void OnTestPartResult(const ::testing::TestPartResult& part) override {
    if (session_.rank() == 0 || !part.failed()) return;
    std::fprintf(stderr, "[rank %d] %s:%d: %s\n", session_.rank(),
                 part.file_name() ? part.file_name() : "?", part.line_number(), part.summary());
  }
  void OnTestEnd(const ::testing::TestInfo& info) override {
    const int mine = info.result()->Failed() ? 1 : 0;
    int n_failed = 0;
    MPI_Allreduce(&mine, &n_failed, 1, MPI_INT, MPI_SUM, comm_);
    if (n_failed == 0) return;
    failed_ = true;
    if (session_.rank() == 0)
      std::fprintf(stderr, "%s.%s failed on %d of %d ranks\n", info.test_suite_name(), info.name(),
                   n_failed, session_.size());
  }

 private:
  const MpiSession& session_;
  MPI_Comm comm_ = MPI_COMM_NULL;
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
  delete listeners.Release(vote);  // before MPI ends
  return failed ? 1 : 0;
}

}  // namespace

const MpiSession& session() { return *g_session; }

}  // namespace bora::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return bora::run_ranks(argc, argv, bora::testing::run);
}
