// SPDX-License-Identifier: Apache-2.0
// From the bytes of a chunk in an HDF5 file to values, without the library and its lock.  For
// data/hdf5*.cpp only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

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

/// A filter of a chunk, in the order in which they were applied on writing.
struct Filter {
  enum class Kind : uint8_t { deflate, shuffle, fletcher32 };
  Kind kind = Kind::deflate;
  int64_t shuffle_bytes = 0;  ///< of an element, as the filter was told
};

/// Buffers that a thread keeps between chunks, so that their pages are touched once.
struct Scratch {
  std::vector<std::byte> raw, inflated, unshuffled, run;
  static Scratch& of_this_thread();
  /// Gives up buffers that are larger than usual.
  void shrink();
};

/// A chunk after its filters, but for a last step that the copy of the wanted part does better.
struct DecodedChunk {
  const std::byte* bytes = nullptr;
  bool is_shuffled = false;  ///< the k-th bytes of all elements lie together
  int64_t n_bytes = 0;       ///< that were unpacked, from the front
};
/// Undoes the filters (`mask`: those that were left out, as HDF5 has it) and checks checksums.
/// Allocates no more than the stored bytes can inflate to.  Throws Error saying what is wrong with
/// them, or that they do not give `chunk_bytes`.
///
/// Only the first `n_elements` need to be there.  If that spares work, inflating ends behind them,
/// and the checksum over all that was inflated is not looked at: for chunks that were unpacked
/// whole before.  All elements of the chunk: everything is checked.
DecodedChunk decode_chunk(std::span<const std::byte> stored, std::span<const Filter> filters,
                          uint32_t mask, int64_t chunk_bytes, int64_t element_bytes,
                          int64_t n_elements, Scratch& scratch);

/// Elements [first, first + n) of a decoded chunk of `n_elements`, to values; as Conversion.
bool copy_run(const DecodedChunk& chunk, int64_t n_elements, int64_t first, int64_t n,
              const Element& element, const Conversion& conversion, void* to, Scratch& scratch);

/// HDF5's checksum of a chunk.
uint32_t fletcher32(std::span<const std::byte> bytes);

}  // namespace bora::data::hdf5::detail
