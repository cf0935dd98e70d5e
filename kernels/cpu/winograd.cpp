// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/winograd.hpp"

#include <omp.h>

#include <algorithm>
#include <vector>

#include "kernels/cpu/winograd_kernels.hpp"

namespace bora::kernels::cpu {

#if !defined(__x86_64__)
namespace winograd {  // the kernels are not built here, and winograd_supported() is false
int64_t weight_point_floats(int64_t, int64_t) { return 0; }
void transform_weights(const float*, bool, const Shape&, int64_t, int64_t, float*) {}
int64_t forward_scratch_floats(const Shape&, int64_t, int64_t) { return 0; }
void forward_tiles(const Forward&, int64_t, int64_t, int64_t, float*) {}
int64_t gradient_scratch_floats(const Shape&, const Channels&, int64_t) { return 0; }
void gradient_tiles(const Gradient&, const Channels&, int64_t, int64_t, int64_t, float*, float*,
                    int64_t, int64_t) {}
}  // namespace winograd
#endif

namespace {

// Forward: a quarter of the weights is used for kTiles tiles; a block of kBlock tiles and 16
// channels is 32 kB.  Measured flat between 16 and 64.
constexpr int64_t kTiles = 64, kBlock = 32;
// Weight gradient: sums of at most 64 x 64 channels, 1 MiB, stay in the second-level cache.
constexpr int64_t kGradientChannels = 64, kGradientBlock = 32;
// A piece of the weight gradient: not below the cost of its 64-to-27 transform.
constexpr int64_t kPieceTiles = 64, kUnits = 32;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return divide_up(a, b) * b; }

using Tile = WinogradTile;
std::optional<Tile> g_tile;  // set_winograd_tile's

int64_t tiles_of(const ConvProblem& p, const Tile& tile) {
  int64_t n = p.n;
  for (size_t i = 0; i < 3; ++i) n *= divide_up(p.out[i], tile[i]);
  return n;
}
int64_t points_of(const Tile& tile) { return 4 * (tile[1] + 2) * (tile[2] + 2); }

winograd::Shape shape_of(const ConvProblem& p, const Tile& tile) {
  winograd::Shape s{};
  s.n = p.n;
  for (size_t i = 0; i < 3; ++i) {
    s.in[i] = p.in[i];
    s.out[i] = p.out[i];
    s.pad[i] = p.pad_left[i];
    s.tile[i] = tile[i];
  }
  s.c_in = p.c_in;
  s.c_out = p.c_out;
  return s;
}

winograd::Storage storage_of(DType type) {
  switch (type) {
    case DType::f32:
      return winograd::Storage::f32;
    case DType::bf16:
      return winograd::Storage::bf16;
    case DType::f16:
      return winograd::Storage::f16;
    default:
      BORA_FAIL("conv3d: Winograd kernels have no ", type);
  }
}

Tensor as_f32(const Tensor& t) {
  return t.defined() && t.dtype() != DType::f32 ? t.to(DType::f32) : t;
}

/// Floats for each thread, lines apart.
class ThreadFloats {
 public:
  ThreadFloats(int64_t floats, int n_threads)
      : floats_(round_up(floats, 1024)), memory_(Tensor::empty({n_threads, floats_}, DType::f32)) {}
  float* of_this_thread() { return memory_.data<float>() + floats_ * omp_get_thread_num(); }

 private:
  int64_t floats_;
  Tensor memory_;
};

/// Parts of the channels of about equal size, none above kGradientChannels.
std::vector<std::pair<int64_t, int64_t>> channel_parts(int64_t channels) {
  const int64_t n = divide_up(channels, kGradientChannels);
  const int64_t size = round_up(divide_up(channels, n), winograd::kLanes);
  std::vector<std::pair<int64_t, int64_t>> parts;
  for (int64_t c = 0; c < channels; c += size) parts.emplace_back(c, std::min(size, channels - c));
  return parts;
}

int64_t gradient_pieces(const ConvProblem& p, DType type) {
  const int64_t tiles = tiles_of(p, winograd_tile(p, type, true));
  const int64_t parts =
      divide_up(p.c_in, kGradientChannels) * divide_up(p.c_out, kGradientChannels);
  return std::clamp<int64_t>(tiles / kPieceTiles, 1, std::max<int64_t>(1, kUnits / parts));
}
/// Floats of one partial weight gradient, [tap][input][output], rows of whole vectors.
int64_t partial_floats(const ConvProblem& p) {
  return 27 * p.c_in * round_up(p.c_out, winograd::kLanes);
}

}  // namespace

