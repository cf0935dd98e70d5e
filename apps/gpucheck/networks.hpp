// SPDX-License-Identifier: Apache-2.0
// The networks that the GPU check trains, each with its loss and made-up samples.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "nn/layers/conv3d.hpp"
#include "nn/layers/norm.hpp"
#include "nn/module.hpp"

namespace bora::gpucheck {

/// The U-Net of MLPerf's training benchmark for image segmentation: six levels of base, 2, 4, 8, 10
/// and 10 times base channels (base 32: 32 .. 320).  Each level twice conv 3x3x3, instance norm,
/// ReLU; down by stride 2 in a level's first convolution, up by a transposed convolution 2x2x2,
/// then concat(skip, upsampled).  Head 1x1x1.  31.2 M parameters at base 32 with 1 channel in and 3
/// out.  (N, D, H, W, in) -> (N, D, H, W, out), extents multiples of 32.
/// Source: MLCommons training benchmarks, image segmentation, its network description.
class MlperfUnet final : public nn::Module {
 public:
  static constexpr int kLevels = 6;
  MlperfUnet(int64_t in_channels, int64_t out_channels, int64_t base = 32);
  /// Throws Error if the channels or an extent do not fit.
  Tensor forward(const Tensor& x) { return head_.forward(features(x)); }
  /// What the head reads: (N, D, H, W, base).
  Tensor features(const Tensor& x);
  const nn::Conv3d& head() const { return head_; }
  void visit(nn::Visitor& v) override;

 private:
  struct Block;
  int64_t in_channels_;
  std::vector<std::unique_ptr<nn::Module>> encoder_, decoder_;
  std::vector<nn::ConvTranspose3d> up_;  // up_[l] leads to the size of encoder_[l]
  nn::Conv3d head_;
};

/// A network with its task.
struct Problem {
  std::string text{};  ///< "mlperf 2x128x128x128"
  std::unique_ptr<nn::Module> network{};
  std::function<Tensor(const Tensor& x)> forward;
  std::function<Tensor(const Tensor& x, const Tensor& target)> loss;  ///< of forward(x)
  Tensor input{}, target{};  ///< on the CPU, f32 and what the loss wants
};

/// "mlperf" (dice and cross-entropy of 3 classes), "wind" (the trainer's network and loss) or
/// "plain" (group norm, pooling, trilinear; mean squared error; a target that can be
/// learnt).  Samples are a pure function of
/// the arguments.  Throws UsageError for another name.
Problem make_problem(const std::string& name, int64_t base, int64_t batch, int64_t extent);

}  // namespace bora::gpucheck
