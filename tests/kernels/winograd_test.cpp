// SPDX-License-Identifier: Apache-2.0
// Winograd convolutions against the f64 reference: shapes, storage types, bits, rounding.
// Features 17, 107.
#include "kernels/cpu/winograd.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <cstring>
#include <limits>

#include "kernels/cpu/conv3d.hpp"
#include "tests/kernels/conv_support.hpp"
#include "tests/kernels/guarded.hpp"
#include "tests/kernels/winograd_support.hpp"

namespace bora::test {
namespace {

using kernels::Conv3dAttributes;
using kernels::GradientMode;
using kernels::cpu::ConvEngine;

using kernels::cpu::kWinogradTiles;
using kernels::cpu::WinogradTile;

/// Chooses engine and tile while it lives.
struct Engine {
  explicit Engine(ConvEngine engine, const WinogradTile& tile = kWinogradTiles[0]) {
    kernels::cpu::set_conv_engine(engine);
    kernels::cpu::set_winograd_tile(tile);
  }
  ~Engine() {
    kernels::cpu::set_conv_engine(std::nullopt);
    kernels::cpu::set_winograd_tile(std::nullopt);
  }
};

class Winograd : public testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::cpu::winograd_supported()) GTEST_SKIP() << "this processor has no AVX-512";
  }
};
class WinogradTypes : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!kernels::cpu::winograd_supported()) GTEST_SKIP() << "this processor has no AVX-512";
  }
};

ConvCase make_case(int64_t n, const Dims3& in, int64_t c_in, int64_t c_out, int64_t pad = 1,
                   bool bias = false) {
  return {n, in, Dims3::all(3), c_in, c_out, {.padding = Dims3::all(pad)}, bias};
}

struct Results {
  Guarded y, dx, dw;
};
/// All three directions; dw added to 0.5 with `add`.
Results run(const ConvCase& c, const ConvData& d, DType type, bool add = false) {
  Results r{Guarded(c.y(), type), Guarded(c.x(), type), Guarded(c.w(), DType::f32)};
  if (add) r.dw.view().fill(0.5);
  kernels::conv3d_forward(d.x.stream(), c.a, d.x, d.w, d.b, r.y.view());
  kernels::conv3d_backward_data(d.x.stream(), c.a, d.dy, d.w, Tensor(), r.dx.view());
  kernels::conv3d_backward_weights(d.x.stream(), c.a, d.x, d.dy,
                                   add ? GradientMode::add : GradientMode::overwrite, r.dw.view());
  for (const Guarded* g : {&r.y, &r.dx, &r.dw}) g->expect_guards_untouched();
  return r;
}

/// Empty, or what is wrong with the results of `c` in `type` with one tile.
std::string check_case(const ConvCase& c, DType type, const WinogradTile& tile, uint64_t seed,
                       bool add) {
  const Engine engine(ConvEngine::winograd, tile);
  const ConvData d(c, type, seed);
  Results r = run(c, d, type, add);
  Tensor y = Tensor::empty(c.y(), DType::f64), dx = Tensor::empty(c.x(), DType::f64);
  Tensor dw = Tensor::full(c.w(), 0.5, DType::f64);
  const auto mode = add ? GradientMode::add : GradientMode::overwrite;
  kernels::reference::conv3d_forward(c.a, d.x64, d.w64, d.b64, y);
  kernels::reference::conv3d_backward_data(c.a, d.dy64, d.w64, Tensor(), dx);
  kernels::reference::conv3d_backward_weights(c.a, d.x64, d.dy64, mode, dw);
  std::string faults;
  const auto note = [&](const char* what, const Tensor& got, const Tensor& want,
                        const std::vector<double>& magnitude, double terms) {
    const std::string fault = compare_winograd(got, want, magnitude, terms);
    if (!fault.empty()) faults += std::string(what) + ": " + fault + "\n";
  };
  const WinogradMagnitudes m(c, d, tile, add);
  note("forward", r.y.view(), y, m.y, static_cast<double>(c.c_in));
  note("data gradient", r.dx.view(), dx, m.dx, static_cast<double>(c.c_out));
  note("weight gradient", r.dw.view(), dw, m.dw, static_cast<double>(m.tiles));
  return faults;
}

