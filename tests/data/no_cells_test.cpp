// SPDX-License-Identifier: Apache-2.0
// Arrays with an axis of 0 cells (rows 87, 88), as a program leaves them that made its files and
// ended before it wrote: every format refuses them by name, and so does the look into a data set.
// NIfTI and HDF5 alone: nifti_bad_test.cpp, hdf5_volume_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "data/hdf5.hpp"
#include "data/volume_cases.hpp"
#include "data/volume_file.hpp"
#include "data/wind_files.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/data/volume_reference.hpp"

namespace bora::data::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// By netCDF4: x 3, y 2, and unlimited dimensions that are still 0.
const std::string kNoCells = "tests/reference/data/no_cells.nc";

std::string opened(const std::string& path, const std::string& variable = {},
                   const std::string& order = {}) {
  return message_of([&] { open_volume({path, variable, order}); });
}

TEST(NoCells, NetcdfNamesFileVariableAndDimension) {
  EXPECT_THAT(opened(kNoCells, "wind_speed"),
              HasSubstr("'" + kNoCells + "', variable 'wind_speed': dimension 'z' has no cells"));
  EXPECT_THAT(opened(kNoCells, "building_mask", "xyz"),
              HasSubstr("variable 'building_mask': dimension 'z' has no cells"));
  // Not for an axis beside x, y and z, nor as one of several channel axes.
  EXPECT_THAT(opened(kNoCells, "steps"), HasSubstr("'steps': dimension 'time' has no cells"));
}

TEST(NoCells, OtherFormatsNameFileAndExtents) {
  const std::string npy = kVolumes + "array_empty.npy";
  EXPECT_THAT(opened(npy), HasSubstr("reading '" + npy + "': an array of 2 x 0 x 3 has no cells"));
  TempFolder folder;
  const std::string path = folder.file("a.h5");
  hdf5::File file = hdf5::File::create(path);
  file.create_dataset("raw", Shape{0, 4, 3, 2}, "f32", {});
  file.create_dataset("many", Shape{2, 3, 4, 5, 0}, "f32", {});
  file.close();
  EXPECT_THAT(opened(path, "raw"),
              AllOf(HasSubstr(path), HasSubstr("axis 0 of 0x4x3x2 has no cells")));
  EXPECT_THAT(opened(path, "many"), HasSubstr("axis 4 of 2x3x4x5x0 has no cells"));
}

TEST(NoCells, TheLookIntoWindFilesListsThem) {
  TempFolder folder;
  const std::string wind = folder.file("wind_speed_filled/0VF1_ws_filled.nc");
  const std::string mask = folder.file("mask_buildings/0VF1_ws_building_mask.nc");
  for (const std::string& path : {wind, mask}) {
    fs::create_directories(fs::path(path).parent_path());
    fs::copy_file(kNoCells, path);
  }
  WindConfig config;
  config.root = folder.path();
  for (const char* level : {"headers", "full"}) {
    config.files.preflight = level;
    EXPECT_THAT(
        message_of([&] { find_wind_files(config); }),
        AllOf(HasSubstr("2 problem(s)"),
              HasSubstr("'" + wind + "', variable 'wind_speed': dimension 'z' has no cells"),
              HasSubstr("'" + mask + "', variable 'building_mask': dimension 'z' has no cells")))
        << level;
  }
}

TEST(NoCells, TheLookIntoVolumesListsThem) {
  TempFolder folder;
  fs::copy_file(kNoCells, folder.file("a.nc"));
  fs::copy_file(kVolumes + "array_empty.npy", folder.file("b.npy"));
  std::string nifti = read_file(kVolumes + "int16_le.nii");
  const int16_t none = 0;
  std::memcpy(nifti.data() + 44, &none, sizeof none);  // dim[2]
  write_file(folder.file("c.nii"), nifti);
  {
    hdf5::File file = hdf5::File::create(folder.file("d.h5"));
    file.create_dataset("wind_speed", Shape{2, 2, 0}, "f32", {});
    file.close();
  }
  write_file(folder.file("list.csv"),
             "case,image,label\na,a.nc,a.nc\nb,b.npy,b.npy\nc,c.nii,c.nii\nd,d.h5,d.h5\n");
  VolumesConfig config;
  config.root = folder.path();
  config.list = "list.csv";
  config.image_variable = config.label_variable = "wind_speed";
  for (const char* level : {"headers", "full"}) {
    config.preflight = level;
    EXPECT_THAT(message_of([&] { find_volume_cases(config, nullptr, {}); }),
                AllOf(HasSubstr("4 problem(s)"),
                      HasSubstr(folder.file("a.nc") +
                                "', variable 'wind_speed': dimension 'z' has no cells"),
                      HasSubstr(folder.file("b.npy") + "': an array of 2 x 0 x 3 has no cells"),
                      HasSubstr(folder.file("c.nii") + "': dim[2] is 0, wanted at least 1"),
                      HasSubstr(folder.file("d.h5")), HasSubstr("axis 2 of 2x2x0 has no cells")))
        << level;
  }
}

}  // namespace
}  // namespace bora::data::test
