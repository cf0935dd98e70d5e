// SPDX-License-Identifier: Apache-2.0
// Sliding window: a volume of any size through a network that takes windows, in bounded memory.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/tensor.hpp"
#include "data/window.hpp"

namespace bora::unet3d {

/// Where the windows of a volume lie: each combination of the first cells along the three axes.
struct WindowLayout {
  Dims3 volume, window;
  /// Ascending.  One negative number (or 0) along an axis on which the window is longer than the
  /// volume: padding lies around the volume, or above it in z, as data::centred_window() has it.
  std::array<std::vector<int64_t>, 3> begins;

  int64_t count() const;
  /// Window i; x is the slowest axis, so that windows of one x follow each other.
  data::Window at(int64_t i) const;
};

/// Windows of `window` cells, begun every max(1, floor(window * (1 - overlap))) cells along each
/// axis; the last one is shifted back to the edge, so that every cell is covered and no window
/// leaves the volume.  Throws Error for extents below 1, and for an overlap that is not in [0, 1).
WindowLayout lay_windows(const Dims3& volume, const Dims3& window,
                         const std::array<double, 3>& overlap);

/// The cells of `window` out of a slab (X, Y, Z, C) f32 on the host whose first cell is cell
/// `first` of the window's grid; the slab itself where they are all of it.  Throws Error where it
/// has not all of them.
Tensor cut_window(const Tensor& slab, const Dims3& first, const data::Window& window);

/// Weights of a window's cells along one axis: a Gaussian of sigma = extent / 8 around the middle,
/// (extent - 1) / 2, so symmetric to the bit for even extents too; the largest is 1 for odd
/// extents, none is below kLowestBlendWeight.
std::vector<double> blend_profile(int64_t extent);
inline constexpr double kLowestBlendWeight = 1e-3;

/// What is done to each window, and to what comes out.
struct SlidingSteps {
  /// The input of a window, (X, Y, Z, C) on any device; cells outside the volume are padding, which
  /// the reader makes.
  std::function<Tensor(const data::Window&)> read;
  /// (X, Y, Z, C) -> (X, Y, Z, K) of any floating type on any device, K the same for all windows.
  std::function<Tensor(const Tensor&)> predict;
  /// Planes [first, first + n) of the volume are done: slab (n, Y, Z, K) f32 on the host, which is
  /// good during the call and may be written to.  Called in ascending order, each plane once.
  std::function<void(int64_t first, Tensor& slab)> take;
};

/// Predicts a volume by windows:
///   out(cell) = sum over windows of w(cell) y(cell) / sum over windows of w(cell),
/// w the product of three blend_profile()s.  The windows make a grid, so the denominators factor by
/// axis: each weight is divided by its sums beforehand (in f64), and those of a cell add up to 1.
/// Sums are formed in f32, whatever the type of the predictions, one window after the other: the
/// same bits for any number of threads.  A cell that one window covers has that window's value to
/// the bit.  An inf or NaN of a window reaches each cell that it has a part in.
///
/// Memory: window.d planes of the volume, (window.d, Y, Z, K) f32, and what one window needs,
/// whatever the volume's length along x.  Throws Error where shapes do not fit, and what the steps
/// throw.  Source: Isensee et al. 2021 (nnU-Net), for the Gaussian blending.
void slide(const WindowLayout& layout, const SlidingSteps& steps);

}  // namespace bora::unet3d
