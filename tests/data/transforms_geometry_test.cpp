// SPDX-License-Identifier: Apache-2.0
// Rotation, zoom and warp, with mirrors and turns, against plain references in f64 and scipy.
// Features 79, 100.
#include <algorithm>
#include <cmath>
#include <thread>
#include <tuple>
#include <utility>

#include "data/transforms/coordinate_map.hpp"
#include "data/transforms/orient.hpp"
#include "data/transforms/resample.hpp"
#include "data/transforms/transforms.hpp"
#include "tests/data/transforms_support.hpp"

namespace bora::data::test {
namespace {

constexpr double kUnit = 0x1p-24;  // of f32
const TransformConfig kOff{};

Geometry strong(uint64_t seed) {
  Geometry g;
  const RngKey key{seed, 9};
  for (size_t a = 0; a < 3; ++a)
    g.rotation_deg[a] = 60.0 * static_cast<double>(key.uniform(a)) - 30;
  g.zoom = 0.7 + 0.7 * static_cast<double>(key.uniform(5));
  g.elastic = 0.99;
  g.elastic_spacing = 6;
  g.elastic_key = {seed, 10};
  return g;
}

/// The map from its definition: all splines at each point, in f64.
Point plain_source(const Geometry& g, const Dims3& patch, const Dims3& source, const Point& cell) {
  const auto h = static_cast<double>(g.elastic_spacing);
  const auto spline = [](double x) {
    x = std::abs(x);
    return x < 1 ? 2.0 / 3 - x * x + x * x * x / 2 : x < 2 ? (2 - x) * (2 - x) * (2 - x) / 6 : 0;
  };
  std::array<int64_t, 3> n{};
  for (int a = 0; a < 3; ++a) n[static_cast<size_t>(a)] = (patch[a] - 1) / g.elastic_spacing + 4;
  Point moved = cell;
  for (size_t a = 0; a < 3; ++a) {
    if (g.elastic == 0 || patch[static_cast<int>(a)] == 1) continue;
    for (int64_t i = 0; i < n[0] * n[1] * n[2]; ++i) {
      const std::array<int64_t, 3> at{i / (n[1] * n[2]), i / n[2] % n[1], i % n[2]};
      const auto number = static_cast<uint64_t>(static_cast<int64_t>(a) * n[0] * n[1] * n[2] + i);
      double weight = g.elastic * (2 * static_cast<double>(g.elastic_key.uniform(number)) - 1);
      for (size_t b = 0; b < 3; ++b) weight *= spline(cell[b] / h - static_cast<double>(at[b] - 1));
      moved[a] += weight;
    }
  }
  Point p{};
  for (size_t a = 0; a < 3; ++a)
    p[a] = (moved[a] - 0.5 * static_cast<double>(patch[static_cast<int>(a)] - 1)) / g.zoom *
           g.spacing[a];
  // The content turns by +angle about x, y, z; the look back turns by -angle about z, y, x.
  for (const size_t axis : {2, 1, 0}) {
    const size_t a = (axis + 1) % 3, b = (axis + 2) % 3;
    const double t = g.rotation_deg[axis] * std::acos(-1.0) / 180;
    const double pa = std::cos(t) * p[a] + std::sin(t) * p[b];
    p[b] = -std::sin(t) * p[a] + std::cos(t) * p[b];
    p[a] = pa;
  }
  for (size_t a = 0; a < 3; ++a)
    p[a] = p[a] / g.spacing[a] + 0.5 * static_cast<double>(source[static_cast<int>(a)] - 1);
  return p;
}

TEST(CoordinateMap, FollowsItsDefinition) {
  const Dims3 patch{13, 9, 16}, source{20, 15, 21};
  Geometry g = strong(1);
  g.spacing = {1, 0.5, 3};
  const CoordinateMap map(g, patch, source);
  std::vector<float> x(16), y(16), z(16);
  // Coordinates below 64 after some 30 roundings; turned back by spacings up to 6 times as large.
  const double bound = 64 * 32 * kUnit;
  for (const int64_t i : {0, 5, 12})
    for (const int64_t j : {0, 4, 8}) {
      map.line(i, j, x.data(), y.data(), z.data());
      for (int64_t k = 0; k < 16; ++k) {
        const Point cell{static_cast<double>(i), static_cast<double>(j), static_cast<double>(k)};
        const Point wanted = plain_source(g, patch, source, cell), got = map.source_of(cell);
        const auto l = static_cast<size_t>(k);
        const Point in_line{static_cast<double>(x[l]), static_cast<double>(y[l]),
                            static_cast<double>(z[l])};
        for (size_t a = 0; a < 3; ++a) {
          EXPECT_NEAR(wanted[a], got[a], bound);
          EXPECT_NEAR(wanted[a], in_line[a], bound);
        }
      }
    }
}

TEST(CoordinateMap, PointsGoThereAndBack) {
  const Dims3 patch{17, 12, 9}, source{23, 20, 15};
  for (uint64_t seed = 0; seed < 5; ++seed) {
    const CoordinateMap map(strong(seed), patch, source);
    for (uint64_t i = 0; i < 50; ++i) {
      const RngKey key{seed, 77};
      const Point p{16.0 * static_cast<double>(key.uniform(3 * i)),
                    11.0 * static_cast<double>(key.uniform(3 * i + 1)),
                    8.0 * static_cast<double>(key.uniform(3 * i + 2))};
      const Point back = map.patch_of(map.source_of(p));
      // The iteration ends at changes of 1e-12 and shrinks by 6 a / h = 0.99 a step: within 1e-10.
      for (size_t a = 0; a < 3; ++a) EXPECT_NEAR(p[a], back[a], 2e-10);
    }
  }
}

// The largest warp that is allowed, with displacements at their bounds: volumes keep their sign.
TEST(CoordinateMap, NothingFolds) {
  const Dims3 patch{13, 13, 13};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Geometry g;
    g.elastic = 0.9999;
    g.elastic_spacing = 6;
    g.elastic_key = {seed, 3};
    const CoordinateMap map(g, patch, patch);
    double smallest = 1;
    for (double x = 0; x < 12; x += 1.5)
      for (double y = 0; y < 12; y += 1.5)
        for (double z = 0; z < 12; z += 1.5) {
          constexpr double kStep = 1e-5;
          const Point o = map.source_of({x, y, z});
          const Point a = map.source_of({x + kStep, y, z}), b = map.source_of({x, y + kStep, z});
          const Point c = map.source_of({x, y, z + kStep});
          const auto d = [&](const Point& p, size_t i) { return (p[i] - o[i]) / kStep; };
          smallest = std::min(smallest, d(a, 0) * (d(b, 1) * d(c, 2) - d(b, 2) * d(c, 1)) -
                                            d(a, 1) * (d(b, 0) * d(c, 2) - d(b, 2) * d(c, 0)) +
                                            d(a, 2) * (d(b, 0) * d(c, 1) - d(b, 1) * d(c, 0)));
        }
    EXPECT_GT(smallest, 0.05) << seed;
    EXPECT_LT(smallest, 0.95) << seed;  // it does something
  }
  Geometry folds;
  folds.elastic = 1;
  folds.elastic_spacing = 6;
  EXPECT_THROW(CoordinateMap(folds, patch, patch), Error);
}

TEST(ApplyGeometry, NothingDrawnChangesNoBit) {
  const Sample before = random_sample({5, 4, 3}, 3, 1);
  Sample s = before;
  apply_geometry(s, Geometry{}, {}, kOff, 7);
  expect_same(before, s);
  EXPECT_EQ(before.window, s.window);
}

// Zoom 1 and rotation 0 through the interpolation itself.
TEST(ApplyGeometry, TheIdentityThroughTheInterpolationIsExact) {
  for (const Dims3& n : {Dims3{5, 4, 3}, Dims3{1, 1, 1}, Dims3{7, 1, 2}}) {
    for (const int64_t channels : {1, 3}) {
      const Sample s = random_sample(n, channels, 2);
      const CoordinateMap map(Geometry{}, n, n);
      ResampleLine line(n, n.w);
      std::vector<float> out(static_cast<size_t>(n.w * channels));
      for (int64_t x = 0; x < n.d; ++x)
        for (int64_t y = 0; y < n.h; ++y) {
          line.at(map, x, y);
          line.linear(s.input.data<float>(), out.data(), channels, -9);
          const float* wanted = s.input.data<float>() + (x * n.h + y) * n.w * channels;
          EXPECT_EQ(std::vector<float>(wanted, wanted + n.w * channels), out) << n;
        }
    }
  }
}

TEST(ApplyGeometry, AMarginIsCutOff) {
  const Sample before = random_sample({7, 8, 5}, 2, 3);
  Sample s = before;
  Geometry g;
  g.flip = {false, true, false};
  s.window = {{20, 20, 20}, {7, 8, 5}, {4, -1, 6}};
  apply_geometry(s, g, {1, 2, 0}, kOff, 0);
  EXPECT_EQ((Window{{20, 20, 20}, {5, 4, 5}, {5, 1, 6}}), s.window);
  const Orientation flip = mirrored({}, 1);
  EXPECT_TRUE(equal<float>(orient(before.input, flip, {1, 2, 0}, {5, 4, 5}), s.input));
  EXPECT_TRUE(equal<uint8_t>(orient(before.target, flip, {1, 2, 0}, {5, 4, 5}), s.target));
}

TEST(ApplyGeometry, MatchesScipysAffineTransform) {
  Sample s;
  const Tensor volume = scipy("volume").tensor(DType::f32);
  const int64_t n = volume.numel();
  s.input = Tensor::empty(volume.shape().append(3), DType::f32);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t c = 0; c < 3; ++c)
      s.input.data<float>()[3 * i + c] = volume.data<float>()[i] * static_cast<float>(c + 1);
  s.target = scipy("labels").tensor(DType::u8).reshape(volume.shape().append(1));
  Geometry g;
  g.rotation_deg = {10, -20, 30};
  g.zoom = 1.25;
  g.spacing = {1, 1, 2};
  const Dims3 patch{7, 6, 5};
  const Matrix3 m = source_matrix(g, patch);
  for (size_t i = 0; i < 9; ++i)
    EXPECT_NEAR(scipy("affine_matrix").values[i], m[i / 3][i % 3], 1e-8);
  apply_geometry(s, g, {1, 1, 1}, kOff, 0);
  ASSERT_EQ((Shape{7, 6, 5, 3}), s.input.shape());
  int64_t n_inside = 0;
  for (int64_t i = 0; i < s.valid.numel(); ++i) {
    if (s.valid.data<uint8_t>()[i] == 0) continue;
    ++n_inside;
    const auto k = static_cast<size_t>(i);
    // Values below 4; coordinates below 16 are off by some 20 roundings, slopes are below 8.
    for (int64_t c = 0; c < 3; ++c)
      EXPECT_NEAR(scipy("affine").values[k] * static_cast<double>(c + 1),
                  static_cast<double>(s.input.data<float>()[3 * i + c]),
                  3 * 3 * 8 * 20 * 16 * kUnit);
    EXPECT_EQ(scipy("affine_labels").values[k], s.target.data<uint8_t>()[i]);
  }
  EXPECT_GT(n_inside, 150);  // of 210
}

