// SPDX-License-Identifier: Apache-2.0
// Filters along one axis at a time, as tables of weights: Gaussian blur, fewer cells and more
// cells.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/tensor.hpp"

namespace bora::data {

/// out[i] = sum over k < width of weights[i * width + k] * in[first[i] + k].
struct AxisWeights {
  int64_t n_in = 0;
  int64_t n_out = 0;
  int64_t width = 0;
  std::vector<int64_t> first;
  std::vector<float> weights;
};

/// A Gaussian of `sigma` cells > 0, cut at 4 sigma and brought to sum 1; beyond the ends the values
/// are mirrored, (d c b a | a b c d | d c b a).  The same as scipy.ndimage.gaussian_filter1d.
AxisWeights gaussian_weights(int64_t n, double sigma);
/// n cells to fewer: each new cell is the mean over what it covers, as of a coarser scanner.
AxisWeights mean_weights(int64_t n, int64_t n_coarse);
/// Cells to more cells over the same length: linear between centres, the last value beyond them.
AxisWeights linear_weights(int64_t n_coarse, int64_t n);

/// Along axis 0, 1 or 2 of in (X, Y, Z) f32.  Throws Error unless the axis has n_in cells.  Sums in
/// f32, in the order of k.
Tensor filter_axis(const Tensor& in, int axis, const AxisWeights& weights);

/// Along all axes with more than one cell.  in (X, Y, Z) f32.
Tensor gaussian_blur(const Tensor& in, double sigma);
/// Brought to max(1, round(share n)) cells along the chosen axes by means, and up again linearly.
Tensor low_resolution(const Tensor& in, double share, const std::array<bool, 3>& along);

}  // namespace bora::data
