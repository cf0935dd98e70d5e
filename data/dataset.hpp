// SPDX-License-Identifier: Apache-2.0
// Dataset and Sample: what a trainer gets from the data, whatever the files look like.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/rng.hpp"
#include "core/tensor.hpp"
#include "data/window.hpp"

namespace bora::data {

/// physical = normalised * sigma + mean.
struct Scaling {
  double mean = 0;
  double sigma = 1;
};

/// One case, or a window of it, on the CPU, without a batch axis.  Axes (D, H, W) = (x, y, z).  A
/// data set fills input and target; the rest has defaults that read_sample() makes.
struct Sample {
  Tensor input;   ///< (X, Y, Z, C) f32.  Wind: building mask (-1 building and padding, 1 open)
                  ///< [, sin, cos of the wind angle]
  Tensor target;  ///< what the loss compares with.  Wind: (X, Y, Z, 1) f32, normalised by
                  ///< `scaling`; 0 in padding
  Tensor region;  ///< (X, Y, Z) u8: 1 = a cell that losses, metrics and statistics count (wind:
                  ///< open and valid, no building, padding or missing value).  Undefined: all count
  Tensor valid;   ///< (X, Y, Z) u8: 1 = a cell of the file with a value (buildings too), for region
                  ///< = all.  Undefined: all are
  Tensor weight;  ///< (X, Y, Z) f32 >= 0: how much a cell of the region counts in a loss.
                  ///< Undefined: 1 each
  Scaling scaling;   ///< of the target
  Window window;     ///< where it lies in the file's grid
  std::string name;  ///< empty: the data set's
  double angle_deg =
      0;               ///< as in the name, mirrored and turned with the field; NaN: no angle known
  int64_t index = -1;  ///< in the dataset; below 0: the one it was asked for by
};

/// Which window of a case, and whether it is varied.
struct WindowChoice {
  /// Evaluation: the centred window, nothing varied.
  static WindowChoice centred() { return {}; }
  /// Training: random window and the augmentation that the dataset's configuration allows, a pure
  /// function of the key.  Make the key from (seed, epoch, index), never from a thread or a rank:
  /// RngKey{seed, rng_stream("augment", epoch, index)}.
  static WindowChoice random(RngKey key) { return {true, key}; }

  bool is_random = false;
  RngKey key{};
};

/// Cases by index.  All functions are const and may be called from several threads at once; read is
/// a pure function of (index, choice): the same bits whatever thread, rank or order.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  /// Reads one case from its file, or makes it.  Throws Error naming the file and the reason.
  virtual Sample read(int64_t index, const WindowChoice& choice) const = 0;
  /// For messages and tables.
  virtual std::string name(int64_t index) const { return "sample " + std::to_string(index); }
  /// The name and the files that are read for it, for messages about files that are slow.
  virtual std::string where(int64_t index) const { return name(index); }
  /// Cases of one group (one city, one patient) must stay on one side of a split.
  virtual std::string group(int64_t index) const { return name(index); }
  /// Channels of the input; unless overridden, those of the first case.
  virtual int64_t n_channels() const;
};

/// Of all its cases, in their order.
std::vector<std::string> names_of(const Dataset& dataset);

/// Reads a case and fills in what the data set left open: name, index, and masks of ones over the
/// input's cells.  Throws Error naming the sample for an input or target that is undefined or not
/// on the CPU, an input without axes, and masks of another shape than the input's cells.
Sample read_sample(const Dataset& dataset, int64_t index, const WindowChoice& choice);

/// Some cases of another dataset, which must live longer.  Sample::index stays that of the other.
class Subset : public Dataset {
 public:
  Subset(const Dataset& base, std::vector<int64_t> indices)
      : base_(&base), indices_(std::move(indices)) {
    for (int64_t i : indices_)
      BORA_CHECK(i >= 0 && i < base.size(), "Subset: index ", i, " of a dataset of ", base.size());
  }
  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  Sample read(int64_t index, const WindowChoice& choice) const override {
    return base_->read(base_index(index), choice);
  }
  std::string name(int64_t index) const override { return base_->name(base_index(index)); }
  std::string where(int64_t index) const override { return base_->where(base_index(index)); }
  std::string group(int64_t index) const override { return base_->group(base_index(index)); }
  int64_t n_channels() const override { return base_->n_channels(); }
  int64_t base_index(int64_t index) const {
    BORA_CHECK(index >= 0 && index < size(), "Subset: index ", index, " of ", size());
    return indices_[static_cast<size_t>(index)];
  }
  const std::vector<int64_t>& indices() const { return indices_; }

 private:
  const Dataset* base_;
  std::vector<int64_t> indices_;
};

}  // namespace bora::data
