// SPDX-License-Identifier: Apache-2.0
#include "data/augment.hpp"

#include <algorithm>
#include <vector>

#include "core/error.hpp"
#include "data/angle.hpp"
#include "data/transforms/orient.hpp"

namespace bora::data {

Variation draw_variation(const AugmentConfig& config, const RngKey& key) {
  Variation v;
  v.flip_x = config.flip_x && (key.bits(0) & 1u) != 0;
  v.flip_y = config.flip_y && (key.bits(1) & 1u) != 0;
  v.quarter_turns = config.quarter_turns ? static_cast<int>(key.bits(2) & 3u) : 0;
  return v;
}

double angle_after(const Variation& v, double angle) {
  if (v.flip_x) angle = 180.0 - angle;
  if (v.flip_y) angle = -angle;
  return wrap_degrees(angle + 90.0 * v.quarter_turns);
}

void vary(Sample& sample, const Variation& v) {
  BORA_CHECK(v.quarter_turns >= 0 && v.quarter_turns <= 3, "vary: ", v.quarter_turns,
             " quarter turns, wanted 0 to 3");
  const int64_t nx = sample.region.size(0), ny = sample.region.size(1);
  BORA_CHECK(v.quarter_turns % 2 == 0 || nx == ny, "vary: a quarter turn of case '", sample.name,
             "' needs a square window, it has ", nx, " x ", ny, " cells");
  if (v == Variation{}) return;
  Orientation o;
  if (v.flip_x) o = mirrored(o, 0);
  if (v.flip_y) o = mirrored(o, 1);
  for (int i = 0; i < v.quarter_turns; ++i) o = turned(o, 0, 1);
  for (Tensor* t : {&sample.input, &sample.target, &sample.region, &sample.valid, &sample.weight})
    if (t->defined()) *t = orient(*t, o);
  sample.angle_deg = angle_after(v, sample.angle_deg);
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
