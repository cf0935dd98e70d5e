// SPDX-License-Identifier: Apache-2.0
#include "core/op.hpp"
#include "kernels/pool3d.hpp"
#include "kernels/volume.hpp"
#include "nn/ops.hpp"

namespace bora::nn {
namespace {

struct MaxPool3d {
  static constexpr OpInfo info{"max_pool3d", Precision::follow};
  kernels::Pool3d pool;
  Shape from{};
  Tensor forward(OpContext& c, const Tensor& x) {
    const kernels::Volume in = kernels::volume_of(x, info.name);
    from = x.shape();
    Tensor y =
        c.empty(kernels::shape_of({in.n, kernels::pooled_size(in.size, pool), in.c}), x.dtype());
    Tensor winner = c.empty(y.shape(), DType::u8);
    kernels::max_pool3d_forward(c.stream(), pool, x, y, winner);
    c.save(winner);
    return y;
  }
  Tensor backward(OpContext& c, const Tensor& dy) const {
    // A skip connection reads the same tensor: add to its gradient.  (In 16 bits a separate sum is
    // faster: it converts whole runs.)
    const bool narrow = dy.dtype() == DType::f16 || dy.dtype() == DType::bf16;
    Tensor dx = narrow ? Tensor() : c.partial(0);
    const auto mode = dx.defined() ? kernels::GradientMode::add : kernels::GradientMode::overwrite;
    if (!dx.defined()) dx = c.empty(from, dy.dtype());
    kernels::max_pool3d_backward(c.stream(), pool, dy, c.saved(0), mode, dx);
    return dx;
  }
};

struct AvgPool3d {
  static constexpr OpInfo info{"avg_pool3d", Precision::follow};
  kernels::Pool3d pool;
  Shape from{};
  Tensor forward(OpContext& c, const Tensor& x) {
    const kernels::Volume in = kernels::volume_of(x, info.name);
    from = x.shape();
    Tensor y =
        c.empty(kernels::shape_of({in.n, kernels::pooled_size(in.size, pool), in.c}), x.dtype());
    kernels::avg_pool3d_forward(c.stream(), pool, x, y);
    return y;
  }
  Tensor backward(OpContext& c, const Tensor& dy) const {
    Tensor dx = c.empty(from, dy.dtype());
    kernels::avg_pool3d_backward(c.stream(), pool, dy, dx);
    return dx;
  }
};

kernels::Pool3d pool_of(const PoolOptions& o) { return {o.kernel, o.stride, o.padding}; }

}  // namespace

Tensor max_pool3d(const Tensor& x, const PoolOptions& options) {
  return apply(MaxPool3d{pool_of(options)}, x);
}

Tensor avg_pool3d(const Tensor& x, const PoolOptions& options) {
  return apply(AvgPool3d{pool_of(options)}, x);
}

}  // namespace bora::nn
