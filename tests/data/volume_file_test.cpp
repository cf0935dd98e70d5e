// SPDX-License-Identifier: Apache-2.0
// One call opens every format, by its content.
#include "data/volume_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <zlib.h>

#include <filesystem>

#include "tests/data/pipeline_support.hpp"
#include "tests/data/reference_values.hpp"
#include "tests/data/volume_reference.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string format_of(const std::string& path, const std::string& variable = {}) {
  return open_volume({path, variable, {}})->info().format;
}

TEST(OpenVolume, GoesByTheContentNotTheName) {
  EXPECT_EQ(format_of(kVolumes + "int16_le.nii"), "NIfTI-1");
  EXPECT_EQ(format_of(kVolumes + "two_be.nii"), "NIfTI-2");
  EXPECT_EQ(format_of(kVolumes + "array_v3.npy"), "NumPy");
  EXPECT_EQ(format_of(kReference + "packed.nc", "plain_f64"), "NetCDF-4");
  const TempFolder folder;
  const auto renamed = [&](const std::string& source, const std::string& name) {
    std::filesystem::copy_file(source, folder.file(name),
                               std::filesystem::copy_options::overwrite_existing);
    return folder.file(name);
  };
  EXPECT_EQ(format_of(renamed(kVolumes + "packed.nii.gz", "scan")), "NIfTI-1");
  EXPECT_EQ(format_of(renamed(kVolumes + "int16_be.nii", "scan.nc")), "NIfTI-1");
  EXPECT_EQ(format_of(renamed(kVolumes + "array_v3.npy", "scan.nii")), "NumPy");
  EXPECT_EQ(format_of(renamed(kReference + "packed.nc", "scan.h5"), "plain_f64"), "NetCDF-4");
}

TEST(OpenVolume, WhatIsNoneOfThemIsToldByItsFirstBytes) {
  const TempFolder folder;
  const auto told = [&](const std::string& content, const std::string& name = "scan.nii") {
    write_file(folder.file(name), content);
    return message_of([&] { open_volume({folder.file(name), {}, {}}); });
  };
  EXPECT_THAT(
      told("{\"json\": 1}"),
      AllOf(HasSubstr("scan.nii': the first bytes are 7b 22 6a 73 6f 6e 22 3a ('{\"json\":')"),
            HasSubstr("wanted those of NIfTI")));
  EXPECT_THAT(told("a"), HasSubstr("the first bytes are 61 ('a')"));
  EXPECT_THAT(told(""), HasSubstr("the file is empty"));
  EXPECT_THAT(told(std::string("PK\x03\x04zip", 7)), HasSubstr("this is a zip archive (as .npz)"));
  EXPECT_THAT(told(std::string(128, '\0') + "DICM"), HasSubstr("this is a DICOM file"));
  EXPECT_THAT(told("MMxx"), HasSubstr("the first bytes"));
  EXPECT_THAT(told("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("Git LFS"));
  for (const char* classic : {"classic1.nc", "classic2.nc", "classic5.nc"})
    EXPECT_THAT(told(read_file(kReference + classic), "scan.nc"), HasSubstr("nccopy -k nc4"));
  EXPECT_THAT(message_of([&] {
                open_volume({folder.path(), {}, {}});
              }),
              HasSubstr("this is a folder"));
  EXPECT_THAT(message_of([&] {
                open_volume({folder.file("none.nii"), {}, {}});
              }),
              HasSubstr("none.nii': No such file or directory"));
  EXPECT_THAT(message_of([&] { open_volume({}); }), HasSubstr("wants a path, got an empty one"));
  ASSERT_EQ(::mkfifo(folder.file("pipe.nii").c_str(), 0600), 0);
  EXPECT_THAT(message_of([&] {
                open_volume({folder.file("pipe.nii"), {}, {}});
              }),
              HasSubstr("not a plain file"));
}

// What people give by mistake is told by the name of its format (row 88), packed by gzip or not.
TEST(OpenVolume, ForeignFormatsAreToldByName) {
  const struct {
    std::string content;
    const char* name;
  } kForeign[] = {{{"II*\0\x08\0\0\0", 8}, "a TIFF picture"},
                  {{"MM\0*\0\0\0\x08", 8}, "a TIFF picture"},
                  {"\x89PNG\r\n\x1a\n", "a PNG picture"},
                  {"PK\x03\x04", "a zip archive (as .npz)"},
                  {"BZh91AY", "a bzip2 file"},
                  {{"\xfd"
                    "7zXZ\0",
                    6},
                   "an xz file"},
                  {"\x28\xb5\x2f\xfd", "a zstd file"},
                  {std::string(128, '\0') + "DICM", "a DICOM file"},
                  {"NRRD0005\n", "an NRRD file"},
                  {"ObjectType = Image\n", "a MetaImage header"},
                  {"MATLAB 5.0 MAT-file", "a MATLAB file before 7.3"},
                  {"%PDF-1.7", "a PDF"},
                  {"version https://git-lfs.github.com/spec/v1\n",
                   "a pointer of Git LFS, whose file was not fetched"}};
  const TempFolder folder;
  for (const auto& foreign : kForeign) {
    const std::string plain = folder.file("scan.nii"), packed = folder.file("scan.nii.gz");
    write_file(plain, foreign.content);
    EXPECT_THAT(message_of([&] {
                  open_volume({plain, {}, {}});
                }),
                HasSubstr("reading '" + plain + "': this is " + foreign.name +
                          ", wanted NIfTI, NetCDF-4, HDF5 or .npy"));
    const gzFile out = ::gzopen(packed.c_str(), "wb");
    ASSERT_EQ(::gzwrite(out, foreign.content.data(), static_cast<unsigned>(foreign.content.size())),
              static_cast<int>(foreign.content.size()));
    ASSERT_EQ(::gzclose(out), Z_OK);
    EXPECT_THAT(message_of([&] {
                  open_volume({packed, {}, {}});
                }),
                HasSubstr("reading '" + packed + "': this is " + foreign.name +
                          " inside gzip, wanted NIfTI, NetCDF-4, HDF5 or .npy"));
  }
}

}  // namespace
}  // namespace bora::data::test
