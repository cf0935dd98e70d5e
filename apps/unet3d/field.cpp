// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/field.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/precision.hpp"
#include "core/tape.hpp"
#include "data/augment.hpp"

namespace bora::unet3d {
namespace {

/// A sample that is its input alone, so that what training does to samples can be done to it.
data::Sample sample_of(const Tensor& input, double angle_deg) {
  data::Sample s;
  s.input = input;
  s.target = s.region = s.valid = Tensor::zeros({input.size(0), input.size(1), 1}, DType::u8);
  s.angle_deg = angle_deg;
  return s;
}

/// (X, Y, Z, C) mirrored.
Tensor mirrored(const Tensor& input, double angle_deg, const Flips& flips) {
  data::Sample s = sample_of(input, angle_deg);
  data::vary(s, {.flip_x = flips.x, .flip_y = flips.y});
  return s.input;
}

/// (X, Y, Z, K) mirrored back.
Tensor mirrored_back(const Tensor& output, const Flips& flips) {
  Tensor out = Tensor::empty(output.shape(), DType::f32);
  const int64_t nx = output.size(0), ny = output.size(1), row = output.size(2) * output.size(3);
  for (int64_t x = 0; x < nx; ++x)
    for (int64_t y = 0; y < ny; ++y)
      std::memcpy(out.data<float>() + (x * ny + y) * row,
                  output.data<float>() +
                      ((flips.x ? nx - 1 - x : x) * ny + (flips.y ? ny - 1 - y : y)) * row,
                  static_cast<size_t>(row) * sizeof(float));
  return out;
}

/// a = (a + b) / 2.
void average(Tensor& a, const Tensor& b) {
  float* to = a.data<float>();
  const float* from = b.data<float>();
  for (int64_t i = 0; i < a.numel(); ++i) to[i] = 0.5f * (to[i] + from[i]);
}

/// Reads the mask for all windows that begin at one x.
class SlabReader {
 public:
  explicit SlabReader(const FieldJob& job) : job_(job) {
    const WindowLayout& l = job.plan.layout;
    first_ = {0, l.begins[1].front(), l.begins[2].front()};
    extents_ = {l.window.d, std::max(l.volume.h, l.window.h), std::max(l.volume.w, l.window.w)};
  }

  /// (X, Y, Z, C) of a window of the area.
  Tensor read(const data::Window& window) {
    if (!sample_.input.defined() || window.begin.d != first_.d) {
      first_.d = window.begin.d;
      sample_ = {};  // before the next one takes as much
      const Dims3& origin = job_.plan.area.begin;
      sample_ = job_.cases->read_mask_window(
          job_.index, {job_.plan.area.grid,
                       extents_,
                       {first_.d + origin.d, first_.h + origin.h, first_.w + origin.w}});
    }
    return cut_window(sample_.input, first_, window);
  }
  double angle_deg() const { return sample_.angle_deg; }

  /// Sets 0 where there are buildings: whatever the network says, there is no wind inside.
  void calm_buildings(int64_t first, Tensor& slab) const {
    const int64_t channels = sample_.input.size(3);
    const float* mask = sample_.input.data<float>();
    float* v = slab.data<float>();
    for (int64_t x = 0; x < slab.size(0); ++x)
      for (int64_t y = 0; y < slab.size(1); ++y)
        for (int64_t z = 0; z < slab.size(2); ++z, ++v) {
          const int64_t row = (x + first - first_.d) * extents_.h + y - first_.h;
          if (mask[(row * extents_.w + z - first_.w) * channels] < 0) *v = 0.0f;
        }
  }

 private:
  const FieldJob& job_;
  Dims3 first_, extents_;
  data::Sample sample_;
};

void check_finite(const FieldJob& job, int64_t first, const Tensor& slab) {
  const float* v = slab.data<float>();
  for (int64_t i = 0; i < slab.numel(); ++i) {
    if (std::isfinite(v[i])) continue;
    const Dims3& origin = job.plan.area.begin;
    const int64_t y = i / slab.size(2) % slab.size(1), x = i / slab.size(2) / slab.size(1);
    BORA_FAIL("'", job.cases->at(job.index).mask_path, "': the network's prediction is ", v[i],
              " at cell (", origin.d + first + x, ", ", origin.h + y, ", ",
              origin.w + i % slab.size(2), ")",
              job.mode.compute == DType::f32
                  ? "; are the network's weights sound?"
                  : "; --precision=fp32 has a larger range than half precision");
  }
}

}  // namespace

Tensor predict_window(TrainedModel& trained, const Tensor& input, double angle_deg,
                      const FieldMode& mode) {
  BORA_CHECK(input.defined() && input.rank() == 4, "predict_window: input ", input.shape(),
             ", wanted (X, Y, Z, C)");
  const NoGrad no_grad;
  const PrecisionScope precision(mode.compute);
  trained.model->set_training(false);
  const Shape s = input.shape();
  const auto forward = [&](const Flips& flips) {
    const Tensor seen = flips == Flips{} ? input : mirrored(input, angle_deg, flips);
    const Tensor x = seen.reshape({1, s[0], s[1], s[2], s[3]}).to(trained.arena->device());
    const Tensor y = trained.model->forward(x).to(cpu()).to(DType::f32);
    return mirrored_back(y.reshape({s[0], s[1], s[2], y.size(4)}), flips);
  };
  Tensor out = forward({});
  if (mode.flips.x) average(out, forward({.x = true}));
  if (!mode.flips.y) return out;
  Tensor other = forward({.y = true});
  if (mode.flips.x) average(other, forward({.x = true, .y = true}));
  average(out, other);
  return out;
}

void predict_field(TrainedModel& trained, const FieldJob& job) {
  BORA_CHECK(job.cases != nullptr && job.take, "predict_field: a job without cases or `take`");
  SlabReader reader(job);
  slide(job.plan.layout,
        {.read = [&](const data::Window& window) { return reader.read(window); },
         .predict =
             [&](const Tensor& input) {
               Tensor out = predict_window(trained, input, reader.angle_deg(), job.mode);
               job.after_window();
               return out;
             },
         .take =
             [&](int64_t first, Tensor& planes) {
               Tensor slab = planes.reshape({planes.size(0), planes.size(1), planes.size(2)});
               data::denormalise(slab, job.scaling);
               reader.calm_buildings(first, slab);
               check_finite(job, first, slab);
               job.take(first, slab);
             }});
}

Tensor predict_whole_field(TrainedModel& trained, FieldJob job) {
  const Dims3& n = job.plan.area.shape;
  Tensor field = Tensor::empty({n.d, n.h, n.w}, DType::f32);
  job.take = [&](int64_t first, const Tensor& slab) {
    std::memcpy(field.data<float>() + first * n.h * n.w, slab.raw(),
                static_cast<size_t>(slab.bytes()));
  };
  predict_field(trained, job);
  return field;
}

}  // namespace bora::unet3d
