// SPDX-License-Identifier: Apache-2.0
// Rows of nn/ops/norm.cpp.  The reference collects the values that share statistics in a list and
// takes mean and variance of the list by two plain loops.  Feature 107 (GN).
#include <cmath>
#include <map>

#include "nn/ops.hpp"
#include "tests/nn/op_cases.hpp"

namespace bora::test {
namespace {

using nn::Activation;

double activate(Activation a, double slope, double z) {
  switch (a) {
    case Activation::identity:
      return z;
    case Activation::relu:
      return std::max(z, 0.0);
    case Activation::leaky_relu:
      return z >= 0 ? z : slope * z;
    case Activation::silu:
      return z / (1 + std::exp(-z));
    case Activation::gelu:
      return z * 0.5 * std::erfc(-z / std::sqrt(2.0));
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-z));
    case Activation::tanh:
      return 1 - 2 / (1 + std::exp(2 * z));
  }
  return NAN;
}

struct Setting {
  Shape shape;
  int64_t groups = 1;
  bool over_batch = false;
  Activation activation = Activation::identity;
  double slope = 0.01;
};

/// in: x, gamma, beta, maybe residual.
std::vector<double> norm_reference(const Setting& s, const Values& in) {
  const int64_t n_channels = s.shape.at(-1),
                sample = s.shape.numel() / std::max<int64_t>(s.shape[0], 1);
  const auto key = [&](int64_t i) {
    const int64_t group = i % n_channels / (n_channels / s.groups);
    return std::pair{s.over_batch ? 0 : i / sample, group};
  };
  std::map<std::pair<int64_t, int64_t>, std::vector<double>> lists;
  for (int64_t i = 0; i < s.shape.numel(); ++i)
    lists[key(i)].push_back(in[0][static_cast<size_t>(i)]);
  std::map<std::pair<int64_t, int64_t>, std::pair<double, double>> moments;
  for (const auto& [k, list] : lists) {
    double mean = 0, variance = 0;
    for (double v : list) mean += v / static_cast<double>(list.size());
    for (double v : list) variance += (v - mean) * (v - mean) / static_cast<double>(list.size());
    moments[k] = {mean, variance};
  }
  std::vector<double> out;
  for (int64_t i = 0; i < s.shape.numel(); ++i) {
    const auto at = static_cast<size_t>(i), c = static_cast<size_t>(i % n_channels);
    const auto [mean, variance] = moments[key(i)];
    double z = (in[0][at] - mean) / std::sqrt(variance + 1e-5) * in[1][c] + in[2][c];
    if (in.size() > 3) z += in[3][at];
    out.push_back(activate(s.activation, s.slope, z));
  }
  return out;
}

OpCase row(const char* name, const char* op, const Setting& s, bool residual,
           const std::function<Tensor(const std::vector<Tensor>&, const nn::NormFusion&)>& run) {
  const Shape channels{s.shape.at(-1)};
  OpCase c{.name = name,
           .op = op,
           .inputs = {normal(s.shape), normal(channels).param(), normal(channels).param()},
           .run =
               [=](const std::vector<Tensor>& in) {
                 nn::NormFusion fusion{s.activation, s.slope, {}};
                 if (residual) fusion.residual = in[3];
                 return run(in, fusion);
               },
           .reference = [=](const Values& in) { return norm_reference(s, in); }};
  if (residual) c.inputs.push_back(normal(s.shape));
  // Each value goes through about 10 operations; sums run over lanes of at most some 40 terms and
  // then in f64.  xhat and gamma reach 4, so terms that cancel are some 10 times the result.
  c.roundings = 48;
  c.amplification = 10;
  return c;
}

OpCase group_row(const char* name, const Setting& s, bool residual = false) {
  return row(name, "group_norm", s, residual,
             [=](const std::vector<Tensor>& in, const nn::NormFusion& fusion) {
               return nn::group_norm(in[0], in[1], in[2], s.groups, 1e-5, fusion);
             });
}

OpCase instance_row(const char* name, Setting s) {
  s.groups = s.shape.at(-1);
  return row(name, "group_norm", s, false,
             [=](const std::vector<Tensor>& in, const nn::NormFusion& fusion) {
               return nn::instance_norm(in[0], in[1], in[2], 1e-5, fusion);
             });
}

