// SPDX-License-Identifier: Apache-2.0
#include "data/wind_dataset.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.hpp"
#include "core/log.hpp"
#include "data/netcdf.hpp"
#include "data/preflight_work.hpp"
#include "data/volume_axes.hpp"
#include "data/wind_cells.hpp"

namespace bora::data {

namespace {

/// Opens, reads a block, closes; all under the lock.
Tensor read_from_file(const WindFilesConfig& files, const std::string& path, const FileStamp& stamp,
                      const std::string& variable, const std::vector<Range>& block) {
  hdf5::Lock lock;
  require_unchanged(path, stamp);
  return open_wind_file(files, path).read(variable, files.axes, block);
}

}  // namespace

void check_wind_config(const WindConfig& config) {
  const auto refuse = [](const auto&... parts) { throw UsageError(bora::detail::join(parts...)); };
  const WindFilesConfig& f = config.files;
  if (config.root.empty()) refuse("data.root is not set: wanted the folder of the data set");
  if (f.axes.size() != 3)
    refuse("data.files.axes has ", f.axes.size(), " names, wanted 3 (x, y, z)");
  with_context("data.files.order", [&] { axes_from_order(f.order, f.order.size() == 3 ? 3 : 4); });
  if (f.mask_building == f.mask_open)
    refuse("data.files.mask_building and data.files.mask_open are equal, ", f.mask_open,
           ": wanted the two values of the masks");
  const auto check_pair = [&](const char* key, const std::vector<double>& v) {
    if (v.empty() || (v.size() == 2 && v[0] < v[1])) return;
    refuse(key, " wants two numbers, the lower first, or none; it has ", v.size(),
           v.size() == 2 ? bora::detail::join(": ", v[0], ", ", v[1]) : std::string());
  };
  check_pair("data.clip", config.clip);
  check_pair("data.files.range", f.range);
  if (config.angle_channels && f.angle_patterns.empty())
    refuse("data.angle_channels needs data.files.angle_patterns, which is empty");
  norm_mode_from(config.normalisation);
  const AugmentConfig& a = config.augment;
  if (config.wind_direction == "fixed" && (a.flip_x || a.quarter_turns))
    refuse("data.augment.", a.flip_x ? "flip_x" : "quarter_turns",
           " would make the labels false: data.wind_direction = fixed says that the wind blows "
           "along +x "
           "in every file, so only flip_y gives another valid case");
  if (config.wind_direction == "angle" && !config.angle_channels &&
      (a.flip_x || a.flip_y || a.quarter_turns))
    refuse(
        "data.augment would make the labels false: the wind blows towards the angle in the name, "
        "which "
        "the network is not told; set data.angle_channels = true or switch data.augment off");
  if (a.quarter_turns && config.shape.d != config.shape.h)
    refuse("data.augment.quarter_turns wants a square window, data.shape is ", config.shape.d,
           " x ", config.shape.h);
}

WindDataset::WindDataset(WindConfig config, Collective* ranks, const PreflightHooks& hooks)
    : config_(std::move(config)),
      files_(find_wind_files(config_, ranks, hooks)),
      normaliser_(norm_mode_from(config_.normalisation)),
      clip_told_(new std::atomic<bool>[files_.cases.size()]()) {}

WindDataset::WindDataset(WindConfig config, std::vector<WindCase> cases)
    : config_(std::move(config)),
      files_{std::move(cases), {}},
      normaliser_(norm_mode_from(config_.normalisation)),
      clip_told_(new std::atomic<bool>[files_.cases.size()]()) {
  WindConfig checked = config_;
  if (checked.root.empty()) checked.root.assign(1, '.');  // single files need none
  check_wind_config(checked);
  BORA_CHECK(!files_.cases.empty(), "WindDataset: no cases");
}

const WindCase& WindDataset::at(int64_t index) const {
  BORA_CHECK(index >= 0 && index < size(), "case ", index, " of a data set of ", size());
  return files_.cases[static_cast<size_t>(index)];
}

void WindDataset::use_cache(Collective* ranks) {
  const WindFilesConfig& f = config_.files;
  std::string axes;
  for (const std::string& axis : f.axes) axes += axis + " ";
  std::vector<CachedField> fields;
  for (const WindCase& c : files_.cases) {
    const int64_t levels = config_.shape.w == 0 ? c.grid.w : std::min(c.grid.w, config_.shape.w);
    CachedField field{.path = c.mask_path,
                      .stamp = c.mask_stamp,
                      .variable = f.mask_variable,
                      .begin = {0, 0, 0},
                      .count = {c.grid.d, c.grid.h, levels},
                      .reading = axes};
    fields.push_back(field);
    field.path = c.wind_path;
    field.stamp = c.wind_stamp;
    field.variable = f.wind_variable;
    if (c.wind_path.empty()) field.count = {0, 0, 0};
    fields.push_back(field);
  }
  cache_ = VolumeCache::make(config_.cache, std::move(fields), ranks);
}

Tensor WindDataset::read_block(const WindCase& c, int64_t index, Field field,
                               const Window& window) const {
  const WindFilesConfig& f = config_.files;
  const bool wind = field == Field::wind;
  const auto from_file = [&](const Dims3& begin, const Dims3& n) {
    return read_from_file(f, wind ? c.wind_path : c.mask_path, wind ? c.wind_stamp : c.mask_stamp,
                          wind ? f.wind_variable : f.mask_variable,
                          {{begin.d, n.d}, {begin.h, n.h}, {begin.w, n.w}});
  };
  const Dims3 begin = window.first_in_grid(), count = window.overlap();
  if (!cache_) return from_file(begin, count);
  return cache_->read(2 * static_cast<size_t>(index) + (wind ? 1 : 0), begin, count, from_file);
}

std::string WindDataset::where(int64_t index) const {
  const WindCase& c = at(index);
  return c.name + " ('" + c.mask_path + (c.wind_path.empty() ? "" : "', '" + c.wind_path) + "')";
}

/// Wind in m/s (missing values in buildings become 0) and, in `open`, what remains to be counted:
/// 1 open and valid, 0 building, 2 open without a value.
void WindDataset::read_wind_cells(const WindCase& c, int64_t index, const Window& window,
                                  Tensor& wind, Tensor& open) const {
  wind = read_block(c, index, Field::wind, window);
  const int64_t n_clipped = settle_wind(wind, open, config_, c.wind_path, window);
  if (n_clipped > 0 && !clip_told_[static_cast<size_t>(index)].exchange(true))
    log_warn("clip [", config_.clip[0], ", ", config_.clip[1], "] m/s cut ", n_clipped, " of ",
             wind.numel(), " values of '", c.wind_path, "'");
}

Sample WindDataset::read_physical(int64_t index, const Window& window, Wind which) const {
  const WindCase& c = at(index);
  const Tensor mask = read_block(c, index, Field::mask, window);
  Tensor open = open_cells(mask, config_.files, c.mask_path, window);
  Tensor wind;
  if (c.wind_path.empty() || which == Wind::leave)
    wind = Tensor::zeros(mask.shape(), DType::f32);
  else
    read_wind_cells(c, index, window, wind, open);

  Sample s;
  s.window = window;
  s.name = c.name;
  s.angle_deg = c.angle_deg;
  s.index = index;
  const Shape box{window.shape.d, window.shape.h, window.shape.w};
  s.target = pad_to_window(wind, window, 0.0).reshape(box.append(1));
  // 3 = padding: neither open nor valid.
  const Tensor cells = pad_to_window(open, window, 3.0);
  s.region = Tensor::empty(box, DType::u8);
  s.valid = Tensor::empty(box, DType::u8);
  s.input = Tensor::empty(box.append(n_channels()), DType::f32);
  const uint8_t* o = cells.data<uint8_t>();
  uint8_t* region = s.region.data<uint8_t>();
  uint8_t* valid = s.valid.data<uint8_t>();
  float* input = s.input.data<float>();
  for (int64_t i = 0; i < cells.numel(); ++i) {
    region[i] = o[i] == 1;
    valid[i] = o[i] <= 1;
    input[i * n_channels()] = o[i] == 1 || o[i] == 2 ? 1.0f : -1.0f;
  }
  if (n_channels() == 3) set_angle_channels(s.input, s.angle_deg);
  return s;
}

Sample WindDataset::read(int64_t index, const WindowChoice& choice) const {
  const WindCase& c = at(index);
  Sample s =
      read_physical(index, choice.is_random ? random_window(c.grid, config_.shape, choice.key)
                                            : centred_window(c.grid, config_.shape));
  normaliser_.apply(s);
  if (choice.is_random) {
    vary(s, draw_variation(config_.augment, choice.key));
    add_input_noise(s, config_.augment, choice.key);
  }
  return s;
}

Sample WindDataset::read_window(int64_t index, const Window& window) const {
  return read_box(index, window, Wind::read);
}

Sample WindDataset::read_mask_window(int64_t index, const Window& window) const {
  return read_box(index, window, Wind::leave);
}

Sample WindDataset::read_box(int64_t index, const Window& window, Wind wind) const {
  BORA_CHECK(window.grid == at(index).grid, "case '", at(index).name, "': a window of a grid of ",
             window.grid, ", the case has ", at(index).grid);
  const Dims3 overlap = window.overlap();
  BORA_CHECK(overlap.count() > 0, "case '", at(index).name, "': a window of ", window.shape,
             " cells that has none in the grid of ", window.grid);
  Sample s = read_physical(index, window, wind);
  normaliser_.apply(s);
  return s;
}

Moments WindDataset::moments(int64_t index) const {
  const WindCase& c = at(index);
  BORA_CHECK(!c.wind_path.empty(), "case '", c.name, "' has no wind file to take statistics from");
  if (c.moments) return *c.moments;  // of the pre-flight
  const Sample s = read_physical(index, kept_window(config_, c.grid));
  return Moments::of(s.target.data<float>(), s.region.data<uint8_t>(), s.region.numel());
}

void WindDataset::fit_normaliser(const std::vector<int64_t>& indices, Collective& ranks,
                                 const ReadBound& bound) {
  if (normaliser_.mode() != NormMode::global) return;
  // A data set of its own, which a thread that hangs in its files may keep: nobody watches the one
  // that fits, unlike those of the pre-flight and the loader.
  const auto alone = std::make_shared<WindDataset>(config_, files_.cases);
  alone->cache_ = cache_;
  const auto bounded = [&](int64_t index) {
    const WindCase& c = at(index);
    if (c.moments || c.wind_path.empty()) return moments(index);
    const auto moments = std::make_shared<Moments>();
    detail::read_bounded(
        "statistics of", {c.name, {c.mask_path, c.wind_path}},
        c.mask_stamp.bytes + c.wind_stamp.bytes,
        [alone, moments, index] { *moments = alone->moments(index); }, bound);
    return *moments;
  };
  normaliser_.fit(indices, bounded, ranks);
}

Volume WindDataset::read_wind(int64_t index) const {
  const WindCase& c = at(index);
  BORA_CHECK(!c.wind_path.empty(), "case '", c.name, "' has no wind file");
  hdf5::Lock lock;
  return open_wind_file(config_.files, c.wind_path)
      .read_volume(config_.files.wind_variable, config_.files.axes);
}

std::unique_ptr<NetcdfLikeWriter> prediction_writer(
    const std::string& path, const WindConfig& config, const WindCase& c,
    const std::vector<std::pair<std::string, std::string>>& attributes) {
  NetcdfLike like{.file = c.mask_path,
                  .variable = config.files.mask_variable,
                  .axes = config.files.axes,
                  .unnamed = unnamed_wind_axes(config.files),
                  .name = config.files.wind_variable,
                  .attributes = attributes,
                  .variable_attributes = {{"units", "m s-1"},
                                          {"long_name", "predicted wind speed, 0 in buildings"}}};
  if (!c.wind_path.empty()) {
    like.file = c.wind_path;
    like.variable = config.files.wind_variable;
    like.variable_attributes.clear();
  }
  return std::make_unique<NetcdfLikeWriter>(path, like);
}

void write_prediction(const std::string& path, const WindConfig& config, const WindCase& c,
                      const Tensor& wind,
                      const std::vector<std::pair<std::string, std::string>>& attributes) {
  BORA_CHECK(wind.defined() && wind.shape() == Shape({c.grid.d, c.grid.h, c.grid.w}), "writing '",
             path, "': prediction of shape ", wind.shape(), ", case '", c.name, "' has a grid of ",
             c.grid);
  const auto out = prediction_writer(path, config, c, attributes);
  out->write(wind);
  out->close();
}

}  // namespace bora::data
