// SPDX-License-Identifier: Apache-2.0
// Ranks with shares of unequal length wait for each other and hear of failures.
#include "apps/unet3d/pulse.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "comm/communicator.hpp"
#include "tests/core/thread_collective.hpp"
#include "tests/support/message_of.hpp"

namespace bora::unet3d {
namespace {

using bora::testing::message_of;

TEST(Pulse, RanksWithLessToDoMeetTheOthersUntilTheyAreDone) {
  std::atomic<int> done{0};
  on_ranks(3, [&](Collective& ranks) {
    work_apart(ranks, "work", [&](Pulse& pulse) {
      for (int i = 0; i < 4 * ranks.rank(); ++i) pulse.beat();  // 0, 4 and 8 pieces
      ++done;
    });
    EXPECT_EQ(done, 3);  // nobody leaves before all are done
  });
}

TEST(Pulse, AFailureStopsTheOthersAtTheirNextBeat) {
  std::array<int, 3> pieces{};
  std::array<std::string, 3> texts;
  on_ranks(3, [&](Collective& ranks) {
    const auto me = static_cast<size_t>(ranks.rank());
    texts[me] = message_of([&] {
      work_apart(ranks, "work", [&](Pulse& pulse) {
        for (int i = 0; i < 100; ++i) {
          if (me == 1 && i == 5) throw Error("piece 5 of rank 1 is bad");
          ++pieces[me];
          pulse.beat();
        }
      });
    });
  });
  EXPECT_EQ(pieces, (std::array<int, 3>{6, 5, 6}));
  for (const std::string& text : texts)
    EXPECT_EQ(text, "work: rank 1 failed: piece 5 of rank 1 is bad");
}

TEST(Pulse, OneRankAloneDoesNotWait) {
  const auto self = make_self_communicator();
  int n = 0;
  work_apart(*self, "work", [&](Pulse& pulse) {
    for (; n < 3; ++n) pulse.beat();
  });
  EXPECT_EQ(n, 3);
  EXPECT_EQ(message_of([&] { work_apart(*self, "work", [](Pulse&) { throw Error("bad"); }); }),
            "bad");
}

}  // namespace
}  // namespace bora::unet3d