TEST_F(Winograd, MatchesReferenceOverExtents) {
  uint64_t seed = 0;
  for (const WinogradTile& tile : kWinogradTiles)
    for (const Dims3& in : {Dims3{1, 1, 1},
                            {2, 2, 2},
                            {3, 2, 1},
                            {4, 4, 4},
                            {5, 7, 8},
                            {8, 5, 3},
                            {1, 16, 17},
                            {7, 8, 16},
                            {17, 3, 2},
                            {2, 1, 70}})
      for (int64_t n : {1, 3}) {
        const ConvCase c = make_case(n, in, 16, 8, 1, seed % 2 == 0);
        EXPECT_EQ("", check_case(c, DType::f32, tile, seed, seed % 3 == 0))
            << c << " tile " << tile[1] << tile[2];
        ++seed;
      }
}

TEST_F(Winograd, MatchesReferenceOverChannels) {
  uint64_t seed = 100;
  for (const WinogradTile& tile : kWinogradTiles)
    for (int64_t c_in : {1, 8, 16, 24, 40, 65, 128})
      for (int64_t c_out : {3, 16, 32, 48, 72}) {
        const ConvCase c = make_case(1, {3, 4, 5}, c_in, c_out, 1, seed % 2 == 0);
        EXPECT_EQ("", check_case(c, DType::f32, tile, seed, seed % 3 == 0))
            << c << " tile " << tile[1] << tile[2];
        ++seed;
      }
}

TEST_P(WinogradTypes, MatchesReferenceOverPaddingsAndManyTiles) {
  for (const WinogradTile& t : kWinogradTiles) {
    EXPECT_EQ("", check_case(make_case(2, {5, 6, 7}, 16, 24, 0), GetParam(), t, 200, false));
    EXPECT_EQ("", check_case(make_case(2, {3, 3, 3}, 16, 24, 0), GetParam(), t, 201, true));
    EXPECT_EQ("", check_case(make_case(2, {4, 5, 3}, 24, 16, 2), GetParam(), t, 202, false));
    EXPECT_EQ("", check_case(make_case(1, {17, 16, 21}, 16, 8), GetParam(), t, 203, false));
    EXPECT_EQ("", check_case(make_case(3, {5, 6, 9}, 72, 80), GetParam(), t, 204, true));
  }
}

std::vector<unsigned char> bytes_of(const Tensor& t) {
  const auto* p = static_cast<const unsigned char*>(t.raw());
  return {p, p + t.bytes()};
}

TEST_P(WinogradTypes, BitsDoNotDependOnThreadsRunsOrBatch) {
  const int before = omp_get_max_threads();
  uint64_t next = 0;
  for (const ConvCase& c : {make_case(3, {12, 11, 18}, 16, 40, 1, true),
                            make_case(2, {6, 7, 5}, 136, 72), make_case(2, {9, 16, 15}, 32, 24)}) {
    const Engine engine(ConvEngine::winograd, kWinogradTiles[next++]);
    const ConvData d(c, GetParam(), 7);
    omp_set_num_threads(1);
    Results one = run(c, d, GetParam());
    for (int n : {1, 2, 3, 7}) {
      omp_set_num_threads(n);
      Results r = run(c, d, GetParam());
      EXPECT_EQ(bytes_of(one.y.view()), bytes_of(r.y.view())) << n << " threads, " << c;
      EXPECT_EQ(bytes_of(one.dx.view()), bytes_of(r.dx.view())) << n << " threads, " << c;
      EXPECT_EQ(bytes_of(one.dw.view()), bytes_of(r.dw.view())) << n << " threads, " << c;
    }
    // The last sample alone.
    const auto last = [](const Tensor& t) {
      const int64_t sample = t.numel() / t.size(0);
      return t.view((t.size(0) - 1) * sample, t.shape().with(0, 1));
    };
    Tensor y = Tensor::empty(c.y().with(0, 1), GetParam()),
           dx = Tensor::empty(c.x().with(0, 1), GetParam());
    kernels::conv3d_forward(d.x.stream(), c.a, last(d.x), d.w, d.b, y);
    kernels::conv3d_backward_data(d.x.stream(), c.a, last(d.dy), d.w, Tensor(), dx);
    EXPECT_EQ(bytes_of(last(one.y.view())), bytes_of(y)) << c;
    EXPECT_EQ(bytes_of(last(one.dx.view())), bytes_of(dx)) << c;
  }
  omp_set_num_threads(before);
}

