// SPDX-License-Identifier: Apache-2.0
// Rows of nn/ops/head_loss.cpp.  References compute outputs, then the loss, cell by cell in f64.
// Features 107, 110.
#include <algorithm>
#include <cmath>

#include "nn/ops.hpp"
#include "tests/nn/op_cases.hpp"

namespace bora::test {
namespace {

using nn::DataLoss;

/// A head on features (N, cells, I) as flat values.
struct Head {
  int64_t samples, cells, channels, n_out;

  Head(const Shape& x, int64_t outputs)
      : samples(x[0]), cells(x[1] * x[2] * x[3]), channels(x[4]), n_out(outputs) {}

  /// in: x, w, bias (may be empty).
  double output(const Values& in, int64_t cell, int64_t k) const {
    double y = in[2].empty() ? 0.0 : in[2][static_cast<size_t>(k)];
    for (int64_t c = 0; c < channels; ++c)
      y += in[0][static_cast<size_t>(cell * channels + c)] *
           in[1][static_cast<size_t>(k * channels + c)];
    return y;
  }
};

/// in: x, w, bias, target or labels, maybe region.
bool counts(const Values& in, int64_t cell) {
  return in.size() < 5 || in[4][static_cast<size_t>(cell)] != 0;
}

double data_reference(const Head& head, const Values& in, DataLoss kind) {
  double loss = 0;
  for (int64_t n = 0; n < head.samples; ++n) {
    double sum = 0, count = 0;
    for (int64_t cell = n * head.cells; cell < (n + 1) * head.cells; ++cell) {
      if (!counts(in, cell)) continue;
      for (int64_t k = 0; k < head.n_out; ++k, ++count) {
        const double e =
            head.output(in, cell, k) - in[3][static_cast<size_t>(cell * head.n_out + k)];
        sum += kind == DataLoss::mse   ? e * e
               : kind == DataLoss::mae ? std::abs(e)
                                       : std::hypot(e, 1e-3);
      }
    }
    if (count > 0) loss += sum / count / static_cast<double>(head.samples);
  }
  return loss;
}

double class_reference(const Head& head, const Values& in, const nn::DiceOptions& o) {
  const int64_t first = o.include_background ? 0 : 1;
  double loss = 0;
  for (int64_t n = 0; n < head.samples; ++n) {
    const auto n_out = static_cast<size_t>(head.n_out);
    std::vector<double> both(n_out), p_sum(n_out), t_sum(n_out), y(n_out);
    double surprise = 0, cells = 0, score = 0;
    for (int64_t cell = n * head.cells; cell < (n + 1) * head.cells; ++cell) {
      if (!counts(in, cell)) continue;
      ++cells;
      double total = 0;
      for (size_t k = 0; k < n_out; ++k)
        total += std::exp(y[k] = head.output(in, cell, static_cast<int64_t>(k)));
      const auto label = static_cast<size_t>(in[3][static_cast<size_t>(cell)]);
      for (size_t k = 0; k < n_out; ++k) p_sum[k] += std::exp(y[k]) / total;
      t_sum[label] += 1;
      both[label] += std::exp(y[label]) / total;
      surprise -= y[label] - std::log(total);
    }
    if (cells == 0) continue;
    for (auto k = static_cast<size_t>(first); k < n_out; ++k)
      score += (2 * both[k] + o.smooth) / (p_sum[k] + t_sum[k] + o.smooth);
    loss += o.cross_entropy_weight * surprise / cells / static_cast<double>(head.samples);
    if (o.dice_weight != 0)
      loss += o.dice_weight * (1 - score / static_cast<double>(head.n_out - first)) /
              static_cast<double>(head.samples);
  }
  return loss;
}

enum class Region { all, some };
enum class With { bias, no_bias };

/// Weights about as large as a trained head's: outputs of order 1.
OpCase head_row(const char* name, const char* op, const Shape& x, int64_t n_out, With with,
                Region region) {
  const double bound = 1.5 / std::sqrt(static_cast<double>(x[4]));
  OpCase c{.name = name,
           .op = op,
           .inputs = {normal(x), uniform({n_out, 1, 1, 1, x[4]}, -bound, bound),
                      with == With::bias ? normal({n_out}) : normal({0}).fixed()},
           .run = {}};
  const Shape cells{x[0], x[1], x[2], x[3]};
  if (op == std::string("head_data_loss"))
    c.inputs.push_back(normal(cells.append(n_out)).fixed().param());
  else
    c.inputs.push_back(labels(cells, static_cast<int>(n_out)));
  if (region == Region::some) c.inputs.push_back(labels(cells, 2));
  // An output is a sum over channels; its gradient is rounded no more often than that.  Sums over
  // cells: some dozens in f32, then f64; f64 against f64 as in loss_cases.cpp.
  c.roundings = 200.0 + static_cast<double>(x[4]);
  c.amplification = 8;
  c.stores = 1;
  return c;
}

Tensor bias_of(const std::vector<Tensor>& in) { return in[2].numel() > 0 ? in[2] : Tensor(); }
Tensor region_of(const std::vector<Tensor>& in) { return in.size() > 4 ? in[4] : Tensor(); }

OpCase data_row(const char* name, const Shape& x, int64_t n_out, DataLoss kind, With with,
                Region region) {
  OpCase c = head_row(name, "head_data_loss", x, n_out, with, region);
  c.run = [=](const std::vector<Tensor>& in) {
    return nn::head_data_loss(in[0], in[1], bias_of(in), in[3], region_of(in), kind);
  };
  c.reference = [=](const Values& in) {
    return std::vector{data_reference(Head(x, n_out), in, kind)};
  };
  // As in loss_cases.cpp: no kink within the steps.
  c.gradient_step = kind == DataLoss::mse ? 1e-3 : 2e-6;
  if (kind != DataLoss::mse) c.gradient_tolerance = 1e-5;
  return c;
}

OpCase class_row(const char* name, const Shape& x, int64_t n_out, const nn::DiceOptions& o,
                 With with, Region region) {
  OpCase c = head_row(name, "head_class_loss", x, n_out, with, region);
  c.run = [=](const std::vector<Tensor>& in) {
    return nn::head_dice_cross_entropy(in[0], in[1], bias_of(in), in[3], region_of(in), o);
  };
  c.reference = [=](const Values& in) {
    return std::vector{class_reference(Head(x, n_out), in, o)};
  };
  return c;
}

const OpCases rows([] {
  const Shape odd{2, 3, 5, 7, 16};
  const nn::DiceOptions both{}, no_background{0.7, 0.4, 1e-5, false}, ce{0.0, 1.0, 1e-5, true};
  const auto bias = With::bias, bare = With::no_bias;
  std::vector<OpCase> list{
      // One, two, four and more lanes a cell, and 24 channels: three lanes of four.
      data_row("head_mse", odd, 1, DataLoss::mse, bias, Region::some),
      data_row("head_mse_bare", {1, 3, 2, 5, 24}, 3, DataLoss::mse, bare, Region::all),
      data_row("head_mae", {2, 3, 2, 5, 32}, 2, DataLoss::mae, bias, Region::some),
      data_row("head_charbonnier", {2, 3, 5, 3, 8}, 1, DataLoss::charbonnier, bias, Region::some),
      data_row("head_charbonnier_8", {1, 3, 2, 3, 64}, 8, DataLoss::charbonnier, bias,
               Region::some),
      data_row("head_charbonnier_many", {2, 9, 17, 33, 16}, 1, DataLoss::charbonnier, bias,
               Region::some),
      data_row("head_mse_two_calls", {1, 3, 2, 5, 6}, 9, DataLoss::mse, bias, Region::some),
      data_row("head_mse_one_cell", {1, 1, 1, 1, 8}, 1, DataLoss::mse, bias, Region::all),
      data_row("head_mse_empty", {0, 3, 4, 5, 8}, 1, DataLoss::mse, bias, Region::some),
      class_row("head_cross_entropy", {2, 3, 4, 5, 16}, 4, ce, bias, Region::some),
      class_row("head_dice", {2, 3, 4, 5, 32}, 3, both, bias, Region::some),
      class_row("head_dice_bare", {1, 3, 4, 5, 24}, 5, both, bare, Region::all),
      class_row("head_dice_8", {2, 2, 3, 2, 64}, 8, both, bias, Region::some),
      class_row("head_dice_without_background", {2, 3, 4, 5, 8}, 3, no_background, bias,
                Region::all),
      class_row("head_dice_many", {2, 9, 17, 33, 32}, 3, both, bias, Region::some),
      class_row("head_dice_two_calls", {1, 3, 2, 5, 6}, 9, both, bias, Region::some),
      class_row("head_dice_empty", {0, 3, 4, 5, 8}, 3, both, bias, Region::some),
  };
  for (OpCase& c : list) {
    const int64_t n = c.inputs[0].shape.numel();
    c.differences = n > 10000 ? 2 : 12;              // each costs two runs of some thousand fibers
    if (c.name == "head_mse") c.saved_bytes = 256;   // sums (2, 2) f64, and no outputs
    if (c.name == "head_dice") c.saved_bytes = 256;  // sums (2, 3, 5) f64
    c.zero_gradient_ok = n == 0;
  }
  return list;
});

}  // namespace
}  // namespace bora::test
