// SPDX-License-Identifier: Apache-2.0
// Npy: volumes in NumPy's .npy files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/byte_source.hpp"
#include "data/dense_array.hpp"
#include "data/volume_file.hpp"

namespace bora::data {

/// What the header of a .npy file says.
struct NpyHeader {
  NumberType type = NumberType::u8;
  bool is_swapped = false;
  bool is_fortran = false;  ///< the first axis is the fastest
  std::vector<int64_t> shape;
  int64_t offset = 0;  ///< of the first number
};

/// Reads the header of format 1.0, 2.0 or 3.0 (NumPy Enhancement Proposal 1).  Types: bool, signed
/// and unsigned integers of 1 to 8 bytes, floats of 2, 4 and 8.  Throws Error naming the file, what
/// was found and what was wanted, for other types (structured, object, text, complex, dates, long
/// double) by name.
NpyHeader read_npy_header(ByteSource& file);

/// Opens a .npy file of three axes, or four where one is of channels.  VolumeSource::order names
/// them, first axis first; without it: "zyx" or "czyx".  Throws Error as read_npy_header, for other
/// numbers of axes, and for a file shorter than its header says.  A box is read alone.
std::unique_ptr<VolumeFile> open_npy_volume(const VolumeSource& source);

}  // namespace bora::data
