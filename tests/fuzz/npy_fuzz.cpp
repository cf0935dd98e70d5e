// SPDX-License-Identifier: Apache-2.0
// Any bytes as a .npy file: an Error that names the file, or values; nothing else.
#include <cstddef>
#include <cstdint>

#include "data/npy.hpp"
#include "tests/fuzz/scratch_file.hpp"
#include "tests/fuzz/volume_reads.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static bora::fuzz::ScratchFile file(".npy");
  const std::string& path = file.with(data, size);
  for (const char* order : {"", "xyz", "zyxc"}) {
    bora::fuzz::try_to(path, [&] {
      bora::fuzz::read_every_way(*bora::data::open_npy_volume({path, {}, order}), path);
    });
  }
  return 0;
}
