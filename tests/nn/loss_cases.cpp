// SPDX-License-Identifier: Apache-2.0
// Rows of nn/ops/loss.cpp.  References walk cells by coordinates, in f64.  Features 107, 110.
#include <array>
#include <cmath>

#include "nn/ops.hpp"
#include "tests/nn/op_cases.hpp"

namespace bora::test {
namespace {

using nn::DataLoss;
using nn::GradientLoss;

/// A volume batch with (n, d, h, w, k) access; region undefined: everything counts.
struct Volume {
  Shape shape;
  const std::vector<double>& values;

  double at(int64_t n, std::array<int64_t, 3> p, int64_t k) const {
    return values[static_cast<size_t>(
        (((n * shape[1] + p[0]) * shape[2] + p[1]) * shape[3] + p[2]) * shape[4] + k)];
  }
};

struct Mask {
  Shape shape;
  const std::vector<double>* values = nullptr;

  bool at(int64_t n, std::array<int64_t, 3> p) const {
    if (!values) return true;
    return (*values)[static_cast<size_t>(((n * shape[1] + p[0]) * shape[2] + p[1]) * shape[3] +
                                         p[2])] != 0;
  }
};

template <class F>
void for_cells(const Shape& s, F&& f) {
  for (int64_t d = 0; d < s[1]; ++d)
    for (int64_t h = 0; h < s[2]; ++h)
      for (int64_t w = 0; w < s[3]; ++w) f(std::array<int64_t, 3>{d, h, w});
}

double data_reference(const Shape& s, const Values& in, DataLoss kind) {
  const Volume p{s, in[0]}, t{s, in[1]};
  const Mask region{s, in.size() > 2 ? &in[2] : nullptr};
  double loss = 0;
  for (int64_t n = 0; n < s[0]; ++n) {
    double sum = 0, count = 0;
    for_cells(s, [&](auto at) {
      if (!region.at(n, at)) return;
      for (int64_t k = 0; k < s[4]; ++k) {
        const double e = p.at(n, at, k) - t.at(n, at, k);
        sum += kind == DataLoss::mse   ? e * e
               : kind == DataLoss::mae ? std::abs(e)
                                       : std::hypot(e, 1e-3);
        ++count;
      }
    });
    if (count > 0) loss += sum / count / static_cast<double>(s[0]);
  }
  return loss;
}

double gradient_reference(const Shape& s, const Values& in, GradientLoss form) {
  const Volume p{s, in[0]}, t{s, in[1]};
  const Mask region{s, in.size() > 2 ? &in[2] : nullptr};
  double loss = 0;
  for (int64_t n = 0; n < s[0]; ++n)
    for (size_t axis = 0; axis < 3; ++axis) {
      std::vector<double> slopes, errors;  // |D t|, |D p - D t|
      for_cells(s, [&](auto at) {
        auto next = at;
        if (++next[axis] >= s[static_cast<int>(axis) + 1]) return;
        if (!region.at(n, at) || !region.at(n, next)) return;
        for (int64_t k = 0; k < s[4]; ++k) {
          const double dt = t.at(n, next, k) - t.at(n, at, k);
          slopes.push_back(std::abs(dt));
          errors.push_back(std::abs(p.at(n, next, k) - p.at(n, at, k) - dt));
        }
      });
      if (errors.empty()) continue;
      const auto count = static_cast<double>(errors.size());
      double mean_slope = 0, sum = 0, weights = 0;
      for (double a : slopes) mean_slope += a / count;
      for (size_t i = 0; i < errors.size(); ++i) {
        double weight = 1;
        if (form == GradientLoss::inverse) weight = 1 / (slopes[i] + 1e-3);
        if (form == GradientLoss::edge && mean_slope > 0)
          weight = 0.5 + 0.5 * slopes[i] / mean_slope;
        sum += weight * errors[i];
        weights += weight;
      }
      if (form == GradientLoss::edge && std::abs(weights / count - 1) > 1e-9) return NAN;
      loss += sum / count / 3 / static_cast<double>(s[0]);
    }
  return loss;
}

/// in: logits, labels, maybe region, maybe weights of cells.
double class_reference(const Shape& s, const Values& in, const nn::DiceOptions& o) {
  const Volume logits{s, in[0]};
  const Volume labels{s.with(4, 1), in[1]};
  const Mask region{s, in.size() > 2 ? &in[2] : nullptr};
  const std::vector<double> ones(in[1].size(), 1.0);
  const Volume weights{s.with(4, 1), in.size() > 3 ? in[3] : ones};
  const int64_t first = o.include_background ? 0 : 1;
  double loss = 0;
  for (int64_t n = 0; n < s[0]; ++n) {
    double surprise = 0, cells = 0, score = 0;
    std::vector<double> both(static_cast<size_t>(s[4])), p_sum(both), t_sum(both);
    for_cells(s, [&](auto at) {
      const double weight = weights.at(n, at, 0);
      if (!region.at(n, at) || weight == 0) return;
      cells += weight;
      double total = 0;
      for (int64_t k = 0; k < s[4]; ++k) total += std::exp(logits.at(n, at, k));
      const auto label = static_cast<int64_t>(labels.at(n, at, 0));
      for (int64_t k = 0; k < s[4]; ++k) {
        const auto c = static_cast<size_t>(k);
        const double prob = std::exp(logits.at(n, at, k)) / total;
        p_sum[c] += weight * prob;
        if (k != label) continue;
        t_sum[c] += weight;
        both[c] += weight * prob;
        surprise -= weight * std::log(prob);
      }
    });
    if (cells == 0) continue;
    for (int64_t k = first; k < s[4]; ++k) {
      const auto c = static_cast<size_t>(k);
      score += (2 * both[c] + o.smooth) / (p_sum[c] + t_sum[c] + o.smooth);
    }
    const double dice = o.dice_weight == 0 ? 0 : 1 - score / static_cast<double>(s[4] - first);
    loss += (o.cross_entropy_weight * surprise / cells + o.dice_weight * dice) /
            static_cast<double>(s[0]);
  }
  return loss;
}

enum class Region { all, some };

OpCase loss_row(const char* name, const char* op, const Shape& s, Region region) {
  OpCase c{.name = name, .op = op, .inputs = {normal(s), normal(s).fixed()}, .run = {}};
  if (region == Region::some) c.inputs.push_back(labels({s[0], s[1], s[2], s[3]}, 2));
  // Sums and counts are f64, so an element passes some 10 roundings; f64 against f64 sums of n
  // terms in two orders differ by far less than n roundings, 200 is ample for the rows here.
  c.roundings = 200;
  c.amplification = 4;
  return c;
}

OpCase data_row(const char* name, const Shape& s, DataLoss kind, Region region) {
  OpCase c = loss_row(name, "data_loss", s, region);
  c.run = [=](const std::vector<Tensor>& in) {
    return nn::data_loss(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), kind);
  };
  c.reference = [=](const Values& in) { return std::vector{data_reference(s, in, kind)}; };
  // The kink of mae, and the bend of charbonnier (width 1e-3), must not lie within the steps.
  c.gradient_step = kind == DataLoss::mse ? 1e-3 : 2e-5;
  if (kind != DataLoss::mse) c.gradient_tolerance = 1e-5;  // rounding of the smaller steps
  return c;
}

OpCase gradient_row(const char* name, const Shape& s, GradientLoss form, Region region) {
  OpCase c = loss_row(name, "gradient_loss", s, region);
  c.run = [=](const std::vector<Tensor>& in) {
    return nn::gradient_loss(in[0], in[1], in.size() > 2 ? in[2] : Tensor(), form);
  };
  c.reference = [=](const Values& in) { return std::vector{gradient_reference(s, in, form)}; };
  c.gradient_step = 1e-5;
  c.gradient_tolerance = 1e-5;
  return c;
}

OpCase class_row(const char* name, const Shape& s, const nn::DiceOptions& o, Region region) {
  OpCase c = loss_row(name, "class_loss", s, region);
  c.inputs[1] = labels({s[0], s[1], s[2], s[3]}, static_cast<int>(s[4]));
  c.run = [=](const std::vector<Tensor>& in) {
    const Tensor mask = in.size() > 2 ? in[2] : Tensor();
    const Tensor weights = in.size() > 3 ? in[3] : Tensor();
    if (o.dice_weight == 0) return nn::cross_entropy(in[0], in[1], mask, weights);
    return nn::dice_cross_entropy(in[0], in[1], mask, o, weights);
  };
  c.reference = [=](const Values& in) { return std::vector{class_reference(s, in, o)}; };
  return c;
}

/// With weights of cells in [0, 2), or, of `kind` whole, of 0, 1 and 2.
OpCase weighted_row(const char* name, const Shape& s, const nn::DiceOptions& o, Fill kind) {
  OpCase c = class_row(name, s, o, Region::some);
  Input weights = uniform({s[0], s[1], s[2], s[3]}, 0.0, 2.0).param().fixed();
  weights.fill = kind;
  if (kind == Fill::integers) weights.hi = 3;
  c.inputs.push_back(weights);
  return c;
}

const OpCases rows([] {
  const Shape odd{2, 3, 5, 7, 1}, vector{2, 3, 4, 5, 3}, many{2, 9, 33, 65, 1}, one{1, 1, 1, 1, 1};
  const Shape empty{0, 3, 4, 5, 1};
  const nn::DiceOptions both{}, no_background{0.7, 0.4, 1e-5, false}, ce{0.0, 1.0, 1e-5, true};
  std::vector<OpCase> list{
      data_row("mse", odd, DataLoss::mse, Region::some),
      data_row("mse_all", vector, DataLoss::mse, Region::all),
      data_row("mse_many", many, DataLoss::mse, Region::some),
      data_row("mae", odd, DataLoss::mae, Region::some),
      data_row("mae_vector", vector, DataLoss::mae, Region::some),
      data_row("charbonnier", odd, DataLoss::charbonnier, Region::some),
      data_row("charbonnier_vector", vector, DataLoss::charbonnier, Region::some),
      data_row("charbonnier_many", many, DataLoss::charbonnier, Region::all),
      data_row("mse_one", one, DataLoss::mse, Region::all),
      data_row("mse_empty", empty, DataLoss::mse, Region::some),
      gradient_row("gradient_plain", odd, GradientLoss::plain, Region::some),
      gradient_row("gradient_plain_all", vector, GradientLoss::plain, Region::all),
      gradient_row("gradient_plain_many", many, GradientLoss::plain, Region::some),
      gradient_row("gradient_inverse", odd, GradientLoss::inverse, Region::all),
      gradient_row("gradient_inverse_vector", vector, GradientLoss::inverse, Region::some),
      gradient_row("gradient_edge", odd, GradientLoss::edge, Region::all),
      gradient_row("gradient_edge_vector", vector, GradientLoss::edge, Region::some),
      gradient_row("gradient_edge_many", many, GradientLoss::edge, Region::some),
      gradient_row("gradient_flat", {2, 1, 5, 1, 1}, GradientLoss::edge, Region::all),
      gradient_row("gradient_one", one, GradientLoss::plain, Region::all),
      gradient_row("gradient_empty", empty, GradientLoss::edge, Region::some),
      class_row("cross_entropy", {2, 3, 4, 5, 4}, ce, Region::some),
      class_row("cross_entropy_many", {2, 9, 33, 65, 2}, ce, Region::all),
      class_row("dice_cross_entropy", {2, 3, 4, 5, 3}, both, Region::some),
      class_row("dice_without_background", {2, 3, 4, 5, 3}, no_background, Region::all),
      class_row("dice_of_one_class", {2, 3, 2, 2, 1}, both, Region::all),
      class_row("dice_many", {2, 9, 33, 65, 3}, both, Region::some),
      class_row("dice_empty", {0, 3, 4, 5, 3}, both, Region::some),
      weighted_row("cross_entropy_weighted", {2, 3, 4, 5, 4}, ce, Fill::uniform),
      weighted_row("dice_weighted", {2, 3, 4, 5, 3}, both, Fill::uniform),
      weighted_row("dice_weighted_some", {3, 3, 2, 5, 3}, no_background, Fill::integers),
      weighted_row("dice_weighted_many", {2, 9, 33, 65, 3}, both, Fill::uniform),
      weighted_row("dice_weighted_empty", {0, 3, 4, 5, 3}, both, Fill::uniform),
  };
  for (OpCase& c : list) {
    const int64_t n = c.inputs[0].shape.numel();
    if (n > 10000) c.differences = 8;
    if (c.name == "mse") c.saved_bytes = 256;             // sums (2, 2) f64
    if (c.name == "gradient_plain") c.saved_bytes = 256;  // sums (2, 3, 4) f64
    // normaliser (2, 3, 4, 5, 2) f32 and sums (2, 3, 5) f64
    if (c.name == "dice_cross_entropy" || c.name == "dice_weighted") c.saved_bytes = 1024 + 256;
    // No elements, no differences, or always probability 1.
    c.zero_gradient_ok = n == 0 || c.name == "gradient_one" || c.name == "dice_of_one_class";
  }
  return list;
});

}  // namespace
}  // namespace bora::test
