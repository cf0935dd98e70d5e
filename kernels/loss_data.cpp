// SPDX-License-Identifier: Apache-2.0
// Losses of e = prediction - target, element by element.
#include "kernels/for_each.hpp"
#include "kernels/loss.hpp"
#include "kernels/loss_checks.hpp"
#include "kernels/loss_terms.hpp"
#include "kernels/reduce.hpp"

namespace bora::kernels {
namespace {

/// Rows are samples, columns their cells.
template <class T, bool kOneChannel>
struct LossSums {
  using Element = double;
  static constexpr int kWidth = 2;  // sum, count
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  using State = Lanes<Element, kWidth>;
  const T* prediction;
  const T* target;
  const uint8_t* region;
  double* sums;
  int64_t channels;
  LossOfError loss;

  BORA_HD State identity() const { return {{0, 0}}; }
  BORA_HD void add(State& s, int64_t, int64_t cell, int64_t) const {
    const bool counts = !region || region[cell] != 0;
    if constexpr (kOneChannel) {
      const auto v = static_cast<double>(loss.value(load(prediction[cell]) - load(target[cell])));
      s.v[0] += counts ? v : 0.0;  // chosen, not multiplied: v may be NaN
      s.v[1] += counts ? 1.0 : 0.0;
    } else {
      if (!counts) return;
      for (int64_t i = cell * channels; i < (cell + 1) * channels; ++i)
        s.v[0] += static_cast<double>(loss.value(load(prediction[i]) - load(target[i])));
      s.v[1] += static_cast<double>(channels);
    }
  }
  BORA_HD void merge(State& a, const State& b) const {
    a.v[0] += b.v[0];
    a.v[1] += b.v[1];
  }
  BORA_HD void store(int64_t sample, int64_t, const State& s) const {
    sums[2 * sample] = s.v[0];
    sums[2 * sample + 1] = s.v[1];
  }
};

template <class A>
struct MeanOfMeans {
  const double* sums;
  A* loss;
  int64_t samples;

  BORA_HD void operator()(int64_t) const {
    double total = 0.0;
    for (int64_t n = 0; n < samples; ++n)
      if (sums[2 * n + 1] > 0.0) total += sums[2 * n] / sums[2 * n + 1];
    *loss = static_cast<A>(samples > 0 ? total / static_cast<double>(samples) : 0.0);
  }
};

/// A "cell" of the launch is a line of cells, its "channels" are the line's numbers.
template <class T, bool kOneChannel>
struct LossGradient {
  using A = acc_t<T>;
  static constexpr bool kHostOnly = std::is_same_v<T, double>;
  struct Line {
    int64_t first;
    A factor;
  };
  const T* prediction;
  const T* target;
  const uint8_t* region;
  const double* sums;
  const A* dloss;
  T* out;
  int64_t samples, lines, numbers, channels;
  LossOfError loss;

  BORA_HD Line cell(const VolumeIndex& v) const {
    return {(v.n * lines + v.d) * numbers, data_loss_factor(sums + 2 * v.n, samples, *dloss)};
  }
  BORA_HD void operator()(const Line& line, int64_t c) const {
    const int64_t i = line.first + c;
    const bool counts = !region || region[kOneChannel ? i : i / channels] != 0;
    const A g = line.factor * loss.slope(load(prediction[i]) - load(target[i]));
    out[i] = static_cast<T>(counts ? g : A(0));
  }
};

}  // namespace

void data_loss_sums(Stream stream, const DataLossAttributes& attributes, const Tensor& prediction,
                    const Tensor& target, const Tensor& region, Tensor& sums) {
  constexpr const char* kOp = "data_loss_sums";
  check_loss_pair(kOp, prediction, target, region);
  const LossShape s(prediction.shape());
  check_loss_tensor(kOp, sums, {s.samples, 2}, DType::f64, "sums");
  dispatch_float(prediction.dtype(), kOp, [&]<class T>() {
    const auto run = [&]<bool kOne>(std::bool_constant<kOne>) {
      reduce_rows(stream, s.samples, s.cells(),
                  LossSums<T, kOne>{prediction.data<T>(),
                                    target.data<T>(),
                                    pointer_or_null<uint8_t>(region),
                                    sums.data<double>(),
                                    s.channels,
                                    {attributes.kind, attributes.eps}});
    };
    s.channels == 1 ? run(std::true_type{}) : run(std::false_type{});
  });
}

void data_loss_value(Stream stream, const Tensor& sums, Tensor& loss) {
  constexpr const char* kOp = "data_loss_value";
  BORA_CHECK(sums.defined() && sums.rank() == 2, kOp, ": sums is ", sums.shape(),
             ", wanted (N, 2)");
  check_loss_tensor(kOp, sums, {sums.size(0), 2}, DType::f64, "sums");
  dispatch_loss(kOp, loss, [&]<class A>() {
    for_each(stream, 1, MeanOfMeans<A>{sums.data<double>(), loss.data<A>(), sums.size(0)});
  });
}

void data_loss_backward(Stream stream, const DataLossAttributes& attributes,
                        const Tensor& prediction, const Tensor& target, const Tensor& region,
                        const Tensor& sums, const Tensor& dloss, Tensor& dprediction) {
  constexpr const char* kOp = "data_loss_backward";
  check_loss_pair(kOp, prediction, target, region);
  const LossShape s(prediction.shape());
  check_loss_tensor(kOp, sums, {s.samples, 2}, DType::f64, "sums");
  check_loss_tensor(kOp, dloss, {}, loss_type(prediction.dtype()), "dloss");
  check_loss_tensor(kOp, dprediction, prediction.shape(), prediction.dtype(), "dprediction");
  dispatch_float(prediction.dtype(), kOp, [&]<class T>() {
    const auto run = [&]<bool kOne>(std::bool_constant<kOne>) {
      const int64_t numbers = s.width * s.channels;
      for_each_cell(stream, s.samples, {s.lines, 1, 1}, numbers,
                    LossGradient<T, kOne>{prediction.data<T>(),
                                          target.data<T>(),
                                          pointer_or_null<uint8_t>(region),
                                          sums.data<double>(),
                                          dloss.data<acc_t<T>>(),
                                          dprediction.data<T>(),
                                          s.samples,
                                          s.lines,
                                          numbers,
                                          s.channels,
                                          {attributes.kind, attributes.eps}});
    };
    s.channels == 1 ? run(std::true_type{}) : run(std::false_type{});
  });
}

}  // namespace bora::kernels
