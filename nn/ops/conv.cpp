// SPDX-License-Identifier: Apache-2.0
// Convolutions and the linear map: weight and bias gradients go straight into the parameters'
// sinks, gradients nobody wants are not computed.
#include <array>

#include "core/op.hpp"
#include "kernels/conv3d.hpp"
#include "kernels/linear.hpp"
#include "nn/ops.hpp"
#include "nn/ops/parameter_target.hpp"

namespace bora::nn {
namespace {

using kernels::Conv3dAttributes;
using kernels::GradientMode;

Conv3dAttributes attributes_of(const Conv3dOptions& o) {
  return {o.stride, o.padding, o.dilation, o.groups};
}

/// For the profile: direct arithmetic of one pass (forward, data gradient or weight gradient), in
/// which each weight meets each of `positions` cells once; a kernel that needs less says the same.
void add_flops(const Tensor& positions, const Tensor& w, int passes = 1) {
  const int64_t channels = positions.size(-1);
  if (channels == 0) return;
  profile_add_work(2.0 * static_cast<double>(positions.numel() / channels) *
                       static_cast<double>(w.numel()) * passes,
                   0);
}

/// Runs `compute(mode, buffer)` for the gradient of parameter `input` of `shape` and `type`, if it
/// is wanted; see ParameterTarget.
template <class Compute>
Tensor parameter_gradient(OpContext& c, int input, const Shape& shape, DType type,
                          Compute&& compute) {
  ParameterTarget target(c, input, shape, type);
  if (target.buffer.defined()) compute(target.mode, target.buffer);
  return target.returned;
}

Tensor bias_gradient(OpContext& c, int input, const Tensor& dy) {
  return parameter_gradient(
      c, input, Shape{dy.size(-1)}, dy.dtype(),
      [&](GradientMode mode, Tensor& db) { kernels::channel_sum(c.stream(), dy, mode, db); });
}

/// (N, H, W, C) as (N, 1, H, W, C), the same bytes; five axes stay.
Tensor volume(const Tensor& t) {
  if (t.rank() != 4) return t.detach();
  return t.detach().reshape({t.size(0), 1, t.size(1), t.size(2), t.size(3)});
}

/// Backward of a convolution; saved are x and w.
std::array<Tensor, 3> convolution_backward(OpContext& c, const Conv3dAttributes& a,
                                           const Tensor& dy) {
  const Tensor& x = c.saved(0);
  const Tensor& w = c.saved(1);
  add_flops(dy, w, c.wants(0) + c.wants(1));
  Tensor dx;
  if (c.wants(0)) {
    dx = c.empty(x.shape(), dy.dtype());
    Tensor out = volume(dx);
    kernels::conv3d_backward_data(c.stream(), a, volume(dy), volume(w), Tensor(), out);
  }
  Tensor dw =
      parameter_gradient(c, 1, w.shape(), w.dtype(), [&](GradientMode mode, Tensor& buffer) {
        Tensor out = volume(buffer);
        kernels::conv3d_backward_weights(c.stream(), a, volume(x), volume(dy), mode, out);
      });
  return {dx, dw, bias_gradient(c, 2, dy)};
}

struct Conv3d {
  static constexpr OpInfo info{"conv3d", Precision::half};
  Conv3dAttributes a;

  Tensor forward(OpContext& c, const Tensor& x, const Tensor& w, const Tensor& b) const {
    Tensor y = c.empty(kernels::conv3d_output_shape(info.name, a, x.shape(), w.shape()), x.dtype());
    add_flops(y, w);
    kernels::conv3d_forward(c.stream(), a, x, w, b, y);
    c.save(x, w);
    return y;
  }
  std::array<Tensor, 3> backward(OpContext& c, const Tensor& dy) const {
    return convolution_backward(c, a, dy);
  }
};

struct Conv2d {
  static constexpr OpInfo info{"conv2d", Precision::half};
  Conv3dAttributes a;

  Tensor forward(OpContext& c, const Tensor& x, const Tensor& w, const Tensor& b) const {
    BORA_CHECK(x.rank() == 4 && w.rank() == 4, "conv2d: input ", x.shape(), ", weight ", w.shape(),
               ", wanted (N, H, W, I) and (O, kH, kW, I/groups)");
    const Tensor x5 = volume(x), w5 = volume(w);
    Tensor y =
        c.empty(kernels::conv3d_output_shape(info.name, a, x5.shape(), w5.shape()), x.dtype());
    add_flops(y, w);
    kernels::conv3d_forward(c.stream(), a, x5, w5, b, y);
    c.save(x, w);
    return y.reshape({y.size(0), y.size(2), y.size(3), y.size(4)});
  }
  std::array<Tensor, 3> backward(OpContext& c, const Tensor& dy) const {
    return convolution_backward(c, a, dy);
  }
};

struct ConvTranspose3d {
  static constexpr OpInfo info{"conv_transpose3d", Precision::half};
  Conv3dAttributes a;
  Dims3 output_padding;

