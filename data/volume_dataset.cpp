// SPDX-License-Identifier: Apache-2.0
#include "data/volume_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/error.hpp"
#include "core/log.hpp"
#include "data/preflight_work.hpp"
#include "data/transforms/transforms.hpp"
#include "data/volume_axes.hpp"
#include "data/volume_read.hpp"

namespace bora::data {
namespace {

// Indices of the numbers of a patch's key.
constexpr uint64_t kDrawForeground = 0, kDrawPlace = 1;

/// The three files of a case.
enum Part : size_t { kImage, kLabel, kWeight };
struct Field {
  const VolumeSource* source;
  const FileStamp* stamp;
  int64_t channels;
  DType type;
};
Field field_of(const VolumeCase& c, size_t part) {
  if (part == kImage) return {&c.image, &c.image_stamp, c.channels, c.image_type};
  if (part == kLabel) return {&c.label, &c.label_stamp, 1, c.label_type};
  return {&c.weight, &c.weight_stamp, 1, DType::f32};
}

/// The box of the file that a window of a case shows.
Box box_of(const VolumeCase& c, const Window& window) {
  const Dims3 first = window.first_in_grid();
  return {{c.box.begin.d + first.d, c.box.begin.h + first.h, c.box.begin.w + first.w},
          window.overlap()};
}

/// The block of window.overlap() with C values a cell, put into the window; the rest is 0.
Tensor in_window(const Tensor& block, const Window& w, int64_t channels) {
  if (!w.has_padding()) return block;
  // Channels are cells of a longer z axis.
  const auto longer = [channels](const Dims3& v) { return Dims3{v.d, v.h, v.w * channels}; };
  const Window wide{longer(w.grid), longer(w.shape), longer(w.begin)};
  const Dims3 n = wide.overlap();
  return pad_to_window(block.reshape({n.d, n.h, n.w}), wide, 0.0);
}

/// Cells without a value hold the padding's.
void fill_missing(Sample& s, const ChannelScalings& scale) {
  const auto channels = static_cast<int64_t>(scale.size());
  float* input = s.input.data<float>();
  const uint8_t* valid = s.valid.data<uint8_t>();
  for (int64_t i = 0; i < s.valid.numel(); ++i)
    if (valid[i] == 0)
      for (int64_t c = 0; c < channels; ++c)
        input[i * channels + c] = static_cast<float>(scale[static_cast<size_t>(c)].padding);
}

/// The first cell of a patch along an axis, where `centre` is to be in its middle; what is shorter
/// than the patch lies in the middle of it.
int64_t begin_of(int64_t grid, int64_t patch, int64_t centre) {
  if (grid <= patch) return -((patch - grid) / 2);
  return std::clamp<int64_t>(centre - patch / 2, 0, grid - patch);
}

}  // namespace

VolumeDataset::VolumeDataset(VolumesConfig config, Collective* ranks, const PreflightHooks& hooks)
    : VolumeDataset(config, find_volume_cases(config, ranks, hooks)) {
  make_cache(ranks);
}

VolumeDataset::VolumeDataset(VolumesConfig config, std::vector<VolumeCase> cases)
    : VolumeDataset(std::move(config), VolumeCases{std::move(cases), {}}) {}

VolumeDataset::VolumeDataset(VolumesConfig config, VolumeCases found)
    : config_(std::move(config)),
      found_(std::move(found)),
      labels_(config_),
      normaliser_(config_),
      foreground_(static_cast<int64_t>(found_.cases.size())),
      statistics_(static_cast<int64_t>(found_.cases.size())) {
  VolumesConfig checked = config_;
  if (checked.root.empty()) checked.root.assign(1, '.');  // single files need none
  check_volumes_config(checked);
  BORA_CHECK(!found_.cases.empty(), "VolumeDataset: no cases");
  for (const VolumeCase& c : found_.cases) has_weights_ = has_weights_ || !c.weight.path.empty();
}

const VolumeCase& VolumeDataset::at(int64_t index) const {
  BORA_CHECK(index >= 0 && index < size(), "case ", index, " of a data set of ", size());
  return found_.cases[static_cast<size_t>(index)];
}

std::string VolumeDataset::where(int64_t index) const {
  const VolumeCase& c = at(index);
  std::string files;
  for (const VolumeSource* source : {&c.image, &c.label, &c.weight})
    if (!source->path.empty()) files += (files.empty() ? "'" : ", '") + source->path + "'";
  return c.name + " (" + files + ")";
}

void VolumeDataset::make_cache(Collective* ranks) {
  std::vector<CachedField> fields;
  for (int64_t i = 0; i < size(); ++i)
    for (size_t part = 0; part < 3; ++part) {
      const Field f = field_of(at(i), part);
      fields_.push_back(fields.size());
      if (!f.source->path.empty())
        fields.push_back({f.source->path, *f.stamp, f.source->variable, at(i).box.begin,
                          at(i).box.count, f.channels, f.type, f.source->order});
    }
  cache_ = VolumeCache::make(config_.cache, std::move(fields), ranks);
}

Tensor VolumeDataset::field_box(int64_t index, size_t part, const Box& box) const {
  const Field f = field_of(at(index), part);
  const auto from_file = [&f](const Dims3& begin, const Dims3& count) {
    return read_field(*f.source, *f.stamp, {begin, count}, f.type);
  };
  if (!cache_) return from_file(box.begin, box.count);
  return cache_->read(fields_[3 * static_cast<size_t>(index) + part], box.begin, box.count,
                      from_file);
}

Tensor VolumeDataset::image_box(int64_t index, const Box& box) const {
  return checked_image(field_box(index, kImage, box), at(index).image, box, config_.missing);
}

Tensor VolumeDataset::class_box(int64_t index, const Box& box) const {
  return checked_classes(field_box(index, kLabel, box), at(index).label, box, labels_);
}

const std::vector<ChannelStatistics>& VolumeDataset::statistics(int64_t index) const {
  return statistics_.get(index, [&] {
    const VolumeCase& c = at(index);
    StatisticsOptions options{.nonzero = config_.normalise_cells == "nonzero",
                              .percentiles = {},
                              .name = label_of(c.image)};
    if (normaliser_.mode() == VolumeNorm::percentile) options.percentiles = config_.percentiles;
    return volume_statistics(
        c.box, c.channels, [&](const Box& box) { return image_box(index, box); }, options,
        kSlabValues);
  });
}

// Nobody watches the thread that fits, unlike those of the loader.
const std::vector<ChannelStatistics>& VolumeDataset::statistics_within(const ReadBound& bound,
                                                                       int64_t index) const {
  return statistics_.get(index, [&] {
    const VolumeCase& c = at(index);
    // A data set of its own, which a thread that hangs in its files may keep.
    const auto alone = std::make_shared<VolumeDataset>(config_, std::vector<VolumeCase>{c});
    alone->cache_ = cache_;
    if (cache_) {
      const auto first = fields_.begin() + 3 * index;
      alone->fields_.assign(first, first + 3);
    }
    const auto statistics = std::make_shared<std::vector<ChannelStatistics>>();
    detail::read_bounded(
        "statistics of", {c.name, {c.image.path}}, c.image_stamp.bytes,
        [alone, statistics] { *statistics = alone->statistics(0); }, bound);
    return *statistics;
  });
}

ChannelScalings VolumeDataset::scalings(int64_t index) const {
  const auto n = static_cast<size_t>(at(index).channels);
  const VolumeNorm mode = normaliser_.mode();
  BORA_CHECK(normaliser_.is_ready(),
             "normalisation: global statistics are asked for before they "
             "were fitted or loaded (case '",
             at(index).name, "')");
  const bool pads_minimum = config_.padding == "minimum";
  const std::vector<ChannelStatistics>* own =
      mode == VolumeNorm::zscore || mode == VolumeNorm::percentile || pads_minimum
          ? &statistics(index)
          : nullptr;
  ChannelScalings out(n);
  for (size_t c = 0; c < n; ++c) {
    const auto by_moments = [&](const Moments& moments) {
      const Scaling s = moments.scaling();
      out[c].shift = s.mean;
      out[c].scale = s.sigma;
    };
    if (mode == VolumeNorm::global) {
      BORA_CHECK(normaliser_.moments().size() == n, "normalisation: statistics of ",
                 normaliser_.moments().size(), " channels, case '", at(index).name, "' has ", n);
      by_moments(normaliser_.moments()[c]);
    } else if (mode == VolumeNorm::zscore) {
      by_moments((*own)[c].moments);
    } else if (mode == VolumeNorm::fixed) {
      const auto pick = [c](const std::vector<double>& v) { return v.at(v.size() == 1 ? 0 : c); };
      BORA_CHECK(config_.fixed_mean.size() == 1 || config_.fixed_mean.size() == n,
                 "volumes.fixed_mean has ", config_.fixed_mean.size(), " numbers, case '",
                 at(index).name, "' has ", n, " channels");
      out[c].shift = pick(config_.fixed_mean);
      out[c].scale = pick(config_.fixed_sigma);
    } else if (mode == VolumeNorm::percentile) {
      const ChannelStatistics& s = (*own)[c];
      out[c].low = s.low;
      out[c].high = s.high;
      if (config_.percentile_to == "zscore") {
        by_moments(s.clipped);
      } else {
        out[c].shift = s.low;
        out[c].scale = s.high > s.low ? s.high - s.low : 1;
      }
    }
    if (pads_minimum)
      out[c].padding = static_cast<double>(out[c].apply(static_cast<float>((*own)[c].minimum)));
  }
  return out;
}

const ForegroundCells& VolumeDataset::foreground(int64_t index) const {
  return foreground_.get(index, [&] {
    const VolumeCase& c = at(index);
    ForegroundCells cells(c.box, n_classes());
    if (!c.label.path.empty())
      each_slab(c.box, 1, [&](const Box& slab) { cells.add(class_box(index, slab)); });
    if (cells.count() > 0) return cells;
    const int left = n_to_tell_->fetch_sub(1);
    if (left > 0)
      log_warn("no labelled cell in '", c.label.path, "' (case '", c.name,
               "'): its patches are drawn anywhere",
               left == 1 ? "; further such cases are not named" : "");
    return cells;
  });
}

Window VolumeDataset::patch_window(int64_t index, const RngKey& key) const {
  const Dims3 grid = at(index).box.count;
  const Dims3 patch = window_shape(grid, config_.patch);
  const RngKey own{key.seed, rng_stream("patch", key.stream)};
  Dims3 begin;
  if (static_cast<double>(own.uniform(kDrawForeground)) < config_.foreground) {
    const RngKey cell_key{key.seed, rng_stream("patch centre", key.stream)};
    if (const auto cell = foreground(index).draw(cell_key, config_.foreground_by_class))
      return {grid,
              patch,
              {begin_of(grid.d, patch.d, cell->d), begin_of(grid.h, patch.h, cell->h),
               begin_of(grid.w, patch.w, cell->w)}};
  }
  const auto anywhere = [&](int axis) {
    const int64_t room = grid[axis] - patch[axis];
    if (room <= 0) return begin_of(grid[axis], patch[axis], 0);
    return static_cast<int64_t>(
        own.below(static_cast<uint64_t>(room) + 1, kDrawPlace + static_cast<uint64_t>(axis)));
  };
  return {grid, patch, {anywhere(0), anywhere(1), anywhere(2)}};
}

std::vector<int64_t> VolumeDataset::patches_of(const std::vector<int64_t>& indices) const {
  std::vector<int64_t> out;
  out.reserve(indices.size() * static_cast<size_t>(config_.patches_per_volume));
  for (const int64_t index : indices)
    out.insert(out.end(), static_cast<size_t>(config_.patches_per_volume), index);
  return out;
}

void VolumeDataset::read_image(int64_t index, const Box& box, Sample& s) const {
  const Tensor image = image_box(index, box);
  const ChannelScalings scale = scalings(index);
  const auto channels = static_cast<int64_t>(scale.size());
  Tensor scaled = Tensor::empty(image.shape(), DType::f32);
  Tensor there = Tensor::empty({box.count.d, box.count.h, box.count.w}, DType::u8);
  const float* in = image.data<float>();
  float* out = scaled.data<float>();
  uint8_t* has_value = there.data<uint8_t>();
  for (int64_t i = 0; i < there.numel(); ++i) {
    has_value[i] = 1;
    for (int64_t c = 0; c < channels; ++c) {
      const float x = in[i * channels + c];
      if (std::isnan(x)) has_value[i] = 0;
      out[i * channels + c] = scale[static_cast<size_t>(c)].apply(x);
    }
  }
  s.input = in_window(scaled, s.window, channels)
                .reshape(Shape{s.window.shape.d, s.window.shape.h, s.window.shape.w, channels});
  s.valid = in_window(there, s.window, 1);
  fill_missing(s, scale);
}

void VolumeDataset::read_label(int64_t index, const Box& box, Sample& s) const {
  const Tensor classes = in_window(class_box(index, box), s.window, 1);
  uint8_t* region = s.region.data<uint8_t>();
  uint8_t* target = s.target.data<uint8_t>();
  const uint8_t* c = classes.data<uint8_t>();
  for (int64_t i = 0; i < classes.numel(); ++i) {
    target[i] = c[i] == kIgnoredClass ? 0 : c[i];
    if (c[i] == kIgnoredClass) region[i] = 0;
  }
}

void VolumeDataset::read_weight(int64_t index, const Box& box, Sample& s) const {
  const VolumeCase& c = at(index);
  const Tensor weights = c.weight.path.empty()
                             ? Tensor::full({box.count.d, box.count.h, box.count.w}, 1, DType::f32)
                             : checked_weights(field_box(index, kWeight, box), c.weight, box);
  s.weight = in_window(weights, s.window, 1);
}

Sample VolumeDataset::read_parts(int64_t index, const Window& window, Parts parts) const {
  const VolumeCase& c = at(index);
  BORA_CHECK(window.grid == c.box.count, "case '", c.name, "': a window of a grid of ", window.grid,
             ", the case has ", c.box.count);
  BORA_CHECK(window.overlap().count() > 0, "case '", c.name, "': a window of ", window.shape,
             " cells that has none in the grid of ", window.grid);
  const Box box = box_of(c, window);
  Sample s;
  s.window = window;
  s.name = c.name;
  s.index = index;
  s.angle_deg = std::numeric_limits<double>::quiet_NaN();
  read_image(index, box, s);
  s.region = s.valid.clone();
  s.target = Tensor::zeros(s.valid.shape().append(1), DType::u8);
  if (parts == Parts::image) return s;
  if (!c.label.path.empty()) read_label(index, box, s);
  if (has_weights_) read_weight(index, box, s);
  return s;
}

Sample VolumeDataset::read(int64_t index, const WindowChoice& choice) const {
  const VolumeCase& c = at(index);
  if (!choice.is_random)
    return read_parts(index, centred_window(c.box.count, c.box.count), Parts::all);
  const Window patch = patch_window(index, choice.key);
  const Geometry geometry = draw_geometry(config_.transforms, choice.key, c.spacing);
  const Dims3 margin = margin_for(geometry, patch.shape);
  const auto wider = [&](const Dims3& v, int64_t sign) {
    return Dims3{v.d + sign * margin.d, v.h + sign * margin.h, v.w + sign * margin.w};
  };
  Sample s = read_parts(
      index, {patch.grid, wider(wider(patch.shape, 1), 1), wider(patch.begin, -1)}, Parts::all);
  apply_geometry(s, geometry, margin, config_.transforms, 0.0);
  fill_missing(s, scalings(index));
  apply_intensity(s, config_.transforms, choice.key);
  return s;
}

Sample VolumeDataset::read_window(int64_t index, const Window& window) const {
  return read_parts(index, window, Parts::all);
}

Sample VolumeDataset::read_image_window(int64_t index, const Window& window) const {
  return read_parts(index, window, Parts::image);
}

void VolumeDataset::fit_normaliser(const std::vector<int64_t>& indices, Collective& ranks,
                                   const ReadBound& bound) {
  normaliser_.fit(
      indices, n_channels(),
      [&](int64_t index) {
        std::vector<Moments> moments;
        for (const ChannelStatistics& s : statistics_within(bound, index))
          moments.push_back(s.moments);
        return moments;
      },
      ranks);
}

}  // namespace bora::data