#if defined(__x86_64__)
bool winograd_supported() {
  static const bool supported = __builtin_cpu_supports("avx512f") &&
                                __builtin_cpu_supports("avx512bw") &&
                                __builtin_cpu_supports("avx512dq") &&
                                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
  return supported;
}
#else
bool winograd_supported() { return false; }
#endif

WinogradTile winograd_tile(const ConvProblem& p, DType type, bool gradient) {
  if (g_tile) return *g_tile;
  // Larger tiles multiply less and round worse (against oneDNN's direct kernels in f32, largest
  // error: forward 0.4, 1.4, 4.5 times, weight gradient 2.3, 4.8, 12.6 times).  16-bit tensors
  // carry rounding errors a thousand times larger.  With few tiles the transform of the weights
  // decides, which costs as much as the points are many.  By the extents of one sample, so that its
  // bits do not depend on the batch.
  constexpr int64_t kEnoughTiles = 128;
  ConvProblem one = p;
  one.n = 1;
  Tile best = kWinogradTiles[0];
  for (const Tile& tile : kWinogradTiles) {
    if (gradient && type == DType::f32 && tile[1] > 2) continue;
    if (tiles_of(one, tile) < kEnoughTiles) continue;
    if (tiles_of(one, tile) * points_of(tile) < tiles_of(one, best) * points_of(best)) best = tile;
  }
  return best;
}

void set_winograd_tile(std::optional<WinogradTile> tile) { g_tile = tile; }

bool winograd_fits(const ConvProblem& p, DType type) {
  if (!winograd_supported()) return false;
  constexpr std::array<int64_t, 3> kThree{3, 3, 3}, kOne{1, 1, 1};
  if (p.kernel != kThree || p.stride != kOne || p.dilation != kOne || p.groups != 1) return false;
  const int64_t points = points_of(winograd_tile(p, type, false));
  const int64_t u = points * winograd::weight_point_floats(p.c_in, p.c_out);
  return std::max(u, gradient_pieces(p, type) * partial_floats(p)) * 4 <= kWinogradScratch;
}

void winograd_forward(const ConvProblem& p, WeightUse use, const Tensor& x, const Tensor& w,
                      const Tensor& bias, Tensor& y) {
  BORA_CHECK(winograd_fits(p, x.dtype()), "conv3d: no Winograd kernel for this problem");
  const Tensor w32 = as_f32(w), bias32 = as_f32(bias);
  const Tile tile = winograd_tile(p, x.dtype(), false);
  Tensor u =
      Tensor::empty({points_of(tile) * winograd::weight_point_floats(p.c_in, p.c_out)}, DType::f32);
  const int max_threads = omp_get_max_threads();
  const int64_t total = tiles_of(p, tile), row = divide_up(p.out[2], tile[2]);
  // Whole rows of tiles, but enough chunks for the threads.
  int64_t tiles = row <= kTiles ? kTiles / row * row : kTiles;
  tiles = std::min(tiles, divide_up(total, max_threads));
  const int64_t chunks = divide_up(total, tiles);
  const int64_t block = std::min(tiles, kBlock);
  const int n_threads = static_cast<int>(std::min<int64_t>(max_threads, chunks));
  const winograd::Forward call{.shape = shape_of(p, tile),
                               .storage = storage_of(x.dtype()),
                               .x = x.raw(),
                               .u = u.data<float>(),
                               .bias = bias.defined() ? bias32.data<float>() : nullptr,
                               .y = y.raw()};
  ThreadFloats scratch(winograd::forward_scratch_floats(call.shape, tiles, block), n_threads);
  const float* weights = w32.data<float>();
  float* transformed = u.data<float>();
  const bool flipped = use == WeightUse::flipped;
  // Runs of chunks, so that a thread finds planes in its cache that it has read before.
  const int64_t run = std::max<int64_t>(1, chunks / (8 * n_threads));
  const int64_t runs = divide_up(chunks, run);
#pragma omp parallel num_threads(n_threads)
  {
#pragma omp for schedule(static)
    for (int64_t i = 0; i < p.c_in; i += winograd::kLanes)
      winograd::transform_weights(weights, flipped, call.shape, i,
                                  std::min(p.c_in, i + winograd::kLanes), transformed);
#pragma omp for schedule(dynamic, 1)
    for (int64_t r = 0; r < runs; ++r)
      for (int64_t c = r * run; c < std::min(chunks, (r + 1) * run); ++c)
        winograd::forward_tiles(call, c * tiles, std::min(tiles, total - c * tiles), block,
                                scratch.of_this_thread());
  }
}

