// SPDX-License-Identifier: Apache-2.0
// The convolutions of a network, each timed alone: what the rest of a step is held against.
#pragma once

#include <string>
#include <vector>

#include "apps/bench/step.hpp"
#include "core/tensor.hpp"

namespace bora::bench {

/// A convolution with a cubic kernel, stride 1, that keeps the extents.
struct Convolution {
  Shape x;  ///< (N, D, H, W, I)
  int64_t out = 0;
  int64_t kernel = 3;
  bool bias = false;
  bool data_gradient = true;  ///< false for layers that read the input
  int64_t count = 1;          ///< how many of the network's layers look so

  std::string text() const;  ///< "1x64x64x64x16 -> 16 k3"
  /// Direct arithmetic of one of its passes: 2 N D H W k^3 I O.
  double flops() const;
  int n_passes() const { return data_gradient ? 3 : 2; }
};

/// The distinct convolutions of the network of `config`, in the order of their first use.  Throws
/// UsageError for model.up=transposed.
std::vector<Convolution> convolutions_of(const StepConfig& config);
/// Direct arithmetic of a step's convolutions.
double total_flops(const std::vector<Convolution>& convolutions);

struct ConvolutionTime {
  double forward_s = 0, data_s = 0, weights_s = 0;
  double total_s() const { return forward_s + data_s + weights_s; }
};
/// Least time of each pass in oneDNN (never our own kernels) over `rounds` calls after a first one,
/// in type f32, bf16 or f16.  Not while another thread runs convolutions.
ConvolutionTime time_convolution(const Convolution& c, DType type, int rounds);

}  // namespace bora::bench
