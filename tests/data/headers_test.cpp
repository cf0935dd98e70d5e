// SPDX-License-Identifier: Apache-2.0
// What a look at headers finds, without reading a value (rows 88, 89): before the first step, and
// not in the middle of an epoch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <cstring>

#include "data/netcdf.hpp"
#include "data/volume_cases.hpp"
#include "data/wind_files.hpp"
#include "tests/data/hdf5_by_library.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/data/wind_fixture.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr H5Z_filter_t kForeign = 40123;  // of those that are free for anybody

size_t as_it_is(unsigned, size_t, const unsigned*, size_t n_bytes, size_t*, void**) {
  return n_bytes;
}

/// Data set "raw" of zeros, (4, 5, 6), whose chunks have a filter that no library has.
void write_foreign(const std::string& path) {
  hdf5::Lock lock;
  const H5Z_class2_t filter{H5Z_CLASS_T_VERS, kForeign, 1,       1,
                            "foreign",        nullptr,  nullptr, as_it_is};
  ASSERT_GE(H5Zregister(&filter), 0);
  const hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(list, 3, std::vector<hsize_t>{2, 5, 6}.data());
  H5Pset_filter(list, kForeign, 0, 0, nullptr);
  write_by_library(path, H5T_IEEE_F32LE, {4, 5, 6}, list, std::vector<double>(120, 0.0));
  H5Pclose(list);
  ASSERT_GE(H5Zunregister(kForeign), 0);
}

/// Four cases of 6 x 5 x 4 cells; a test spoils the wind of the first.
class HeadersTest : public WindFolder {
 protected:
  HeadersTest() : WindFolder(2, {6, 5, 4}) { config_.files.preflight = "headers"; }
  std::string problem() {
    return message_of([&] { find_wind_files(config_); });
  }

  const std::string wind_ = wind("0VF1"), mask_ = mask("0VF1");
};

TEST_F(HeadersTest, GoodFilesAreGood) { EXPECT_EQ(find_wind_files(config_).cases.size(), 4U); }

TEST_F(HeadersTest, ADimensionTooManyIsTold) {
  NetcdfWriter out(wind_);
  for (const auto& [name, size] : {std::pair{"t", 2}, {"x", 6}, {"y", 5}, {"z", 4}})
    out.dimension(name, size);
  out.variable("wind_speed", {"t", "x", "y", "z"}, Tensor::zeros(Shape{2, 6, 5, 4}, DType::f32));
  out.close();
  EXPECT_THAT(problem(),
              AllOf(HasSubstr(wind_), HasSubstr("dimension 't' of 2 cells is not among")));
}

TEST_F(HeadersTest, AnAttributeThatCannotBeIsTold) {
  NetcdfWriter out(wind_);
  for (const auto& [name, size] : {std::pair{"x", 6}, {"y", 5}, {"z", 4}})
    out.dimension(name, size);
  out.variable("wind_speed", {"x", "y", "z"}, Tensor::zeros(Shape{6, 5, 4}, DType::f32))
      .set_attribute("valid_range", std::vector<double>{1, 2, 3});
  out.close();
  EXPECT_THAT(problem(),
              AllOf(HasSubstr(wind_), HasSubstr("valid_range holds 3 values, wanted 2")));
}

TEST_F(HeadersTest, AFilterThatTheLibraryLacksIsTold) {
  config_.files.wind_variable = "raw";
  write_foreign(wind_);
  const std::string told =
      "stored with filter 40123 'foreign', which this HDF5 library does not have";
  EXPECT_THAT(problem(), AllOf(HasSubstr(wind_ + ":/raw"), HasSubstr(told)));

  VolumesConfig volumes;
  volumes.root = folder_.path() + "/volumes";
  volumes.image_suffix = volumes.label_suffix = ".h5";
  volumes.label_variable = "raw";
  volumes.image_variable = "raw";
  volumes.preflight = "headers";
  std::filesystem::create_directory(volumes.root);
  write_foreign(volumes.root + "/a_image.h5");
  volumes.image_suffix = "_image.h5";
  volumes.label_suffix = "_label.h5";
  write_by_library(volumes.root + "/a_label.h5", H5T_STD_U8LE, {4, 5, 6}, H5P_DEFAULT,
                   std::vector<double>(120, 0.0));
  EXPECT_THAT(message_of([&] { find_volume_cases(volumes); }),
              AllOf(HasSubstr("a_image.h5:/raw"), HasSubstr(told)));
}

// One file of a pair has f32, the other f64: 0.1 is not the same number in both.
TEST_F(HeadersTest, CoordinatesOfAPairAgreeToAThousandthOfACell) {
  const auto write = [](const std::string& path, const std::string& variable, DType type,
                        double shift) {
    NetcdfWriter out(path);
    for (const auto& [name, size] : {std::pair{"x", 6}, {"y", 5}, {"z", 4}}) {
      Tensor centres = Tensor::empty(Shape{size}, DType::f64);
      for (int i = 0; i < size; ++i) centres.data<double>()[i] = 0.1 * (i + 1) + shift;
      out.coordinate(name, centres.to(type));
    }
    out.variable(variable, {"x", "y", "z"}, Tensor::full(Shape{6, 5, 4}, 1, DType::f32));
    out.close();
  };
  write(wind_, "wind_speed", DType::f32, 0);
  write(mask_, "building_mask", DType::f64, 0);
  EXPECT_EQ(find_wind_files(config_).cases.size(), 4U);
  write(mask_, "building_mask", DType::f64, 0.0002);  // 0.002 of a cell
  EXPECT_THAT(problem(), AllOf(HasSubstr(mask_), HasSubstr("different coordinates 'x'")));
}

// As h5py with HDF5 2.0 and libver='latest' writes: a layout message of a version that the library
// does not know.
TEST_F(HeadersTest, AFileOfALaterLibraryIsToldWithTheWayOut) {
  const std::string path = folder_.file("later.h5");
  write_by_library(path, H5T_STD_I16LE, {4, 5, 6}, H5P_DEFAULT, std::vector<double>(120, 1.0));
  std::string bytes = read_file(path);
  // Message 8 (layout) of 24 bytes, no flags: version 3, contiguous.
  const std::string layout("\x08\0\x18\0\0\0\0\0\x03\x01", 10);
  const size_t at = bytes.find(layout);
  ASSERT_NE(at, bytes.npos);
  bytes[at + 8] = 5;
  write_file(path, bytes);
  EXPECT_THAT(message_of([&] { hdf5::File::open(path).open_dataset("raw"); }),
              AllOf(HasSubstr(path), HasSubstr("bad version number"),
                    HasSubstr("written for a later HDF5 than " + hdf5::library_version()),
                    HasSubstr("h5repack --high=2")));
}

}  // namespace
}  // namespace bora::data::test
