// SPDX-License-Identifier: Apache-2.0
// Row 71: which slots a rank takes from any position on: from position p, rank r of W has the slots
// p + t W + r, whatever W was before.
#include <gtest/gtest.h>

#include <set>

#include "data/sampler.hpp"

namespace bora::data::test {
namespace {

TEST(SamplerPositions, ARankTakesEveryWthSlotFromItsOwnOn) {
  const int64_t n = 23;
  const std::vector<int64_t> order = epoch_order(n, 9, 5, true);
  for (const Tail tail : {Tail::pad, Tail::drop, Tail::uneven})
    for (const int ranks : {1, 2, 3, 5, 8})
      for (int64_t position = 0; position <= n; ++position)
        for (int rank = 0; rank < ranks; ++rank) {
          const DistributedSampler sampler({.n_samples = n,
                                            .n_ranks = ranks,
                                            .rank = rank,
                                            .seed = 9,
                                            .tail = tail,
                                            .batch = 2});
          const std::vector<Slot> slots = sampler.slots({5, position});
          ASSERT_EQ(std::ssize(slots), sampler.count(position));
          for (int64_t t = 0; t < std::ssize(slots); ++t) {
            const Slot& s = slots[static_cast<size_t>(t)];
            const int64_t want = position + t * ranks + rank;
            ASSERT_EQ(s.slot, want) << ranks << " ranks from " << position;
            ASSERT_EQ(s.padding, want >= n);
            ASSERT_EQ(s.index, order[static_cast<size_t>(want % n)]);
            ASSERT_EQ(s.epoch, 5);
            ASSERT_EQ(s.repeat, 0);
          }
        }
}

// Of an evaluation, whatever number of ranks: no sample twice, none left out (row 74).
TEST(SamplerPositions, AnEvaluationTakesEachSampleOnce) {
  for (int64_t n = 0; n <= 9; ++n)
    for (int ranks = 1; ranks <= 12; ++ranks) {
      std::multiset<int64_t> seen;
      for (int rank = 0; rank < ranks; ++rank)
        for (const Slot& s : DistributedSampler({.n_samples = n,
                             .n_ranks = ranks,
                             .rank = rank,
                             .shuffle = false,
                             .tail = Tail::uneven})
                                 .slots({0, 0})) {
          EXPECT_FALSE(s.padding);
          seen.insert(s.index);
        }
      ASSERT_EQ(std::ssize(seen), n) << ranks << " ranks";
      int64_t i = 0;
      for (const int64_t index : seen) ASSERT_EQ(index, i++);
    }
}

}  // namespace
}  // namespace bora::data::test
