// SPDX-License-Identifier: Apache-2.0
// What the HDF5 library is told of a file's structure, looked at before the library believes it.
// For data/hdf5*.cpp only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace bora::data::hdf5::detail {

/// Judges what the reader's driver (hdf5_drivers.cpp) reads of one open file for the library.
///
/// Why: the library (1.10.8 seen) copies from behind its buffers where headers, heaps and indices
/// of a damaged file say so.  False means that the read has to fail; the library then gives an
/// error.  What a sound file holds is never refused.  Sections: "HDF5 File Format Specification".
class MetadataGuard {
 public:
  MetadataGuard() = default;
  /// `descriptor` stays open meanwhile; `file_bytes`: its length.
  MetadataGuard(int descriptor, uint64_t file_bytes)
      : descriptor_(descriptor), file_bytes_(file_bytes) {}

  /// What of the file is read; the library tells the driver.
  enum class Part { superblock, header, values, local_heap, index };

  /// `bytes` were read at byte `at`; addresses in the file count from byte `base`.  Of a local heap
  /// the last byte may become zero: then each name that begins in it ends there.
  bool takes(Part part, uint64_t at, unsigned char* bytes, size_t n, uint64_t base);
  /// What is wrong, after false.
  const std::string& why() const { return why_; }

 private:
  void learn_widths(const unsigned char* bytes, size_t n);
  bool is_sound_header(uint64_t at, const unsigned char* begin, size_t n);
  bool are_messages(const unsigned char* at, size_t n, bool& sound);
  bool are_in_heaps(const unsigned char* references, size_t n_bytes);
  bool is_sound_heap(uint64_t at, const unsigned char* bytes, size_t n,
                     std::vector<size_t>* objects = nullptr);
  bool end_names(uint64_t at, unsigned char* bytes, size_t n);
  bool is_sound_index(const unsigned char* bytes, size_t n);
  template <class... Parts>
  bool refuse(const Parts&... parts);

  int descriptor_ = -1;
  uint64_t file_bytes_ = 0, base_ = 0;
  size_t address_bytes_ = 8, length_bytes_ = 8;                   // of the numbers in this file
  uint64_t header_begin_ = UINT64_MAX, header_end_ = UINT64_MAX;  // the last read of a header
  std::string why_;
  std::set<uint64_t> name_ends_;  // where the local heaps that were met end
};

}  // namespace bora::data::hdf5::detail
