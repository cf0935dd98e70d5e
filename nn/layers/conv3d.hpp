// SPDX-License-Identifier: Apache-2.0
// Convolution layers.
#pragma once

#include "nn/module.hpp"
#include "nn/ops.hpp"

namespace bora::nn {

enum class Bias { no, yes };

/// conv3d with its weight (O, kD, kH, kW, I/groups) and perhaps a bias (O).
/// Weights start from `init` (kaiming_normal unless given), biases from U(-1/sqrt(fan_in),
/// 1/sqrt(fan_in)).
class Conv3d final : public Module {
 public:
  Conv3d(int64_t in, int64_t out, Dims3 kernel, Bias bias, Conv3dOptions options = {});
  /// As above; for a layer with nothing rectifying behind it.
  static Conv3d linear_gain(int64_t in, int64_t out, Dims3 kernel, Bias bias,
                            Conv3dOptions options = {});

  Tensor forward(const Tensor& x) const;
  void visit(Visitor& v) override;
  std::string describe() const override;

  /// The parameters, for ops that compute this layer together with something else (head_data_loss);
  /// bias: undefined if there is none.
  const Tensor& weight() const { return weight_.value; }
  const Tensor& bias() const { return bias_.value; }

 private:
  Conv3dOptions options_;
  Parameter weight_, bias_;
  bool has_bias_;
};

/// conv_transpose3d with its weight (I, kD, kH, kW, O/groups) and perhaps a bias (O).
class ConvTranspose3d final : public Module {
 public:
  ConvTranspose3d(int64_t in, int64_t out, Dims3 kernel, Bias bias, Conv3dOptions options = {});
  Tensor forward(const Tensor& x) const;
  /// With the output padding that makes the result's spatial extents `size`; throws if none does.
  Tensor forward_to(const Tensor& x, Dims3 size) const;
  void visit(Visitor& v) override;
  std::string describe() const override;

 private:
  Conv3dOptions options_;
  Parameter weight_, bias_;
  bool has_bias_;
};

/// y = x w^T + b over the last axis; weight (O, I) by xavier_normal, bias 0.
class Linear final : public Module {
 public:
  Linear(int64_t in, int64_t out, Bias bias);
  Tensor forward(const Tensor& x) const;
  void visit(Visitor& v) override;
  std::string describe() const override;

 private:
  Parameter weight_, bias_;
  bool has_bias_;
};

}  // namespace bora::nn
