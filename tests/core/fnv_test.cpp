// SPDX-License-Identifier: Apache-2.0
#include "core/fnv.hpp"

#include <gtest/gtest.h>

namespace bora {
namespace {

// The 64-bit vectors that the authors publish (draft-eastlake-fnv, and test_fnv.c of their code).
TEST(Fnv, GivesThePublishedAnswers) {
  EXPECT_EQ(fnv1a(""), 0xcbf29ce484222325ull);
  EXPECT_EQ(fnv1a("a"), 0xaf63dc4c8601ec8cull);
  EXPECT_EQ(fnv1a("foobar"), 0x85944171f73967e8ull);
}

TEST(Fnv, GoesOnWhereItStopped) {
  EXPECT_EQ(fnv1a("bar", fnv1a("foo")), fnv1a("foobar"));
  EXPECT_EQ(fnv_step(kFnvOffset, 'a'), fnv1a("a"));
}

TEST(Fnv, TakesBytesWithoutTheirSign) {
  EXPECT_EQ(fnv1a("\xff"), fnv_step(kFnvOffset, 0xff));
  EXPECT_EQ(fnv1a({"\0", 1}), fnv_step(kFnvOffset, 0));  // and ends at no zero
}

}  // namespace
}  // namespace bora
