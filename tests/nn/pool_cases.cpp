// SPDX-License-Identifier: Apache-2.0
// Rows of nn/ops/pool.cpp.
#include <algorithm>

#include "nn/ops.hpp"
#include "tests/nn/op_cases.hpp"

namespace bora::test {
namespace {

using In = const std::vector<Tensor>&;

// All cells of window o, then maximum or mean of those inside.
std::vector<double> pooled(const std::vector<double>& x, const Shape& in, const nn::PoolOptions& p,
                           bool mean) {
  int64_t out[3];
  for (int i = 0; i < 3; ++i)
    out[i] = (in[i + 1] + 2 * p.padding[i] - p.kernel[i]) / p.stride[i] + 1;
  std::vector<double> y;
  for (int64_t n = 0; n < in[0]; ++n)
    for (int64_t a = 0; a < out[0]; ++a)
      for (int64_t b = 0; b < out[1]; ++b)
        for (int64_t e = 0; e < out[2]; ++e)
          for (int64_t c = 0; c < in[4]; ++c) {
            std::vector<double> window;
            for (int64_t k = 0; k < p.kernel.count(); ++k) {
              const int64_t d = a * p.stride.d - p.padding.d + k / (p.kernel.h * p.kernel.w);
              const int64_t h = b * p.stride.h - p.padding.h + k / p.kernel.w % p.kernel.h;
              const int64_t w = e * p.stride.w - p.padding.w + k % p.kernel.w;
              if (d < 0 || d >= in[1] || h < 0 || h >= in[2] || w < 0 || w >= in[3]) continue;
              window.push_back(
                  x[static_cast<size_t>((((n * in[1] + d) * in[2] + h) * in[3] + w) * in[4] + c)]);
            }
            double total = 0;
            for (double v : window) total += v;
            y.push_back(mean ? total / static_cast<double>(window.size())
                             : *std::max_element(window.begin(), window.end()));
          }
  return y;
}

OpCase row(const char* name, const Shape& shape, const nn::PoolOptions& p, bool mean) {
  OpCase c{.name = name,
           .op = mean ? "avg_pool3d" : "max_pool3d",
           .inputs = {mean ? normal(shape) : distinct(shape)},
           .run = {},
           .reference = [=](const Values& in) { return pooled(in[0], shape, p, mean); }};
  if (mean) {
    c.run = [p](In in) { return nn::avg_pool3d(in[0], p); };
    c.saved_bytes = 0;
  } else {
    c.run = [p](In in) { return nn::max_pool3d(in[0], p); };
    // One byte an element of the result.
    c.saved_bytes =
        (static_cast<int64_t>(
             pooled(std::vector<double>(static_cast<size_t>(shape.numel())), shape, p, false)
                 .size()) +
         255) /
        256 * 256;
  }
  // Maxima are picked from values 0.05 apart; f16 and bf16 would merge some of many.
  if (!mean && shape.numel() > 2000) c.types = {DType::f32};
  return c;
}

const nn::PoolOptions kTwo{};
const nn::PoolOptions kThree{
    .kernel = Dims3::all(3), .stride = Dims3::all(2), .padding = Dims3::all(1)};
const nn::PoolOptions kMixed{.kernel = {1, 2, 3}, .stride = {1, 3, 1}, .padding = {0, 1, 1}};
const nn::PoolOptions kDisjoint{.kernel = {1, 3, 2}, .stride = {1, 3, 2}, .padding = {}};

const OpCases rows([] {
  std::vector<OpCase> all;
  // The pooled tensor has a second reader, whose gradient is there first.
  const auto beside = [&](const char* name, const Shape& shape, const nn::PoolOptions& p) {
    all.push_back(
        {.name = name, .op = "max_pool3d", .inputs = {distinct(shape)}, .run = [p](In in) {
           const Tensor x = nn::scale(in[0], 2.0);
           const Tensor a = nn::max_pool3d(x, p);
           return nn::add(a, nn::avg_pool3d(x, p));
         }});
  };
  beside("max_pool_beside_a_reader", {1, 5, 4, 7, 5}, kTwo);
  beside("max_pool_beside_a_reader_many", {1, 12, 14, 16, 17}, kTwo);
  beside("max_pool_beside_a_reader_overlapping", {1, 5, 4, 3, 2}, kThree);
  for (bool mean : {false, true}) {
    const auto add = [&](const char* max_name, const char* avg_name, const Shape& shape,
                         const nn::PoolOptions& p) {
      all.push_back(row(mean ? avg_name : max_name, shape, p, mean));
    };
    add("max_pool", "avg_pool", {2, 4, 2, 6, 3}, kTwo);
    add("max_pool_odd", "avg_pool_odd", {1, 5, 3, 7, 5}, kTwo);  // last cells in no window
    add("max_pool_many", "avg_pool_many", {1, 12, 14, 16, 17}, kTwo);
    add("max_pool_overlapping", "avg_pool_overlapping", {1, 5, 4, 3, 2}, kThree);
    add("max_pool_extent_1", "avg_pool_extent_1", {2, 1, 1, 1, 3}, kThree);
    add("max_pool_mixed", "avg_pool_mixed", {1, 3, 5, 4, 2}, kMixed);
    add("max_pool_disjoint", "avg_pool_disjoint", {1, 3, 7, 4, 2}, kDisjoint);
    add("max_pool_empty_batch", "avg_pool_empty_batch", {0, 4, 4, 4, 2}, kTwo);
  }
  return all;
});

}  // namespace
}  // namespace bora::test