TEST(ApplyGeometry, MatchesAPlainReference) {
  for (const Dims3& margin : {Dims3{0, 0, 0}, Dims3{2, 1, 3}})
    for (const int64_t channels : {1, 3})
      for (uint64_t seed = 0; seed < 4; ++seed) {
        const Dims3 patch{9, 9, 6};
        const Dims3 box{9 + 2 * margin.d, 9 + 2 * margin.h, 6 + 2 * margin.w};
        const Sample before = random_sample(box, channels, seed);
        Geometry g = strong(seed);
        g.flip = {seed % 2 == 0, false, true};
        g.quarter_turns = {1, 0, 0};
        Sample s = before;
        apply_geometry(s, g, margin, kOff, -2);
        int64_t n_padding = 0, n_checked = 0;
        for (int64_t i = 0; i < 9 * 9 * 6; ++i) {
          // Turned back, mirrored back, then through the map.
          int64_t x = i / 54, y = i / 6 % 9, z = i % 6;
          std::tie(x, y) = std::pair(y, 8 - x);
          if (g.flip[0]) x = 8 - x;
          z = 5 - z;
          const Point p = plain_source(
              g, patch, box,
              {static_cast<double>(x), static_cast<double>(y), static_cast<double>(z)});
          double distance = 1;  // of the coordinates from where cells begin and end
          bool inside = true;
          std::array<int64_t, 3> nearest{};
          for (int a = 0; a < 3; ++a) {
            const double c = p[static_cast<size_t>(a)];
            distance = std::min(distance, std::abs(c - std::floor(c) - 0.5));
            inside = inside && c >= -0.5 && c < static_cast<double>(box[a]) - 0.5;
            nearest[static_cast<size_t>(a)] = static_cast<int64_t>(std::floor(c + 0.5));
          }
          if (distance < 1e-4) continue;  // either cell is right
          ++n_checked;
          const auto at = [&](int64_t a, int64_t b, int64_t c) {
            a = std::clamp<int64_t>(a, 0, box.d - 1);
            b = std::clamp<int64_t>(b, 0, box.h - 1);
            return (a * box.h + b) * box.w + std::clamp<int64_t>(c, 0, box.w - 1);
          };
          if (!inside) {
            ++n_padding;
            EXPECT_EQ(0, s.valid.data<uint8_t>()[i]);
            EXPECT_EQ(0, s.region.data<uint8_t>()[i]);
            EXPECT_EQ(0, s.target.data<uint8_t>()[i]);
            EXPECT_EQ(0.0f, s.weight.data<float>()[i]);
            for (int64_t c = 0; c < channels; ++c)
              EXPECT_EQ(-2.0f, s.input.data<float>()[i * channels + c]);
            continue;
          }
          const int64_t n = at(nearest[0], nearest[1], nearest[2]);
          EXPECT_EQ(1, s.valid.data<uint8_t>()[i]);
          EXPECT_EQ(before.region.data<uint8_t>()[n], s.region.data<uint8_t>()[i]);
          EXPECT_EQ(before.target.data<uint8_t>()[n], s.target.data<uint8_t>()[i]);
          EXPECT_EQ(before.weight.data<float>()[n], s.weight.data<float>()[i]);
          for (int64_t c = 0; c < channels; ++c) {
            double value = 0;
            for (int corner = 0; corner < 8; ++corner) {
              double weight = 1;
              std::array<int64_t, 3> cell{};
              for (size_t a = 0; a < 3; ++a) {
                const double low = std::floor(p[a]), t = p[a] - low;
                const bool up = (corner >> a & 1) != 0;
                weight *= up ? t : 1 - t;
                cell[a] = static_cast<int64_t>(low) + (up ? 1 : 0);
              }
              value +=
                  weight *
                  static_cast<double>(
                      before.input.data<float>()[at(cell[0], cell[1], cell[2]) * channels + c]);
            }
            // As in MatchesScipysAffineTransform.
            EXPECT_NEAR(value, static_cast<double>(s.input.data<float>()[i * channels + c]),
                        3 * 8 * 32 * 16 * kUnit);
          }
        }
        EXPECT_GT(n_checked, 450);
        if (margin == Dims3{}) {
          EXPECT_GT(n_padding, 10);
        }
      }
}

