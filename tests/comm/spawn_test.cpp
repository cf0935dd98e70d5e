// SPDX-License-Identifier: Apache-2.0
// Row 15: ranks started from inside a program; row 16: nothing of them is left.
#include "comm/spawn.hpp"
#include "comm/communicator.hpp"
#include "tests/support/message_of.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

namespace bora {
namespace {

using bora::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int n_open_files() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return static_cast<int>(std::distance(begin(files), end(files)));
}

class Spawn : public ::testing::Test {
 protected:
  void SetUp() override { files_ = n_open_files(); }
  void TearDown() override {
    EXPECT_EQ(-1, ::waitpid(-1, nullptr, WNOHANG)) << "a child is left";
    EXPECT_EQ(files_, n_open_files());
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      EXPECT_FALSE(entry.path().filename().string().starts_with(
          detail::join("bora-", static_cast<long>(::getpid()), "-")));
  }
  int files_ = 0;
};

TEST_F(Spawn, RanksWorkTogether) {
  for (const int n : {1, 2, 4}) {
    const std::string file = ::testing::TempDir() + "spawn_test." + std::to_string(::getpid());
    spawn_ranks(n, [&](Session& session) {
      const auto comm = make_communicator(session);
      EXPECT_EQ(n, session.local_size());
      Tensor x = Tensor::full({1000}, session.rank() + 1.0, DType::f32);
      comm->all_reduce(x, ReduceOp::sum, "spawned");
      if (x.data<float>()[999] != static_cast<float>(n * (n + 1) / 2)) throw Error("wrong sum");
      if (session.rank() == 0) std::ofstream(file) << session.size();
    });
    int size = 0;
    std::ifstream(file) >> size;
    EXPECT_EQ(n, size);
    std::filesystem::remove(file);
  }
}

TEST_F(Spawn, AnExceptionReachesTheParentAsWhatItWas) {
  const auto fail = [](Session& session) {
    const auto comm = make_communicator(session);
    if (session.rank() == 2) throw UsageError("key 'foo' is unknown");
    comm->barrier("the others wait");
  };
  EXPECT_THROW(spawn_ranks(3, fail), UsageError);
  EXPECT_EQ("rank 2: key 'foo' is unknown", message_of([&] { spawn_ranks(3, fail); }));
}

TEST_F(Spawn, AKilledRankIsNamedAndEndsTheOthers) {
  const double took = seconds_of([] {
    EXPECT_THAT(message_of([] {
                  spawn_ranks(3, [](Session& session) {
                    const auto comm = make_communicator(session);
                    if (session.rank() == 1) std::raise(SIGKILL);
                    comm->barrier("the others wait");
                  });
                }),
                AllOf(HasSubstr("rank 1"), HasSubstr("signal 9")));
  });
  EXPECT_LT(took, 10);
}

// A rank that never speaks to the others again is ended by the failure of another.
TEST_F(Spawn, ABusyRankDoesNotOutliveAFailure) {
  const double took = seconds_of([] {
    EXPECT_EQ("rank 0: enough", message_of([] {
                spawn_ranks(2, [](Session& session) {
                  if (session.rank() == 0) throw Error("enough");
                  std::this_thread::sleep_for(std::chrono::seconds(60));
                });
              }));
  });
  EXPECT_LT(took, 15);
}

TEST_F(Spawn, WrongUseIsRefused) {
  EXPECT_THAT(message_of([] { spawn_ranks(0, [](Session&) {}); }), HasSubstr("0 ranks"));
  std::thread other([] { std::this_thread::sleep_for(std::chrono::milliseconds(500)); });
  EXPECT_THAT(message_of([] { spawn_ranks(2, [](Session&) {}); }), HasSubstr(" threads, wanted 1"));
  other.join();
}

}  // namespace
}  // namespace bora
