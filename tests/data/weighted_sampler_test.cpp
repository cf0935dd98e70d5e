// SPDX-License-Identifier: Apache-2.0
// Rows 71-74: draws by weights and by groups, the same on every number of ranks, resumable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "data/sampler.hpp"
#include "tests/support/map_visitor.hpp"
#include "tests/support/message_of.hpp"

namespace bora::data::test {
namespace {

using bora::testing::MapVisitor;
using bora::testing::message_of;
using ::testing::HasSubstr;

SamplerOptions options(std::vector<double> weights, int n_ranks = 1, int rank = 0) {
  return {.n_samples = static_cast<int64_t>(weights.size()),
          .n_ranks = n_ranks,
          .rank = rank,
          .seed = 7,
          .weights = std::move(weights)};
}

std::vector<int64_t> counts_of(const std::vector<double>& weights, int64_t epochs) {
  std::vector<int64_t> counts(weights.size(), 0);
  for (int64_t e = 0; e < epochs; ++e)
    for (const int64_t i : weighted_order(weights, 3, e)) ++counts[static_cast<size_t>(i)];
  return counts;
}

TEST(WeightedSampler, SamplesComeAsOftenAsTheirWeightsSay) {
  const std::vector<double> weights{1, 0, 3, 0.5, 0};
  const int64_t epochs = 8000, draws = epochs * 5;
  const std::vector<int64_t> counts = counts_of(weights, epochs);
  for (size_t i = 0; i < weights.size(); ++i) {
    const double p = weights[i] / 4.5, n = static_cast<double>(draws);
    // Five standard deviations of a binomial count; 0 exactly where the weight is 0.
    EXPECT_NEAR(static_cast<double>(counts[i]), n * p, 5 * std::sqrt(n * p * (1 - p))) << i;
  }
}

TEST(WeightedSampler, OneSampleThatHasAWeightIsAlwaysDrawn) {
  EXPECT_EQ(weighted_order({0, 1e-300, 0}, 1, 0), (std::vector<int64_t>{1, 1, 1}));
  EXPECT_EQ(weighted_order({2}, 1, 0), (std::vector<int64_t>{0}));
  EXPECT_TRUE(weighted_order({}, 1, 0).empty());
}

TEST(WeightedSampler, TheDrawIsAFunctionOfSeedAndEpoch) {
  const std::vector<double> weights(50, 1.0);
  EXPECT_EQ(weighted_order(weights, 5, 2), weighted_order(weights, 5, 2));
  EXPECT_NE(weighted_order(weights, 5, 2), weighted_order(weights, 5, 3));
  EXPECT_NE(weighted_order(weights, 5, 2), weighted_order(weights, 6, 2));
}

TEST(WeightedSampler, EveryRankCountSharesOneOrderAndResumesAtAnyPosition) {
  std::vector<double> weights(23);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<double>(i % 5);
  for (const int64_t position : {0, 1, 7, 11, 22, 23}) {
    const std::vector<Slot> one =
        DistributedSampler(options(weights)).slots({.epoch = 4, .position = position});
    for (const int n_ranks : {1, 2, 3, 4}) {
      std::vector<Slot> joined(one.size());
      int64_t n_padding = 0;
      for (int rank = 0; rank < n_ranks; ++rank)
        for (const Slot& s : DistributedSampler(options(weights, n_ranks, rank))
                                 .slots({.epoch = 4, .position = position})) {
          n_padding += s.padding;
          if (!s.padding) joined.at(static_cast<size_t>(s.slot - position)) = s;
        }
      EXPECT_EQ(joined, one) << n_ranks << " ranks from " << position;
      EXPECT_EQ(n_padding, (n_ranks - (23 - position) % n_ranks) % n_ranks);
    }
  }
}

TEST(WeightedSampler, RepeatsOfASampleAreNumbered) {
  const std::vector<Slot> slots = DistributedSampler(options({1, 1, 5})).slots({});
  const std::vector<int64_t> order = weighted_order({1, 1, 5}, 7, 0);
  std::vector<int64_t> seen(3, 0);
  ASSERT_EQ(slots.size(), order.size());
  for (size_t i = 0; i < slots.size(); ++i) {
    EXPECT_EQ(slots[i].index, order[i]);
    EXPECT_EQ(slots[i].repeat, seen[static_cast<size_t>(order[i])]++);
  }
  for (const Slot& s : DistributedSampler({.n_samples = 9, .seed = 7}).slots({}))
    EXPECT_EQ(s.repeat, 0);
}

TEST(WeightedSampler, EachGroupHasTheSameChance) {
  // One city of one case, one of four: 0.5 and 4 x 0.125.
  const std::vector<double> w = geometry_weights({"a", "b", "b", "b", "b"});
  EXPECT_EQ(w, (std::vector<double>{1, 0.25, 0.25, 0.25, 0.25}));
  const std::vector<int64_t> counts = counts_of(w, 4000);
  const double n = 20000;
  EXPECT_NEAR(static_cast<double>(counts[0]), n / 2, 5 * std::sqrt(n / 4));
  for (size_t i = 1; i < 5; ++i)
    EXPECT_NEAR(static_cast<double>(counts[i]), n / 8, 5 * std::sqrt(n * 7 / 64)) << i;
}

TEST(WeightedSampler, WeightsCountWithinAGroup) {
  EXPECT_EQ(geometry_weights({"a", "a", "b", "c"}, {3, 1, 0.1, 0}),
            (std::vector<double>{0.75, 0.25, 1, 0}));
}

TEST(WeightedSampler, WeightsThatCannotBeAreRefused) {
  EXPECT_THAT(message_of([] {
                weighted_order({1, -1}, 0, 0);
              }),
              HasSubstr("the weight of sample 1 is -1, wanted a number of at least 0"));
  EXPECT_THAT(message_of([] {
                weighted_order({1, NAN}, 0, 0);
              }),
              HasSubstr("the weight of sample 1 is nan"));
  EXPECT_THAT(message_of([] {
                weighted_order({0, 0}, 0, 0);
              }),
              HasSubstr("the weights of 2 samples add up to 0"));
  EXPECT_THAT(message_of([] {
                DistributedSampler({.n_samples = 3, .weights = {1, 2}});
              }),
              HasSubstr("wanted one weight for each of 3 samples, got 2"));
}

/// A sampler loads the position of a saved one.
EpochPosition loaded(const DistributedSampler& sampler, MapVisitor::Map& saved) {
  EpochPosition found;
  MapVisitor load(saved, true);
  sampler.state(load, found);
  return found;
}
MapVisitor::Map saved_by(const DistributedSampler& sampler, EpochPosition position) {
  MapVisitor::Map saved;
  MapVisitor save(saved, false);
  sampler.state(save, position);
  return saved;
}

TEST(WeightedSampler, OtherWeightsAreNoPlaceToGoOnFrom) {
  const EpochPosition position{2, 5};
  auto saved = saved_by(DistributedSampler(options({1, 2, 3, 4, 5, 6})), position);
  EXPECT_EQ(loaded(DistributedSampler(options({1, 2, 3, 4, 5, 6}, 4, 1)), saved), position);
  EXPECT_THAT(message_of([&] {
                loaded(DistributedSampler(options({1, 2, 3, 4, 5, 6.5})), saved);
              }),
              HasSubstr("the weights of the samples are others"));
}

// FNV-1a over the bytes of the numbers, the lowest first: in checkpoints, so it may not change.
TEST(WeightedSampler, TheChecksumOfTheWeightsStaysWhatItIs) {
  auto saved = saved_by(DistributedSampler(options({1, 0, 3, 0.5})), {});
  EXPECT_EQ(std::get<uint64_t>(saved.at("weights")), 0x96aecc53b7b69d3dull);
}

// What no sampler saves, with a checksum that fits: a checkpoint made by hand.
TEST(Sampler, APositionThatIsNoneIsRefused) {
  const DistributedSampler sampler({.n_samples = 6});
  const auto saved = saved_by(sampler, {2, 6});
  auto spoiled = saved;
  EXPECT_EQ(loaded(sampler, spoiled), (EpochPosition{2, 6}));  // the end of an epoch
  struct Case {
    const char* entry;
    int64_t value;
    const char* message;
  };
  for (const Case& c : {Case{"position", 7, "the saved position, epoch 2 slot 7, is not one of 6"},
                        Case{"position", -1, "epoch 2 slot -1, is not one of 6 samples"},
                        Case{"epoch", -3, "epoch -3 slot 6, is not one of 6 samples"}}) {
    spoiled = saved;
    spoiled.at(c.entry) = c.value;
    EXPECT_THAT(message_of([&] { loaded(sampler, spoiled); }), HasSubstr(c.message));
  }
}

}  // namespace
}  // namespace bora::data::test