TEST(MarginFor, IsEnoughForEveryDraw) {
  TransformConfig config;
  config.rotation = {20, 10, 40};
  config.zoom = {0.7, 1.4};
  config.elastic = 1.5;
  config.elastic_spacing = 10;
  config.rotation_probability = config.zoom_probability = config.elastic_probability = 0.7;
  const std::array<double, 3> spacing{1, 1.5, 0.8};
  for (const Dims3& patch : {Dims3{16, 10, 12}, Dims3{9, 9, 1}, Dims3{1, 7, 5}}) {
    const Dims3 largest = margin_for(config, patch, spacing);
    int64_t n_cut = 0;
    for (uint64_t i = 0; i < 40; ++i) {
      const Geometry g = draw_geometry(config, {5, i}, spacing);
      const Dims3 margin = margin_for(g, patch);
      for (int a = 0; a < 3; ++a) EXPECT_LE(margin[a], largest[a]);
      EXPECT_TRUE(g.needs_resampling() || margin == Dims3{});
      const Dims3 box{patch.d + 2 * margin.d, patch.h + 2 * margin.h, patch.w + 2 * margin.w};
      Sample s = random_sample(box, 1, i);
      apply_geometry(s, g, margin, config, 0);
      for (const uint8_t v : s.valid.to_vector<uint8_t>()) ASSERT_EQ(1, v) << patch << " " << i;
      if (margin == Dims3{}) continue;
      // Without the margin, some draws do show padding.
      Sample cut = random_sample(patch, 1, i);
      apply_geometry(cut, g, {}, config, 0);
      for (const uint8_t v : cut.valid.to_vector<uint8_t>())
        if (v == 0) ++n_cut;
    }
    if (patch.d > 1 && patch.w > 1) {
      EXPECT_GT(n_cut, 0);
    }
  }
}

TEST(ApplyGeometry, IsTheSameFromAnyThread) {
  TransformConfig config;
  config.flip_x = config.flip_y = 0.5;
  config.rotation = {30};
  config.elastic = 2;
  config.noise = {0.1, 0.3};
  config.gamma = {0.7, 1.5};
  config.rotation_probability = config.elastic_probability = config.noise_probability = 1;
  config.gamma_probability = 1;
  const auto make = [&](uint64_t i) {
    const Geometry g = draw_geometry(config, {1, i});
    Sample s = random_sample({12, 11, 10}, 2, 6);
    apply_transforms(s, g, {}, config, {1, i}, 0);
    return s;
  };
  std::vector<Sample> made(8);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 8; ++i) threads.emplace_back([&, i] { made[7 - i] = make(7 - i); });
  for (std::thread& t : threads) t.join();
  for (uint64_t i = 0; i < 8; ++i) {
    expect_same(make(i), made[i]);
    if (i > 0) {
      EXPECT_FALSE(equal<float>(made[i].input, made[i - 1].input));
    }
  }
}

}  // namespace
}  // namespace bora::data::test
