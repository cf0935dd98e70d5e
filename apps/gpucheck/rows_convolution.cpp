// SPDX-License-Identifier: Apache-2.0
// Rows of kernels/conv3d.hpp and kernels/linear.hpp: the libraries' work, and own kernels beside
// it.
#include "apps/gpucheck/kernel_table.hpp"
#include "kernels/conv3d.hpp"
#include "kernels/linear.hpp"
#include "kernels/linear_bias.hpp"

namespace bora::gpucheck {
namespace {

namespace k = kernels;

const k::Conv3dAttributes kSame{.padding = Dims3::all(1)};
constexpr int64_t kOut = 8;

Shape with_channels(const Shape& s, int64_t c) { return s.with(-1, c); }
Shape kernel_shape(const Shape& s) { return {kOut, 3, 3, 3, s[4]}; }
double conv_flops(const Shape& s) {
  return 2.0 * 27 * static_cast<double>(s.numel()) * static_cast<double>(kOut);
}

void conv_forward(KernelRun& r, const Shape& s) {
  const Tensor x = r.input(s), w = r.input(kernel_shape(s)), bias = r.input({kOut});
  Tensor y = r.output(with_channels(s, kOut));
  r.flops = conv_flops(s);
  r.call([&] { k::conv3d_forward(r.stream(), kSame, x, w, bias, y); });
}
void conv_backward_data(KernelRun& r, const Shape& s) {
  const Tensor dy = r.input(with_channels(s, kOut)), w = r.input(kernel_shape(s));
  Tensor dx = r.output(s);
  r.flops = conv_flops(s);
  r.call([&] { k::conv3d_backward_data(r.stream(), kSame, dy, w, Tensor(), dx); });
}
void conv_backward_weights(KernelRun& r, const Shape& s) {
  const Tensor x = r.input(s), dy = r.input(with_channels(s, kOut));
  Tensor dw = r.output(kernel_shape(s), Role::accumulator);
  r.flops = conv_flops(s);
  r.call([&] {
    k::conv3d_backward_weights(r.stream(), kSame, x, dy, k::GradientMode::overwrite, dw);
  });
}
void channel_sum(KernelRun& r, const Shape& s) {
  const Tensor dy = r.input(s);
  Tensor db = r.inout(r.input({s[4]}, Role::accumulator));
  r.call([&] { k::channel_sum(r.stream(), dy, k::GradientMode::add, db); });
}

// The head of a network: 1x1x1 to few channels, on a device by an own kernel where channels come in
// packs.  Bytes count, not arithmetic.
constexpr int64_t kHeadOut = 3;

Shape head_kernel(const Shape& s) { return {kHeadOut, 1, 1, 1, s[4]}; }

void head_forward(KernelRun& r, const Shape& s) {
  const Tensor x = r.input(s), w = r.input(head_kernel(s)), bias = r.input({kHeadOut});
  Tensor y = r.output(with_channels(s, kHeadOut));
  r.call([&] { k::conv3d_forward(r.stream(), {}, x, w, bias, y); });
}
void head_backward_data(KernelRun& r, const Shape& s) {
  const Tensor dy = r.input(with_channels(s, kHeadOut)), w = r.input(head_kernel(s));
  Tensor dx = r.output(s);
  r.call([&] { k::conv3d_backward_data(r.stream(), {}, dy, w, Tensor(), dx); });
}
void head_backward_weights(KernelRun& r, const Shape& s) {
  const Tensor x = r.input(s), dy = r.input(with_channels(s, kHeadOut));
  Tensor dw = r.inout(r.input(head_kernel(s), Role::accumulator));
  r.call([&] { k::conv3d_backward_weights(r.stream(), {}, x, dy, k::GradientMode::add, dw); });
}

double linear_flops(const Shape& s) { return conv_flops(s) / 27; }

void linear_forward(KernelRun& r, const Shape& s) {
  const Tensor x = r.input(s), w = r.input({kOut, s[4]}), bias = r.input({kOut});
  Tensor y = r.output(with_channels(s, kOut));
  r.flops = linear_flops(s);
  r.call([&] { k::linear_forward(r.stream(), x, w, bias, y); });
}
void linear_backward_data(KernelRun& r, const Shape& s) {
  const Tensor dy = r.input(with_channels(s, kOut)), w = r.input({kOut, s[4]});
  Tensor dx = r.output(s);
  r.flops = linear_flops(s);
  r.call([&] { k::linear_backward_data(r.stream(), dy, w, dx); });
}
void linear_backward_weights(KernelRun& r, const Shape& s) {
  const Tensor x = r.input(s), dy = r.input(with_channels(s, kOut));
  Tensor dw = r.inout(r.input({kOut, s[4]}, Role::accumulator));
  r.flops = linear_flops(s);
  r.call([&] { k::linear_backward_weights(r.stream(), x, dy, k::GradientMode::add, dw); });
}
void spread_rows(KernelRun& r, const Shape& s) {
  const Tensor row = r.input({s[4]});
  Tensor y = r.output({s.numel() / s[4], s[4]});
  r.call([&] { k::spread_rows(r.stream(), row, y); });
}
void matmul(KernelRun& r, const Shape& s) {
  const int64_t rows = s.numel() / s[4];
  const Tensor a = r.input({rows, s[4]}), b = r.input({s[4], kOut});
  Tensor c = r.output({rows, kOut});
  r.flops = linear_flops(s);
  r.call([&] { k::matmul(r.stream(), k::MatmulForm::plain, a, b, c); });
}

}  // namespace

std::vector<Row> convolution_rows() {
  // Sums of n products of normal numbers: their size grows as sqrt(n), their bound as n.  With
  // roundings counted as sqrt(27 * 33) + the tree's, and a factor of 4 for the longest run of luck.
  // Own CPU kernels (Winograd) are a few times worse than a direct sum.
  const double terms = 32;
  return {{.name = "conv3d_forward",
           .run = conv_forward,
           .roundings = terms,
           .amplification = 8,
           .per_sample = true,
           .by_library = true},
          {.name = "conv3d_backward_data",
           .run = conv_backward_data,
           .roundings = terms,
           .amplification = 8,
           .per_sample = true,
           .by_library = true},
          // On a device the library writes a gradient of 16-bit operands in their type.
          {.name = "conv3d_backward_weights",
           .run = conv_backward_weights,
           .roundings = 2 * terms,
           .amplification = 16,
           .stores_between = 1},
          {.name = "head_forward",
           .run = head_forward,
           .roundings = terms,
           .amplification = 4,
           .per_sample = true},
          {.name = "head_backward_data",
           .run = head_backward_data,
           .roundings = terms,
           .amplification = 4,
           .per_sample = true},
          {.name = "head_backward_weights",
           .run = head_backward_weights,
           .roundings = 2 * terms,
           .amplification = 16,
           .stores_between = 1},
          {.name = "channel_sum", .run = channel_sum, .roundings = 2 * terms, .amplification = 16},
          {.name = "linear_forward", .run = linear_forward, .roundings = terms, .amplification = 4},
          {.name = "linear_backward_data",
           .run = linear_backward_data,
           .roundings = terms,
           .amplification = 4},
          {.name = "linear_backward_weights",
           .run = linear_backward_weights,
           .roundings = 2 * terms,
           .amplification = 16},
          {.name = "spread_rows", .run = spread_rows, .roundings = 0},
          {.name = "matmul", .run = matmul, .roundings = terms, .amplification = 4}};
}

}  // namespace bora::gpucheck
