// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear.hpp"

#include "kernels/conv3d.hpp"
#include "kernels/cublas/linear.hpp"

namespace bora::kernels {
namespace {

void check_call(const char* op, const Tensor& x, const Tensor& w, const Tensor& y) {
  BORA_CHECK(x.defined() && w.defined() && y.defined(), op, ": a tensor is undefined");
  BORA_CHECK(y.shape() == linear_output_shape(x.shape(), w.shape()), op, ": output ", y.shape(),
             " does not belong to input ", x.shape(), " and weight ", w.shape());
  BORA_CHECK(x.dtype() == y.dtype() && is_float(x.dtype()), op, ": types ", x.dtype(), " and ",
             y.dtype(), ", wanted one floating type");
}

void check_devices(const char* op, const Tensor& a, const Tensor& b, const Tensor& c) {
  BORA_CHECK(a.device() == b.device() && a.device() == c.device(), op, ": devices ", a.device(),
             ", ", b.device(), " and ", c.device(), ", wanted one");
}
/// What the convolutions check on the CPU.
void check_operands(const char* op, const Tensor& a, const Tensor& b, const Tensor& c) {
  check_devices(op, a, b, c);
  BORA_CHECK(a.dtype() == b.dtype(), op, ": types ", a.dtype(), " and ", b.dtype(),
             ", wanted one type");
}
void check_bias(const Tensor& bias, const Tensor& y) {
  if (!bias.defined()) return;
  BORA_CHECK(bias.shape() == Shape{y.size(-1)}, "linear: bias ", bias.shape(), ", wanted (",
             y.size(-1), ")");
  BORA_CHECK(bias.dtype() == y.dtype() && bias.device() == y.device(), "linear: bias is ",
             bias.dtype(), " on ", bias.device(), ", wanted ", y.dtype(), " on ", y.device());
}

/// (..., C) as (1, rows, 1, 1, C): rows along D, so that the convolution can cut them into pieces.
Tensor as_rows(const Tensor& t) {
  int64_t rows = 1;
  for (int i = 0; i + 1 < t.rank(); ++i) rows *= t.size(i);
  return t.detach().reshape({1, rows, 1, 1, t.size(-1)});
}
Tensor as_kernel(const Tensor& w) { return w.detach().reshape({w.size(0), 1, 1, 1, w.size(1)}); }

}  // namespace

Shape linear_output_shape(const Shape& x, const Shape& w) {
  BORA_CHECK(x.rank() >= 1 && w.rank() == 2, "linear: input ", x, ", weight ", w,
             ", wanted (..., I) and (O, I)");
  BORA_CHECK(x.at(-1) == w[1], "linear: weight ", w, " wants ", w[1], " input features, input has ",
             x.at(-1), " ", x);
  return x.with(-1, w[0]);
}

void linear_forward(Stream stream, const Tensor& x, const Tensor& w, const Tensor& bias,
                    Tensor& y) {
  check_call("linear", x, w, y);
  if (x.device().type == DeviceType::cuda) {
    check_operands("linear", x, w, y);
    check_bias(bias, y);
    BORA_IF_CUDA(return cuda::linear_forward(stream, x, w, bias, y));
  }
  Tensor out = as_rows(y);
  conv3d_forward(stream, {}, as_rows(x), as_kernel(w), bias, out);
}

void linear_backward_data(Stream stream, const Tensor& dy, const Tensor& w, Tensor& dx) {
  check_call("linear (data gradient)", dx, w, dy);
  if (dy.device().type == DeviceType::cuda) {
    check_operands("linear (data gradient)", dy, w, dx);
    BORA_IF_CUDA(return cuda::linear_backward_data(stream, dy, w, dx));
  }
  Tensor out = as_rows(dx);
  conv3d_backward_data(stream, {}, as_rows(dy), as_kernel(w), Tensor(), out);
}

void linear_backward_weights(Stream stream, const Tensor& x, const Tensor& dy, GradientMode mode,
                             Tensor& dw) {
  check_call("linear (weight gradient)", x, dw, dy);
  if (x.device().type == DeviceType::cuda) {
    check_devices("linear (weight gradient)", x, dy, dw);
    BORA_CHECK(dw.dtype() == x.dtype() || (dw.dtype() == DType::f32 && x.dtype() != DType::f64),
               "linear (weight gradient): gradient buffer is ", dw.dtype(), " for ", x.dtype(),
               " values");
    BORA_IF_CUDA(return cuda::linear_backward_weights(stream, x, dy, mode, dw));
  }
  Tensor out = as_kernel(dw);
  conv3d_backward_weights(stream, {}, as_rows(x), as_rows(dy), mode, out);
}

void matmul(Stream stream, MatmulForm form, const Tensor& a, const Tensor& b, Tensor& c) {
  BORA_CHECK(a.defined() && b.defined() && c.defined(), "matmul: a tensor is undefined");
  BORA_CHECK(a.rank() == 2 && b.rank() == 2, "matmul: factors ", a.shape(), " and ", b.shape(),
             ", wanted two matrices");
  const bool ta = form == MatmulForm::a_transposed, tb = form == MatmulForm::b_transposed;
  BORA_CHECK(a.size(ta ? 0 : 1) == b.size(tb ? 1 : 0), "matmul: factors ", a.shape(), " and ",
             b.shape(), " do not fit, form ", static_cast<int>(form));
  const Shape wanted{a.size(ta ? 1 : 0), b.size(tb ? 0 : 1)};
  BORA_CHECK(c.shape() == wanted, "matmul: result ", c.shape(), ", wanted ", wanted);
  BORA_CHECK(a.dtype() == c.dtype() && is_float(a.dtype()), "matmul: types ", a.dtype(), " and ",
             c.dtype(), ", wanted one floating type");
  check_operands("matmul", a, b, c);
  if (a.device().type == DeviceType::cuda) BORA_IF_CUDA(return cuda::matmul(stream, form, a, b, c));
  // The linear map and its gradients are these three.
  switch (form) {
    case MatmulForm::plain:
      return linear_backward_data(stream, a, b, c);
    case MatmulForm::b_transposed:
      return linear_forward(stream, a, b, Tensor(), c);
    case MatmulForm::a_transposed:
      return linear_backward_weights(stream, b, a, GradientMode::overwrite, c);
  }
}

}  // namespace bora::kernels
