// SPDX-License-Identifier: Apache-2.0
// Rows of kernels/activation.hpp and kernels/pointwise.hpp.
#include "apps/gpucheck/kernel_table.hpp"
#include "core/backend.hpp"
#include "kernels/activation.hpp"
#include "kernels/pointwise.hpp"

namespace bora::gpucheck {
namespace {

constexpr double kSlope = 0.01;

using Forward = void (*)(Stream, const Tensor&, Tensor&);
using Backward = void (*)(Stream, const Tensor&, const Tensor&, Tensor&);

auto forward(Forward kernel) {
  return [kernel](KernelRun& r, const Shape& shape) {
    const Tensor x = r.input(shape);
    Tensor y = r.output(shape);
    r.call([&] { kernel(r.stream(), x, y); });
  };
}
/// `saved` is x or y of the forward: positive and negative values either way, below 1 in magnitude
/// where it must be a result of tanh or of the logistic function.
auto backward(Backward kernel, Fill fill = Fill::normal) {
  return [kernel, fill](KernelRun& r, const Shape& shape) {
    const Tensor saved = r.input(shape, Role::data, fill);
    const Tensor dy = r.input(shape);
    Tensor dx = r.output(shape);
    r.call([&] { kernel(r.stream(), saved, dy, dx); });
  };
}

}  // namespace

std::vector<Row> activation_rows() {
  namespace k = kernels;
  // Library functions (exp, erf, tanh) are good to some units; 16 covers CUDA's documented 2.
  const double library = 16;
  std::vector<Row> rows{
      {.name = "relu_forward", .run = forward(k::relu_forward), .per_sample = true},
      {.name = "relu_backward", .run = backward(k::relu_backward), .per_sample = true},
      {.name = "leaky_relu_forward",
       .run =
           [](KernelRun& r, const Shape& shape) {
             const Tensor x = r.input(shape);
             Tensor y = r.output(shape);
             r.call([&] { k::leaky_relu_forward(r.stream(), kSlope, x, y); });
           },
       .per_sample = true},
      {.name = "leaky_relu_backward",
       .run =
           [](KernelRun& r, const Shape& shape) {
             const Tensor y = r.input(shape), dy = r.input(shape);
             Tensor dx = r.output(shape);
             r.call([&] { k::leaky_relu_backward(r.stream(), kSlope, y, dy, dx); });
           },
       .per_sample = true},
      {.name = "silu_forward", .run = forward(k::silu_forward), .roundings = library},
      {.name = "silu_backward", .run = backward(k::silu_backward), .roundings = 2 * library},
      {.name = "gelu_forward", .run = forward(k::gelu_forward), .roundings = library},
      {.name = "gelu_backward", .run = backward(k::gelu_backward), .roundings = 2 * library},
      {.name = "sigmoid_forward", .run = forward(k::sigmoid_forward), .roundings = library},
      {.name = "sigmoid_backward", .run = backward(k::sigmoid_backward)},
      {.name = "tanh_forward", .run = forward(k::tanh_forward), .roundings = library},
      {.name = "tanh_backward", .run = backward(k::tanh_backward)},
      {.name = "softmax_forward", .run = forward(k::softmax_forward), .roundings = 64},
      // dy_i - sum y_j dy_j: y need not add up to 1 here, so the sum may be as large as all of y
      // dy.
      {.name = "softmax_backward",
       .run = backward(k::softmax_backward, Fill::positive),
       .roundings = 64,
       .amplification = 4}};
  return rows;
}

std::vector<Row> pointwise_rows() {
  namespace k = kernels;
  return {{.name = "add",
           .run =
               [](KernelRun& r, const Shape& shape) {
                 const Tensor a = r.input(shape), b = r.input(shape);
                 Tensor out = r.output(shape);
                 r.call([&] { k::add(r.stream(), a, b, out); });
               },
           .per_sample = true},
          {.name = "mul",
           .run =
               [](KernelRun& r, const Shape& shape) {
                 const Tensor a = r.input(shape), b = r.input(shape);
                 Tensor out = r.output(shape);
                 r.call([&] { k::mul(r.stream(), a, b, out); });
               },
           .per_sample = true},
          {.name = "scale",
           .run =
               [](KernelRun& r, const Shape& shape) {
                 const Tensor x = r.input(shape);
                 Tensor y = r.output(shape);
                 r.call([&] { k::scale(r.stream(), 0.3, x, y); });
               },
           .per_sample = true},
          // A sum of positive values, so that it is no smaller than what its roundings are of.
          {.name = "sum",
           .run =
               [](KernelRun& r, const Shape& shape) {
                 const Tensor x = r.input(shape, Role::data, Fill::positive);
                 Tensor y = r.output({}, Role::accumulator);
                 r.call([&] { k::sum(r.stream(), 0.5, x, y); });
               },
           .roundings = 128},
          {.name = "spread",
           .run =
               [](KernelRun& r, const Shape& shape) {
                 const Tensor s = r.input({}, Role::accumulator);
                 Tensor y = r.output(shape);
                 r.call([&] { k::spread(r.stream(), 0.5, s, y); });
               },
           .per_sample = true},
          {.name = "backend fill",
           .run =
               [](KernelRun& r, const Shape& shape) {
                 Tensor y = r.output(shape);
                 r.call([&] { y.fill(0.1); });
               },
           .per_sample = true},
          {.name = "backend cast",
           .run =
               [](KernelRun& r, const Shape& shape) {
                 const Tensor x = r.input(shape, Role::accumulator);
                 Tensor y = r.output(shape);
                 r.call([&] { y.copy_from(x); });
               },
           .per_sample = true},
          {.name = "backend accumulate",
           .run =
               [](KernelRun& r, const Shape& shape) {
                 const Tensor x = r.input(shape);
                 Tensor y = r.inout(r.input(shape, Role::accumulator));
                 r.call([&] {
                   backend(r.device().type)
                       .accumulate(r.stream(), y.raw(), y.dtype(), x.raw(), x.dtype(), x.numel());
                 });
               },
           .per_sample = true},
          {.name = "dropout", .run = [](KernelRun& r, const Shape& shape) {
             const Tensor x = r.input(shape);
             Tensor y = r.output(shape);
             r.call([&] { k::dropout(r.stream(), RngKey{7, 3}, 0.25, x, y); });
           }}};
}

}  // namespace bora::gpucheck
