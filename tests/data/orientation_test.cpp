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
  }
  EXPECT_GT(n, 30);
}

// Of every one of the 48 orders and mirrors; a channel axis and bytes go along.
TEST(Orientation, AllFortyEightKeepEveryCellInItsPlace) {
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
      // Each cell stands where it stood in space.
      const std::vector<uint8_t> moved = ras.values.to_vector<uint8_t>();
      const auto position = [](const Affine& a, const Shape& s, int64_t cell) {
        const std::array<int64_t, 3> at{cell / s[2] / s[1], cell / s[2] % s[1], cell % s[2]};
        std::array<double, 3> p{};
        for (size_t r = 0; r < 3; ++r)
          p[r] = a[r][3] + a[r][0] * static_cast<double>(at[0]) +
                 a[r][1] * static_cast<double>(at[1]) + a[r][2] * static_cast<double>(at[2]);
        return p;
      };
      for (int64_t to = 0; to < values.numel() / 2; ++to) {
        const int64_t from = moved[static_cast<size_t>(2 * to)] / 2;
        EXPECT_EQ(moved[static_cast<size_t>(2 * to + 1)], 2 * from + 1) << name;
        EXPECT_EQ(position(ras.affine, ras.values.shape(), to),
                  position(affine, values.shape(), from))
            << name;
      }
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
