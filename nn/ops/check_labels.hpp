// SPDX-License-Identifier: Apache-2.0
// The check of labels, shared by the ops of class losses.
#pragma once

#include "core/tensor.hpp"

namespace bora::nn {

/// sums (N, K, 5) of class_loss_sums: every counting cell must have been found under a class.  Only
/// on the CPU; on a device the loss is NaN instead: reading the sums there would stall the step.
inline void check_labels(const char* op, const Tensor& sums) {
  if (sums.device().type != DeviceType::cpu) return;
  const int64_t classes = sums.size(1);
  const double* s = sums.data<double>();
  for (int64_t n = 0; n < sums.size(0); ++n, s += classes * 5) {
    double labelled = 0.0;
    for (int64_t k = 0; k < classes; ++k) labelled += s[k * 5 + 2];
    BORA_CHECK(labelled == s[4], op, ": ", s[4] - labelled, " labels of sample ", n,
               " are not below the number of classes, ", classes);
  }
}

}  // namespace bora::nn
