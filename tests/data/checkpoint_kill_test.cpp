// SPDX-License-Identifier: Apache-2.0
// Feature row 140: whatever happens during a save, a whole file is there afterwards.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "core/rng.hpp"
#include "data/atomic_file.hpp"
#include "data/run_checkpoints.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/data/small_disk.hpp"

namespace bora::data {
namespace {

using test::message_of;
using test::read_file;
using test::SmallDisk;
using test::TempFolder;
using test::write_file;
using testing::AllOf;
using testing::HasSubstr;

void save_number(const std::string& path, int64_t number, int64_t n = 1000) {
  Tensor w = Tensor::full({n}, static_cast<double>(number), DType::i64);
  save_checkpoint(path, [&](StateVisitor& v) { v.tensor("w", w); });
}

int64_t load_number(const std::string& path, int64_t n = 1000) {
  Tensor w = Tensor::zeros({n}, DType::i64);
  load_checkpoint(path, [&](StateVisitor& v) { v.tensor("w", w); });
  return w.data<int64_t>()[n - 1];
}

/// By the thread that calls, or by a CheckpointSaver's.
class CheckpointKillOf : public testing::TestWithParam<const char*> {};

TEST_P(CheckpointKillOf, LeavesAWholeFileAtAnyMoment) {
  const TempFolder folder;
  const bool by_thread = std::string(GetParam()) == "thread";
  const std::string log = folder.file("errors");
  int64_t newest = 0;
  for (uint64_t round = 0; round < 10; ++round) {
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 2, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
    std::string folder_arg = folder.path();
    char* argv[] = {const_cast<char*>(BORA_CHECKPOINT_SAVER), folder_arg.data(),
                    const_cast<char*>(GetParam()), nullptr};
    pid_t child = 0;
    ASSERT_EQ(::posix_spawn(&child, BORA_CHECKPOINT_SAVER, &files, nullptr, argv, environ), 0);
    posix_spawn_file_actions_destroy(&files);
    // Waits for the first save of all, then for any time up to a few saves.
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!std::filesystem::exists(folder.file("last.h5")) &&
           std::chrono::steady_clock::now() < give_up)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const uint64_t delay_us = RngKey{17, 0}.below(40000, round);
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the saver ended by itself: " << read_file(log);

    ASSERT_TRUE(std::filesystem::exists(folder.file("last.h5"))) << "after " << delay_us << " us";
    const auto path = latest_valid(folder.path());
    ASSERT_EQ(path, folder.file("last.h5"));
    Tensor w = Tensor::zeros({40000}, DType::i64);
    load_checkpoint(*path, [&](StateVisitor& v) {
      v.value("i", newest);
      v.tensor("w", w);
    });
    for (const int64_t x : w.to_vector<int64_t>()) ASSERT_EQ(x, newest);
    // Every other file is whole too, and rubbish is of the writer just killed.
    for (const std::string& name : checkpoints_in(folder.path()))
      verify_checkpoint(folder.file(name));
    EXPECT_LE(folder.n_files(), by_thread ? 2 + 3 + 1 + 1 + 1 : 2 + 1 + 1 + 1)
        << "last, previous, kept, one not retired yet, temporary, log";
  }
  EXPECT_GE(newest, 1);
}
INSTANTIATE_TEST_SUITE_P(Writers, CheckpointKillOf, testing::Values("call", "thread"),
                         [](const auto& which) { return std::string(which.param); });

TEST(CheckpointKill, FullDiskLeavesTheOldFileAndNoRubbish) {
  const TempFolder folder;
  const std::string path = folder.file("a.h5");
  save_number(path, 1);
  const std::string before = read_file(path);
  for (const rlim_t limit : {0, 100, 512, 4096, 100000}) {
    const SmallDisk disk(limit);
    EXPECT_THAT(message_of([&] { save_number(path, 2, 100000); }),
                AllOf(HasSubstr("saving checkpoint '" + path), HasSubstr("File too large")));
  }
  EXPECT_EQ(read_file(path), before);
  EXPECT_EQ(folder.n_files(), 1);
  save_number(path, 3);  // the library is still fit for use
  EXPECT_EQ(load_number(path), 3);
}

TEST(CheckpointKill, ModeFollowsTheUmask) {
  const TempFolder folder;
  for (const mode_t mask : {mode_t{022}, mode_t{027}, mode_t{077}, mode_t{002}}) {
    const mode_t old = ::umask(mask);
    save_number(folder.file("a.h5"), 1);
    ::umask(old);
    struct stat info {};
    ASSERT_EQ(::stat(folder.file("a.h5").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0666 & ~mask) << std::oct << mask;
  }
}

TEST(CheckpointKill, FallsBackToTheSaveBeforeTheLast) {
  const TempFolder folder;
  EXPECT_EQ(latest_valid(folder.path()), std::nullopt);
  for (const int64_t number : {1, 2, 3}) {
    Tensor w = Tensor::full({1000}, static_cast<double>(number), DType::i64);
    save_last_checkpoint(folder.path(), [&](StateVisitor& v) { v.tensor("w", w); });
  }
  EXPECT_EQ(folder.n_files(), 2);
  const std::string last = folder.file("last.h5"), previous = folder.file("last.prev.h5");
  EXPECT_EQ(load_number(last), 3);
  EXPECT_EQ(load_number(previous), 2);
  EXPECT_EQ(latest_valid(folder.path()), last);
  const std::string whole = read_file(last);
  write_file(last, whole.substr(0, whole.size() / 2));
  testing::internal::CaptureStderr();
  EXPECT_EQ(latest_valid(folder.path()), previous);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("save before the last"), HasSubstr("truncated")));
  // A save now must keep the whole previous file, not the cut one.
  testing::internal::CaptureStderr();
  Tensor w = Tensor::full({1000}, 4, DType::i64);
  save_last_checkpoint(folder.path(), [&](StateVisitor& v) { v.tensor("w", w); });
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("not kept"));
  EXPECT_EQ(load_number(last), 4);
  EXPECT_EQ(load_number(previous), 2);
  std::filesystem::remove(last);
  EXPECT_EQ(latest_valid(folder.path()), previous);
  write_file(previous, "x");
  EXPECT_THAT(message_of([&] { latest_valid(folder.path()); }), HasSubstr("no usable checkpoint"));
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const TempFolder folder;
  {
    AtomicFile file(folder.file("a"));
    file.write("half");
    EXPECT_EQ(folder.n_files(), 1);
    EXPECT_FALSE(std::filesystem::exists(folder.file("a")));
  }
  EXPECT_EQ(folder.n_files(), 0);
  AtomicFile file(folder.file("a"));
  file.write("whole");
  file.commit();
  EXPECT_EQ(read_file(folder.file("a")), "whole");
  EXPECT_THROW(file.write("more"), Error);
  EXPECT_THROW(file.commit(), Error);
}

