// SPDX-License-Identifier: Apache-2.0
// One run a folder (features 145, 166): a living one keeps others out, a dead one nobody.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "apps/train/run_lock.hpp"
#include "apps/train/run_saves.hpp"
#include "core/error.hpp"
#include "core/log.hpp"
#include "core/profile.hpp"
#include "data/jsonl.hpp"

namespace bora::train {
namespace {

using testing::HasSubstr;

class RunLockTest : public testing::Test {
 protected:
  RunLockTest() {
    char name[] = "/tmp/bora_lock_XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~RunLockTest() override { std::filesystem::remove_all(folder_); }

  std::string file() const { return folder_ + "/run.lock"; }
  std::string text() const {
    std::ifstream in(file());
    return std::string{std::istreambuf_iterator<char>(in), {}};
  }
  void put(const std::string& text) const { std::ofstream(file()) << text; }

  template <class Body>
  static std::string message_of(Body&& body) {
    try {
      body();
    } catch (const Error& e) {
      return e.what();
    }
    return {};
  }

  std::string folder_;
};

TEST_F(RunLockTest, ALivingRunKeepsOthersOut) {
  {
    const RunLock lock(folder_);
    lock.require();
    const std::string before = text();
    EXPECT_THROW(RunLock{folder_}, UsageError);
    EXPECT_THAT(message_of([&] { RunLock{folder_}; }),
                AllOf(HasSubstr(folder_), HasSubstr("process " + std::to_string(::getpid()))));
    EXPECT_EQ(text(), before);
  }
  EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST_F(RunLockTest, TheLockOfADeadRunIsTaken) {
  const pid_t child = ::fork();
  if (child == 0) {
    new RunLock(folder_);  // as one that is killed: nothing gives it back
    ::_exit(0);
  }
  // Not asked yet how it ended, it is a zombie: dead for us.
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  ASSERT_THAT(text(), HasSubstr(" " + std::to_string(child) + " "));
  { RunLock(folder_).require(); }
  put(text());
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  RunLock(folder_).require();
}

// The number of the process may be another one's by now, and an unfinished file is nobody's.
TEST_F(RunLockTest, ANumberUsedAgainAndRubbishBlockNobody) {
  std::string mine;
  {
    const RunLock lock(folder_);
    mine = text();
  }
  const size_t begin = mine.find(' ', mine.find(' ') + 1) + 1;
  put(mine.substr(0, begin) + "1" + mine.substr(begin));  // began at another time
  { RunLock(folder_).require(); }
  for (const char* rubbish : {"", "host", "host -1 0 0", "host 99999999999999999999 1 1\n"}) {
    put(rubbish);
    RunLock(folder_).require();
  }
}

TEST_F(RunLockTest, ARunOfAnotherHostIsTakenOverAndLearnsIt) {
  std::optional<RunLock> old(folder_);
  put("node7 12 34 another-boot\n");  // as if that one had taken the folder
  EXPECT_THAT(message_of([&] { old->require(); }),
              AllOf(HasSubstr(folder_), HasSubstr("process 12 on host node7")));
  {
    const RunLock lock(folder_);  // for all one can know, node7 is dead
    lock.require();
    EXPECT_NE(message_of([&] { put("node8 1 1 b\n"), lock.require(); }), "");
    put("node7 12 34 another-boot\n");
  }
  EXPECT_EQ(text(), "node7 12 34 another-boot\n") << "not ours: not removed";
  { const RunLock lock(folder_); }
  // The end of the run that took it must not look to node7's as if nobody had been there.
  EXPECT_EQ(text(), "free\n");
  EXPECT_NE(message_of([&] { old->require(); }), "");
}

TEST_F(RunLockTest, AFileThatSomebodyRemovedIsWrittenAnew) {
  const RunLock lock(folder_);
  const std::string before = text();
  std::filesystem::remove(file());
  lock.require();
  EXPECT_EQ(text(), before);
}

TEST_F(RunLockTest, ASaveIntoAnothersFolderWritesNothing) {
  const RunLock lock(folder_);
  OutputConfig output;
  output.dir = folder_;
  RunSaves saves(output, [&] { lock.require(); });
  data::JsonlWriter log(folder_ + "/metrics.jsonl", data::OpenMode::replace);
  int64_t x = 1;
  const auto state = [&](StateVisitor& v) { v.value("x", x); };
  saves.save({"last.h5"}, state, {1, 0}, 0);
  saves.finish(log, 0);
  const auto written = std::filesystem::last_write_time(folder_ + "/last.h5");
  put("node7 12 34 another-boot\n");
  saves.save({"best.h5", "last.h5"}, state, {2, 0}, 0);
  EXPECT_THAT(message_of([&] { saves.finish(log, 0); }), HasSubstr("node7"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/best.h5"));
  EXPECT_EQ(std::filesystem::last_write_time(folder_ + "/last.h5"), written);
}

// A best.h5 at each epoch's end must not keep last.h5 from its turn.
TEST_F(RunLockTest, OnlyAFileToGoOnFromBeginsTheMinutesAnew) {
  OutputConfig output;
  output.dir = folder_;
  output.checkpoint_minutes = 1.0 / 60;  // 1 s
  int64_t x = 1;
  const auto state = [&](StateVisitor& v) { v.value("x", x); };
  RunSaves timed(output, [] {});
  const double begin_s = now_s();
  while (!timed.needs_meeting()) {
    timed.save({"best.h5"}, state, {1, 0}, now_s());
    ASSERT_LT(now_s() - begin_s, 30.0) << "the clock never ran out";
  }
  timed.save({"last.h5"}, state, {1, 0}, now_s());
  EXPECT_FALSE(timed.needs_meeting());
}

// Nothing is promised that is not there.
TEST_F(RunLockTest, AFailedSaveSaysWhetherThereAreFilesToGoOnFrom) {
  OutputConfig output;
  output.dir = folder_;
  RunSaves saves(output, [] { BORA_FAIL("no"); });
  data::JsonlWriter log(folder_ + "/metrics.jsonl", data::OpenMode::replace);
  int64_t x = 1;
  const auto state = [&](StateVisitor& v) { v.value("x", x); };
  saves.save({"last.h5"}, state, {1, 0}, 0);
  EXPECT_THAT(message_of([&] { saves.finish(log, 0); }),
              HasSubstr("no checkpoint was written before it"));
  data::save_checkpoint(folder_ + "/best.h5", state);
  saves.save({"last.h5"}, state, {2, 0}, 0);
  EXPECT_THAT(message_of([&] { saves.finish(log, 0); }), HasSubstr("the files before it remain"));
}

TEST_F(RunLockTest, AFolderThatTakesNoFileIsToldByName) {
  EXPECT_THAT(message_of([&] { RunLock(folder_ + "/none"); }), HasSubstr("/none/run.lock"));
}

}  // namespace
}  // namespace bora::train
