// SPDX-License-Identifier: Apache-2.0
// VolumeDataset: images with class labels, whole or in patches, as samples.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/foreground.hpp"
#include "data/label_map.hpp"
#include "data/per_case.hpp"
#include "data/volume_cache.hpp"
#include "data/volume_cases.hpp"
#include "data/volume_normalise.hpp"
#include "data/volume_statistics.hpp"
#include "data/volumes_config.hpp"

namespace bora::data {

/// Reads lazily: files are opened for one sample and closed; of a file only the cells of the patch
/// are read.  A case's grid is its box: windows count from the box's first cell.  Use:
///   VolumeDataset data(config, &ranks);                       // finds and checks the files
///   Split split = split_volumes(data.cases(), split_config);
///   data.fit_normaliser(split.train, ranks);                  // or load it from a checkpoint
///   Subset training(data, data.patches_of(split.train));
///   Sample s = training.read(0, WindowChoice::random(key));
///
/// A sample: input (X, Y, Z, C) f32, scaled; target (X, Y, Z, 1) u8, classes; region (X, Y, Z) u8,
/// 1 where a cell counts (0: padding, label `ignore`, missing image value); valid (X, Y, Z) u8, 1
/// where the file has a cell with a value; weight (X, Y, Z) f32 where the case has weights, 0 in
/// padding; target of zeros where it has no label.
class VolumeDataset : public Dataset {
 public:
  /// See find_volume_cases and VolumeCache::make; `ranks` and `hooks` are used in here only.
  explicit VolumeDataset(VolumesConfig config, Collective* ranks = nullptr,
                         const PreflightHooks& hooks = {});
  /// Of cases that were opened one by one (prediction); nothing is cached.
  VolumeDataset(VolumesConfig config, std::vector<VolumeCase> cases);

  int64_t size() const override { return static_cast<int64_t>(found_.cases.size()); }
  std::string name(int64_t index) const override { return at(index).name; }
  std::string where(int64_t index) const override;
  std::string group(int64_t index) const override { return at(index).group; }
  int64_t n_channels() const override { return at(0).channels; }
  int64_t n_classes() const { return static_cast<int64_t>(config_.classes.size()); }

  /// random: a patch drawn by the key; a pure function of (case, key).  centred: the whole box as
  /// it is.  Throws Error naming file and cell for a label without a class, a NaN (unless missing =
  /// mask) or an infinite value in the image, a weight that is negative or not finite; naming the
  /// file for one that has changed since the start, and for all that VolumeFile::read refuses.
  Sample read(int64_t index, const WindowChoice& choice) const override;
  /// Any window of the case's box, nothing varied.
  Sample read_window(int64_t index, const Window& window) const;
  /// The same as if the case had neither label nor weight: the image alone is read.
  Sample read_image_window(int64_t index, const Window& window) const;

  /// The window that read(index, WindowChoice::random(key)) takes.
  Window patch_window(int64_t index, const RngKey& key) const;
  /// `indices`, each config.patches_per_volume times: for a Subset to train on.
  std::vector<int64_t> patches_of(const std::vector<int64_t>& indices) const;

  const VolumeCase& at(int64_t index) const;
  const std::vector<VolumeCase>& cases() const { return found_.cases; }
  const VolumesConfig& config() const { return config_; }
  const LabelMap& labels() const { return labels_; }
  /// nullptr: config.cache.kind = none.
  const VolumeCache* cache() const { return cache_.get(); }
  /// Cases that were left out, one line each.
  const std::vector<std::string>& problems() const { return found_.problems; }

  const VolumeNormaliser& normaliser() const { return normaliser_; }
  /// For state(): the checkpoint saves and loads it.  Not while samples are read.
  VolumeNormaliser& normaliser() { return normaliser_; }
  /// Global statistics of `indices`, the same on all ranks; nothing in the other modes.  A file
  /// that gives no answer ends it on all ranks within the bound, and is named.
  void fit_normaliser(const std::vector<int64_t>& indices, Collective& ranks,
                      const ReadBound& bound = {});
  /// How the case's image is scaled, one entry a channel: a function of the case's box, not of a
  /// patch.  Reads the whole box once where its
  /// statistics are needed.
  ChannelScalings scalings(int64_t index) const;

 private:
  enum class Parts { all, image };
  VolumeDataset(VolumesConfig config, VolumeCases found);
  void make_cache(Collective* ranks);
  Tensor field_box(int64_t index, size_t part, const Box& box) const;
  Sample read_parts(int64_t index, const Window& window, Parts parts) const;
  void read_image(int64_t index, const Box& box, Sample& sample) const;
  void read_label(int64_t index, const Box& box, Sample& sample) const;
  void read_weight(int64_t index, const Box& box, Sample& sample) const;
  Tensor image_box(int64_t index, const Box& box) const;
  Tensor class_box(int64_t index, const Box& box) const;
  const std::vector<ChannelStatistics>& statistics(int64_t index) const;
  const std::vector<ChannelStatistics>& statistics_within(const ReadBound& bound,
                                                          int64_t index) const;
  const ForegroundCells& foreground(int64_t index) const;

  VolumesConfig config_;
  VolumeCases found_;
  LabelMap labels_;
  VolumeNormaliser normaliser_;
  bool has_weights_ = false;
  // Cases without labelled cells that this rank still names: only who draws from one knows of it.
  std::shared_ptr<std::atomic<int>> n_to_tell_ = std::make_shared<std::atomic<int>>(3);
  std::shared_ptr<VolumeCache> cache_;
  std::vector<size_t> fields_;  // of case i: the cached field of its image, label, weight at 3 i
  PerCase<ForegroundCells> foreground_;
  PerCase<std::vector<ChannelStatistics>> statistics_;
};

}  // namespace bora::data
