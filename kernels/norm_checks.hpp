// SPDX-License-Identifier: Apache-2.0
// Argument checks shared by kernels/norm*.cpp.
#pragma once

#include "kernels/norm.hpp"

namespace bora::kernels {

/// The type statistics of x are kept in.
inline DType norm_parameter_type(const Tensor& x) {
  return x.dtype() == DType::f64 ? DType::f64 : DType::f32;
}

inline void check_norm_tensor(const char* op, const Tensor& t, const Shape& wanted, DType type,
                              const char* name) {
  BORA_CHECK(t.defined() && t.shape() == wanted && t.dtype() == type, op, ": ", name, " is ",
             t.shape(), " ", t.dtype(), t.defined() ? "" : " (undefined)", ", wanted ", wanted, " ",
             type);
}

inline void check_norm_input(const char* op, const NormShape& shape, const Tensor& x,
                             const char* name) {
  BORA_CHECK(shape.channels > 0 && shape.groups > 0 && shape.channels % shape.groups == 0, op, ": ",
             shape.groups, " groups of ", shape.channels,
             " channels; the number of groups must divide the channels");
  BORA_CHECK(x.defined() && x.numel() == shape.numel() && is_float(x.dtype()), op, ": ", name,
             " is ", x.shape(), " ", x.dtype(), ", wanted ", shape.numel(),
             " elements of a floating type");
}

inline void check_norm_like(const char* op, const Tensor& x, const Tensor& other,
                            const char* name) {
  BORA_CHECK(other.defined() && other.numel() == x.numel() && other.dtype() == x.dtype() &&
                 other.device() == x.device(),
             op, ": ", name, " is ", other.shape(), " ", other.dtype(), " on ", other.device(),
             ", x is ", x.shape(), " ", x.dtype(), " on ", x.device());
}

/// All that NormInput promises.
inline void check_norm(const char* op, const NormShape& shape, const NormInput& in) {
  check_norm_input(op, shape, in.x, "x");
  const DType type = norm_parameter_type(in.x);
  check_norm_tensor(op, in.statistics, {shape.samples, shape.groups, 3}, type, "statistics");
  check_norm_tensor(op, in.gamma, {shape.channels}, type, "gamma");
  check_norm_tensor(op, in.beta, {shape.channels}, type, "beta");
  if (in.residual.defined()) check_norm_like(op, in.x, in.residual, "residual");
}

}  // namespace bora::kernels
