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
#pragma omp simd
  for (int64_t i = 0; i < n_; ++i) {
    in[i] = (sx[i] >= -0.5f) & (sx[i] < last_x + 0.5f) & (sy[i] >= -0.5f) &
            (sy[i] < last_y + 0.5f) & (sz[i] >= -0.5f) & (sz[i] < last_z + 0.5f);
    const float px = std::min(std::max(sx[i], 0.0f), last_x);
    const float py = std::min(std::max(sy[i], 0.0f), last_y);
    const float pz = std::min(std::max(sz[i], 0.0f), last_z);
    const auto ix = static_cast<int32_t>(px), iy = static_cast<int32_t>(py);
    const auto iz = static_cast<int32_t>(pz);
    sx[i] = px - static_cast<float>(ix);
    sy[i] = py - static_cast<float>(iy);
    sz[i] = pz - static_cast<float>(iz);
    up_x[i] = ix < nx - 1 ? ny * nz : 0;
    up_y[i] = iy < ny - 1 ? nz : 0;
    up_z[i] = iz < nz - 1 ? 1 : 0;
    cell[i] = (ix * ny + iy) * nz + iz;
    nearest[i] = cell[i] + (sx[i] >= 0.5f ? up_x[i] : 0) + (sy[i] >= 0.5f ? up_y[i] : 0) +
                 (sz[i] >= 0.5f ? up_z[i] : 0);
  }
}

void ResampleLine::linear(const float* in, float* out, int64_t channels, float padding) const {
  const float *fx = sx_.data(), *fy = sy_.data(), *fz = sz_.data();
  const int32_t *cell = cell_.data(), *inside = is_inside_.data();
  const int32_t *up_x = up_x_.data(), *up_y = up_y_.data(), *up_z = up_z_.data();
  for (int64_t c = 0; c < channels; ++c) {
    const float* v = in + c;
#pragma omp simd
    for (int64_t i = 0; i < n_; ++i) {
      const int64_t p = cell[i] * channels, dx = up_x[i] * channels, dy = up_y[i] * channels;
      const int64_t dz = up_z[i] * channels;
      const float a = between(v[p], v[p + dz], fz[i]);
      const float b = between(v[p + dy], v[p + dy + dz], fz[i]);
      const float d = between(v[p + dx], v[p + dx + dz], fz[i]);
      const float e = between(v[p + dx + dy], v[p + dx + dy + dz], fz[i]);
      const float value = between(between(a, b, fy[i]), between(d, e, fy[i]), fx[i]);
      out[i * channels + c] = inside[i] != 0 ? value : padding;
    }
  }
}

template <class T>
void ResampleLine::take_nearest(const T* in, T* out, int64_t channels, T padding) const {
  for (int64_t i = 0; i < n_; ++i)
    for (int64_t c = 0; c < channels; ++c)
      out[i * channels + c] = is_inside_[static_cast<size_t>(i)] != 0
                                  ? in[nearest_[static_cast<size_t>(i)] * channels + c]
                                  : padding;
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
