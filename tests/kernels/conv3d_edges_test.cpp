// SPDX-License-Identifier: Apache-2.0
// Convolution at the edges: empty tensors, wrong calls, repeated bits, memory of a step.
#include <gtest/gtest.h>
#include <omp.h>
#include <sys/resource.h>

#include <functional>

#include "core/allocator.hpp"
#include "kernels/conv3d.hpp"
#include "kernels/cpu/onednn.hpp"
#include "kernels/linear.hpp"
#include "kernels/plan_cache.hpp"
#include "tests/kernels/conv_support.hpp"
#include "tests/support/device.hpp"

namespace bora::test {
namespace {

using kernels::Conv3dAttributes;
using kernels::GradientMode;

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "(no error)";
}

TEST(Conv3d, AnEmptyBatchGivesZeroWeightGradients) {
  const ConvCase c{0, {4, 4, 4}, {3, 3, 3}, 3, 5, {.padding = Dims3::all(1)}, true};
  EXPECT_EQ("", check_conv(c, DType::f32, 1));
  EXPECT_EQ("", check_conv(c, DType::bf16, 1));
}

TEST(Conv3d, EmptyAxesAndChannelsGiveBiasOrNothing) {
  // An empty extent with enough padding still has outputs: they are the bias.
  EXPECT_EQ(
      "", check_conv({2, {0, 3, 3}, {2, 1, 1}, 3, 4, {.padding = {1, 0, 0}}, true}, DType::f32, 2));
  // No padding: no outputs.
  EXPECT_EQ("", check_conv({2, {0, 3, 3}, {2, 1, 1}, 3, 4, {}, true}, DType::f32, 3));
  // No input channels, no output channels.
  EXPECT_EQ("", check_conv({2, {2, 3, 3}, {1, 3, 1}, 0, 4, {}, true}, DType::f32, 4));
  Tensor x = zeros({1, 2, 2, 2, 3}, DType::f32), w = zeros({0, 1, 1, 1, 3}, DType::f32),
         y = zeros({1, 2, 2, 2, 0}, DType::f32), dx = full(x.shape(), 7.0, DType::f32);
  kernels::conv3d_forward(x.stream(), {}, x, w, Tensor(), y);
  kernels::conv3d_backward_data(x.stream(), {}, y, w, Tensor(), dx);
  EXPECT_EQ(0.0, max_abs(values_of(dx)));
}

TEST(Conv3d, PlanesSeenByNoWindowGetZeroGradient) {
  // Stride beyond the kernel: gaps between windows, in every piece; padding beyond the kernel.
  EXPECT_EQ(
      "", check_conv({1, {40, 9, 9}, {1, 1, 1}, 32, 64, {.stride = Dims3::all(3)}}, DType::f32, 5));
  EXPECT_EQ(
      "",
      check_conv({2, {13, 5, 5}, {2, 1, 2}, 8, 8, {.stride = Dims3::all(3), .padding = {2, 1, 2}}},
                 DType::f32, 6));
}

TEST(Conv3d, SaysWhatDoesNotFit) {
  const auto shape = [](const Shape& x, const Shape& w, const Conv3dAttributes& a) {
    return message_of([&] { kernels::conv3d_output_shape("conv3d", a, x, w); });
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(std::string::npos, text.find(part)) << text;
  };
  has(shape({1, 8, 8, 8, 16}, {16, 3, 3, 3, 2}, {}), "wants 2 input channels, input has 16");
  has(shape({1, 8, 8, 8}, {16, 3, 3, 3, 2}, {}), "wanted (N, D, H, W, C)");
  has(shape({1, 8, 8, 8, 4}, {5, 3, 3, 3, 2}, {.groups = 2}), "which 2 groups do not divide");
  has(shape({1, 8, 2, 8, 4}, {5, 3, 3, 3, 4}, {}), "spans 3 cells along H");
  has(shape({1, 8, 8, 8, 4}, {5, 3, 3, 3, 4}, {.stride = {1, 0, 1}}), "stride 1x0x1");
  has(shape({1, 8, 8, 8, 4}, {5, 3, 3, 3, 4}, {.padding = {-1, 0, 1}}), "padding -1x0x1");
  has(message_of([] {
        kernels::conv_transpose3d_output_shape("conv_transpose3d", {.stride = Dims3::all(2)},
                                               {2, 0, 0}, {1, 4, 4, 4, 3}, {3, 2, 2, 2, 5});
      }),
      "output_padding 2x0x0");
  const Tensor x = zeros({1, 4, 4, 4, 3}, DType::f32), w = zeros({2, 1, 1, 1, 3}, DType::f64);
  Tensor y = zeros({1, 4, 4, 4, 2}, DType::f32), wrong = zeros({1, 3, 4, 4, 2}, DType::f32);
  has(message_of([&] { kernels::conv3d_forward(x.stream(), {}, x, w, Tensor(), y); }),
      "input is f32, weight is f64");
  has(message_of(
          [&] { kernels::conv3d_forward(x.stream(), {}, x, w.to(DType::f32), Tensor(), wrong); }),
      "do not belong together along D");
  has(message_of([&] { kernels::conv3d_forward(x.stream(), {}, x, w.to(DType::f32), x, y); }),
      "bias (1, 4, 4, 4, 3), wanted (2)");
  has(message_of([] { kernels::linear_output_shape({4, 5}, {3, 6}); }), "wants 6 input features");
}

/// Result and gradients of one call, as bytes.
std::vector<std::vector<double>> all_results(const ConvCase& c, DType type) {
  const ConvData d(c, type, 11);
  Tensor y = empty(c.y(), type), dx = empty(c.x(), type), dw = empty(c.w(), DType::f32),
         db = empty({c.c_out}, DType::f32);
  kernels::conv3d_forward(d.x.stream(), c.a, d.x, d.w, d.b, y);
  kernels::conv3d_backward_data(d.x.stream(), c.a, d.dy, d.w, Tensor(), dx);
  kernels::conv3d_backward_weights(d.x.stream(), c.a, d.x, d.dy, GradientMode::overwrite, dw);
  kernels::channel_sum(d.x.stream(), d.dy, GradientMode::overwrite, db);
  return {values_of(y), values_of(dx), values_of(dw), values_of(db)};
}

TEST(Conv3d, BitsDoNotDependOnThreadsOrRuns) {
  const Conv3dAttributes same{.padding = Dims3::all(1)};
  const std::vector<ConvCase> cases{
      {1, {24, 24, 24}, {3, 3, 3}, 16, 32, same, true},
      {2, {20, 16, 16}, {3, 3, 3}, 1, 16, same},
      {1, {4, 4, 4}, {3, 3, 3}, 256, 128, same},
      {1, {32, 32, 32}, {1, 1, 1}, 32, 16, {}, true},
      {1, {24, 24, 24}, {2, 2, 2}, 32, 32, {.stride = Dims3::all(2)}},
  };
  const int before = omp_get_max_threads();
  for (const ConvCase& c : cases)
    for (DType type : {DType::f32, DType::bf16}) {
      omp_set_num_threads(1);
      const auto one = all_results(c, type);
      for (int n : {1, 2, 3, 7}) {
        omp_set_num_threads(n);
        EXPECT_EQ(one, all_results(c, type)) << n << " threads, " << c;
      }
    }
  omp_set_num_threads(before);
}

TEST(Conv3d, TheSecondStepTouchesNoNewMemory) {
  const ConvCase c{1, {24, 24, 24}, {3, 3, 3}, 16, 32, {.padding = Dims3::all(1)}, true};
  const ConvData d(c, DType::f32, 5);
  Tensor y = zeros(c.y(), DType::f32), dx = zeros(c.x(), DType::f32), dw = zeros(c.w(), DType::f32);
  const auto step = [&] {
    kernels::conv3d_forward(d.x.stream(), c.a, d.x, d.w, d.b, y);
    kernels::conv3d_backward_data(d.x.stream(), c.a, d.dy, d.w, Tensor(), dx);
    kernels::conv3d_backward_weights(d.x.stream(), c.a, d.x, d.dy, GradientMode::add, dw);
  };
  for (int i = 0; i < 3; ++i) step();
  const auto faults = [] {
    rusage u{};
    getrusage(RUSAGE_SELF, &u);
    return u.ru_minflt;
  };
  const int64_t reserved = caching_allocator(cpu()).stats().reserved;
  const long before = faults();
  for (int i = 0; i < 5; ++i) step();
  // A step of this size that allocated its scratch anew would fault some hundred times.  Below
  // AVX-512 oneDNN's weight gradient is a matrix product that allocates inside.
  constexpr int kAvx512 = static_cast<int>(dnnl::cpu_isa::avx512_core);
  const bool avx512 = (static_cast<int>(dnnl::get_effective_cpu_isa()) & kAvx512) == kAvx512;
#if !defined(__SANITIZE_ADDRESS__)  // its shadow memory and quarantine fault by themselves
  EXPECT_LE(faults() - before, avx512 ? 5 : 100);
#else
  static_cast<void>(before), static_cast<void>(avx512);
#endif
  EXPECT_EQ(reserved, caching_allocator(cpu()).stats().reserved);
}

TEST(ChannelSum, MatchesTheSumInF64) {
  for (DType type : {DType::f32, DType::bf16, DType::f16, DType::f64})
    for (int64_t rows : {0, 1, 511, 512, 513, 5000})
      for (int64_t n : {1, 5, 16, 300}) {
        const Tensor dy = make_tensor({rows, n}, normal_values(rows * n, 3), type);
        const DType wide = type == DType::f64 ? DType::f64 : DType::f32;
        for (const auto mode : {GradientMode::overwrite, GradientMode::add}) {
          Tensor db = full({n}, mode == GradientMode::add ? 2.0 : std::nan(""), wide);
          kernels::channel_sum(dy.stream(), dy, mode, db);
          const std::vector<double> v = values_of(dy);
          const double first = mode == GradientMode::add ? 2.0 : 0.0;
          std::vector<double> want(static_cast<size_t>(n), first), size = want;
          for (size_t i = 0; i < v.size(); ++i) {
            want[i % static_cast<size_t>(n)] += v[i];
            size[i % static_cast<size_t>(n)] += std::abs(v[i]);
          }
          EXPECT_EQ("", compare_elements(db, from<double>({n}, want), from<double>({n}, size), 512))
              << rows << " x " << n << " " << type;
        }
      }
}

TEST(PlanCache, DropsTheLongestUnused) {
  struct Key {
    int64_t a, b;
  };
  kernels::PlanCache<Key, int> cache(2);
  int n_made = 0;
  const auto find = [&](int64_t a) {
    return *cache.find_or_make(Key{a, 0}, [&] {
      ++n_made;
      return static_cast<int>(a);
    });
  };
  EXPECT_EQ(1, find(1));
  EXPECT_EQ(2, find(2));
  EXPECT_EQ(1, find(1));  // now 2 is the longest unused
  EXPECT_EQ(2, n_made);
  EXPECT_EQ(3, find(3));
  EXPECT_EQ(2u, cache.size());
  EXPECT_EQ(1, find(1));
  EXPECT_EQ(3, n_made);
  EXPECT_EQ(2, find(2));
  EXPECT_EQ(4, n_made);
  EXPECT_THROW(cache.find_or_make(Key{9, 0}, []() -> int { throw Error("no"); }), Error);
  EXPECT_EQ(2u, cache.size());
}

}  // namespace
}  // namespace bora::test
