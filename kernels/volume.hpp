// SPDX-License-Identifier: Apache-2.0
// The parts of a volume batch's shape (N, D, H, W, C), checked.
#pragma once

#include "core/tensor.hpp"

namespace bora::kernels {

struct Volume {
  int64_t n;
  Dims3 size;
  int64_t c;
  int64_t cells() const { return n * size.count(); }
};

/// Throws Error naming `what` unless t has five axes.
inline Volume volume_of(const Tensor& t, const char* what) {
  BORA_CHECK(t.defined() && t.rank() == 5, what, ": wants a volume batch (N, D, H, W, C), got ",
             t.defined() ? t.shape() : Shape{}, t.defined() ? "" : " (undefined)");
  return {t.size(0), {t.size(1), t.size(2), t.size(3)}, t.size(4)};
}

/// The shape of a volume batch.
inline Shape shape_of(const Volume& v) { return {v.n, v.size.d, v.size.h, v.size.w, v.c}; }

/// Throws Error naming `what` unless `t` has the wanted shape, type and device.
inline void check_tensor(const Tensor& t, const Shape& shape, DType type, Device device,
                         const char* what) {
  BORA_CHECK(t.defined() && t.shape() == shape && t.dtype() == type && t.device() == device, what,
             ": got ", t.shape(), ' ', t.dtype(), " on ", t.device(), ", wanted ", shape, ' ', type,
             " on ", device);
}

}  // namespace bora::kernels
