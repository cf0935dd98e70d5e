// SPDX-License-Identifier: Apache-2.0
// Which way the axes of a volume look, as nibabel says it.
#include "data/orientation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/pipeline_support.hpp"
#include "tests/data/volume_reference.hpp"

namespace bora::data::test {
namespace {

using ::testing::HasSubstr;

constexpr Affine kUnit = {{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}}};

// Sums of three squares and products of an axis of two cells: within two roundings of nibabel's.
void expect_close(const std::vector<double>& found, const std::vector<double>& wanted,
                  const std::string& what) {
  ASSERT_EQ(found.size(), wanted.size()) << what;
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], wanted[i], 1e-14 * std::max(1.0, std::abs(wanted[i])))
        << what << " " << i;
}

TEST(Orientation, NamesSizesAndCanonicalVolumesAreNibabels) {
  int n = 0;
  for (const std::string& file : volume_files("axes", "form_")) {
    ++n;
    const auto volume = open_volume({kVolumes + file, {}, {}});
    const Affine affine = *volume->info().affine;
    EXPECT_EQ(orientation_of(affine), volume_fact(file, "axes")) << file;
    const std::array<double, 3> sizes = voxel_sizes(affine);
    expect_close({sizes.begin(), sizes.end()}, volume_numbers(file, "zooms"), file);
    const Tensor values = read_all(*volume);
    const Reoriented ras = to_ras(values, affine);
    const std::vector<double> shape = volume_numbers(file, "canonical_shape");
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(ras.values.size(i), static_cast<int64_t>(shape[static_cast<size_t>(i)])) << file;
    expect_same(numbers_of(ras.values), volume_numbers(file, "canonical_values"), file);
    expect_close(numbers_of(ras.affine), volume_numbers(file, "canonical_affine"), file);
    EXPECT_EQ(orientation_of(ras.affine), "RAS") << file;
    // And back, with the channel axis.
    const Tensor back = from_ras(ras.values, affine);
    EXPECT_EQ(back.shape(), values.shape()) << file;
    expect_same(numbers_of(back), numbers_of(values), file + " back");
  }
  EXPECT_GT(n, 30);
}

// Every one of the 48 orders and mirrors goes there and back; a channel axis and bytes go along.
TEST(Orientation, AllFortyEightGoThereAndBack) {
  Tensor values = Tensor::empty(Shape{2, 3, 4, 2}, DType::u8);
  for (int64_t i = 0; i < values.numel(); ++i) values.data<uint8_t>()[i] = static_cast<uint8_t>(i);
  std::array<int, 3> order{0, 1, 2};
  std::vector<std::string> names;
  do {
    for (int signs = 0; signs < 8; ++signs) {
      Affine affine{};
      std::string name;
      for (size_t j = 0; j < 3; ++j) {
        const bool is_flipped = (signs >> j & 1) != 0;
        affine[static_cast<size_t>(order[j])][j] = is_flipped ? -2 : 2;
        name += (is_flipped ? "LPI" : "RAS")[order[j]];
      }
      EXPECT_EQ(orientation_of(affine), name);
      const Reoriented ras = to_ras(values, affine);
      EXPECT_EQ(orientation_of(ras.affine), "RAS");
      // A cell stands where it stood: that of the first value.
      const std::vector<uint8_t> moved = ras.values.to_vector<uint8_t>();
      const auto at = std::find(moved.begin(), moved.end(), 0) - moved.begin();
      const int64_t cell = at / 2, k = cell % ras.values.size(2),
                    j = cell / ras.values.size(2) % ras.values.size(1),
                    i = cell / ras.values.size(2) / ras.values.size(1);
      for (const auto& row : ras.affine)
        EXPECT_EQ(row[0] * static_cast<double>(i) + row[1] * static_cast<double>(j) +
                      row[2] * static_cast<double>(k) + row[3],
                  0)
            << name;
      EXPECT_EQ(from_ras(ras.values, affine).to_vector<uint8_t>(), values.to_vector<uint8_t>())
          << name;
      names.push_back(name);
    }
  } while (std::next_permutation(order.begin(), order.end()));
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::unique(names.begin(), names.end()) - names.begin(), 48);
}

TEST(Orientation, WhatHasNoneIsRefused) {
  Affine flat = kUnit;
  flat[2][2] = 0;
  EXPECT_THAT(message_of([&] { orientation_of(flat); }),
              HasSubstr("affine [1 0 0 0; 0 1 0 0; 0 0 0 0] is singular"));
  Affine bad = kUnit;
  bad[0][1] = NAN;
  EXPECT_THAT(message_of([&] { orientation_of(bad); }), HasSubstr("not finite"));
  EXPECT_THAT(message_of([&] {
                to_ras(Tensor::zeros(Shape{2, 2}, DType::f32), kUnit);
              }),
              HasSubstr("to_ras: wants a CPU tensor (X, Y, Z, ...), got (2, 2)"));
}

TEST(Orientation, TwoGridsAreComparedByTheirCorners) {
  const Dims3 grid{101, 50, 50};
  Affine other = kUnit;
  EXPECT_EQ(corner_distance(kUnit, other, grid), 0);
  other[0][3] = 3;
  other[2][3] = -4;
  EXPECT_EQ(corner_distance(kUnit, other, grid), 5);
  other = kUnit;
  other[1][0] = 1e-4;  // a turn that is small, but not at the far corner
  EXPECT_DOUBLE_EQ(corner_distance(kUnit, other, grid), 0.01);
  EXPECT_EQ(corner_distance(kUnit, other, {1, 50, 50}), 0);
  other[0][1] = NAN;
  EXPECT_TRUE(std::isnan(corner_distance(kUnit, other, grid)));
  EXPECT_TRUE(std::isnan(corner_distance(other, kUnit, grid)));
}

}  // namespace
}  // namespace bora::data::test
