// SPDX-License-Identifier: Apache-2.0
#include "kernels/cublas/gemm_call.hpp"

#include <algorithm>

namespace bora::kernels::cuda {

GemmCall gemm_call(MatmulForm form, const Tensor& a, const Tensor& b, GradientMode mode,
                   Tensor& c) {
  BORA_CHECK(a.rank() == 2 && b.rank() == 2 && c.rank() == 2, "gemm_call: ", a.shape(), ", ",
             b.shape(), ", ", c.shape(), ", wanted three matrices");
  // A row-major (R, C) matrix is the column-major C x R one with leading dimension C.  cuBLAS's A
  // is our b, its B our a; what we want transposed is then not, and the other way round twice.
  GemmCall call;
  call.transpose_a = form == MatmulForm::b_transposed;
  call.transpose_b = form == MatmulForm::a_transposed;
  call.m = c.size(1);
  call.n = c.size(0);
  call.k = form == MatmulForm::a_transposed ? a.size(0) : a.size(1);
  call.a = b.raw();
  call.b = a.raw();
  call.c = c.raw();
  // At least 1 even for an empty matrix: cuBLAS refuses 0.
  call.lda = std::max<int64_t>(1, b.size(1));
  call.ldb = std::max<int64_t>(1, a.size(1));
  call.ldc = std::max<int64_t>(1, c.size(1));
  call.type = a.dtype();
  call.result_type = c.dtype();
  call.beta = mode == GradientMode::add ? 1 : 0;
  return call;
}

}  // namespace bora::kernels::cuda
