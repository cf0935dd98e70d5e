// SPDX-License-Identifier: Apache-2.0
// DenseArray: boxes of an array that stands in a file as one run of numbers (NIfTI, NumPy).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/shape.hpp"
#include "core/tensor.hpp"
#include "data/byte_source.hpp"

namespace bora::data {

/// A number in a file.
enum class NumberType : uint8_t { u8, i8, i16, u16, i32, u32, i64, u64, f16, f32, f64 };
int64_t size_of(NumberType type);
std::string_view name_of(NumberType type);

/// Where the numbers of a 3-D field with channels stand.
struct DenseArray {
  int64_t offset = 0;  ///< of the first one in the file
  NumberType type = NumberType::u8;
  bool is_swapped = false;  ///< the other byte order than this machine's
  /// Extents along x, y, z, channel.
  std::array<int64_t, 4> extents{1, 1, 1, 1};
  /// The axes in the file, slowest first: 0 x, 1 y, 2 z, 3 channel, each once.
  std::array<int, 4> order{3, 2, 1, 0};
  /// Values are slope * stored + intercept, computed in f64 with a rounding after each step.
  double slope = 1, intercept = 0;

  bool is_scaled() const { return slope != 1 || intercept != 0; }
  Dims3 grid() const { return {extents[0], extents[1], extents[2]}; }
  /// Of all numbers; throws Error (without a name) where it does not fit in 63 bits.
  int64_t bytes() const;
  /// The smallest type that read_box gives and that holds every value; i64 for u64, of which larger
  /// ones cannot be read as integers.
  DType smallest_type() const;
  /// "i16", "f32, big-endian".
  std::string stored_type() const;
};

/// The cells [begin, begin + count) with all channels: (X, Y, Z, C) of `type`: f32, f64, u8, i32 or
/// i64.  As an integer type: throws Error naming the file and the cell for a value that is not
/// whole or out of range.  Holds, beside the result, one slab of the box: up to 8 MiB, or one plane
/// of the file's two fastest axes.  Rows are read with up to three times as many bytes between
/// them, where that saves calls.
Tensor read_box(ByteSource& from, const DenseArray& array, const Dims3& begin, const Dims3& count,
                DType type);

}  // namespace bora::data
