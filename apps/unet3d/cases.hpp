// SPDX-License-Identifier: Apache-2.0
// Cases: a data set, its split, and the normalisation fitted on the training part.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/collective.hpp"
#include "core/state.hpp"
#include "data/split.hpp"
#include "data/wind_dataset.hpp"

namespace bora::unet3d {

class Cases {
 public:
  /// Opens and checks the files and splits them, together with the other ranks.  Samples can be
  /// read when the normalisation is there: `normaliser` (of a checkpoint), by fit(), or by state().
  Cases(const data::WindConfig& data, const data::SplitConfig& split, Collective& ranks,
        const data::Normaliser* normaliser = nullptr);
  /// Fits the normalisation on the training part: reads all of it, shared among the ranks.  Leaves
  /// with an Error of apps::leave_if_told() when told to stop meanwhile.
  void fit(Collective& ranks);

  /// From now on what is read is kept as data.cache says.  Collective.
  void use_cache(Collective& ranks) { dataset_->use_cache(&ranks); }

  const data::WindDataset& all() const { return *dataset_; }
  const data::Dataset& training() const { return *training_; }
  const data::Dataset& validation() const { return *validation_; }
  const data::Dataset& test() const { return *test_; }
  /// "training", "validation", "test" or "all"; throws UsageError for another name.
  const data::Dataset& part(const std::string& name) const;
  int64_t n_channels() const { return dataset_->n_channels(); }
  /// Throws Error naming the first case whose window has an extent below `extent`, what a network
  /// of `levels` levels needs.
  void require_extents(int64_t extent, int64_t levels) const;
  /// Where training samples make the reader of the first case's files unpack much more than they
  /// want, and no cache keeps what was unpacked; empty if not.  Opens those files.
  std::string reading_warning() const;
  /// One line: how many cases, where, how split and scaled.
  std::string describe() const;

  /// Heights in metres of the sample's levels, infinite for levels of padding: the file's
  /// coordinate of the third axis, or in an HDF5 file without names a data set of that name ("z")
  /// with a number for each level.  None where the file has neither.  Throws Error for another
  /// number.
  std::optional<std::vector<double>> heights(const data::Sample& sample) const;

  /// The normalisation, and the names of each part for the record.
  void state(StateVisitor& visitor);

 private:
  std::string root_;
  std::unique_ptr<data::WindDataset> dataset_;
  std::unique_ptr<data::Subset> training_, validation_, test_;
};

/// (X, Y, Z) u8: 1 = a building cell of the file, no padding.
Tensor building_cells(const data::Sample& sample);

}  // namespace bora::unet3d
