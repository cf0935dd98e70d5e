// SPDX-License-Identifier: Apache-2.0
// Feature rows 71 (shards), 72 (epochs), 73, 74 (evaluation), 78 (last batch), 142 (other ranks).
#include "data/sampler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "data/checkpoint.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data {
namespace {

using test::message_of;
using test::TempFolder;

std::vector<Slot> slots_of(int rank, int n_ranks, SamplerOptions options, EpochPosition from = {}) {
  options.rank = rank;
  options.n_ranks = n_ranks;
  return DistributedSampler(options).slots(from);
}

/// How often each sample is used by all ranks together; repeats and padding apart.
struct Use {
  std::map<int64_t, int> real, padding;
  std::vector<size_t> sizes;
};
Use use_of(int n_ranks, const SamplerOptions& options, EpochPosition from = {}) {
  Use use;
  for (int r = 0; r < n_ranks; ++r) {
    const auto slots = slots_of(r, n_ranks, options, from);
    use.sizes.push_back(slots.size());
    for (const Slot& s : slots) ++(s.padding ? use.padding : use.real)[s.index];
  }
  return use;
}

TEST(Sampler, PadsTenOverThreeToFourEachWithTwoMarkedRepeats) {
  const Use use = use_of(3, {.n_samples = 10, .seed = 1});
  EXPECT_EQ(use.sizes, (std::vector<size_t>{4, 4, 4}));
  EXPECT_EQ(use.real.size(), 10u);
  for (const auto& [index, n] : use.real) EXPECT_EQ(n, 1) << index;
  EXPECT_EQ(use.padding.size(), 2u);
}

TEST(Sampler, DropsTenOverThreeToThreeEach) {
  const Use use = use_of(3, {.n_samples = 10, .seed = 1, .tail = Tail::drop});
  EXPECT_EQ(use.sizes, (std::vector<size_t>{3, 3, 3}));
  EXPECT_EQ(use.real.size(), 9u);
  EXPECT_TRUE(use.padding.empty());
}

TEST(Sampler, ServesTwoSamplesToFourRanks) {
  const Use use = use_of(4, {.n_samples = 2, .seed = 1});
  EXPECT_EQ(use.sizes, (std::vector<size_t>{1, 1, 1, 1}));
  EXPECT_EQ(use.real.size(), 2u);
  EXPECT_EQ(use.padding.size(), 2u);
}

TEST(Sampler, CoversEverySampleOnceForManySizesAndRanks) {
  for (int64_t n = 0; n <= 17; ++n)
    for (int ranks = 1; ranks <= 6; ++ranks)
      for (const Tail tail : {Tail::pad, Tail::uneven}) {
        const Use use = use_of(ranks, {.n_samples = n, .seed = 5, .tail = tail});
        ASSERT_EQ(use.real.size(), static_cast<size_t>(n));
        for (const auto& [index, count] : use.real) ASSERT_EQ(count, 1) << index;
        const auto [low, high] = std::minmax_element(use.sizes.begin(), use.sizes.end());
        ASSERT_LE(*high - *low, tail == Tail::pad ? 0u : 1u);
        if (tail == Tail::uneven) {
          ASSERT_TRUE(use.padding.empty());
        }
      }
}

TEST(Sampler, DropLeavesWholeBatchesOnly) {
  for (int64_t n = 0; n <= 25; ++n) {
    const Use use = use_of(2, {.n_samples = n, .seed = 5, .tail = Tail::drop, .batch = 3});
    for (const size_t size : use.sizes) EXPECT_EQ(size, static_cast<size_t>(n / 6 * 3));
  }
}

TEST(Sampler, GivesEachEpochItsOwnOrderAndRepeatsIt) {
  const auto first = epoch_order(20, 7, 0, true);
  EXPECT_EQ(first, epoch_order(20, 7, 0, true));
  EXPECT_NE(first, epoch_order(20, 7, 1, true));
  EXPECT_NE(first, epoch_order(20, 8, 0, true));
  EXPECT_EQ(epoch_order(4, 7, 3, false), (std::vector<int64_t>{0, 1, 2, 3}));
}

// Guards the order itself: a checkpoint's position means nothing if the permutation changes.
TEST(Sampler, OrderIsTheOneOfTheFormat) {
  EXPECT_EQ(epoch_order(8, 0, 0, true), (std::vector<int64_t>{2, 3, 5, 4, 0, 6, 7, 1}));
  EXPECT_EQ(epoch_order(8, 42, 3, true), (std::vector<int64_t>{3, 6, 0, 1, 4, 2, 5, 7}));
}

// 6 orders of 3 samples over 6000 epochs: chi-squared with 5 degrees of freedom is below 20.5 with
// probability 0.999; the seed is fixed, so this passes always or never.
TEST(Sampler, AllOrdersAreEquallyLikely) {
  std::map<std::vector<int64_t>, int> seen;
  for (int64_t epoch = 0; epoch < 6000; ++epoch) ++seen[epoch_order(3, 11, epoch, true)];
  ASSERT_EQ(seen.size(), 6u);
  double chi2 = 0;
  for (const auto& [order, n] : seen) chi2 += (n - 1000.0) * (n - 1000.0) / 1000.0;
  EXPECT_LT(chi2, 20.5);
}

TEST(Sampler, OneStepOfManyRanksUsesTheSamplesOfOneRankWithTheJoinedBatch) {
  const SamplerOptions options{.n_samples = 12, .seed = 3};
  const auto one = slots_of(0, 1, options);
  const int64_t batch = 2;
  for (int64_t step = 0; step < 3; ++step) {
    std::set<int64_t> joined, single;
    for (int r = 0; r < 2; ++r) {
      const auto mine = slots_of(r, 2, options);
      for (int64_t b = 0; b < batch; ++b)
        joined.insert(mine[static_cast<size_t>(step * batch + b)].index);
    }
    for (int64_t b = 0; b < 2 * batch; ++b)
      single.insert(one[static_cast<size_t>(step * 2 * batch + b)].index);
    EXPECT_EQ(joined, single) << "step " << step;
  }
}

TEST(Sampler, GoesOnWithOtherRanksUsingEachRemainingSampleOnce) {
  const SamplerOptions options{.n_samples = 23, .seed = 9};
  SamplerOptions four = options;
  four.n_ranks = 4;
  const EpochPosition stop = DistributedSampler(four).advance({5, 0}, 3);
  EXPECT_EQ(stop, (EpochPosition{5, 12}));
  std::set<int64_t> used;
  for (int r = 0; r < 4; ++r) {
    const auto slots = slots_of(r, 4, options, {5, 0});
    for (size_t i = 0; i < 3; ++i) used.insert(slots[i].index);
  }
  ASSERT_EQ(used.size(), 12u);
  for (const int ranks : {1, 2, 3, 5, 16}) {
    const Use rest = use_of(ranks, options, stop);
    EXPECT_EQ(rest.real.size(), 11u);
    for (const auto& [index, n] : rest.real) {
      EXPECT_EQ(n, 1);
      EXPECT_EQ(used.count(index), 0u) << index << " again, on " << ranks << " ranks";
    }
  }
}

TEST(Sampler, AdvancesToTheNextEpochAtTheEnd) {
  const DistributedSampler s({.n_samples = 10, .n_ranks = 3, .rank = 1, .seed = 1});
  EXPECT_EQ(s.advance({2, 0}, 3), (EpochPosition{2, 9}));
  EXPECT_EQ(s.advance({2, 9}, 1), (EpochPosition{3, 0}));
  EXPECT_EQ(s.advance({2, 0}, 4), (EpochPosition{3, 0}));
  EXPECT_THROW(s.advance({2, 9}, 2), Error);
  const DistributedSampler d(
      {.n_samples = 10, .n_ranks = 3, .rank = 1, .seed = 1, .tail = Tail::drop});
  EXPECT_EQ(d.advance({2, 6}, 1), (EpochPosition{3, 0}));
}

TEST(Sampler, SaysWhenThereIsNothingToTrainOn) {
  EXPECT_THAT(
      message_of<UsageError>([] { DistributedSampler({.n_samples = 0}).require_samples(); }),
      testing::HasSubstr("is empty"));
  EXPECT_THAT(message_of<UsageError>([] {
                DistributedSampler({.n_samples = 5, .n_ranks = 2, .tail = Tail::drop, .batch = 3})
                    .require_samples();
              }),
              testing::HasSubstr("none of the 5 samples"));
  DistributedSampler({.n_samples = 0, .tail = Tail::uneven}).require_samples();
  DistributedSampler({.n_samples = 1, .n_ranks = 4, .rank = 3}).require_samples();
}

TEST(Sampler, RefusesBadOptions) {
  EXPECT_THROW(DistributedSampler({.n_samples = -1}), UsageError);
  EXPECT_THROW(DistributedSampler({.n_samples = 1, .n_ranks = 0}), UsageError);
  EXPECT_THROW(DistributedSampler({.n_samples = 1, .n_ranks = 2, .rank = 2}), UsageError);
  EXPECT_THROW(DistributedSampler({.n_samples = 1, .batch = 0}), UsageError);
  EXPECT_THROW(DistributedSampler({.n_samples = 4}).slots({0, 5}), Error);
  EXPECT_THROW(DistributedSampler({.n_samples = 4}).slots({-1, 0}), Error);
}

TEST(Sampler, StateComesBackAndRefusesOtherData) {
  const TempFolder folder;
  const std::string path = folder.file("s.h5");
  const DistributedSampler saved({.n_samples = 30, .n_ranks = 4, .rank = 0, .seed = 2});
  EpochPosition position{7, 12};
  save_checkpoint(path, [&](StateVisitor& v) { saved.state(v, position); });
  EpochPosition back;
  const DistributedSampler fewer_ranks({.n_samples = 30, .n_ranks = 2, .rank = 1, .seed = 2});
  load_checkpoint(path, [&](StateVisitor& v) { fewer_ranks.state(v, back); });
  EXPECT_EQ(back, position);
  const DistributedSampler other({.n_samples = 29, .seed = 2});
  const std::string message =
      message_of([&] { load_checkpoint(path, [&](StateVisitor& v) { other.state(v, back); }); });
  EXPECT_THAT(message, testing::HasSubstr("saved with n_samples = 30"));
  EXPECT_THAT(message, testing::HasSubstr("now n_samples = 29"));
}

}  // namespace
}  // namespace bora::data
