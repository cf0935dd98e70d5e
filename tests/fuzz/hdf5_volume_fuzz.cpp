// SPDX-License-Identifier: Apache-2.0
// Any bytes as an HDF5 file with raw and label: a part of each field, or an Error.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "data/hdf5.hpp"
#include "data/hdf5_volume.hpp"
#include "tests/fuzz/library_memory.hpp"
#include "tests/fuzz/scratch_file.hpp"
#include "tests/fuzz/volume_reads.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static bora::fuzz::ScratchFile scratch(".h5", bora::fuzz::ScratchFile::Age::old);
  bora::fuzz::keep_library_memory();
  const std::string& path = scratch.with(data, size);
  bora::data::hdf5::File file;  // stays open meanwhile: what costs most is done once
  if (!bora::fuzz::try_to(path, [&] { file = bora::data::hdf5::File::open(path); })) return 0;
  for (const char* variable : {"raw", "label", ""}) {
    bora::fuzz::try_to(path, [&] {
      const auto volume = bora::data::open_hdf5_volume({path, variable, ""});
      const bora::Dims3 grid = volume->info().grid;
      const bora::Dims3 few{std::min<int64_t>(grid.d, 8), std::min<int64_t>(grid.h, 8),
                            std::min<int64_t>(grid.w, 8)};
      bora::fuzz::read_twice(path, [&] {
        return volume->read({0, 0, grid.w - few.w}, few, bora::DType::f32);
      });
      // Opened again, most of it without the HDF5 library.
      bora::fuzz::read_twice(path, [&] {
        return bora::data::open_hdf5_volume({path, variable, ""})
            ->read({0, 0, 0}, few, bora::DType::u8);
      });
    });
  }
  return 0;
}