TEST_P(WinogradTypes, StoresWhatF32GivesRoundedOnce) {
  for (const WinogradTile& tile : kWinogradTiles) {
    const Engine engine(ConvEngine::winograd, tile);
    const ConvCase c = make_case(1, {7, 8, 9}, 24, 40, 1, true);
    ConvData d(c, GetParam(), 8);
    // Large values overflow f16; inf and NaN must stay what they are.
    d.x = make_tensor(c.x(), uniform_values(c.x().numel(), -4000.0, 4000.0, 9), GetParam());
    Tensor x = d.x.to(DType::f32);
    x.data<float>()[1000] = std::numeric_limits<float>::infinity();
    x.data<float>()[4000] = std::nanf("");
    d.x = x.to(GetParam());
    Results r = run(c, d, GetParam());
    ConvData wide(c, DType::f32, 8);
    wide.x = d.x.to(DType::f32), wide.w = d.w.to(DType::f32), wide.b = d.b.to(DType::f32),
    wide.dy = d.dy.to(DType::f32);
    Results w = run(c, wide, DType::f32);
    EXPECT_EQ(bytes_of(w.y.view().to(GetParam())), bytes_of(r.y.view()));
    EXPECT_EQ(bytes_of(w.dx.view().to(GetParam())), bytes_of(r.dx.view()));
    EXPECT_EQ(bytes_of(w.dw.view()), bytes_of(r.dw.view()));
  }
}

TEST_F(Winograd, WhatADirectConvolutionMakesNonFiniteStaysSo) {
  const ConvCase c = make_case(1, {9, 9, 9}, 16, 16);
  ConvData d(c, DType::f32, 10);
  d.x.data<float>()[c.x().numel() / 2] = std::numeric_limits<float>::infinity();
  std::vector<double> by[2];
  for (int i = 0; i < 2; ++i) {
    const Engine engine(i == 0 ? ConvEngine::onednn : ConvEngine::winograd);
    Tensor y = Tensor::empty(c.y(), DType::f32);
    kernels::conv3d_forward(d.x.stream(), c.a, d.x, d.w, Tensor(), y);
    by[i] = values_of(y);
  }
  int64_t n_bad = 0, n_more = 0;
  for (size_t i = 0; i < by[0].size(); ++i) {
    if (!std::isfinite(by[0][i])) {
      ++n_bad;
      EXPECT_FALSE(std::isfinite(by[1][i])) << i;
    } else if (!std::isfinite(by[1][i])) {
      ++n_more;
    }
  }
  EXPECT_EQ(27 * 16, n_bad);
  EXPECT_LE(n_more, (64 - 27) * 16);  // at most the rest of the 8 tiles around
}

/// Largest and root mean square difference from the truth.
struct Errors {
  double max = 0, rms = 0;
};
Errors errors_of(const Tensor& got, const Tensor& want) {
  const std::vector<double> g = values_of(got), t = values_of(want);
  Errors e;
  for (size_t i = 0; i < g.size(); ++i) {
    e.max = std::max(e.max, std::abs(g[i] - t[i]));
    e.rms += (g[i] - t[i]) * (g[i] - t[i]);
  }
  e.rms = std::sqrt(e.rms / static_cast<double>(g.size()));
  return e;
}

TEST_F(Winograd, RoundsAtMostAFewTimesWorseThanDirectKernels) {
  // Uniform data in [-1, 1].  Measured against oneDNN's AVX-512 kernels, largest and rms error,
  // tiles 2x2x2, 2x2x4, 2x4x4: forward 0.4 0.6, 1.4 1.3, 4.5 2.8; weight
  // gradient 2.3 2.3, 4.8 4.6, 12.6 9.5.
  for (int64_t channels : {64, 256}) {
    const ConvCase c = make_case(1, {6, 6, 6}, channels, 32);
    ConvData d(c, DType::f32, 11);
    const auto uniform = [](const Shape& s, uint64_t seed) {
      return make_tensor(s, uniform_values(s.numel(), -1.0, 1.0, seed), DType::f32);
    };
    d.x = uniform(c.x(), 12), d.w = uniform(c.w(), 13), d.dy = uniform(c.y(), 14);
    const auto wide = [](const Tensor& t) { return t.to(DType::f64); };
    Tensor y = Tensor::empty(c.y(), DType::f64), dw = Tensor::empty(c.w(), DType::f64);
    kernels::reference::conv3d_forward(c.a, wide(d.x), wide(d.w), Tensor(), y);
    kernels::reference::conv3d_backward_weights(c.a, wide(d.x), wide(d.dy), GradientMode::overwrite,
                                                dw);
    Errors of_y[4], of_dw[4];
    for (int i = 0; i < 4; ++i) {
      const Engine engine(i == 0 ? ConvEngine::onednn : ConvEngine::winograd,
                          kWinogradTiles[std::max(0, i - 1)]);
      Results r = run(c, d, DType::f32);
      of_y[i] = errors_of(r.y.view(), y);
      of_dw[i] = errors_of(r.dw.view(), dw);
    }
    // Largest error; the root mean square error is nearer.  winograd_tile() uses the last for the
    // weight gradient of 16-bit tensors only.
    constexpr double kForward[] = {1, 4, 8}, kGradient[] = {4, 8, 20};
    for (int i = 0; i < 3; ++i) {
      EXPECT_LE(of_y[i + 1].max, kForward[i] * of_y[0].max) << channels << " channels, tile " << i;
      EXPECT_LE(of_y[i + 1].rms, kForward[i] * of_y[0].rms) << channels << " channels, tile " << i;
      EXPECT_LE(of_dw[i + 1].max, kGradient[i] * of_dw[0].max) << channels << ", tile " << i;
      EXPECT_LE(of_dw[i + 1].rms, kGradient[i] * of_dw[0].rms) << channels << ", tile " << i;
    }
  }
}

