// SPDX-License-Identifier: Apache-2.0
// Rows of kernels/loss.hpp, kernels/head_loss.hpp and kernels/metrics.hpp, with a region.
#include "apps/gpucheck/kernel_table.hpp"
#include "kernels/head_loss.hpp"
#include "kernels/loss.hpp"
#include "kernels/metrics.hpp"

namespace bora::gpucheck {
namespace {

namespace k = kernels;

const k::DataLossAttributes kData{};  // charbonnier
constexpr auto kForm = k::GradientLossForm::edge;
const k::ClassLossAttributes kClass{.ce_weight = 1, .dice_weight = 1};
const k::ErrorSumsAttributes kErrors{.threshold = 0.5};
constexpr int64_t kClasses = 3;

Shape of_cells(const Shape& s) { return {s[0], s[1], s[2], s[3]}; }

struct Pair {
  Tensor prediction, target, region;
  Pair(KernelRun& r, const Shape& s)
      : prediction(r.input(s)),
        target(r.input(s)),
        region(r.input(of_cells(s), Role::u8, Fill::mask)) {}
};

void data_sums(KernelRun& r, const Shape& s) {
  const Pair p(r, s);
  Tensor sums = r.output({s[0], 2}, Role::f64);
  r.call([&] { k::data_loss_sums(r.stream(), kData, p.prediction, p.target, p.region, sums); });
}
void data_value(KernelRun& r, const Shape& s) {
  const Tensor sums = r.input({s[0], 2}, Role::f64, Fill::positive);
  Tensor loss = r.output({}, Role::accumulator);
  r.call([&] { k::data_loss_value(r.stream(), sums, loss); });
}
void data_backward(KernelRun& r, const Shape& s) {
  const Pair p(r, s);
  Tensor sums = r.scratch({s[0], 2}, Role::f64);
  k::data_loss_sums(r.stream(), kData, p.prediction, p.target, p.region, sums);
  const Tensor dloss = r.input({}, Role::accumulator, Fill::positive);
  Tensor out = r.output(s);
  r.call([&] {
    k::data_loss_backward(r.stream(), kData, p.prediction, p.target, p.region, sums, dloss, out);
  });
}

void gradient_sums(KernelRun& r, const Shape& s) {
  const Pair p(r, s);
  Tensor sums = r.output({s[0], 3, 4}, Role::f64);
  r.call([&] { k::gradient_loss_sums(r.stream(), kForm, p.prediction, p.target, p.region, sums); });
}
void gradient_value(KernelRun& r, const Shape& s) {
  const Tensor sums = r.input({s[0], 3, 4}, Role::f64, Fill::positive);
  Tensor loss = r.output({}, Role::accumulator);
  r.call([&] { k::gradient_loss_value(r.stream(), kForm, sums, loss); });
}
void gradient_backward(KernelRun& r, const Shape& s) {
  const Pair p(r, s);
  Tensor sums = r.scratch({s[0], 3, 4}, Role::f64);
  k::gradient_loss_sums(r.stream(), kForm, p.prediction, p.target, p.region, sums);
  const Tensor dloss = r.input({}, Role::accumulator, Fill::positive);
  Tensor out = r.output(s);
  r.call([&] {
    k::gradient_loss_backward(r.stream(), kForm, p.prediction, p.target, p.region, sums, dloss,
                              out);
  });
}

struct Classes {
  Tensor logits;
  k::ClassCells cells;
  Classes(KernelRun& r, const Shape& s, k::CellWeights weights)
      : logits(r.input(s.with(-1, kClasses))),
        cells{r.input(of_cells(s), Role::u8, Fill::labels),
              r.input(of_cells(s), Role::u8, Fill::mask)} {
    if (weights == k::CellWeights::given)
      cells.weights = r.input(of_cells(s), Role::accumulator, Fill::positive);
  }
};

template <k::CellWeights kWeights>
void class_sums(KernelRun& r, const Shape& s) {
  const Classes c(r, s, kWeights);
  Tensor normaliser = r.output({s[0], s[1], s[2], s[3], 2}, Role::accumulator);
  Tensor sums = r.output({s[0], kClasses, 5}, Role::f64);
  r.call([&] { k::class_loss_sums(r.stream(), c.logits, c.cells, normaliser, sums); });
}
void class_value(KernelRun& r, const Shape& s) {
  const Tensor sums = r.input({s[0], kClasses, 5}, Role::f64, Fill::positive);
  Tensor loss = r.output({}, Role::accumulator);
  r.call([&] { k::class_loss_value(r.stream(), kClass, sums, loss); });
}
template <k::CellWeights kWeights>
void class_backward(KernelRun& r, const Shape& s) {
  const Classes c(r, s, kWeights);
  Tensor normaliser = r.scratch({s[0], s[1], s[2], s[3], 2}, Role::accumulator);
  Tensor sums = r.scratch({s[0], kClasses, 5}, Role::f64);
  k::class_loss_sums(r.stream(), c.logits, c.cells, normaliser, sums);
  const Tensor dloss = r.input({}, Role::accumulator, Fill::positive);
  Tensor out = r.output(s.with(-1, kClasses));
  r.moves({c.logits, c.cells.labels, c.cells.region, normaliser, out});
  r.call([&] {
    k::class_loss_backward(r.stream(), kClass, c.logits, c.cells, normaliser, sums, dloss, out);
  });
}

/// Features of shape s, a head to kClasses outputs.
struct Head {
  Tensor x, w, bias, region;
  Head(KernelRun& r, const Shape& s)
      : x(r.input(s)),
        w(r.input({kClasses, 1, 1, 1, s[4]})),
        bias(r.input({kClasses})),
        region(r.input(of_cells(s), Role::u8, Fill::mask)) {}
  k::HeadInput input() const { return {x, w, bias}; }
  k::HeadGradients gradients(KernelRun& r) const {
    return {.dx = r.output(x.shape()),
            .dw = r.output(w.shape(), Role::accumulator),
            .db = r.output(bias.shape(), Role::accumulator)};
  }
};

// Not charbonnier: with its bend of 1e-3 the slope of a small error has fewer digits than the
// error.
const k::DataLossAttributes kSmooth{.kind = k::DataLossKind::mse};

void head_data_sums(KernelRun& r, const Shape& s) {
  const Head h(r, s);
  const Tensor target = r.input(s.with(-1, kClasses), Role::accumulator);
  Tensor sums = r.output({s[0], 2}, Role::f64);
  r.call([&] { k::head_data_loss_sums(r.stream(), kSmooth, h.input(), target, h.region, sums); });
}
void head_data_backward(KernelRun& r, const Shape& s) {
  const Head h(r, s);
  const Tensor target = r.input(s.with(-1, kClasses), Role::accumulator);
  Tensor sums = r.scratch({s[0], 2}, Role::f64);
  k::head_data_loss_sums(r.stream(), kSmooth, h.input(), target, h.region, sums);
  const Tensor dloss = r.input({}, Role::accumulator, Fill::positive);
  k::HeadGradients out = h.gradients(r);
  r.call([&] {
    k::head_data_loss_backward(r.stream(), kSmooth, h.input(), target, h.region, sums, dloss, out);
  });
}
void head_class_sums(KernelRun& r, const Shape& s) {
  const Head h(r, s);
  const Tensor labels = r.input(of_cells(s), Role::u8, Fill::labels);
  Tensor sums = r.output({s[0], kClasses, 5}, Role::f64);
  r.call([&] { k::head_class_loss_sums(r.stream(), h.input(), labels, h.region, sums); });
}
void head_class_backward(KernelRun& r, const Shape& s) {
  const Head h(r, s);
  const Tensor labels = r.input(of_cells(s), Role::u8, Fill::labels);
  Tensor sums = r.scratch({s[0], kClasses, 5}, Role::f64);
  k::head_class_loss_sums(r.stream(), h.input(), labels, h.region, sums);
  const Tensor dloss = r.input({}, Role::accumulator, Fill::positive);
  k::HeadGradients out = h.gradients(r);
  r.call([&] {
    k::head_class_loss_backward(r.stream(), kClass, h.input(), labels, h.region, sums, dloss, out);
  });
}

void errors(KernelRun& r, const Shape& s) {
  const Pair p(r, s);
  Tensor rows = r.output({s[0], k::ErrorSums::kNumbers}, Role::f64);
  r.call([&] { k::error_sums(r.stream(), kErrors, p.prediction, p.target, p.region, rows); });
}

}  // namespace

std::vector<Row> loss_rows() {
  // Sums are f64, of elements made in f32: a rounding or so each, none to the narrow type.
  return {
      {.name = "data_loss_sums", .run = data_sums, .roundings = 8},
      {.name = "data_loss_value", .run = data_value},
      {.name = "data_loss_backward", .run = data_backward, .roundings = 16},
      {.name = "gradient_loss_sums", .run = gradient_sums, .roundings = 8},
      {.name = "gradient_loss_value", .run = gradient_value, .roundings = 16},
      {.name = "gradient_loss_backward", .run = gradient_backward, .roundings = 64},
      {.name = "class_loss_sums", .run = class_sums<k::CellWeights::none>, .roundings = 64},
      {.name = "class_loss_sums with weights",
       .run = class_sums<k::CellWeights::given>,
       .roundings = 64},
      {.name = "class_loss_value", .run = class_value, .roundings = 16},
      {.name = "class_loss_backward",
       .run = class_backward<k::CellWeights::none>,
       .roundings = 128,
       .amplification = 4},
      {.name = "class_loss_backward with weights",
       .run = class_backward<k::CellWeights::given>,
       .roundings = 128,
       .amplification = 4},
      // Outputs are sums over channels (convolution_rows says how these are bounded), and they are
      // the exponents of exp: with normal weights up to some 20, which is how much rounding grows.
      {.name = "head_data_loss_sums", .run = head_data_sums, .roundings = 64, .amplification = 8},
      {.name = "head_data_loss_backward",
       .run = head_data_backward,
       .roundings = 64,
       .amplification = 16},
      {.name = "head_class_loss_sums",
       .run = head_class_sums,
       .roundings = 64,
       .amplification = 32},
      {.name = "head_class_loss_backward",
       .run = head_class_backward,
       .roundings = 128,
       .amplification = 64},
      {.name = "error_sums", .run = errors, .roundings = 8}};
}

}  // namespace bora::gpucheck
