// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"

#include "core/log_warnings.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace bora {
namespace {

class LogTest : public testing::Test {
 protected:
  void SetUp() override {
    level_ = log_level();
    log_set_level(LogLevel::info);
  }
  void TearDown() override {
    log_set_level(level_);
    log_set_rank(0, 1);
  }

 private:
  LogLevel level_{};
};

// stderr as a socket that keeps the border of every write.
class WriteRecorder {
 public:
  WriteRecorder() {
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair_) != 0) std::abort();
    saved_ = ::dup(STDERR_FILENO);
    ::dup2(pair_[0], STDERR_FILENO);
  }
  ~WriteRecorder() { restore(); }
  std::vector<std::string> writes() {
    restore();
    ::close(pair_[0]);
    std::vector<std::string> out;
    char buffer[65536];
    for (ssize_t n; (n = ::recv(pair_[1], buffer, sizeof buffer, 0)) > 0;)
      out.emplace_back(buffer, static_cast<size_t>(n));
    ::close(pair_[1]);
    return out;
  }

 private:
  void restore() {
    if (saved_ < 0) return;
    ::dup2(saved_, STDERR_FILENO);
    ::close(saved_);
    saved_ = -1;
  }
  int pair_[2] = {-1, -1};
  int saved_ = -1;
};

TEST_F(LogTest, InfoIsPlainAndOtherLevelsAreNamed) {
  log_set_level(LogLevel::debug);
  testing::internal::CaptureStderr();
  log_debug("a ", 1);
  log_info("b ", 2.5);
  log_warn("c");
  log_error("d");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "debug: a 1\nb 2.5\nwarn: c\nerror: d\n");
}

// Counts how often it is printed.
struct Counted {
  int* n;
  friend std::ostream& operator<<(std::ostream& out, const Counted& c) {
    ++*c.n;
    return out << "part";
  }
};

TEST_F(LogTest, LinesBelowTheLevelAreDroppedUnformatted) {
  int formatted = 0;
  const Counted part{&formatted};
  log_set_level(LogLevel::warn);
  testing::internal::CaptureStderr();
  log_debug(part);
  log_info(part);
  log_warn(part);
  log_set_level(LogLevel::off);
  log_error(part);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "warn: part\n");
  EXPECT_EQ(formatted, 1);
}

TEST_F(LogTest, RankPrefixAppearsOnlyWithSeveralRanks) {
  testing::internal::CaptureStderr();
  log_set_rank(0, 1);
  log_info("alone");
  log_set_rank(3, 8);
  log_info("many");
  log_error("bad");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "alone\n[3/8] many\n[3/8] error: bad\n");
}

TEST_F(LogTest, EachLineIsOneWrite) {
  log_set_rank(1, 2);
  WriteRecorder recorder;
  log_info("one");
  log_warn("two ", 2);
  const auto writes = recorder.writes();
  ASSERT_EQ(writes.size(), 2u);
  EXPECT_EQ(writes[0], "[1/2] one\n");
  EXPECT_EQ(writes[1], "[1/2] warn: two 2\n");
}

TEST_F(LogTest, LinesOfSeveralThreadsStayWhole) {
  testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < 50; ++i) log_info("thread ", t, " line ", i, " ", std::string(200, 'x'));
    });
  for (auto& t : threads) t.join();
  const std::string text = testing::internal::GetCapturedStderr();
  std::set<std::string> expected;
  for (int t = 0; t < 4; ++t)
    for (int i = 0; i < 50; ++i)
      expected.insert(detail::join("thread ", t, " line ", i, " ", std::string(200, 'x')));
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    EXPECT_EQ(expected.erase(text.substr(begin, end - begin)), 1u);
  EXPECT_TRUE(expected.empty());
}

// The environment is read once, so each case wants a fresh process.
class LogEnvironmentDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(LogEnvironmentDeathTest, VariableSetsTheFirstLevel) {
  ::setenv("BORA_LOG", "error", 1);
  EXPECT_EXIT(
      {
        log_warn("no");
        log_error("yes");
        ::_exit(log_level() == LogLevel::error ? 0 : 1);
      },
      testing::ExitedWithCode(0), "^error: yes\n$");
  ::unsetenv("BORA_LOG");
}

TEST_F(LogEnvironmentDeathTest, UnknownValueIsReportedAndInfoIsUsed) {
  ::setenv("BORA_LOG", "verbose", 1);
  EXPECT_EXIT(
      {
        log_debug("no");
        ::_exit(log_level() == LogLevel::info ? 0 : 1);
      },
      testing::ExitedWithCode(0), "BORA_LOG=verbose is unknown");
  ::unsetenv("BORA_LOG");
}

TEST_F(LogTest, KeepsWarningsUntilTheyAreTaken) {
  log_take_warnings();
  WriteRecorder recorder;
  log_set_rank(1, 2);
  log_info("fine");
  log_warn("nearly full");
  log_error("full");
  EXPECT_EQ(log_take_warnings(), (std::vector<std::string>{"nearly full", "full"}));
  EXPECT_TRUE(log_take_warnings().empty());
  for (int i = 0; i < 103; ++i) log_warn("w", i);
  const std::vector<std::string> many = log_take_warnings();
  ASSERT_EQ(many.size(), 101u);
  EXPECT_EQ(many[99], "w99");
  EXPECT_EQ(many[100], "and 3 more warnings: see the log");
  log_set_level(LogLevel::off);
  log_warn("unheard");
  EXPECT_TRUE(log_take_warnings().empty());
}

}  // namespace
}  // namespace bora
