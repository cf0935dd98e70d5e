// SPDX-License-Identifier: Apache-2.0
#include "nn/layers/conv3d.hpp"

namespace bora::nn {
namespace {

void check_layer(const char* what, int64_t in, int64_t out, Dims3 kernel, int64_t groups) {
  BORA_CHECK(in > 0 && out > 0, what, ": ", in, " -> ", out, " channels");
  BORA_CHECK(kernel.d > 0 && kernel.h > 0 && kernel.w > 0, what, ": kernel ", kernel);
  BORA_CHECK(groups > 0 && in % groups == 0 && out % groups == 0, what, ": ", groups,
             " groups do not divide ", in, " -> ", out, " channels");
}

Parameter bias_parameter(int64_t out, Init init) { return {{out}, init, "O", false, {}}; }

}  // namespace

Conv3d::Conv3d(int64_t in, int64_t out, Dims3 kernel, Bias bias, Conv3dOptions options)
    : options_(options), has_bias_(bias == Bias::yes) {
  check_layer("Conv3d", in, out, kernel, options.groups);
  const int64_t fan_in = in / options.groups * kernel.count();
  weight_ = {{out, kernel.d, kernel.h, kernel.w, in / options.groups},
             Init::kaiming_normal(fan_in),
             "O,kD,kH,kW,I",
             true,
             {}};
  if (has_bias_) bias_ = bias_parameter(out, Init::fan_in_uniform(fan_in));
}

Conv3d Conv3d::linear_gain(int64_t in, int64_t out, Dims3 kernel, Bias bias,
                           Conv3dOptions options) {
  Conv3d layer(in, out, kernel, bias, options);
  layer.weight_.init = Init::fan_in_uniform(in / options.groups * kernel.count());
  return layer;
}

Tensor Conv3d::forward(const Tensor& x) const {
  return conv3d(x, weight_.value, bias_.value, options_);
}

void Conv3d::visit(Visitor& v) {
  v.parameter("weight", weight_);
  if (has_bias_) v.parameter("bias", bias_);
}

std::string Conv3d::describe() const {
  return detail::join("Conv3d ", weight_.shape[4] * options_.groups, "->", weight_.shape[0], " k",
                      weight_.shape[1]);
}

ConvTranspose3d::ConvTranspose3d(int64_t in, int64_t out, Dims3 kernel, Bias bias,
                                 Conv3dOptions options)
    : options_(options), has_bias_(bias == Bias::yes) {
  check_layer("ConvTranspose3d", in, out, kernel, options.groups);
  const int64_t fan_in = in / options.groups * kernel.count();
  weight_ = {{in, kernel.d, kernel.h, kernel.w, out / options.groups},
             Init::fan_in_uniform(fan_in),
             "I,kD,kH,kW,O",
             true,
             {}};
  if (has_bias_) bias_ = bias_parameter(out, Init::fan_in_uniform(fan_in));
}

Tensor ConvTranspose3d::forward(const Tensor& x) const {
  return conv_transpose3d(x, weight_.value, bias_.value, options_);
}

Tensor ConvTranspose3d::forward_to(const Tensor& x, Dims3 size) const {
  BORA_CHECK(x.rank() == 5, "ConvTranspose3d: wants (N, D, H, W, C), got ", x.shape());
  const auto extra = [&](int axis) {
    const int64_t smallest = (x.size(axis + 1) - 1) * options_.stride[axis] -
                             2 * options_.padding[axis] +
                             options_.dilation[axis] * (weight_.shape[axis + 1] - 1) + 1;
    return size[axis] - smallest;
  };
  Conv3dOptions options = options_;
  options.output_padding = {extra(0), extra(1), extra(2)};
  for (int axis = 0; axis < 3; ++axis)
    BORA_CHECK(
        options.output_padding[axis] >= 0 && options.output_padding[axis] < options_.stride[axis],
        "ConvTranspose3d: ", x.shape(), " cannot become ", size, " with stride ", options_.stride);
  return conv_transpose3d(x, weight_.value, bias_.value, options);
}

void ConvTranspose3d::visit(Visitor& v) {
  v.parameter("weight", weight_);
  if (has_bias_) v.parameter("bias", bias_);
}

std::string ConvTranspose3d::describe() const {
  return detail::join("ConvTranspose3d ", weight_.shape[0], "->",
                      weight_.shape[4] * options_.groups, " k", weight_.shape[1]);
}

Linear::Linear(int64_t in, int64_t out, Bias bias) : has_bias_(bias == Bias::yes) {
  BORA_CHECK(in > 0 && out > 0, "Linear: ", in, " -> ", out);
  weight_ = {{out, in}, Init::xavier_normal(in, out), "O,I", true, {}};
  if (has_bias_) bias_ = bias_parameter(out, Init::constant(0));
}

Tensor Linear::forward(const Tensor& x) const { return linear(x, weight_.value, bias_.value); }

void Linear::visit(Visitor& v) {
  v.parameter("weight", weight_);
  if (has_bias_) v.parameter("bias", bias_);
}

std::string Linear::describe() const {
  return detail::join("Linear ", weight_.shape[1], "->", weight_.shape[0]);
}

}  // namespace bora::nn
