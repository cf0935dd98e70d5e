// SPDX-License-Identifier: Apache-2.0
// The convolutions of the networks that the check trains.
#pragma once

#include <string>
#include <vector>

#include "kernels/conv3d.hpp"

namespace bora::gpucheck {

/// A convolution from x to y; a transposed one is listed as the one whose adjoint it is.
struct Layer {
  std::string text{};  ///< "2x128x128x128x32 -> 32 k3 s1"
  kernels::Conv3dAttributes attributes{};
  Shape x{}, w{}, y{};
  bool transposed = false;
  bool data_gradient = true;  ///< false for layers that read the input
  int64_t count = 1;          ///< how many of the network's layers look so
};

/// The distinct convolutions of "mlperf" or "wind" (see networks.hpp), in the order of their first
/// use.  Throws UsageError for another name.
std::vector<Layer> layers_of(const std::string& network, int64_t base, int64_t batch,
                             int64_t extent);

}  // namespace bora::gpucheck