OpCase batch_row(const char* name, Setting s, bool residual = false) {
  s.groups = s.shape.at(-1);
  s.over_batch = true;
  return row(name, "batch_norm", s, residual,
             [=](const std::vector<Tensor>& in, const nn::NormFusion& fusion) {
               nn::BatchNormState state{
                   Tensor::zeros(in[1].shape(), in[1].dtype(), in[1].device()),
                   Tensor::full(in[1].shape(), 1.0, in[1].dtype(), in[1].device())};
               return nn::batch_norm(in[0], in[1], in[2], state, true, 1e-5, fusion);
             });
}

/// Running statistics: 0.3 and 1.7 in every channel.
OpCase running_row(const char* name, const Shape& shape) {
  const Shape channels{shape.at(-1)};
  return {.name = name,
          .op = "batch_norm",
          .inputs = {normal(shape), normal(channels).param(), normal(channels).param()},
          .run =
              [](const std::vector<Tensor>& in) {
                const Shape& shape_c = in[1].shape();
                nn::BatchNormState state{Tensor::full(shape_c, 0.3, in[1].dtype(), in[1].device()),
                                         Tensor::full(shape_c, 1.7, in[1].dtype(), in[1].device())};
                return nn::batch_norm(in[0], in[1], in[2], state, false, 1e-5,
                                      {Activation::silu, 0.0, {}});
              },
          .reference =
              [](const Values& in) {
                std::vector<double> out;
                for (size_t i = 0; i < in[0].size(); ++i) {
                  const size_t c = i % in[1].size();
                  const double z = (in[0][i] - 0.3) / std::sqrt(1.7 + 1e-5) * in[1][c] + in[2][c];
                  out.push_back(activate(Activation::silu, 0.0, z));
                }
                return out;
              },
          .roundings = 48,
          .amplification = 10};
}

const OpCases rows([] {
  const Shape odd{2, 3, 1, 5, 6}, many{2, 17, 16, 19, 16};
  std::vector<OpCase> list{
      group_row("group_norm", {odd, 3}),
      group_row("group_norm_silu", {odd, 2, false, Activation::silu}),
      group_row("group_norm_silu_residual", {odd, 2, false, Activation::silu}, true),
      group_row("group_norm_residual", {odd, 6}, true),
      group_row("group_norm_gelu_residual", {odd, 1, false, Activation::gelu}, true),
      group_row("group_norm_sigmoid", {odd, 1, false, Activation::sigmoid}),
      group_row("group_norm_tanh", {odd, 3, false, Activation::tanh}),
      group_row("group_norm_relu", {{1, 2, 3, 2, 4}, 2, false, Activation::relu}),
      group_row("group_norm_relu_residual", {{1, 2, 3, 2, 4}, 2, false, Activation::relu}, true),
      group_row("group_norm_leaky_residual",
                {{1, 2, 3, 2, 4}, 2, false, Activation::leaky_relu, 0.2}, true),
      group_row("group_norm_one_channel", {{2, 5, 7, 1}, 1, false, Activation::silu}),
      group_row("group_norm_many", {many, 8, false, Activation::silu}),
      group_row("group_norm_many_residual", {many, 8, false, Activation::silu}, true),
      group_row("group_norm_many_odd", {{2, 30011, 5}, 5, false, Activation::silu}, true),
      group_row("group_norm_wide", {{1, 350, 320}, 8, false, Activation::silu}),
      group_row("group_norm_empty", {{0, 2, 2, 2, 4}, 2}),
      instance_row("instance_norm", {odd}),
      instance_row("instance_norm_leaky", {{2, 3, 2, 3, 3}, 1, false, Activation::leaky_relu}),
      instance_row("instance_norm_many", {many}),
      batch_row("batch_norm", {odd}),
      batch_row("batch_norm_silu_residual", {odd, 1, true, Activation::silu}, true),
      batch_row("batch_norm_many", {many, 1, true, Activation::silu}),
      batch_row("batch_norm_empty", {{0, 5, 9}}),
      running_row("batch_norm_running", odd),
  };
  for (OpCase& c : list) {
    const int64_t n = c.inputs[0].shape.numel();
    if (c.name == "group_norm") c.saved_bytes = 512 + 256;  // moments (2, 13) f64, statistics
    c.zero_gradient_ok = n == 0;
    if (n < 1000) {
      c.gradient_step = 1e-4;  // keeps away from kinks
    } else {
      c.differences = 4;  // each costs four runs
      c.roundings = 160;  // lanes add up to some 80 values one after the other
    }
  }
  return list;
});

}  // namespace
}  // namespace bora::test
