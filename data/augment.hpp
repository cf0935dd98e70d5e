// SPDX-License-Identifier: Apache-2.0
// Augmentation: mirrors and quarter turns of a sample in the xy-plane, as pure functions of a key.
#pragma once

#include <tuple>

#include "core/config.hpp"
#include "data/dataset.hpp"

namespace bora::data {

struct AugmentConfig {
  bool flip_x = false;
  bool flip_y = false;
  bool quarter_turns = false;
  double noise = 0;
  double noise_probability = 1;

  static constexpr auto fields() {
    return std::tuple{
        field("flip_x", &AugmentConfig::flip_x, "mirror x in half of the training samples"),
        field("flip_y", &AugmentConfig::flip_y, "mirror y in half of the training samples"),
        field("quarter_turns", &AugmentConfig::quarter_turns,
              "turn training samples by 0, 90, 180 or 270 degrees (square windows only)"),
        field("noise", &AugmentConfig::noise,
              "standard deviation of the noise on the mask (-1, +1) that the network sees in "
              "training; 0 = off",
              between(0, 0.3)),
        field("noise_probability", &AugmentConfig::noise_probability,
              "share of the training samples that get noise", between(0, 1)),
    };
  }
};

/// Mirrors first, then the turn.  z is never mirrored: up stays up.
struct Variation {
  bool flip_x = false;
  bool flip_y = false;
  int quarter_turns = 0;  ///< counter-clockwise seen from above, 0 to 3
  friend bool operator==(const Variation&, const Variation&) = default;
};

/// Where a direction of `angle_deg` points after a variation, in [0, 360); NaN stays NaN.
double angle_after(const Variation& variation, double angle_deg);

/// The variation of one sample: each allowed operation by an independent fair draw.
Variation draw_variation(const AugmentConfig& config, const RngKey& key);

/// Input, target, region, valid and weight together.  The wind direction turns with the field:
/// mirror x (c, s) -> (-c, s); mirror y (c, -s); +90 degrees (-s, c); angle_deg and the channels
/// sin and cos (if the input has three) follow.  Throws Error for an odd number of quarter turns of
/// a window that is not square.
void vary(Sample& sample, const Variation& variation);

/// Largest noise: below 1, so that the sign of the input still says building or open.
constexpr float kLargestNoise = 0.95f;

/// Adds normal noise of deviation config.noise, cut at +-kLargestNoise, to channel 0 of the input
/// of a share config.noise_probability of the samples; nothing else is touched, padding neither.
/// A pure function of the key.
void add_input_noise(Sample& sample, const AugmentConfig& config, const RngKey& key);

/// Writes sin and cos of the angle into channels 1 and 2 of input (X, Y, Z, 3).
void set_angle_channels(Tensor& input, double angle_deg);

}  // namespace bora::data
