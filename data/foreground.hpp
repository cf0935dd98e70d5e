// SPDX-License-Identifier: Apache-2.0
// ForegroundCells: where the labelled cells of a volume are, for patches that are centred on one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/rng.hpp"
#include "data/volume_cases.hpp"

namespace bora::data {

/// Cells of the classes 1, 2, ... of a volume.  Of each class at most kMostCells are kept, each
/// cell of it with the same chance, and at most kMostCellsInAll of all classes together (but 64 of
/// each): 8 bytes each.  A pure function of the labels.
class ForegroundCells {
 public:
  static constexpr int64_t kMostCells = 10000;
  static constexpr int64_t kMostCellsInAll = int64_t{1} << 16;

  /// Labels (X, Y, Z) u8 of slabs of the box, in order, through add(); kIgnoredClass is none.
  ForegroundCells(const Box& box, int64_t n_classes);
  void add(const Tensor& classes);

  /// Labelled cells of the volume, also those that are not kept.
  int64_t count() const;
  int64_t count(int64_t of_class) const { return counts_.at(static_cast<size_t>(of_class)); }
  /// Of the cells that are kept of a class: indices in the box, z fastest.
  const std::vector<int64_t>& kept(int64_t of_class) const {
    return cells_.at(static_cast<size_t>(of_class));
  }

  /// A cell of the box: each labelled cell with the same chance, or each class that the volume has
  /// and each cell of it.  A pure function of the key; nothing where no cell is labelled.
  std::optional<Dims3> draw(const RngKey& key, bool by_class) const;

 private:
  Dims3 shape_;
  int64_t next_ = 0;  // index in the box of the first cell of the next slab
  size_t most_;
  std::vector<int64_t> counts_;
  std::vector<std::vector<int64_t>> cells_;
};

}  // namespace bora::data
