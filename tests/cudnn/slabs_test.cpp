// SPDX-License-Identifier: Apache-2.0
// Convolutions in pieces: the results are those of the whole, beyond 2^31 elements by arithmetic.
#include "kernels/cudnn/slabs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/backend.hpp"
#include "core/tape.hpp"
#include "kernels/conv3d_reference.hpp"
#include "kernels/cudnn/add_bias.hpp"
#include "tests/kernels/conv_support.hpp"
#include "tests/support/message_of.hpp"

namespace bora::kernels::cudnn {
namespace {

using test::ConvCase;
using test::ConvData;

/// The reference in the place of cuDNN: gradients of halves only by way of halves, no tensor above
/// the limit.
class ReferenceEngine final : public ConvEngine {
 public:
  explicit ReferenceEngine(int64_t limit) : limit_(limit) {}
  int n_calls = 0;

  void forward(Stream stream, const Conv3dAttributes& a, const Tensor& x, const Tensor& w,
               const Tensor& bias, Tensor& y) override {
    note(x, y);
    reference::conv3d_forward(a, x, w, Tensor(), y);
    if (bias.defined()) add_bias(stream, bias, y);
  }
  void backward_data(Stream, const Conv3dAttributes& a, const Tensor& dy, const Tensor& w,
                     Tensor& dx) override {
    note(dy, dx);
    reference::conv3d_backward_data(a, dy, w, Tensor(), dx);
  }
  void backward_weights(Stream stream, const Conv3dAttributes& a, const Tensor& x, const Tensor& dy,
                        GradientMode mode, Tensor& dw) override {
    note(x, dy);
    if (dw.dtype() == x.dtype()) return reference::conv3d_backward_weights(a, x, dy, mode, dw);
    Tensor half = Tensor::empty(dw.shape(), x.dtype());
    reference::conv3d_backward_weights(a, x, dy, GradientMode::overwrite, half);
    if (mode == GradientMode::overwrite) return dw.copy_from(half);
    backend(DeviceType::cpu)
        .accumulate(stream, dw.raw(), dw.dtype(), half.raw(), half.dtype(), dw.numel());
  }
  void add_bias(Stream stream, const Tensor& bias, Tensor& y) override {
    cudnn::add_bias(stream, bias, y);
  }

