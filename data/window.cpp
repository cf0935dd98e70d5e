// SPDX-License-Identifier: Apache-2.0
#include "data/window.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"

namespace bora::data {

namespace {

/// Copies a box of `count` cells between two dense grids.
void copy_box(const Tensor& from, const Dims3& from_begin, Tensor& to, const Dims3& to_begin,
              const Dims3& count) {
  const int64_t size = size_of(from.dtype());
  const auto* in = static_cast<const char*>(from.raw());
  auto* out = static_cast<char*>(to.raw());
  if (count.count() == 0) return;
  for (int64_t x = 0; x < count.d; ++x)
    for (int64_t y = 0; y < count.h; ++y) {
      const int64_t i =
          ((from_begin.d + x) * from.size(1) + from_begin.h + y) * from.size(2) + from_begin.w;
      const int64_t o = ((to_begin.d + x) * to.size(1) + to_begin.h + y) * to.size(2) + to_begin.w;
      std::memcpy(out + o * size, in + i * size, static_cast<size_t>(count.w * size));
    }
}

void check_extents(const char* op, const Dims3& grid, const Dims3& shape) {
  for (int i = 0; i < 3; ++i)
    BORA_CHECK(grid[i] > 0 && shape[i] > 0, op, ": grid ", grid, " and window ", shape,
               ", wanted extents of at least 1");
}

Shape shape_of(const Dims3& v) { return Shape{v.d, v.h, v.w}; }

}  // namespace

Dims3 Window::first_in_grid() const {
  return {std::max<int64_t>(begin.d, 0), std::max<int64_t>(begin.h, 0),
          std::max<int64_t>(begin.w, 0)};
}

Dims3 Window::first_in_box() const {
  return {std::max<int64_t>(-begin.d, 0), std::max<int64_t>(-begin.h, 0),
          std::max<int64_t>(-begin.w, 0)};
}

Dims3 Window::overlap() const {
  const auto one = [&](int i) {
    return std::max<int64_t>(
        0, std::min(grid[i], begin[i] + shape[i]) - std::max<int64_t>(begin[i], 0));
  };
  return {one(0), one(1), one(2)};
}

Dims3 window_shape(const Dims3& grid, const Dims3& wanted) {
  return {wanted.d == 0 ? grid.d : wanted.d, wanted.h == 0 ? grid.h : wanted.h,
          wanted.w == 0 ? grid.w : wanted.w};
}

Window centred_window(const Dims3& grid, const Dims3& wanted) {
  const Dims3 shape = window_shape(grid, wanted);
  check_extents("centred_window", grid, shape);
  // Half of the surplus, or of the lack, rounded down: 5 of 8 begins at 1, 8 around 5 at -1.
  const auto half = [](int64_t g, int64_t s) { return g >= s ? (g - s) / 2 : -((s - g) / 2); };
  return {grid, shape, {half(grid.d, shape.d), half(grid.h, shape.h), 0}};
}

Window random_window(const Dims3& grid, const Dims3& wanted, const RngKey& key) {
  Window window = centred_window(grid, wanted);
  const auto place = [&](int64_t g, int64_t s, uint64_t i) {
    return static_cast<int64_t>(key.below(static_cast<uint64_t>(g - s + 1), i));
  };
  if (grid.d > window.shape.d) window.begin.d = place(grid.d, window.shape.d, 0);
  if (grid.h > window.shape.h) window.begin.h = place(grid.h, window.shape.h, 1);
  return window;
}

Tensor pad_to_window(const Tensor& block, const Window& window, double fill) {
  const Dims3 overlap = window.overlap();
  BORA_CHECK(block.defined() && block.shape() == shape_of(overlap), "pad_to_window: block ",
             block.shape(), ", wanted the overlap ", overlap, " of window ", window.shape,
             " and grid ", window.grid);
  if (!window.has_padding()) return block;
  Tensor out = Tensor::full(shape_of(window.shape), fill, block.dtype());
  copy_box(block, {}, out, window.first_in_box(), overlap);
  return out;
}

Tensor put_back(const Tensor& values, const Window& window, double fill) {
  BORA_CHECK(values.defined() && values.shape() == shape_of(window.shape), "put_back: values ",
             values.shape(), ", wanted the window's shape ", window.shape);
  if (window.is_whole_grid()) return values;
  Tensor out = Tensor::full(shape_of(window.grid), fill, values.dtype());
  copy_box(values, window.first_in_box(), out, window.first_in_grid(), window.overlap());
  return out;
}

}  // namespace bora::data
