// SPDX-License-Identifier: Apache-2.0
// SegmentationCases: volumes with labels, their split, and the scaling of their images.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/collective.hpp"
#include "core/state.hpp"
#include "data/split.hpp"
#include "data/volume_dataset.hpp"

namespace bora::unet3d {

class SegmentationCases {
 public:
  /// Opens and checks the files and splits them, together with the other ranks.  Samples can be
  /// read when the normalisation is there: `normaliser` (of a checkpoint), by fit(), or by state().
  /// Leaves with an Error of apps::leave_if_told() when told to stop meanwhile.
  SegmentationCases(const data::VolumesConfig& volumes, const data::SplitConfig& split,
                    Collective& ranks, const data::VolumeNormaliser* normaliser = nullptr);
  /// Fits the normalisation on the training part where it is global.  Collective.
  void fit(Collective& ranks);

  const data::VolumeDataset& all() const { return *dataset_; }
  /// Patches: each training case volumes.patches_per_volume times.
  const data::Dataset& training() const { return *training_; }
  /// Whole cases.
  const data::Dataset& validation() const { return *validation_; }
  /// Indices among all() of "training", "validation", "test" or "all", whole cases; throws
  /// UsageError for another name.
  std::vector<int64_t> part(const std::string& name) const { return data::part_of(split_, name); }
  /// The names of those cases.
  std::vector<std::string> names(const std::string& part) const;
  /// Chances of the patches, of a manifest's column sample_weight; none where all are 1.
  std::vector<double> training_weights() const;
  /// Throws Error naming the first case of which a patch has an extent below `extent`, what a
  /// network of `levels` levels needs.
  void require_extents(int64_t extent, int64_t levels) const;
  /// Of a patch of the largest case.
  Dims3 largest_patch() const;
  /// Throws UsageError where patches of the training cases differ in extents, which one batch
  /// cannot hold.
  void require_one_shape() const;
  /// Where more than half of each training patch would be padding; empty if not.
  std::string padding_warning() const;
  /// Where training patches make the reader of the first case's image unpack much more than they
  /// want, and no cache keeps what was unpacked; empty if not.  Opens that file.
  std::string reading_warning() const;
  /// Lines: how many cases, where, how split, scaled and cut; the classes.
  std::vector<std::string> describe() const;

  /// How the axes of the training images run (VolumeCase::orientation), where all run alike; else
  /// empty.
  std::string orientation() const;

  /// The normalisation, the names of each part for the record, and the orientation.  Loading throws
  /// UsageError where cases or orientation are others than here; what a checkpoint does not say (an
  /// older one, volumes that do not run alike) is not compared.
  void state(StateVisitor& visitor);

 private:
  Dims3 patch_of(int64_t index) const;
  std::unique_ptr<data::VolumeDataset> dataset_;
  data::Split split_;
  std::unique_ptr<data::Subset> training_, validation_;
};

/// "background, brain" as they are counted: "0 background, 1 brain".
std::string class_list(const std::vector<std::string>& classes);

}  // namespace bora::unet3d
