// SPDX-License-Identifier: Apache-2.0
// How a convolution is cut into pieces that single threads compute: by the shape alone, so that the
// bits of the result do not depend on the number of threads.  Pure arithmetic.
#pragma once

#include "kernels/conv3d.hpp"

#include <array>
#include <cstdint>
#include <vector>

namespace bora::kernels::cpu {

/// A convolution problem, forward orientation: n samples, `in` cells of c_in channels are read,
/// `out` cells of c_out channels result.  On the right, padding is whatever makes `out` exact.
struct ConvProblem {
  int64_t n = 0;
  std::array<int64_t, 3> in{}, out{}, kernel{}, stride{}, pad_left{}, dilation{};
  int64_t c_in = 0, c_out = 0, groups = 1;

  int64_t reach(int axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }
  int64_t pad_right(int axis) const {
    return (out[axis] - 1) * stride[axis] + reach(axis) - in[axis] - pad_left[axis];
  }
  int64_t in_plane() const { return in[1] * in[2] * c_in; }      ///< elements
  int64_t out_plane() const { return out[1] * out[2] * c_out; }  ///< elements
  /// Multiply-adds, as if padding were read.
  double work() const;
};

/// The convolution from x (N, D, H, W, I) by w (O, k, I / groups) to y (N, D', H', W', O).
ConvProblem problem_of(const Conv3dAttributes& a, const Shape& x, const Shape& w, const Shape& y);

/// Samples [n0, n0 + n) with output planes [out0, out0 + out) and the input planes [in0, in0 + in)
/// that belong to them.  `in` or `out` is 0 where nothing is shared: that part of the result is
/// zero.
struct ConvPiece {
  int64_t n0 = 0, n = 0;
  int64_t in0 = 0, in = 0;
  int64_t out0 = 0, out = 0;
  int64_t pad_left = 0;  ///< along D, of the piece
  bool empty() const { return in == 0 || out == 0; }
};

/// Largest tensor of a piece: oneDNN 2.6's kernels index with 32 bits in places.
inline constexpr int64_t kPieceElements = (int64_t{1} << 31) - 1;

/// Pieces that cover the output planes of `p` once, in order: for the forward pass and the weight
/// gradient.  About `n_pieces` of them, more if `limit` elements a tensor ask for it; returns an
/// empty list if one plane already exceeds the limit.
std::vector<ConvPiece> cut_output(const ConvProblem& p, int64_t n_pieces,
                                  int64_t limit = kPieceElements);
/// Pieces that cover the *input* planes of `p` once, with the output planes that see them: for the
/// data gradient.
std::vector<ConvPiece> cut_input(const ConvProblem& p, int64_t n_pieces,
                                 int64_t limit = kPieceElements);

/// How many pieces pay off: none smaller than what starting it costs, at most 32.
int64_t piece_count(const ConvProblem& p);
/// The same for the weight gradient, where each piece ends in a partial sum of the size of w.
int64_t weight_piece_count(const ConvProblem& p);

}  // namespace bora::kernels::cpu
