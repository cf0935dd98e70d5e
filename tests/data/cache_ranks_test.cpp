// SPDX-License-Identifier: Apache-2.0
// Caches over ranks: one copy a host in shared memory, one folder, the same samples and statistics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "comm/communicator.hpp"
#include "core/rng.hpp"
#include "data/wind_dataset.hpp"
#include "tests/data/reference_values.hpp"
#include "tests/data/wind_fixture.hpp"
#include "tests/support/mpi_main.hpp"
#include "tests/support/shared_folder.hpp"

namespace bora::data::test {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kCases = 6;

WindConfig config_of(const std::string& kind, const std::string& folder) {
  WindConfig config;
  config.root = kSample;
  config.shape = {16, 16, 8};
  config.normalisation = "none";
  config.cache = {.kind = kind, .limit_gib = 1, .folder = folder};
  return config;
}

Sample sample(const WindDataset& data, int64_t i) {
  return data.read(
      i, WindowChoice::random({1, rng_stream("cache ranks", 0, static_cast<uint64_t>(i))}));
}

class CacheRanks : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Kinds, CacheRanks, ::testing::Values("ram", "shared", "disk"),
                         [](const auto& kind) { return kind.param; });

TEST_P(CacheRanks, HaveOneCopyOfWhatTheySharedAndTheSameBits) {
  const auto ranks = make_communicator(bora::testing::session());
  const bora::testing::SharedFolder folder(*ranks);
  const WindConfig config = config_of(GetParam(), folder.path() + "/cache");
  const WindDataset plain(config);
  WindDataset cached(config, ranks.get());
  cached.use_cache(ranks.get());
  // All ranks read all cases, each in an order of its own.
  int64_t bytes = 0;
  for (int round = 0; round < 2; ++round)
    for (int64_t i = 0; i < kCases; ++i) {
      const int64_t mine = (i + ranks->rank()) % kCases;
      EXPECT_TRUE(same(sample(cached, mine), sample(plain, mine))) << mine;
    }
  for (int64_t i = 0; i < kCases; ++i) {
    const Dims3 grid = cached.at(i).grid;
    bytes += 2 * grid.d * grid.h * std::min<int64_t>(8, grid.w) * 4;
  }
  ranks->barrier("all have read");
  const VolumeCache::Counts counts = cached.cache()->counts();
  const int64_t kept = ranks->all_reduce(counts.kept, ReduceOp::sum, "kept");
  if (GetParam() == "ram") {
    EXPECT_EQ(counts.bytes, bytes);
    EXPECT_EQ(kept, 2 * kCases * ranks->size());
  } else if (GetParam() == "shared") {
    // The exact bytes of one copy (each field is rounded to 64), whatever the number of ranks.
    EXPECT_GE(counts.bytes, bytes);
    EXPECT_LT(counts.bytes, bytes + 2 * kCases * 64);
    EXPECT_EQ(kept, 2 * kCases);
  } else {
    EXPECT_EQ(counts.bytes, bytes + 2 * kCases * 4096);
  }
}

TEST_P(CacheRanks, GiveTheSameStatistics) {
  const auto ranks = make_communicator(bora::testing::session());
  const bora::testing::SharedFolder folder(*ranks);
  WindConfig config = config_of(GetParam(), folder.path() + "/cache");
  config.normalisation = "global";
  WindDataset plain(config);
  WindDataset cached(config, ranks.get());
  cached.use_cache(ranks.get());
  plain.fit_normaliser({0, 1, 2, 3}, *ranks);
  cached.fit_normaliser({0, 1, 2, 3}, *ranks);
  EXPECT_EQ(std::bit_cast<uint64_t>(plain.normaliser().moments().m2),
            std::bit_cast<uint64_t>(cached.normaliser().moments().m2));
}

TEST(CacheRanksTogether, RefuseTheSameOnAll) {
  const auto ranks = make_communicator(bora::testing::session());
  WindDataset data(config_of("disk", ""), ranks.get());
  EXPECT_THAT(message_of<UsageError>([&] { data.use_cache(ranks.get()); }),
              HasSubstr("cache.kind=disk wants cache.folder"));
  // One rank alone cannot have its folder: all are told.
  const std::string folder = ranks->rank() == 0 ? "/proc/nowhere" : "/tmp";
  WindDataset other(config_of("disk", folder), ranks.get());
  EXPECT_THAT(message_of<UsageError>([&] { other.use_cache(ranks.get()); }),
              HasSubstr("cache.folder '/proc/nowhere'"));
  ranks->barrier("all are still in step");
}

}  // namespace
}  // namespace bora::data::test
