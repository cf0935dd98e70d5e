// SPDX-License-Identifier: Apache-2.0
// Rows of the op table: convolutions and the linear map.  The references scatter each product to
// where it belongs, the other way round from the kernels.
#include <algorithm>

#include "nn/ops.hpp"
#include "tests/nn/op_cases.hpp"

namespace bora::test {
namespace {

/// Calls f(i_x, i_w, i_y) with flat indices for every product of the convolution from x (n, in,
/// c_in) with w (c_out, k, c_in / groups) to y (n, out, c_out).
template <class F>
void for_products(const Shape& x, const Shape& w, const Shape& y, const nn::Conv3dOptions& o, F f) {
  const auto row = [](const Shape& s, int64_t n, int64_t d, int64_t h, int64_t c) {
    return (((n * s[1] + d) * s[2] + h) * s[3] + c) * s[4];
  };
  const int64_t out_per_group = w[0] / o.groups;
  for (int64_t n = 0; n < x[0]; ++n)
    for (int64_t d = 0; d < x[1]; ++d)
      for (int64_t h = 0; h < x[2]; ++h)
        for (int64_t c = 0; c < x[3]; ++c)
          for (int64_t t = 0; t < w[1] * w[2] * w[3]; ++t) {
            const int64_t tap[3] = {t / (w[2] * w[3]), t / w[3] % w[2], t % w[3]};
            const int64_t at[3] = {d, h, c};
            int64_t to[3];
            bool inside = true;
            for (int a = 0; a < 3; ++a) {
              const int64_t v = at[a] + o.padding[a] - tap[a] * o.dilation[a];
              to[a] = v / o.stride[a];
              inside = inside && v >= 0 && v % o.stride[a] == 0 && to[a] < y[a + 1];
            }
            if (!inside) continue;
            for (int64_t q = 0; q < w[0]; ++q)
              for (int64_t i = 0; i < w[4]; ++i)
                f(row(x, n, d, h, c) + q / out_per_group * w[4] + i,
                  row(w, q, tap[0], tap[1], tap[2]) + i, row(y, n, to[0], to[1], to[2]) + q);
          }
}

std::vector<double> start(const Shape& y, const std::vector<double>* bias) {
  std::vector<double> out(static_cast<size_t>(y.numel()), 0.0);
  if (bias)
    for (size_t i = 0; i < out.size(); ++i) out[i] = (*bias)[i % bias->size()];
  return out;
}

OpCase conv_row(const std::string& name, const Shape& x, const Shape& w, const Shape& y, bool bias,
                const nn::Conv3dOptions& o) {
  OpCase c{.name = name, .op = "conv3d", .inputs = {normal(x), normal(w)}};
  if (bias) c.inputs.push_back(normal({w[0]}));
  c.run = [o, bias](const auto& in) {
    return nn::conv3d(in[0], in[1], bias ? in[2] : Tensor(), o);
  };
  c.reference = [=](const Values& in) {
    std::vector<double> out = start(y, bias ? &in[2] : nullptr);
    for_products(x, w, y, o, [&](int64_t ix, int64_t iw, int64_t iy) {
      out[static_cast<size_t>(iy)] +=
          in[0][static_cast<size_t>(ix)] * in[1][static_cast<size_t>(iw)];
    });
    return out;
  };
  // Terms of the longest sum: a weight's gradient over positions, or a value over taps.
  c.roundings = static_cast<double>(
      std::max(y.numel() / std::max<int64_t>(1, y[4]), w[1] * w[2] * w[3] * std::max(w[4], w[0])));
  c.saved_bytes = 0;
  return c;
}

/// x (n, in, I), w (I, k, O / groups) -> y: the products of the convolution from y to x.
OpCase transpose_row(const std::string& name, const Shape& x, const Shape& w, const Shape& y,
                     bool bias, const nn::Conv3dOptions& o) {
  OpCase c = conv_row(name, y, w, x, false, o);
  c.op = "conv_transpose3d";
  c.inputs = {normal(x), normal(w)};
  if (bias) c.inputs.push_back(normal({y[4]}));
  c.run = [o, bias](const auto& in) {
    return nn::conv_transpose3d(in[0], in[1], bias ? in[2] : Tensor(), o);
  };
  c.reference = [=](const Values& in) {
    std::vector<double> out = start(y, bias ? &in[2] : nullptr);
    for_products(y, w, x, o, [&](int64_t iy, int64_t iw, int64_t ix) {
      out[static_cast<size_t>(iy)] +=
          in[0][static_cast<size_t>(ix)] * in[1][static_cast<size_t>(iw)];
    });
    return out;
  };
  return c;
}

OpCase conv2d_row() {
  const nn::Conv3dOptions o{.stride = {1, 2, 1}, .padding = {0, 1, 2}, .dilation = {1, 1, 2}};
  const Shape x{2, 7, 6, 3}, w{4, 3, 3, 3}, y{2, 4, 6, 4};
  const Shape x5{2, 1, 7, 6, 3}, w5{4, 1, 3, 3, 3}, y5{2, 1, 4, 6, 4};
  OpCase c = conv_row("conv2d", x5, w5, y5, true, o);
  c.op = "conv2d";
  c.inputs = {normal(x), normal(w), normal({4})};
  c.run = [o](const auto& in) { return nn::conv2d(in[0], in[1], in[2], o); };
  return c;
}

OpCase linear_row(const std::string& name, const Shape& x, int64_t n_out, bool bias) {
  const int64_t n_in = x.at(-1), rows = n_in == 0 ? 0 : x.numel() / n_in;
  OpCase c{.name = name, .op = "linear", .inputs = {normal(x), normal({n_out, n_in})}};
  if (bias) c.inputs.push_back(normal({n_out}));
  c.run = [bias](const auto& in) { return nn::linear(in[0], in[1], bias ? in[2] : Tensor()); };
  c.reference = [=](const Values& in) {
    std::vector<double> out(static_cast<size_t>(rows * n_out), 0.0);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t o = 0; o < n_out; ++o) {
        double sum = bias ? in[2][static_cast<size_t>(o)] : 0.0;
        for (int64_t i = 0; i < n_in; ++i)
          sum +=
              in[0][static_cast<size_t>(r * n_in + i)] * in[1][static_cast<size_t>(o * n_in + i)];
        out[static_cast<size_t>(r * n_out + o)] = sum;
      }
    return out;
  };
  c.roundings = static_cast<double>(std::max({rows, n_in, n_out}));
  c.saved_bytes = 0;
  return c;
}

/// Nothing to differentiate: the gradients of weights are zero, not missing.
OpCase empty(OpCase c) {
  c.zero_gradient_ok = true;
  return c;
}
/// Large enough for several pieces and threads; few differences, since f64 loops are slow.
OpCase large(OpCase c) {
  c.differences = 3;
  return c;
}

const OpCases rows([] {
  const nn::Conv3dOptions same{.padding = Dims3::all(1)};
  return std::vector<OpCase>{
      conv_row("conv3d_same", {2, 4, 5, 3, 3}, {5, 3, 3, 3, 3}, {2, 4, 5, 3, 5}, true, same),
      conv_row("conv3d_1x1x1", {2, 3, 2, 5, 7}, {4, 1, 1, 1, 7}, {2, 3, 2, 5, 4}, true, {}),
      conv_row("conv3d_one_channel", {1, 5, 4, 6, 1}, {9, 3, 3, 3, 1}, {1, 5, 4, 6, 9}, false,
               same),
      conv_row("conv3d_head", {1, 3, 4, 5, 16}, {1, 1, 1, 1, 16}, {1, 3, 4, 5, 1}, true, {}),
      conv_row("conv3d_mixed", {2, 7, 6, 9, 4}, {6, 3, 1, 2, 2}, {2, 4, 4, 4, 6}, true,
               {.stride = {2, 2, 2}, .padding = {1, 1, 0}, .dilation = {1, 1, 2}, .groups = 2}),
      conv_row("conv3d_depthwise", {1, 4, 5, 6, 3}, {6, 3, 3, 3, 1}, {1, 4, 5, 6, 6}, false,
               {.padding = Dims3::all(1), .groups = 3}),
      empty(conv_row("conv3d_no_samples", {0, 4, 4, 4, 2}, {3, 3, 3, 3, 2}, {0, 4, 4, 4, 3}, true,
                     same)),
      large(conv_row("conv3d_pieces", {1, 12, 16, 16, 16}, {16, 3, 3, 3, 16}, {1, 12, 16, 16, 16},
                     true, same)),
      large(conv_row("conv3d_strided_pieces", {2, 16, 15, 16, 16}, {32, 3, 3, 3, 16},
                     {2, 8, 8, 8, 32}, false, {.stride = Dims3::all(2), .padding = Dims3::all(1)})),
      transpose_row("conv_transpose3d_up", {2, 3, 2, 4, 6}, {6, 2, 2, 2, 3}, {2, 6, 4, 8, 3}, true,
                    {.stride = Dims3::all(2)}),
      transpose_row("conv_transpose3d_mixed", {1, 3, 4, 5, 4}, {4, 3, 2, 3, 3}, {1, 6, 6, 8, 6},
                    true,
                    {.stride = {2, 2, 1},
                     .padding = {1, 1, 1},
                     .dilation = {1, 1, 2},
                     .groups = 2,
                     .output_padding = {1, 0, 1}}),
      transpose_row("conv_transpose3d_stride_1", {1, 3, 4, 5, 4}, {4, 3, 3, 3, 2}, {1, 3, 4, 5, 2},
                    false, same),
      large(transpose_row("conv_transpose3d_pieces", {1, 12, 8, 9, 32}, {32, 2, 2, 2, 16},
                          {1, 24, 16, 18, 16}, true, {.stride = Dims3::all(2)})),
      conv2d_row(),
      linear_row("linear", {5, 7}, 3, true),
      linear_row("linear_leading_axes", {2, 3, 4, 9}, 17, false),
      linear_row("linear_one_row", {6}, 4, true),
      empty(linear_row("linear_no_rows", {0, 6}, 4, true)),
      large(linear_row("linear_pieces", {3000, 40}, 70, true)),
  };
});

}  // namespace
}  // namespace bora::test
