// SPDX-License-Identifier: Apache-2.0
// 1x1x1 convolutions on AVX-512: what pointwise_avx512.cpp offers to pointwise.cpp.  As
// winograd_kernels.hpp, whose conditions hold here too.
#pragma once

#include "kernels/cpu/winograd_kernels.hpp"

namespace bora::kernels::cpu::winograd {

/// y (rows, c_out) = x (rows, c_in) u + bias.
struct Pointwise {
  Storage storage;
  int64_t c_in, c_out;
  const void* x;
  const float* u;     ///< [panel of kPanel output channels][c_in][its channels], whole vectors
  const float* bias;  ///< c_out values or nullptr
  void* y;
};
/// Floats of scratch for each of the two.
int64_t pointwise_scratch_floats(int64_t c_in, int64_t c_out);
/// Rows [begin, begin + rows).
void pointwise_rows(const Pointwise& call, int64_t begin, int64_t rows, float* scratch);
/// dw (c_in, c_out rounded up to kLanes) becomes the sum over the rows of x^T dy.
void pointwise_gradient(const Pointwise& call, const void* dy, int64_t begin, int64_t rows,
                        float* scratch, float* dw);

}  // namespace bora::kernels::cpu::winograd
