// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation.hpp"

#include "core/op.hpp"
#include "nn/ops.hpp"

namespace bora::nn {
namespace {

struct Relu {
  static constexpr OpInfo info{"relu", Precision::follow};
  Tensor forward(OpContext& c, const Tensor& x) const {
    Tensor y = c.like(x);
    kernels::relu_forward(c.stream(), x, y);
    c.save(y);
    return y;
  }
  Tensor backward(OpContext& c, const Tensor& dy) const {
    Tensor dx = c.like(dy);
    kernels::relu_backward(c.stream(), c.saved(0), dy, dx);
    return dx;
  }
};

struct LeakyRelu {
  static constexpr OpInfo info{"leaky_relu", Precision::follow};
  double slope;
  Tensor forward(OpContext& c, const Tensor& x) const {
    Tensor y = c.like(x);
    kernels::leaky_relu_forward(c.stream(), slope, x, y);
    c.save(y);
    return y;
  }
  Tensor backward(OpContext& c, const Tensor& dy) const {
    Tensor dx = c.like(dy);
    kernels::leaky_relu_backward(c.stream(), slope, c.saved(0), dy, dx);
    return dx;
  }
};

struct Silu {
  static constexpr OpInfo info{"silu", Precision::follow};
  Tensor forward(OpContext& c, const Tensor& x) const {
    Tensor y = c.like(x);
    kernels::silu_forward(c.stream(), x, y);
    c.save(x);
    return y;
  }
  Tensor backward(OpContext& c, const Tensor& dy) const {
    Tensor dx = c.like(dy);
    kernels::silu_backward(c.stream(), c.saved(0), dy, dx);
    return dx;
  }
};

struct Gelu {
  static constexpr OpInfo info{"gelu", Precision::follow};
  Tensor forward(OpContext& c, const Tensor& x) const {
    Tensor y = c.like(x);
    kernels::gelu_forward(c.stream(), x, y);
    c.save(x);
    return y;
  }
  Tensor backward(OpContext& c, const Tensor& dy) const {
    Tensor dx = c.like(dy);
    kernels::gelu_backward(c.stream(), c.saved(0), dy, dx);
    return dx;
  }
};

struct Sigmoid {
  static constexpr OpInfo info{"sigmoid", Precision::follow};
  Tensor forward(OpContext& c, const Tensor& x) const {
    Tensor y = c.like(x);
    kernels::sigmoid_forward(c.stream(), x, y);
    c.save(y);
    return y;
  }
  Tensor backward(OpContext& c, const Tensor& dy) const {
    Tensor dx = c.like(dy);
    kernels::sigmoid_backward(c.stream(), c.saved(0), dy, dx);
    return dx;
  }
};

struct Tanh {
  static constexpr OpInfo info{"tanh", Precision::follow};
  Tensor forward(OpContext& c, const Tensor& x) const {
    Tensor y = c.like(x);
    kernels::tanh_forward(c.stream(), x, y);
    c.save(y);
    return y;
  }
  Tensor backward(OpContext& c, const Tensor& dy) const {
    Tensor dx = c.like(dy);
    kernels::tanh_backward(c.stream(), c.saved(0), dy, dx);
    return dx;
  }
};

struct Softmax {
  static constexpr OpInfo info{"softmax", Precision::full};
  Tensor forward(OpContext& c, const Tensor& x) const {
    Tensor y = c.like(x);
    kernels::softmax_forward(c.stream(), x, y);
    c.save(y);
    return y;
  }
  Tensor backward(OpContext& c, const Tensor& dy) const {
    Tensor dx = c.like(dy);
    kernels::softmax_backward(c.stream(), c.saved(0), dy, dx);
    return dx;
  }
};

void check_float(const char* op, const Tensor& x) {
  BORA_CHECK(x.defined() && is_float(x.dtype()), op, ": wants a floating tensor, got ",
             x.defined() ? name_of(x.dtype()) : "an undefined one");
}

}  // namespace

Tensor relu(const Tensor& x) {
  check_float("relu", x);
  return apply(Relu{}, x);
}

Tensor leaky_relu(const Tensor& x, double slope) {
  check_float("leaky_relu", x);
  BORA_CHECK(slope >= 0.0, "leaky_relu: slope is ", slope, ", wanted at least 0");
  return apply(LeakyRelu{slope}, x);
}

Tensor silu(const Tensor& x) {
  check_float("silu", x);
  return apply(Silu{}, x);
}

Tensor gelu(const Tensor& x) {
  check_float("gelu", x);
  return apply(Gelu{}, x);
}

Tensor sigmoid(const Tensor& x) {
  check_float("sigmoid", x);
  return apply(Sigmoid{}, x);
}

Tensor tanh(const Tensor& x) {
  check_float("tanh", x);
  return apply(Tanh{}, x);
}

Tensor softmax(const Tensor& x) {
  check_float("softmax", x);
  BORA_CHECK(x.rank() >= 1 && x.size(-1) >= 1,
             "softmax: wants a last axis of at least one element, got ", x.shape());
  return apply(Softmax{}, x);
}

}  // namespace bora::nn
