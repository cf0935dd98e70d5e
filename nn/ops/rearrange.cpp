// SPDX-License-Identifier: Apache-2.0
#include "kernels/rearrange.hpp"

#include "core/op.hpp"
#include "kernels/volume.hpp"
#include "nn/ops.hpp"

namespace bora::nn {
namespace {

struct Concat {
  static constexpr OpInfo info{"concat", Precision::follow};
  std::vector<Shape> shapes{};
  Tensor forward(OpContext& c, const std::vector<Tensor>& parts) {
    int64_t channels = 0;
    for (const Tensor& part : parts) {
      shapes.push_back(part.shape());
      channels += part.size(-1);
    }
    Tensor y = c.empty(parts[0].shape().with(-1, channels), parts[0].dtype());
    kernels::concat_channels(c.stream(), parts, y);
    return y;
  }
  std::vector<Tensor> backward(OpContext& c, const Tensor& dy) const {
    std::vector<Tensor> gradients(shapes.size());
    int64_t begin = 0;
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (c.wants(static_cast<int>(i))) {
        gradients[i] = c.empty(shapes[i], dy.dtype());
        kernels::slice_channels(c.stream(), begin, dy, gradients[i]);
      }
      begin += shapes[i].at(-1);
    }
    return gradients;
  }
};

struct SliceChannels {
  static constexpr OpInfo info{"slice_channels", Precision::follow};
  int64_t begin, end;
  Shape from{};
  Tensor forward(OpContext& c, const Tensor& x) {
    from = x.shape();
    Tensor y = c.empty(from.with(-1, end - begin), x.dtype());
    kernels::slice_channels(c.stream(), begin, x, y);
    return y;
  }
  Tensor backward(OpContext& c, const Tensor& dy) const {
    Tensor dx = c.empty(from, dy.dtype());
    kernels::slice_channels_backward(c.stream(), begin, dy, dx);
    return dx;
  }
};

struct Pad {
  static constexpr OpInfo info{"pad", Precision::follow};
  Dims3 before, after;
  double value;
  Shape from{};
  Tensor forward(OpContext& c, const Tensor& x) {
    const kernels::Volume in = kernels::volume_of(x, info.name);
    from = x.shape();
    const Dims3 size{in.size.d + before.d + after.d, in.size.h + before.h + after.h,
                     in.size.w + before.w + after.w};
    Tensor y = c.empty(kernels::shape_of({in.n, size, in.c}), x.dtype());
    kernels::pad(c.stream(), before, value, x, y);
    return y;
  }
  Tensor backward(OpContext& c, const Tensor& dy) const {
    Tensor dx = c.empty(from, dy.dtype());
    kernels::crop(c.stream(), before, dy, dx);
    return dx;
  }
};

struct Crop {
  static constexpr OpInfo info{"crop", Precision::follow};
  Dims3 offset, size;
  Shape from{};
  Tensor forward(OpContext& c, const Tensor& x) {
    const kernels::Volume in = kernels::volume_of(x, info.name);
    from = x.shape();
    Tensor y = c.empty(kernels::shape_of({in.n, size, in.c}), x.dtype());
    kernels::crop(c.stream(), offset, x, y);
    return y;
  }
  Tensor backward(OpContext& c, const Tensor& dy) const {
    Tensor dx = c.empty(from, dy.dtype());
    kernels::pad(c.stream(), offset, 0.0, dy, dx);
    return dx;
  }
};

void check_channels(const char* op, const Tensor& x) {
  BORA_CHECK(x.defined() && x.rank() >= 1, op, ": wants a tensor with a channel axis, got ",
             x.defined() ? "a scalar" : "an undefined one");
}

}  // namespace

Tensor concat(const std::vector<Tensor>& inputs) {
  BORA_CHECK(!inputs.empty(), "concat: of no tensors");
  std::vector<Tensor> parts;
  for (const Tensor& part : inputs) parts.push_back(autocast_like(inputs[0], part));
  for (const Tensor& part : parts) {
    check_channels("concat", part);
    BORA_CHECK(part.rank() == parts[0].rank() && part.dtype() == parts[0].dtype() &&
                   part.shape().with(-1, 0) == parts[0].shape().with(-1, 0),
               "concat: a part is ", part.shape(), ' ', part.dtype(), ", the first is ",
               parts[0].shape(), ' ', parts[0].dtype(),
               "; wanted the same type and extents, but for the channels");
  }
  return apply_list(Concat{}, parts);
}

Tensor slice_channels(const Tensor& x, int64_t begin, int64_t end) {
  check_channels("slice_channels", x);
  BORA_CHECK(0 <= begin && begin <= end && end <= x.size(-1), "slice_channels: [", begin, ", ", end,
             ") of ", x.shape());
  return apply(SliceChannels{begin, end}, x);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& sizes) {
  check_channels("split", x);
  int64_t total = 0;
  for (int64_t n : sizes) {
    BORA_CHECK(n >= 0, "split: a part of ", n, " channels");
    total += n;
  }
  BORA_CHECK(total == x.size(-1), "split: the parts have ", total, " channels, the input is ",
             x.shape());
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (int64_t n : sizes) {
    parts.push_back(slice_channels(x, begin, begin + n));
    begin += n;
  }
  return parts;
}

Tensor pad(const Tensor& x, Dims3 before, Dims3 after, double value) {
  for (int i = 0; i < 3; ++i)
    BORA_CHECK(before[i] >= 0 && after[i] >= 0, "pad: before ", before, ", after ", after,
               "; wanted none below 0 (use crop)");
  return apply(Pad{before, after, value}, x);
}

Tensor crop(const Tensor& x, Dims3 offset, Dims3 size) {
  for (int i = 0; i < 3; ++i)
    BORA_CHECK(offset[i] >= 0 && size[i] >= 0, "crop: offset ", offset, ", size ", size,
               "; wanted none below 0");
  return apply(Crop{offset, size}, x);
}

}  // namespace bora::nn
