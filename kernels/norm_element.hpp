// SPDX-License-Identifier: Apache-2.0
// What one element of a norm's backward is, for the CPU's loops and for the launch shapes.
#pragma once

#include "core/portable.hpp"
#include "kernels/norm.hpp"

namespace bora::kernels {

/// dz of one element; `centred` is x - mean.
template <class T, class Act>
BORA_HD inline acc_t<T> dz_at(const Act& act, T dy, acc_t<T> centred, acc_t<T> scale,
                              acc_t<T> shift, acc_t<T> residual) {
  using A = acc_t<T>;
  if constexpr (Act::kNeedsZ)
    return static_cast<A>(dy) * act.derivative(centred * scale + shift + residual);
  else
    return static_cast<A>(dy);
}

}  // namespace bora::kernels
