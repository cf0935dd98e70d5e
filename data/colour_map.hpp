// SPDX-License-Identifier: Apache-2.0
// Colour maps for pictures of fields.
#pragma once

#include <array>
#include <cstdint>

namespace bora::data {

struct Rgb {
  uint8_t r = 0, g = 0, b = 0;
  friend bool operator==(const Rgb&, const Rgb&) = default;
};

/// A path through the OKLab space (Ottosson 2020), in which equal steps look equal.
enum class ColourMap {
  /// Dark violet over teal to light yellow; lightness grows linearly, so that it reads in print
  /// without colour and for the colour-blind.
  sequential,
  /// Blue over near-white to red, of equal lightness at equal distance from the middle.
  diverging
};

/// The colour of `t` in [0, 1] (clamped); NaN gives magenta, which neither map contains.
Rgb colour(ColourMap map, double t);

/// Converts OKLab to 8-bit sRGB; outside the gamut the channels are clamped.
Rgb from_oklab(double lightness, double a, double b);

}  // namespace bora::data
