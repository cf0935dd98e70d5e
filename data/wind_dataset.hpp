// SPDX-License-Identifier: Apache-2.0
// WindDataset: pairs of building mask and wind speed as samples.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/normalise.hpp"
#include "data/volume.hpp"
#include "data/volume_cache.hpp"
#include "data/wind_config.hpp"
#include "data/wind_files.hpp"

namespace bora::data {

/// Reads lazily: files are opened for one sample and closed, and only the cells of its window are
/// read; with use_cache() a file's kept levels are read once, as far as the cache has room.  Use:
///   WindDataset data(config, &ranks);                       // finds and checks the files
///   Split split = split_wind(data.cases(), split_config);
///   data.fit_normaliser(split.train, ranks);                // or load it from a checkpoint
///   Sample s = data.read(split.train[0], WindowChoice::random(key));
class WindDataset : public Dataset {
 public:
  /// See find_wind_files; `ranks` is used in here only.
  explicit WindDataset(WindConfig config, Collective* ranks = nullptr,
                       const PreflightHooks& hooks = {});
  /// Of cases that were opened one by one (prediction).
  WindDataset(WindConfig config, std::vector<WindCase> cases);

  int64_t size() const override { return static_cast<int64_t>(files_.cases.size()); }
  std::string name(int64_t index) const override { return at(index).name; }
  std::string where(int64_t index) const override;
  std::string group(int64_t index) const override { return at(index).group; }
  int64_t n_channels() const override { return config_.angle_channels ? 3 : 1; }
  /// A case without a wind file has a target of zeros (scaled as 0 m/s) and the region of its mask.
  /// Throws Error naming file and variable for: a file that has changed since the start, a mask
  /// with other values than the two, a missing value in an open cell (unless files.missing =
  /// mask), an infinite value; and for anything that NetcdfFile::read refuses.
  Sample read(int64_t index, const WindowChoice& choice) const override;

  /// From now on read() keeps what it has read as config().cache says, and takes it from there: the
  /// same bits.  For training; not while samples are read.  Collective over `ranks` (nullptr: this
  /// process alone); throws what VolumeCache::make does.
  void use_cache(Collective* ranks);
  /// nullptr without one.
  const VolumeCache* cache() const { return cache_.get(); }

  /// The same for any window of the case's grid, nothing varied.  With `per_sample` normalisation
  /// the scaling is that of the window.
  Sample read_window(int64_t index, const Window& window) const;
  /// The same as if the case had no wind file: the mask alone is read.
  Sample read_mask_window(int64_t index, const Window& window) const;

  const WindCase& at(int64_t index) const;
  const std::vector<WindCase>& cases() const { return files_.cases; }
  const WindConfig& config() const { return config_; }
  /// Cases that were left out, one line each.
  const std::vector<std::string>& problems() const { return files_.problems; }

  /// The case's wind speed in m/s on its whole grid, with coordinates.
  Volume read_wind(int64_t index) const;

  const Normaliser& normaliser() const { return normaliser_; }
  /// For state(): the checkpoint saves and loads it.  Not while samples are read.
  Normaliser& normaliser() { return normaliser_; }
  /// Global statistics over the open cells of the kept levels of `indices` (Normaliser::fit).
  /// A file that gives no answer ends it on all ranks within the bound, and is named.
  void fit_normaliser(const std::vector<int64_t>& indices, Collective& ranks,
                      const ReadBound& bound = {});
  /// Count, mean and spread of one case's open cells: all of x and y, the kept levels; clipped.
  Moments moments(int64_t index) const;

 private:
  enum class Wind { read, leave };
  enum class Field { mask, wind };
  Tensor read_block(const WindCase& c, int64_t index, Field field, const Window& window) const;
  Sample read_physical(int64_t index, const Window& window, Wind wind = Wind::read) const;
  Sample read_box(int64_t index, const Window& window, Wind wind) const;
  void read_wind_cells(const WindCase& c, int64_t index, const Window& window, Tensor& wind,
                       Tensor& open) const;

  WindConfig config_;
  WindFiles files_;
  Normaliser normaliser_;
  std::shared_ptr<VolumeCache> cache_;  ///< fields 2 i and 2 i + 1: mask and wind of case i
  /// Whether a case's clipping was reported; so each case warns once.
  std::unique_ptr<std::atomic<bool>[]> clip_told_;
};

class NetcdfLikeWriter;  // data/netcdf.hpp

/// For a predicted wind speed on the whole grid of the case, slabs (n, Y, Z) f32 in m/s, x
/// ascending; in the case's own format, as write_prediction says.
std::unique_ptr<NetcdfLikeWriter> prediction_writer(
    const std::string& path, const WindConfig& config, const WindCase& c,
    const std::vector<std::pair<std::string, std::string>>& attributes = {});

/// Writes a predicted wind speed (X, Y, Z) f32 in m/s, on the whole grid of the case, in the case's
/// own format: the dimensions, coordinates, chunks, compression and attributes of its wind file, or
/// of its mask where there is no wind file (units and long_name then say what it is).  `attributes`
/// (name, text) are added to the file's own.  NaN marks cells that were not predicted.
void write_prediction(const std::string& path, const WindConfig& config, const WindCase& c,
                      const Tensor& wind,
                      const std::vector<std::pair<std::string, std::string>>& attributes = {});

}  // namespace bora::data
