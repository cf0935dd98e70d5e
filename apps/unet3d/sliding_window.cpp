// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/sliding_window.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "core/error.hpp"

namespace bora::unet3d {
namespace {

/// Of one axis: begins, and for each window the share that each of its cells has in the blend.
struct Axis {
  int64_t extent, window;
  std::vector<int64_t> begins;
  std::vector<std::vector<double>> shares;

  Axis(int64_t extent_, int64_t window_, const std::vector<int64_t>& begins_)
      : extent(extent_), window(window_), begins(begins_) {
    const std::vector<double> profile = blend_profile(window);
    std::vector<double> sums(static_cast<size_t>(extent), 0.0);
    for (const int64_t begin : begins)
      for (int64_t c = low(begin); c < high(begin); ++c)
        sums[static_cast<size_t>(c)] += profile[static_cast<size_t>(c - begin)];
    for (const int64_t begin : begins) {
      std::vector<double> share(static_cast<size_t>(window), 0.0);
      for (int64_t c = low(begin); c < high(begin); ++c)
        share[static_cast<size_t>(c - begin)] =
            profile[static_cast<size_t>(c - begin)] / sums[static_cast<size_t>(c)];
      shares.push_back(std::move(share));
    }
  }
  /// The cells that a window has in the volume.
  int64_t low(int64_t begin) const { return std::max<int64_t>(begin, 0); }
  int64_t high(int64_t begin) const { return std::min(begin + window, extent); }
};

/// The planes that still receive contributions.
class Slab {
 public:
  Slab(const WindowLayout& layout, int64_t channels)
      : plane_(layout.volume.h * layout.volume.w * channels),
        sums_(Tensor::zeros({std::min(layout.window.d, layout.volume.d), layout.volume.h,
                             layout.volume.w, channels},
                            DType::f32)) {}

  /// Of plane x of the volume.
  float* plane(int64_t x) { return sums_.data<float>() + (x - first_) * plane_; }

  /// Hands out the planes before `end`, and makes room for as many behind.
  void finish(int64_t end, const SlidingSteps& steps) {
    const int64_t n = end - first_;
    if (n == 0) return;
    Tensor done = sums_.rows(0, n);
    steps.take(first_, done);
    const int64_t kept = (sums_.size(0) - n) * plane_;
    float* at = sums_.data<float>();
    std::memmove(at, at + n * plane_, static_cast<size_t>(kept) * sizeof(float));
    std::fill(at + kept, at + sums_.numel(), 0.0f);
    first_ = end;
  }

