// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/conv3d.hpp"

#include <algorithm>
#include <atomic>

#include "kernels/conv3d_reference.hpp"
#include "kernels/cpu/conv3d_plan.hpp"
#include "kernels/cpu/conv3d_run.hpp"
#include "kernels/cpu/onednn.hpp"
#include "kernels/cpu/pointwise.hpp"
#include "kernels/cpu/winograd.hpp"

namespace bora::kernels::cpu {
namespace {

void fill_with_bias(Tensor& y, const Tensor& bias) {
  const int64_t channels = y.size(-1);
  fill_rows(static_cast<char*>(y.raw()), channels == 0 ? 0 : y.numel() / channels, channels, bias,
            y.dtype());
}

/// The data gradient of a convolution with stride 1 is a convolution of dy: weights with taps
/// reversed and channels exchanged, padding dilation (k - 1) - padding.  oneDNN's forward kernels
/// are faster than its data gradient (channels last, f32: 10.4 against 13.0 ms at 64^3, 16 -> 16
/// channels, two cores).  False if the padding would be negative along H or W.
bool as_forward(const ConvProblem& p, ConvProblem& forward) {
  forward = p;
  forward.in = p.out;
  forward.out = p.in;
  forward.c_in = p.c_out;
  forward.c_out = p.c_in;
  for (size_t i = 0; i < 3; ++i) {
    if (p.stride[i] != 1) return false;
    forward.pad_left[i] = p.dilation[i] * (p.kernel[i] - 1) - p.pad_left[i];
    if (i > 0 && (forward.pad_left[i] < 0 || forward.pad_right(static_cast<int>(i)) < 0))
      return false;
  }
  return true;
}

void add_bias(const Tensor& bias, Tensor& y) {
  const int64_t n = y.size(-1), rows = n == 0 ? 0 : y.numel() / n;
  dispatch_float(y.dtype(), "conv3d", [&]<class T>() {
    using A = acc_t<T>;
    const T* b = bias.data<T>();
    T* out = y.data<T>();
#pragma omp parallel for schedule(static) if (rows * n > 65536)
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < n; ++c)
        out[r * n + c] = static_cast<T>(static_cast<A>(out[r * n + c]) + static_cast<A>(b[c]));
  });
}

std::atomic<Bf16Path> g_bf16_path{Bf16Path::automatic};

/// Whether tensors of `type` go to oneDNN as they are; else, and where oneDNN has no kernel for
/// bf16, through f32 scratch.
bool native(DType type) {
  if (type != DType::bf16) return type == DType::f32;
  const Bf16Path path = g_bf16_path;
  return path == Bf16Path::automatic ? onednn_has_bf16() : path == Bf16Path::native;
}
constexpr int kByRule = -1;
std::atomic<int> g_engine{kByRule};

/// Lists the own kernel that computes `p`.
ConvEngine chosen_engine(ConvDirection direction, DType type, bool bias, const ConvProblem& p) {
  const ConvEngine engine = conv3d_engine(p, type);
  if (engine == ConvEngine::winograd) log_own_kernel(direction, type, bias, p, "winograd avx512");
  if (engine == ConvEngine::pointwise) log_own_kernel(direction, type, bias, p, "pointwise avx512");
  return engine;
}

/// The forward pass of `p` by an own kernel; false if the engine is oneDNN.
bool own_forward(const ConvProblem& p, WeightUse use, const Tensor& x, const Tensor& w,
                 const Tensor& bias, Tensor& y) {
  switch (chosen_engine(ConvDirection::forward, x.dtype(), bias.defined(), p)) {
    case ConvEngine::winograd:
      winograd_forward(p, use, x, w, bias, y);
      return true;
    case ConvEngine::pointwise:
      pointwise_forward(p, use, x, w, bias, y);
      return true;
    case ConvEngine::onednn:
      break;
  }
  return false;
}

Tensor widened(const Tensor& t) { return t.defined() ? t.to(DType::f32) : t; }

bool native_backward_data(const Conv3dAttributes& a, const Tensor& dy, const Tensor& w,
                          const Tensor& bias, Tensor& dx) {
  const ConvProblem p = problem_of(a, dx.shape(), w.shape(), dy.shape());
  if (ConvProblem forward; as_forward(p, forward) &&
                           run_forward(forward, WeightUse::flipped, extents_of(p), dy, w, bias, dx))
    return true;
  // Bias in a pass of its own: with it oneDNN's transposed convolutions fall to slow code.
  if (!run_backward_data(p, dy, w, dx)) return false;
  if (bias.defined()) add_bias(bias, dx);
  return true;
}

}  // namespace

