// SPDX-License-Identifier: Apache-2.0
// NIfTI files on the grid of another one (feature 114): the bytes that nibabel's header and numpy's
// values give.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/nifti.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/data/small_disk.hpp"
#include "tests/data/volume_reference.hpp"

namespace bora::data::test {
namespace {

using ::testing::HasSubstr;

/// The three fields of nifti_cases.py.
Tensor field(const std::string& kind) {
  const int64_t channels = kind == "two" ? 2 : 1;
  Tensor out = Tensor::empty(Shape{4, 3, 2, channels}, kind == "labels" ? DType::u8 : DType::f32);
  for (int64_t i = 0; i < 24; ++i)
    for (int64_t c = 0; c < channels; ++c) {
      if (kind == "labels")
        out.data<uint8_t>()[i] = static_cast<uint8_t>(i % 5);
      else  // numpy's linspace
        out.data<float>()[i * channels + c] =
            static_cast<float>(i == 23 ? 1.0 : -1 + static_cast<double>(i) * (2.0 / 23)) *
            static_cast<float>(c + 1);
    }
  return out;
}

TEST(NiftiLike, BytesAreThoseOfNibabel) {
  const TempFolder folder;
  for (const char* like : {"like_1le", "like_1be", "like_2le", "like_2be"})
    for (const char* kind : {"labels", "values", "two"}) {
      const std::string name = std::string(like) + "_" + kind + ".nii";
      write_nifti_like(folder.file(name), kVolumes + like + ".nii", field(kind));
      EXPECT_TRUE(read_file(folder.file(name)) == read_file(kVolumes + name)) << name;
    }
}

TEST(NiftiLike, PackedFilesHaveTheSameContentAndNoTime) {
  const TempFolder folder;
  const Tensor values = field("values");
  for (const char* name : {"a.nii.gz", "b.nii.gz"})
    write_nifti_like(folder.file(name), kVolumes + "like_1be.nii", values);
  EXPECT_EQ(read_file(folder.file("a.nii.gz")), read_file(folder.file("b.nii.gz")));
  const auto read = open_volume({folder.file("a.nii.gz"), {}, {}});
  expect_same(numbers_of(read_all(*read)), numbers_of(values), "values");
  expect_same(numbers_of(*read->info().affine), volume_numbers("like_1be.nii", "affine"), "affine");
}

// On a grid of every kind: pairs, few axes, each form.
TEST(NiftiLike, TheAffineIsKept) {
  const TempFolder folder;
  for (const std::string file :
       {"form_oblique_q1.nii", "form_oblique_s2.nii", "form_steep_q2.nii", "form_both.nii",
        "form_none.nii", "form_none_2d.nii", "form_odd_qfac.nii", "form_odd_codes.nii",
        "one_axis.nii", "times.nii", "pair_gz.hdr.gz", "pair_two.hdr"}) {
    const auto source = open_volume({kVolumes + file, {}, {}});
    const Dims3 grid = source->info().grid;
    const Tensor labels = Tensor::full(Shape{grid.d, grid.h, grid.w}, 3, DType::u8);
    write_nifti_like(folder.file("out.nii"), kVolumes + file, labels);
    const auto out = open_volume({folder.file("out.nii"), {}, {}});
    EXPECT_EQ(out->info().grid, grid) << file;
    EXPECT_EQ(out->info().channels, 1) << file;
    EXPECT_EQ(out->info().format, source->info().format) << file;
    EXPECT_EQ(out->info().spacing_unit, source->info().spacing_unit) << file;
    expect_same(numbers_of(*out->info().affine), volume_numbers(file, "affine"), file);
    EXPECT_EQ(read_all(*out, DType::u8).to_vector<uint8_t>(), labels.to_vector<uint8_t>()) << file;
  }
}

TEST(NiftiLike, SlabsOfAnyThicknessAndTypeGiveTheWhole) {
  const TempFolder folder;
  const std::string like = kVolumes + "packed.nii.gz";  // 5 x 4 x 3
  for (const DType type : {DType::u8, DType::i32, DType::f64}) {
    Tensor values = Tensor::empty(Shape{5, 4, 3, 2}, DType::f64);
    for (int64_t i = 0; i < values.numel(); ++i) values.data<double>()[i] = static_cast<double>(i);
    values = values.to(type);
    write_nifti_like(folder.file("whole.nii"), like, values);
    for (const int64_t thickness : {1, 2, 5}) {
      NiftiLikeWriter out(folder.file("slabs.nii"), {like, type, 2});
      for (int64_t x = 0; x < 5; x += thickness)
        out.write(values.rows(x, std::min<int64_t>(x + thickness, 5)));
      EXPECT_FALSE(std::filesystem::exists(folder.file("slabs.nii")));
      out.close();
      EXPECT_TRUE(read_file(folder.file("slabs.nii")) == read_file(folder.file("whole.nii")));
      std::filesystem::remove(folder.file("slabs.nii"));
    }
    const auto read = open_volume({folder.file("whole.nii"), {}, {}});
    EXPECT_EQ(read->info().type, type);
    expect_same(numbers_of(read_all(*read)), numbers_of(values), "whole");
  }
}

TEST(NiftiLike, WhatCannotBeWrittenIsToldAndLeavesNothing) {
  const TempFolder folder;
  const std::string like = kVolumes + "packed.nii.gz";
  const auto make = [&](const std::string& name, const NiftiLike& of) {
    return message_of([&] { NiftiLikeWriter(folder.file(name), of); });
  };
  EXPECT_THAT(make("out.nc", {like}), HasSubstr("wants a name that ends in .nii or .nii.gz"));
  EXPECT_THAT(make("out.nii", {like, DType::f16}), HasSubstr("NIfTI has no type f16"));
  EXPECT_THAT(make("out.nii", {like, DType::u8, 0}), HasSubstr("0 channels, wanted 1 to 32767"));
  EXPECT_THAT(make("out.nii", {folder.file("none.nii")}), HasSubstr("none.nii': No such file"));
  EXPECT_THAT(make("none/out.nii", {like}), HasSubstr("No such file"));
  {
    NiftiLikeWriter out(folder.file("out.nii"), {like});
    EXPECT_EQ(out.grid(), (Dims3{5, 4, 3}));
    EXPECT_THAT(message_of([&] {
                  out.write(Tensor::zeros(Shape{1, 4, 4}, DType::f32));
                }),
                HasSubstr("planes of shape (1, 4, 4) for a grid of 5x4x3"));
    EXPECT_THAT(message_of([&] {
                  out.write(Tensor::zeros(Shape{1, 4, 3}, DType::u8));
                }),
                HasSubstr("planes that are not f32"));
    out.write(Tensor::zeros(Shape{3, 4, 3}, DType::f32));
    EXPECT_THAT(message_of([&] {
                  out.write(Tensor::zeros(Shape{3, 4, 3}, DType::f32));
                }),
                HasSubstr("3 planes behind 3 of 5"));
    EXPECT_THAT(message_of([&] { out.close(); }), HasSubstr("3 of 5 planes were written"));
  }
  EXPECT_THAT(
      message_of([&] {
        write_nifti_like(folder.file("out.nii"), like, Tensor::zeros(Shape{4, 4, 3}, DType::f32));
      }),
      HasSubstr("values of shape (4, 4, 3) for the grid 5x4x3"));
  for (const char* name : {"out.nii", "out.nii.gz"}) {
    const SmallDisk full(100);
    EXPECT_THAT(
        message_of([&] {
          write_nifti_like(folder.file(name), like, Tensor::zeros(Shape{5, 4, 3}, DType::f32));
        }),
        AllOf(HasSubstr(name), HasSubstr("File too large")));
  }
  EXPECT_EQ(folder.n_files(), 0);
}

}  // namespace
}  // namespace bora::data::test
