// SPDX-License-Identifier: Apache-2.0
// kernels/cuda/head_loss against the same formulas in f64, one cell after the other.
#include "kernels/cuda/head_loss.hpp"

#include <algorithm>
#include <array>

#include "kernels/loss_terms.hpp"
#include "tests/cuda/device_case.hpp"

namespace bora::kernels {
namespace {

using namespace bora::test;  // NOLINT: the support of this suite

class CudaHeadLoss : public OnDevice {};

struct Case {
  int64_t channels, n_out;
  Dims3 size;
  DType type;
  bool bias, region;
  int64_t n = 2;

  int64_t cells() const { return size.count(); }
};

DType wide(DType t) { return t == DType::f64 ? t : DType::f32; }

/// Inputs of a case; weights as large as make outputs of order 1.  Cells out of the region hold
/// NaN.
struct Inputs {
  Tensor x, w, bias, target, labels, region, dloss;

  explicit Inputs(const Case& c) {
    const int64_t all = c.n * c.cells();
    const Shape cells{c.n, c.size.d, c.size.h, c.size.w};
    std::vector<double> inside = integer_values(all, 3, 5), vt = normal_values(all * c.n_out, 3);
    for (double& v : inside) v = v > 0 ? 1.0 : 0.0;
    if (c.region)
      for (size_t i = 0; i < vt.size(); ++i)
        if (inside[i / static_cast<size_t>(c.n_out)] == 0.0) vt[i] = NAN;
    std::vector<double> vw = normal_values(c.n_out * c.channels, 2);
    for (double& v : vw) v /= std::sqrt(static_cast<double>(c.channels));
    x = on_device(cells.append(c.channels), normal_values(all * c.channels, 1), c.type);
    w = on_device({c.n_out, 1, 1, 1, c.channels}, vw, c.type);
    if (c.bias) bias = on_device({c.n_out}, normal_values(c.n_out, 4), c.type);
    target = on_device(cells.append(c.n_out), vt, wide(c.type));
    labels = on_device(cells, integer_values(all, c.n_out, 6), DType::u8);
    if (c.region) region = on_device(cells, inside, DType::u8);
    dloss = on_device({}, {1.5}, wide(c.type));
  }
  HeadInput head() const { return {x, w, bias}; }
};

/// The head in f64 on the values that the device saw.
struct Reference {
  const Case& c;
  std::vector<double> x, w, bias, target, labels, region;

  Reference(const Case& of, const Inputs& in)
      : c(of),
        x(host_values(in.x)),
        w(host_values(in.w)),
        bias(in.bias.defined() ? host_values(in.bias) : std::vector<double>(8, 0.0)),
        target(host_values(in.target)),
        labels(host_values(in.labels)),
        region(in.region.defined() ? host_values(in.region) : std::vector<double>()) {}

