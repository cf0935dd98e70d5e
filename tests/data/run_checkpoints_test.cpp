// SPDX-License-Identifier: Apache-2.0
// Feature row 138: last, best and periodic checkpoints with a limit; which one a run goes on from.
#include "data/run_checkpoints.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "data/atomic_file.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data {
namespace {

using test::message_of;
using test::read_file;
using test::TempFolder;
using test::write_file;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

void write_number(RunCheckpoints& run, const std::string& name, int64_t number) {
  CheckpointWriter writer;
  writer.value("i", number);
  run.write(writer, name);
}

int64_t number_in(const std::string& path) {
  int64_t number = -1;
  load_checkpoint(path, [&](StateVisitor& v) { v.value("i", number); });
  return number;
}

void damage(const std::string& path) {
  const std::string whole = read_file(path);
  write_file(path, whole.substr(0, whole.size() / 2));
}

TEST(RunCheckpoints, NamesOfPeriodicFilesAreInTheOrderOfTheirNumbers) {
  EXPECT_EQ(update_checkpoint(1234), "update-00001234.h5");
  EXPECT_EQ(update_checkpoint(0), "update-00000000.h5");
  EXPECT_EQ(update_checkpoint(1234567890), "update-1234567890.h5");
  for (const int64_t n : {int64_t{0}, int64_t{7}, int64_t{99999999}, int64_t{100000000}})
    EXPECT_EQ(update_of(update_checkpoint(n)), n);
  for (const char* other : {"update-7.h5", "update-.h5", "update--0000001.h5", "update-0000000x.h5",
                            "update-00000001.h5.bak", "last.h5", "update-000000001.h5", ""})
    EXPECT_EQ(update_of(other), std::nullopt) << other;
  EXPECT_THROW(update_checkpoint(-1), Error);
}

TEST(RunCheckpoints, KeepsTheNewestAndTouchesNoOtherFile) {
  const TempFolder folder;
  RunCheckpoints run(folder.path(), 2);
  for (const char* other : {"update-7.h5", "update-00000001.h5.bak", "notes.txt"})
    write_file(folder.file(other), "mine");
  for (const int64_t n : {5, 10, 15, 20}) write_number(run, update_checkpoint(n), n);
  EXPECT_THAT(checkpoints_in(folder.path()),
              ElementsAre("update-00000020.h5", "update-00000015.h5"));
  // Gone on from 15 by other settings: 20 belongs to no run any more.
  testing::internal::CaptureStderr();
  write_number(run, update_checkpoint(18), 18);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("update-00000020.h5"), HasSubstr("gone back to update 18")));
  EXPECT_THAT(checkpoints_in(folder.path()),
              ElementsAre("update-00000018.h5", "update-00000015.h5"));
  write_number(run, "last.h5", 18);
  write_number(run, "best.h5", 15);
  EXPECT_THAT(checkpoints_in(folder.path()),
              ElementsAre("last.h5", "best.h5", "update-00000018.h5", "update-00000015.h5"));
  EXPECT_EQ(folder.n_files(), 4 + 3);
}

TEST(RunCheckpoints, GoesBackFileByFileAndToTheBestLast) {
  const TempFolder folder;
  RunCheckpoints run(folder.path(), 2);
  const std::vector<std::pair<std::string, int64_t>> order = {{"last.h5", 22},
                                                              {"last.prev.h5", 21},
                                                              {"update-00000020.h5", 20},
                                                              {"update-00000010.h5", 10},
                                                              {"best.h5", 5}};
  write_number(run, "best.h5", 5);
  for (const int64_t n : {10, 20}) write_number(run, update_checkpoint(n), n);
  for (const int64_t n : {21, 22}) write_number(run, "last.h5", n);
  std::string damaged;
  for (const auto& [name, number] : order) {
    testing::internal::CaptureStderr();
    const auto found = latest_valid(folder.path());
    const std::string said = testing::internal::GetCapturedStderr();
    ASSERT_EQ(found, folder.file(name));
    EXPECT_EQ(number_in(*found), number);
    if (!damaged.empty()) {
      EXPECT_THAT(said, AllOf(HasSubstr(damaged), HasSubstr("truncated"), HasSubstr(name)));
    }
    damage(folder.file(name));
    damaged = name;
  }
  const std::string message = message_of([&] { latest_valid(folder.path()); });
  for (const auto& [name, number] : order) EXPECT_THAT(message, HasSubstr(name));
  EXPECT_EQ(latest_valid(folder.file("missing")), std::nullopt);
}

TEST(RunCheckpoints, ADamagedLastIsNotKeptAlsoWhenItWasOurOwn) {
  const TempFolder folder;
  RunCheckpoints run(folder.path(), 0);
  write_number(run, "last.h5", 1);
  write_number(run, "last.h5", 2);  // prev: 1
  damage(folder.file("last.h5"));
  testing::internal::CaptureStderr();
  write_number(run, "last.h5", 3);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("not kept"));
  EXPECT_EQ(number_in(folder.file("last.prev.h5")), 1);
  EXPECT_EQ(number_in(folder.file("last.h5")), 3);
}

TEST(RunCheckpoints, RefusesOtherNames) {
  const TempFolder folder;
  RunCheckpoints run(folder.path(), 0);
  for (const char* name : {"", "other.h5", "last.prev.h5", "../last.h5", "last"})
    EXPECT_THAT(message_of([&] { write_number(run, name, 1); }), HasSubstr("cannot be called"))
        << name;
  EXPECT_THAT(message_of([&] { write_number(run, update_checkpoint(1), 1); }),
              HasSubstr("none of its kind is to be kept"));
  EXPECT_EQ(folder.n_files(), 0);
}

TEST(RunCheckpoints, RemovesWhatDeadWritersLeftAndNothingElse) {
  const TempFolder folder;
  char host[256] = {};
  ASSERT_EQ(::gethostname(host, sizeof host - 1), 0);
  // No process has the largest number that Linux can give, by default 2^22.
  const std::string dead = std::string(host) + "-4194304-0",
                    alive = std::string(host) + "-" + std::to_string(::getpid()) + "-0";
  for (const char* name : {"last.h5", "update-00000003.h5"})
    write_file(folder.file(name + std::string(".tmp-") + dead), "half");
  write_file(folder.file("last.h5.tmp-" + dead + "-old"), "half");
  const std::vector<std::string> stay = {"last.h5.tmp-" + alive, "last.h5.tmp-other-host-4194304-0",
                                         "notes.txt.tmp-" + dead, "last.h5.tmp-backup", "last.h5"};
  for (const std::string& name : stay) write_file(folder.file(name), "mine");
  // One that was killed and whose parent has not looked yet.
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  write_file(folder.file("best.h5.tmp-" + std::string(host) + "-" + std::to_string(child) + "-3"),
             "half");
  RunCheckpoints(folder.path(), 0).remove_rubbish();
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  for (const std::string& name : stay) EXPECT_TRUE(std::filesystem::exists(folder.file(name)));
  EXPECT_EQ(folder.n_files(), static_cast<int>(stay.size()));
}

}  // namespace
}  // namespace bora::data
