// SPDX-License-Identifier: Apache-2.0
// Blocks of arrays in files, row by row, past the HDF5 library.  For data/hdf5*.cpp only.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/shape.hpp"
#include "data/hdf5_decode.hpp"

namespace bora::data::hdf5::detail {

/// Calls row(from, to, n) for each run of elements that lies in one piece in two arrays in C order
/// (the first of extents `from_extents`, the second of `to_extents`), of the block of `count`
/// elements whose first is element `from` of the one and `to` of the other.  Stops when row says
/// false, and returns what the last one said.  At most Shape::kMaxRank axes.
template <class Row>
bool for_rows(std::span<const int64_t> count, std::span<const int64_t> from_extents,
              std::span<const int64_t> to_extents, int64_t from, int64_t to, Row&& row) {
  size_t axes = count.size();  // that are not within a row
  int64_t n = 1;
  for (bool whole = true; axes > 0 && whole; --axes) {
    n *= count[axes - 1];
    whole = count[axes - 1] == from_extents[axes - 1] && count[axes - 1] == to_extents[axes - 1];
  }
  if (n == 0) return true;
  std::array<int64_t, Shape::kMaxRank> from_step{}, to_step{}, at{};
  int64_t a = 1, b = 1;
  for (size_t i = count.size(); i-- > 0;) {
    from_step[i] = a;
    to_step[i] = b;
    a *= from_extents[i];
    b *= to_extents[i];
    if (count[i] == 0) return true;
  }
  while (true) {
    if (!row(from, to, n)) return false;
    size_t i = axes;
    for (; i > 0; --i) {  // count up like an odometer
      from += from_step[i - 1];
      to += to_step[i - 1];
      if (++at[i - 1] < count[i - 1]) break;
      from -= from_step[i - 1] * count[i - 1];
      to -= to_step[i - 1] * count[i - 1];
      at[i - 1] = 0;
    }
    if (i == 0) return true;
  }
}

/// Reads bytes [at, at + bytes) of a file; throws Error with the reason (the file ends before).
void read_bytes(int file, int64_t at, int64_t bytes, void* to);

/// An array that lies in one piece in a file.
struct PlainArray {
  int file = -1;
  int64_t at = 0;  ///< byte of its first element
  std::span<const int64_t> extents;
  Element element;
  Conversion conversion;
};
/// The block [begin, begin + count) as values in C order; false if one is out of range.
bool read_block(const PlainArray& array, std::span<const int64_t> begin,
                std::span<const int64_t> count, DType type, void* to);

}  // namespace bora::data::hdf5::detail
