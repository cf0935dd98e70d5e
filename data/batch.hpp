// SPDX-License-Identifier: Apache-2.0
// Batch: samples of one shape joined, and the way from a dataset through the loader to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.hpp"
#include "data/loader.hpp"

namespace bora::data {

/// N samples, on the CPU.  (D, H, W) = (x, y, z).
struct Batch {
  Tensor input;                    ///< (N, D, H, W, C) f32
  Tensor target;                   ///< (N, D, H, W, 1) f32
  Tensor region;                   ///< (N, D, H, W) u8, 1 = open and valid: the cells that count
  Tensor valid;                    ///< (N, D, H, W) u8, 1 = a cell of the file with a value
  Tensor weight;                   ///< (N, D, H, W) f32, of cells; undefined: no sample has any
  std::vector<double> weights;     ///< (N), 0 for padding slots, else 1
  std::vector<std::string> names;  ///< (N)
  std::vector<int64_t> indices;    ///< (N), in the dataset
  std::vector<Scaling> scalings;   ///< (N)
  std::vector<double> angles_deg;  ///< (N)
  int64_t size() const { return static_cast<int64_t>(names.size()); }
};

/// Joins samples along a new first axis.  `weights` has one entry a sample, or none (all 1).  One
/// sample is not copied.  Throws Error naming both samples if shapes or types differ, and if there
/// is none.
Batch collate(const std::vector<Sample>& samples, std::vector<double> weights = {});

/// Evaluation reads the centred window as it is, training a random one with augmentation.
enum class Reading { centred, random };

/// Reads slot.index of `dataset`, which must outlive the result.  Random numbers depend on (seed,
/// slot.epoch, slot.index) alone: not on the rank, the thread or the order.
Loader<Sample>::Read sample_reader(const Dataset& dataset, Reading reading, uint64_t seed);
/// Names for the loader's messages.
Loader<Sample>::Name sample_namer(const Dataset& dataset);
/// The same with the files of each (Dataset::where).
Loader<Sample>::Name sample_locator(const Dataset& dataset);

/// The next `n` items of the loader joined, fewer at the end of the epoch, nothing after it.
/// Padding slots get the weight 0.  Throws Error if n < 1, and what the loader throws.
std::optional<Batch> next_batch(Loader<Sample>& loader, int64_t n);

}  // namespace bora::data
