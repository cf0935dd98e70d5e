// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv3d.hpp"

#include <algorithm>

#include "core/portable.hpp"
#include "kernels/channel_sum_generic.hpp"
#include "kernels/conv3d_reference.hpp"
#include "kernels/cpu/conv3d.hpp"
#include "kernels/cuda/conv3d.hpp"
#include "kernels/cuda/head.hpp"

namespace bora::kernels {
namespace {

constexpr char kAxis[] = {'D', 'H', 'W'};

void check_attributes(const char* op, const Conv3dAttributes& a) {
  for (int i = 0; i < 3; ++i) {
    BORA_CHECK(a.stride[i] >= 1, op, ": stride ", a.stride, ", wanted at least 1");
    BORA_CHECK(a.padding[i] >= 0, op, ": padding ", a.padding, ", wanted at least 0");
    BORA_CHECK(a.dilation[i] >= 1, op, ": dilation ", a.dilation, ", wanted at least 1");
  }
  BORA_CHECK(a.groups >= 1, op, ": groups ", a.groups, ", wanted at least 1");
}

void check_ranks(const char* op, const Shape& x, const Shape& w) {
  BORA_CHECK(x.rank() == 5, op, ": input ", x, ", wanted (N, D, H, W, C)");
  BORA_CHECK(w.rank() == 5, op, ": weight ", w, ", wanted 5 axes, (out, kD, kH, kW, in / groups)");
  for (int i = 1; i <= 3; ++i)
    BORA_CHECK(w[i] >= 1, op, ": weight ", w, " has an empty kernel axis ", kAxis[i - 1]);
}

/// dy of some engine call is consistent if the forward extents of dx reach it: the padding on the
/// right that makes it exact must leave no output beyond (see conv_transpose3d's output_padding).
void check_extents(const char* op, const Conv3dAttributes& a, const Shape& x, const Shape& w,
                   const Shape& y) {
  for (int i = 0; i < 3; ++i) {
    const int64_t in = x[i + 1], out = y[i + 1], reach = a.dilation[i] * (w[i + 1] - 1) + 1;
    if (out == 0 || in == 0) continue;
    // The last window must begin inside the padded input, and another output may only be missing
    // by less than max(stride, dilation) (output_padding).
    const int64_t right = (out - 1) * a.stride[i] + reach - in - a.padding[i];
    BORA_CHECK(right <= a.padding[i] && right > a.padding[i] - std::max(a.stride[i], a.dilation[i]),
               op, ": extents ", x, " and ", y, " do not belong together along ", kAxis[i],
               " for kernel ", w, ", stride ", a.stride, ", padding ", a.padding, ", dilation ",
               a.dilation);
  }
}

/// Channels and batch of x (N, ..., I), w (O, k, I/groups), y (N, ..., O).
void check_channels(const char* op, const Conv3dAttributes& a, const Shape& x, const Shape& w) {
  BORA_CHECK(x[4] == w[4] * a.groups, op, ": weight ", w, " with ", a.groups, " group(s) wants ",
             w[4] * a.groups, " input channels, input has ", x[4], " ", x);
  BORA_CHECK(w[0] % a.groups == 0, op, ": weight ", w, " has ", w[0], " output channels, which ",
             a.groups, " groups do not divide");
}

void check_call(const char* op, const Conv3dAttributes& a, const Tensor& x, const Tensor& w,
                const Tensor& y) {
  BORA_CHECK(x.defined() && w.defined() && y.defined(), op, ": a tensor is undefined");
  check_attributes(op, a);
  check_ranks(op, x.shape(), w.shape());
  BORA_CHECK(y.rank() == 5, op, ": output ", y.shape(), ", wanted (N, D, H, W, C)");
  check_channels(op, a, x.shape(), w.shape());
  BORA_CHECK(y.size(0) == x.size(0) && y.size(4) == w.size(0), op, ": output ", y.shape(),
             " does not belong to input ", x.shape(), " and weight ", w.shape());
  check_extents(op, a, x.shape(), w.shape(), y.shape());
  BORA_CHECK(x.dtype() == y.dtype() && is_float(x.dtype()), op, ": types ", x.dtype(), " and ",
             y.dtype(), ", wanted one floating type");
  BORA_CHECK(x.device() == w.device() && x.device() == y.device(), op, ": devices ", x.device(),
             ", ", w.device(), ", ", y.device(), ", wanted one");
}

void check_same_type(const char* op, const Tensor& x, const Tensor& w) {
  BORA_CHECK(x.dtype() == w.dtype(), op, ": input is ", x.dtype(), ", weight is ", w.dtype(),
             ", wanted one type");
}

void check_gradient_type(const char* op, const Tensor& x, const Tensor& dw) {
  BORA_CHECK(dw.dtype() == x.dtype() || (dw.dtype() == DType::f32 && x.dtype() != DType::f64), op,
             ": gradient buffer is ", dw.dtype(), " for ", x.dtype(), " values");
}

void check_bias(const char* op, const Tensor& bias, const Tensor& y) {
  if (!bias.defined()) return;
  BORA_CHECK(bias.shape() == Shape{y.size(4)}, op, ": bias ", bias.shape(), ", wanted (", y.size(4),
             ")");
  BORA_CHECK(bias.dtype() == y.dtype() && bias.device() == y.device(), op, ": bias is ",
             bias.dtype(), " on ", bias.device(), ", wanted ", y.dtype(), " on ", y.device());
}

thread_local std::function<void(const Conv3dCall&)>* t_listener = nullptr;

void tell(Conv3dCall::Pass pass, const Conv3dAttributes& a, const Tensor& x, const Shape& w,
          const Tensor& y, bool bias, GradientMode mode = GradientMode::overwrite) {
  if (t_listener) (*t_listener)({pass, a, x.shape(), w, y.shape(), x.dtype(), bias, mode});
}

void check_stream(const char* op, Stream stream, const Tensor& x) {
  BORA_CHECK(stream.device == x.device(), op, ": tensors on ", x.device(), ", stream of ",
             stream.device, ", wanted one device");
}

/// Whether kernels/cuda/head.hpp takes it from the library.
bool on_own_head([[maybe_unused]] const Conv3dAttributes& a, [[maybe_unused]] const Tensor& x,
                 [[maybe_unused]] const Tensor& w, [[maybe_unused]] const Tensor& y) {
  bool applies = false;
  BORA_IF_CUDA(applies = cuda::head_applies(a, x, w, y));
  return applies;
}

}  // namespace

Shape conv3d_output_shape(const char* op, const Conv3dAttributes& a, const Shape& x,
                          const Shape& w) {
  check_attributes(op, a);
  check_ranks(op, x, w);
  check_channels(op, a, x, w);
  int64_t out[3];
  for (int i = 0; i < 3; ++i) {
    const int64_t reach = a.dilation[i] * (w[i + 1] - 1) + 1;
    const int64_t padded = x[i + 1] + 2 * a.padding[i];
    BORA_CHECK(padded >= reach || x[i + 1] == 0, op, ": kernel ", w, " with dilation ", a.dilation,
               " spans ", reach, " cells along ", kAxis[i], ", the input ", x,
               " has, with padding, ", padded);
    out[i] = padded >= reach ? (padded - reach) / a.stride[i] + 1 : 0;
  }
  return {x[0], out[0], out[1], out[2], w[0]};
}

Shape conv_transpose3d_output_shape(const char* op, const Conv3dAttributes& a,
                                    const Dims3& output_padding, const Shape& x, const Shape& w) {
  check_attributes(op, a);
  check_ranks(op, x, w);
  BORA_CHECK(x[4] == w[0], op, ": weight ", w, " wants ", w[0], " input channels, input has ", x[4],
             " ", x);
  BORA_CHECK(w[0] % a.groups == 0, op, ": ", a.groups, " groups do not divide ", w[0],
             " input channels");
  int64_t out[3];
  for (int i = 0; i < 3; ++i) {
    BORA_CHECK(output_padding[i] >= 0 && output_padding[i] < std::max(a.stride[i], a.dilation[i]),
               op, ": output_padding ", output_padding, ", wanted less than stride ", a.stride,
               " or dilation ", a.dilation);
    out[i] = x[i + 1] == 0 ? 0
                           : (x[i + 1] - 1) * a.stride[i] - 2 * a.padding[i] +
                                 a.dilation[i] * (w[i + 1] - 1) + output_padding[i] + 1;
    BORA_CHECK(out[i] >= 1 || x[i + 1] == 0, op, ": input ", x, ", weight ", w, ", padding ",
               a.padding, " leave an output extent of ", out[i], " along ", kAxis[i]);
  }
  return {x[0], out[0], out[1], out[2], w[4] * a.groups};
}

void conv3d_forward(Stream stream, const Conv3dAttributes& a, const Tensor& x, const Tensor& w,
                    const Tensor& bias, Tensor& y) {
  check_call("conv3d", a, x, w, y);
  check_same_type("conv3d", x, w);
  check_bias("conv3d", bias, y);
  tell(Conv3dCall::Pass::forward, a, x, w.shape(), y, bias.defined());
  switch (x.device().type) {
    case DeviceType::cpu:
      if (x.dtype() == DType::f64) return reference::conv3d_forward(a, x, w, bias, y);
      return cpu::conv3d_forward(a, x, w, bias, y);
    case DeviceType::cuda:
      check_stream("conv3d", stream, x);
      if (on_own_head(a, x, w, y)) BORA_IF_CUDA(return cuda::head_forward(stream, x, w, bias, y));
      BORA_IF_CUDA(return cuda::conv3d_forward(stream, a, x, w, bias, y));
  }
}

void conv3d_backward_data(Stream stream, const Conv3dAttributes& a, const Tensor& dy,
                          const Tensor& w, const Tensor& bias, Tensor& dx) {
  check_call("conv3d (data gradient)", a, dx, w, dy);
  check_same_type("conv3d (data gradient)", dy, w);
  check_bias("conv3d (data gradient)", bias, dx);
  tell(Conv3dCall::Pass::backward_data, a, dx, w.shape(), dy, bias.defined());
  switch (dy.device().type) {
    case DeviceType::cpu:
      if (dy.dtype() == DType::f64) return reference::conv3d_backward_data(a, dy, w, bias, dx);
      return cpu::conv3d_backward_data(a, dy, w, bias, dx);
    case DeviceType::cuda:
      check_stream("conv3d (data gradient)", stream, dy);
      if (!bias.defined() && on_own_head(a, dx, w, dy))
        BORA_IF_CUDA(return cuda::head_backward_data(stream, dy, w, dx));
      BORA_IF_CUDA(return cuda::conv3d_backward_data(stream, a, dy, w, bias, dx));
  }
}

void conv3d_backward_weights(Stream stream, const Conv3dAttributes& a, const Tensor& x,
                             const Tensor& dy, GradientMode mode, Tensor& dw) {
  check_call("conv3d (weight gradient)", a, x, dw, dy);
  check_gradient_type("conv3d (weight gradient)", x, dw);
  tell(Conv3dCall::Pass::backward_weights, a, x, dw.shape(), dy, false, mode);
  switch (x.device().type) {
    case DeviceType::cpu:
      if (x.dtype() == DType::f64) return reference::conv3d_backward_weights(a, x, dy, mode, dw);
      return cpu::conv3d_backward_weights(a, x, dy, mode, dw);
    case DeviceType::cuda:
      check_stream("conv3d (weight gradient)", stream, x);
      if (on_own_head(a, x, dw, dy))
        BORA_IF_CUDA(return cuda::head_backward_weights(stream, x, dy, mode, dw));
      BORA_IF_CUDA(return cuda::conv3d_backward_weights(stream, a, x, dy, mode, dw));
  }
}

void channel_sum(Stream stream, const Tensor& dy, GradientMode mode, Tensor& db) {
  BORA_CHECK(dy.defined() && db.defined() && dy.rank() >= 1, "channel_sum: wants (..., C) and (C)");
  BORA_CHECK(db.shape() == Shape{dy.size(-1)}, "channel_sum: gradient ", db.shape(), ", wanted (",
             dy.size(-1), ")");
  BORA_CHECK(is_float(dy.dtype()), "channel_sum: wants a floating type, got ", dy.dtype());
  check_gradient_type("channel_sum", dy, db);
  BORA_CHECK(dy.device() == db.device(), "channel_sum: devices ", dy.device(), " and ", db.device(),
             ", wanted one");
  switch (dy.device().type) {
    case DeviceType::cpu:
      return cpu::channel_sum(dy, mode, db);
    case DeviceType::cuda:
      check_stream("channel_sum", stream, dy);
      BORA_IF_CUDA(return generic::channel_sum(stream, dy, mode, db));
  }
}

Conv3dListener::Conv3dListener(std::function<void(const Conv3dCall&)> heard)
    : heard_(std::move(heard)), outer_(t_listener) {
  t_listener = &heard_;
}

Conv3dListener::~Conv3dListener() { t_listener = outer_; }

std::vector<std::string> conv3d_implementations(DeviceType type) {
  switch (type) {
    case DeviceType::cpu:
      return cpu::conv3d_implementations();
    case DeviceType::cuda:
      BORA_IF_CUDA(return cuda::conv3d_implementations());
  }
  return {};
}

std::string conv3d_library(DeviceType type) {
  switch (type) {
    case DeviceType::cpu:
      return cpu::conv3d_library();
    case DeviceType::cuda:
      BORA_IF_CUDA(return cuda::conv3d_library());
  }
  return {};
}

}  // namespace bora::kernels
