// SPDX-License-Identifier: Apache-2.0
// Rows 88 to 91 for HDF5 files with raw, label and weight: axes, types, spacing, what is refused.
#include "data/hdf5_volume.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/hdf5.hpp"
#include "data/volume_axes.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/data/reference_values.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kVolumes = kReference + "volumes.h5";  // tests/reference/hdf5_volumes.py

std::unique_ptr<VolumeFile> open(const std::string& variable, const std::string& order = "") {
  return open_hdf5_volume({kVolumes, variable, order});
}

/// 100 x + 10 y + z, of channel c 1000 c more, as the script wrote it.
void expect_field(const VolumeFile& file, const Dims3& begin, const Dims3& count,
                  int64_t channels) {
  const Tensor t = file.read(begin, count, DType::f64);
  ASSERT_EQ(t.shape(), Shape({count.d, count.h, count.w, channels}));
  const double* v = t.data<double>();
  for (int64_t x = begin.d; x < begin.d + count.d; ++x)
    for (int64_t y = begin.h; y < begin.h + count.h; ++y)
      for (int64_t z = begin.w; z < begin.w + count.w; ++z)
        for (int64_t c = 0; c < channels; ++c)
          EXPECT_EQ(*v++, 1000 * c + 100 * x + 10 * y + z) << x << " " << y << " " << z;
}

TEST(Hdf5Volume, EveryOrderOfAxesGivesTheSameField) {
  struct Case {
    const char *variable, *order;
    int64_t channels;
  };
  // "named" is y, x, z by its labels.
  for (const Case& c : {Case{"raw", "", 1},
                        {"raw", "zyx", 1},
                        {"raw", "czyx", 1},
                        {"xyz", "xyz", 1},
                        {"czyx", "", 2},
                        {"czyx", "czyx", 2},
                        {"zyxc", "zyxc", 2},
                        {"named", "", 1}}) {
    SCOPED_TRACE(std::string(c.variable) + " " + c.order);
    const auto file = open(c.variable, c.order);
    EXPECT_EQ(file->info().grid, (Dims3{4, 3, 2}));
    EXPECT_EQ(file->info().channels, c.channels);
    expect_field(*file, {0, 0, 0}, {4, 3, 2}, c.channels);
    expect_field(*file, {1, 2, 0}, {3, 1, 1}, c.channels);
    expect_field(*file, {3, 2, 1}, {1, 1, 1}, c.channels);
    expect_field(*file, {2, 1, 1}, {0, 2, 1}, c.channels);
  }
  // Another order is another field: the letters are believed.
  EXPECT_EQ(open("raw", "xyz")->info().grid, (Dims3{2, 3, 4}));
}

TEST(Hdf5Volume, SaysWhatTheFieldIs) {
  const auto file = open("raw");
  const VolumeInfo& info = file->info();
  EXPECT_EQ(info.format, "HDF5");
  EXPECT_EQ(info.type, DType::f32);
  EXPECT_EQ(info.stored_type, "f32");
  EXPECT_EQ(info.unit, "m s-1");
  EXPECT_THAT(info.spacing, ElementsAre(1, 2, 3));
  EXPECT_EQ(info.spacing_unit, "um");
  EXPECT_THAT(info.chunk, ElementsAre(2, 3, 1));
  EXPECT_EQ(info.codec, "deflate 4, shuffle");
  EXPECT_GT(info.stored_bytes, 0);
  const auto xyz = open("xyz", "xyz");
  EXPECT_THAT(xyz->info().spacing, ElementsAre(0.5, 1, 1.5));
  EXPECT_EQ(xyz->info().spacing_unit, "mm");
  EXPECT_THAT(xyz->info().chunk, IsEmpty());
  EXPECT_EQ(xyz->info().codec, "none");
  EXPECT_EQ(open("zyxc", "zyxc")->info().stored_type, "f64, big-endian");
  EXPECT_EQ(open("czyx")->info().type, DType::i32);
  EXPECT_EQ(open("group/weight")->info().type, DType::f32);
  EXPECT_THAT(open("label")->info().spacing, Each(0));
}

// Row 91: the box alone is read.
TEST(Hdf5Volume, ReadsOnlyTheBox) {
  const auto file = open("xyz", "xyz");
  const int64_t before = hdf5::bytes_read();
  file->read({1, 0, 1}, {2, 3, 1}, DType::f32);
  EXPECT_EQ(hdf5::bytes_read() - before, 2 * 3 * 1 * 2);
}

TEST(Hdf5Volume, TheOnlyFieldNeedsNoName) {
  const auto file = open_hdf5_volume({kReference + "one_volume.h5", "", ""});
  EXPECT_EQ(file->info().source.variable, "entry/data/field");
  expect_field(*file, {0, 0, 0}, {4, 3, 2}, 1);
  EXPECT_THAT(message_of([] { open(""); }),
              AllOf(HasSubstr("volumes.h5"), HasSubstr("several data sets"), HasSubstr("'raw'"),
                    HasSubstr("'group/weight'"), HasSubstr("name one")));
  EXPECT_THAT(message_of([] {
                open_hdf5_volume({kReference + "plain.h5", "", ""});
              }),
              AllOf(HasSubstr("plain.h5"), HasSubstr("no data set of numbers with 3 axes"),
                    HasSubstr("half (f16, 6)")));
}

