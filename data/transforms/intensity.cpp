// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/intensity.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "core/error.hpp"
#include "data/transforms/power.hpp"

namespace bora::data {
namespace {

constexpr int kLanes = 16;              // partial sums side by side: vector code, one order
constexpr int64_t kNoiseRun = 1 << 14;  // fill_normal stays on this thread up to here

void check_plane(const char* what, const Plane& p) {
  BORA_CHECK(p.values.defined() && p.values.dtype() == DType::f32, what, ": values are ",
             p.values.shape(), " ", p.values.dtype(), ", wanted (X, Y, Z) f32");
  BORA_CHECK(!p.counted.defined() ||
                 (p.counted.dtype() == DType::u8 && p.counted.shape() == p.values.shape()),
             what, ": counted is ", p.counted.shape(), " ", p.counted.dtype(), ", values are ",
             p.values.shape());
}

/// f(x, counts) for each cell in lanes.
template <class F>
void in_lanes(const Plane& plane, F&& f) {
  const float* x = plane.values.data<float>();
  const uint8_t* counted = plane.counted.defined() ? plane.counted.data<uint8_t>() : nullptr;
  const int64_t n = plane.values.numel();
  for (int64_t begin = 0; begin < n; begin += kLanes) {
    const int64_t end = std::min<int64_t>(kLanes, n - begin);
    for (int64_t l = 0; l < end; ++l)
      f(l, x[begin + l], counted == nullptr || counted[begin + l] != 0);
  }
}

double total(const double* lanes) {
  double sum = 0;
  for (int l = 0; l < kLanes; ++l) sum += lanes[l];
  return sum;
}

struct Sums {
  double count = 0, mean = 0, sigma = 0;
};

/// Two passes: the mean, then what is around it.
Sums sums_of(const Plane& plane) {
  double count[kLanes] = {}, sum[kLanes] = {}, square[kLanes] = {};
  in_lanes(plane, [&](int64_t l, float x, bool counts) {
    count[l] += counts ? 1.0 : 0.0;
    sum[l] += counts ? static_cast<double>(x) : 0.0;
  });
  Sums s{.count = total(count)};
  if (s.count == 0) return s;
  s.mean = total(sum) / s.count;
  in_lanes(plane, [&](int64_t l, float x, bool counts) {
    const double d = counts ? static_cast<double>(x) - s.mean : 0.0;
    square[l] += d * d;
  });
  s.sigma = std::sqrt(total(square) / s.count);
  return s;
}

}  // namespace

PlaneStatistics statistics_of(const Plane& plane) {
  check_plane("statistics_of", plane);
  const Sums s = sums_of(plane);
  PlaneStatistics out{static_cast<int64_t>(s.count), s.mean, s.sigma, 0, 0};
  if (out.count == 0) return out;
  float low[kLanes], high[kLanes];
  std::fill_n(low, kLanes, std::numeric_limits<float>::infinity());
  std::fill_n(high, kLanes, -std::numeric_limits<float>::infinity());
  in_lanes(plane, [&](int64_t l, float x, bool counts) {
    low[l] = counts && x < low[l] ? x : low[l];
    high[l] = counts && x > high[l] ? x : high[l];
  });
  out.low = *std::min_element(low, low + kLanes);
  out.high = *std::max_element(high, high + kLanes);
  return out;
}

void add_noise(Plane& plane, double deviation, const RngKey& key) {
  check_plane("add_noise", plane);
  BORA_CHECK(deviation >= 0, "add_noise: deviation ", deviation, ", wanted at least 0");
  float* x = plane.values.data<float>();
  alignas(64) float noise[kNoiseRun];
  for (int64_t begin = 0; begin < plane.values.numel(); begin += kNoiseRun) {
    const int64_t n = std::min(kNoiseRun, plane.values.numel() - begin);
    fill_normal(key, static_cast<uint64_t>(begin), deviation,
                std::span<float>(noise, static_cast<size_t>(n)));
    for (int64_t i = 0; i < n; ++i) x[begin + i] += noise[i];
  }
}

void add_brightness(Plane& plane, double amount) {
  check_plane("add_brightness", plane);
  float* x = plane.values.data<float>();
  const auto a = static_cast<float>(amount);
  for (int64_t i = 0; i < plane.values.numel(); ++i) x[i] += a;
}

void change_contrast(Plane& plane, double factor) {
  const PlaneStatistics s = statistics_of(plane);
  if (s.count == 0) return;
  float* x = plane.values.data<float>();
  const auto mean = static_cast<float>(s.mean), f = static_cast<float>(factor);
  for (int64_t i = 0; i < plane.values.numel(); ++i)
    x[i] = std::min(std::max((x[i] - mean) * f + mean, s.low), s.high);
}

void change_gamma(Plane& plane, double exponent, GammaOf what, GammaMoments moments) {
  BORA_CHECK(exponent >= 0.1 && exponent <= 10, "change_gamma: exponent ", exponent,
             ", wanted 0.1 to 10");
  const PlaneStatistics before = statistics_of(plane);
  if (before.count == 0 || !(before.low < before.high)) return;
  // Where t = 0 and t = 1 are.
  const bool inverted = what == GammaOf::inverted_image;
  const double zero = static_cast<double>(inverted ? before.high : before.low);
  const double width = static_cast<double>(inverted ? before.low : before.high) - zero;
  float* x = plane.values.data<float>();
  const double scale = 1 / width;
#pragma omp simd
  for (int64_t i = 0; i < plane.values.numel(); ++i) {
    const double t = std::min(std::max((static_cast<double>(x[i]) - zero) * scale, 0.0), 1.0);
    x[i] = static_cast<float>(zero + width * unit_power(t, exponent));
  }
  if (moments == GammaMoments::as_they_come) return;
  const Sums after = sums_of(plane);
  if (!(after.sigma > 0)) return;
  const double factor = before.sigma / after.sigma;
  const auto slope = static_cast<float>(factor);
  const auto offset = static_cast<float>(before.mean - factor * after.mean);
  for (int64_t i = 0; i < plane.values.numel(); ++i) x[i] = x[i] * slope + offset;
}

}  // namespace bora::data