TEST_F(Winograd, IsChosenByRuleAndListed) {
  const ConvCase c = make_case(1, {14, 16, 18}, 32, 48);  // extents that no other test has
  const ConvData d(c, DType::f32, 15);
  run(c, d, DType::f32);
  int n = 0;
  for (const std::string& line : kernels::conv3d_implementations())
    if (line.find("1x14x16x18") != std::string::npos) {
      EXPECT_NE(std::string::npos, line.find("winograd")) << line;
      ++n;
    }
  EXPECT_EQ(3, n);  // forward, data gradient as forward, weight gradient
  const auto engine_of = [](const kernels::cpu::ConvProblem& p) {
    return kernels::cpu::conv3d_engine(p, DType::f32);
  };
  kernels::cpu::ConvProblem p{.n = 1, .in = {8, 8, 8}, .out = {8, 8, 8}, .kernel = {3, 3, 3}};
  p.stride = p.dilation = p.pad_left = {1, 1, 1};
  p.c_in = p.c_out = 64;
  EXPECT_EQ(ConvEngine::winograd, engine_of(p));
  kernels::cpu::ConvProblem few = p, thin = p, huge = p, strided = p, grouped = p;
  few.in = few.out = {4, 4, 4};
  thin.c_in = 1;
  huge.c_in = huge.c_out = 1024;  // weights of 256 MiB
  strided.stride = {1, 1, 2};
  grouped.groups = 2;
  for (const auto& other : {few, thin, huge, strided, grouped})
    EXPECT_EQ(ConvEngine::onednn, engine_of(other));
}

TEST_P(WinogradTypes, PointwiseMatchesReferenceAndRoundsOnce) {
  const Engine engine(ConvEngine::pointwise);
  uint64_t seed = 300;
  for (int64_t c_in : {1, 3, 8, 16, 33, 64, 130})
    for (int64_t c_out : {1, 8, 16, 24, 48, 65}) {
      const ConvCase c{
          1 + static_cast<int64_t>(seed % 2), {3, 7, 5}, {1, 1, 1}, c_in, c_out, {}, seed % 3 == 0};
      EXPECT_EQ("", check_conv(c, GetParam(), seed)) << c;
      ++seed;
    }
  const ConvCase c{1, {27, 20, 33}, {1, 1, 1}, 24, 40, {}, true};  // many chunks and pieces
  EXPECT_EQ("", check_conv(c, GetParam(), 400)) << c;
  const ConvData d(c, GetParam(), 401);
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  Results one = run(c, d, GetParam());
  for (int n : {1, 3}) {
    omp_set_num_threads(n);
    Results r = run(c, d, GetParam());
    EXPECT_EQ(bytes_of(one.y.view()), bytes_of(r.y.view())) << n;
    EXPECT_EQ(bytes_of(one.dx.view()), bytes_of(r.dx.view())) << n;
    EXPECT_EQ(bytes_of(one.dw.view()), bytes_of(r.dw.view())) << n;
  }
  omp_set_num_threads(before);
  ConvData wide(c, DType::f32, 401);
  wide.x = d.x.to(DType::f32), wide.w = d.w.to(DType::f32), wide.b = d.b.to(DType::f32),
  wide.dy = d.dy.to(DType::f32);
  Results w = run(c, wide, DType::f32);
  EXPECT_EQ(bytes_of(w.y.view().to(GetParam())), bytes_of(one.y.view()));
  EXPECT_EQ(bytes_of(w.dx.view().to(GetParam())), bytes_of(one.dx.view()));
  EXPECT_EQ(bytes_of(w.dw.view()), bytes_of(one.dw.view()));
}

INSTANTIATE_TEST_SUITE_P(Types, WinogradTypes, testing::Values(DType::f32, DType::bf16, DType::f16),
                         [](const testing::TestParamInfo<DType>& type) {
                           return std::string(name_of(type.param));
                         });

}  // namespace
}  // namespace bora::test