 private:
  void note(const Tensor& a, const Tensor& b) {
    ++n_calls;
    EXPECT_GT(a.numel(), 0);
    EXPECT_GT(b.numel(), 0);
    EXPECT_LE(a.numel(), limit_);
    EXPECT_LE(b.numel(), limit_);
  }
  int64_t limit_;
};

std::vector<ConvCase> cases() {
  const auto same = [](int64_t k) { return Conv3dAttributes{.padding = Dims3::all(k / 2)}; };
  return {
      {3, {9, 4, 5}, Dims3::all(3), 4, 6, same(3), true},
      {1, {17, 3, 3}, Dims3::all(5), 2, 3, same(5), false},
      {2, {8, 4, 4}, Dims3::all(1), 5, 1, {}, true},
      {2, {12, 6, 4}, Dims3::all(3), 4, 4, {.stride = Dims3::all(2), .padding = Dims3::all(1)}},
      {2, {11, 4, 4}, Dims3::all(2), 3, 4, {.stride = Dims3::all(2)}, true},
      {1, {13, 5, 5}, Dims3::all(3), 2, 2, {.padding = Dims3::all(2), .dilation = Dims3::all(2)}},
      {2, {10, 3, 3}, Dims3::all(3), 4, 8, {.padding = Dims3::all(1), .groups = 2}, true},
      {1, {9, 3, 3}, {1, 3, 3}, 2, 2, {.stride = {3, 1, 1}, .padding = {0, 1, 1}}},
      {2, {4, 3, 3}, Dims3::all(3), 2, 2, {.padding = {4, 1, 1}}, true},  // planes of padding only
  };
}

/// About `parts` planes a piece, or several samples.
int64_t limit_of(const ConvCase& c, int64_t planes) {
  const Shape x = c.x(), y = c.y();
  return std::max(x[2] * x[3] * x[4], y[2] * y[3] * y[4]) * planes;
}

class Slabs : public ::testing::TestWithParam<DType> {};

TEST_P(Slabs, ForwardAndDataGradientHaveTheBitsOfTheWhole) {
  for (const ConvCase& c : cases()) {
    for (const int64_t planes : {6, 9, 1000000}) {
      SCOPED_TRACE(detail::join(c, ", ", planes, " planes"));
      const ConvData d(c, GetParam(), 31);
      const int64_t limit = limit_of(c, planes);
      ReferenceEngine engine(limit), whole(int64_t{1} << 40);
      Tensor y = Tensor::full(c.y(), NAN, GetParam()), want = y.clone();
      run_forward(engine, y.stream(), c.a, d.x, d.w, d.b, y, limit);
      run_forward(whole, y.stream(), c.a, d.x, d.w, d.b, want);
      EXPECT_EQ(test::values_of(y), test::values_of(want));
      if (planes == 1000000) {
        EXPECT_EQ(engine.n_calls, 1);
      } else if (y.numel() > limit && c.a.padding.d < 3) {
        EXPECT_GT(engine.n_calls, 1);
      }
      const Tensor bias = c.bias ? Tensor::full({c.c_in}, 0.25, GetParam()) : Tensor();
      Tensor dx = Tensor::full(c.x(), NAN, GetParam()), want_dx = dx.clone();
      run_backward_data(engine, dx.stream(), c.a, d.dy, d.w, bias, dx, limit);
      run_backward_data(whole, dx.stream(), c.a, d.dy, d.w, bias, want_dx);
      EXPECT_EQ(test::values_of(dx), test::values_of(want_dx));
    }
  }
}

TEST_P(Slabs, WeightGradientsAreSummedInF32) {
  for (const ConvCase& c : cases()) {
    for (const GradientMode mode : {GradientMode::overwrite, GradientMode::add}) {
      for (const DType type : {DType::f32, GetParam()}) {
        SCOPED_TRACE(detail::join(c, ", gradient ", type));
        const ConvData d(c, GetParam(), 77);
        const int64_t limit = limit_of(c, 6);
        ReferenceEngine engine(limit);
        Tensor dw = Tensor::full(c.w(), mode == GradientMode::add ? 0.5 : NAN, type);
        run_backward_weights(engine, dw.stream(), c.a, d.x, d.dy, mode, dw, limit);
        Tensor want = Tensor::full(c.w(), 0.5, DType::f64), size = want.clone();
        reference::conv3d_backward_weights(c.a, d.x64, d.dy64, mode, want);
        reference::conv3d_backward_weights(c.a, test::absolute(d.x64), test::absolute(d.dy64), mode,
                                           size);
        // Each piece's sum is rounded once to the operands' type, by at most u times its terms.
        const std::vector<double> got = test::values_of(dw), truth = test::values_of(want),
                                  bound = test::values_of(size);
        const double u = test::unit_roundoff(GetParam());
        for (size_t i = 0; i < got.size(); ++i)
          ASSERT_LE(std::abs(got[i] - truth[i]), 2.0 * u * bound[i] + 1e-5 * bound[i]) << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Slabs, ::testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& i) { return std::string(name_of(i.param)); });

TEST(SlabsEdges, EmptyTensorsAreDealtWithWithoutTheEngine) {
  ReferenceEngine engine(100);
  const Conv3dAttributes a{.padding = Dims3::all(1)};
  const Tensor x = Tensor::zeros({2, 0, 3, 3, 2}, DType::f32),
               w = Tensor::zeros({4, 3, 3, 3, 2}, DType::f32);
  Tensor y = Tensor::zeros({2, 0, 3, 3, 4}, DType::f32),
         dw = Tensor::full(w.shape(), 3.0, DType::f32);
  run_forward(engine, x.stream(), a, x, w, Tensor(), y);
  run_backward_weights(engine, x.stream(), a, x, y, GradientMode::add, dw);
  EXPECT_EQ(dw.view(0, {1}).item(), 3.0);
  run_backward_weights(engine, x.stream(), a, x, y, GradientMode::overwrite, dw);
  EXPECT_EQ(dw.view(0, {1}).item(), 0.0);
  EXPECT_EQ(engine.n_calls, 0);
}

// A transposed convolution's input is what a layer before it left on the tape.
TEST(SlabsEdges, OperandsMayBeRecordedOnTheTape) {
  const ConvCase c{3, {9, 4, 5}, Dims3::all(3), 4, 6, {.padding = Dims3::all(1)}};
  const ConvData d(c, DType::f32, 1);
  const Tensor x = make_leaf(d.x, "x"), dy = make_leaf(d.dy, "dy"), w = make_leaf(d.w, "w");
  for (const int64_t limit : {int64_t{700}, kEngineElements}) {
    ReferenceEngine engine(limit);
    const auto all = [&](const Tensor& in, const Tensor& weight, const Tensor& out) {
      Tensor y = Tensor::zeros(c.y(), DType::f32), dx = Tensor::zeros(d.x.shape(), DType::f32),
             dw = Tensor::zeros(d.w.shape(), DType::f32);
      run_forward(engine, y.stream(), c.a, in, weight, Tensor(), y, limit);
      run_backward_data(engine, y.stream(), c.a, out, weight, Tensor(), dx, limit);
      run_backward_weights(engine, y.stream(), c.a, in, out, GradientMode::overwrite, dw, limit);
      std::vector<float> values = y.to_vector<float>();
      for (const Tensor& t : {dx, dw})
        for (const float v : t.to_vector<float>()) values.push_back(v);
      return values;
    };
    EXPECT_EQ(all(x, w, dy), all(d.x, d.w, d.dy));
  }
}

TEST(SlabsEdges, APlaneAboveTheLimitIsRefusedByShape) {
  ReferenceEngine engine(100);
  const ConvCase c{1, {4, 8, 8}, Dims3::all(3), 4, 4, {.padding = Dims3::all(1)}};
  const ConvData d(c, DType::f32, 1);
  Tensor y = Tensor::zeros(c.y(), DType::f32);
  EXPECT_THAT(testing::message_of(
                  [&] { run_forward(engine, y.stream(), c.a, d.x, d.w, Tensor(), y, 100); }),
              ::testing::HasSubstr("(1, 4, 8, 8, 4)"));
}

/// Notes what it is asked for and touches no memory.
class NotingEngine final : public ConvEngine {
 public:
  struct Call {
    int64_t first_byte, result_byte;
    Shape first, result;
    int64_t padding;
  };
  NotingEngine(const Tensor& first, const Tensor& result)
      : first_(static_cast<const char*>(first.raw())),
        result_(static_cast<const char*>(result.raw())) {}
  std::vector<Call> calls;

  void forward(Stream, const Conv3dAttributes& a, const Tensor& x, const Tensor&, const Tensor&,
               Tensor& y) override {
    note(a, x, y);
  }
  void backward_data(Stream, const Conv3dAttributes& a, const Tensor& dy, const Tensor&,
                     Tensor& dx) override {
    note(a, dy, dx);
  }
  void backward_weights(Stream, const Conv3dAttributes& a, const Tensor& x, const Tensor& dy,
                        GradientMode, Tensor&) override {
    note(a, x, dy);
  }
  void add_bias(Stream, const Tensor&, Tensor&) override { FAIL(); }

 private:
  void note(const Conv3dAttributes& a, const Tensor& first, const Tensor& result) {
    calls.push_back({static_cast<const char*>(first.raw()) - first_,
                     static_cast<const char*>(result.raw()) - result_, first.shape(),
                     result.shape(), a.padding.d});
  }
  const char* first_;
  const char* result_;
};

/// A tensor that is nowhere: addresses are computed, never used.
Tensor nowhere(const Shape& shape, uintptr_t address) {
  return Tensor::wrap(reinterpret_cast<void*>(address), shape, DType::f16);
}

TEST(SlabsBeyond31Bits, CutOneSampleWithItsHalo) {
  // 512^3 cells of 64 channels: 8.6e9 elements, four times what an engine counts.
  const Shape s{2, 512, 512, 512, 64};
  const Tensor x = nowhere(s, uintptr_t{1} << 40), w = nowhere({64, 3, 3, 3, 64}, 4096);
  Tensor y = nowhere(s, uintptr_t{1} << 45);
  NotingEngine engine(x, y);
  const Conv3dAttributes a{.padding = Dims3::all(1)};
  run_forward(engine, x.stream(), a, x, w, Tensor(), y);
  const int64_t plane = s[2] * s[3] * s[4], sample = plane * s[1];
  ASSERT_GT(sample, int64_t{4} * kEngineElements);
  int64_t next = 0;  // planes of y, over both samples
  for (const auto& c : engine.calls) {
    EXPECT_LE(c.first.numel(), kEngineElements);
    EXPECT_LE(c.result.numel(), kEngineElements);
    EXPECT_EQ(c.first[0], 1);
    EXPECT_EQ(c.result_byte, 2 * plane * next);
    const int64_t n = next / s[1], z0 = next % s[1], z1 = z0 + c.result[1];
    const int64_t in0 = std::max<int64_t>(0, z0 - 1), in1 = std::min(s[1], z1 + 1);
    EXPECT_EQ(c.first_byte, 2 * (n * sample + in0 * plane));
    EXPECT_EQ(c.first[1], in1 - in0);
    EXPECT_EQ(c.padding, z0 == 0 ? 1 : 0);
    next += c.result[1];
  }
  EXPECT_EQ(next, 2 * s[1]);

  Tensor dw = nowhere({64, 3, 3, 3, 64}, 4096);
  NotingEngine weights(x, y);
  Tensor dw32 = Tensor::wrap(reinterpret_cast<void*>(uintptr_t{4096}), dw.shape(), DType::f32);
  run_backward_weights(weights, x.stream(), a, x, y, GradientMode::add, dw32);
  EXPECT_EQ(weights.calls.size(), engine.calls.size()) << "cut as the forward pass";
}

TEST(SlabsBeyond31Bits, CutTheBatchBeforeSamples) {
  const Shape s{7, 128, 128, 128, 256};  // 5.4e8 elements a sample, 3 fit
  const Tensor x = nowhere(s, uintptr_t{1} << 40), w = nowhere({256, 3, 3, 3, 256}, 4096);
  Tensor y = nowhere(s, uintptr_t{1} << 45);
  NotingEngine engine(x, y);
  run_backward_data(engine, x.stream(), {.padding = Dims3::all(1)}, x, w, Tensor(), y);
  int64_t n = 0;
  for (const auto& c : engine.calls) {
    EXPECT_EQ(c.result[1], 128);
    EXPECT_LE(c.result.numel(), kEngineElements);
    EXPECT_EQ(c.result_byte, 2 * n * s.numel() / 7);
    EXPECT_EQ(c.first_byte, c.result_byte);
    n += c.result[0];
  }
  EXPECT_EQ(n, 7);
  EXPECT_LE(engine.calls.size(), 4u);
}

TEST(SlabsBeyond31Bits, WholeTensorsBelowTheLimitAreOneCall) {
  const Shape s{2, 320, 320, 320, 32};  // 2^31 - 5e7
  const Tensor x = nowhere(s, uintptr_t{1} << 40), w = nowhere({32, 3, 3, 3, 32}, 4096);
  Tensor y = nowhere(s, uintptr_t{1} << 45);
  NotingEngine engine(x, y);
  run_forward(engine, x.stream(), {.padding = Dims3::all(1)}, x, w, Tensor(), y);
  EXPECT_EQ(engine.calls.size(), s.numel() <= kEngineElements ? 1u : 2u);
}

}  // namespace
}  // namespace bora::kernels::cudnn
