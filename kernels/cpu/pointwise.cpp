// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/pointwise.hpp"

#include <omp.h>

#include <algorithm>

#include "kernels/cpu/pointwise_kernels.hpp"
#include "kernels/cpu/winograd.hpp"

namespace bora::kernels::cpu {

#if !defined(__x86_64__)
namespace winograd {  // not built here, and winograd_supported() is false
int64_t pointwise_scratch_floats(int64_t, int64_t) { return 0; }
void pointwise_rows(const Pointwise&, int64_t, int64_t, float*) {}
void pointwise_gradient(const Pointwise&, const void*, int64_t, int64_t, float*, float*) {}
}  // namespace winograd
#endif

namespace {

using winograd::kLanes;
using winograd::kPanel;

constexpr int64_t kRows = 1024;       // rows a thread takes at a time
constexpr int64_t kPieceRows = 4096;  // least rows of a piece of the weight gradient
constexpr int64_t kPieces = 32;

int64_t round_up(int64_t a) { return (a + kLanes - 1) / kLanes * kLanes; }
int64_t rows_of(const ConvProblem& p) { return p.n * p.out[0] * p.out[1] * p.out[2]; }

winograd::Storage storage_of(DType type) {
  return type == DType::f32    ? winograd::Storage::f32
         : type == DType::bf16 ? winograd::Storage::bf16
                               : winograd::Storage::f16;
}
Tensor as_f32(const Tensor& t) {
  return t.defined() && t.dtype() != DType::f32 ? t.to(DType::f32) : t;
}

}  // namespace

bool pointwise_fits(const ConvProblem& p) {
  constexpr std::array<int64_t, 3> kOne{1, 1, 1}, kNone{0, 0, 0};
  constexpr int64_t kChannels = 512;
  return winograd_supported() && p.kernel == kOne && p.stride == kOne && p.pad_left == kNone &&
         p.in == p.out && p.groups == 1 && p.c_in <= kChannels && p.c_out <= kChannels;
}

void pointwise_forward(const ConvProblem& p, WeightUse use, const Tensor& x, const Tensor& w,
                       const Tensor& bias, Tensor& y) {
  BORA_CHECK(pointwise_fits(p), "conv3d: no 1x1x1 kernel for this problem");
  const Tensor w32 = as_f32(w), bias32 = as_f32(bias);
  Tensor u = Tensor::zeros({p.c_in * round_up(p.c_out)}, DType::f32);
  const float* from = w32.data<float>();
  float* to = u.data<float>();
  for (int64_t o = 0; o < p.c_out; ++o) {
    const int64_t panel = o / kPanel * kPanel;
    const int64_t width = std::min(kPanel, round_up(p.c_out) - panel);
    for (int64_t i = 0; i < p.c_in; ++i)
      to[panel * p.c_in + i * width + o - panel] =
          use == WeightUse::flipped ? from[i * p.c_out + o] : from[o * p.c_in + i];
  }
  const winograd::Pointwise call{.storage = storage_of(x.dtype()),
                                 .c_in = p.c_in,
                                 .c_out = p.c_out,
                                 .x = x.raw(),
                                 .u = to,
                                 .bias = bias.defined() ? bias32.data<float>() : nullptr,
                                 .y = y.raw()};
  const int64_t rows = rows_of(p), chunks = (rows + kRows - 1) / kRows;
  const auto n_threads = static_cast<int>(std::min<int64_t>(omp_get_max_threads(), chunks));
  const int64_t floats = winograd::pointwise_scratch_floats(p.c_in, p.c_out);
  Tensor scratch = Tensor::empty({n_threads, floats}, DType::f32);
  float* floats_of = scratch.data<float>();
#pragma omp parallel for schedule(static) num_threads(n_threads)
  for (int64_t c = 0; c < chunks; ++c)
    winograd::pointwise_rows(call, c * kRows, std::min(kRows, rows - c * kRows),
                             floats_of + floats * omp_get_thread_num());
}

void pointwise_backward_weights(const ConvProblem& p, const Tensor& x, const Tensor& dy,
                                GradientMode mode, Tensor& dw) {
  BORA_CHECK(pointwise_fits(p), "conv3d: no 1x1x1 kernel for this problem");
  const int64_t rows = rows_of(p), width = round_up(p.c_out);
  const int64_t pieces = std::clamp<int64_t>(rows / kPieceRows, 1, kPieces);
  Tensor partial = Tensor::empty({pieces, p.c_in * width}, DType::f32);
  float* partials = partial.data<float>();
  const winograd::Pointwise call{.storage = storage_of(x.dtype()),
                                 .c_in = p.c_in,
                                 .c_out = p.c_out,
                                 .x = x.raw(),
                                 .u = nullptr,
                                 .bias = nullptr,
                                 .y = nullptr};
  const auto n_threads = static_cast<int>(std::min<int64_t>(omp_get_max_threads(), pieces));
  const int64_t floats = winograd::pointwise_scratch_floats(p.c_in, p.c_out);
  Tensor scratch = Tensor::empty({n_threads, floats}, DType::f32);
  float* floats_of = scratch.data<float>();
#pragma omp parallel for schedule(dynamic, 1) num_threads(n_threads)
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t begin = rows * piece / pieces, end = rows * (piece + 1) / pieces;
    winograd::pointwise_gradient(call, dy.raw(), begin, end - begin,
                                 floats_of + floats * omp_get_thread_num(),
                                 partials + piece * p.c_in * width);
  }
  WeightLayout layout;
  layout.g = {0};
  layout.k = {0};
  layout.elements = p.c_in * width;
  for (int64_t o = 0; o < p.c_out; ++o) layout.o.push_back(o);
  for (int64_t i = 0; i < p.c_in; ++i) layout.i.push_back(i * width);
  std::vector<PartialGradient> parts;
  for (int64_t piece = 0; piece < pieces; ++piece)
    parts.push_back({partials + piece * p.c_in * width, &layout});
  join_gradients(parts, {1, p.c_out, 1, p.c_in}, mode, dw.data<float>());
}

}  // namespace bora::kernels::cpu
