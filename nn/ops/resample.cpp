// SPDX-License-Identifier: Apache-2.0
#include "kernels/resample.hpp"

#include "core/op.hpp"
#include "kernels/volume.hpp"
#include "nn/ops.hpp"

namespace bora::nn {
namespace {

struct UpsampleTrilinear {
  static constexpr OpInfo info{"upsample_trilinear", Precision::follow};
  Dims3 size;
  Shape from{};
  Tensor forward(OpContext& c, const Tensor& x) {
    const kernels::Volume in = kernels::volume_of(x, info.name);
    from = x.shape();
    Tensor y = c.empty(kernels::shape_of({in.n, size, in.c}), x.dtype());
    kernels::upsample_trilinear_forward(c.stream(), x, y);
    return y;
  }
  Tensor backward(OpContext& c, const Tensor& dy) const {
    Tensor dx = c.empty(from, dy.dtype());
    kernels::upsample_trilinear_backward(c.stream(), dy, dx);
    return dx;
  }
};

struct UpsampleNearest {
  static constexpr OpInfo info{"upsample_nearest", Precision::follow};
  Dims3 size;
  Shape from{};
  Tensor forward(OpContext& c, const Tensor& x) {
    const kernels::Volume in = kernels::volume_of(x, info.name);
    from = x.shape();
    Tensor y = c.empty(kernels::shape_of({in.n, size, in.c}), x.dtype());
    kernels::upsample_nearest_forward(c.stream(), x, y);
    return y;
  }
  Tensor backward(OpContext& c, const Tensor& dy) const {
    Tensor dx = c.empty(from, dy.dtype());
    kernels::upsample_nearest_backward(c.stream(), dy, dx);
    return dx;
  }
};

}  // namespace

Tensor upsample_trilinear(const Tensor& x, Dims3 size) { return apply(UpsampleTrilinear{size}, x); }

Tensor upsample_nearest(const Tensor& x, Dims3 size) { return apply(UpsampleNearest{size}, x); }

}  // namespace bora::nn
