// SPDX-License-Identifier: Apache-2.0
// Rows of nn/ops/rearrange.cpp.
#include "nn/ops.hpp"
#include "tests/nn/op_cases.hpp"

namespace bora::test {
namespace {

using In = const std::vector<Tensor>&;

// Rows of the parts, one behind the other.
std::vector<double> join(const Values& in, const std::vector<size_t>& channels) {
  std::vector<double> out;
  const size_t n_rows = in[0].size() / channels[0];
  for (size_t r = 0; r < n_rows; ++r)
    for (size_t k = 0; k < channels.size(); ++k)
      for (size_t c = 0; c < channels[k]; ++c) out.push_back(in[k][r * channels[k] + c]);
  return out;
}

std::vector<double> cut(const std::vector<double>& x, size_t channels, size_t begin, size_t end) {
  std::vector<double> out;
  for (size_t i = 0; i < x.size(); ++i)
    if (i % channels >= begin && i % channels < end) out.push_back(x[i]);
  return out;
}

// y (N, D', H', W', C) of x (N, D, H, W, C): cell o shows cell o + shift, or value.
std::vector<double> shifted(const std::vector<double>& x, const Shape& in, Dims3 out, Dims3 shift,
                            double value) {
  std::vector<double> y;
  for (int64_t n = 0; n < in[0]; ++n)
    for (int64_t d = shift.d; d < out.d + shift.d; ++d)
      for (int64_t h = shift.h; h < out.h + shift.h; ++h)
        for (int64_t w = shift.w; w < out.w + shift.w; ++w)
          for (int64_t c = 0; c < in[4]; ++c) {
            const bool inside = d >= 0 && d < in[1] && h >= 0 && h < in[2] && w >= 0 && w < in[3];
            y.push_back(inside ? x[static_cast<size_t>(
                                     (((n * in[1] + d) * in[2] + h) * in[3] + w) * in[4] + c)]
                               : value);
          }
  return y;
}

const Shape kVolume{2, 3, 4, 5, 3};
const Shape kMany{1, 17, 18, 19, 16};

const OpCases rows([] {
  const auto concat = [](In in) { return nn::concat(in); };
  return std::vector<OpCase>{
      {.name = "concat",
       .op = "concat",
       .inputs = {normal({2, 3, 2, 1, 5}), normal({2, 3, 2, 1, 1}), normal({2, 3, 2, 1, 7})},
       .run = concat,
       .reference =
           [](const Values& in) {
             return join(in, {5, 1, 7});
           },
       .saved_bytes = 0},
      {.name = "concat_many",
       .op = "concat",
       .inputs = {normal(kMany), normal(kMany)},
       .run = concat,
       .reference =
           [](const Values& in) {
             return join(in, {16, 16});
           },
       .saved_bytes = 0},
      {.name = "concat_of_one",
       .op = "concat",
       .inputs = {normal({4, 3})},
       .run = concat,
       .reference = [](const Values& in) { return in[0]; }},
      {.name = "concat_no_channels",
       .op = "concat",
       .inputs = {normal({4, 3}), normal({4, 0})},
       .run = concat,
       .reference = [](const Values& in) { return in[0]; }},
      {.name = "concat_empty",
       .op = "concat",
       .inputs = {normal({0, 3}), normal({0, 2})},
       .run = concat,
       .reference = [](const Values&) { return std::vector<double>{}; }},
      {.name = "concat_with_constant",
       .op = "concat",
       .inputs = {normal({4, 3}), normal({4, 2}).fixed()},
       .run = concat,
       .reference =
           [](const Values& in) {
             return join(in, {3, 2});
           }},
      {.name = "slice_channels",
       .op = "slice_channels",
       .inputs = {normal({2, 3, 4, 5, 9})},
       .run = [](In in) { return nn::slice_channels(in[0], 2, 6); },
       .reference = [](const Values& in) { return cut(in[0], 9, 2, 6); },
       .saved_bytes = 0},
      {.name = "slice_channels_none",
       .op = "slice_channels",
       .inputs = {normal({3, 9})},
       .run = [](In in) { return nn::slice_channels(in[0], 4, 4); },
       .reference = [](const Values&) { return std::vector<double>{}; },
       .zero_gradient_ok = true},
      {.name = "slice_channels_many",
       .op = "slice_channels",
       .inputs = {normal(kMany)},
       .run = [](In in) { return nn::slice_channels(in[0], 1, 16); },
       .reference = [](const Values& in) { return cut(in[0], 16, 1, 16); }},
      {.name = "split_and_join_reversed",
       .op = "slice_channels",
       .inputs = {normal({7, 6})},
       .run =
           [](In in) {
             const std::vector<Tensor> p = nn::split(in[0], {1, 2, 3});
             return nn::concat({p[2], p[1], p[0]});
           },
       .reference =
           [](const Values& in) {
             return join({cut(in[0], 6, 3, 6), cut(in[0], 6, 1, 3), cut(in[0], 6, 0, 1)},
                         {3, 2, 1});
           }},
      {.name = "pad",
       .op = "pad",
       .inputs = {normal(kVolume)},
       .run =
           [](In in) {
             return nn::pad(in[0], {1, 0, 2}, {0, 3, 1}, -0.5);
           },
       .reference =
           [](const Values& in) {
             return shifted(in[0], kVolume, {4, 7, 8}, {-1, 0, -2}, -0.5);
           },
       .saved_bytes = 0},
      {.name = "pad_by_nothing",
       .op = "pad",
       .inputs = {normal({1, 1, 1, 1, 1})},
       .run =
           [](In in) {
             return nn::pad(in[0], {0, 0, 0}, {0, 0, 0}, 9.0);
           },
       .reference = [](const Values& in) { return in[0]; }},
      {.name = "pad_many",
       .op = "pad",
       .inputs = {normal(kMany)},
       .run =
           [](In in) {
             return nn::pad(in[0], {1, 1, 1}, {1, 1, 1});
           },
       .reference =
           [](const Values& in) {
             return shifted(in[0], kMany, {19, 20, 21}, {-1, -1, -1}, 0.0);
           }},
      {.name = "crop",
       .op = "crop",
       .inputs = {normal(kVolume)},
       .run =
           [](In in) {
             return nn::crop(in[0], {1, 0, 3}, {2, 3, 1});
           },
       .reference =
           [](const Values& in) {
             return shifted(in[0], kVolume, {2, 3, 1}, {1, 0, 3}, 0.0);
           },
       .saved_bytes = 0},
      {.name = "crop_many",
       .op = "crop",
       .inputs = {normal(kMany)},
       .run =
           [](In in) {
             return nn::crop(in[0], {1, 1, 1}, {16, 16, 16});
           },
       .reference =
           [](const Values& in) {
             return shifted(in[0], kMany, {16, 16, 16}, {1, 1, 1}, 0.0);
           }},
  };
});

}  // namespace
}  // namespace bora::test
