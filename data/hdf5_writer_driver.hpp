// SPDX-License-Identifier: Apache-2.0
// A file driver for the HDF5 library that survives a full disk.  For data/hdf5*.cpp only.
#pragma once

#include <cstdint>
#include <memory>

namespace bora::data::hdf5::detail {

/// The first failure of the operating system in writing a file, as errno; 0: none.
struct WriteFault {
  int code = 0;
};

/// Sets the driver on a file access list (H5Pset_driver).
///
/// Why: the library (1.10.8 seen) cannot close a file whose last writes failed.  It leaves objects
/// behind that crash in its handler at exit, and cannot be used again reliably.  So for the library
/// every write succeeds; what really happened is noted in `fault`, which whoever closes the file
/// looks at.  After the first failure nothing more is written, and what was not written reads as 0.
/// Else as the library's own driver "sec2": the same bytes.
void set_writer_driver(int64_t access_list, const std::shared_ptr<WriteFault>& fault);

}  // namespace bora::data::hdf5::detail