TEST(Hdf5Volume, LabelsAreWholeNumbersOrRefused) {
  const Dims3 all{4, 3, 2};
  const Tensor labels = open("label")->read({0, 0, 0}, all, DType::u8);
  EXPECT_EQ(labels.data<uint8_t>()[(3 * 3 + 2) * 2 + 1], 321 % 3);
  EXPECT_EQ(open("label")->read({0, 0, 0}, all, DType::i64).data<int64_t>()[23], 321 % 3);
  const auto refusal = [&](const char* variable, DType type) {
    return message_of([&] { open(variable)->read({0, 0, 0}, all, type); });
  };
  // (x, y, z) = (3, 2, 1) in the file's (1, 2, 3).
  EXPECT_THAT(refusal("half", DType::u8), AllOf(HasSubstr("volumes.h5', variable 'half'"),
                                                HasSubstr("the value 0.5 at cell (3, 2, 1)"),
                                                HasSubstr("not a whole number"), HasSubstr("u8")));
  EXPECT_THAT(refusal("nan", DType::i32),
              AllOf(HasSubstr("'nan'"), HasSubstr("(3, 2, 1) is missing")));
  EXPECT_THAT(refusal("negative", DType::u8),
              AllOf(HasSubstr("the value -1 at cell (2, 1, 1) is out of range")));
  EXPECT_THAT(refusal("raw", DType::u8), HasSubstr("is out of range"));
  EXPECT_THAT(refusal("big", DType::u8),
              AllOf(HasSubstr("volumes.h5:/big'"), HasSubstr("out of the range")));
  // A box without the bad cell is fine.
  EXPECT_EQ(open("half")->read({0, 0, 0}, {3, 3, 2}, DType::u8).numel(), 18);
}

TEST(Hdf5Volume, OtherFormsAreRefusedByName) {
  const auto refusal = [](const char* variable, const char* order = "") {
    return message_of([&] { open(variable, order); });
  };
  EXPECT_THAT(refusal("nothing"), AllOf(HasSubstr("volumes.h5"), HasSubstr("'nothing'"),
                                        HasSubstr("data sets here"), HasSubstr("'raw'")));
  EXPECT_THAT(refusal("group"), HasSubstr("found a group"));
  EXPECT_THAT(refusal("plane"), AllOf(HasSubstr("'plane'"), HasSubstr("2 axes; wanted 3, or 4")));
  EXPECT_THAT(refusal("five"), HasSubstr("5 axes; wanted 3, or 4"));
  EXPECT_THAT(refusal("empty"),
              AllOf(HasSubstr("'empty'"), HasSubstr("axis 1 of 2x0x4 has no cells")));
  EXPECT_THAT(refusal("text"), AllOf(HasSubstr("'text'"), HasSubstr("wanted numbers")));
  EXPECT_THAT(refusal("pairs"), AllOf(HasSubstr("'compound'"), HasSubstr("wanted numbers")));
  EXPECT_THAT(refusal("bool"), AllOf(HasSubstr("'enum'"), HasSubstr("wanted numbers")));
  EXPECT_THAT(refusal("raw", "zxx"), AllOf(HasSubstr("'raw'"), HasSubstr("order \"zxx\"")));
  EXPECT_THAT(refusal("czyx", "zyx"),
              AllOf(HasSubstr("4 axes"), HasSubstr("add c for the channel axis")));
  EXPECT_THAT(refusal("bad_size"), AllOf(HasSubstr("bad_size"), HasSubstr("element_size_um"),
                                         HasSubstr("2 numbers, wanted 3")));
  EXPECT_THAT(refusal("no_size"), AllOf(HasSubstr("spacing"), HasSubstr("a cell of 0")));
  EXPECT_THAT(message_of([] {
                open_hdf5_volume({"nowhere.h5", "raw", ""});
              }),
              HasSubstr("nowhere.h5"));
  EXPECT_THAT(message_of([] {
                open("raw")->read({0, 0, -1}, {1, 1, 1}, DType::f32);
              }),
              HasSubstr("is not inside the grid of 4x3x2"));
}

// No handle stays open behind an object, nor behind one that was refused.
TEST(Hdf5Volume, LeavesNothingOpen) {
  open("raw")->read({0, 0, 0}, {1, 1, 1}, DType::f32);
  EXPECT_THROW(open("plane"), Error);
  EXPECT_EQ(hdf5::open_objects(), 0);
}

TEST(VolumeAxes, OrdersOfLetters) {
  EXPECT_EQ(axes_from_order("", 3), (VolumeAxes{2, 1, 0, -1}));
  EXPECT_EQ(axes_from_order("", 4), (VolumeAxes{3, 2, 1, 0}));
  EXPECT_EQ(axes_from_order("zyxc", 4), (VolumeAxes{2, 1, 0, 3}));
  EXPECT_EQ(axes_from_order("zyxc", 3), (VolumeAxes{2, 1, 0, -1}));
  EXPECT_THROW(axes_from_order("xy", 3), UsageError);
  EXPECT_THROW(axes_from_order("xyzt", 4), UsageError);
  EXPECT_THROW(axes_from_order("XYZ", 3), UsageError);
}

}  // namespace
}  // namespace bora::data::test
