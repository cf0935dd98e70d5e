// SPDX-License-Identifier: Apache-2.0
// A wind data set behind each kind of cache: the same samples, from any number of threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/rng.hpp"
#include "data/batch.hpp"
#include "tests/data/cache_fixture.hpp"
#include "tests/data/wind_fixture.hpp"

namespace bora::data::test {
namespace {

using ::testing::HasSubstr;

class WindCache : public WindDatasetTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    WindDatasetTest::SetUp();
    config_.shape = {8, 8, 4};
    config_.clip = {0, 4};
    config_.augment.flip_y = true;
    config_.cache = {.kind = GetParam(), .limit_gib = 1, .folder = folder_.file("cache")};
  }
  Sample sample(const WindDataset& data, int64_t i, int64_t epoch) const {
    return data.read(i % data.size(),
                     WindowChoice::random({5, rng_stream("wind cache", static_cast<uint64_t>(epoch),
                                                         static_cast<uint64_t>(i))}));
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, WindCache, ::testing::Values("ram", "shared", "disk"),
                         [](const auto& kind) { return kind.param; });

TEST_P(WindCache, GivesTheSameSamplesFromAnyNumberOfThreads) {
  const WindDataset plain(config_);
  for (const int n_threads : {0, 1, 4}) {
    WindDataset cached(config_);
    cached.use_cache(nullptr);
    Loader<Sample> loader({.n_threads = n_threads},
                          [&](const Slot& slot) { return sample(cached, slot.index, slot.epoch); });
    for (int64_t epoch = 0; epoch < 3; ++epoch) {
      std::vector<Slot> slots;
      for (int64_t i = 0; i < 18; ++i) slots.push_back({i, i, epoch, false});
      loader.start(slots);
      for (int64_t i = 0; i < 18; ++i)
        ASSERT_TRUE(same(*loader.next(), sample(plain, i, epoch))) << i;
    }
    // 6 masks and 6 fields of 12 x 9 x 4 cells: the kept levels alone.
    EXPECT_EQ(cached.cache()->counts().kept, GetParam() == "disk" && n_threads > 0 ? 0 : 12);
    EXPECT_GT(cached.cache()->counts().from_cache, 80);
    const int64_t header = GetParam() == "disk" ? 4096 : 0;
    EXPECT_EQ(cached.cache()->counts().bytes, 12 * (12 * 9 * 4 * 4 + header));
  }
}

TEST_P(WindCache, GivesTheSameWholeWindowsMasksAndStatistics) {
  const WindDataset plain(config_);
  WindDataset cached(config_);
  cached.use_cache(nullptr);
  for (int64_t i = 0; i < plain.size(); ++i) {
    EXPECT_TRUE(
        same(cached.read(i, WindowChoice::centred()), plain.read(i, WindowChoice::centred())));
    const Window upper{.grid = plain.at(i).grid, .shape = {5, 9, 3}, .begin = {6, 0, 3}};
    EXPECT_TRUE(same(cached.read_window(i, upper), plain.read_window(i, upper)));  // other levels
    EXPECT_TRUE(same(cached.read_mask_window(i, upper), plain.read_mask_window(i, upper)));
    EXPECT_EQ(cached.moments(i).m2, plain.moments(i).m2);
  }
}

TEST_P(WindCache, TellsWhatIsWrongInAFileAsWithoutIt) {
  spoil(wind("30VF2"), "wind_speed",
        [](Tensor& t) { std::fill(t.data<float>(), t.data<float>() + t.numel(), std::nanf("")); });
  const WindDataset plain(config_);
  WindDataset cached(config_);
  cached.use_cache(nullptr);
  int64_t bad = 0;
  while (plain.name(bad) != "30VF2") ++bad;
  const auto choice = WindowChoice::centred();
  const std::string text = message_of([&] { plain.read(bad, choice); });
  EXPECT_THAT(text, HasSubstr("values are missing"));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(message_of([&] { cached.read(bad, choice); }), text);
}

TEST_P(WindCache, TellsAChangedFile) {
  WindDataset cached(config_);
  cached.use_cache(nullptr);
  cached.read(0, WindowChoice::centred());
  spoil(cached.at(0).wind_path, "wind_speed", [](Tensor&) {});
  EXPECT_THAT(message_of([&] { cached.read(0, WindowChoice::centred()); }),
              HasSubstr("has changed since the start of the program; start again"));
}

}  // namespace
}  // namespace bora::data::test
