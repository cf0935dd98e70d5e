// SPDX-License-Identifier: Apache-2.0
// LabelSwap: labels that name sides change places where the axis between the sides is mirrored.
#pragma once

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/tensor.hpp"
#include "data/transforms/config.hpp"

namespace bora::data {

class LabelSwap {
 public:
  /// Throws UsageError naming the key for an entry of swap_labels that is not <label>:<label>, two
  /// different ones of 0 to 254, or a label that stands twice.
  explicit LabelSwap(const TransformConfig& config,
                     const std::string& prefix = "volumes.transforms");

  /// Pairs of labels.
  const std::vector<std::pair<int, int>>& pairs() const { return pairs_; }
  /// The axis of `sides`, -1 for none.
  int axis() const { return axis_; }
  /// Swaps the labels of target, u8 of any shape, if its axis is mirrored.
  void apply(Tensor& target, const std::array<bool, 3>& flip) const;

 private:
  int axis_ = -1;
  std::vector<std::pair<int, int>> pairs_;
};

}  // namespace bora::data
