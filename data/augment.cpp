// SPDX-License-Identifier: Apache-2.0
#include "data/augment.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/error.hpp"
#include "data/angle.hpp"

namespace bora::data {

namespace {

/// Cell (x, y) of the result is cell source(x, y) of `in`; what lies under a cell in x and y (z and
/// channels) is copied as one piece.
template <class Source>
Tensor gather(const Tensor& in, Source source) {
  Tensor out = Tensor::empty(in.shape(), in.dtype());
  const int64_t nx = in.size(0), ny = in.size(1);
  if (in.numel() == 0) return out;
  const int64_t piece = in.bytes() / (nx * ny);
  const auto* from = static_cast<const char*>(in.raw());
  auto* to = static_cast<char*>(out.raw());
  for (int64_t x = 0; x < nx; ++x)
    for (int64_t y = 0; y < ny; ++y) {
      const auto [sx, sy] = source(x, y);
      std::memcpy(to + (x * ny + y) * piece, from + (sx * ny + sy) * piece,
                  static_cast<size_t>(piece));
    }
  return out;
}

}  // namespace

Variation draw_variation(const AugmentConfig& config, const RngKey& key) {
  Variation v;
  v.flip_x = config.flip_x && (key.bits(0) & 1u) != 0;
  v.flip_y = config.flip_y && (key.bits(1) & 1u) != 0;
  v.quarter_turns = config.quarter_turns ? static_cast<int>(key.bits(2) & 3u) : 0;
  return v;
}

void vary(Sample& sample, const Variation& v) {
  BORA_CHECK(v.quarter_turns >= 0 && v.quarter_turns <= 3, "vary: ", v.quarter_turns,
             " quarter turns, wanted 0 to 3");
  const int64_t nx = sample.region.size(0), ny = sample.region.size(1);
  BORA_CHECK(v.quarter_turns % 2 == 0 || nx == ny, "vary: a quarter turn of case '", sample.name,
             "' needs a square window, it has ", nx, " x ", ny, " cells");
  if (v == Variation{}) return;
  struct Cell {
    int64_t x, y;
  };
  // Turn back, then mirror: the result's cell in the source.  +90 degrees takes (x, y) to
  // (n - 1 - y, x).
  const auto source = [&](int64_t x, int64_t y) {
    Cell c{x, y};
    for (int i = 0; i < v.quarter_turns; ++i) c = {c.y, nx - 1 - c.x};
    if (v.quarter_turns == 2) c = {nx - 1 - x, ny - 1 - y};  // also where nx != ny
    if (v.flip_x) c.x = nx - 1 - c.x;
    if (v.flip_y) c.y = ny - 1 - c.y;
    return c;
  };
  for (Tensor* t : {&sample.input, &sample.target, &sample.region, &sample.valid})
    *t = gather(*t, source);
  double angle = sample.angle_deg;
  if (v.flip_x) angle = 180.0 - angle;
  if (v.flip_y) angle = -angle;
  sample.angle_deg = wrap_degrees(angle + 90.0 * v.quarter_turns);
  if (sample.input.size(-1) == 3) set_angle_channels(sample.input, sample.angle_deg);
}

void add_input_noise(Sample& sample, const AugmentConfig& config, const RngKey& key) {
  BORA_CHECK(config.noise >= 0 && config.noise_probability >= 0 && config.noise_probability <= 1,
             "add_input_noise: deviation ", config.noise, ", probability ",
             config.noise_probability, "; wanted at least 0, and 0 to 1");
  // Numbers of its own: the window and the variation are drawn from `key` itself.
  const RngKey own{key.seed, rng_stream("augment.noise", key.stream)};
  if (config.noise == 0 || own.uniform(0) >= static_cast<float>(config.noise_probability)) return;
  const int64_t channels = sample.input.size(-1), cells = sample.valid.numel();
  std::vector<float> noise(static_cast<size_t>(cells));
  fill_normal(own, 0, config.noise, noise);
  float* in = sample.input.data<float>();
  const uint8_t* valid = sample.valid.data<uint8_t>();
  for (int64_t i = 0; i < cells; ++i)
    if (valid[i] != 0)
      in[i * channels] += std::clamp(noise[static_cast<size_t>(i)], -kLargestNoise, kLargestNoise);
}

void set_angle_channels(Tensor& input, double angle_deg) {
  BORA_CHECK(input.defined() && input.rank() == 4 && input.size(3) == 3,
             "set_angle_channels: input ", input.shape(), ", wanted (X, Y, Z, 3)");
  const Direction d = Direction::of_degrees(angle_deg);
  float* v = input.data<float>();
  for (int64_t i = 0; i < input.numel(); i += 3) {
    v[i + 1] = static_cast<float>(d.s);
    v[i + 2] = static_cast<float>(d.c);
  }
}

}  // namespace bora::data
