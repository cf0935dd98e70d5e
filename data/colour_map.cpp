// SPDX-License-Identifier: Apache-2.0
#include "data/colour_map.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace bora::data {
namespace {

uint8_t encode(double linear) {
  const double x = std::clamp(linear, 0.0, 1.0);
  const double srgb = x <= 0.0031308 ? 12.92 * x : 1.055 * std::pow(x, 1 / 2.4) - 0.055;
  return static_cast<uint8_t>(std::lround(255 * srgb));
}

Rgb from_lch(double lightness, double chroma, double hue_deg) {
  const double h = hue_deg * std::numbers::pi / 180;
  return from_oklab(lightness, chroma * std::cos(h), chroma * std::sin(h));
}

// The chromas below stay just inside the sRGB gamut, so that no clamping bends the path.
Rgb sequential(double t) {
  const double lightness = 0.27 + 0.64 * t;
  const double hue = 305 - 198 * t;  // violet, blue, teal, green, yellow
  const double chroma = 0.097 + 0.043 * std::pow(2 * t - 1, 2) + 0.04 * std::pow(t, 4);
  return from_lch(lightness, chroma, hue);
}

Rgb diverging(double t) {
  const double s = 2 * t - 1, far = std::abs(s);
  const double lightness = 0.97 - 0.50 * std::pow(far, 1.15);
  const double chroma = 0.154 * std::pow(far, 0.9);
  return from_lch(lightness, chroma, s < 0 ? 255 : 27);
}

}  // namespace

// The matrices are those of Ottosson, "A perceptual color space for image processing", 2020.
Rgb from_oklab(double lightness, double a, double b) {
  const double l = std::pow(lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
  const double m = std::pow(lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
  const double s = std::pow(lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
  return {encode(4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s),
          encode(-1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s),
          encode(-0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s)};
}

Rgb colour(ColourMap map, double t) {
  if (std::isnan(t)) return {255, 0, 255};
  t = std::clamp(t, 0.0, 1.0);
  return map == ColourMap::sequential ? sequential(t) : diverging(t);
}

}  // namespace bora::data
