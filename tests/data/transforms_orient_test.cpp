// SPDX-License-Identifier: Apache-2.0
// Mirrors and quarter turns as exact copies.  Feature 100.
#include <utility>

#include "data/transforms/orient.hpp"
#include "tests/data/transforms_support.hpp"

namespace bora::data::test {
namespace {

TEST(Orient, FourTurnsAndTwoMirrorsAreTheIdentity) {
  for (const Shape& s : {Shape{3, 3, 3}, Shape{5, 2, 1, 3}, Shape{1, 1, 1}, Shape{4, 3, 5, 1}}) {
    const Tensor t = normal_tensor(s, 1);
    for (const auto& [a, b] : {std::pair{0, 1}, {0, 2}, {1, 2}, {2, 0}}) {
      Tensor r = t;
      for (int i = 0; i < 4; ++i) {
        r = orient(r, turned({}, a, b));
        EXPECT_EQ(r.size(a), t.size(i % 2 == 0 ? b : a));
      }
      EXPECT_TRUE(equal<float>(t, r)) << s;
      EXPECT_TRUE(equal<float>(t, orient(orient(t, mirrored({}, a)), mirrored({}, a)))) << s;
    }
  }
}

TEST(Orient, CellsGoWhereTheFormulaSays) {
  const Tensor t = label_tensor({4, 5, 3}, 250, 2);
  const auto at = [](const Tensor& v, int64_t x, int64_t y, int64_t z) {
    return v.data<uint8_t>()[(x * v.size(1) + y) * v.size(2) + z];
  };
  const Tensor xy = orient(t, turned({}, 0, 1)), yz = orient(t, turned({}, 1, 2));
  const Tensor flip = orient(t, mirrored({}, 2));
  const Tensor both = orient(t, turned(mirrored({}, 0), 0, 2));
  for (int64_t x = 0; x < 4; ++x)
    for (int64_t y = 0; y < 5; ++y)
      for (int64_t z = 0; z < 3; ++z) {
        const uint8_t v = at(t, x, y, z);
        EXPECT_EQ(v, at(xy, 4 - y, x, z));
        EXPECT_EQ(v, at(yz, x, 2 - z, y));
        EXPECT_EQ(v, at(flip, x, y, 2 - z));
        EXPECT_EQ(v, at(both, 2 - z, y, 3 - x));
      }
}

TEST(Orient, TheInverseUndoesAllFortyEight) {
  const Tensor t = normal_tensor({3, 4, 2, 2}, 3);
  for (int code = 0; code < 8 * 6; ++code) {
    Orientation o;
    for (int axis = 0; axis < 3; ++axis)
      if ((code >> axis & 1) != 0) o = mirrored(o, axis);
    for (int i = 0; i < code / 8 % 2; ++i) o = turned(o, 0, 1);
    for (int i = 0; i < code / 16; ++i) o = turned(turned(o, 1, 2), 0, 1);
    EXPECT_TRUE(equal<float>(t, orient(orient(t, o), inverse_of(o)))) << code;
  }
}

TEST(Orient, ABoxOutsideIsRefused) {
  EXPECT_THROW(orient(normal_tensor({3, 4, 2}, 1), {}, {1, 0, 0}, {3, 4, 2}), Error);
  EXPECT_THROW(orient(normal_tensor({3, 4}, 1), {}), Error);
}

}  // namespace
}  // namespace bora::data::test
