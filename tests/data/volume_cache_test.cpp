// SPDX-License-Identifier: Apache-2.0
// Caches of every kind (issue 7): the same bits as the files, a limit, changes that are told.
#include "data/volume_cache.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/rng.hpp"
#include "tests/data/cache_fixture.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CacheOfKind : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Kinds, CacheOfKind, ::testing::Values("ram", "shared", "disk"),
                         [](const auto& kind) { return kind.param; });

TEST_P(CacheOfKind, GivesTheBitsOfTheFileAndReadsItOnce) {
  for (const DType type : {DType::f32, DType::u8, DType::i32})
    for (const int64_t channels : {0, 1, 3}) {
      CacheFixture f(2, type, channels);
      const auto cache = VolumeCache::make(f.config(GetParam()), f.fields, nullptr);
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_TRUE(f.reads_right(*cache, i, {3, 2, 1}, {5, 3, 7}));
        EXPECT_TRUE(f.reads_right(*cache, i, {2, 1, 0}, {7, 6, 10}));  // all
        EXPECT_TRUE(f.reads_right(*cache, i, {8, 6, 9}, {1, 1, 1}));   // the last cell
        EXPECT_TRUE(f.reads_right(*cache, i, {4, 4, 4}, {0, 1, 3}));
        EXPECT_EQ(f.whole_reads[i], 1);
      }
      EXPECT_EQ(f.reads, 2);
      EXPECT_EQ(cache->counts().from_cache, 6);
      EXPECT_EQ(cache->counts().kept, 2);
    }
}

TEST_P(CacheOfKind, ReadsCellsOutsideTheFieldFromTheFile) {
  CacheFixture f(1);
  const auto cache = VolumeCache::make(f.config(GetParam()), f.fields, nullptr);
  EXPECT_TRUE(f.reads_right(*cache, 0, {0, 0, 0}, {4, 4, 4}));
  EXPECT_TRUE(f.reads_right(*cache, 0, {2, 1, 0}, {7, 6, 11}));
  EXPECT_EQ(cache->counts().kept, 0);
  EXPECT_EQ(cache->counts().from_file, 2);
}

TEST_P(CacheOfKind, KeepsToItsLimitAndWhatItHas) {
  CacheFixture f(8);
  // The disk's files have a page of text each; shared memory and RAM nothing.
  const int64_t bytes = f.fields[0].bytes() + (GetParam() == "disk" ? 4096 : 64);
  const auto cache = VolumeCache::make(f.config(GetParam(), gib_of(3 * bytes)), f.fields, nullptr);
  for (int round = 0; round < 4; ++round)
    for (size_t i = 0; i < 8; ++i) EXPECT_TRUE(f.reads_right(*cache, i, {3, 2, 1}, {4, 3, 5})) << i;
  const VolumeCache::Counts counts = cache->counts();
  EXPECT_LE(counts.bytes, 3 * bytes);
  EXPECT_EQ(counts.kept, 3);
  // A share of 3/8 of the data answers 3/8 of the reads of each later round: nothing is thrown out
  // before its turn comes again.
  EXPECT_EQ(counts.from_cache, 3 * 3);
  EXPECT_EQ(counts.from_file, 4 * 8 - 3 - 9);
  EXPECT_THAT(cache->describe(), AllOf(HasSubstr(GetParam()), HasSubstr("of the reads")));
}

TEST_P(CacheOfKind, TellsAFileThatHasChanged) {
  CacheFixture f(1);
  const auto cache = VolumeCache::make(f.config(GetParam()), f.fields, nullptr);
  EXPECT_TRUE(f.reads_right(*cache, 0, {3, 2, 1}, {4, 3, 5}));
  write_file(f.fields[0].path, "another content, of another length");
  const auto read = [&] { cache->read(0, {3, 2, 1}, {4, 3, 5}, f.reader(0)); };
  EXPECT_THAT(message_of(read), HasSubstr("'" + f.fields[0].path +
                                          "' has changed since the start "
                                          "of the program; start again"));
  std::filesystem::remove(f.fields[0].path);
  EXPECT_THAT(message_of(read), HasSubstr("No such file"));
}

TEST_P(CacheOfKind, DoesNotKeepAFileThatChangesWhileItIsRead) {
  CacheFixture f(1);
  const auto cache = VolumeCache::make(f.config(GetParam()), f.fields, nullptr);
  const auto reader = [&](const Dims3& begin, const Dims3& count) {
    Tensor t = f.box(0, begin, count);
    write_file(f.fields[0].path, "written over meanwhile");
    return t;
  };
  EXPECT_THAT(message_of([&] {
                cache->read(0, {3, 2, 1}, {4, 3, 5}, reader);
              }),
              HasSubstr("has changed since the start"));
  EXPECT_EQ(cache->counts().kept, 0);
}

