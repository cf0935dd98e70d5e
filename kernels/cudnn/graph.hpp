// SPDX-License-Identifier: Apache-2.0
// A convolution as an operation graph of cuDNN.  The plan test (tests/cudnn) builds the same graphs
// by the same function.
#pragma once

#include <vector>

#include "kernels/cudnn/descriptor.hpp"
#include "kernels/cudnn/problem.hpp"

namespace bora::kernels::cudnn {

/// By what numbers a variant pack names the tensors of a graph.
inline constexpr int64_t kIdX = 1, kIdW = 2, kIdY = 3, kIdBias = 4;

/// A finalised graph and the descriptors that it stands on.
struct ConvGraph {
  std::vector<Descriptor> parts;
  Descriptor graph;
};

/// The graph of `key`: tensors channels last, sums in f32, with key.bias an addition behind the
/// convolution, with key.add beta = 1.  Throws Error with cuDNN's reason if it refuses the graph.
ConvGraph build_graph(const ConvKey& key);

}  // namespace bora::kernels::cudnn
