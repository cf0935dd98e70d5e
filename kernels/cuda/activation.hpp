// SPDX-License-Identifier: Apache-2.0
// Fused activations for device code: those of kernels/fused_activation.hpp, with attributes in the
// arithmetic type (a double in an inner loop costs a conversion) and, for 16-bit data, an
// exponential of two instructions: at 4.3 TB/s a norm's apply pass has some 26 instructions an
// element, and an accurate silu alone takes more.
#pragma once

#include "kernels/cuda/vector.hpp"
#include "kernels/fused_activation.hpp"

namespace bora::kernels::cuda {

template <class A>
struct LeakyReluOf {
  static constexpr bool kNeedsZ = true;
  A slope;
  BORA_HD A value(A z) const { return z > A(0) ? z : slope * z; }
  BORA_HD A derivative(A z) const { return z > A(0) ? A(1) : slope; }
};

/// Silu for results that are rounded to 16 bits.  e^-z = 2^(-z log2 e): relative error below
/// 2^-21 for |z| < 16 (2 ulp of ex2.approx, 2^-24 |z| log2 e of its argument), beyond which silu is
/// 0 or z to 16 bits.
struct SiluNarrow {
  static constexpr bool kNeedsZ = true;
  BORA_HD static float sigmoid(float z) {
#if defined(__CUDA_ARCH__)
    float e;
    asm("ex2.approx.f32 %0, %1;" : "=f"(e) : "f"(z * -1.44269504088896f));
    float s;
    asm("rcp.approx.f32 %0, %1;" : "=f"(s) : "f"(1.0f + e));
    return s;
#else
    return fast_sigmoid(z);
#endif
  }
  BORA_HD float value(float z) const { return z * sigmoid(z); }
  BORA_HD float derivative(float z) const {
    const float s = sigmoid(z);
    return s * (1.0f + z * (1.0f - s));
  }
};

/// Calls f with the functor of `activation` for data in T.
template <class T, class F>
void dispatch_device_activation(const FusedActivation& activation, F&& f) {
  switch (activation.kind) {
    case ActivationKind::identity:
      return f(IdentityAt{});
    case ActivationKind::relu:
      return f(ReluAt{});
    case ActivationKind::leaky_relu:
      return f(LeakyReluOf<acc_t<T>>{static_cast<acc_t<T>>(activation.slope)});
    case ActivationKind::silu:
      if constexpr (sizeof(T) == 2) {
        return f(SiluNarrow{});
      } else {
        return f(SiluAt{});
      }
    default:
      return f(RareActivationAt{activation.kind});
  }
}

}  // namespace bora::kernels::cuda
