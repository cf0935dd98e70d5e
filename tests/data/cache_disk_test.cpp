// SPDX-License-Identifier: Apache-2.0
// The cache in a local folder: used again by later runs, told where it is damaged or full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iomanip>
#include <sstream>
#include <thread>

#include "core/fnv.hpp"
#include "core/host.hpp"
#include "tests/data/cache_fixture.hpp"
#include "tests/data/small_disk.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Dims3 kBegin{3, 2, 1}, kCount{4, 3, 5};

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path().string());
  return files;
}

TEST(DiskCache, IsUsedAgainByALaterRun) {
  CacheFixture f(3);
  for (int run = 0; run < 2; ++run) {
    const auto cache = VolumeCache::make(f.config("disk"), f.fields, nullptr);
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(f.reads_right(*cache, i, kBegin, kCount));
    EXPECT_EQ(cache->counts().from_cache, run == 0 ? 0 : 3);
  }
  EXPECT_EQ(f.reads, 3);
  EXPECT_EQ(files_in(f.folder.file("cache")).size(), 3u);
}

// Another name would leave what earlier runs have kept unused, and lying there.
TEST(DiskCache, NamesAFileByTheHashesOfItsFieldAndState) {
  CacheFixture f(1);
  VolumeCache::make(f.config("disk"), f.fields, nullptr)->read(0, kBegin, kCount, f.reader(0));
  const std::string file = files_in(f.folder.file("cache")).at(0), content = read_file(file);
  const auto hash_of = [&](const std::string& key) {
    const size_t begin = content.find("\n" + key + " ") + key.size() + 2;
    std::ostringstream hex;
    hex << std::hex << std::setfill('0') << std::setw(16)
        << fnv1a(content.substr(begin, content.find('\n', begin) - begin));
    return hex.str();
  };
  EXPECT_EQ(std::filesystem::path(file).filename(),
            hash_of("field") + "-" + hash_of("state") + ".boracache");
}

// As a dry run has it: what is there is read, and nothing is made, kept or removed.
TEST(DiskCache, ThatMayNotWriteLeavesEverythingAsItIs) {
  CacheFixture f(3);
  CacheConfig look = f.config("disk");
  look.only_looks = true;
  const auto read_all = [&] {
    const auto cache = VolumeCache::make(look, f.fields, nullptr);
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(f.reads_right(*cache, i, kBegin, kCount));
    return cache->counts();
  };
  EXPECT_EQ(read_all().kept, 0);
  EXPECT_FALSE(std::filesystem::exists(look.folder)) << "not even the folder";
  look.folder = f.fields[0].path;
  EXPECT_THAT(message_of([&] { VolumeCache::make(look, f.fields, nullptr); }),
              AllOf(HasSubstr("cache.folder '" + look.folder + "': "),
                    HasSubstr("is a file, wanted a folder")));
  look.folder = f.folder.file("cache");

  // One that is good, one that is damaged, one of an earlier state, one of a dead writer.
  {
    const auto cache = VolumeCache::make(f.config("disk"), f.fields, nullptr);
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(f.reads_right(*cache, i, kBegin, kCount));
  }
  const std::vector<std::string> kept = files_in(look.folder);
  ASSERT_EQ(kept.size(), 3u);
  std::string content = read_file(kept[0]);
  content.back() = static_cast<char>(content.back() + 1);
  write_file(kept[0], content);
  write_file(f.fields[2].path, "another state of the third file");
  f.fields[2].stamp = FileStamp::of(f.fields[2].path);
  write_file(look.folder + "/0123456789abcdef-0.boracache.tmp-" + host_name() + "-999999999-0",
             "x");
  const std::vector<std::string> before = files_in(look.folder);
  EXPECT_GE(read_all().from_cache, 1);
  EXPECT_EQ(files_in(look.folder), before);
  EXPECT_EQ(read_file(kept[0]), content);
}

TEST(DiskCache, MakesADamagedFileAnew) {
  for (const bool cut : {false, true}) {
    CacheFixture f(1);
    VolumeCache::make(f.config("disk"), f.fields, nullptr)->read(0, kBegin, kCount, f.reader(0));
    const std::string file = files_in(f.folder.file("cache")).at(0);
    std::string content = read_file(file);
    EXPECT_THAT(content, HasSubstr(f.fields[0].path));  // says what it is
    if (cut)
      content.resize(content.size() - 1);
    else
      content[4096 + 100] ^= 1;
    write_file(file, content);
    ::testing::internal::CaptureStderr();
    const auto cache = VolumeCache::make(f.config("disk"), f.fields, nullptr);
    EXPECT_TRUE(f.reads_right(*cache, 0, kBegin, kCount));
    EXPECT_TRUE(f.reads_right(*cache, 0, kBegin, kCount));
    EXPECT_THAT(::testing::internal::GetCapturedStderr(),
                HasSubstr("cache: '" + file + "' is removed and made anew: damaged: " +
                          (cut ? "5775 bytes, wanted 5776" : "its header or its checksum")));
    EXPECT_EQ(f.reads, 2);
    EXPECT_EQ(cache->counts().from_cache, 1);
  }
}

