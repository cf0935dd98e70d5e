// SPDX-License-Identifier: Apache-2.0
// How convolutions are cut: every plane once, right neighbours, sizes beyond 2^31 elements by
// arithmetic alone.
#include "kernels/cpu/conv3d_pieces.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace bora::kernels::cpu {
namespace {

ConvProblem problem(int64_t n, std::array<int64_t, 3> in, int64_t c_in, int64_t c_out, int64_t k,
                    int64_t stride, int64_t pad, int64_t dilation = 1) {
  ConvProblem p{.n = n, .in = in, .c_in = c_in, .c_out = c_out};
  for (size_t i = 0; i < 3; ++i) {
    p.kernel[i] = k;
    p.stride[i] = stride;
    p.pad_left[i] = pad;
    p.dilation[i] = dilation;
    p.out[i] = (in[i] + 2 * pad - dilation * (k - 1) - 1) / stride + 1;
  }
  return p;
}

/// Is every (sample, output plane) covered once, with exactly the input planes its windows see?
void expect_covers_output(const ConvProblem& p, const std::vector<ConvPiece>& pieces) {
  std::vector<int> seen(static_cast<size_t>(p.n * p.out[0]), 0);
  for (const ConvPiece& piece : pieces) {
    for (int64_t n = piece.n0; n < piece.n0 + piece.n; ++n)
      for (int64_t z = piece.out0; z < piece.out0 + piece.out; ++z)
        ++seen.at(static_cast<size_t>(n * p.out[0] + z));
    if (piece.empty()) continue;
    EXPECT_GE(piece.in0, 0);
    EXPECT_LE(piece.in0 + piece.in, p.in[0]);
    EXPECT_GE(piece.pad_left, 0);
    // The first window begins at the same plane, seen from the piece and from the whole.
    EXPECT_EQ(piece.in0 - piece.pad_left, piece.out0 * p.stride[0] - p.pad_left[0]);
    const int64_t last = (piece.out0 + piece.out - 1) * p.stride[0] - p.pad_left[0] + p.reach(0);
    EXPECT_GE(piece.in0 + piece.in, std::min(last, p.in[0]));
    if (piece.n > 1) {
      EXPECT_EQ(p.in[0], piece.in) << "samples lie dense";
    }
  }
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int s) { return s == 1; }));
}

void expect_covers_input(const ConvProblem& p, const std::vector<ConvPiece>& pieces) {
  std::vector<int> seen(static_cast<size_t>(p.n * p.in[0]), 0);
  for (const ConvPiece& piece : pieces) {
    for (int64_t n = piece.n0; n < piece.n0 + piece.n; ++n)
      for (int64_t z = piece.in0; z < piece.in0 + piece.in; ++z)
        ++seen.at(static_cast<size_t>(n * p.in[0] + z));
    // All windows that see a plane of the piece are among its output planes.
    for (int64_t o = 0; o < p.out[0]; ++o)
      for (int64_t t = 0; t < p.kernel[0]; ++t) {
        const int64_t z = o * p.stride[0] - p.pad_left[0] + t * p.dilation[0];
        if (z < piece.in0 || z >= piece.in0 + piece.in) continue;
        EXPECT_TRUE(o >= piece.out0 && o < piece.out0 + piece.out)
            << "output " << o << " sees plane " << z;
      }
    if (piece.empty()) continue;
    EXPECT_GE(piece.pad_left, 0);
    EXPECT_EQ(piece.in0 - piece.pad_left, piece.out0 * p.stride[0] - p.pad_left[0]);
  }
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int s) { return s == 1; }));
}

TEST(ConvPieces, CoverEveryPlaneOnceWithItsNeighbours) {
  int n_tried = 0;
  for (int64_t n : {1, 2, 5})
    for (int64_t extent : {1, 2, 3, 7, 16, 33})
      for (int64_t k : {1, 2, 3, 5})
        for (int64_t stride : {1, 2, 3})
          for (int64_t pad : {0, 1, 2})
            for (int64_t dilation : {1, 2}) {
              if (extent + 2 * pad < dilation * (k - 1) + 1) continue;
              const ConvProblem p =
                  problem(n, {extent, extent, extent}, 4, 6, k, stride, pad, dilation);
              for (int64_t n_pieces : {1, 2, 3, 8, 32}) {
                expect_covers_output(p, cut_output(p, n_pieces));
                expect_covers_input(p, cut_input(p, n_pieces));
                ++n_tried;
              }
            }
  EXPECT_GT(n_tried, 1000);
}

TEST(ConvPieces, KeepTensorsBelowTheLimit) {
  // 64 output channels at (N, 63, 112, 112): 42 samples have 2.16e9 output elements.
  ConvProblem video = problem(42, {64, 224, 224}, 3, 64, 3, 1, 1);
  video.kernel = {1, 7, 7};
  video.stride = {1, 2, 2};
  video.pad_left = {0, 3, 3};
  video.out = {64, 112, 112};
  ASSERT_GT(video.n * video.out[0] * video.out_plane(), kPieceElements);
  // One sample of exactly 2^31 elements, and one of depth 5 with planes of 0.5e9.
  const ConvProblem cube = problem(1, {256, 256, 256}, 128, 128, 3, 1, 1);
  const ConvProblem flat = problem(1, {5, 1090, 1922}, 256, 256, 3, 1, 1);
  ASSERT_EQ(int64_t{1} << 31, cube.in[0] * cube.in_plane());
  for (const ConvProblem& p : {video, cube, flat})
    for (int64_t n_pieces : {1, 4}) {
      const auto pieces = cut_output(p, n_pieces);
      expect_covers_output(p, pieces);
      for (const ConvPiece& piece : pieces) {
        EXPECT_LE(piece.n * piece.in * p.in_plane(), kPieceElements);
        EXPECT_LE(piece.n * piece.out * p.out_plane(), kPieceElements);
      }
      const auto back = cut_input(p, n_pieces);
      expect_covers_input(p, back);
      for (const ConvPiece& piece : back) {
        EXPECT_LE(piece.n * piece.in * p.in_plane(), kPieceElements);
        EXPECT_LE(piece.n * piece.out * p.out_plane(), kPieceElements);
      }
    }
}

TEST(ConvPieces, SayWhenOnePlaneIsTooLarge) {
  const ConvProblem p = problem(1, {4, 1024, 1024}, 4096, 8, 3, 1, 1);
  ASSERT_GT(p.in_plane(), kPieceElements);
  EXPECT_TRUE(cut_output(p, 4).empty());
  EXPECT_TRUE(cut_input(p, 4).empty());
}

TEST(ConvPieces, GoThroughASmallLimitToo) {
  // The same cutting with a limit that tests can compute with.
  const ConvProblem p = problem(3, {9, 4, 4}, 2, 2, 3, 1, 1);
  const int64_t limit = 3 * p.in_plane();  // three planes: one output plane and its halo
  const auto pieces = cut_output(p, 1, limit);
  EXPECT_EQ(27u, pieces.size());
  expect_covers_output(p, pieces);
  expect_covers_input(p, cut_input(p, 1, limit));
}

}  // namespace
}  // namespace bora::kernels::cpu
