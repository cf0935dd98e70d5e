// SPDX-License-Identifier: Apache-2.0
// A head and its loss in one kernel: outputs live in registers, neither they nor their gradient are
// ever in memory.  Byte floors, with A = the size of x: sums A (+ targets, n_out / channels of A in
// f32, or labels, a byte a cell; + region, a byte a cell); backward 2 A (+ the same).
#pragma once

#include "kernels/head_loss.hpp"

namespace bora::kernels::cuda {

/// Whether the functions below take a head w (O, 1, 1, 1, I) on x (N, D, H, W, I): O <= 8, I a
/// multiple of a pack (8 elements of a 16-bit type, 4 of f32) and at most 32 packs, x and w where
/// packs may start.
bool head_loss_applies(const HeadInput& in);

/// As in kernels/head_loss.hpp; arguments are checked there.
void head_data_loss_sums(Stream stream, const DataLossAttributes& attributes, const HeadInput& in,
                         const Tensor& target, const Tensor& region, Tensor& sums);
void head_data_loss_backward(Stream stream, const DataLossAttributes& attributes,
                             const HeadInput& in, const Tensor& target, const Tensor& region,
                             const Tensor& sums, const Tensor& dloss, HeadGradients& out);
void head_class_loss_sums(Stream stream, const HeadInput& in, const Tensor& labels,
                          const Tensor& region, Tensor& sums);
void head_class_loss_backward(Stream stream, const ClassLossAttributes& attributes,
                              const HeadInput& in, const Tensor& labels, const Tensor& region,
                              const Tensor& sums, const Tensor& dloss, HeadGradients& out);

}  // namespace bora::kernels::cuda
