// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.hpp"

#include <cmath>

#include "kernels/for_each.hpp"
#include "kernels/fused_activation.hpp"
#include "kernels/map.hpp"
#include "kernels/volume.hpp"

namespace bora::kernels {
namespace {

template <class At>
struct Value {
  At at;
  template <class A>
  BORA_HD A operator()(A x) const {
    return at.value(x);
  }
};

// The derivative at x.
template <class At>
struct GradientAtX {
  At at;
  template <class A>
  BORA_HD A operator()(A x, A dy) const {
    return at.derivative(x) * dy;
  }
};

// dx = dy where y > 0, slope * dy elsewhere; y > 0 where x > 0, since slope >= 0.
struct LeakyGradientAtY {
  double slope;
  template <class A>
  BORA_HD A operator()(A y, A dy) const {
    return y > A(0) ? dy : static_cast<A>(slope) * dy;
  }
};

struct ReluGradientAtY {
  template <class A>
  BORA_HD A operator()(A y, A dy) const {
    return y > A(0) ? dy : A(0);
  }
};

struct LeakyRelu {
  double slope;
  template <class A>
  BORA_HD A operator()(A x) const {
    return x > A(0) ? x : static_cast<A>(slope) * x;
  }
};

struct Gelu {
  template <class A>
  BORA_HD A operator()(A x) const {
    // erfc keeps the tail: 1 + erf(x / sqrt 2) cancels for x < -2.
    return A(0.5) * x * ::erfc(x * A(-0.70710678118654752));
  }
};

struct GeluGradient {
  template <class A>
  BORA_HD A operator()(A x, A dy) const {
    const A phi = A(0.39894228040143268) * fast_exp(A(-0.5) * x * x);
    return dy * (A(0.5) * ::erfc(x * A(-0.70710678118654752)) + x * phi);
  }
};

struct SigmoidGradient {
  template <class A>
  BORA_HD A operator()(A y, A dy) const {
    return dy * y * (A(1) - y);
  }
};

struct Tanh {
  template <class A>
  BORA_HD A operator()(A x) const {
    return ::tanh(x);
  }
};

struct TanhGradient {
  template <class A>
  BORA_HD A operator()(A y, A dy) const {
    return dy * (A(1) - y) * (A(1) + y);
  }
};

struct Sigmoid {
  template <class A>
  BORA_HD A operator()(A x) const {
    return fast_sigmoid(x);
  }
};

template <class T>
struct Softmax {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  using A = acc_t<T>;
  int64_t k;
  const T* x;
  T* y;
  BORA_HD void operator()(int64_t row) const {
    const T* in = x + row * k;
    T* out = y + row * k;
    A largest = load(in[0]);
    for (int64_t i = 1; i < k; ++i) largest = load(in[i]) > largest ? load(in[i]) : largest;
    A total = A(0);
    for (int64_t i = 0; i < k; ++i) total += fast_exp(load(in[i]) - largest);
    const A factor = A(1) / total;
    for (int64_t i = 0; i < k; ++i)
      out[i] = static_cast<T>(fast_exp(load(in[i]) - largest) * factor);
  }
};

template <class T>
struct SoftmaxGradient {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  using A = acc_t<T>;
  int64_t k;
  const T* y;
  const T* dy;
  T* dx;
  BORA_HD void operator()(int64_t row) const {
    const int64_t at = row * k;
    A dot = A(0);
    for (int64_t i = at; i < at + k; ++i) dot += load(y[i]) * load(dy[i]);
    for (int64_t i = at; i < at + k; ++i) dx[i] = static_cast<T>(load(y[i]) * (load(dy[i]) - dot));
  }
};

void check_slope(double slope) {
  BORA_CHECK(slope >= 0.0, "leaky_relu: slope is ", slope, ", wanted at least 0");
}

}  // namespace

void relu_forward(Stream s, const Tensor& x, Tensor& y) { map(s, "relu", Value<ReluAt>{}, y, x); }
void relu_backward(Stream s, const Tensor& y, const Tensor& dy, Tensor& dx) {
  map(s, "relu backward", ReluGradientAtY{}, dx, y, dy);
}

void leaky_relu_forward(Stream s, double slope, const Tensor& x, Tensor& y) {
  check_slope(slope);
  map(s, "leaky_relu", LeakyRelu{slope}, y, x);
}
void leaky_relu_backward(Stream s, double slope, const Tensor& y, const Tensor& dy, Tensor& dx) {
  check_slope(slope);
  map(s, "leaky_relu backward", LeakyGradientAtY{slope}, dx, y, dy);
}

void silu_forward(Stream s, const Tensor& x, Tensor& y) { map(s, "silu", Value<SiluAt>{}, y, x); }
void silu_backward(Stream s, const Tensor& x, const Tensor& dy, Tensor& dx) {
  map(s, "silu backward", GradientAtX<SiluAt>{}, dx, x, dy);
}

void gelu_forward(Stream s, const Tensor& x, Tensor& y) { map(s, "gelu", Gelu{}, y, x); }
void gelu_backward(Stream s, const Tensor& x, const Tensor& dy, Tensor& dx) {
  map(s, "gelu backward", GeluGradient{}, dx, x, dy);
}

void sigmoid_forward(Stream s, const Tensor& x, Tensor& y) { map(s, "sigmoid", Sigmoid{}, y, x); }
void sigmoid_backward(Stream s, const Tensor& y, const Tensor& dy, Tensor& dx) {
  map(s, "sigmoid backward", SigmoidGradient{}, dx, y, dy);
}

void tanh_forward(Stream s, const Tensor& x, Tensor& y) { map(s, "tanh", Tanh{}, y, x); }
void tanh_backward(Stream s, const Tensor& y, const Tensor& dy, Tensor& dx) {
  map(s, "tanh backward", TanhGradient{}, dx, y, dy);
}

void softmax_forward(Stream stream, const Tensor& x, Tensor& y) {
  BORA_CHECK(x.defined() && x.rank() >= 1 && x.size(-1) >= 1,
             "softmax: wants a last axis of at least one element, got ", x.shape());
  check_tensor(y, x.shape(), x.dtype(), x.device(), "softmax: result");
  const int64_t k = x.size(-1);
  dispatch_float(x.dtype(), "softmax", [&]<class T>() {
    for_each(stream, x.numel() / k, Softmax<T>{k, x.data<T>(), y.data<T>()});
  });
}

void softmax_backward(Stream stream, const Tensor& y, const Tensor& dy, Tensor& dx) {
  BORA_CHECK(y.defined() && y.rank() >= 1 && y.size(-1) >= 1,
             "softmax backward: wants a last axis of at least one element, got ", y.shape());
  check_tensor(dy, y.shape(), y.dtype(), y.device(), "softmax backward: dy");
  check_tensor(dx, y.shape(), y.dtype(), y.device(), "softmax backward: dx");
  const int64_t k = y.size(-1);
  dispatch_float(y.dtype(), "softmax backward", [&]<class T>() {
    for_each(stream, y.numel() / k, SoftmaxGradient<T>{k, y.data<T>(), dy.data<T>(), dx.data<T>()});
  });
}

}  // namespace bora::kernels
