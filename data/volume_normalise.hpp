// SPDX-License-Identifier: Apache-2.0
// VolumeNormaliser: how the image of a volume is scaled before a network sees it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "core/collective.hpp"
#include "core/state.hpp"
#include "data/normalise.hpp"
#include "data/volumes_config.hpp"

namespace bora::data {

/// Of one channel: scaled = (clip(x, low, high) - shift) / scale, in f64, rounded to f32.
struct ChannelScaling {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  double shift = 0;
  double scale = 1;
  double padding = 0;  ///< scaled value of cells beyond the volume

  float apply(float x) const;
};
using ChannelScalings = std::vector<ChannelScaling>;

enum class VolumeNorm { none, global, zscore, percentile, fixed };

/// What is learnt from the training cases; part of the checkpoint.  The scaling of each case is
/// VolumeDataset::scalings.
class VolumeNormaliser {
 public:
  explicit VolumeNormaliser(const VolumesConfig& config);

  VolumeNorm mode() const { return mode_; }
  /// True once images can be scaled: always, but for global only after fit() or loading.
  bool is_ready() const { return mode_ != VolumeNorm::global || !moments_.empty(); }
  /// One entry a channel; empty but for global.
  const std::vector<Moments>& moments() const { return moments_; }

  /// Global statistics over the cases `indices`; `moments_of(index)` reads one, an entry a channel.
  /// Rank r of W reads every W-th case; all are merged in the order of `indices`, so every rank,
  /// and every number of ranks, gets the same bits.  A failure on one rank throws on all.  Does
  /// nothing in the other modes.  Throws Error if no cell counts.
  void fit(const std::vector<int64_t>& indices, int64_t channels,
           const std::function<std::vector<Moments>(int64_t)>& moments_of, Collective& ranks);

  /// Mode and moments; a loader refuses another mode.
  void state(StateVisitor& visitor);

 private:
  std::string name_;
  VolumeNorm mode_;
  std::string cells_;
  std::vector<Moments> moments_;
};

}  // namespace bora::data
