// SPDX-License-Identifier: Apache-2.0
// Numbers as their bytes lie in an HDF5 file, and how they become values.  For data/hdf5*.cpp only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "core/dtype.hpp"

namespace bora::data::hdf5::detail {

/// The types of numbers that are read here, and how their bytes lie in the file.
struct Element {
  enum class Kind : uint8_t { i8, u8, i16, u16, i32, u32, i64, u64, f16, bf16, f32, f64 };
  Kind kind = Kind::u8;
  int64_t bytes = 1;
  bool is_swapped = false;  ///< the other byte order than this machine's
};
/// Nothing for a type that only the library can read (padded, of unusual precision, not a number).
/// The caller holds the Lock.
std::optional<Element> element_of(int64_t type);

/// From elements as they lie in the file to values.
struct Conversion {
  /// False if one of `n` values is out of the range of an integer type.  The two do not overlap.
  bool (*apply)(const std::byte* from, void* to, int64_t n) = nullptr;
  bool is_copy = false;  ///< of the bytes as they are
};
/// Nothing where the library's conversion is not just that of a C cast.
std::optional<Conversion> conversion(const Element& from, DType to);

}  // namespace bora::data::hdf5::detail
