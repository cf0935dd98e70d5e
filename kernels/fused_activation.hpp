// SPDX-License-Identifier: Apache-2.0
// Activations as functors with value and derivative at the pre-activation z, for kernels that fuse
// them (norm).
#pragma once

#include <cmath>

#include "core/error.hpp"
#include "kernels/fast_math.hpp"

namespace bora::kernels {

/// The order is that of nn::Activation.
enum class ActivationKind { identity, relu, leaky_relu, silu, gelu, sigmoid, tanh };

/// An activation with its attribute.
struct FusedActivation {
  ActivationKind kind = ActivationKind::identity;
  double slope = 0.01;  ///< of leaky_relu, >= 0
};

struct IdentityAt {
  static constexpr bool kNeedsZ = false;  ///< does the derivative depend on z?
  template <class A>
  BORA_HD A value(A z) const {
    return z;
  }
  template <class A>
  BORA_HD A derivative(A) const {
    return A(1);
  }
};

struct ReluAt {
  static constexpr bool kNeedsZ = true;
  template <class A>
  BORA_HD A value(A z) const {
    return z < A(0) ? A(0) : z;  // NaN stays NaN
  }
  template <class A>
  BORA_HD A derivative(A z) const {
    return z > A(0) ? A(1) : A(0);
  }
};

struct LeakyReluAt {
  static constexpr bool kNeedsZ = true;
  double slope;
  template <class A>
  BORA_HD A value(A z) const {
    return z > A(0) ? z : A(slope) * z;
  }
  template <class A>
  BORA_HD A derivative(A z) const {
    return z > A(0) ? A(1) : A(slope);
  }
};

struct SiluAt {
  static constexpr bool kNeedsZ = true;
  template <class A>
  BORA_HD A value(A z) const {
    return z / (A(1) + fast_exp(-z));
  }
  template <class A>
  BORA_HD A derivative(A z) const {
    const A s = fast_sigmoid(z);
    return s * (A(1) + z * (A(1) - s));
  }
};

/// The kinds that are rarely fused, chosen at run time.
struct RareActivationAt {
  static constexpr bool kNeedsZ = true;
  ActivationKind kind;
  template <class A>
  BORA_HD A value(A z) const {
    if (kind == ActivationKind::sigmoid) return fast_sigmoid(z);
    if (kind == ActivationKind::tanh) return ::tanh(z);
    return A(0.5) * z * (A(1) + ::erf(z * A(0.70710678118654752)));  // gelu
  }
  template <class A>
  BORA_HD A derivative(A z) const {
    if (kind == ActivationKind::sigmoid) {
      const A s = fast_sigmoid(z);
      return s * (A(1) - s);
    }
    if (kind == ActivationKind::tanh) {
      const A t = ::tanh(z);
      return (A(1) - t) * (A(1) + t);
    }
    const A phi = A(0.39894228040143268) * ::exp(A(-0.5) * z * z);
    return A(0.5) * (A(1) + ::erf(z * A(0.70710678118654752))) + z * phi;
  }
};

/// Any kind, chosen at run time: for code that is not made once a kind.
struct AnyActivationAt {
  static constexpr bool kNeedsZ = true;
  FusedActivation activation;
  template <class A>
  BORA_HD A value(A z) const {
    switch (activation.kind) {
      case ActivationKind::identity:
        return IdentityAt{}.value(z);
      case ActivationKind::relu:
        return ReluAt{}.value(z);
      case ActivationKind::leaky_relu:
        return LeakyReluAt{activation.slope}.value(z);
      case ActivationKind::silu:
        return SiluAt{}.value(z);
      default:
        return RareActivationAt{activation.kind}.value(z);
    }
  }
  template <class A>
  BORA_HD A derivative(A z) const {
    switch (activation.kind) {
      case ActivationKind::identity:
        return IdentityAt{}.derivative(z);
      case ActivationKind::relu:
        return ReluAt{}.derivative(z);
      case ActivationKind::leaky_relu:
        return LeakyReluAt{activation.slope}.derivative(z);
      case ActivationKind::silu:
        return SiluAt{}.derivative(z);
      default:
        return RareActivationAt{activation.kind}.derivative(z);
    }
  }
};

/// Calls f with the functor of `activation`.
template <class F>
decltype(auto) dispatch_activation(const FusedActivation& activation, F&& f) {
  switch (activation.kind) {
    case ActivationKind::identity:
      return f(IdentityAt{});
    case ActivationKind::relu:
      return f(ReluAt{});
    case ActivationKind::leaky_relu:
      return f(LeakyReluAt{activation.slope});
    case ActivationKind::silu:
      return f(SiluAt{});
    case ActivationKind::gelu:
    case ActivationKind::sigmoid:
    case ActivationKind::tanh:
      return f(RareActivationAt{activation.kind});
  }
  BORA_FAIL("dispatch_activation: unknown kind ", static_cast<int>(activation.kind));
}

}  // namespace bora::kernels
