// SPDX-License-Identifier: Apache-2.0
// Rows of kernels/pool3d.hpp, kernels/resample.hpp and kernels/rearrange.hpp.
#include "apps/gpucheck/kernel_table.hpp"
#include "kernels/masked_pool.hpp"
#include "kernels/pool3d.hpp"
#include "kernels/rearrange.hpp"
#include "kernels/resample.hpp"

namespace bora::gpucheck {
namespace {

namespace k = kernels;

Dims3 extents(const Shape& s) { return {s[1], s[2], s[3]}; }
Shape volume(const Shape& s, Dims3 d, int64_t channels) { return {s[0], d.d, d.h, d.w, channels}; }
Shape pooled(const Shape& s) { return volume(s, k::pooled_size(extents(s), {}), s[4]); }
Shape doubled(const Shape& s) { return volume(s, {2 * s[1], 2 * s[2], 2 * s[3]}, s[4]); }

using Resample = void (*)(Stream, const Tensor&, Tensor&);
auto resample(Resample kernel, bool forward) {
  return [kernel, forward](KernelRun& r, const Shape& shape) {
    const Shape large = doubled(shape);
    const Tensor in = r.input(forward ? shape : large);
    Tensor out = r.output(forward ? large : shape);
    r.call([&] { kernel(r.stream(), in, out); });
  };
}

std::vector<Row> pool_rows() {
  return {
      {.name = "max_pool3d_forward",
       .run =
           [](KernelRun& r, const Shape& shape) {
             const Tensor x = r.input(shape, Role::data, Fill::distinct);
             Tensor y = r.output(pooled(shape)), winner = r.output(pooled(shape), Role::u8);
             r.call([&] { k::max_pool3d_forward(r.stream(), {}, x, y, winner); });
           },
       .per_sample = true,
       .least_extent = 2},
      {.name = "max_pool3d_backward",
       .run =
           [](KernelRun& r, const Shape& shape) {
             const Tensor x = r.input(shape, Role::data, Fill::distinct);
             Tensor y = r.scratch(pooled(shape)), winner = r.scratch(pooled(shape), Role::u8);
             k::max_pool3d_forward(r.stream(), {}, x, y, winner);
             const Tensor dy = r.input(pooled(shape));
             Tensor dx = r.output(shape);
             r.moves({dy, winner, dx});
             r.call([&] {
               k::max_pool3d_backward(r.stream(), {}, dy, winner, k::GradientMode::overwrite, dx);
             });
           },
       .per_sample = true,
       .least_extent = 2},
      {.name = "avg_pool3d_forward",
       .run =
           [](KernelRun& r, const Shape& shape) {
             const Tensor x = r.input(shape);
             Tensor y = r.output(pooled(shape));
             r.call([&] { k::avg_pool3d_forward(r.stream(), {}, x, y); });
           },
       .roundings = 16,
       .least_extent = 2},
      {.name = "avg_pool3d_backward",
       .run =
           [](KernelRun& r, const Shape& shape) {
             const Tensor dy = r.input(pooled(shape));
             Tensor dx = r.output(shape);
             r.call([&] { k::avg_pool3d_backward(r.stream(), {}, dy, dx); });
           },
       .roundings = 16,
       .least_extent = 2},
      {.name = "masked_mean_pool",
       .run =
           [](KernelRun& r, const Shape& shape) {
             const Tensor x = r.input(shape);
             const Tensor region =
                 r.input({shape[0], shape[1], shape[2], shape[3]}, Role::u8, Fill::mask);
             const Shape to = pooled(shape);
             Tensor y = r.output(to);
             Tensor counts = r.output({to[0], to[1], to[2], to[3]}, Role::u8);
             r.call([&] { k::masked_mean_pool(r.stream(), Dims3::all(2), x, region, y, counts); });
           },
       .roundings = 2,
       .types = {DType::f32},
       .least_extent = 2}};
}

std::vector<Row> resample_rows() {
  // Forward: three weights and eight products; backward gathers at most 4^3.
  return {{.name = "upsample_trilinear_forward",
           .run = resample(k::upsample_trilinear_forward, true),
           .roundings = 24,
           .per_sample = true},
          {.name = "upsample_trilinear_backward",
           .run = resample(k::upsample_trilinear_backward, false),
           .roundings = 96,
           .per_sample = true},
          {.name = "upsample_nearest_forward",
           .run = resample(k::upsample_nearest_forward, true),
           .roundings = 0},
          {.name = "upsample_nearest_backward",
           .run = resample(k::upsample_nearest_backward, false),
           .roundings = 16}};
}

std::vector<Row> rearrange_rows() {
  return {{.name = "concat_channels",
           .run =
               [](KernelRun& r, const Shape& shape) {
                 const Shape other = shape.with(-1, shape[4] + 3);
                 const Tensor a = r.input(shape), b = r.input(other);
                 Tensor y = r.output(shape.with(-1, shape[4] + other[4]));
                 r.call([&] { k::concat_channels(r.stream(), {a, b}, y); });
               },
           .roundings = 0,
           .per_sample = true},
          {.name = "slice_channels",
           .run =
               [](KernelRun& r, const Shape& shape) {
                 const Tensor x = r.input(shape.with(-1, shape[4] + 5));
                 Tensor y = r.output(shape);
                 r.call([&] { k::slice_channels(r.stream(), 2, x, y); });
               },
           .roundings = 0},
          {.name = "slice_channels_backward",
           .run =
               [](KernelRun& r, const Shape& shape) {
                 const Tensor dy = r.input(shape);
                 Tensor dx = r.output(shape.with(-1, shape[4] + 5));
                 r.call([&] { k::slice_channels_backward(r.stream(), 2, dy, dx); });
               },
           .roundings = 0},
          {.name = "pad",
           .run =
               [](KernelRun& r, const Shape& shape) {
                 const Tensor x = r.input(shape);
                 Tensor y =
                     r.output(volume(shape, {shape[1] + 3, shape[2] + 2, shape[3] + 1}, shape[4]));
                 r.call([&] { k::pad(r.stream(), {1, 2, 0}, 0.5, x, y); });
               },
           .roundings = 0},
          {.name = "crop",
           .run =
               [](KernelRun& r, const Shape& shape) {
                 const Tensor x =
                     r.input(volume(shape, {shape[1] + 3, shape[2] + 2, shape[3] + 1}, shape[4]));
                 Tensor y = r.output(shape);
                 r.call([&] { k::crop(r.stream(), {1, 2, 0}, x, y); });
               },
           .roundings = 0}};
}

}  // namespace

std::vector<Row> volume_rows() {
  std::vector<Row> rows = pool_rows();
  for (auto more : {resample_rows(), rearrange_rows()})
    rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

}  // namespace bora::gpucheck
