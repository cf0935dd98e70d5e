// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/resample.hpp"

#include <algorithm>
#include <limits>

#include "core/error.hpp"

namespace bora::data {
namespace {

inline float between(float a, float b, float t) { return a + t * (b - a); }

}  // namespace

ResampleLine::ResampleLine(const Dims3& source, int64_t cells) : source_(source), n_(cells) {
  BORA_CHECK(source.count() > 0 && source.count() <= std::numeric_limits<int32_t>::max(),
             "resampling a box of ", source, " cells, wanted 1 to 2^31 - 1 of them");
  const auto n = static_cast<size_t>(cells);
  for (auto* v : {&sx_, &sy_, &sz_}) v->resize(n);
  for (auto* v : {&cell_, &nearest_, &up_x_, &up_y_, &up_z_, &is_inside_}) v->resize(n);
}

void ResampleLine::at(const CoordinateMap& map, int64_t x, int64_t y) {
  map.line(x, y, sx_.data(), sy_.data(), sz_.data());
  const auto nx = static_cast<int32_t>(source_.d), ny = static_cast<int32_t>(source_.h);
  const auto nz = static_cast<int32_t>(source_.w);
  const auto last_x = static_cast<float>(nx - 1), last_y = static_cast<float>(ny - 1);
  const auto last_z = static_cast<float>(nz - 1);
  float *sx = sx_.data(), *sy = sy_.data(), *sz = sz_.data();
  int32_t *cell = cell_.data(), *nearest = nearest_.data(), *in = is_inside_.data();
  int32_t *up_x = up_x_.data(), *up_y = up_y_.data(), *up_z = up_z_.data();
  // Selections, no branches and no && : so that it becomes vector code.
  const auto within = [](float v, float low, float high) {
    return (v >= low ? 1 : 0) & (v < high ? 1 : 0);
  };
  const auto held = [](float v, float last) {
    const float at_least = v > 0.0f ? v : 0.0f;
    return at_least < last ? at_least : last;
  };
  const int64_t n = n_;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    in[i] = within(sx[i], -0.5f, last_x + 0.5f) & within(sy[i], -0.5f, last_y + 0.5f) &
            within(sz[i], -0.5f, last_z + 0.5f);
    const float px = held(sx[i], last_x), py = held(sy[i], last_y), pz = held(sz[i], last_z);
    const auto ix = static_cast<int32_t>(px), iy = static_cast<int32_t>(py);
    const auto iz = static_cast<int32_t>(pz);
    const float tx = px - static_cast<float>(ix), ty = py - static_cast<float>(iy);
    const float tz = pz - static_cast<float>(iz);
    const int32_t dx = ix < nx - 1 ? ny * nz : 0, dy = iy < ny - 1 ? nz : 0;
    const int32_t dz = iz < nz - 1 ? 1 : 0;
    const int32_t first = (ix * ny + iy) * nz + iz;
    nearest[i] = first + (tx >= 0.5f ? dx : 0) + (ty >= 0.5f ? dy : 0) + (tz >= 0.5f ? dz : 0);
    cell[i] = first;
    up_x[i] = dx;
    up_y[i] = dy;
    up_z[i] = dz;
    sx[i] = tx;
    sy[i] = ty;
    sz[i] = tz;
  }
}

void ResampleLine::linear(const float* in, float* out, int64_t channels, float padding) const {
  const float *fx = sx_.data(), *fy = sy_.data(), *fz = sz_.data();
  const int32_t *cell = cell_.data(), *inside = is_inside_.data();
  const int32_t *up_x = up_x_.data(), *up_y = up_y_.data(), *up_z = up_z_.data();
  const auto value = [=](const float* v, int64_t i, auto step) {
    const auto p = cell[i] * step, dx = up_x[i] * step, dy = up_y[i] * step, dz = up_z[i] * step;
    const float a = between(v[p], v[p + dz], fz[i]);
    const float b = between(v[p + dy], v[p + dy + dz], fz[i]);
    const float c = between(v[p + dx], v[p + dx + dz], fz[i]);
    const float d = between(v[p + dx + dy], v[p + dx + dy + dz], fz[i]);
    const float sum = between(between(a, b, fy[i]), between(c, d, fy[i]), fx[i]);
    return inside[i] != 0 ? sum : padding;
  };
  if (channels == 1) {  // 32-bit places: twice as many of them in a vector
#pragma omp simd
    for (int64_t i = 0; i < n_; ++i) out[i] = value(in, i, int32_t{1});
    return;
  }
  for (int64_t c = 0; c < channels; ++c)
#pragma omp simd
    for (int64_t i = 0; i < n_; ++i) out[i * channels + c] = value(in + c, i, channels);
}

template <class T>
void ResampleLine::take_nearest(const T* in, T* out, int64_t channels, T padding) const {
  const int32_t *nearest = nearest_.data(), *inside = is_inside_.data();
  if (channels == 1) {
    for (int64_t i = 0; i < n_; ++i) out[i] = inside[i] != 0 ? in[nearest[i]] : padding;
    return;
  }
  for (int64_t i = 0; i < n_; ++i)
    for (int64_t c = 0; c < channels; ++c)
      out[i * channels + c] = inside[i] != 0 ? in[nearest[i] * channels + c] : padding;
}

void ResampleLine::nearest(const float* in, float* out, int64_t channels, float padding) const {
  take_nearest(in, out, channels, padding);
}

void ResampleLine::nearest(const uint8_t* in, uint8_t* out, int64_t channels) const {
  take_nearest<uint8_t>(in, out, channels, 0);
}

void ResampleLine::inside(uint8_t* out) const {
  for (int64_t i = 0; i < n_; ++i)
    out[i] = static_cast<uint8_t>(is_inside_[static_cast<size_t>(i)]);
}

}  // namespace bora::data
