// SPDX-License-Identifier: Apache-2.0
// Places where nothing can be written, and asking for what a file does not have: each is told by
// name (row 88).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <hdf5.h>

#include <filesystem>

#include "data/atomic_file.hpp"
#include "data/netcdf.hpp"
#include "data/split.hpp"
#include "data/synthetic_volumes.hpp"
#include "tests/data/hdf5_by_library.hpp"

namespace bora::data::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

class WriteRefusals : public ::testing::Test {
 protected:
  /// A folder that holds something, in the place of a file.
  std::string taken(const std::string& name) const {
    fs::create_directories(folder.file(name) + "/inside");
    return folder.file(name);
  }
  TempFolder folder;
};

TEST_F(WriteRefusals, AFolderInThePlaceOfTheFile) {
  const std::string text = taken("metrics.csv");
  EXPECT_THAT(message_of([&] { write_file_atomic(text, "a,b\n"); }),
              HasSubstr("renaming to " + text + ": Is a directory"));
  const std::string netcdf = taken("out.nc");
  EXPECT_THAT(message_of([&] {
                NetcdfWriter out(netcdf);
                out.dimension("x", 3);
                out.close();
              }),
              AllOf(HasSubstr("renaming '" + netcdf), HasSubstr("' to '" + netcdf + "': ")));
  taken("case1_image.nii.gz");
  SyntheticVolumesOptions options;
  options.n_cases = 1;
  options.grid = {8, 8, 8};
  EXPECT_THAT(message_of([&] { write_synthetic_volumes(folder.path(), options); }),
              HasSubstr("cannot create '" + folder.file("case1_image.nii.gz") + "'"));
  EXPECT_EQ(folder.n_files(), 3) << "nothing is left of what was not finished";
}

TEST_F(WriteRefusals, AFolderThatIsNotThere) {
  const std::string path = folder.file("none/metrics.csv");
  EXPECT_THAT(message_of([&] { write_file_atomic(path, "a,b\n"); }),
              AllOf(HasSubstr("creating " + path), HasSubstr(": No such file or directory")));
}

TEST_F(WriteRefusals, ASplitOfNothing) {
  EXPECT_THAT(message_of<UsageError>([] { make_split({}, {}, {}); }),
              HasSubstr("split: there are no cases"));
}

TEST(Hdf5Refusals, WhatADataSetDoesNotHave) {
  const std::string path = "tests/reference/data/plain.h5";
  const hdf5::File file = hdf5::File::open(path);
  EXPECT_THAT(message_of([&] { file.open_dataset("null").extents(); }),
              HasSubstr("'" + path + ":/null' has no elements (null space)"));
  EXPECT_THAT(
      message_of([&] { file.attribute<int64_t>("many"); }),
      AllOf(HasSubstr(path), HasSubstr("'many'"),
            HasSubstr("there is no such attribute; attributes here: 'fixed', 'half_number'")));
  EXPECT_THAT(message_of([&] {
                file.open_dataset("group/inner").read(Extents{0, 1}, Extents{2, 3}, DType::i32);
              }),
              AllOf(HasSubstr(path + ":/group/inner"),
                    HasSubstr("block from (0, 1) of (2, 3) is outside of extents (2, 3)")));
}

TEST(Hdf5Refusals, MoreAxesThanATensorHas) {
  TempFolder folder;
  const hdf5::Lock lock;  // opens the library, whose types are no constants
  write_by_library(folder.file("t.h5"), H5T_NATIVE_FLOAT, Extents(8, 1), creation_list({}), {1});
  const hdf5::Dataset d = hdf5::File::open(folder.file("t.h5")).open_dataset("raw");
  EXPECT_THAT(message_of([&] { d.read(); }), AllOf(HasSubstr(folder.file("t.h5") + ":/raw"),
                                                   HasSubstr("8 axes, at most 6 are supported")));
}

}  // namespace
}  // namespace bora::data::test
