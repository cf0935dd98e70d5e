// SPDX-License-Identifier: Apache-2.0
#include "apps/gpucheck/ceilings.hpp"

#include <algorithm>

#include "core/profile.hpp"
#include "core/rng.hpp"
#include "core/tensor.hpp"
#include "kernels/linear.hpp"

namespace bora::gpucheck {
namespace {

/// Least seconds of `calls` calls.
template <class F>
double best_s(Device device, int calls, const F& f) {
  const Stream s = current_stream(device);
  f();
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    s.synchronize();
    const double begin = now_s();
    for (int k = 0; k < calls; ++k) f();
    s.synchronize();
    best = std::min(best, now_s() - begin);
  }
  return best;
}

Tensor noise(const Shape& shape, uint64_t stream, DType type, Device device) {
  Tensor t = Tensor::empty(shape, DType::f32);
  fill_normal(RngKey{2026, stream}, 0, 1.0, {t.data<float>(), static_cast<size_t>(t.numel())});
  return t.to(type).to(device);
}

}  // namespace

double copy_gb_per_s(Device device) {
  const int64_t bytes = int64_t{1} << 30;
  const int calls = 8;
  const Tensor from = Tensor::zeros({bytes}, DType::u8, device);
  Tensor to = Tensor::empty({bytes}, DType::u8, device);
  const double s = best_s(device, calls, [&] { to.copy_from(from); });
  return 2.0 * calls * static_cast<double>(bytes) * 1e-9 / s;
}

double gemm_tflop_per_s(Device device, DType type) {
  const int64_t n = 8192;
  const int calls = 8;
  // Random numbers: with constant ones fewer bits flip, and the clock stays higher than it ever
  // will.
  const Tensor a = noise({n, n}, 1, type, device), b = noise({n, n}, 2, type, device);
  Tensor c = Tensor::empty({n, n}, type, device);
  const double s = best_s(device, calls, [&] {
    kernels::matmul(current_stream(device), kernels::MatmulForm::b_transposed, a, b, c);
  });
  return 2.0 * calls * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) *
         1e-12 / s;
}

}  // namespace bora::gpucheck
