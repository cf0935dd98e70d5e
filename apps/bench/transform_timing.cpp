// SPDX-License-Identifier: Apache-2.0
#include "apps/bench/transform_timing.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.hpp"

namespace bora::bench {
namespace {

using data::Geometry;
using data::Sample;
using data::TransformConfig;

struct Case {
  std::string name;
  TransformConfig config;
};

template <class Change>
Case one(std::string name, Change&& change) {
  Case c{std::move(name), {}};
  change(c.config);
  return c;
}

std::vector<Case> cases() {
  const auto affine = [](TransformConfig& c) {
    c.rotation = {30};
    c.zoom = {0.7, 1.4};
    c.rotation_probability = c.zoom_probability = 1;
  };
  const auto warp = [](TransformConfig& c) {
    c.elastic = 2.5;
    c.elastic_probability = 1;
  };
  const auto intensity = [](TransformConfig& c) {
    c.noise = {0.1, 0.3};
    c.blur = {0.5, 1};
    c.brightness = {-0.2, 0.2};
    c.contrast = {0.75, 1.25};
    c.low_resolution = {0.5, 1};
    c.gamma = {0.7, 1.5};
    c.noise_probability = c.blur_probability = c.brightness_probability = 1;
    c.contrast_probability = c.low_resolution_probability = c.gamma_probability = 1;
    c.gamma_inverted_probability = 1;
  };
  return {
      one("flip x", [](auto& c) { c.flip_x = 1; }),
      one("flip z", [](auto& c) { c.flip_z = 1; }),
      one("quarter turns xy", [](auto& c) { c.quarter_turns = {"xy"}; }),
      one("rotation and zoom", affine),
      one("elastic", warp),
      one("rotation, zoom and elastic", [&](auto& c) { affine(c), warp(c); }),
      one("noise",
          [](auto& c) {
            c.noise = {0.3, 0.3}, c.noise_probability = 1;
          }),
      one("blur",
          [](auto& c) {
            c.blur = {1, 1}, c.blur_probability = 1;
          }),
      one("brightness",
          [](auto& c) {
            c.brightness = {0.2, 0.2}, c.brightness_probability = 1;
          }),
      one("contrast",
          [](auto& c) {
            c.contrast = {1.25, 1.25}, c.contrast_probability = 1;
          }),
      one("low resolution",
          [](auto& c) {
            c.low_resolution = {0.5, 0.5}, c.low_resolution_probability = 1;
          }),
      one("gamma",
          [](auto& c) {
            c.gamma = {0.7, 1.5}, c.gamma_probability = 1;
          }),
      one("all of them",
          [&](auto& c) {
            c.flip_x = c.flip_y = c.flip_z = 0.5;
            affine(c), warp(c), intensity(c);
          }),
      one("usual shares",
          [&](auto& c) {
            affine(c), warp(c), intensity(c);
            const TransformConfig usual;
            c.flip_x = c.flip_y = c.flip_z = 0.5;
            c.rotation_probability = usual.rotation_probability;
            c.zoom_probability = usual.zoom_probability;
            c.elastic_probability = usual.elastic_probability;
            c.noise_probability = usual.noise_probability;
            c.blur_probability = usual.blur_probability;
            c.brightness_probability = usual.brightness_probability;
            c.contrast_probability = usual.contrast_probability;
            c.low_resolution_probability = usual.low_resolution_probability;
            c.gamma_probability = usual.gamma_probability;
            c.gamma_inverted_probability = usual.gamma_inverted_probability;
          }),
  };
}

/// Seconds of one sample, without making it.
double time_once(const TransformConfig& config, const Dims3& patch, int64_t channels,
                 const RngKey& key) {
  const Geometry g = draw_geometry(config, key);
  const Dims3 m = margin_for(g, patch);
  Sample s = made_up_sample({patch.d + 2 * m.d, patch.h + 2 * m.h, patch.w + 2 * m.w}, channels);
  const auto begin = std::chrono::steady_clock::now();
  apply_transforms(s, g, m, config, key, 0);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

std::vector<TransformTime> time_transforms(const Dims3& patch, int64_t channels, int repeats) {
  BORA_CHECK(patch.d > 0 && patch.d == patch.h && patch.w > 0 && channels > 0 && repeats > 0,
             "time_transforms: a patch of ", patch, ", ", channels, " channels, ", repeats,
             " repeats; wanted cells, as many along x and y, and both others above 0");
  std::vector<TransformTime> out;
  for (const Case& c : cases()) {
    // Draws differ in what they do: the best of the repeats of each, the mean over draws.
    constexpr uint64_t kDraws = 8;
    double sum = 0;
    for (uint64_t draw = 0; draw < kDraws; ++draw) {
      double best = std::numeric_limits<double>::infinity();
      for (int i = 0; i < repeats; ++i)
        best = std::min(best, time_once(c.config, patch, channels, {1, draw}));
      sum += best;
    }
    out.push_back({c.name, sum / kDraws * 1e9 / static_cast<double>(patch.count())});
  }
  return out;
}

data::Sample made_up_sample(const Dims3& box, int64_t channels) {
  Sample s;
  const Shape cells{box.d, box.h, box.w};
  s.input = Tensor::empty(cells.append(channels), DType::f32);
  s.target = Tensor::empty(cells.append(1), DType::u8);
  s.region = Tensor::full(cells, 1, DType::u8);
  s.valid = Tensor::full(cells, 1, DType::u8);
  s.name = "made up";
  float* image = s.input.data<float>();
  uint8_t* label = s.target.data<uint8_t>();
  for (int64_t x = 0; x < box.d; ++x)
    for (int64_t y = 0; y < box.h; ++y)
      for (int64_t z = 0; z < box.w; ++z) {
        // Two balls, the one at -x the smaller, in a wave; 32 cells are one length.
        const auto at = [](int64_t i, int64_t n) { return static_cast<double>(2 * i - n) / 64; };
        const double px = at(x, box.d), py = at(y, box.h), pz = at(z, box.w);
        const bool left = std::hypot(px + 0.45, py, pz) < 0.3;
        const bool right = std::hypot(px - 0.4, py, pz) < 0.42;
        *label++ = left ? 1 : right ? 2 : 0;
        const double value = (left || right ? 1.2 : -0.6) + 0.3 * std::sin(9 * px + 4 * py) +
                             0.2 * std::cos(11 * py - 3 * pz);
        for (int64_t c = 0; c < channels; ++c) *image++ = static_cast<float>(value);
      }
  return s;
}

}  // namespace bora::bench
