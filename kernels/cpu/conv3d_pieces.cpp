// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/conv3d_pieces.hpp"

#include <algorithm>
#include <cmath>

namespace bora::kernels::cpu {
namespace {

std::array<int64_t, 3> array_of(const Dims3& v) { return {v.d, v.h, v.w}; }

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Rounded down, b > 0.
int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

/// Planes a piece takes of one axis of `planes`, for samples cut into equal parts.
struct Grain {
  int64_t samples = 1, planes = 1;
};

/// Several samples share a piece only if it can take whole samples as they lie in memory: planes
/// that no window sees are then described by padding, which must not be negative.
bool whole_samples_fit(const ConvProblem& p) {
  return p.pad_left[0] >= 0 && p.pad_right(0) > -p.stride[0];
}

Grain grain(const ConvProblem& p, int64_t planes, int64_t n_pieces) {
  const int64_t n = p.n;
  const int64_t wanted = std::max<int64_t>(1, ceil_div(n * planes, std::max<int64_t>(1, n_pieces)));
  if (wanted >= planes)
    return {whole_samples_fit(p) ? std::max<int64_t>(1, wanted / planes) : 1, planes};
  return {1, ceil_div(planes, ceil_div(planes, wanted))};
}

/// Reduces the grain until `in_planes(g.planes)` and its own planes fit the limit; false if one
/// plane does not.
template <class OtherPlanes>
bool fit(Grain& g, int64_t plane, int64_t other_plane, int64_t limit, OtherPlanes&& other) {
  const auto fits = [&] {
    return g.samples * g.planes * plane <= limit &&
           g.samples * other(g.planes) * other_plane <= limit;
  };
  while (!fits()) {
    if (g.samples > 1) {
      g.samples = (g.samples + 1) / 2;
    } else if (g.planes > 1) {
      g.planes = (g.planes + 1) / 2;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

ConvProblem problem_of(const Conv3dAttributes& a, const Shape& x, const Shape& w, const Shape& y) {
  return {.n = x[0],
          .in = {x[1], x[2], x[3]},
          .out = {y[1], y[2], y[3]},
          .kernel = {w[1], w[2], w[3]},
          .stride = array_of(a.stride),
          .pad_left = array_of(a.padding),
          .dilation = array_of(a.dilation),
          .c_in = x[4],
          .c_out = y[4],
          .groups = a.groups};
}

double ConvProblem::work() const {
  double w =
      static_cast<double>(n) * static_cast<double>(c_in) * static_cast<double>(c_out / groups);
  for (int i = 0; i < 3; ++i) w *= static_cast<double>(out[i]) * static_cast<double>(kernel[i]);
  return w;
}

std::vector<ConvPiece> cut_output(const ConvProblem& p, int64_t n_pieces, int64_t limit) {
  std::vector<ConvPiece> pieces;
  Grain g = grain(p, p.out[0], n_pieces);
  const auto in_planes = [&](int64_t planes) {
    return std::min(p.in[0], (planes - 1) * p.stride[0] + p.reach(0));
  };
  if (!fit(g, p.out_plane(), p.in_plane(), limit, in_planes)) return pieces;
  for (int64_t n0 = 0; n0 < p.n; n0 += g.samples)
    for (int64_t z0 = 0; z0 < p.out[0]; z0 += g.planes) {
      if (g.samples > 1) {
        pieces.push_back(
            {n0, std::min(g.samples, p.n - n0), 0, p.in[0], 0, p.out[0], p.pad_left[0]});
        break;
      }
      const int64_t z1 = std::min(p.out[0], z0 + g.planes);
      const int64_t low = z0 * p.stride[0] - p.pad_left[0];
      const int64_t high = (z1 - 1) * p.stride[0] - p.pad_left[0] + p.reach(0);
      const int64_t in0 = std::clamp<int64_t>(low, 0, p.in[0]);
      const int64_t in1 = std::clamp<int64_t>(high, in0, p.in[0]);
      pieces.push_back({n0, std::min(g.samples, p.n - n0), in0, in1 - in0, z0, z1 - z0, in0 - low});
    }
  return pieces;
}

std::vector<ConvPiece> cut_input(const ConvProblem& p, int64_t n_pieces, int64_t limit) {
  std::vector<ConvPiece> pieces;
  Grain g = grain(p, p.in[0], n_pieces);
  const int64_t s = p.stride[0], pad = p.pad_left[0];
  // Cut where a window begins (position o s - pad): no piece begins with planes left of a window
  // that it sees only partly and that oneDNN would need negative padding for.
  g.planes = std::min(p.in[0], ceil_div(g.planes, s) * s);
  const auto out_planes = [&](int64_t planes) {
    const int64_t before = p.reach(0) < s ? 1 : 0;  // see `first` below
    return std::min(p.out[0], (planes + p.reach(0) - 2) / s + 1 + before);
  };
  if (!fit(g, p.in_plane(), p.out_plane(), limit, out_planes)) return pieces;
  for (int64_t n0 = 0; n0 < p.n; n0 += g.samples)
    for (int64_t z0 = 0; z0 < p.in[0];) {
      if (g.samples > 1) {
        pieces.push_back({n0, std::min(g.samples, p.n - n0), 0, p.in[0], 0, p.out[0], pad});
        break;
      }
      int64_t z1 = z0 + g.planes;
      if (s > 1 && z1 < p.in[0]) z1 = std::max(z0 + 1, floor_div(z1 + pad, s) * s - pad);
      z1 = std::min(z1, p.in[0]);
      // Windows o with o s - pad < z1 and o s - pad + reach > z0; the first also begins at or left
      // of z0, so that the padding is not negative.
      int64_t first = std::min(floor_div(z0 + pad - p.reach(0), s) + 1, floor_div(z0 + pad, s));
      int64_t last = floor_div(z1 - 1 + pad, s);
      first = std::max<int64_t>(first, 0);
      last = std::min(last, p.out[0] - 1);
      const int64_t count = std::max<int64_t>(0, last - first + 1);
      pieces.push_back(
          {n0, std::min(g.samples, p.n - n0), z0, z1 - z0, first, count, pad + z0 - first * s});
      z0 = z1;
    }
  return pieces;
}

int64_t piece_count(const ConvProblem& p) {
  // A piece costs about 5 us to start; 4 million multiply-adds take a core about 40 us.
  constexpr double kWork = 4e6;
  return std::clamp<int64_t>(std::llround(p.work() / kWork), 1, 32);
}

int64_t weight_piece_count(const ConvProblem& p) {
  // Positions a piece, so that its sum (w's size times positions) outweighs writing and joining it.
  constexpr double kPositions = 1024;
  const double positions = static_cast<double>(p.n) * static_cast<double>(p.out[0]) *
                           static_cast<double>(p.out[1]) * static_cast<double>(p.out[2]);
  const int64_t by_positions = std::max<int64_t>(1, std::llround(positions / kPositions));
  // Thick enough that the halo stays a part, and a window lies inside (see has_inner_window).
  const int64_t by_planes = std::max<int64_t>(1, p.n * p.out[0] / p.reach(0));
  return std::min({by_positions, by_planes, piece_count(p), int64_t{16}});
}

}  // namespace bora::kernels::cpu
