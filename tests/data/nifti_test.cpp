// SPDX-License-Identifier: Apache-2.0
// NIfTI files as nibabel reads them (features 76, 77).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/nifti.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/data/volume_reference.hpp"

namespace bora::data::test {
namespace {

using ::testing::HasSubstr;

bool is_nifti(const std::string& file) { return !file.ends_with(".npy"); }

/// Of the names in nifti_cases.py.
bool is_version_2(const std::string& file) {
  for (const char* begin : {"two_le", "two_be", "pair_two", "like_2"})
    if (file.starts_with(begin)) return true;
  return file.starts_with("form_") && file.ends_with("2.nii");
}

VolumeSource at(const std::string& file) { return {kVolumes + file, {}, {}}; }

// All types in both byte orders, both versions, packings, pairs, scl rules, numbers of axes, forms:
// the same values and affine, bit by bit.
TEST(Nifti, EqualsNibabelCellByCell) {
  int n = 0;
  for (const std::string& file : volume_files("values", "")) {
    if (!is_nifti(file)) continue;
    ++n;
    const auto volume = open_volume(at(file));
    const VolumeInfo& info = volume->info();
    const std::vector<double> shape = volume_numbers(file, "shape");
    EXPECT_EQ(info.grid, (Dims3{static_cast<int64_t>(shape[0]), static_cast<int64_t>(shape[1]),
                                static_cast<int64_t>(shape[2])}))
        << file;
    EXPECT_EQ(info.channels, static_cast<int64_t>(shape[3])) << file;
    expect_same(numbers_of(read_all(*volume)), volume_numbers(file, "values"), file);
    ASSERT_TRUE(info.affine.has_value()) << file;
    expect_same(numbers_of(*info.affine), volume_numbers(file, "affine"), file + " affine");
    EXPECT_EQ(info.format, is_version_2(file) ? "NIfTI-2" : "NIfTI-1") << file;
  }
  EXPECT_GT(n, 90);
}

TEST(Nifti, BoxesArePartsOfTheWhole) {
  for (const char* file : {"int16_be.nii", "packed.nii.gz", "members.nii.gz", "pair.hdr",
                           "pair_gz.hdr.gz", "times.nii", "scale_small.nii", "one_axis.nii"})
    expect_boxes_of_the_whole(*open_volume(at(file)), file);
}

// As f32, each value is the f64 one rounded once.
TEST(Nifti, SinglePrecisionIsTheRoundedDouble) {
  for (const char* file : {"float64_le.nii", "int32_be.nii", "scale_small.nii", "scale_wide.nii"}) {
    const auto volume = open_volume(at(file));
    const std::vector<double> exact = numbers_of(read_all(*volume));
    const std::vector<float> found = read_all(*volume, DType::f32).to_vector<float>();
    for (size_t i = 0; i < exact.size(); ++i)
      EXPECT_TRUE(same_number(found[i], static_cast<float>(exact[i]))) << file << " " << i;
  }
}

// Integer types stay such where nothing is scaled; every bit of 64 comes through.
TEST(Nifti, WholeNumbersAreKept) {
  const auto wide = open_volume(at("int64_be.nii"));
  EXPECT_EQ(wide->info().type, DType::i64);
  const std::vector<int64_t> values = read_all(*wide, DType::i64).to_vector<int64_t>();
  EXPECT_EQ(values.front(), INT64_MIN);
  EXPECT_EQ(values.back(), INT64_MAX);
  const auto bytes = open_volume(at("uint8_le.nii"));
  EXPECT_EQ(bytes->info().type, DType::u8);
  EXPECT_EQ(read_all(*bytes, DType::u8).to_vector<uint8_t>().back(), 255);
  EXPECT_EQ(open_volume(at("uint16_le.nii"))->info().type, DType::i32);
  EXPECT_EQ(open_volume(at("uint32_le.nii"))->info().type, DType::i64);
  // Scaled, but whole in every cell: as labels, too.
  const auto ct = open_volume(at("scale_ct.nii"));
  EXPECT_TRUE(ct->info().is_scaled);
  EXPECT_EQ(numbers_of(read_all(*ct, DType::i32)), numbers_of(read_all(*ct)));
}

TEST(Nifti, WhatIsNoWholeNumberOfTheTypeIsToldWithItsCell) {
  const auto message = [&](const char* file, DType type, const Dims3& begin = {0, 0, 0}) {
    const auto volume = open_volume(at(file));
    const Dims3 grid = volume->info().grid;
    return message_of([&] {
      volume->read(begin, {grid.d - begin.d, grid.h - begin.h, grid.w - begin.w}, type);
    });
  };
  EXPECT_THAT(
      message("int16_le.nii", DType::u8),
      HasSubstr("int16_le.nii': cell (0, 0, 0) is -32768, wanted a whole number of type u8"));
  EXPECT_THAT(message("float32_le.nii", DType::i32), HasSubstr("cell (0, 0, 0) is nan"));
  EXPECT_THAT(message("float32_le.nii", DType::i32, {1, 0, 0}), HasSubstr("cell (1, "));
  EXPECT_THAT(message("scale_shift.nii", DType::u8), HasSubstr("is -0.5"));
  EXPECT_THAT(message("uint64_le.nii", DType::i64, {3, 2, 1}),
              HasSubstr("is 18446744073709551615"));
  EXPECT_THAT(message("times.nii", DType::u8), HasSubstr("of channel "));
  EXPECT_THAT(message("uint8_le.nii", DType::f16), HasSubstr("wants f32, f64, u8, i32 or i64"));
}

TEST(Nifti, InfoSaysWhatTheFileIs) {
  const VolumeInfo a = open_volume(at("like_1be.nii"))->info();
  EXPECT_EQ(a.stored_type, "i16, big-endian");
  EXPECT_TRUE(a.is_scaled);
  EXPECT_EQ(a.spacing_unit, "mm");
  EXPECT_EQ(a.codec, "none");
  EXPECT_EQ(a.channels, 2);
  EXPECT_EQ(a.stored_bytes, 4 * 3 * 2 * 2 * 2);
  EXPECT_EQ(a.file_bytes, 352 + a.stored_bytes);
  EXPECT_TRUE(a.chunk.empty());
  const VolumeInfo b = open_volume(at("packed.nii.gz"))->info();
  EXPECT_EQ(b.codec, "gzip");
  EXPECT_EQ(b.stored_bytes, b.file_bytes);
  EXPECT_EQ(b.spacing, (std::array<double, 3>{2, 1.5, 3}));
}

// Either name of a pair, whatever the case and the packing of the other.
TEST(Nifti, EitherNameOfAPairOpensIt) {
  const std::vector<double> wanted = volume_numbers("pair.hdr", "values");
  for (const char* name : {"pair.img", "pair_gz.img.gz"})
    expect_same(numbers_of(read_all(*open_volume(at(name)))), wanted, name);
  const TempFolder folder;
  write_file(folder.file("A.HDR"), read_file(kVolumes + "pair.hdr"));
  write_file(folder.file("A.IMG.GZ"), read_file(kVolumes + "pair_gz.img.gz"));
  for (const char* name : {"A.HDR", "A.IMG.GZ"})
    expect_same(numbers_of(read_all(*open_volume({folder.file(name), {}, {}}))), wanted, name);
}

// A plane of a large file reads that plane: the file has a hole of 8 GB that nobody could hold.
TEST(Nifti, ABoxOfAPlainFileIsReadAlone) {
  const TempFolder folder;
  std::string header = read_file(kVolumes + "uint8_le.nii").substr(0, 352);
  const int16_t dims[] = {3, 2048, 2048, 2048};
  std::memcpy(header.data() + 40, dims, sizeof dims);
  write_file(folder.file("big.nii"), header);
  std::filesystem::resize_file(folder.file("big.nii"), 352 + (uint64_t{1} << 33));
  const auto volume = open_volume({folder.file("big.nii"), {}, {}});
  const Tensor box = volume->read({1000, 1000, 2000}, {8, 8, 8}, DType::u8);
  EXPECT_EQ(box.to_vector<uint8_t>(), std::vector<uint8_t>(512, 0));
}

}  // namespace
}  // namespace bora::data::test
