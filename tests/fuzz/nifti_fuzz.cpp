// SPDX-License-Identifier: Apache-2.0
// Any bytes as a NIfTI file, of one piece or as a header beside values that are always there: an
// Error that names the file, or values; nothing else.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/error.hpp"
#include "data/nifti.hpp"
#include "data/orientation.hpp"
#include "tests/fuzz/scratch_file.hpp"
#include "tests/fuzz/volume_reads.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static bora::fuzz::ScratchFile file(".hdr"), values(".img");
  static const uint8_t kValues[4096] = {};
  const std::string& path = file.with(data, size);
  static pid_t process = -1;
  if (process != ::getpid()) {  // in each child once, they do not change
    process = ::getpid();
    values.with(kValues, sizeof kValues);
  }
  const std::string pair = path.substr(0, path.size() - 3);
  bora::fuzz::try_to(pair, [&] {
    const auto volume = bora::data::open_nifti_volume({path, {}, {}});
    bora::fuzz::read_every_way(*volume, pair);
    try {
      bora::data::orientation_of(*volume->info().affine);
    } catch (const bora::Error&) {  // of a matrix, without a file
    }
  });
  return 0;
}
