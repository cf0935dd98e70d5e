// SPDX-License-Identifier: Apache-2.0
// GemmCall: one matrix product in cuBLAS's terms, as a value that pure code computes and tests look
// at; gemm() runs it.
#pragma once

#include "core/tensor.hpp"
#include "kernels/gradient_mode.hpp"
#include "kernels/linear.hpp"

namespace bora::kernels::cuda {

/// C = op(A) op(B) + beta C, all column-major: element (i, j) of a stored matrix lies at i + j ld.
/// op(A) is m x k, op(B) k x n, C m x n.  Sums in f32 (f64 for f64).
struct GemmCall {
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  int64_t lda = 1, ldb = 1, ldc = 1;
  DType type = DType::f32;         ///< of A and B
  DType result_type = DType::f32;  ///< of C
  double beta = 0;                 ///< 0: C is not read, 1: the product is added to it
};

/// The product as a call.  Our matrices are row-major, which is to cuBLAS the transpose: it is
/// asked for c^T = b^T a^T.  Tensors have rank 2 and fit (see matmul); mode `add` adds to c.
GemmCall gemm_call(MatmulForm form, const Tensor& a, const Tensor& b, GradientMode mode, Tensor& c);

/// Runs it on the stream: cuBLAS in a CUDA build, a plain loop on the emulated device.  Nothing is
/// done where C is empty; k = 0 gives beta C.
void gemm(Stream stream, const GemmCall& call);

}  // namespace bora::kernels::cuda