TEST(DiskCache, LeavesAFileThatWasCutOrRemovedWhileItIsUsed) {
  CacheFixture f(2);
  const auto cache = VolumeCache::make(f.config("disk"), f.fields, nullptr);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(f.reads_right(*cache, i, kBegin, kCount));
  const auto files = files_in(f.folder.file("cache"));
  ASSERT_EQ(files.size(), 2u);
  ASSERT_EQ(::truncate(files[0].c_str(), 100), 0);
  ASSERT_EQ(::unlink(files[1].c_str()), 0);
  ::testing::internal::CaptureStderr();
  for (int round = 0; round < 2; ++round)
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(f.reads_right(*cache, i, kBegin, kCount));
  EXPECT_THAT(
      ::testing::internal::GetCapturedStderr(),
      AllOf(HasSubstr("cache: '" + files[0] + "' is not used any more: 100 bytes, wanted 5776"),
            HasSubstr("cache: '" + files[1] + "' is not used any more: No such file")));
  EXPECT_EQ(cache->counts().from_cache, 0);
  EXPECT_EQ(f.reads, 6);
}

TEST(DiskCache, ForgetsAFileThatWasWrittenAnew) {
  CacheFixture f(2);
  auto cache = VolumeCache::make(f.config("disk"), f.fields, nullptr);
  for (size_t i = 0; i < 2; ++i) cache->read(i, kBegin, kCount, f.reader(i));
  write_file(f.fields[0].path, "a later state of the file");
  f.fields[0].stamp = FileStamp::of(f.fields[0].path);
  cache = VolumeCache::make(f.config("disk"), f.fields, nullptr);
  EXPECT_EQ(files_in(f.folder.file("cache")).size(), 1u);
  EXPECT_TRUE(f.reads_right(*cache, 0, kBegin, kCount));
  EXPECT_EQ(f.whole_reads[0], 2);
  EXPECT_TRUE(f.reads_right(*cache, 1, kBegin, kCount));
  EXPECT_EQ(f.whole_reads[1], 1);
}

TEST(DiskCache, CountsWhatOthersLeftInTheFolder) {
  CacheFixture one(2), other(2);
  CacheConfig config = one.config("disk", gib_of(3 * (1680 + 4096)));
  VolumeCache::make(config, one.fields, nullptr)->read(0, kBegin, kCount, one.reader(0));
  VolumeCache::make(config, one.fields, nullptr)->read(1, kBegin, kCount, one.reader(1));
  ::testing::internal::CaptureStderr();
  const auto cache = VolumeCache::make(config, other.fields, nullptr);
  for (int round = 0; round < 2; ++round)
    for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(other.reads_right(*cache, i, kBegin, kCount));
  EXPECT_EQ(cache->counts().kept, 1);
  EXPECT_EQ(files_in(config.folder).size(), 3u);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("is not kept but read each time: cache.folder '" + config.folder),
                    HasSubstr("What other data sets have left there may be removed")));
}

TEST(DiskCache, TellsAFullDiskAndGoesOn) {
  CacheFixture f(1);
  const auto cache = VolumeCache::make(f.config("disk"), f.fields, nullptr);
  ::testing::internal::CaptureStderr();
  {
    const SmallDisk full(5000);
    EXPECT_TRUE(f.reads_right(*cache, 0, kBegin, kCount));
  }
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("is not kept but read each time: cache: taking room for '" +
                              f.folder.file("cache")),
                    HasSubstr("File too large")));
  EXPECT_EQ(files_in(f.folder.file("cache")).size(), 0u);
}

TEST(DiskCache, IsRefusedWithoutAFolderItCanWriteTo) {
  CacheFixture f(1);
  CacheConfig config = f.config("disk");
  config.folder.clear();
  EXPECT_EQ(message_of<UsageError>([&] { VolumeCache::make(config, f.fields, nullptr); }),
            "cache.kind=disk wants cache.folder, a folder on a disk of this host");
  config.folder = f.fields[0].path;  // a file
  EXPECT_THAT(message_of<UsageError>([&] { VolumeCache::make(config, f.fields, nullptr); }),
              HasSubstr("cache.folder '" + config.folder + "': "));
  config.folder = "/proc/bora";
  EXPECT_THAT(message_of<UsageError>([&] { VolumeCache::make(config, f.fields, nullptr); }),
              HasSubstr("cache.folder '/proc/bora': "));
}

TEST(DiskCache, ServesTwoJobsInOneFolderAtOnce) {
  CacheFixture f(20);
  std::vector<std::thread> jobs;
  std::atomic<int> n_wrong{0};
  for (int job = 0; job < 2; ++job)
    jobs.emplace_back([&] {
      const auto cache = VolumeCache::make(f.config("disk"), f.fields, nullptr);
      for (int round = 0; round < 2; ++round)
        for (size_t i = 0; i < 20; ++i)
          if (!f.reads_right(*cache, i, kBegin, kCount)) ++n_wrong;
    });
  for (std::thread& job : jobs) job.join();
  EXPECT_EQ(n_wrong, 0);
  EXPECT_EQ(files_in(f.folder.file("cache")).size(), 20u);  // and no temporary ones
}

TEST(DiskCache, RemovesWhatAKilledWriterLeft) {
  CacheFixture f(1);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  std::filesystem::create_directory(f.folder.file("cache"));
  const std::string left = bora::detail::join(f.folder.file("cache"),
                                              "/0123456789abcdef-0123456789abcdef.boracache.tmp-",
                                              host_name(), "-", child, "-0");
  write_file(left, "half a field");
  VolumeCache::make(f.config("disk"), f.fields, nullptr);
  EXPECT_FALSE(std::filesystem::exists(left));
}

}  // namespace
}  // namespace bora::data::test
