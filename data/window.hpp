// SPDX-License-Identifier: Apache-2.0
// Window: which box of a grid a sample shows, and the way there and back.
#pragma once

#include <array>

#include "core/rng.hpp"
#include "core/shape.hpp"
#include "core/tensor.hpp"

namespace bora::data {

/// A box of `shape` cells whose first cell is cell `begin` of a grid of `grid` cells.  `begin` is
/// negative, or the end beyond the grid, where the grid is smaller than the box: those cells are
/// padding.  Axes (d, h, w) = (x, y, z).
struct Window {
  Dims3 grid;
  Dims3 shape;
  Dims3 begin;

  /// The cells that both have: first cell in the grid, first cell in the box, number.
  Dims3 first_in_grid() const;
  Dims3 first_in_box() const;
  Dims3 overlap() const;
  bool has_padding() const { return !(overlap() == shape); }
  bool is_whole_grid() const { return grid == shape && begin == Dims3{}; }
  friend bool operator==(const Window&, const Window&) = default;
};

/// An extent of 0 in `wanted` means the grid's own.
Dims3 window_shape(const Dims3& grid, const Dims3& wanted);

/// x and y centred (the odd cell goes to the high side), z from the lowest level on.  Missing cells
/// in x and y are shared between both sides, in z they lie on top.  Extents must be at least 1
/// (`shape` may have 0 for the grid's own).
Window centred_window(const Dims3& grid, const Dims3& shape);

/// As centred, but where the grid is longer than the box in x or y the first cell is uniform over
/// all places that need no padding; a pure function of the key.
Window random_window(const Dims3& grid, const Dims3& shape, const RngKey& key);

/// The box around the block of overlap(): block (overlap extents) of any type -> (shape), padding =
/// `fill`.  Without padding the block itself is given back.
Tensor pad_to_window(const Tensor& block, const Window& window, double fill);

/// The inverse of reading a window: values (shape) -> (grid); cells of the grid outside the box are
/// `fill`, padding is dropped.
Tensor put_back(const Tensor& values, const Window& window, double fill);

}  // namespace bora::data
