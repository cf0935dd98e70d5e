// SPDX-License-Identifier: Apache-2.0
#include "core/handle.hpp"

#include <gtest/gtest.h>

#include <type_traits>
#include <vector>

namespace bora {
namespace {

std::vector<int> g_destroyed;
void destroy(int id) { g_destroyed.push_back(id); }
using Id = Handle<int, &destroy, -1>;

class HandleTest : public testing::Test {
 protected:
  void SetUp() override { g_destroyed.clear(); }
};

TEST_F(HandleTest, DestroysOnceAtTheEndOfScope) {
  {
    Id a(7);
    EXPECT_EQ(a.get(), 7);
    EXPECT_TRUE(a);
  }
  EXPECT_EQ(g_destroyed, std::vector<int>{7});
}

TEST_F(HandleTest, EmptyDestroysNothing) {
  { const Id a; }
  { Id b(-1); }
  EXPECT_TRUE(g_destroyed.empty());
  EXPECT_FALSE(Id());
}

// 0 is a valid id of many C libraries.
TEST_F(HandleTest, ZeroIsOwnedWhenEmptyIsAnotherValue) {
  { Id a(0); }
  EXPECT_EQ(g_destroyed, std::vector<int>{0});
}

TEST_F(HandleTest, MoveLeavesEmptyBehind) {
  Id a(1);
  Id b(std::move(a));
  EXPECT_FALSE(a);
  EXPECT_EQ(b.get(), 1);
  Id c(2);
  c = std::move(b);  // 2 goes
  EXPECT_EQ(g_destroyed, std::vector<int>{2});
  EXPECT_EQ(c.get(), 1);
  c.reset();
  c.reset();
  EXPECT_EQ(g_destroyed, (std::vector<int>{2, 1}));
}

TEST_F(HandleTest, SelfMoveKeepsTheValue) {
  Id a(3);
  Id& same = a;
  a = std::move(same);
  EXPECT_EQ(a.get(), 3);
  EXPECT_TRUE(g_destroyed.empty());
}

TEST_F(HandleTest, CannotBeCopied) {
  static_assert(!std::is_copy_constructible_v<Id> && !std::is_copy_assignable_v<Id>);
  static_assert(std::is_nothrow_move_constructible_v<Id>);
}

}  // namespace
}  // namespace bora
