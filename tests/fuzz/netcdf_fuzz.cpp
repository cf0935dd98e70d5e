// SPDX-License-Identifier: Apache-2.0
// Any bytes as a NetCDF-4 file: every variable described and read as what it may be, or an Error.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "data/netcdf.hpp"
#include "data/netcdf_volume.hpp"
#include "tests/fuzz/library_memory.hpp"
#include "tests/fuzz/scratch_file.hpp"
#include "tests/fuzz/volume_reads.hpp"

namespace {

using bora::data::NetcdfFile;
using bora::data::VariableInfo;
using bora::fuzz::try_to;
constexpr int64_t kMostCells = 1 << 16;  // read of one variable: a fuzzer wants many inputs

void read_variable(const NetcdfFile& file, const std::string& name) {
  const VariableInfo v = file.info(name);
  file.axis(name);
  std::vector<int64_t> begin(v.extents.size(), 0), count;
  int64_t n = 1;
  for (const int64_t extent : v.extents) {
    count.push_back(std::min(extent, std::max<int64_t>(kMostCells / n, 1)));
    n *= std::max<int64_t>(count.back(), 1);
  }
  bora::fuzz::read_twice(file.path(),
                         [&] { return file.read_block(name, begin, count, bora::DType::f32); });
  file.read_whole_block(name, begin, count);
}

void read_volume(const std::string& path, const std::string& name) {
  const auto volume = bora::data::open_netcdf_volume({path, name, ""});
  const bora::Dims3 grid = volume->info().grid;
  const bora::Dims3 few{std::min<int64_t>(grid.d, 8), std::min<int64_t>(grid.h, 8),
                        std::min<int64_t>(grid.w, 8)};
  volume->read({grid.d - few.d, 0, 0}, few, bora::DType::u8);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static bora::fuzz::ScratchFile scratch(".nc", bora::fuzz::ScratchFile::Age::old);
  bora::fuzz::keep_library_memory();
  const std::string& path = scratch.with(data, size);
  try_to(path, [&] {
    const NetcdfFile file = NetcdfFile::open(path);
    for (const std::string& name : file.variables()) {
      try_to(path, [&] { read_variable(file, name); });
      try_to(path, [&] { read_volume(path, name); });
    }
  });
  return 0;
}
