// SPDX-License-Identifier: Apache-2.0
// Changes of the values of one channel, drawn elsewhere.
#pragma once

#include <cstdint>

#include "core/rng.hpp"
#include "core/tensor.hpp"

namespace bora::data {

/// One channel of an image: values (X, Y, Z) f32, counted (X, Y, Z) u8 or undefined.  Statistics
/// are of the counted cells (1), all if undefined.
struct Plane {
  Tensor values;
  Tensor counted;
};

/// Of the counted cells, in f64; count 0: all numbers are 0.
struct PlaneStatistics {
  int64_t count = 0;
  double mean = 0, sigma = 0;  ///< sigma of the population
  float low = 0, high = 0;
};
PlaneStatistics statistics_of(const Plane& plane);

/// Adds normal noise; value i is deviation * key.normal(i).
void add_noise(Plane& plane, double deviation, const RngKey& key);
void add_brightness(Plane& plane, double amount);
/// (x - mean) * factor + mean, cut at the range that the values had.
void change_contrast(Plane& plane, double factor);
enum class GammaOf { image, inverted_image };
enum class GammaMoments { as_they_come, kept };
/// t^exponent on the range of the values, t = (x - low) / (high - low), then back; with `inverted`
/// of -x, and -x back.  GammaMoments::kept: then shifted and scaled to the mean and sigma from
/// before. An image of one value stays.
void change_gamma(Plane& plane, double exponent, GammaOf what, GammaMoments moments);

}  // namespace bora::data
