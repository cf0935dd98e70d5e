// SPDX-License-Identifier: Apache-2.0
// Rows of nn/ops/resample.cpp.
#include <algorithm>
#include <cmath>

#include "nn/ops.hpp"
#include "tests/nn/op_cases.hpp"

namespace bora::test {
namespace {

using In = const std::vector<Tensor>&;

// The textbook form: position (o + 1/2) in / out - 1/2, clamped to the axis, and the share of
// source cell i is max(0, 1 - |position - i|).
double share(int64_t o, int64_t i, int64_t in, int64_t out) {
  const double p =
      (static_cast<double>(o) + 0.5) * static_cast<double>(in) / static_cast<double>(out) - 0.5;
  const double clamped = std::clamp(p, 0.0, static_cast<double>(in - 1));
  return std::max(0.0, 1.0 - std::abs(clamped - static_cast<double>(i)));
}

double nearest_share(int64_t o, int64_t i, int64_t in, int64_t out) {
  return static_cast<int64_t>(std::floor(static_cast<double>(o * in) / static_cast<double>(out))) ==
                 i
             ? 1.0
             : 0.0;
}

std::vector<double> resampled(const std::vector<double>& x, const Shape& s, Dims3 out,
                              double (*part)(int64_t, int64_t, int64_t, int64_t)) {
  std::vector<double> y;
  for (int64_t n = 0; n < s[0]; ++n)
    for (int64_t od = 0; od < out.d; ++od)
      for (int64_t oh = 0; oh < out.h; ++oh)
        for (int64_t ow = 0; ow < out.w; ++ow)
          for (int64_t c = 0; c < s[4]; ++c) {
            double sum = 0;
            for (int64_t d = 0; d < s[1]; ++d) {
              const double pd = part(od, d, s[1], out.d);
              if (pd == 0) continue;
              for (int64_t h = 0; h < s[2]; ++h) {
                const double ph = part(oh, h, s[2], out.h);
                if (ph == 0) continue;
                for (int64_t w = 0; w < s[3]; ++w)
                  sum +=
                      pd * ph * part(ow, w, s[3], out.w) *
                      x[static_cast<size_t>((((n * s[1] + d) * s[2] + h) * s[3] + w) * s[4] + c)];
              }
            }
            y.push_back(sum);
          }
  return y;
}

OpCase row(const char* name, const Shape& shape, Dims3 size, bool nearest) {
  OpCase c{.name = name,
           .op = nearest ? "upsample_nearest" : "upsample_trilinear",
           .inputs = {normal(shape)},
           .run = {},
           .reference =
               [=](const Values& in) {
                 return resampled(in[0], shape, size, nearest ? nearest_share : share);
               },
           // A gradient is a sum over at most (2 * ratio + 1)^3 targets.
           .roundings = 150,
           .saved_bytes = 0};
  if (nearest) {
    c.run = [size](In in) { return nn::upsample_nearest(in[0], size); };
  } else {
    c.run = [size](In in) { return nn::upsample_trilinear(in[0], size); };
    // The reference's positions round to about 2^-52 * extent, relative to the exact ones.
    c.amplification = 8;
  }
  return c;
}

const OpCases rows([] {
  std::vector<OpCase> all;
  for (bool nearest : {false, true}) {
    const auto add = [&](const char* name, const char* nearest_name, const Shape& shape,
                         Dims3 size) {
      all.push_back(row(nearest ? nearest_name : name, shape, size, nearest));
    };
    add("trilinear_x2", "nearest_x2", {2, 3, 2, 4, 3}, {6, 4, 8});
    add("trilinear_odd_skip", "nearest_odd_skip", {1, 2, 3, 4, 5}, {5, 7, 9});
    add("trilinear_extent_1", "nearest_extent_1", {1, 1, 1, 1, 2}, {3, 1, 2});
    add("trilinear_down", "nearest_down", {1, 7, 5, 9, 2}, {3, 5, 2});
    add("trilinear_same", "nearest_same", {1, 3, 2, 5, 1}, {3, 2, 5});
    add("trilinear_to_1", "nearest_to_1", {1, 4, 3, 2, 1}, {1, 1, 1});
    add("trilinear_many", "nearest_many", {1, 6, 7, 8, 16}, {12, 14, 16});
    add("trilinear_x5", "nearest_x5", {1, 2, 3, 2, 2}, {10, 13, 7});
    add("trilinear_empty_batch", "nearest_empty_batch", {0, 2, 2, 2, 3}, {4, 4, 4});
  }
  return all;
});

}  // namespace
}  // namespace bora::test
