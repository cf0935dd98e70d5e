// SPDX-License-Identifier: Apache-2.0
#include "core/shape.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bora {
namespace {

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ((Shape{0}).numel(), 0);
  EXPECT_EQ((Shape{3, 0, 5}).numel(), 0);
  EXPECT_EQ((Shape{2, 3, 4, 5, 6, 7}).numel(), 5040);
  static_assert(Shape{2, 3}.numel() == 6);
}

// cases.md, conv3d size: more elements than 32 bits count.
TEST(Shape, CountsBeyond32Bits) {
  EXPECT_EQ((Shape{42, 64, 64, 224, 224}).numel(), int64_t{8631877632});
  EXPECT_EQ((Shape{1, 256, 256, 256, 128}).numel(), int64_t{1} << 31);
  EXPECT_EQ((Shape{65536, 65536, 1024}).numel(), int64_t{1} << 42);
}

TEST(Shape, AxesCountFromBothEnds) {
  const Shape s{2, 3, 4};
  EXPECT_EQ(s.rank(), 3);
  EXPECT_EQ(s.at(0), 2);
  EXPECT_EQ(s.at(2), 4);
  EXPECT_EQ(s.at(-1), 4);
  EXPECT_EQ(s.at(-3), 2);
  EXPECT_THROW(s.at(3), Error);
  EXPECT_THROW(s.at(-4), Error);
  EXPECT_THROW(Shape{}.at(0), Error);
  EXPECT_THROW(Shape{}.at(-1), Error);
}

TEST(Shape, EditsGiveNewShapes) {
  const Shape s{2, 3, 4};
  EXPECT_EQ(s.with(-1, 9), (Shape{2, 3, 9}));
  EXPECT_EQ(s.with(0, 0), (Shape{0, 3, 4}));
  EXPECT_EQ(s.append(5), (Shape{2, 3, 4, 5}));
  EXPECT_EQ(s, (Shape{2, 3, 4}));
  EXPECT_EQ(Shape{}.append(7), (Shape{7}));
}

TEST(Shape, RefusesNegativeExtentsAndTooManyAxes) {
  EXPECT_THROW((Shape{1, -1}), Error);
  EXPECT_THROW((Shape{1, 2, 3, 4, 5, 6, 7}), Error);
  EXPECT_THROW((Shape{1, 2, 3, 4, 5, 6}.append(1)), Error);
  EXPECT_THROW((Shape{1}.append(-1)), Error);
  EXPECT_THROW((Shape{1}.with(0, -1)), Error);
  EXPECT_THROW((Shape{1}.with(1, 1)), Error);
}

TEST(Shape, EqualityLooksAtRankAndExtents) {
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
  EXPECT_NE(Shape{}, (Shape{1}));
  EXPECT_EQ(Shape{}, Shape{});
}

TEST(Shape, PrintsAsTuple) {
  EXPECT_EQ(detail::join(Shape{1, 16, 64}), "(1, 16, 64)");
  EXPECT_EQ(detail::join(Shape{}), "()");
}

TEST(Dims3, IndexesInOrderAndCounts) {
  constexpr Dims3 v{2, 3, 4};
  static_assert(v[0] == 2 && v[1] == 3 && v[2] == 4 && v.count() == 24);
  EXPECT_EQ(Dims3::all(5), (Dims3{5, 5, 5}));
  EXPECT_EQ(detail::join(v), "2x3x4");
  EXPECT_EQ((Dims3{2048, 2048, 1024}).count(), int64_t{1} << 32);
}

}  // namespace
}  // namespace bora
