// SPDX-License-Identifier: Apache-2.0
// The mark of HDF5, by which a file is known whatever its name.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace bora::data {

/// Whether a file of `file_bytes` bytes has the mark: at its start, or behind a user block of 512,
/// 1024, 2048, ... bytes (HDF5 File Format Specification, superblock).  `read_some(at, to, bytes)`
/// gives how many bytes it put there; fewer than asked for are no mark.
template <class ReadSome>
bool has_hdf5_mark(int64_t file_bytes, const ReadSome& read_some) {
  constexpr std::string_view kMark = "\x89HDF\r\n\x1a\n";
  constexpr auto n = static_cast<int64_t>(kMark.size());
  std::array<char, kMark.size()> found{};
  for (int64_t at = 0; at + n <= file_bytes; at = at == 0 ? 512 : at * 2)
    if (read_some(at, found.data(), n) == n &&
        std::string_view(found.data(), found.size()) == kMark)
      return true;
  return false;
}

}  // namespace bora::data
