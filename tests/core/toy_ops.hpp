// SPDX-License-Identifier: Apache-2.0
// Small f64 ops on the CPU for tests of the tape.  Each leaves its name in trace() when its
// backward runs.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/op.hpp"

namespace bora::toy {

inline std::vector<std::string>& trace() {
  static std::vector<std::string> names;
  return names;
}

inline Tensor values(const std::vector<double>& v) {
  return Tensor::from<double>({static_cast<int64_t>(v.size())}, v);
}

template <class F>
Tensor zip(const Tensor& a, const Tensor& b, F f) {
  Tensor y = Tensor::empty(a.shape(), DType::f64);
  for (int64_t i = 0; i < a.numel(); ++i)
    y.data<double>()[i] = f(a.data<double>()[i], b.data<double>()[i]);
  return y;
}

/// y = a b
struct Mul {
  static constexpr OpInfo info{"mul", Precision::follow};
  Tensor forward(OpContext& c, const Tensor& a, const Tensor& b) const {
    c.save(a, b);
    return zip(a, b, [](double x, double y) { return x * y; });
  }
  std::array<Tensor, 2> backward(OpContext& c, const Tensor& dy) const {
    trace().emplace_back("mul");
    const auto product = [](double x, double y) { return x * y; };
    return {c.wants(0) ? zip(dy, c.saved(1), product) : Tensor(),
            c.wants(1) ? zip(dy, c.saved(0), product) : Tensor()};
  }
};

/// y = a b, writing both gradients into sinks where there are some.
struct MulSink {
  static constexpr OpInfo info{"mul_sink", Precision::follow};
  Tensor forward(OpContext& c, const Tensor& a, const Tensor& b) const {
    c.save(a, b);
    return zip(a, b, [](double x, double y) { return x * y; });
  }
  std::array<Tensor, 2> backward(OpContext& c, const Tensor& dy) const {
    trace().emplace_back("mul_sink");
    std::array<Tensor, 2> out;
    for (int i = 0; i < 2; ++i) {
      if (!c.wants(i)) continue;
      const Tensor g = zip(dy, c.saved(1 - i), [](double x, double y) { return x * y; });
      Sink sink = c.sink(i, DType::f64);
      if (!sink) {
        out[static_cast<size_t>(i)] = g;
        continue;
      }
      trace().emplace_back(sink.add ? "sink add" : "sink overwrite");
      for (int64_t k = 0; k < g.numel(); ++k) {
        double& target = sink.buffer.data<double>()[k];
        target = (sink.add ? target : 0.0) + g.data<double>()[k];
      }
    }
    return out;
  }
};

/// y = a + b; both gradients are dy itself, nothing is saved.
struct Add {
  static constexpr OpInfo info{"add", Precision::follow};
  Tensor forward(OpContext&, const Tensor& a, const Tensor& b) const {
    return zip(a, b, [](double x, double y) { return x + y; });
  }
  std::array<Tensor, 2> backward(OpContext&, const Tensor& dy) const {
    trace().emplace_back("add");
    return {dy, dy};
  }
};

/// y = factor x; nothing is saved.
struct Scale {
  static constexpr OpInfo info{"scale", Precision::follow};
  double factor;
  Tensor forward(OpContext&, const Tensor& x) const {
    return zip(x, x, [&](double a, double) { return factor * a; });
  }
  Tensor backward(OpContext&, const Tensor& dy) const {
    trace().emplace_back("scale");
    return zip(dy, dy, [&](double a, double) { return factor * a; });
  }
};

/// y () = sum of x, over a list of tensors.
struct SumList {
  static constexpr OpInfo info{"sum_list", Precision::follow};
  std::vector<Shape> shapes{};
  Tensor forward(OpContext&, const std::vector<Tensor>& x) {
    double sum = 0;
    for (const Tensor& t : x) {
      shapes.push_back(t.shape());
      for (int64_t i = 0; i < t.numel(); ++i) sum += t.data<double>()[i];
    }
    return Tensor::scalar(sum);
  }
  std::vector<Tensor> backward(OpContext&, const Tensor& dy) const {
    trace().emplace_back("sum");
    std::vector<Tensor> out;
    for (const Shape& s : shapes) out.push_back(Tensor::full(s, dy.item(), DType::f64));
    return out;
  }
};

/// y = x, with no gradient.
struct Stop {
  static constexpr OpInfo info{"stop", Precision::follow};
  Tensor forward(OpContext&, const Tensor& x) const { return x.clone(); }
  Tensor backward(OpContext&, const Tensor&) const {
    trace().emplace_back("stop");
    return {};
  }
};

/// y = x; backward fails.
struct Fail {
  static constexpr OpInfo info{"fail", Precision::follow};
  Tensor forward(OpContext&, const Tensor& x) const { return x.clone(); }
  Tensor backward(OpContext&, const Tensor&) const { BORA_FAIL("on purpose"); }
};

/// y = x where a draw is below 1/2, else 0.
struct Drop {
  static constexpr OpInfo info{"drop", Precision::follow};
  RngKey key{};
  Tensor masked(const Tensor& x) const {
    Tensor y = Tensor::zeros(x.shape(), DType::f64);
    for (int64_t i = 0; i < x.numel(); ++i)
      if (key.uniform(static_cast<uint64_t>(i)) < 0.5f) y.data<double>()[i] = x.data<double>()[i];
    return y;
  }
  Tensor forward(OpContext& c, const Tensor& x) {
    key = c.rng();
    return masked(x);
  }
  Tensor backward(OpContext&, const Tensor& dy) const {
    trace().emplace_back("drop");
    return masked(dy);
  }
};

inline Tensor mul(const Tensor& a, const Tensor& b) { return apply(Mul{}, a, b); }
inline Tensor mul_sink(const Tensor& a, const Tensor& b) { return apply(MulSink{}, a, b); }
inline Tensor add(const Tensor& a, const Tensor& b) { return apply(Add{}, a, b); }
inline Tensor scale(const Tensor& x, double factor) { return apply(Scale{factor}, x); }
inline Tensor sum(const Tensor& x) { return apply_list(SumList{}, {x}); }
inline Tensor drop(const Tensor& x) { return apply(Drop{}, x); }

inline Tensor leaf(const std::vector<double>& v, const std::string& name) {
  return make_leaf(values(v), name);
}
/// The gradient of a leaf, as numbers.
inline std::vector<double> grad(const Tensor& x) {
  BORA_CHECK(leaf_of(x).has_gradient(), "leaf '", leaf_of(x).name(), "' got no gradient");
  return leaf_of(x).gradient().to_vector<double>();
}

}  // namespace bora::toy
