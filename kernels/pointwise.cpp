// SPDX-License-Identifier: Apache-2.0
#include "kernels/pointwise.hpp"

#include "kernels/for_each.hpp"
#include "kernels/map.hpp"
#include "kernels/reduce.hpp"
#include "kernels/volume.hpp"

namespace bora::kernels {
namespace {

struct Add {
  template <class A>
  BORA_HD A operator()(A a, A b) const {
    return a + b;
  }
};

struct Mul {
  template <class A>
  BORA_HD A operator()(A a, A b) const {
    return a * b;
  }
};

struct Scale {
  double factor;
  template <class A>
  BORA_HD A operator()(A x) const {
    return static_cast<A>(factor) * x;
  }
};

template <class T>
struct Sum {
  using Element = acc_t<T>;
  static constexpr int kWidth = 1;
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  using State = Lanes<Element, 1>;
  Element factor;
  const T* x;
  Element* y;

  BORA_HD State identity() const { return {{Element(0)}}; }
  BORA_HD void add(State& s, int64_t, int64_t offset, int64_t) const { s.v[0] += load(x[offset]); }
  BORA_HD void merge(State& a, const State& b) const { a.v[0] += b.v[0]; }
  BORA_HD void store(int64_t, int64_t, const State& s) const { *y = factor * s.v[0]; }
};

template <class T>
struct Spread {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  acc_t<T> factor;
  const acc_t<T>* s;
  T* y;
  BORA_HD void operator()(int64_t i) const { y[i] = static_cast<T>(factor * *s); }
};

// One call serves the four elements that share a random block.
template <class T>
struct Dropout {
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  RngKey key;
  float p;
  acc_t<T> keep_scale;
  int64_t n;
  const T* x;
  T* y;
  BORA_HD void operator()(int64_t block) const {
    const Philox4 bits = philox4x32(key.seed, static_cast<uint64_t>(block), key.stream);
    for (int j = 0; j < 4; ++j) {
      const int64_t i = 4 * block + j;
      if (i >= n) return;
      const float u = static_cast<float>(bits.v[j] >> 8) * 5.9604644775390625e-8f;  // as uniform(i)
      y[i] = u >= p ? static_cast<T>(keep_scale * load(x[i])) : static_cast<T>(acc_t<T>(0));
    }
  }
};

}  // namespace

void add(Stream stream, const Tensor& a, const Tensor& b, Tensor& out) {
  map(stream, "add", Add{}, out, a, b);
}

void mul(Stream stream, const Tensor& a, const Tensor& b, Tensor& out) {
  map(stream, "mul", Mul{}, out, a, b);
}

void scale(Stream stream, double factor, const Tensor& x, Tensor& y) {
  map(stream, "scale", Scale{factor}, y, x);
}

void sum(Stream stream, double factor, const Tensor& x, Tensor& y) {
  check_tensor(y, Shape{}, sum_type(x.dtype()), x.device(), "sum: result");
  dispatch_float(x.dtype(), "sum", [&]<class T>() {
    using A = acc_t<T>;
    reduce_rows(stream, 1, x.numel(), Sum<T>{static_cast<A>(factor), x.data<T>(), y.data<A>()});
  });
}

void spread(Stream stream, double factor, const Tensor& s, Tensor& y) {
  check_tensor(s, Shape{}, sum_type(y.dtype()), y.device(), "spread: scalar");
  dispatch_float(y.dtype(), "spread", [&]<class T>() {
    using A = acc_t<T>;
    for_each(stream, y.numel(), Spread<T>{static_cast<A>(factor), s.data<A>(), y.data<T>()});
  });
}

void dropout(Stream stream, RngKey key, double p, const Tensor& x, Tensor& y) {
  BORA_CHECK(p >= 0.0 && p < 1.0, "dropout: p is ", p, ", wanted 0 <= p < 1");
  check_tensor(y, x.shape(), x.dtype(), x.device(), "dropout: result");
  dispatch_float(x.dtype(), "dropout", [&]<class T>() {
    using A = acc_t<T>;
    for_each(stream, (x.numel() + 3) / 4,
             Dropout<T>{key, static_cast<float>(p), static_cast<A>(1.0 / (1.0 - p)), x.numel(),
                        x.data<T>(), y.data<T>()});
  });
}

}  // namespace bora::kernels