  bool counts(int64_t cell) const {
    return region.empty() || region[static_cast<size_t>(cell)] != 0.0;
  }
  std::array<double, 8> outputs(int64_t cell) const {
    std::array<double, 8> y{};
    for (int64_t k = 0; k < c.n_out; ++k) {
      double& sum = y[static_cast<size_t>(k)] = bias[static_cast<size_t>(k)];
      for (int64_t i = 0; i < c.channels; ++i)
        sum += x[static_cast<size_t>(cell * c.channels + i)] *
               w[static_cast<size_t>(k * c.channels + i)];
    }
    return y;
  }
  std::array<double, 8> probabilities(int64_t cell) const {
    std::array<double, 8> p = outputs(cell);
    double total = 0;
    for (int64_t k = 0; k < c.n_out; ++k) total += std::exp(p[static_cast<size_t>(k)]);
    for (int64_t k = 0; k < c.n_out; ++k)
      p[static_cast<size_t>(k)] = std::exp(p[static_cast<size_t>(k)]) / total;
    return p;
  }
  /// dx, dw, db of outputs' gradients g(cell, k).
  template <class G>
  std::array<std::vector<double>, 3> gradients(const G& g, double dw_start) const {
    std::vector<double> dx(x.size()), dw(w.size(), dw_start), db(static_cast<size_t>(c.n_out));
    for (int64_t cell = 0; cell < c.n * c.cells(); ++cell) {
      if (!counts(cell)) continue;
      const std::array<double, 8> of_cell = g(cell);
      for (int64_t k = 0; k < c.n_out; ++k) {
        const double d = of_cell[static_cast<size_t>(k)];
        db[static_cast<size_t>(k)] += d;
        for (int64_t i = 0; i < c.channels; ++i) {
          const auto xi = static_cast<size_t>(cell * c.channels + i);
          const auto wi = static_cast<size_t>(k * c.channels + i);
          dx[xi] += d * w[wi];
          dw[wi] += d * x[xi];
        }
      }
    }
    return {dx, dw, db};
  }
};

HeadGradients buffers(const Case& c, const Inputs& in) {
  const Shape& ws = in.w.shape();
  return {
      .dx = empty_on_device(in.x.shape(), c.type),
      .dw = on_device(ws, std::vector<double>(static_cast<size_t>(ws.numel()), 0.25), wide(c.type)),
      .dw_mode = GradientMode::add,
      .db = empty_on_device({c.n_out}, c.type),
      .db_mode = GradientMode::overwrite};
}

/// An output passes channels + 2 roundings, its gradient some 60 more (two exp, a log, a division:
/// 2 each; the coefficients), a weight's gradient those of a thread's share of a slab, a few dozen.
void expect_close(const Case& c, const Tensor& got, const std::vector<double>& want,
                  const char* what) {
  const double n = static_cast<double>(c.channels) + 120;
  const double bound = gamma(n, arithmetic_type(c.type)) * 8 + unit_roundoff(got.dtype()) * 1.01;
  EXPECT_EQ("", differences(host_values(got), want,
                            bound * std::max(max_abs(want), 1e-3) + absolute_floor(got.dtype())))
      << what;
}

void check_data(const Case& c, const DataLossAttributes& a) {
  SCOPED_TRACE(testing::Message() << c.type << " " << c.size << " " << c.channels << " -> "
                                  << c.n_out << " kind " << static_cast<int>(a.kind));
  const Inputs in(c);
  ASSERT_TRUE(cuda::head_loss_applies(in.head()));
  const std::vector<Tensor> got = under_all_schedules([&] {
    Tensor sums = empty_on_device({c.n, 2}, DType::f64);
    head_data_loss_sums(device_stream(), a, in.head(), in.target, in.region, sums);
    HeadGradients out = buffers(c, in);
    head_data_loss_backward(device_stream(), a, in.head(), in.target, in.region, sums, in.dloss,
                            out);
    return std::vector<Tensor>{sums, out.dx, out.dw, out.db};
  });
  const Reference r(c, in);
  const LossOfError loss{a.kind, a.eps};
  std::vector<double> sums(static_cast<size_t>(2 * c.n));
  for (int64_t cell = 0; cell < c.n * c.cells(); ++cell) {
    if (!r.counts(cell)) continue;
    double* const s = sums.data() + 2 * (cell / c.cells());
    const std::array<double, 8> y = r.outputs(cell);
    for (int64_t k = 0; k < c.n_out; ++k) {
      s[0] +=
          loss.value(y[static_cast<size_t>(k)] - r.target[static_cast<size_t>(cell * c.n_out + k)]);
      s[1] += 1;
    }
  }
  expect_close(c, got[0], sums, "sums");
  const auto g = [&](int64_t cell) {
    std::array<double, 8> y = r.outputs(cell);
    const double count = sums[static_cast<size_t>(2 * (cell / c.cells()) + 1)];
    for (int64_t k = 0; k < c.n_out; ++k) {
      double& v = y[static_cast<size_t>(k)];
      v = 1.5 / count / static_cast<double>(c.n) *
          loss.slope(v - r.target[static_cast<size_t>(cell * c.n_out + k)]);
    }
    return y;
  };
  const auto [dx, dw, db] = r.gradients(g, 0.25);
  expect_close(c, got[1], dx, "dx");
  expect_close(c, got[2], dw, "dw");
  expect_close(c, got[3], db, "db");
}

void check_classes(const Case& c, const ClassLossAttributes& a) {
  SCOPED_TRACE(testing::Message() << c.type << " " << c.size << " " << c.channels << " -> "
                                  << c.n_out << " classes");
  const Inputs in(c);
  ASSERT_TRUE(cuda::head_loss_applies(in.head()));
  const std::vector<Tensor> got = under_all_schedules([&] {
    Tensor sums = empty_on_device({c.n, c.n_out, kClassSums}, DType::f64);
    head_class_loss_sums(device_stream(), in.head(), in.labels, in.region, sums);
    HeadGradients out = buffers(c, in);
    head_class_loss_backward(device_stream(), a, in.head(), in.labels, in.region, sums, in.dloss,
                             out);
    return std::vector<Tensor>{sums, out.dx, out.dw, out.db};
  });
  const Reference r(c, in);
  std::vector<double> sums(static_cast<size_t>(c.n * c.n_out * kClassSums));
  const auto of = [&](int64_t sample, int64_t k) {
    return sums.data() + (sample * c.n_out + k) * kClassSums;
  };
  for (int64_t cell = 0; cell < c.n * c.cells(); ++cell) {
    if (!r.counts(cell)) continue;
    const std::array<double, 8> p = r.probabilities(cell);
    const auto label = static_cast<int64_t>(r.labels[static_cast<size_t>(cell)]);
    for (int64_t k = 0; k < c.n_out; ++k) {
      double* const s = of(cell / c.cells(), k);
      const double v = p[static_cast<size_t>(k)];
      s[kProbability] += v;
      s[kCells] += 1;
      if (k != label) continue;
      s[kIntersection] += v;
      s[kLabels] += 1;
      s[kSurprise] -= std::log(v);
    }
  }
  expect_close(c, got[0], sums, "sums");
  const ClassWeights weights{a.ce_weight, a.dice_weight, a.smooth, a.include_background ? 0 : 1,
                             c.n_out};
  const auto g = [&](int64_t cell) {
    const std::array<double, 8> p = r.probabilities(cell);
    const int64_t sample = cell / c.cells();
    const auto label = static_cast<int64_t>(r.labels[static_cast<size_t>(cell)]);
    std::array<double, 8> out{}, slope{};
    double mean = 0;
    for (int64_t k = 0; k < c.n_out; ++k) {
      const auto i = static_cast<size_t>(k);
      slope[i] = weights.dice_slope(of(sample, k), k, k == label);
      mean += slope[i] * p[i];
    }
    const double ce = a.ce_weight / of(sample, 0)[kCells];
    for (int64_t k = 0; k < c.n_out; ++k) {
      const auto i = static_cast<size_t>(k);
      out[i] = 1.5 / static_cast<double>(c.n) *
               (p[i] * (slope[i] - mean) + ce * (p[i] - (k == label ? 1.0 : 0.0)));
    }
    return out;
  };
  const auto [dx, dw, db] = r.gradients(g, 0.25);
  expect_close(c, got[1], dx, "dx");
  expect_close(c, got[2], dw, "dw");
  expect_close(c, got[3], db, "db");
}

/// Groups of one to sixteen threads, some not full; outputs below, at and above those of a group.
template <class Check>
void for_cases(const Check& check) {
  for (const DType type : kDeviceFloats)
    for (const int64_t channels : {8, 16, 24, 32, 64})
      for (const int64_t n_out : {1, 2, 3, 5, 8})
        check(Case{channels, n_out, {3, 5, 7}, type, n_out % 2 == 1, n_out != 2});
  check(Case{32, 3, {9, 17, 19}, DType::f16, true, true});  // several slabs
  check(Case{16, 2, {1, 1, 1}, DType::f16, true, false, 1});
}

TEST_F(CudaHeadLoss, DataLossMatchesF64) {
  for_cases([](const Case& c) {
    const auto kind = c.n_out == 2   ? DataLossKind::mae
                      : c.n_out == 3 ? DataLossKind::mse
                                     : DataLossKind::charbonnier;
    // A wide bend: where it is as narrow as a rounding of the output, slopes have no digits.
    check_data(c, {.kind = kind, .eps = 0.1});
  });
}

TEST_F(CudaHeadLoss, ClassLossMatchesF64) {
  for_cases([](const Case& c) {
    check_classes(c, {.ce_weight = 0.6,
                      .dice_weight = 1.2,
                      .smooth = 1e-5,
                      .include_background = c.n_out % 2 == 1});
  });
}

TEST_F(CudaHeadLoss, LeavesOutWhatIsNotWanted) {
  const Case c{16, 2, {3, 4, 5}, DType::f16, true, true};
  const Inputs in(c);
  Tensor sums = empty_on_device({c.n, 2}, DType::f64);
  head_data_loss_sums(device_stream(), {}, in.head(), in.target, in.region, sums);
  const auto run = [&](HeadGradients out) {
    head_data_loss_backward(device_stream(), {}, in.head(), in.target, in.region, sums, in.dloss,
                            out);
    return out;
  };
  const HeadGradients all = run(buffers(c, in));
  HeadGradients features = buffers(c, in);
  features.dw = features.db = Tensor();
  HeadGradients parameters = buffers(c, in);
  parameters.dx = Tensor();
  EXPECT_EQ(host_bytes(all.dx), host_bytes(run(features).dx));
  const HeadGradients got = run(parameters);
  EXPECT_EQ(host_bytes(all.dw), host_bytes(got.dw));
  EXPECT_EQ(host_bytes(all.db), host_bytes(got.db));
}

TEST_F(CudaHeadLoss, AnEmptyRegionGivesNoGradient) {
  const Case c{16, 3, {3, 4, 5}, DType::f16, true, false};
  Inputs in(c);
  in.region = empty_on_device(in.labels.shape(), DType::u8);
  Tensor sums = empty_on_device({c.n, c.n_out, kClassSums}, DType::f64);
  head_class_loss_sums(device_stream(), in.head(), in.labels, in.region, sums);
  EXPECT_EQ(0.0, max_abs(host_values(sums)));
  HeadGradients out = buffers(c, in);
  out.dw_mode = GradientMode::overwrite;
  head_class_loss_backward(device_stream(), {.dice_weight = 1.0}, in.head(), in.labels, in.region,
                           sums, in.dloss, out);
  for (const Tensor& t : {out.dx, out.dw, out.db})
    for (const double v : host_values(t)) EXPECT_EQ(0.0, v);
}

TEST_F(CudaHeadLoss, LeavesOthersToConvolutionAndLoss) {
  const auto applies = [](int64_t channels, int64_t n_out, int64_t shift = 0) {
    const Tensor x = empty_on_device({1, 3, 3, 3, channels}, DType::f16, shift);
    const Tensor w = empty_on_device({n_out, 1, 1, 1, channels}, DType::f16), none;
    return cuda::head_loss_applies({x, w, none});
  };
  EXPECT_TRUE(applies(16, 3));
  EXPECT_FALSE(applies(16, 9));
  EXPECT_FALSE(applies(12, 3));
  EXPECT_FALSE(applies(512, 3));
  EXPECT_FALSE(applies(16, 3, 1));
}

}  // namespace
}  // namespace bora::kernels
