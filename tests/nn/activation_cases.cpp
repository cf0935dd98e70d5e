// SPDX-License-Identifier: Apache-2.0
// Rows of nn/ops/activation.cpp.  References are written with the C library in f64.
#include <cmath>

#include "nn/ops.hpp"
#include "tests/nn/op_cases.hpp"

namespace bora::test {
namespace {

const Shape kOdd{2, 3, 1, 5, 7};
const Shape kMany{3, 20011};

template <class F>
auto each(F f) {
  return [f](const Values& in) {
    std::vector<double> out;
    for (double x : in[0]) out.push_back(f(x));
    return out;
  };
}

std::vector<double> softmax_rows(const std::vector<double>& x, size_t k) {
  std::vector<double> out(x.size());
  for (size_t r = 0; r < x.size(); r += k) {
    double total = 0;
    for (size_t i = r; i < r + k; ++i) total += std::exp(x[i]);
    for (size_t i = r; i < r + k; ++i) out[i] = std::exp(x[i]) / total;
  }
  return out;
}

const OpCases rows([] {
  using In = const std::vector<Tensor>&;
  const auto relu = [](In in) { return nn::relu(in[0]); };
  const auto silu = [](In in) { return nn::silu(in[0]); };
  const auto gelu = [](In in) { return nn::gelu(in[0]); };
  const auto sigmoid = [](In in) { return nn::sigmoid(in[0]); };
  const auto tanh = [](In in) { return nn::tanh(in[0]); };
  const auto softmax = [](In in) { return nn::softmax(in[0]); };
  const auto relu_of = each([](double x) { return x > 0 ? x : 0.0; });
  const auto silu_of = each([](double x) { return x / (1 + std::exp(-x)); });
  const auto gelu_of = each([](double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); });
  const auto sigmoid_of = each([](double x) { return 1 / (1 + std::exp(-x)); });
  const auto tanh_of = each([](double x) { return std::sinh(x) / std::cosh(x); });
  return std::vector<OpCase>{
      {.name = "relu",
       .op = "relu",
       .inputs = {off_zero(kOdd)},
       .run = relu,
       .reference = relu_of,
       .saved_bytes = 0},
      {.name = "relu_many",
       .op = "relu",
       .inputs = {off_zero(kMany)},
       .run = relu,
       .reference = relu_of},
      {.name = "relu_empty",
       .op = "relu",
       .inputs = {off_zero({0, 3})},
       .run = relu,
       .reference = relu_of},
      {.name = "leaky_relu",
       .op = "leaky_relu",
       .inputs = {off_zero(kMany)},
       .run = [](In in) { return nn::leaky_relu(in[0], 0.01); },
       .reference = each([](double x) { return x > 0 ? x : 0.01 * x; }),
       .saved_bytes = 0},
      {.name = "leaky_relu_of_slope_0",
       .op = "leaky_relu",
       .inputs = {off_zero({17})},
       .run = [](In in) { return nn::leaky_relu(in[0], 0.0); },
       .reference = relu_of},
      {.name = "silu",
       .op = "silu",
       .inputs = {normal(kOdd)},
       .run = silu,
       .reference = silu_of,
       .saved_bytes = 0},
      {.name = "silu_many",
       .op = "silu",
       .inputs = {uniform(kMany, -12, 12)},
       .run = silu,
       .reference = silu_of},
      {.name = "gelu",
       .op = "gelu",
       .inputs = {normal(kOdd)},
       .run = gelu,
       .reference = gelu_of,
       .saved_bytes = 0},
      {.name = "gelu_many",
       .op = "gelu",
       .inputs = {uniform(kMany, -4, 4)},
       .run = gelu,
       .reference = gelu_of},
      {.name = "sigmoid",
       .op = "sigmoid",
       .inputs = {normal(kMany)},
       .run = sigmoid,
       .reference = sigmoid_of,
       .saved_bytes = 0},
      {.name = "tanh",
       .op = "tanh",
       .inputs = {normal(kMany)},
       .run = tanh,
       .reference = tanh_of,
       .saved_bytes = 0},
      {.name = "softmax",
       .op = "softmax",
       .inputs = {normal({2, 3, 5, 4})},
       .run = softmax,
       .reference = [](const Values& in) { return softmax_rows(in[0], 4); },
       .saved_bytes = 0},
      {.name = "softmax_many",
       .op = "softmax",
       .inputs = {normal({20011, 3})},
       .run = softmax,
       .reference = [](const Values& in) { return softmax_rows(in[0], 3); }},
      // Always 1, so the gradient is 0 up to rounding.
      {.name = "softmax_of_one",
       .op = "softmax",
       .inputs = {normal({5, 1})},
       .run = softmax,
       .reference = [](const Values& in) { return softmax_rows(in[0], 1); },
       .zero_gradient_ok = true},
  };
});

}  // namespace
}  // namespace bora::test