TEST(AtomicFile, WhatALibraryWroteGetsItsNameWhole) {
  const TempFolder folder;
  const std::string path = folder.file("a"), temporary = temporary_beside(path);
  write_file(path, "before");
  write_file(temporary, "after");
  commit_temporary(temporary, path);
  EXPECT_EQ(read_file(path), "after");
  EXPECT_EQ(folder.n_files(), 1);
  EXPECT_THAT(message_of([&] { commit_temporary(temporary, path); }),
              AllOf(HasSubstr(temporary), HasSubstr("No such file")));
  EXPECT_EQ(read_file(path), "after");
}

TEST(AtomicFile, RemovesWhatKilledWritersLeftLongAgo) {
  const TempFolder folder;
  const std::string old = folder.file("a.tmp-host-1-0"), fresh = folder.file("a.tmp-host-2-0"),
                    other = folder.file("b.tmp-host-1-0");
  for (const auto& path : {old, fresh, other}) write_file(path, "half");
  const auto hours_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(2);
  std::filesystem::last_write_time(old, hours_ago);
  std::filesystem::last_write_time(other, hours_ago);
  write_file_atomic(folder.file("a"), "whole");
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(fresh));  // somebody may be writing to it
  EXPECT_TRUE(std::filesystem::exists(other));  // of another file
}

TEST(AtomicFile, NamesTheFolderThatIsMissing) {
  const TempFolder folder;
  EXPECT_THAT(message_of([&] { AtomicFile file(folder.file("no/a")); }),
              AllOf(HasSubstr("no/a"), HasSubstr("No such file or directory")));
  AtomicFile file(folder.file("a"));
  EXPECT_THROW(file.commit("/elsewhere/a"), Error);
}

}  // namespace
}  // namespace bora::data
