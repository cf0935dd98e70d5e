// SPDX-License-Identifier: Apache-2.0
// Heads and losses below the top of the decoder (features 108, 111).
#include "apps/unet3d/deep_supervision.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "core/allocator.hpp"
#include "core/precision.hpp"
#include "core/rng.hpp"
#include "core/tape.hpp"
#include "nn/ops.hpp"
#include "nn/parameter_arena.hpp"
#include "tests/apps/device_under_test.hpp"

namespace bora::unet3d {
namespace {

using bora::testing::device_under_test;

Tensor noise(const Shape& shape, DType type, uint64_t seed) {
  const RngKey key{seed, 5};
  std::vector<double> v(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = key.normal(i);
  return Tensor::from<double>(shape, v).to(type).to(device_under_test());
}

/// About four cells of five.
Tensor some_region(const Shape& shape, uint64_t seed) {
  const RngKey key{seed, 6};
  Tensor region = Tensor::empty(shape, DType::u8);
  for (int64_t i = 0; i < region.numel(); ++i)
    region.data<uint8_t>()[i] = key.uniform(static_cast<uint64_t>(i)) < 0.8f ? 1 : 0;
  return region.to(device_under_test());
}

struct Rig {
  UNet3d net;
  nn::ParameterArena arena;
  Tensor x, t, region;
  explicit Rig(const ModelConfig& config, DType type = DType::f32, DType half = DType::f32,
               const Shape& shape = {2, 19, 16, 21, 1})
      : net(1, 1, config),
        arena(net, type, half == DType::f32 ? type : half, device_under_test()),
        x(noise(shape, type, 2)),
        t(noise(shape, type, 3)),
        region(some_region({shape[0], shape[1], shape[2], shape[3]}, 4)) {
    nn::initialise(net, 4);
    arena.refresh_working();
  }
  Loss loss(const LossConfig& config = {}) { return deep_loss(config, net, x, t, region); }
  std::vector<double> gradients() {
    return arena.gradients().all().to(cpu()).to(DType::f64).to_vector<double>();
  }
};

TEST(DeepSupervision, WeightsHalveAndAddUpToOne) {
  EXPECT_EQ(level_weights(0), (std::vector<double>{1.0}));
  EXPECT_EQ(level_weights(1), (std::vector<double>{2.0 / 3, 1.0 / 3}));
  const std::vector<double> w = level_weights(4);
  double sum = 0;
  for (size_t l = 0; l < w.size(); ++l) {
    sum += w[l];
    if (l > 0) {
      EXPECT_EQ(w[l], w[l - 1] / 2);
    }
  }
  EXPECT_NEAR(sum, 1.0, 1e-15);
}

TEST(DeepSupervision, HasAHeadForEachLevelItWasAskedFor) {
  for (const int64_t n : {0, 1, 3}) {
    UNet3d net(1, 2, {.base = 4, .deep_supervision = n}), plain(1, 2, {.base = 4});
    int64_t extra = 0;  // a head: base 2^l weights and a bias for each output
    for (int64_t l = 1; l <= n; ++l) extra += 2 * (int64_t{4} << l) + 2;
    EXPECT_EQ(nn::parameter_count(net), nn::parameter_count(plain) + extra);
    int64_t deep = 0;
    for (const auto& p : nn::named_parameters(net)) deep += UNet3d::is_deep_head(p.name) ? 1 : 0;
    EXPECT_EQ(deep, 2 * n);
  }
  EXPECT_THROW(UNet3d(1, 1, {.base = 4, .levels = 2, .deep_supervision = 2}), UsageError);
  EXPECT_THROW(UNet3d(1, 1, {.base = 4, .deep_supervision = -1}), UsageError);
}

// The same bits with and without heads: same start, same prediction.
TEST(DeepSupervision, ThePredictionIsTheTopHeadsAlone) {
  for (const bool recompute : {false, true}) {
    Rig with({.base = 4, .recompute = recompute, .deep_supervision = 3}),
        without({.base = 4, .recompute = recompute});
    const NoGrad no_grad;
    const std::vector<float> wanted = without.net.forward(without.x).to_vector<float>();
    EXPECT_EQ(with.net.forward(with.x).to_vector<float>(), wanted);
    EXPECT_EQ(with.net.head().forward(with.net.feature_levels(with.x)[0]).to_vector<float>(),
              wanted);
  }
}

TEST(DeepSupervision, PredictsAtTheSizeOfEachLevel) {
  Rig rig({.base = 4, .deep_supervision = 3});
  const NoGrad no_grad;
  const std::vector<Tensor> levels = rig.net.feature_levels(rig.x);
  ASSERT_EQ(levels.size(), 4u);
  for (int64_t l = 1; l <= 3; ++l) {
    const LevelTarget target = target_of_level(rig.t, rig.region, l);
    EXPECT_EQ(rig.net.deep_head(l).forward(levels[static_cast<size_t>(l)]).shape(),
              target.target.shape());
    EXPECT_EQ(target.target.shape(), (Shape{2, 19 >> l, 16 >> l, 21 >> l, 1}));
  }
  EXPECT_THROW(rig.net.deep_head(0), Error);
  EXPECT_THROW(rig.net.deep_head(4), Error);
}

// Row 111: the total is the weighted sum of parts under their own names; those of the top are as
// without deep supervision.
TEST(DeepSupervision, TheTotalIsTheWeightedSumOfItsNamedParts) {
  for (const double lambda : {0.0, 0.25}) {
    const LossConfig config{.kind = "mae", .gradient_weight = lambda, .gradient = "edge"};
    Rig rig({.base = 4, .deep_supervision = 2});
    const Loss loss = rig.loss(config);
    std::map<std::string, double> part;
    std::vector<std::string> names, wanted = loss_names(config);
    for (size_t i = 0; i < loss.parts.size(); ++i) {
      names.push_back(loss.parts[i].first);
      part[loss.parts[i].first] = loss.value(i);
    }
    for (const std::string& name : deep_loss_names(config, rig.net.config()))
      wanted.push_back(name);
    EXPECT_EQ(names, wanted);
    ASSERT_EQ(part.count("mae_level2"), 1u);
    const Loss top = compute_loss(config, rig.net.forward(rig.x), rig.t, rig.region);
    for (size_t i = 1; i < top.parts.size(); ++i) EXPECT_EQ(part[top.parts[i].first], top.value(i));
    double sum = 0;
    const std::vector<double> w = level_weights(2);
    for (size_t l = 0; l <= 2; ++l) {
      const std::string suffix = l == 0 ? "" : "_level" + std::to_string(l);
      sum += w[l] * (part["mae" + suffix] + lambda * part["gradient_edge" + suffix]);
    }
    // Some eight roundings of f32 numbers of order 1.
    EXPECT_NEAR(part["loss"], sum, 8 * 0x1p-24 * sum);
    EXPECT_EQ(loss.total.item(), part["loss"]);
  }
}

// A directional derivative by central differences in f64 (see UNet3d.GradientMatches...): odd
// extents, a region, both loss terms.
TEST(DeepSupervision, GradientMatchesCentralDifferences) {
  for (const char* up : {"trilinear", "transposed"}) {
    Rig rig({.base = 2, .levels = 3, .norm = "instance", .up = up, .deep_supervision = 2},
            DType::f64, DType::f32, {2, 17, 10, 21, 1});
    const LossConfig config{.eps = 0.5, .gradient_weight = 0};
    backward(rig.loss(config).total);
    EXPECT_TRUE(rig.arena.missing_gradients().empty());
    Tensor& values = rig.arena.values().all();
    const std::vector<double> g = rig.gradients(), start = values.to_vector<double>();
    const RngKey key{7, 7};
    const auto shifted = [&](double h) {
      std::vector<double> moved = start;
      for (size_t i = 0; i < start.size(); ++i) moved[i] += h * key.normal(i);
      values.copy_from(Tensor::from<double>(values.shape(), moved));
      const NoGrad no_grad;
      return rig.loss(config).total.item();
    };
    double expected = 0;
    for (size_t i = 0; i < g.size(); ++i) expected += g[i] * key.normal(i);
    // The instance norm of few cells bends much: Richardson's step takes the error of order h^2
    // away.
    const auto slope = [&](double h) { return (shifted(h) - shifted(-h)) / (2 * h); };
    EXPECT_NEAR((4 * slope(0.5e-5) - slope(1e-5)) / 3 / expected, 1.0, 1e-6) << up;
  }
}

// Multi-rank runs refuse parameters without a gradient: a head always has one, also where no cell
// of its level counts.
TEST(DeepSupervision, EveryParameterGetsAGradient) {
  Rig rig({.base = 4, .deep_supervision = 3});
  rig.region.fill(0);
  backward(rig.loss().total);
  EXPECT_TRUE(rig.arena.missing_gradients().empty());
  for (const double g : rig.gradients()) ASSERT_EQ(g, 0.0);
}

TEST(DeepSupervision, RecomputeGivesTheSameBits) {
  for (const char* norm : {"group", "batch"}) {
    Rig plain({.base = 4, .norm = norm, .dropout = 0.2, .deep_supervision = 2}),
        again({.base = 4, .norm = norm, .dropout = 0.2, .recompute = true, .deep_supervision = 2});
    for (Rig* rig : {&plain, &again}) {
      const RngScope rng(RngPosition{.seed = 9});
      backward(rig->loss().total);
    }
    EXPECT_EQ(plain.gradients(), again.gradients()) << norm;
  }
}

// Under mixed precision the losses of all levels are computed in f32, and are those of f32 within
// the rounding of the network.
TEST(DeepSupervision, WorksInMixedPrecision) {
  Rig full({.base = 8, .deep_supervision = 2});
  const Loss wanted = full.loss();
  for (const DType half : {DType::f16, DType::bf16}) {
    Rig rig({.base = 8, .deep_supervision = 2}, DType::f32, half);
    const PrecisionScope precision(half);
    const Loss loss = rig.loss();
    backward(loss.total);
    EXPECT_TRUE(rig.arena.missing_gradients().empty());
    for (size_t i = 0; i < loss.parts.size(); ++i) {
      EXPECT_EQ(loss.parts[i].second.dtype(), DType::f32);
      // Some ten layers, each rounding to 8 (bf16) or 11 bits, on a loss of order 1.
      EXPECT_NEAR(loss.value(i), wanted.value(i), half == DType::f16 ? 0.01 : 0.08)
          << loss.parts[i].first;
    }
  }
}

TEST(DeepSupervision, AlmostNothingMoreIsKept) {
  const auto peak = [](int64_t heads) {
    Rig rig({.base = 8, .deep_supervision = heads}, DType::f32, DType::f32, {1, 32, 32, 32, 1});
    CachingAllocator& memory = caching_allocator(device_under_test());
    memory.reset_peak();
    const int64_t before = memory.stats().live;
    backward(heads > 0 ? rig.loss().total
                       : compute_loss({}, rig.net.forward(rig.x), rig.t, rig.region).total);
    return memory.stats().peak - before;
  };
  EXPECT_LT(static_cast<double>(peak(3)), 1.05 * static_cast<double>(peak(0)));
}

}  // namespace
}  // namespace bora::unet3d
