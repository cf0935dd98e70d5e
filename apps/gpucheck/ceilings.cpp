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

/// A square of random numbers: some rows, repeated, since the host makes them one by one.
Tensor noise(int64_t n, uint64_t stream, DType type, Device device) {
  const int64_t rows = std::min<int64_t>(n, 256);
  BORA_CHECK(n % rows == 0, "noise: ", n, " rows, wanted a multiple of ", rows);
  Tensor some = Tensor::empty({rows, n}, DType::f32);
  fill_normal(RngKey{2026, stream}, 0, 1.0,
              {some.data<float>(), static_cast<size_t>(some.numel())});
  const Tensor piece = some.to(type).to(device);
  Tensor all = Tensor::empty({n, n}, type, device);
  for (int64_t i = 0; i < n; i += rows) {
    Tensor part = all.rows(i, i + rows);
    part.copy_from(piece);
  }
  return all;
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
  const Tensor a = noise(n, 1, type, device), b = noise(n, 2, type, device);
  Tensor c = Tensor::empty({n, n}, type, device);
  const double s = best_s(device, calls, [&] {
    kernels::matmul(current_stream(device), kernels::MatmulForm::b_transposed, a, b, c);
  });
  return 2.0 * calls * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n) *
         1e-12 / s;
}

}  // namespace bora::gpucheck
