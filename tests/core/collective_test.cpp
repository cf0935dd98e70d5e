// SPDX-License-Identifier: Apache-2.0
#include "core/collective.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/core/thread_collective.hpp"

namespace bora {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

TEST(Work, DefaultIsDone) {
  const Work w;
  EXPECT_TRUE(w.done());
  w.wait();
}

TEST(Work, PassesOnWhatWentWrong) {
  struct Broken : Work::State {
    bool done() override { return false; }
    void wait() override { throw Error("all_reduce 7 timed out"); }
  };
  const Work w(std::make_shared<Broken>());
  EXPECT_FALSE(w.done());
  EXPECT_THROW(w.wait(), Error);
}

TEST(ReduceOp, HasNames) {
  EXPECT_EQ(name_of(ReduceOp::sum), "sum");
  EXPECT_EQ(name_of(ReduceOp::mean), "mean");
  EXPECT_EQ(name_of(ReduceOp::min), "min");
  EXPECT_EQ(name_of(ReduceOp::max), "max");
}

TEST(Collective, ScalarsAndListsAreReduced) {
  for (int n : {1, 3})
    on_ranks(n, [n](Collective& c) {
      EXPECT_EQ(c.all_reduce(1.5 + c.rank(), ReduceOp::max, "x"), 0.5 + n);
      // An int64 keeps all its bits: no way over double.
      const int64_t large = (int64_t{1} << 60) + 1;
      EXPECT_EQ(c.all_reduce(large, ReduceOp::min, "x"), large);
      EXPECT_THAT(c.all_reduce(std::vector<double>{1, double(c.rank())}, ReduceOp::sum, "x"),
                  ElementsAre(n, n * (n - 1) / 2));
    });
}

TEST(Collective, TextsOfDifferentLengthAreGathered) {
  on_ranks(3, [](Collective& c) {
    // Rank 0 has nothing to say; zero bytes and long texts pass.
    std::string mine(static_cast<size_t>(c.rank() * 1000), 'x');
    if (c.rank() == 2) mine[5] = '\0';
    const auto all = c.all_gather_text(mine, "names");
    ASSERT_EQ(all.size(), 3u);
    EXPECT_EQ(all[0], "");
    EXPECT_EQ(all[1], std::string(1000, 'x'));
    EXPECT_EQ(all[2].size(), 2000u);
    EXPECT_EQ(all[2][5], '\0');
  });
  on_ranks(2, [](Collective& c) { EXPECT_THAT(c.all_gather_text("", "x"), ElementsAre("", "")); });
}

TEST(Collective, TextIsBroadcastFromItsRoot) {
  for (int root : {0, 2})
    on_ranks(3, [root](Collective& c) {
      const std::string mine = c.rank() == root ? "the config" : "something much longer than that";
      EXPECT_EQ(c.broadcast_text(mine, root, "config"), "the config");
      EXPECT_EQ(c.broadcast_text(c.rank() == root ? "" : "other", root, "config"), "");
    });
}

TEST(Agree, AllGoOnWhenNobodyFails) {
  std::atomic<int> n{0};
  on_ranks(3, [&](Collective& c) { c.agree("open", [&] { ++n; }); });
  EXPECT_EQ(n, 3);
}

TEST(Agree, FailureOnOneRankIsFailureOnAll) {
  on_ranks(3, [](Collective& c) {
    const auto run = [&] {
      c.agree("opening data", [&] {
        if (c.rank() == 1) throw Error("no such file a.h5");
      });
    };
    EXPECT_THAT(
        run, ThrowsMessage<Error>(std::string("opening data: rank 1 failed: no such file a.h5")));
    c.barrier("after");  // nobody was left behind
  });
}

// One text on all ranks, so that the end of a run can tell it once.
TEST(Agree, AllRanksSayTheSame) {
  const auto said = [](int n, const std::function<void(int)>& body) {
    std::vector<std::string> texts(static_cast<size_t>(n));
    on_ranks(n, [&](Collective& c) {
      try {
        c.agree("x", [&] { body(c.rank()); });
      } catch (const Error& e) {
        texts[static_cast<size_t>(c.rank())] = e.what();
      }
    });
    for (const std::string& text : texts) EXPECT_EQ(text, texts[0]);
    return texts[0];
  };
  EXPECT_EQ(said(3, [](int) { throw Error("all alike"); }), "all alike");
  EXPECT_EQ(said(1, [](int) { throw Error("alone"); }), "alone");
  EXPECT_EQ(said(4,
                 [](int r) {
                   if (r % 2 == 1) throw Error("odd");
                 }),
            "x: ranks 1, 3 failed: odd");
  EXPECT_EQ(said(4,
                 [](int r) {
                   if (r >= 2) throw Error("cause " + std::to_string(r));
                 }),
            "x: rank 2 failed: cause 2; rank 3 failed: cause 3");
  EXPECT_EQ(
      said(6, [](int r) { throw Error("cause " + std::to_string(r)); }),
      "x: rank 0 failed: cause 0; rank 1 failed: cause 1; rank 2 failed: cause 2; and 3 other "
      "messages on other ranks");
}

TEST(Agree, UsageErrorsStayUsageErrorsOnAllRanks) {
  on_ranks(2, [](Collective& c) {
    EXPECT_THROW(c.agree("x",
                         [&] {
                           if (c.rank() == 0) throw UsageError("bad flag");
                         }),
                 UsageError);
  });
}

TEST(Agree, ForeignExceptionsCountToo) {
  on_ranks(2, [](Collective& c) {
    EXPECT_THAT(
        [&] {
          c.agree("x", [&] {
            if (c.rank() == 0) throw std::out_of_range("vector");
          });
        },
        ThrowsMessage<Error>(HasSubstr("vector")));
    EXPECT_THAT(
        [&] {
          c.agree("x", [&] {
            if (c.rank() == 1) throw 42;
          });
        },
        ThrowsMessage<Error>(HasSubstr("unknown type")));
  });
}

}  // namespace
}  // namespace bora
