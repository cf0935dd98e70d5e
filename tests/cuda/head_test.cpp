// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/head: forward and gradients against sums in f64.
#include "kernels/cuda/head.hpp"

#include "tests/cuda/device_case.hpp"

namespace bora::kernels {
namespace {

using namespace bora::test;  // NOLINT: the support of this suite

class CudaHead : public OnDevice {};

void check(int64_t channels, int64_t n_out, Dims3 size, DType type, bool with_bias,
           GradientMode mode) {
  SCOPED_TRACE(testing::Message() << type << " " << size << " " << channels << " -> " << n_out);
  const int64_t n = 2, cells = n * size.count();
  const Shape small{n, size.d, size.h, size.w, n_out}, large{n, size.d, size.h, size.w, channels};
  const Tensor x = on_device(large, normal_values(cells * channels, 1), type);
  const Tensor w = on_device({n_out, 1, 1, 1, channels}, normal_values(n_out * channels, 2), type);
  const Tensor dy = on_device(small, normal_values(cells * n_out, 3), type);
  const Tensor bias = with_bias ? on_device({n_out}, normal_values(n_out, 4), type) : Tensor();
  const DType dw_type = type == DType::f64 ? type : DType::f32;
  Tensor none = empty_on_device(small, type);
  ASSERT_TRUE(cuda::head_applies({}, x, w, none));
  const std::vector<Tensor> got = under_all_schedules([&] {
    Tensor y = empty_on_device(small, type), dx = empty_on_device(large, type);
    Tensor dw = on_device({n_out, 1, 1, 1, channels},
                          std::vector<double>(static_cast<size_t>(n_out * channels), 2.0), dw_type);
    const Stream stream = device_stream();
    cuda::head_forward(stream, x, w, bias, y);
    cuda::head_backward_data(stream, dy, w, dx);
    cuda::head_backward_weights(stream, x, dy, mode, dw);
    return std::vector<Tensor>{y, dx, dw};
  });
  const std::vector<double> vx = host_values(x), vw = host_values(w), vdy = host_values(dy),
                            vb = with_bias ? host_values(bias) : std::vector<double>(8, 0.0);
  std::vector<double> y(vdy.size()), dx(vx.size()),
      dw(vw.size(), mode == GradientMode::add ? 2.0 : 0.0);
  for (int64_t v = 0; v < cells; ++v)
    for (int64_t k = 0; k < n_out; ++k) {
      const auto at = static_cast<size_t>(v * n_out + k);
      y[at] = vb[static_cast<size_t>(k)];
      for (int64_t c = 0; c < channels; ++c) {
        const auto xi = static_cast<size_t>(v * channels + c),
                   wi = static_cast<size_t>(k * channels + c);
        y[at] += vx[xi] * vw[wi];
        dx[xi] += vdy[at] * vw[wi];
        dw[wi] += vdy[at] * vx[xi];
      }
    }
  // Sums of terms of magnitude up to 16, each of which passes the roundings of its own sum.
  const auto terms = [](int64_t count) { return 16.0 * static_cast<double>(count) + 4.0; };
  const double rounding = gamma(static_cast<double>(channels) + 8, arithmetic_type(type));
  EXPECT_EQ("", differences(host_values(got[0]), y,
                            rounding * terms(channels) + unit_roundoff(type) * 1.01 * max_abs(y)));
  EXPECT_EQ("", differences(host_values(got[1]), dx,
                            gamma(10, arithmetic_type(type)) * terms(n_out) +
                                unit_roundoff(type) * 1.01 * max_abs(dx)));
  EXPECT_EQ("",
            differences(host_values(got[2]), dw, gamma(40, arithmetic_type(type)) * terms(cells)));
}

TEST_F(CudaHead, MatchesF64) {
  for (const DType type : kDeviceFloats)
    for (const int64_t channels : {8, 16, 24, 32, 64})
      for (const int64_t n_out : {1, 2, 3, 5, 8})
        check(channels, n_out, {3, 5, 7}, type, n_out % 2 == 1,
              n_out == 3 ? GradientMode::add : GradientMode::overwrite);
  check(32, 3, {9, 17, 19}, DType::f16, true, GradientMode::add);
  check(16, 2, {1, 1, 1}, DType::f16, true, GradientMode::overwrite);
}

TEST_F(CudaHead, LeavesOthersToTheLibrary) {
  const auto applies = [](const Conv3dAttributes& a, int64_t channels, const Shape& w,
                          int64_t shift = 0) {
    return cuda::head_applies(a, empty_on_device({1, 3, 3, 3, channels}, DType::f16, shift),
                              empty_on_device(w, DType::f16),
                              empty_on_device({1, 3, 3, 3, w[0]}, DType::f16));
  };
  EXPECT_TRUE(applies({}, 16, {3, 1, 1, 1, 16}));
  EXPECT_FALSE(applies({}, 16, {9, 1, 1, 1, 16}));
  EXPECT_FALSE(applies({}, 12, {3, 1, 1, 1, 12}));
  EXPECT_FALSE(applies({}, 512, {3, 1, 1, 1, 512}));
  EXPECT_FALSE(applies({}, 16, {3, 1, 1, 1, 16}, 1));
  EXPECT_FALSE(applies({.padding = Dims3::all(1)}, 16, {3, 3, 3, 3, 16}));
  EXPECT_FALSE(applies({.stride = Dims3::all(2)}, 16, {3, 1, 1, 1, 16}));
}

}  // namespace
}  // namespace bora::kernels
