// SPDX-License-Identifier: Apache-2.0
#include "kernels/linear.hpp"

#include "kernels/conv3d.hpp"

namespace bora::kernels {
namespace {

void check_call(const char* op, const Tensor& x, const Tensor& w, const Tensor& y) {
  BORA_CHECK(x.defined() && w.defined() && y.defined(), op, ": a tensor is undefined");
  BORA_CHECK(y.shape() == linear_output_shape(x.shape(), w.shape()), op, ": output ", y.shape(),
             " does not belong to input ", x.shape(), " and weight ", w.shape());
  BORA_CHECK(x.dtype() == y.dtype() && is_float(x.dtype()), op, ": types ", x.dtype(), " and ",
             y.dtype(), ", wanted one floating type");
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
  Tensor out = as_rows(y);
  conv3d_forward(stream, {}, as_rows(x), as_kernel(w), bias, out);
}

void linear_backward_data(Stream stream, const Tensor& dy, const Tensor& w, Tensor& dx) {
  check_call("linear (data gradient)", dx, w, dy);
  Tensor out = as_rows(dx);
  conv3d_backward_data(stream, {}, as_rows(dy), as_kernel(w), Tensor(), out);
}

void linear_backward_weights(Stream stream, const Tensor& x, const Tensor& dy, GradientMode mode,
                             Tensor& dw) {
  check_call("linear (weight gradient)", x, dw, dy);
  Tensor out = as_kernel(dw);
  conv3d_backward_weights(stream, {}, as_rows(x), as_rows(dy), mode, out);
}

}  // namespace bora::kernels