 private:
  int64_t first_ = 0, plane_;
  Tensor sums_;  // (planes, Y, Z, K) f32
};

void add(const std::array<Axis, 3>& axes, const std::array<size_t, 3>& at, const float* y,
         int64_t channels, Slab& slab) {
  const std::array<int64_t, 3> begin{axes[0].begins[at[0]], axes[1].begins[at[1]],
                                     axes[2].begins[at[2]]};
  const int64_t z0 = axes[2].low(begin[2]), z1 = axes[2].high(begin[2]);
  for (int64_t x = axes[0].low(begin[0]); x < axes[0].high(begin[0]); ++x) {
    const double wx = axes[0].shares[at[0]][static_cast<size_t>(x - begin[0])];
    for (int64_t h = axes[1].low(begin[1]); h < axes[1].high(begin[1]); ++h) {
      const double wxy = wx * axes[1].shares[at[1]][static_cast<size_t>(h - begin[1])];
      const float* in =
          y + (((x - begin[0]) * axes[1].window + h - begin[1]) * axes[2].window + z0 - begin[2]) *
                  channels;
      float* out = slab.plane(x) + (h * axes[2].extent + z0) * channels;
      const double* wz = axes[2].shares[at[2]].data() + (z0 - begin[2]);
      for (int64_t z = 0; z < z1 - z0; ++z) {
        const auto w = static_cast<float>(wxy * wz[z]);
        for (int64_t k = 0; k < channels; ++k) out[z * channels + k] += w * in[z * channels + k];
      }
    }
  }
}

}  // namespace

int64_t WindowLayout::count() const {
  int64_t n = 1;
  for (const auto& axis : begins) n *= static_cast<int64_t>(axis.size());
  return n;
}

data::Window WindowLayout::at(int64_t i) const {
  BORA_CHECK(i >= 0 && i < count(), "WindowLayout: window ", i, " of ", count());
  const auto nz = static_cast<int64_t>(begins[2].size());
  const auto ny = static_cast<int64_t>(begins[1].size());
  return {volume,
          window,
          {begins[0][static_cast<size_t>(i / nz / ny)], begins[1][static_cast<size_t>(i / nz % ny)],
           begins[2][static_cast<size_t>(i % nz)]}};
}

WindowLayout lay_windows(const Dims3& volume, const Dims3& window,
                         const std::array<double, 3>& overlap) {
  WindowLayout layout{volume, window, {}};
  for (size_t a = 0; a < 3; ++a) {
    const auto axis = static_cast<int>(a);
    BORA_CHECK(volume[axis] >= 1 && window[axis] >= 1, "lay_windows: volume ", volume,
               " and window ", window, ", wanted extents of at least 1");
    BORA_CHECK(overlap[a] >= 0 && overlap[a] < 1, "lay_windows: overlap ", overlap[a],
               ", wanted at least 0 and less than 1");
  }
  // Where the window is longer than the volume it lies as in training.
  const data::Window padded = data::centred_window(
      volume,
      {std::max(volume.d, window.d), std::max(volume.h, window.h), std::max(volume.w, window.w)});
  for (size_t a = 0; a < 3; ++a) {
    const auto axis = static_cast<int>(a);
    const int64_t extent = volume[axis], length = window[axis];
    if (length >= extent) {
      layout.begins[a] = {padded.begin[axis]};
      continue;
    }
    const auto stride = std::max<int64_t>(
        1, static_cast<int64_t>(std::floor(static_cast<double>(length) * (1 - overlap[a]))));
    for (int64_t begin = 0; begin < extent - length; begin += stride)
      layout.begins[a].push_back(begin);
    layout.begins[a].push_back(extent - length);
  }
  return layout;
}

Tensor cut_window(const Tensor& slab, const Dims3& first, const data::Window& window) {
  BORA_CHECK(slab.rank() == 4 && slab.dtype() == DType::f32, "cut_window: slab ", slab.shape(), " ",
             slab.dtype(), ", wanted (X, Y, Z, C) f32");
  const Dims3& n = window.shape;
  const Dims3 at{window.begin.d - first.d, window.begin.h - first.h, window.begin.w - first.w};
  BORA_CHECK(at.d >= 0 && at.h >= 0 && at.w >= 0 && at.d + n.d <= slab.size(0) &&
                 at.h + n.h <= slab.size(1) && at.w + n.w <= slab.size(2),
             "cut_window: window ", n, " at ", window.begin, " is not in the slab ", slab.shape(),
             " at ", first);
  const int64_t channels = slab.size(3);
  if (slab.shape() == Shape({n.d, n.h, n.w, channels})) return slab;
  Tensor out = Tensor::empty({n.d, n.h, n.w, channels}, slab.dtype());
  const float* from = slab.data<float>();
  float* to = out.data<float>();
  for (int64_t x = 0; x < n.d; ++x)
    for (int64_t y = 0; y < n.h; ++y) {
      const int64_t row = (x + at.d) * slab.size(1) + y + at.h;
      std::memcpy(to + (x * n.h + y) * n.w * channels,
                  from + (row * slab.size(2) + at.w) * channels,
                  static_cast<size_t>(n.w * channels) * sizeof(float));
    }
  return out;
}

std::vector<double> blend_profile(int64_t extent) {
  BORA_CHECK(extent >= 1, "blend_profile: extent ", extent, ", wanted at least 1");
  const double middle = static_cast<double>(extent - 1) / 2;
  const double sigma = static_cast<double>(extent) / 8;
  std::vector<double> profile(static_cast<size_t>(extent));
  for (size_t i = 0; i < profile.size(); ++i) {
    const double d = (static_cast<double>(i) - middle) / sigma;  // exact to the sign: symmetric
    profile[i] = std::max(kLowestBlendWeight, std::exp(-0.5 * d * d));
  }
  return profile;
}

void slide(const WindowLayout& layout, const SlidingSteps& steps) {
  BORA_CHECK(steps.read && steps.predict && steps.take,
             "slide: a step is missing, wanted read, predict and take");
  for (const auto& begins : layout.begins)
    BORA_CHECK(!begins.empty(), "slide: a layout without windows; make it with lay_windows");
  const Dims3& w = layout.window;
  const std::array<Axis, 3> axes{Axis(layout.volume.d, w.d, layout.begins[0]),
                                 Axis(layout.volume.h, w.h, layout.begins[1]),
                                 Axis(layout.volume.w, w.w, layout.begins[2])};
  std::unique_ptr<Slab> slab;
  int64_t channels = 0, i = 0;
  for (size_t x = 0; x < axes[0].begins.size(); ++x) {
    if (slab) slab->finish(axes[0].low(axes[0].begins[x]), steps);
    for (size_t y = 0; y < axes[1].begins.size(); ++y)
      for (size_t z = 0; z < axes[2].begins.size(); ++z, ++i) {
        const Tensor out =
            steps.predict(steps.read(layout.at(i))).to(cpu()).to(DType::f32);  // (X, Y, Z, K)
        if (!slab) {
          BORA_CHECK(out.rank() == 4, "slide: a window's prediction has shape ", out.shape(),
                     ", wanted (X, Y, Z, K)");
          channels = out.size(3);
          slab = std::make_unique<Slab>(layout, channels);
        }
        BORA_CHECK(out.shape() == Shape({w.d, w.h, w.w, channels}), "slide: window ", i,
                   " has a prediction of shape ", out.shape(), ", wanted (", w, ", ", channels,
                   ")");
        add(axes, {x, y, z}, out.data<float>(), channels, *slab);
      }
  }
  slab->finish(layout.volume.d, steps);
}

}  // namespace bora::unet3d
