// SPDX-License-Identifier: Apache-2.0
#include "kernels/pointwise.hpp"

#include "core/op.hpp"
#include "nn/ops.hpp"

namespace bora::nn {
namespace {

void check_same(const char* op, const Tensor& a, const Tensor& b) {
  BORA_CHECK(a.defined() && b.defined(), op, ": an input is undefined");
  BORA_CHECK(a.shape() == b.shape() && a.dtype() == b.dtype(), op, ": inputs are ", a.shape(), ' ',
             a.dtype(), " and ", b.shape(), ' ', b.dtype(), ", wanted equal shapes and types");
}

void check_float(const char* op, const Tensor& x) {
  BORA_CHECK(x.defined() && is_float(x.dtype()), op, ": wants a floating tensor, got ",
             x.defined() ? name_of(x.dtype()) : "an undefined one");
}

struct Add {
  static constexpr OpInfo info{"add", Precision::follow};
  Tensor forward(OpContext& c, const Tensor& a, const Tensor& b) const {
    Tensor y = c.like(a);
    kernels::add(c.stream(), a, b, y);
    return y;
  }
  std::array<Tensor, 2> backward(OpContext&, const Tensor& dy) const { return {dy, dy}; }
};

struct Mul {
  static constexpr OpInfo info{"mul", Precision::follow};
  Tensor forward(OpContext& c, const Tensor& a, const Tensor& b) const {
    Tensor y = c.like(a);
    kernels::mul(c.stream(), a, b, y);
    c.save(c.wants(1) ? a : Tensor(), c.wants(0) ? b : Tensor());
    return y;
  }
  std::array<Tensor, 2> backward(OpContext& c, const Tensor& dy) const {
    std::array<Tensor, 2> gradients;
    for (int i = 0; i < 2; ++i) {
      if (!c.wants(i)) continue;
      Tensor& dx = gradients[static_cast<size_t>(i)];
      dx = c.like(dy);
      kernels::mul(c.stream(), dy, c.saved(1 - i), dx);
    }
    return gradients;
  }
};

struct Scale {
  static constexpr OpInfo info{"scale", Precision::follow};
  double factor;
  Tensor forward(OpContext& c, const Tensor& x) const {
    Tensor y = c.like(x);
    kernels::scale(c.stream(), factor, x, y);
    return y;
  }
  Tensor backward(OpContext& c, const Tensor& dy) const { return forward(c, dy); }
};

struct Reshape {
  static constexpr OpInfo info{"reshape", Precision::follow};
  Shape shape;
  Shape from{};
  Tensor forward(OpContext&, const Tensor& x) {
    from = x.shape();
    return x.detach().reshape(shape);
  }
  Tensor backward(OpContext&, const Tensor& dy) const { return dy.reshape(from); }
};

struct Sum {
  static constexpr OpInfo info{"sum", Precision::full};
  double factor = 1.0;
  Shape shape{};
  DType type{};
  Tensor forward(OpContext& c, const Tensor& x) {
    shape = x.shape();
    type = x.dtype();
    Tensor y = c.empty({}, kernels::sum_type(type));
    kernels::sum(c.stream(), factor, x, y);
    return y;
  }
  Tensor backward(OpContext& c, const Tensor& dy) const {
    Tensor dx = c.empty(shape, type);
    kernels::spread(c.stream(), factor, dy, dx);
    return dx;
  }
};

struct Mean : Sum {
  static constexpr OpInfo info{"mean", Precision::full};
};

struct Dropout {
  static constexpr OpInfo info{"dropout", Precision::follow};
  double p;
  RngKey key{};
  Tensor forward(OpContext& c, const Tensor& x) {
    key = c.rng();
    return apply_mask(c, x);
  }
  Tensor backward(OpContext& c, const Tensor& dy) const { return apply_mask(c, dy); }
  Tensor apply_mask(OpContext& c, const Tensor& x) const {
    Tensor y = c.like(x);
    kernels::dropout(c.stream(), key, p, x, y);
    return y;
  }
};

}  // namespace

Tensor add(const Tensor& a, const Tensor& second) {
  const Tensor b = autocast_like(a, second);
  check_same("add", a, b);
  return apply(Add{}, a, b);
}

Tensor mul(const Tensor& a, const Tensor& second) {
  const Tensor b = autocast_like(a, second);
  check_same("mul", a, b);
  return apply(Mul{}, a, b);
}

Tensor scale(const Tensor& x, double factor) {
  check_float("scale", x);
  return apply(Scale{factor}, x);
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  BORA_CHECK(x.defined(), "reshape: the input is undefined");
  BORA_CHECK(x.numel() == shape.numel(), "reshape: from ", x.shape(), " to ", shape,
             ", which has another number of elements");
  return apply(Reshape{shape}, x);
}

Tensor cast(const Tensor& x, DType type) { return bora::cast(x, type); }

Tensor sum(const Tensor& x) {
  check_float("sum", x);
  return apply(Sum{}, x);
}

Tensor mean(const Tensor& x) {
  check_float("mean", x);
  BORA_CHECK(x.numel() > 0, "mean: of no elements, shape ", x.shape());
  Mean op;
  op.factor = 1.0 / static_cast<double>(x.numel());
  return apply(op, x);
}

Tensor dropout(const Tensor& x, double p) {
  check_float("dropout", x);
  BORA_CHECK(p >= 0.0 && p < 1.0, "dropout: p is ", p, ", wanted 0 <= p < 1");
  return apply(Dropout{p}, x);
}

}  // namespace bora::nn
