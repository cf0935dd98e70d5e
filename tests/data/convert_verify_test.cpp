// SPDX-License-Identifier: Apache-2.0
// data convert --verify: all values of a new file are read back from it, and only when asked for.
#include <gtest/gtest.h>

#include "data/convert.hpp"
#include "data/netcdf.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data::test {
namespace {

constexpr int64_t kCells = 6 * 7 * 8;

/// Bytes that are read from HDF5 data sets while it runs.
template <class Body>
int64_t bytes_read_by(Body&& body) {
  const int64_t before = hdf5::bytes_read();
  body();
  return hdf5::bytes_read() - before;
}

TEST(ConvertVerify, ReadsEveryFieldOfTheNewFileBack) {
  TempFolder folder;
  const std::string in = folder.file("in.h5"), out = folder.file("out.h5");
  hdf5::File file = hdf5::File::create(in);
  file.write_dataset("raw", Tensor::full({6, 7, 8}, 3, DType::f32));
  file.write_dataset("label", Tensor::full({6, 7, 8}, 1, DType::u8));
  file.close();
  for (const bool verify : {false, true}) {
    const ConvertOptions options{.patch = {4, 4, 4}, .threads = 1, .codec = {}, .verify = verify};
    const auto convert = [&] {
      convert_to_hdf5(out, {{"raw", {in, "raw", {}}}, {"label", {in, "label", {}}}}, options);
    };
    // The input once, and once the output.
    EXPECT_EQ(bytes_read_by(convert), (verify ? 2 : 1) * 5 * kCells);
  }
}

TEST(ConvertVerify, ReadsTheVariableOfANetcdfFileBack) {
  TempFolder folder;
  const std::string in = folder.file("in.nc"), out = folder.file("out.nc");
  NetcdfWriter writer(in);
  for (const auto& [name, n] : {std::pair{"x", 6}, {"y", 7}, {"z", 8}}) writer.dimension(name, n);
  writer.variable("v", {"x", "y", "z"}, Tensor::full({6, 7, 8}, 3, DType::f32));
  writer.close();
  int64_t bytes[2];
  for (const bool verify : {false, true}) {
    const ConvertOptions options{.patch = {4, 4, 4}, .threads = 1, .codec = {}, .verify = verify};
    bytes[verify] = bytes_read_by([&] { convert_netcdf(in, "v", out, options); });
  }
  EXPECT_EQ(bytes[1] - bytes[0], 4 * kCells);
}

}  // namespace
}  // namespace bora::data::test
