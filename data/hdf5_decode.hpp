// SPDX-License-Identifier: Apache-2.0
// From the bytes of a chunk in an HDF5 file to values, without the library and its lock.  For
// data/hdf5*.cpp only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/hdf5_element.hpp"

namespace bora::data::hdf5::detail {

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
