// SPDX-License-Identifier: Apache-2.0
// PlainUnet: the usual 3-D U-Net, a second network to time against other frameworks.
#pragma once

#include <memory>
#include <vector>

#include "nn/layers/conv3d.hpp"
#include "nn/layers/norm.hpp"
#include "nn/module.hpp"

namespace bora::bench {

/// (conv 3x3x3 with bias -> GroupNorm(8) -> ReLU) twice.  (N, D, H, W, in) -> (N, D, H, W, out).
class PlainBlock final : public nn::Module {
 public:
  PlainBlock(int64_t in, int64_t out);
  Tensor forward(const Tensor& x);
  void visit(nn::Visitor& v) override;

 private:
  nn::Conv3d conv1_, conv2_;
  nn::Norm norm1_, norm2_;
};

/// Four levels of base, 2 base, 4 base, 8 base channels.  Down: block, 2x2x2 max pooling.  Up:
/// trilinear interpolation to the skip's size, conv 3x3x3 (2c -> c), concat(skip, upsampled),
/// block.  Head: conv 1x1x1.  18 convolutions, all with bias; 1.61 M parameters at base 16, 6.42 M
/// at 32, with one channel in and out.  (N, D, H, W, in) -> (N, D, H, W, out), extents of at least
/// 8.
class PlainUnet final : public nn::Module {
 public:
  static constexpr int kLevels = 4;
  PlainUnet(int64_t in_channels, int64_t out_channels, int64_t base);
  /// Throws Error if the channels or an extent do not fit.
  Tensor forward(const Tensor& x);
  void visit(nn::Visitor& v) override;

 private:
  int64_t in_channels_;
  std::vector<std::unique_ptr<PlainBlock>> encoder_;  // the last is the bottom
  std::vector<nn::Conv3d> up_;                        // up_[l] leads to the size of encoder_[l]
  std::vector<std::unique_ptr<PlainBlock>> decoder_;
  nn::Conv3d head_;
};

}  // namespace bora::bench
