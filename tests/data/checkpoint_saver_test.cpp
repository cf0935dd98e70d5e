// SPDX-License-Identifier: Apache-2.0
// Feature rows 138, 140, 160: saves by a thread, one under way and one waiting, whose errors are
// kept.  HDF5's lock, held by a test, keeps the thread from getting on.
#include "data/checkpoint_saver.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <future>
#include <thread>

#include "data/hdf5.hpp"
#include "data/hdf5_lock.hpp"
#include "data/run_checkpoints.hpp"
#include "tests/data/checkpoint_state.hpp"
#include "tests/data/held_lock.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/data/small_disk.hpp"

namespace bora::data {
namespace {

using test::HeldLock;
using test::message_of;
using test::read_file;
using test::SmallDisk;
using test::TempFolder;
using testing::AllOf;
using testing::HasSubstr;
using Names = std::vector<std::string>;

struct State {
  int64_t i = 0;
  Tensor w = Tensor::zeros({1000}, DType::i64);
  void set(int64_t number) {
    i = number;
    w.fill(static_cast<double>(number));
  }
  StateFunction visit() {
    return [this](StateVisitor& v) {
      v.value("i", i);
      v.tensor("w", w);
    };
  }
};

/// The number in a whole file, all of whose parts are of one state.
int64_t number_in(const std::string& path) {
  State s;
  load_checkpoint(path, s.visit());
  for (const int64_t x : s.w.to_vector<int64_t>()) EXPECT_EQ(x, s.i);
  return s.i;
}

/// Waits until the thread has taken the save that waits.
void wait_until_under_way(const CheckpointSaver& saver) {
  while (saver.behind()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(CheckpointSaver, WritesTheStateOfTheMomentOfTheCall) {
  const TempFolder folder;
  CheckpointSaver saver({.folder = folder.path()});
  State s;
  HeldLock held;
  s.set(1);
  EXPECT_EQ(saver.save({"last.h5"}, s.visit()), 1);
  wait_until_under_way(saver);
  s.set(2);
  EXPECT_EQ(saver.save({"last.h5"}, s.visit()), 2);  // waits
  s.set(3);
  EXPECT_EQ(saver.save({"last.h5"}, s.visit()), 3);  // instead of the second
  s.set(4);
  EXPECT_FALSE(saver.failed());
  held.release();
  const auto saved = saver.finish();
  ASSERT_EQ(saved.size(), 3u);
  EXPECT_EQ(saved[0].ticket, 2);
  EXPECT_TRUE(saved[0].replaced);
  EXPECT_EQ(saved[1].ticket, 1);
  EXPECT_EQ(saved[2].ticket, 3);
  EXPECT_EQ(saved[2].name, "last.h5");
  EXPECT_EQ(saved[2].bytes, 8 + 8000);
  EXPECT_GT(saved[2].write_s, 0);
  EXPECT_FALSE(saved[1].replaced || saved[2].replaced);
  EXPECT_EQ(number_in(folder.file("last.h5")), 3);
  EXPECT_EQ(number_in(folder.file("last.prev.h5")), 1);
  EXPECT_EQ(folder.n_files(), 2);
  EXPECT_TRUE(saver.finish().empty());
}

TEST(CheckpointSaver, WaitsRatherThanLoseABest) {
  const TempFolder folder;
  CheckpointSaver saver({.folder = folder.path()});
  State s;
  HeldLock held;
  s.set(1);
  saver.save({"last.h5"}, s.visit());
  wait_until_under_way(saver);
  s.set(2);
  saver.save({"best.h5", "last.h5"}, s.visit());
  s.set(3);
  auto third = std::async(std::launch::async, [&] { saver.save({"last.h5"}, s.visit()); });
  EXPECT_EQ(third.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  held.release();
  third.get();
  const auto saved = saver.finish();
  ASSERT_EQ(saved.size(), 4u);
  EXPECT_EQ(number_in(folder.file("best.h5")), 2);
  EXPECT_EQ(number_in(folder.file("last.h5")), 3);
  EXPECT_EQ(number_in(folder.file("last.prev.h5")), 2);
}

TEST(CheckpointSaver, ANewerSaveWithAllTheNamesTakesThePlaceOfABest) {
  const TempFolder folder;
  CheckpointSaver saver({.folder = folder.path()});
  State s;
  HeldLock held;
  saver.save({"last.h5"}, s.visit());
  wait_until_under_way(saver);
  s.set(2);
  saver.save({"best.h5"}, s.visit());
  s.set(3);
  saver.save({"last.h5", "best.h5"}, s.visit());
  held.release();
  EXPECT_EQ(saver.finish().size(), 4u);  // one of them replaced
  EXPECT_EQ(number_in(folder.file("best.h5")), 3);
}

TEST(CheckpointSaver, OneStateUnderSeveralNamesHasTheSameBytes) {
  const TempFolder folder;
  CheckpointSaver saver({.folder = folder.path(), .keep = 1});
  auto e = test::Everything::filled();
  const auto state = [&](StateVisitor& v) { e.state(v); };
  saver.save({"best.h5", "last.h5", "update-00000007.h5"}, state);
  saver.finish();
  save_checkpoint(folder.file("direct.h5"), state);
  for (const char* name : {"best.h5", "last.h5", "update-00000007.h5"})
    EXPECT_EQ(read_file(folder.file(name)), read_file(folder.file("direct.h5"))) << name;
}

TEST(CheckpointSaver, ItsEndLosesNothing) {
  const TempFolder folder;
  for (const int64_t n : {1, 2, 3}) {
    CheckpointSaver saver({.folder = folder.path(), .keep = 2});
    State s;
    s.set(10 * n);
    saver.save({"last.h5", update_checkpoint(10 * n)}, s.visit());
    s.set(10 * n + 1);
    saver.save({"last.h5"}, s.visit());
  }
  EXPECT_EQ(number_in(folder.file("last.h5")), 31);
  EXPECT_EQ(number_in(folder.file("update-00000030.h5")), 30);
  EXPECT_EQ(folder.n_files(), 4);
}

TEST(CheckpointSaver, KeepsAnErrorForTheNextCall) {
  const TempFolder folder;
  CheckpointSaver saver({.folder = folder.path()});
  State s;
  s.set(1);
  saver.save({"last.h5"}, s.visit());
  saver.finish();
  const std::string before = read_file(folder.file("last.h5"));
  const auto expected =
      AllOf(HasSubstr("saving checkpoint '" + folder.file("last.h5")), HasSubstr("File too large"));
  for (const rlim_t limit : {0, 512, 4096, 9000}) {
    // The signal's default is to end the process; the thread must not get it.
    const SmallDisk disk(limit, SmallDisk::Signal::as_it_is);
    s.set(2);
    saver.save({"last.h5"}, s.visit());
    while (!saver.failed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_THAT(message_of([&] { saver.poll(); }), expected) << limit;
    EXPECT_FALSE(saver.failed());
    EXPECT_TRUE(saver.finish().empty());
    saver.save({"last.h5"}, s.visit());
    EXPECT_THAT(message_of([&] { saver.finish(); }), expected);
    saver.save({"last.h5"}, s.visit());
    while (!saver.failed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_THAT(message_of([&] { saver.save({"last.h5"}, s.visit()); }), expected);
  }
  EXPECT_EQ(read_file(folder.file("last.h5")), before);
  EXPECT_EQ(folder.n_files(), 1);
  s.set(3);
  saver.save({"last.h5"}, s.visit());  // the disk has room again
  EXPECT_EQ(saver.finish().size(), 1u);
  EXPECT_EQ(number_in(folder.file("last.h5")), 3);
}

TEST(CheckpointSaver, TellsAFolderThatHasGoneAndLogsWhatNobodyAskedFor) {
  TempFolder folder;
  State s;
  {
    CheckpointSaver saver({.folder = folder.path()});
    std::filesystem::remove_all(folder.path());
    saver.save({"best.h5"}, s.visit());
    EXPECT_THAT(message_of([&] { saver.finish(); }),
                AllOf(HasSubstr("best.h5"), HasSubstr("No such file or directory")));
    testing::internal::CaptureStderr();
    saver.save({"last.h5"}, s.visit());
  }
  EXPECT_THAT(
      testing::internal::GetCapturedStderr(),
      AllOf(HasSubstr("error"), HasSubstr("last.h5"), HasSubstr("No such file or directory")));
}

// What fails behind the save whose error the caller ends with is no second error.
TEST(CheckpointSaver, SavesBehindOneThatFailedAreNoFurtherErrors) {
  int n_behind = 0;
  for (int i = 0; i < 5000 && n_behind < 3; ++i) {
    testing::internal::CaptureStderr();
    {
      TempFolder folder;
      State s;
      CheckpointSaver saver({.folder = folder.path()});
      std::filesystem::remove_all(folder.path());
      saver.save({"best.h5", "last.h5"}, s.visit());
      while (!saver.failed()) std::this_thread::yield();
      EXPECT_THAT(message_of([&] { saver.poll(); }), HasSubstr("best.h5"));
    }
    const std::string log = testing::internal::GetCapturedStderr();
    EXPECT_THAT(log, testing::Not(HasSubstr("error")));
    n_behind +=
        log.find("last.h5") != log.npos;  // else it had failed, too, when the first was told
  }
  EXPECT_GT(n_behind, 0);
}

TEST(CheckpointSaver, GivesUpOnADiskThatTakesNothing) {
  const TempFolder folder;
  State s;
  HeldLock held;
  {
    CheckpointSaver saver({.folder = folder.path(), .patience_s = 0.5});
    saver.save({"last.h5"}, s.visit());
    EXPECT_THAT(message_of([&] { saver.finish(); }),
                AllOf(HasSubstr("last.h5"), HasSubstr("taken nothing")));
    testing::internal::CaptureStderr();
  }
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("giving up"));
  held.release();
  // The thread still ends its work: wait, since the folder goes with the test.
  for (int i = 0; i < 500 && !std::filesystem::exists(folder.file("last.h5")); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(std::filesystem::exists(folder.file("last.h5")));
}

// A read that hangs keeps HDF5's lock; who waits for a save then learns it at once.
TEST(CheckpointSaver, GivesUpWhenNothingCanBeWrittenAnyMore) {
  const TempFolder folder;
  State s;
  HeldLock held;
  std::atomic<bool> is_hindered{false};
  {
    CheckpointSaver saver(
        {.folder = folder.path(), .keep = 1, .patience_s = 600, .hindered = [&is_hindered] {
           return std::string(is_hindered ? "'/gone/a.nc' has not been read for 9 s" : "");
         }});
    saver.save({"last.h5"}, s.visit());
    wait_until_under_way(saver);
    saver.save({"best.h5"}, s.visit());
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      EXPECT_GE(hdf5::lock_held().seconds, 0.3);
      is_hindered = true;
    });
    EXPECT_THAT(
        message_of([&] { saver.save({"update-00000001.h5"}, s.visit()); }),
        AllOf(HasSubstr("saving in "), HasSubstr("'/gone/a.nc' has not been read for 9 s")));
    later.join();
    EXPECT_THAT(message_of([&] { saver.finish(); }), HasSubstr("'/gone/a.nc'"));
    testing::internal::CaptureStderr();
  }  // the destructor does not wait, either
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("giving up"), HasSubstr("'/gone/a.nc'")));
  held.release();
  for (int i = 0; i < 500 && !std::filesystem::exists(folder.file("best.h5")); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(std::filesystem::exists(folder.file("best.h5")));
}

TEST(CheckpointSaver, ModeFollowsTheUmask) {
  const TempFolder folder;
  CheckpointSaver saver({.folder = folder.path()});
  State s;
  for (const mode_t mask : {mode_t{022}, mode_t{027}, mode_t{077}}) {
    const mode_t old = ::umask(mask);
    saver.save({"last.h5"}, s.visit());
    saver.finish();
    ::umask(old);
    struct stat info {};
    ASSERT_EQ(::stat(folder.file("last.h5").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0666 & ~mask) << std::oct << mask;
  }
}

TEST(CheckpointSaver, ReadersAndOtherSaversWorkMeanwhile) {
  const TempFolder folder;
  State other;
  other.set(7);
  save_checkpoint(folder.file("read.h5"), other.visit());
  std::atomic<bool> over{false};
  std::atomic<int> n_read{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t)
    readers.emplace_back([&] {
      while (!over) {
        if (number_in(folder.file("read.h5")) == 7) ++n_read;
      }
    });
  std::filesystem::create_directory(folder.file("a"));
  std::filesystem::create_directory(folder.file("b"));
  {
    CheckpointSaver a({.folder = folder.file("a"), .keep = 2}), b({.folder = folder.file("b")});
    State s;
    for (int64_t i = 1; i <= 20; ++i) {
      s.set(i);
      a.save({"last.h5", update_checkpoint(i)}, s.visit());
      b.save({"last.h5"}, s.visit());
    }
  }
  over = true;
  for (std::thread& t : readers) t.join();
  EXPECT_GT(n_read, 0);
  EXPECT_EQ(number_in(folder.file("a/last.h5")), 20);
  EXPECT_EQ(number_in(folder.file("a/update-00000020.h5")), 20);
  EXPECT_EQ(number_in(folder.file("b/last.h5")), 20);
  EXPECT_EQ(hdf5::open_objects(), 0);
}

TEST(CheckpointSaver, RefusesBadNamesAndOptions) {
  const TempFolder folder;
  EXPECT_THROW(CheckpointSaver({.folder = ""}), Error);
  EXPECT_THROW(CheckpointSaver({.folder = folder.path(), .keep = -1}), Error);
  CheckpointSaver saver({.folder = folder.path()});
  State s;
  for (const Names& names : {Names{}, Names{"x.h5"}, Names{"last.h5", "update-00000001.h5"}})
    EXPECT_THROW(saver.save(names, s.visit()), Error);
  EXPECT_THROW(saver.save({"last.h5"}, nullptr), Error);
  EXPECT_TRUE(saver.finish().empty());
  EXPECT_EQ(folder.n_files(), 0);
}

}  // namespace
}  // namespace bora::data
