// SPDX-License-Identifier: Apache-2.0
// The check of labels and weights, shared by the ops of class losses.
#pragma once

#include "core/tensor.hpp"
#include "kernels/loss.hpp"

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

template <class A>
void check_weights(const char* op, const kernels::ClassCells& cells) {
  const A* w = cells.weights.data<A>();
  const uint8_t* region = cells.region.defined() ? cells.region.data<uint8_t>() : nullptr;
  for (int64_t i = 0; i < cells.weights.numel(); ++i)
    BORA_CHECK((region && region[i] == 0) || (w[i] >= A(0) && w[i] - w[i] == A(0)), op,
               ": the weight of cell ", i, " is ", w[i], ", wanted a finite number >= 0");
}

/// The same for sums of weighted cells, whose last number is NaN where something is wrong.
inline void check_cells(const char* op, const Tensor& sums, const kernels::ClassCells& cells) {
  if (sums.device().type != DeviceType::cpu || sums.numel() == 0) return;
  const int64_t classes = sums.size(1), samples = sums.size(0);
  const double* s = sums.data<double>();
  for (int64_t n = 0; n < samples; ++n, s += classes * 5) {
    if (s[4] >= 0.0) continue;
    if (cells.weights.dtype() == DType::f64)
      check_weights<double>(op, cells);
    else
      check_weights<float>(op, cells);
    throw Error(bora::detail::join(op, ": a label of sample ", n,
                                   " is not below the number of classes, ", classes));
  }
}

}  // namespace bora::nn