void conv3d_forward(const Conv3dAttributes& a, const Tensor& x, const Tensor& w, const Tensor& bias,
                    Tensor& y) {
  if (y.numel() == 0) return;
  if (x.numel() == 0) return fill_with_bias(y, bias);
  const ConvProblem p = problem_of(a, x.shape(), w.shape(), y.shape());
  if (own_forward(p, WeightUse::forward, x, w, bias, y)) return;
  if (native(x.dtype()) && run_forward(p, WeightUse::forward, extents_of(p), x, w, bias, y)) return;
  if (x.dtype() == DType::f32) return reference::conv3d_forward(a, x, w, bias, y);
  Tensor wide = Tensor::empty(y.shape(), DType::f32);
  conv3d_forward(a, widened(x), widened(w), widened(bias), wide);
  y.copy_from(wide);
}

void conv3d_backward_data(const Conv3dAttributes& a, const Tensor& dy, const Tensor& w,
                          const Tensor& bias, Tensor& dx) {
  if (dx.numel() == 0) return;
  if (dy.numel() == 0) return fill_with_bias(dx, bias);
  if (ConvProblem forward; as_forward(problem_of(a, dx.shape(), w.shape(), dy.shape()), forward) &&
                           own_forward(forward, WeightUse::flipped, dy, w, bias, dx))
    return;
  if (native(dy.dtype()) && native_backward_data(a, dy, w, bias, dx)) return;
  if (dy.dtype() == DType::f32) return reference::conv3d_backward_data(a, dy, w, bias, dx);
  Tensor wide = Tensor::empty(dx.shape(), DType::f32);
  conv3d_backward_data(a, widened(dy), widened(w), widened(bias), wide);
  dx.copy_from(wide);
}

void conv3d_backward_weights(const Conv3dAttributes& a, const Tensor& x, const Tensor& dy,
                             GradientMode mode, Tensor& dw) {
  if (dw.numel() == 0) return;
  if (x.numel() == 0 || dy.numel() == 0) {
    if (mode == GradientMode::overwrite) dw.fill(0.0);
    return;
  }
  if (dw.dtype() != DType::f32) {
    Tensor wide = mode == GradientMode::add ? widened(dw) : Tensor::empty(dw.shape(), DType::f32);
    conv3d_backward_weights(a, x, dy, mode, wide);
    return dw.copy_from(wide);
  }
  const ConvProblem p = problem_of(a, x.shape(), dw.shape(), dy.shape());
  switch (chosen_engine(ConvDirection::backward_weights, x.dtype(), false, p)) {
    case ConvEngine::winograd:
      return winograd_backward_weights(p, x, dy, mode, dw);
    case ConvEngine::pointwise:
      return pointwise_backward_weights(p, x, dy, mode, dw);
    case ConvEngine::onednn:
      break;
  }
  if (native(x.dtype()) && run_backward_weights(p, x, dy, mode, dw)) return;
  if (x.dtype() == DType::f32) return reference::conv3d_backward_weights(a, x, dy, mode, dw);
  conv3d_backward_weights(a, widened(x), widened(dy), mode, dw);
}

ConvEngine conv3d_engine(const ConvProblem& p, DType type) {
  if (type == DType::f64) return ConvEngine::onednn;
  const int forced = g_engine;
  if (pointwise_fits(p)) {
    // Bound by memory: oneDNN wins in f32 unless one side has few channels, and loses to kernels
    // that convert as they go where it must be given f32 copies of 16-bit tensors.
    constexpr int64_t kThin = 4;
    const bool rule = std::min(p.c_in, p.c_out) <= kThin || !native(type);
    const bool use = forced == kByRule ? rule : forced == static_cast<int>(ConvEngine::pointwise);
    return use ? ConvEngine::pointwise : ConvEngine::onednn;
  }
  if (!winograd_fits(p, type)) return ConvEngine::onednn;
  if (forced != kByRule)
    return forced == static_cast<int>(ConvEngine::winograd) ? ConvEngine::winograd
                                                            : ConvEngine::onednn;
  // Transforming the weights costs as much as some 15 tiles save; with few channels the transforms
  // of x and y cost more than the multiplications saved.
  constexpr int64_t kTiles = 32, kChannels = 8;
  int64_t tiles = 1;  // of one sample, so that its bits do not depend on the batch
  for (int64_t e : p.out) tiles *= (e + 1) / 2;
  const bool wins = tiles >= kTiles && p.c_in >= kChannels && p.c_out >= kChannels;
  return wins ? ConvEngine::winograd : ConvEngine::onednn;
}

void set_conv_engine(std::optional<ConvEngine> engine) {
  g_engine = engine ? static_cast<int>(*engine) : kByRule;
}

void set_bf16_path(Bf16Path path) { g_bf16_path = path; }

std::vector<std::string> conv3d_implementations() { return conv_plan_log(); }

std::string conv3d_library() {
  const dnnl_version_t* v = dnnl_version();
  return detail::join("oneDNN ", v->major, ".", v->minor, ".", v->patch);
}

}  // namespace bora::kernels::cpu
