// SPDX-License-Identifier: Apache-2.0
// Losses below the tape: closed forms, masks, large sums.  Features 93, 110.  (Values and gradients
// on random data: tests/nn/loss_cases.cpp.)
#include "kernels/loss.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/loss_gradient_generic.hpp"
#include "tests/support/device.hpp"
#include "tests/support/random.hpp"
#include "tests/support/tolerance.hpp"

namespace bora::kernels {
namespace {

using test::differences;
using test::make_tensor;
using test::normal_values;
using test::values_of;

const Stream kStream = test::stream();

double value_of(const DataLossAttributes& a, const Tensor& p, const Tensor& t, const Tensor& region,
                Tensor* gradient = nullptr) {
  Tensor sums = test::empty({p.size(0), 2}, DType::f64);
  data_loss_sums(kStream, a, p, t, region, sums);
  Tensor loss = test::empty({}, DType::f32);
  data_loss_value(kStream, sums, loss);
  if (gradient) {
    *gradient = test::empty(p.shape(), p.dtype());
    data_loss_backward(kStream, a, p, t, region, sums, test::full({}, 1.0, DType::f32), *gradient);
  }
  return loss.item();
}

double value_of(GradientLossForm form, const Tensor& p, const Tensor& t, const Tensor& region,
                Tensor* gradient = nullptr) {
  Tensor sums = test::empty({p.size(0), 3, 4}, DType::f64);
  gradient_loss_sums(kStream, form, p, t, region, sums);
  Tensor loss = test::empty({}, DType::f32);
  gradient_loss_value(kStream, form, sums, loss);
  if (gradient) {
    *gradient = test::empty(p.shape(), p.dtype());
    gradient_loss_backward(kStream, form, p, t, region, sums, test::full({}, 1.0, DType::f32),
                           *gradient);
  }
  return loss.item();
}

double value_of(const ClassLossAttributes& a, const Tensor& logits, const ClassCells& cells) {
  Tensor normaliser = test::empty(cells.labels.shape().append(2), DType::f32);
  Tensor sums = test::empty({logits.size(0), logits.size(-1), 5}, DType::f64);
  class_loss_sums(kStream, logits, cells, normaliser, sums);
  Tensor loss = test::empty({}, DType::f32);
  class_loss_value(kStream, a, sums, loss,
                   cells.weights.defined() ? CellWeights::given : CellWeights::none);
  return loss.item();
}

/// A (1, d, h, w, 1) field from a function of the cell.
template <class F>
Tensor field(int64_t d, int64_t h, int64_t w, F&& f, DType type = DType::f32) {
  std::vector<double> values;
  for (int64_t i = 0; i < d; ++i)
    for (int64_t j = 0; j < h; ++j)
      for (int64_t k = 0; k < w; ++k)
        values.push_back(f(static_cast<double>(i), static_cast<double>(j), static_cast<double>(k)));
  return make_tensor({1, d, h, w, 1}, values, type);
}

TEST(DataLoss, ConstantErrorGivesTheClosedForm) {
  const Tensor t = field(3, 4, 5, [](double d, double h, double w) { return d + 2 * h - w; });
  const Tensor p = field(3, 4, 5, [](double d, double h, double w) { return d + 2 * h - w - 0.5; });
  Tensor g;
  EXPECT_FLOAT_EQ(0.25f, static_cast<float>(value_of({DataLossKind::mse}, p, t, {}, &g)));
  EXPECT_EQ("", differences(values_of(g), std::vector<double>(60, -1.0 / 60), 1e-9));
  EXPECT_FLOAT_EQ(0.5f, static_cast<float>(value_of({DataLossKind::mae}, p, t, {}, &g)));
  EXPECT_EQ("", differences(values_of(g), std::vector<double>(60, -1.0 / 60), 1e-9));
  const double root = std::sqrt(0.25 + 0.01 * 0.01);
  EXPECT_FLOAT_EQ(static_cast<float>(root),
                  static_cast<float>(value_of({DataLossKind::charbonnier, 0.01}, p, t, {}, &g)));
  EXPECT_EQ("", differences(values_of(g), std::vector<double>(60, -0.5 / root / 60), 1e-9));
}

TEST(DataLoss, NoErrorGivesEpsAndNoGradient) {
  const Tensor t = field(2, 3, 4, [](double d, double h, double w) { return d * h * w; });
  Tensor g;
  EXPECT_FLOAT_EQ(1e-3f, static_cast<float>(value_of(DataLossAttributes{}, t, t, {}, &g)));
  EXPECT_EQ("", differences(values_of(g), std::vector<double>(24, 0.0), 0));
  EXPECT_EQ(0.0, value_of({DataLossKind::mae}, t, t, {}, &g));
  EXPECT_EQ("", differences(values_of(g), std::vector<double>(24, 0.0), 0));
}

// Feature 93: padded and building cells never enter, whatever stands there.
TEST(Losses, NaNOutsideTheRegionDoesNoHarm) {
  std::vector<double> p = normal_values(2 * 4 * 5 * 6, 1), t = normal_values(2 * 4 * 5 * 6, 2);
  std::vector<double> clean_p = p, clean_t = t;
  Tensor region = test::full({2, 4, 5, 6}, 1.0, DType::u8);
  for (size_t i = 0; i < p.size(); i += 3) {
    test::put<uint8_t>(region, static_cast<int64_t>(i), 0);
    p[i] = i % 2 ? NAN : HUGE_VAL;
    t[i] = NAN;
    clean_p[i] = clean_t[i] = 0;
  }
  const Shape s{2, 4, 5, 6, 1};
  const auto narrow = [&](const std::vector<double>& v) { return make_tensor(s, v, DType::f32); };
  const auto check = [&](const auto& what) {
    Tensor g, clean_g;
    const double got = value_of(what, narrow(p), narrow(t), region, &g);
    EXPECT_TRUE(std::isfinite(got));
    EXPECT_EQ(value_of(what, narrow(clean_p), narrow(clean_t), region, &clean_g), got);
    EXPECT_EQ("", differences(values_of(g), values_of(clean_g), 0));
    for (size_t i = 0; i < p.size(); i += 3) EXPECT_EQ(0.0, values_of(g)[i]);
  };
  for (const auto kind : {DataLossKind::mse, DataLossKind::mae, DataLossKind::charbonnier})
    check(DataLossAttributes{kind});
  for (const auto form :
       {GradientLossForm::plain, GradientLossForm::inverse, GradientLossForm::edge})
    check(form);
}

TEST(Losses, NaNInsideTheRegionIsSeen) {
  std::vector<double> p = normal_values(60, 3);
  const Tensor t = make_tensor({1, 3, 4, 5, 1}, p, DType::f32);
  p[17] = NAN;
  const Tensor bad = make_tensor({1, 3, 4, 5, 1}, p, DType::f32);
  EXPECT_TRUE(std::isnan(value_of(DataLossAttributes{}, bad, t, {})));
  Tensor g;
  EXPECT_TRUE(std::isnan(value_of(GradientLossForm::plain, bad, t, {}, &g)));
  EXPECT_TRUE(std::isnan(values_of(g)[17]));
}

TEST(Losses, SamplesCountEquallyAndAnEmptyOneAddsNothing) {
  const Shape s{3, 2, 2, 2, 1};
  const Tensor t = test::zeros(s, DType::f32);
  std::vector<double> values(24, 0.0);
  for (size_t i = 0; i < 8; ++i) values[i] = 3.0;      // sample 0, 2 cells of it count
  for (size_t i = 8; i < 16; ++i) values[i] = 1.0;     // sample 1, all count
  for (size_t i = 16; i < 24; ++i) values[i] = 100.0;  // sample 2, none counts
  const Tensor p = make_tensor(s, values, DType::f32);
  Tensor region = test::zeros({3, 2, 2, 2}, DType::u8);
  for (int64_t i : {1, 6, 8, 9, 10, 11, 12, 13, 14, 15}) test::put<uint8_t>(region, i, 1);
  Tensor g;
  EXPECT_FLOAT_EQ(4.0f / 3.0f, static_cast<float>(value_of({DataLossKind::mae}, p, t, region, &g)));
  std::vector<double> wanted(24, 0.0);
  wanted[1] = wanted[6] = 1.0 / 3 / 2;
  for (size_t i = 8; i < 16; ++i) wanted[i] = 1.0 / 3 / 8;
  EXPECT_EQ("", differences(values_of(g), wanted, 1e-8));
  // Three "ranks" with a sample each: the mean of their losses is the same.
  double mean = 0;
  for (int64_t n = 0; n < 3; ++n)
    mean +=
        value_of({DataLossKind::mae}, p.rows(n, n + 1), t.rows(n, n + 1), region.rows(n, n + 1)) /
        3;
  EXPECT_NEAR(4.0 / 3.0, mean, 1e-6);
}

TEST(Losses, NoRegionAtAllGivesZero) {
  const Tensor p = field(3, 3, 3, [](double d, double, double) { return d; });
  const Tensor t = test::zeros(p.shape(), DType::f32);
  const Tensor none = test::zeros({1, 3, 3, 3}, DType::u8);
  Tensor g;
  EXPECT_EQ(0.0, value_of(DataLossAttributes{}, p, t, none, &g));
  EXPECT_EQ("", differences(values_of(g), std::vector<double>(27, 0.0), 0));
  EXPECT_EQ(0.0, value_of(GradientLossForm::edge, p, t, none, &g));
  EXPECT_EQ("", differences(values_of(g), std::vector<double>(27, 0.0), 0));
}

// Feature 110: ramps have constant differences along each axis.
TEST(GradientLoss, RampsGiveTheClosedForm) {
  const Tensor t = field(4, 3, 5, [](double d, double h, double w) { return d - 2 * h + 4 * w; });
  const Tensor p = field(4, 3, 5, [](double d, double h, double w) { return 4 * d + 5 * w - h; });
  // |D p - D t| is 3, 1, 1.
  EXPECT_FLOAT_EQ(5.0f / 3, static_cast<float>(value_of(GradientLossForm::plain, p, t, {})));
  const double inverse = (3 / 1.001 + 1 / 2.001 + 1 / 4.001) / 3;
  EXPECT_FLOAT_EQ(static_cast<float>(inverse),
                  static_cast<float>(value_of(GradientLossForm::inverse, p, t, {})));
  // Equal slopes have equal weights, so the edge form is the plain one.
  EXPECT_FLOAT_EQ(5.0f / 3, static_cast<float>(value_of(GradientLossForm::edge, p, t, {})));
}

// One line of cells: slopes 0, 0, 6 have mean 2, weights 0.5, 0.5, 2; mean weight 1.
TEST(GradientLoss, EdgeFormWeighsSteepPlacesMore) {
  const Tensor t = make_tensor({1, 1, 1, 4, 1}, {1, 1, 1, 7}, DType::f32);
  const Tensor flat_wrong = make_tensor({1, 1, 1, 4, 1}, {1, 2, 2, 8}, DType::f32);
  const Tensor steep_wrong = make_tensor({1, 1, 1, 4, 1}, {1, 1, 1, 8}, DType::f32);
  EXPECT_FLOAT_EQ(0.5f / 3 / 3,
                  static_cast<float>(value_of(GradientLossForm::edge, flat_wrong, t, {})));
  EXPECT_FLOAT_EQ(2.0f / 3 / 3,
                  static_cast<float>(value_of(GradientLossForm::edge, steep_wrong, t, {})));
  EXPECT_FLOAT_EQ(1.0f / 3 / 3,
                  static_cast<float>(value_of(GradientLossForm::plain, steep_wrong, t, {})));
}

TEST(GradientLoss, GradientIsThatOfOneDifference) {
  const Tensor t = make_tensor({1, 1, 2, 1, 1}, {0, 0}, DType::f32);
  const Tensor p = make_tensor({1, 1, 2, 1, 1}, {1, 3}, DType::f32);
  Tensor g;
  EXPECT_FLOAT_EQ(2.0f / 3, static_cast<float>(value_of(GradientLossForm::plain, p, t, {}, &g)));
  EXPECT_EQ("", differences(values_of(g), {-1.0 / 3, 1.0 / 3}, 1e-7));
}

// The functors that CUDA runs, on the CPU, against the CPU's own loops.
TEST(GradientLoss, LaunchShapesAgreeWithTheLoops) {
  for (const Shape& s : {Shape{2, 3, 5, 35, 1}, Shape{2, 4, 3, 5, 3}, Shape{1, 1, 1, 1, 2}})
    for (const bool masked : {false, true})
      for (const auto form :
           {GradientLossForm::plain, GradientLossForm::inverse, GradientLossForm::edge})
        for (const DType type : {DType::f64, DType::f32, DType::f16}) {
          const Tensor p = make_tensor(s, normal_values(s.numel(), 31), type);
          const Tensor t = make_tensor(s, normal_values(s.numel(), 32), type);
          const Shape cells{s[0], s[1], s[2], s[3]};
          const Tensor region =
              masked ? make_tensor(cells, test::integer_values(cells.numel(), 2, 33), DType::u8)
                     : Tensor();
          Tensor a = test::empty({s[0], 3, 4}, DType::f64), b = a.clone();
          gradient_loss_sums(kStream, form, p, t, region, a);
          generic::gradient_loss_sums(kStream, form, p, t, region, b);
          // Runs of at most 35 numbers are summed in f32, then all in f64.
          const double u = test::relative_bound(type == DType::f64 ? type : DType::f32, 50);
          EXPECT_EQ("", differences(values_of(b), values_of(a), u * test::max_abs(values_of(a))));
          Tensor da = test::empty(s, type), db = test::empty(s, type);
          const Tensor dloss = test::full({}, 0.7, type == DType::f64 ? DType::f64 : DType::f32);
          gradient_loss_backward(kStream, form, p, t, region, a, dloss, da);
          generic::gradient_loss_backward(kStream, form, p, t, region, a, dloss, db);
          const double v = test::relative_bound(type, 50, 1);
          EXPECT_EQ("",
                    differences(values_of(db), values_of(da), v * test::max_abs(values_of(da))));
        }
}

// cases.md "AMP loss": a plain f16 sum passes 65504.
TEST(Losses, F16SumsBeyond65504AreFine) {
  const int64_t n = 512;
  const Tensor ones = test::full({1, 1, n, n, 1}, 1.0, DType::f16);
  const Tensor twos = test::full({1, 1, n, n, 1}, 3.0, DType::f16);
  EXPECT_EQ(4.0, value_of({DataLossKind::mse}, twos, ones, {}));
  EXPECT_EQ(0.0, value_of(GradientLossForm::plain, twos, ones, {}));
  // All cells are class 1 and predicted so: Dice and cross-entropy are 0 (class 0 is absent).
  std::vector<double> logits;
  for (int64_t i = 0; i < n * n; ++i) logits.insert(logits.end(), {-40.0, 40.0});
  const Tensor l = make_tensor({1, 1, n, n, 2}, logits, DType::f16);
  const Tensor labels = test::full({1, 1, n, n}, 1.0, DType::u8);
  EXPECT_NEAR(0.0, value_of(ClassLossAttributes{1.0, 1.0}, l, {labels}), 1e-6);
}

TEST(ClassLoss, UniformLogitsGiveTheClosedForm) {
  // p = 1/3 everywhere; 6 cells of class 0, 2 of class 1, none of class 2.
  const Tensor logits = test::full({1, 2, 2, 2, 3}, 7.0, DType::f32);
  const Tensor labels =
      test::from<uint8_t>({1, 2, 2, 2}, std::vector<uint8_t>{0, 0, 0, 0, 0, 0, 1, 1});
  EXPECT_NEAR(std::log(3.0), value_of(ClassLossAttributes{}, logits, {labels}), 1e-6);
  const double s = 1e-5, p = 8.0 / 3;
  const double score =
      ((2 * 2.0 + s) / (p + 6 + s) + (4.0 / 3 + s) / (p + 2 + s) + s / (p + s)) / 3;
  EXPECT_NEAR(1 - score, value_of(ClassLossAttributes{0.0, 1.0}, logits, {labels}), 1e-6);
}

TEST(ClassLoss, LargeLogitsStayFinite) {
  std::vector<double> values{3e4, -3e4, 1e4, 3e4 - 1, -6e4, 6e4};
  const Tensor logits = make_tensor({1, 1, 1, 2, 3}, values, DType::f32);
  const Tensor labels = test::from<uint8_t>({1, 1, 1, 2}, std::vector<uint8_t>{0, 1});
  // Cell 0 is certain; cell 1 is certain of another class, 12e4 away.
  EXPECT_NEAR(6e4, value_of(ClassLossAttributes{}, logits, {labels}), 1e-2);
}

TEST(ClassLoss, LabelThatIsNoClassGivesNaN) {
  const Tensor logits = test::zeros({1, 1, 1, 2, 3}, DType::f32);
  const Tensor labels = test::from<uint8_t>({1, 1, 1, 2}, std::vector<uint8_t>{0, 255});
  EXPECT_TRUE(std::isnan(value_of(ClassLossAttributes{}, logits, {labels})));
  const Tensor region = test::from<uint8_t>({1, 1, 1, 2}, std::vector<uint8_t>{1, 0});
  EXPECT_NEAR(std::log(3.0), value_of(ClassLossAttributes{}, logits, {labels, region}), 1e-6);
}

TEST(ClassLoss, WeightsOfOneChangeNoBit) {
  const Shape s{2, 3, 5, 7, 4};
  const Tensor logits = make_tensor(s, normal_values(s.numel(), 4), DType::f32);
  const Tensor labels = make_tensor({2, 3, 5, 7}, test::integer_values(210, 4, 5), DType::u8);
  const Tensor ones = test::full({2, 3, 5, 7}, 1.0, DType::f32);
  for (const ClassLossAttributes& a : {ClassLossAttributes{}, ClassLossAttributes{0.5, 1.0}})
    EXPECT_EQ(value_of(a, logits, {labels}), value_of(a, logits, {labels, {}, ones}));
}

TEST(ClassLoss, AWeightOfZeroIsOutsideTheRegion) {
  const Shape s{2, 3, 4, 5, 3};
  std::vector<double> x = normal_values(s.numel(), 6), t = test::integer_values(120, 3, 7);
  std::vector<double> weights(120, 1.0);
  for (size_t i = 0; i < 120; i += 4) {
    weights[i] = 0.0;
    t[i] = 255;  // no class
    x[3 * i] = NAN;
  }
  const Tensor logits = make_tensor(s, x, DType::f32);
  const Tensor labels = make_tensor({2, 3, 4, 5}, t, DType::u8);
  const Tensor w = make_tensor({2, 3, 4, 5}, weights, DType::f32);
  const Tensor region = make_tensor({2, 3, 4, 5}, weights, DType::u8);
  const ClassLossAttributes both{1.0, 1.0};
  const double got = value_of(both, logits, {labels, {}, w});
  EXPECT_TRUE(std::isfinite(got));
  EXPECT_EQ(value_of(both, logits, {labels, region}), got);

  Tensor normaliser = test::empty({2, 3, 4, 5, 2}, DType::f32);
  Tensor sums = test::empty({2, 3, 5}, DType::f64), dx = test::empty(s, DType::f32);
  class_loss_sums(kStream, logits, {labels, {}, w}, normaliser, sums);
  class_loss_backward(kStream, both, logits, {labels, {}, w}, normaliser, sums,
                      test::full({}, 1.0, DType::f32), dx);
  const std::vector<double> gradient = values_of(dx);
  for (size_t i = 0; i < gradient.size(); ++i) {
    EXPECT_TRUE(i / 3 % 4 != 0 || gradient[i] == 0.0) << i;
    EXPECT_TRUE(std::isfinite(gradient[i])) << i;
  }
}

TEST(ClassLoss, OnlyRatiosOfWeightsMatterInCrossEntropy) {
  const Tensor logits = make_tensor({1, 2, 1, 1, 2}, {2.0, 0.0, 0.0, 3.0}, DType::f32);
  const Tensor labels = make_tensor({1, 2, 1, 1}, {0, 0}, DType::u8);
  const auto weights = [](double a, double b) {
    return make_tensor({1, 2, 1, 1}, {a, b}, DType::f32);
  };
  const double first = std::log1p(std::exp(-2.0)), second = std::log1p(std::exp(3.0));
  const double wanted = (3 * first + second) / 4;
  const double bound = 16 * test::unit_roundoff(DType::f32) * second;
  for (const double scale : {1.0, 1e-3, 1e6})
    EXPECT_NEAR(wanted,
                value_of(ClassLossAttributes{}, logits, {labels, {}, weights(3 * scale, scale)}),
                bound);
}

TEST(ClassLoss, WeightsThatAreAllZeroGiveNoLossAndNoGradient) {
  const Tensor logits = make_tensor({2, 2, 1, 1, 2}, normal_values(8, 8), DType::f32);
  const Tensor labels = test::zeros({2, 2, 1, 1}, DType::u8);
  const ClassLossAttributes both{1.0, 1.0};
  const Tensor none = test::zeros({2, 2, 1, 1}, DType::f32);
  EXPECT_EQ(0.0, value_of(both, logits, {labels, {}, none}));
  // One of two samples: half of the other's loss.
  std::vector<double> values = normal_values(8, 8);
  const Tensor some = make_tensor({2, 2, 1, 1}, {3, 2, 0, 0}, DType::f32);
  const double got = value_of(both, logits, {labels, {}, some});
  values.resize(4);
  const Tensor first = make_tensor({1, 2, 1, 1, 2}, values, DType::f32);
  const Tensor weights = make_tensor({1, 2, 1, 1}, {3, 2}, DType::f32);
  EXPECT_EQ(value_of(both, first, {test::zeros({1, 2, 1, 1}, DType::u8), {}, weights}) / 2, got);
}

TEST(ClassLoss, BadWeightsAndLabelsGiveNaN) {
  const Tensor logits = test::zeros({1, 1, 1, 2, 3}, DType::f32);
  const Tensor labels = make_tensor({1, 1, 1, 2}, {0, 3}, DType::u8);
  const Tensor good = make_tensor({1, 1, 1, 2}, {0, 2}, DType::u8);
  const auto weights = [](double a, double b) {
    return make_tensor({1, 1, 1, 2}, {a, b}, DType::f32);
  };
  const auto loss = [&](const Tensor& l, const Tensor& w, const Tensor& region = {}) {
    return value_of(ClassLossAttributes{1.0, 1.0}, logits, {l, region, w});
  };
  EXPECT_TRUE(std::isfinite(loss(good, weights(1, 0.5))));
  EXPECT_TRUE(std::isnan(loss(labels, weights(1, 0.5))));
  for (const double bad : {-1.0, -1e-30, double{NAN}, double{HUGE_VAL}, -double{HUGE_VAL}}) {
    EXPECT_TRUE(std::isnan(loss(good, weights(1, bad)))) << bad;
    const Tensor region = make_tensor({1, 1, 1, 2}, {1, 0}, DType::u8);
    EXPECT_TRUE(std::isfinite(loss(good, weights(1, bad), region))) << bad;
  }
}

TEST(Losses, RefuseWrongArguments) {
  const Tensor p = test::zeros({1, 2, 3, 4, 1}, DType::f32);
  Tensor sums = test::empty({1, 2}, DType::f64);
  const auto run = [&](const Tensor& t, const Tensor& region) {
    data_loss_sums(kStream, {}, p, t, region, sums);
  };
  EXPECT_NO_THROW(run(p, {}));
  EXPECT_THROW(run(test::zeros({1, 2, 3, 4, 2}, DType::f32), {}), Error);
  EXPECT_THROW(run(p.to(DType::f64), {}), Error);
  EXPECT_THROW(run(p, test::zeros({1, 2, 3, 5}, DType::u8)), Error);
  EXPECT_THROW(run(p, test::zeros({1, 2, 3, 4}, DType::f32)), Error);
}

}  // namespace
}  // namespace bora::kernels
