// SPDX-License-Identifier: Apache-2.0
// Rows of nn/ops/pointwise.cpp.
#include <cmath>

#include "nn/ops.hpp"
#include "tests/nn/op_cases.hpp"

namespace bora::test {
namespace {

const Shape kOdd{2, 3, 1, 5, 7};
const Shape kMany{3, 20011};  // several blocks and threads, with a tail

std::vector<double> each(const Values& in, double (*f)(double, double)) {
  std::vector<double> out;
  for (size_t i = 0; i < in[0].size(); ++i) out.push_back(f(in[0][i], in[1][i]));
  return out;
}

// The mask by the one-number-at-a-time definition; position as the table's: seed 7, base 3, next 0.
std::vector<double> dropout_reference(const Values& in) {
  set_rng_position({.seed = 7, .base = 3, .next = 0});
  const RngKey key = next_rng_key();
  std::vector<double> out = in[0];
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = key.uniform(i) >= 0.3f ? out[i] / (1.0 - 0.3) : 0.0;
  return out;
}

const OpCases rows([] {
  using In = const std::vector<Tensor>&;
  const auto add = [](In in) { return nn::add(in[0], in[1]); };
  const auto mul = [](In in) { return nn::mul(in[0], in[1]); };
  const auto plus = [](const Values& in) {
    return each(in, [](double a, double b) { return a + b; });
  };
  const auto times = [](const Values& in) {
    return each(in, [](double a, double b) { return a * b; });
  };
  const auto sum = [](const Values& in) {
    long double total = 0;
    for (double v : in[0]) total += v;
    return std::vector<double>{static_cast<double>(total)};
  };
  const auto mean = [sum](const Values& in) {
    return std::vector<double>{sum(in)[0] / static_cast<double>(in[0].size())};
  };
  return std::vector<OpCase>{
      {.name = "add",
       .op = "add",
       .inputs = {normal(kOdd), normal(kOdd)},
       .run = add,
       .reference = plus,
       .saved_bytes = 0},
      {.name = "add_many",
       .op = "add",
       .inputs = {normal(kMany), normal(kMany)},
       .run = add,
       .reference = plus},
      {.name = "add_empty",
       .op = "add",
       .inputs = {normal({0, 4}), normal({0, 4})},
       .run = add,
       .reference = plus},
      // x + x: both gradients go to one leaf.
      {.name = "add_twice_the_same",
       .op = "add",
       .inputs = {normal(kOdd)},
       .run = [](In in) { return nn::add(in[0], in[0]); }},
      {.name = "mul",
       .op = "mul",
       .inputs = {normal(kOdd), normal(kOdd)},
       .run = mul,
       .reference = times,
       .saved_bytes = 0},
      {.name = "mul_many",
       .op = "mul",
       .inputs = {normal(kMany), normal(kMany)},
       .run = mul,
       .reference = times},
      {.name = "mul_by_constant",
       .op = "mul",
       .inputs = {normal(kOdd), normal(kOdd).fixed()},
       .run = mul,
       .reference = times},
      {.name = "square",
       .op = "mul",
       .inputs = {normal(kOdd)},
       .run = [](In in) { return nn::mul(in[0], in[0]); }},
      {.name = "scale",
       .op = "scale",
       .inputs = {normal(kMany)},
       .run = [](In in) { return nn::scale(in[0], -1.7); },
       .reference =
           [](const Values& in) {
             std::vector<double> out = in[0];
             for (double& v : out) v *= -1.7;
             return out;
           },
       .saved_bytes = 0},
      {.name = "reshape",
       .op = "reshape",
       .inputs = {normal(kOdd)},
       .run =
           [](In in) {
             return nn::reshape(in[0], {35, 6});
           },
       .reference = [](const Values& in) { return in[0]; },
       .saved_bytes = 0},
      {.name = "cast_to_f32",
       .op = "cast",
       .inputs = {normal(kMany)},
       .run =
           [](In in) {
             return nn::cast(in[0], in[0].dtype() == DType::f64 ? DType::f64 : DType::f32);
           },
       .reference = [](const Values& in) { return in[0]; },
       .types = {DType::f16, DType::bf16},  // of f32 it is x itself
       .saved_bytes = 0},
      {.name = "cast_there_and_back",
       .op = "cast",
       .inputs = {normal({33})},
       .run =
           [](In in) {
             const DType wide = in[0].dtype() == DType::f64 ? DType::f64 : DType::f32;
             return nn::cast(nn::scale(nn::cast(in[0], wide), 2.0), in[0].dtype());
           }},
      // A lane of the widest chunk takes 32 rows, then 8 + 8 levels of trees.
      {.name = "sum",
       .op = "sum",
       .inputs = {uniform(kMany, 0.0, 1.0)},
       .run = [](In in) { return nn::sum(in[0]); },
       .reference = sum,
       .roundings = 64,
       .saved_bytes = 0},
      {.name = "sum_of_one",
       .op = "sum",
       .inputs = {normal({1})},
       .run = [](In in) { return nn::sum(in[0]); },
       .reference = sum},
      {.name = "sum_of_none",
       .op = "sum",
       .inputs = {normal({0, 3})},
       .run = [](In in) { return nn::sum(in[0]); },
       .reference = sum},
      {.name = "mean",
       .op = "mean",
       .inputs = {uniform(kOdd, 0.0, 1.0)},
       .run = [](In in) { return nn::mean(in[0]); },
       .reference = mean,
       .roundings = 64,
       .saved_bytes = 0},
      {.name = "dropout",
       .op = "dropout",
       .inputs = {normal({4, 10003})},
       .run = [](In in) { return nn::dropout(in[0], 0.3); },
       .reference = dropout_reference,
       .saved_bytes = 0},
      {.name = "dropout_none",
       .op = "dropout",
       .inputs = {normal({9})},
       .run = [](In in) { return nn::dropout(in[0], 0.0); },
       .reference = [](const Values& in) { return in[0]; }},
  };
});

}  // namespace
}  // namespace bora::test
