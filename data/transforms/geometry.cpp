// SPDX-License-Identifier: Apache-2.0
// apply_geometry: the drawn geometry of a sample, on all that it consists of.
#include <utility>

#include "core/error.hpp"
#include "data/angle.hpp"
#include "data/augment.hpp"
#include "data/transforms/label_swap.hpp"
#include "data/transforms/orient.hpp"
#include "data/transforms/resample.hpp"
#include "data/transforms/transforms.hpp"

namespace bora::data {
namespace {

Dims3 cells_of(const Tensor& t) { return {t.size(0), t.size(1), t.size(2)}; }

Shape patch_shape(const Tensor& t, const Dims3& patch) {
  return t.shape().with(0, patch.d).with(1, patch.h).with(2, patch.w);
}

int64_t channels_of(const Tensor& t) { return t.rank() == 4 ? t.size(3) : 1; }

/// Zoom, rotation and warp: each tensor's values are interpolated once.
void resample(Sample& s, const Geometry& geometry, const Dims3& patch, double padding) {
  const Dims3 source = cells_of(s.input);
  const CoordinateMap map(geometry, patch, source);
  ResampleLine line(source, patch.w);
  const auto made = [&](const Tensor& t) {
    return t.defined() ? Tensor::empty(patch_shape(t, patch), t.dtype()) : Tensor();
  };
  Tensor input = made(s.input), target = made(s.target), weight = made(s.weight);
  const Shape cells{patch.d, patch.h, patch.w};
  Tensor region = Tensor::empty(cells, DType::u8), valid = Tensor::empty(cells, DType::u8);
  const int64_t n_input = channels_of(s.input);
  const int64_t n_target = s.target.defined() ? channels_of(s.target) : 0;
  for (int64_t x = 0; x < patch.d; ++x)
    for (int64_t y = 0; y < patch.h; ++y) {
      line.at(map, x, y);
      const int64_t first = (x * patch.h + y) * patch.w;
      line.linear(s.input.data<float>(), input.data<float>() + first * n_input, n_input,
                  static_cast<float>(padding));
      if (target.defined() && target.dtype() == DType::u8)
        line.nearest(s.target.data<uint8_t>(), target.data<uint8_t>() + first * n_target, n_target);
      else if (target.defined())
        line.linear(s.target.data<float>(), target.data<float>() + first * n_target, n_target, 0);
      if (weight.defined())
        line.nearest(s.weight.data<float>(), weight.data<float>() + first, 1, 0);
      for (const auto& [from, to] : {std::pair(&s.region, &region), std::pair(&s.valid, &valid)}) {
        uint8_t* out = to->data<uint8_t>() + first;
        if (from->defined())
          line.nearest(std::as_const(*from).data<uint8_t>(), out, 1);
        else
          line.inside(out);
      }
    }
  s.input = std::move(input);
  s.target = std::move(target);
  s.weight = std::move(weight);
  s.region = std::move(region);
  s.valid = std::move(valid);
}

void check_sample(const Sample& s, const Geometry& g, const Dims3& margin) {
  BORA_CHECK(s.input.defined() && s.input.rank() == 4 && s.input.dtype() == DType::f32,
             "apply_geometry: input ", s.input.shape(), " ", s.input.dtype(),
             ", wanted (X, Y, Z, C) f32");
  BORA_CHECK(!s.target.defined() || s.target.dtype() == DType::u8 || s.target.dtype() == DType::f32,
             "apply_geometry: target ", s.target.dtype(), ", wanted u8 or f32");
  for (const Tensor* t : {&s.target, &s.region, &s.valid, &s.weight})
    BORA_CHECK(!t->defined() || (t->rank() >= 3 && cells_of(*t) == cells_of(s.input)),
               "apply_geometry: a part of the sample has shape ", t->shape(), ", input ",
               s.input.shape());
  const Dims3 box = cells_of(s.input);
  for (int a = 0; a < 3; ++a)
    BORA_CHECK(margin[a] >= 0 && box[a] > 2 * margin[a], "apply_geometry: a box of ", box,
               " cells has no patch inside a margin of ", margin);
  const Dims3 patch{box.d - 2 * margin.d, box.h - 2 * margin.h, box.w - 2 * margin.w};
  constexpr std::array<std::pair<int, int>, 3> planes{{{0, 1}, {0, 2}, {1, 2}}};
  for (size_t p = 0; p < 3; ++p)
    BORA_CHECK(g.quarter_turns[p] % 2 == 0 || patch[planes[p].first] == patch[planes[p].second],
               "apply_geometry: a quarter turn of case '", s.name,
               "' needs as many cells along both axes, the patch is ", patch);
}

Orientation orientation_of(const Geometry& g) {
  Orientation o;
  for (int axis = 0; axis < 3; ++axis)
    if (g.flip[static_cast<size_t>(axis)]) o = mirrored(o, axis);
  for (int turn = 0; turn < g.quarter_turns[0]; ++turn) o = turned(o, 0, 1);
  for (int turn = 0; turn < g.quarter_turns[1]; ++turn) o = turned(o, 0, 2);
  for (int turn = 0; turn < g.quarter_turns[2]; ++turn) o = turned(o, 1, 2);
  return o;
}

}  // namespace

void apply_geometry(Sample& sample, const Geometry& g, const Dims3& margin,
                    const TransformConfig& config, double padding) {
  check_sample(sample, g, margin);
  const Dims3 box = cells_of(sample.input);
  const Dims3 patch{box.d - 2 * margin.d, box.h - 2 * margin.h, box.w - 2 * margin.w};
  Dims3 begin = margin;  // of the patch in the tensors
  if (g.needs_resampling()) {
    resample(sample, g, patch, padding);
    begin = {};
  }
  const Orientation o = orientation_of(g);
  if (!(o == Orientation{}) || !(begin == Dims3{}))
    for (Tensor* t : {&sample.input, &sample.target, &sample.region, &sample.valid, &sample.weight})
      if (t->defined()) *t = orient(*t, o, begin, patch);
  if (sample.target.defined() && sample.target.dtype() == DType::u8)
    LabelSwap(config).apply(sample.target, g.flip);
  Window& w = sample.window;
  w.shape = patch;
  w.begin = {w.begin.d + margin.d, w.begin.h + margin.h, w.begin.w + margin.w};
  // Turned about the upright axis first, then mirrored and turned by quarters.
  sample.angle_deg =
      angle_after({g.flip[0], g.flip[1], g.quarter_turns[0]}, sample.angle_deg + g.rotation_deg[2]);
}

void apply_transforms(Sample& sample, const Geometry& geometry, const Dims3& margin,
                      const TransformConfig& config, const RngKey& key, double padding) {
  apply_geometry(sample, geometry, margin, config, padding);
  apply_intensity(sample, config, key);
}

}  // namespace bora::data