  Tensor forward(OpContext& c, const Tensor& x, const Tensor& w, const Tensor& b) const {
    Tensor y = c.empty(
        kernels::conv_transpose3d_output_shape(info.name, a, output_padding, x.shape(), w.shape()),
        x.dtype());
    add_flops(x, w);
    kernels::conv3d_backward_data(c.stream(), a, x, w, b, y);
    c.save(x, w);
    return y;
  }
  std::array<Tensor, 3> backward(OpContext& c, const Tensor& dy) const {
    const Tensor& x = c.saved(0);
    const Tensor& w = c.saved(1);
    add_flops(x, w, c.wants(0) + c.wants(1));
    Tensor dx;
    if (c.wants(0)) {
      dx = c.empty(x.shape(), dy.dtype());
      kernels::conv3d_forward(c.stream(), a, dy, w, Tensor(), dx);
    }
    Tensor dw =
        parameter_gradient(c, 1, w.shape(), w.dtype(), [&](GradientMode mode, Tensor& buffer) {
          kernels::conv3d_backward_weights(c.stream(), a, dy, x, mode, buffer);
        });
    return {dx, dw, bias_gradient(c, 2, dy)};
  }
};

struct Linear {
  static constexpr OpInfo info{"linear", Precision::half};

  Tensor forward(OpContext& c, const Tensor& x, const Tensor& w, const Tensor& b) const {
    Tensor y = c.empty(kernels::linear_output_shape(x.shape(), w.shape()), x.dtype());
    add_flops(y, w);
    kernels::linear_forward(c.stream(), x, w, b, y);
    c.save(x, w);
    return y;
  }
  std::array<Tensor, 3> backward(OpContext& c, const Tensor& dy) const {
    const Tensor& x = c.saved(0);
    const Tensor& w = c.saved(1);
    add_flops(x, w, c.wants(0) + c.wants(1));
    Tensor dx;
    if (c.wants(0)) {
      dx = c.empty(x.shape(), dy.dtype());
      kernels::linear_backward_data(c.stream(), dy, w, dx);
    }
    Tensor dw =
        parameter_gradient(c, 1, w.shape(), w.dtype(), [&](GradientMode mode, Tensor& buffer) {
          kernels::linear_backward_weights(c.stream(), x, dy, mode, buffer);
        });
    return {dx, dw, bias_gradient(c, 2, dy)};
  }
};

void check_no_output_padding(const char* op, const Conv3dOptions& o) {
  BORA_CHECK(o.output_padding == Dims3::all(0), op, ": output_padding ", o.output_padding,
             " is for conv_transpose3d only");
}

}  // namespace

Tensor conv3d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv3dOptions& options) {
  check_no_output_padding("conv3d", options);
  BORA_CHECK(x.defined() && w.defined(), "conv3d: input or weight is undefined");
  return apply(Conv3d{attributes_of(options)}, x, w, b);
}

Tensor conv_transpose3d(const Tensor& x, const Tensor& w, const Tensor& b,
                        const Conv3dOptions& options) {
  BORA_CHECK(x.defined() && w.defined(), "conv_transpose3d: input or weight is undefined");
  return apply(ConvTranspose3d{attributes_of(options), options.output_padding}, x, w, b);
}

Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b, const Conv3dOptions& options) {
  check_no_output_padding("conv2d", options);
  BORA_CHECK(x.defined() && w.defined(), "conv2d: input or weight is undefined");
  BORA_CHECK(options.stride.d == 1 && options.padding.d == 0 && options.dilation.d == 1,
             "conv2d: stride ", options.stride, ", padding ", options.padding, ", dilation ",
             options.dilation, ", wanted 1, 0, 1 along the depth");
  return apply(Conv2d{attributes_of(options)}, x, w, b);
}

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b) {
  BORA_CHECK(x.defined() && w.defined(), "linear: input or weight is undefined");
  return apply(Linear{}, x, w, b);
}

}  // namespace bora::nn
