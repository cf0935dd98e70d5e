// SPDX-License-Identifier: Apache-2.0
// Convolution kernels against the f64 reference over a grid of shapes.  Features 17, 107.
#include <gtest/gtest.h>

#include <optional>

#include "kernels/conv3d.hpp"
#include "kernels/cpu/conv3d.hpp"
#include "kernels/cpu/onednn.hpp"
#include "tests/kernels/conv_support.hpp"

namespace bora::test {
namespace {

/// One of `values`, by a counter generator.
struct Draw {
  RngKey key;
  uint64_t next = 0;
  int64_t operator()(std::initializer_list<int64_t> values) {
    return values.begin()[key.below(values.size(), next++)];
  }
};

/// Random case k: mixed kernels, strides, paddings, dilations, groups, extents 1 to 11; nullopt
/// where the kernel does not fit.
std::optional<ConvCase> random_case(uint64_t seed) {
  Draw draw{RngKey{seed, rng_stream("conv3d grid")}};
  ConvCase c;
  c.n = draw({1, 1, 2, 3});
  const auto each = [&](std::initializer_list<int64_t> v) {
    return Dims3{draw(v), draw(v), draw(v)};
  };
  c.in = each({1, 2, 3, 5, 8, 11});
  c.kernel = each({1, 2, 3, 3, 5});
  c.a.stride = each({1, 1, 2, 3});
  c.a.padding = each({0, 1, 2});
  c.a.dilation = each({1, 1, 2});
  if (draw({0, 1}) == 0) c.a.stride = c.a.dilation = Dims3::all(1);  // the common kind
  const int64_t in = draw({1, 2, 3, 4, 8, 15, 16, 17, 33}), out = draw({1, 2, 5, 8, 16, 17, 32});
  switch (draw({0, 0, 1, 2})) {
    case 0:
      c.c_in = in, c.c_out = out;
      break;
    case 1:
      c.a.groups = 2, c.c_in = 2 * in, c.c_out = 2 * out;
      break;
    default:
      c.a.groups = in, c.c_in = in, c.c_out = in * draw({1, 2});
  }
  c.bias = draw({0, 1}) == 1;
  for (int i = 0; i < 3; ++i)
    if (c.in[i] + 2 * c.a.padding[i] < c.a.dilation[i] * (c.kernel[i] - 1) + 1) return {};
  return c;
}

class Conv3dGrid : public testing::TestWithParam<DType> {};

TEST_P(Conv3dGrid, MatchesReferenceOnRandomShapes) {
  const uint64_t n_seeds = GetParam() == DType::f32 ? 240 : 60;
  int n_tried = 0;
  for (uint64_t seed = 0; seed < n_seeds; ++seed) {
    const std::optional<ConvCase> c = random_case(seed);
    if (!c) continue;
    ++n_tried;
    EXPECT_EQ("", check_conv(*c, GetParam(), seed)) << "seed " << seed << ": " << *c;
  }
  EXPECT_GT(n_tried, static_cast<int>(n_seeds / 2));
}

TEST_P(Conv3dGrid, MatchesReferenceWhenCutIntoPieces) {
  // Large enough for several pieces along D, with halos, strides and odd rests.
  const kernels::Conv3dAttributes same{.padding = Dims3::all(1)};
  const std::vector<ConvCase> cases{
      {1, {19, 16, 17}, {3, 3, 3}, 16, 16, same},
      {1, {19, 16, 17}, {3, 3, 3}, 1, 16, same, true},
      {3, {7, 9, 8}, {3, 3, 3}, 16, 24, same, true},
      {1, {33, 8, 9}, {1, 1, 1}, 64, 48, {}, true},
      {1, {33, 8, 9}, {5, 3, 1}, 16, 16, {.stride = {2, 1, 1}, .padding = {2, 1, 0}}},
      {1, {34, 8, 9}, {2, 2, 2}, 32, 32, {.stride = Dims3::all(2)}},
      {1, {35, 8, 9}, {2, 2, 2}, 32, 32, {.stride = Dims3::all(3), .padding = Dims3::all(1)}},
      {1, {35, 8, 9}, {3, 3, 3}, 32, 32, {.stride = Dims3::all(3), .padding = Dims3::all(2)}},
      {1, {31, 8, 9}, {3, 3, 3}, 32, 16, {.padding = Dims3::all(2), .dilation = Dims3::all(2)}},
      {2, {4, 4, 4}, {3, 3, 3}, 128, 64, same},
      {5, {6, 6, 6}, {3, 3, 3}, 32, 32, {.padding = Dims3::all(1), .groups = 2}},
  };
  for (const ConvCase& c : cases) EXPECT_EQ("", check_conv(c, GetParam(), 77)) << c;
}

TEST(Conv3dBf16, NativeKernelsMatchReferenceToo) {
  // oneDNN emulates them on AVX-512 processors without bf16 instructions.
  constexpr int kAvx512 = static_cast<int>(dnnl::cpu_isa::avx512_core);
  if ((static_cast<int>(dnnl::get_effective_cpu_isa()) & kAvx512) != kAvx512)
    GTEST_SKIP() << "this processor has no AVX-512";
  kernels::cpu::set_bf16_path(kernels::cpu::Bf16Path::native);
  kernels::cpu::set_conv_engine(kernels::cpu::ConvEngine::onednn);
  for (uint64_t seed = 1000; seed < 1100; ++seed)
    if (const std::optional<ConvCase> c = random_case(seed)) {
      EXPECT_EQ("", check_conv(*c, DType::bf16, seed)) << "seed " << seed << ": " << *c;
    }
  const ConvCase pieces{1, {19, 16, 17}, {3, 3, 3}, 16, 16, {.padding = Dims3::all(1)}, true};
  EXPECT_EQ("", check_conv(pieces, DType::bf16, 78));
  kernels::cpu::set_conv_engine(std::nullopt);
  kernels::cpu::set_bf16_path(kernels::cpu::Bf16Path::automatic);
}

INSTANTIATE_TEST_SUITE_P(Types, Conv3dGrid,
                         testing::Values(DType::f32, DType::bf16, DType::f16, DType::f64),
                         [](const testing::TestParamInfo<DType>& type) {
                           return std::string(name_of(type.param));
                         });

}  // namespace
}  // namespace bora::test
