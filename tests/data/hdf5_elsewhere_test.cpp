// SPDX-License-Identifier: Apache-2.0
// Row 88: data sets whose values lie in other files.  For what is missing there the HDF5 library
// gives fill values without a word; here it is an error that names the other file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "data/volume_file.hpp"
#include "tests/data/hdf5_by_library.hpp"
#include "tests/support/message_of.hpp"

namespace bora::data::test {
namespace {

using bora::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Elsewhere : public ::testing::Test {
 protected:
  /// "raw" of 4 x 3 x 2 whose first two planes come from `first`, the others from `second`.
  void write_virtual(const std::string& first, const std::string& second) const {
    const hdf5::Lock lock;
    const hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    const hid_t space = H5Screate_simple(3, sizes({4, 3, 2}).data(), nullptr);
    const hid_t source = H5Screate_simple(3, sizes({2, 3, 2}).data(), nullptr);
    H5Sselect_hyperslab(source, H5S_SELECT_SET, sizes({0, 0, 0}).data(), nullptr,
                        sizes({2, 3, 2}).data(), nullptr);  // "all" would not say how many
    for (int64_t i = 0; i < 2; ++i) {
      H5Sselect_hyperslab(space, H5S_SELECT_SET, sizes({2 * i, 0, 0}).data(), nullptr,
                          sizes({2, 3, 2}).data(), nullptr);
      H5Pset_virtual(list, space, (i == 0 ? first : second).c_str(), "raw", source);
    }
    H5Sclose(source);
    H5Sclose(space);
    write_by_library(path_, H5T_NATIVE_FLOAT, {4, 3, 2}, list, {});
  }
  void write_source(const std::string& name, double value, int64_t planes = 2) const {
    const hdf5::Lock lock;
    write_by_library(folder_.file(name), H5T_NATIVE_FLOAT, {planes, 3, 2}, creation_list({}),
                     std::vector<double>(static_cast<size_t>(6 * planes), value));
  }
  std::vector<float> values() const {
    return open_volume({path_, "raw", "xyz"})
        ->read({0, 0, 0}, {4, 3, 2}, DType::f32)
        .to_vector<float>();
  }
  std::string refusal() const {
    return message_of([&] { values(); });
  }

  const TempFolder folder_;
  const std::string path_ = folder_.file("a.h5");
};

TEST_F(Elsewhere, AVirtualDataSetIsReadFromItsSources) {
  write_source("one.h5", 1);
  write_source("two.h5", 2);
  write_virtual("one.h5", "two.h5");
  std::vector<float> wanted(24, 1);
  std::fill(wanted.begin() + 12, wanted.end(), 2.0f);
  EXPECT_EQ(values(), wanted);
}

TEST_F(Elsewhere, AMissingSourceIsNamed) {
  write_source("one.h5", 1);
  write_virtual("one.h5", "two.h5");
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr(path_), HasSubstr("its values lie in the file 'two.h5', which "
                                                "is not there")));
  std::filesystem::create_directory(folder_.file("two.h5"));
  EXPECT_THAT(refusal(), HasSubstr("'two.h5', which is not there"));
  std::filesystem::remove(folder_.file("two.h5"));
  std::ofstream(folder_.file("two.h5")) << "no HDF5";
  EXPECT_THAT(refusal(), AllOf(HasSubstr("two.h5"), HasSubstr("is not an HDF5")));
}

TEST_F(Elsewhere, ASourceThatHoldsLessIsNamed) {
  write_source("one.h5", 1);
  write_source("two.h5", 2, 1);
  write_virtual("one.h5", "two.h5");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("two.h5:/raw' has 1 elements on axis 0, wanted 2")));
}

TEST_F(Elsewhere, NumberedSourcesAreRefused) {
  {
    const hdf5::Lock lock;
    const hid_t list = H5Pcreate(H5P_DATASET_CREATE);
    const Extents most{static_cast<int64_t>(H5S_UNLIMITED), 3, 2};
    const hid_t space = H5Screate_simple(3, sizes({4, 3, 2}).data(), sizes(most).data());
    const hid_t source = H5Screate_simple(3, sizes({2, 3, 2}).data(), nullptr);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, sizes({0, 0, 0}).data(), sizes({2, 1, 1}).data(),
                        sizes({static_cast<int64_t>(H5S_UNLIMITED), 1, 1}).data(),
                        sizes({2, 3, 2}).data());
    ASSERT_GE(H5Pset_virtual(list, space, "part%b.h5", "raw", source), 0);
    const hid_t file = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t set =
        H5Dcreate2(file, "raw", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, list, H5P_DEFAULT);
    ASSERT_GE(set, 0);
    H5Dclose(set);
    H5Fclose(file);
    for (const hid_t s : {source, space}) H5Sclose(s);
    H5Pclose(list);
  }
  write_source("part0.h5", 1);
  write_source("part1.h5", 1);
  EXPECT_THAT(message_of([&] { hdf5::File::open(path_).open_dataset("raw").read(); }),
              AllOf(HasSubstr("a virtual data set of numbered sources ('part%b.h5'"),
                    HasSubstr("h5repack -l CONTI")));
}

TEST_F(Elsewhere, ExternalStorageMustBeThereAndLongEnough) {
  const std::string raw = folder_.file("x.bin");
  {
    const hdf5::Lock lock;
    const hid_t list = creation_list({});
    H5Pset_external(list, raw.c_str(), 100, 96);
    write_by_library(path_, H5T_NATIVE_FLOAT, {4, 3, 2}, list, std::vector<double>(24, 5));
  }
  EXPECT_EQ(values(), std::vector<float>(24, 5));
  std::filesystem::resize_file(raw, 195);
  EXPECT_THAT(refusal(), AllOf(HasSubstr(path_), HasSubstr("the file '" + raw +
                                                           "', which has 195 bytes, "
                                                           "wanted 196")));
  std::filesystem::remove(raw);
  EXPECT_THAT(refusal(), HasSubstr("the file '" + raw + "', which is not there"));
}

}  // namespace
}  // namespace bora::data::test
