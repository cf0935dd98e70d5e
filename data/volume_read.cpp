// SPDX-License-Identifier: Apache-2.0
#include "data/volume_read.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "data/beyond_range.hpp"
#include "data/volume_axes.hpp"
#include "data/volume_file.hpp"

namespace bora::data {
namespace {

/// "cell (x, y, z)" of the file's grid for cell i of a box.
std::string cell_of(int64_t i, const Box& box) {
  const Dims3& n = box.count;
  return bora::detail::join("cell (", box.begin.d + i / (n.h * n.w), ", ",
                            box.begin.h + i / n.w % n.h, ", ", box.begin.w + i % n.w, ")");
}

/// Value i of a box (X, Y, Z, C) as f64, read anew: f32 is infinite beyond its range.
double value_again(const VolumeSource& source, const Box& box, int64_t i, int64_t channels) {
  const Dims3& n = box.count;
  const int64_t cell = i / channels;
  const Dims3 at{box.begin.d + cell / (n.h * n.w), box.begin.h + cell / n.w % n.h,
                 box.begin.w + cell % n.w};
  return open_volume(source)->read(at, {1, 1, 1}, DType::f64).data<double>()[i % channels];
}

/// Throws Error for value i, infinite as f32.
[[noreturn]] void refuse_infinite(const VolumeSource& source, const Box& box, int64_t i,
                                  int64_t channels) {
  const double value = value_again(source, box, i, channels);
  BORA_CHECK(!is_beyond_f32(value), label_of(source), ": the value at ", cell_of(i / channels, box),
             " is ", value, ", ", kBeyondF32);
  BORA_FAIL(label_of(source), ": infinite value at ", cell_of(i / channels, box),
            open_volume(source)->info().is_scaled ? ", as scaled by the file's own factor" : "");
}

template <class T>
Tensor classes_of(const Tensor& values, const VolumeSource& source, const Box& box,
                  const LabelMap& labels) {
  Tensor out = Tensor::empty(Shape{box.count.d, box.count.h, box.count.w}, DType::u8);
  const T* in = values.data<T>();
  uint8_t* to = out.data<uint8_t>();
  int64_t n_bad = 0, first_bad = 0;
  for (int64_t i = 0; i < out.numel(); ++i) {
    const int c = labels.class_of(in[i]);
    if (c == LabelMap::kNone && n_bad++ == 0) first_bad = i;
    to[i] = c < 0 ? kIgnoredClass : static_cast<uint8_t>(c);
  }
  BORA_CHECK(n_bad == 0, label_of(source), ": ", n_bad, " of ", out.numel(),
             " labels have no class, the first is ", static_cast<int64_t>(in[first_bad]), " at ",
             cell_of(first_bad, box), "; there are classes for ", labels.wanted(),
             " (volumes.classes, volumes.label_map)");
  return out;
}

}  // namespace

Tensor read_field(const VolumeSource& source, const FileStamp& stamp, const Box& box, DType type) {
  require_unchanged(source.path, stamp);
  return open_volume(source)->read(box.begin, box.count, type);
}

Tensor checked_image(const Tensor& values, const VolumeSource& source, const Box& box,
                     const std::string& missing) {
  if (!is_float(values.dtype())) return values.to(DType::f32);
  Tensor image = values.to(DType::f32);
  const float* v = image.data<float>();
  const int64_t channels = image.size(3);
  int64_t n_missing = 0, first_missing = 0;
  for (int64_t i = 0; i < image.numel(); ++i) {
    if (std::isfinite(v[i])) continue;
    if (!std::isnan(v[i])) refuse_infinite(source, box, i, channels);
    if (n_missing++ == 0) first_missing = i;
  }
  BORA_CHECK(n_missing == 0 || missing == "mask", label_of(source), ": ", n_missing, " of ",
             image.numel(), " values are missing (NaN), the first at ",
             cell_of(first_missing / channels, box),
             "; volumes.missing = \"mask\" leaves such cells out of the region");
  return image;
}

Tensor checked_classes(const Tensor& values, const VolumeSource& source, const Box& box,
                       const LabelMap& labels) {
  BORA_CHECK(values.numel() == box.count.count(), label_of(source), ": labels of shape ",
             values.shape(), " for a box of ", box.count, " cells");
  return values.dtype() == DType::u8 ? classes_of<uint8_t>(values, source, box, labels)
                                     : classes_of<int32_t>(values, source, box, labels);
}

Tensor checked_weights(const Tensor& values, const VolumeSource& source, const Box& box) {
  BORA_CHECK(values.numel() == box.count.count() && values.dtype() == DType::f32, label_of(source),
             ": weights of shape ", values.shape(), " ", values.dtype(), " for a box of ",
             box.count, " cells");
  const float* v = values.data<float>();
  for (int64_t i = 0; i < values.numel(); ++i) {
    if (std::isinf(v[i])) {
      const double value = value_again(source, box, i, 1);
      BORA_CHECK(!is_beyond_f32(value), label_of(source), ": the weight at ", cell_of(i, box),
                 " is ", value, ", ", kBeyondF32);
    }
    BORA_CHECK(std::isfinite(v[i]) && v[i] >= 0, label_of(source), ": the weight at ",
               cell_of(i, box), " is ", v[i], ", wanted a number of at least 0");
  }
  return values.reshape({box.count.d, box.count.h, box.count.w});
}

void each_slab(const Box& box, int64_t channels, const std::function<void(const Box&)>& use,
               int64_t most_values) {
  const int64_t layer = std::max<int64_t>(1, box.count.h * box.count.w * channels);
  const int64_t thick =
      std::clamp<int64_t>(most_values / layer, 1, std::max<int64_t>(1, box.count.d));
  for (int64_t x = 0; x < box.count.d; x += thick)
    use({{box.begin.d + x, box.begin.h, box.begin.w},
         {std::min(thick, box.count.d - x), box.count.h, box.count.w}});
}

}  // namespace bora::data
