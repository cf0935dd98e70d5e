// SPDX-License-Identifier: Apache-2.0
// Mirrors and quarter turns as an exact copy of cells, and crops.
#pragma once

#include <array>

#include "core/shape.hpp"
#include "core/tensor.hpp"

namespace bora::data {

/// Which way the axes of a result run in its source.  All mirrors and quarter turns, one after
/// another, are one of these.
struct Orientation {
  std::array<int, 3> from{0, 1, 2};  ///< axis a of the result is axis from[a] of the source
  std::array<bool, 3> mirrored{};    ///< and runs backwards
  friend bool operator==(const Orientation&, const Orientation&) = default;
};

/// `o`, then the mirror of an axis of its result.
Orientation mirrored(Orientation o, int axis);
/// `o`, then a quarter turn that brings axis `first` to where axis `second` was: the cell (x, y) of
/// n x n goes to (n - 1 - y, x) with first = 0, second = 1 (counter-clockwise).
Orientation turned(Orientation o, int first, int second);
/// orient(orient(t, o), inverse_of(o)) has the bits of t.
Orientation inverse_of(const Orientation& o);

/// The cells [begin, begin + count) of in (X, Y, Z) or (X, Y, Z, C), any type, in the orientation:
/// the result has the extent count[from[a]] along axis a.  Throws Error for a box that is not in
/// the tensor.
Tensor orient(const Tensor& in, const Orientation& o, const Dims3& begin, const Dims3& count);
/// All cells.
Tensor orient(const Tensor& in, const Orientation& o);

}  // namespace bora::data
