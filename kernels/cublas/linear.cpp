// SPDX-License-Identifier: Apache-2.0
#include "kernels/cublas/linear.hpp"

#include "kernels/cublas/gemm_call.hpp"
#include "kernels/linear_bias.hpp"

namespace bora::kernels::cuda {
namespace {

/// (..., C) as (rows, C).
Tensor as_matrix(const Tensor& t) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < t.rank(); ++i) rows *= t.size(i);
  return t.detach().reshape({rows, t.size(-1)});
}

}  // namespace

void linear_forward(Stream stream, const Tensor& x, const Tensor& w, const Tensor& bias,
                    Tensor& y) {
  Tensor out = as_matrix(y);
  // The bias is laid down first and the product added to it: one rounding, as if it were fused.
  if (bias.defined()) spread_rows(stream, bias, out);
  gemm(stream, gemm_call(MatmulForm::b_transposed, as_matrix(x), w.detach(),
                         bias.defined() ? GradientMode::add : GradientMode::overwrite, out));
}

void linear_backward_data(Stream stream, const Tensor& dy, const Tensor& w, Tensor& dx) {
  Tensor out = as_matrix(dx);
  gemm(stream,
       gemm_call(MatmulForm::plain, as_matrix(dy), w.detach(), GradientMode::overwrite, out));
}

void linear_backward_weights(Stream stream, const Tensor& x, const Tensor& dy, GradientMode mode,
                             Tensor& dw) {
  gemm(stream, gemm_call(MatmulForm::a_transposed, as_matrix(dy), as_matrix(x), mode, dw));
}

void matmul(Stream stream, MatmulForm form, const Tensor& a, const Tensor& b, Tensor& c) {
  gemm(stream, gemm_call(form, a.detach(), b.detach(), GradientMode::overwrite, c));
}

}  // namespace bora::kernels::cuda
