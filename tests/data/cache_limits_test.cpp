// SPDX-License-Identifier: Apache-2.0
// Row 75 (caches): a limit to the byte, room that comes back, and what tells fields apart.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/data/cache_fixture.hpp"

namespace bora::data::test {
namespace {

std::unique_ptr<VolumeCache> cache_of(const CacheFixture& f, const std::string& kind,
                                      int64_t limit) {
  return VolumeCache::make(f.config(kind, gib_of(limit)), f.fields, nullptr);
}

TEST(CacheLimits, HoldToTheByte) {
  // A field is 7 x 6 x 10 x 4 bytes, and in shared memory a multiple of 64.
  for (const auto& [kind, room] : {std::pair{"ram", 1680}, {"shared", 1728}})
    for (const int64_t more : {-1, 0}) {
      CacheFixture f(3);
      const auto cache = cache_of(f, kind, 2 * room + more);
      for (int round = 0; round < 2; ++round)
        for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(f.reads_right(*cache, i, {3, 2, 1}, {4, 3, 5}));
      EXPECT_EQ(cache->counts().kept, 2 + more) << kind;
      EXPECT_EQ(cache->counts().bytes, (2 + more) * room) << kind;
    }
}

// A field that could not be kept for want of room is tried again when room has come back.
TEST(CacheLimits, RoomOfAFailedFieldIsGivenToAnother) {
  CacheFixture f(2);
  const auto cache = cache_of(f, "ram", 1680);
  const auto fails_as_a_whole = [&](const Dims3& begin, const Dims3& count) {
    if (count == f.fields[0].count) {
      // While this one has the room, the other finds none.
      EXPECT_TRUE(f.reads_right(*cache, 1, {3, 2, 1}, {4, 3, 5}));
      BORA_FAIL("a damaged chunk");
    }
    return f.box(0, begin, count);
  };
  cache->read(0, {3, 2, 1}, {4, 3, 5}, fails_as_a_whole);
  EXPECT_EQ(cache->counts().kept, 0);
  EXPECT_TRUE(f.reads_right(*cache, 1, {3, 2, 1}, {4, 3, 5}));
  EXPECT_EQ(cache->counts().kept, 1);
}

TEST(CacheLimits, BoxesOfOneFileThatBeginElsewhereAreKeptApart) {
  for (const char* kind : {"ram", "shared", "disk"}) {
    CacheFixture f(1);
    CachedField other = f.fields[0];
    other.begin = {3, 2, 1};  // of the same size
    f.fields.push_back(other);
    f.whole_reads = std::vector<std::atomic<int>>(2);
    const auto cache = VolumeCache::make(f.config(kind), f.fields, nullptr);
    for (int round = 0; round < 2; ++round)
      for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(f.reads_right(*cache, i, {4, 3, 2}, {4, 3, 5}));
    EXPECT_EQ(cache->counts().kept, 2) << kind;
  }
}

// A file that was written anew with as many bytes is another one to a later run.
TEST(CacheLimits, AnotherTimeAloneMakesADiskCacheAnew) {
  CacheFixture f(1);
  const auto run = [&] {
    const auto cache = VolumeCache::make(f.config("disk"), f.fields, nullptr);
    EXPECT_TRUE(f.reads_right(*cache, 0, {3, 2, 1}, {4, 3, 5}));
    return cache->counts().kept;
  };
  EXPECT_EQ(run(), 1);
  EXPECT_EQ(run(), 0);
  const timespec times[2] = {{1700000000, 5}, {1700000000, 5}};
  ASSERT_EQ(::utimensat(AT_FDCWD, f.fields[0].path.c_str(), times, 0), 0);
  f.fields[0].stamp = FileStamp::of(f.fields[0].path);
  EXPECT_EQ(run(), 1);
  EXPECT_EQ(run(), 0);
}

}  // namespace
}  // namespace bora::data::test