TEST_P(CacheOfKind, ReadsWhatItIsAskedForWhereTheRestIsBad) {
  CacheFixture f(1);
  const auto cache = VolumeCache::make(f.config(GetParam()), f.fields, nullptr);
  const auto reader = [&](const Dims3& begin, const Dims3& count) {
    BORA_CHECK(begin.d + count.d <= 8, "a damaged chunk at x = 8");
    return f.box(0, begin, count);
  };
  for (int i = 0; i < 3; ++i) EXPECT_NO_THROW(cache->read(0, {3, 2, 1}, {4, 3, 5}, reader));
  EXPECT_EQ(cache->counts().from_file, 3);
  EXPECT_THAT(message_of([&] {
                cache->read(0, {6, 2, 1}, {3, 3, 5}, reader);
              }),
              HasSubstr("a damaged chunk at x = 8"));
}

TEST_P(CacheOfKind, DoesNotKeepWhatIsNotAsAnnounced) {
  CacheFixture f(1);
  const auto cache = VolumeCache::make(f.config(GetParam()), f.fields, nullptr);
  const auto reader = [&](const Dims3& begin, const Dims3& count) {
    return f.box(0, begin, count).to(DType::f64);
  };
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cache->read(0, {3, 2, 1}, {4, 3, 5}, reader).dtype(), DType::f64);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr(f.fields[0].path + "' is not kept but read each time"),
                    HasSubstr("f64, its look at the start said (7, 6, 10) f32")));
  EXPECT_EQ(cache->counts().kept, 0);
}

TEST_P(CacheOfKind, ServesManyThreadsAndReadsEachFileOnceAsAWhole) {
  CacheFixture f(12);
  const auto cache = VolumeCache::make(f.config(GetParam()), f.fields, nullptr);
  std::atomic<int> n_wrong{0};
  std::vector<std::thread> threads;
  for (uint64_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      const RngKey key{t, rng_stream("cache test", 0, 0)};
      for (uint64_t i = 0; i < 300; ++i) {
        const auto n = [&](uint64_t below, uint64_t word) {
          return static_cast<int64_t>(key.below(below, 8 * i + word));
        };
        const Dims3 begin{2 + n(4, 0), 1 + n(3, 1), n(6, 2)};
        const Dims3 count{1 + n(3, 3), 1 + n(3, 4), 1 + n(4, 5)};
        if (!f.reads_right(*cache, static_cast<size_t>(n(12, 6)), begin, count)) ++n_wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(n_wrong, 0);
  for (const auto& n : f.whole_reads) EXPECT_EQ(n, 1);
  EXPECT_EQ(cache->counts().kept, 12);
}

TEST_P(CacheOfKind, KeepsAFieldThatIsNamedTwiceOnce) {
  CacheFixture f(1);
  std::vector<CachedField> fields{f.fields[0], f.fields[0], f.fields[0]};
  fields[2].reading = "zyx";  // other values of the same file
  const auto cache = VolumeCache::make(f.config(GetParam()), fields, nullptr);
  for (size_t i = 0; i < 3; ++i) cache->read(i, {3, 2, 1}, {4, 3, 5}, f.reader(0));
  EXPECT_EQ(cache->counts().kept, 2);
  EXPECT_EQ(cache->counts().from_cache, 1);
}

TEST(VolumeCache, RefusesWhatCannotBe) {
  CacheFixture f(1);
  EXPECT_EQ(VolumeCache::make(f.config("none"), f.fields, nullptr), nullptr);
  EXPECT_EQ(message_of<UsageError>([&] { VolumeCache::make(f.config("tape"), f.fields, nullptr); }),
            "cache.kind 'tape': wanted none, ram, shared or disk");
  EXPECT_EQ(
      message_of<UsageError>([&] { VolumeCache::make(f.config("ram", 0), f.fields, nullptr); }),
      "cache.limit_gib is 0: wanted > 0");
  const auto cache = VolumeCache::make(f.config("ram"), f.fields, nullptr);
  EXPECT_THAT(message_of([&] { cache->read(1, {}, {}, f.reader(0)); }), HasSubstr("field 1 of 1"));
}

TEST(VolumeCache, SaysHowMuchFits) {
  CacheFixture f(2);
  const auto all = VolumeCache::make(f.config("ram", 2), f.fields, nullptr);
  EXPECT_EQ(all->describe(),
            "ram of each rank, at most 2 GiB; the data take 3.13e-06 GiB, all of them fit");
  const auto half =
      VolumeCache::make(f.config("ram", gib_of(f.fields[0].bytes())), f.fields, nullptr);
  EXPECT_THAT(half->describe(), HasSubstr(": 50 % of the reads come from it, the others from"));
}

}  // namespace
}  // namespace bora::data::test