void winograd_backward_weights(const ConvProblem& p, const Tensor& x, const Tensor& dy,
                               GradientMode mode, Tensor& dw) {
  BORA_CHECK(winograd_fits(p, x.dtype()), "conv3d: no Winograd kernel for this problem");
  const Tile tile = winograd_tile(p, x.dtype(), true);
  const int64_t total = tiles_of(p, tile), pieces = gradient_pieces(p, x.dtype());
  const int64_t width = round_up(p.c_out, winograd::kLanes), tap = p.c_in * width;
  const auto in_parts = channel_parts(p.c_in), out_parts = channel_parts(p.c_out);
  const int64_t parts = static_cast<int64_t>(in_parts.size() * out_parts.size());
  const int64_t stride = round_up(partial_floats(p), 64);
  Tensor partial = Tensor::empty({pieces, stride}, DType::f32);
  float* partials = partial.data<float>();
  const winograd::Gradient call{
      .shape = shape_of(p, tile), .storage = storage_of(x.dtype()), .x = x.raw(), .dy = dy.raw()};
  const int64_t block = std::min(kGradientBlock, total);
  const int n_threads = static_cast<int>(std::min<int64_t>(omp_get_max_threads(), pieces * parts));
  ThreadFloats scratch(winograd::gradient_scratch_floats(
                           call.shape, {0, in_parts[0].second, 0, out_parts[0].second}, block),
                       n_threads);
#pragma omp parallel for schedule(dynamic, 1) num_threads(n_threads)
  for (int64_t unit = 0; unit < pieces * parts; ++unit) {
    const int64_t piece = unit / parts;
    const auto part = static_cast<size_t>(unit % parts);
    const auto& in = in_parts[part % in_parts.size()];
    const auto& out = out_parts[part / in_parts.size()];
    const int64_t begin = total * piece / pieces, end = total * (piece + 1) / pieces;
    winograd::gradient_tiles(call, {in.first, in.second, out.first, out.second}, begin, end - begin,
                             block, scratch.of_this_thread(),
                             partials + piece * stride + in.first * width + out.first, tap, width);
  }
  WeightLayout layout;
  layout.g = {0};
  layout.elements = partial_floats(p);
  for (int64_t o = 0; o < p.c_out; ++o) layout.o.push_back(o);
  for (int64_t i = 0; i < p.c_in; ++i) layout.i.push_back(i * width);
  for (int64_t k = 0; k < 27; ++k) layout.k.push_back(k * tap);
  std::vector<PartialGradient> list;
  for (int64_t piece = 0; piece < pieces; ++piece)
    list.push_back({partials + piece * stride, &layout});
  join_gradients(list, {1, p.c_out, 27, p.c_in}, mode, dw.data<float>());
}

}  // namespace bora::kernels::cpu
