// SPDX-License-Identifier: Apache-2.0
// Row 92: crop and pad.
#include "data/window.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/data/pipeline_support.hpp"

namespace bora::data::test {
namespace {

using ::testing::HasSubstr;

TEST(Window, CentredInXAndYLowestLevelsInZ) {
  EXPECT_EQ(centred_window({10, 11, 12}, {4, 4, 4}).begin, (Dims3{3, 3, 0}));
  EXPECT_EQ(centred_window({10, 11, 12}, {10, 11, 12}).begin, (Dims3{0, 0, 0}));
  EXPECT_EQ(centred_window({10, 11, 12}, {0, 0, 0}).shape, (Dims3{10, 11, 12}));
  const Window bigger = centred_window({3, 4, 5}, {8, 9, 10});
  EXPECT_EQ(bigger.begin, (Dims3{-2, -2, 0}));
  EXPECT_EQ(bigger.overlap(), (Dims3{3, 4, 5}));
  EXPECT_EQ(bigger.first_in_box(), (Dims3{2, 2, 0}));
  EXPECT_EQ(bigger.first_in_grid(), (Dims3{0, 0, 0}));
  const Window mixed = centred_window({10, 3, 5}, {4, 8, 5});
  EXPECT_EQ(mixed.overlap(), (Dims3{4, 3, 5}));
  EXPECT_EQ(mixed.first_in_grid(), (Dims3{3, 0, 0}));
  EXPECT_THAT(message_of([] { centred_window({0, 3, 3}, {1, 1, 1}); }), HasSubstr("at least 1"));
}

TEST(Window, RandomPlacesAreAPureFunctionOfTheKeyAndCoverAll) {
  std::set<int64_t> xs, ys;
  for (uint64_t i = 0; i < 400; ++i) {
    const RngKey key{7, i};
    const Window w = random_window({10, 6, 8}, {4, 6, 3}, key);
    EXPECT_EQ(w, random_window({10, 6, 8}, {4, 6, 3}, key));
    EXPECT_FALSE(w.has_padding());
    EXPECT_EQ(w.begin.w, 0);
    xs.insert(w.begin.d);
    ys.insert(w.begin.h);
  }
  EXPECT_EQ(xs, (std::set<int64_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(ys, (std::set<int64_t>{0}));
  // A smaller grid is padded as in evaluation.
  EXPECT_EQ(random_window({3, 3, 3}, {8, 8, 8}, {1, 2}), centred_window({3, 3, 3}, {8, 8, 8}));
}

Tensor numbered(const Shape& shape) {
  Tensor t = Tensor::empty(shape, DType::f32);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(i + 1);
  return t;
}

TEST(Window, ThereAndBack) {
  for (const Dims3& grid : {Dims3{1, 1, 1}, Dims3{3, 4, 5}, Dims3{6, 2, 9}})
    for (const Dims3& shape : {Dims3{1, 1, 1}, Dims3{4, 4, 4}, Dims3{3, 4, 5}, Dims3{9, 1, 12}}) {
      const Window w = random_window(grid, shape, {3, 4});
      const Tensor whole = numbered(Shape{grid.d, grid.h, grid.w});
      // The block as the file would give it.
      const Dims3 o = w.overlap(), first = w.first_in_grid(), in_box = w.first_in_box();
      Tensor block = Tensor::empty(Shape{o.d, o.h, o.w}, DType::f32);
      float* b = block.data<float>();
      for (int64_t x = 0; x < o.d; ++x)
        for (int64_t y = 0; y < o.h; ++y)
          for (int64_t z = 0; z < o.w; ++z)
            *b++ =
                whole.data<float>()[((first.d + x) * grid.h + first.h + y) * grid.w + first.w + z];
      const Tensor box = pad_to_window(block, w, -1);
      ASSERT_EQ(box.shape(), Shape({shape.d, shape.h, shape.w}));
      for (int64_t x = 0; x < shape.d; ++x)
        for (int64_t y = 0; y < shape.h; ++y)
          for (int64_t z = 0; z < shape.w; ++z) {
            const int64_t gx = w.begin.d + x, gy = w.begin.h + y, gz = w.begin.w + z;
            const bool inside = gx >= 0 && gx < grid.d && gy >= 0 && gy < grid.h && gz < grid.w;
            const float wanted =
                inside ? whole.data<float>()[(gx * grid.h + gy) * grid.w + gz] : -1.0f;
            EXPECT_EQ(box.data<float>()[(x * shape.h + y) * shape.w + z], wanted);
          }
      const Tensor back = put_back(box, w, -2);
      for (int64_t i = 0; i < back.numel(); ++i) {
        const int64_t x = i / (grid.h * grid.w), y = i / grid.w % grid.h, z = i % grid.w;
        const bool seen =
            x >= first.d && x < first.d + o.d && y >= first.h && y < first.h + o.h && z < o.w;
        EXPECT_EQ(back.data<float>()[i], seen ? whole.data<float>()[i] : -2.0f);
      }
      EXPECT_EQ(in_box.w, 0);
    }
  EXPECT_THAT(message_of([] {
                put_back(Tensor::zeros(Shape{2, 2, 2}, DType::f32),
                         centred_window({4, 4, 4}, {3, 3, 3}), 0);
              }),
              HasSubstr("wanted the window's shape"));
}

}  // namespace
}  // namespace bora::data::test
