// SPDX-License-Identifier: Apache-2.0
// Rows 88, 89: what `unet3d data inspect` says of files that are odd or damaged in a part: all that
// can be read is told, what cannot is a problem, and nothing in a file reaches the terminal as a
// command.
#include "apps/unet3d/file_report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/error.hpp"
#include "data/hdf5.hpp"
#include "tests/data/hdf5_by_library.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/support/message_of.hpp"

namespace bora::unet3d {
namespace {

using bora::testing::message_of;
using data::test::TempFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Problems = std::vector<std::string>;

/// Overwrites bytes of a file.
void spoil(const std::string& path, int64_t at, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(at);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

class FileReport : public ::testing::Test {
 protected:
  const TempFolder folder_;
  const std::string path_ = folder_.file("a.h5");
  Problems problems_;
};

TEST_F(FileReport, AttributesAreOneLineEachAndShort) {
  {
    const data::hdf5::Lock lock;
    data::hdf5::File file = data::hdf5::File::create(path_);
    data::hdf5::Dataset raw = file.write_dataset("raw", Tensor::zeros({2, 3, 4}, DType::f32));
    raw.set_attribute("history", "first\nsecond \x1b[2J Z\xfcrich");
    raw.set_attribute("log", std::string(5000, 'x'));
    raw.set_attribute("levels", std::vector<int64_t>(40, 7));
    raw.set_attribute("most", ~uint64_t{0});
    raw.set_attribute("units", "m\x1b[31m");
    file.close();
  }
  const std::string text = report_file(path_, {}, problems_);
  EXPECT_THAT(problems_, IsEmpty());
  EXPECT_THAT(text, AllOf(HasSubstr("history = \"first\\nsecond \\x1b[2J Z\\xfcrich\""),
                          HasSubstr(std::string(200, 'x') + "... (5000 bytes)\""),
                          Not(HasSubstr(std::string(201, 'x'))), HasSubstr("levels = 7, 7"),
                          HasSubstr("7, ... (40 values)"), HasSubstr("most = 18446744073709551615"),
                          HasSubstr("raw (2, 3, 4) f32 in m\\x1b[31m"), Not(HasSubstr("\x1b"))));
}

TEST_F(FileReport, OneDamagedFieldLeavesTheOthers) {
  {
    const data::hdf5::Lock lock;
    data::hdf5::File file = data::hdf5::File::create(path_);
    for (const char* name : {"label", "raw", "weight"})
      file.write_dataset(name, Tensor::full({4, 4, 4}, 1, DType::f32),
                         {.chunk = {4, 4, 4}, .deflate = 4});
    file.close();
  }
  const auto [at, bytes] = data::test::place_of_chunk(path_, {0, 0, 0});
  ASSERT_GT(bytes, 8);
  spoil(path_, at + 4, "\x55\x55\x55\x55");
  const std::string text = report_file(path_, {}, problems_);
  ASSERT_EQ(problems_.size(), 1U);
  EXPECT_THAT(problems_[0], AllOf(HasSubstr(path_), HasSubstr("raw"), HasSubstr("chunk")));
  EXPECT_THAT(text, HasSubstr("raw (4, 4, 4) f32\n    grid along x, y, z: 4x4x4 cells"));
  EXPECT_THAT(text, HasSubstr("    values: cannot be read\n"));
  EXPECT_THAT(text, HasSubstr("1 distinct value: 1: 64 (100 %)"));  // label
  EXPECT_LT(text.find("label ("), text.find("cannot be read"));
  EXPECT_GT(text.find("weight ("), text.find("cannot be read"));
}

// Volumes are not opened beside it, since its links may be those of their axes; what they are is
// told.
TEST_F(FileReport, AnArrayThatIsNotWhatItSaysLeavesTheOthers) {
  {
    const data::hdf5::Lock lock;
    data::hdf5::File file = data::hdf5::File::create(path_);
    file.write_dataset("a", Tensor::zeros({2, 2, 2}, DType::f32));
    file.write_dataset("b", Tensor::zeros({2, 2, 2}, DType::f32));
    file.close();
  }
  int64_t header = 0;
  {
    const data::hdf5::Lock lock;
    const data::hdf5::Dataset b = data::hdf5::File::open(path_).open_dataset("b");
    H5O_info_t info;
    ASSERT_GE(H5Oget_info2(b.id(), &info, H5O_INFO_BASIC), 0);
    header = static_cast<int64_t>(info.addr);
  }
  spoil(path_, header, "\x07");  // of a later version
  const std::string text = report_file(path_, {}, problems_);
  ASSERT_EQ(problems_.size(), 1U) << text;
  EXPECT_THAT(problems_[0], HasSubstr("looking for 'b' in '" + path_));
  EXPECT_THAT(text, HasSubstr("  a (2, 2, 2) f32\n    cannot be read as a volume: "));
  EXPECT_THAT(message_of([&] { report_file(path_, {.variable = "c"}, problems_); }),
              HasSubstr("has no variable 'c'; it has 'a'"));
}

// Valid HDF5: a group that holds itself, or one above it.
TEST_F(FileReport, LinksThatGoRoundInCirclesAreFollowedOnce) {
  {
    const data::hdf5::Lock lock;
    data::hdf5::File file = data::hdf5::File::create(path_);
    data::hdf5::Group group = file.create_group("g");
    group.write_dataset("raw", Tensor::zeros({2, 2, 2}, DType::f32));
    ASSERT_GE(H5Lcreate_hard(group.id(), ".", group.id(), "again", H5P_DEFAULT, H5P_DEFAULT), 0);
    ASSERT_GE(H5Lcreate_hard(file.id(), "/", group.id(), "up", H5P_DEFAULT, H5P_DEFAULT), 0);
    ASSERT_GE(H5Lcreate_external("gone.h5", "/raw", file.id(), "there", H5P_DEFAULT, H5P_DEFAULT),
              0);
    file.close();
  }
  const std::string text = report_file(path_, {}, problems_);
  EXPECT_THAT(text, AllOf(HasSubstr("  g/raw (2, 2, 2) f32"), Not(HasSubstr("again")),
                          Not(HasSubstr("up/")), HasSubstr("  there: cannot be read")));
  EXPECT_EQ(problems_.size(), 1U);  // the link to nothing
}

TEST_F(FileReport, APictureWantsOneField) {
  {
    const data::hdf5::Lock lock;
    data::hdf5::File file = data::hdf5::File::create(path_);
    for (const char* name : {"a", "b"})
      file.write_dataset(name, Tensor::zeros({2, 2, 2}, DType::f32));
    file.close();
  }
  EXPECT_THAT(
      message_of([&] { report_file(path_, {.picture = folder_.file("p.png")}, problems_); }),
      HasSubstr("'a', 'b'; name one as the variable"));
  EXPECT_EQ(folder_.n_files(), 1);
}

// A scanner's export with rows of zeros: it can be trained on, so it can be looked at.
TEST_F(FileReport, AnAffineThatSaysNothingIsSaidSo) {
  const std::string path = folder_.file("a.nii");
  std::string header(352, '\0');
  const auto put = [&](size_t at, auto value) {
    std::memcpy(header.data() + at, &value, sizeof value);
  };
  put(0, int32_t{348});
  for (const int16_t d : {3, 2, 2, 2, 1, 1, 1, 1}) {
    static size_t i = 0;
    put(40 + 2 * i++, d);
  }
  put(70, int16_t{2});  // u8
  put(72, int16_t{8});
  for (size_t i = 0; i < 8; ++i) put(76 + 4 * i, 1.0f);
  put(108, 352.0f);
  put(254, int16_t{1});  // sform of zeros
  header.replace(148, 4, "a\x1b[K");
  header.replace(344, 4, std::string("n+1\0", 4));
  std::ofstream(path, std::ios::binary) << header << std::string(8, '\1');
  const std::string text = report_file(path, {}, problems_);
  EXPECT_THAT(problems_, IsEmpty());
  EXPECT_THAT(text, AllOf(HasSubstr("orientation none (the affine is singular)"),
                          HasSubstr("\"a\\x1b[K\""), HasSubstr("1 distinct value: 1: 8")));
}

}  // namespace
}  // namespace bora::unet3d
