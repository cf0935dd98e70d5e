// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/class_windows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "apps/common/text.hpp"

namespace bora::unet3d {
namespace {

std::array<double, 3> three(const std::vector<double>& overlap) {
  BORA_CHECK(overlap.size() == 1 || overlap.size() == 3, "plan_classes: ", overlap.size(),
             " overlaps, wanted one, or one for each axis");
  if (overlap.size() == 1) return {overlap[0], overlap[0], overlap[0]};
  return {overlap[0], overlap[1], overlap[2]};
}

}  // namespace

ClassPlan plan_classes(const Dims3& wanted, const Dims3& volume,
                       const std::vector<double>& overlap) {
  const Dims3 window = data::window_shape(volume, wanted);
  const std::array<double, 3> shares = three(overlap);
  ClassPlan plan;
  plan.layout = lay_windows(volume, window, shares);
  // As training patches lie: an image has no ground to begin at.
  if (window.w > volume.w) plan.layout.begins[2] = {-((window.w - volume.w) / 2)};
  plan.frame = {
      volume,
      {std::max(volume.d, window.d), std::max(volume.h, window.h), std::max(volume.w, window.w)},
      {plan.layout.begins[0].front(), plan.layout.begins[1].front(),
       plan.layout.begins[2].front()}};
  if (const int64_t n = plan.layout.count(); n > 1) {
    plan.text = detail::join(n, " windows of ", window, ", overlap ", apps::brief(shares[0]));
    if (shares[1] != shares[0] || shares[2] != shares[0])
      plan.text += ", " + apps::brief(shares[1]) + ", " + apps::brief(shares[2]);
    plan.text += detail::join(", over ", volume, " cells");
  } else if (window == volume) {
    plan.text = detail::join("the whole volume of ", volume, " cells at once");
  } else {
    plan.text = detail::join("one window of ", window, " for a volume of ", volume, " cells");
  }
  return plan;
}

Tensor framed(const Tensor& volume, const data::Window& frame, const std::vector<float>& padding) {
  BORA_CHECK(volume.rank() == 4 && volume.dtype() == DType::f32 && volume.size(0) == frame.grid.d &&
                 volume.size(1) == frame.grid.h && volume.size(2) == frame.grid.w &&
                 static_cast<int64_t>(padding.size()) == volume.size(3),
             "framed: volume ", volume.shape(), ", wanted the ", frame.grid, " cells of the grid");
  if (!frame.has_padding()) return volume;
  const int64_t channels = volume.size(3);
  const Dims3 &n = frame.shape, at = frame.first_in_box();
  Tensor out = Tensor::empty({n.d, n.h, n.w, channels}, DType::f32);
  float* to = out.data<float>();
  for (int64_t i = 0; i < n.count(); ++i)
    for (int64_t c = 0; c < channels; ++c) *to++ = padding[static_cast<size_t>(c)];
  const int64_t row = volume.size(2) * channels;
  for (int64_t x = 0; x < volume.size(0); ++x)
    for (int64_t y = 0; y < volume.size(1); ++y)
      std::copy_n(volume.data<float>() + (x * volume.size(1) + y) * row, row,
                  out.data<float>() + (((x + at.d) * n.h + y + at.h) * n.w + at.w) * channels);
  return out;
}

std::vector<float> padding_of(const Tensor& volume, const std::string& rule) {
  const int64_t channels = volume.size(3);
  std::vector<float> padding(static_cast<size_t>(channels), 0.0f);
  if (rule != "minimum" || volume.numel() == 0) return padding;
  const float* v = volume.data<float>();
  std::fill(padding.begin(), padding.end(), std::numeric_limits<float>::infinity());
  for (int64_t i = 0; i < volume.numel(); ++i) {
    float& least = padding[static_cast<size_t>(i % channels)];
    if (v[i] < least) least = v[i];  // not for NaN, wherever it stands
  }
  for (float& least : padding)
    if (std::isinf(least)) least = 0;  // a channel without a number
  return padding;
}

Tensor cut_from_frame(const Tensor& slab, int64_t first_x, const ClassPlan& plan,
                      const data::Window& window) {
  return cut_window(slab, {first_x, plan.frame.begin.h, plan.frame.begin.w}, window);
}

}  // namespace bora::unet3d
