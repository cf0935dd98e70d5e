// SPDX-License-Identifier: Apache-2.0
// Row 89: bounds of a valid range that the stored type does not hold are compared as numbers
// (docs/data/netcdf.md).  The netCDF4 package leaves them out instead, so there is no reference but
// the numbers themselves.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "data/netcdf.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data::test {
namespace {

/// Which of the values are missing ('-') when they are read.
template <class T>
std::string missing_of(const std::vector<T>& values, const char* attribute, double bound) {
  TempFolder folder;
  const std::string path = folder.file("v.nc");
  const auto n = static_cast<int64_t>(values.size());
  NetcdfWriter writer(path);
  writer.dimension("x", n);
  writer.variable("v", {"x"}, Tensor::from(Shape{n}, values)).set_attribute(attribute, bound);
  writer.close();
  std::string out;
  for (const double v :
       NetcdfFile::open(path).read("v", {"x"}, {}, DType::f64).template to_vector<double>())
    out += std::isnan(v) ? '-' : '+';
  return out;
}

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(NetcdfBounds, BeyondAllValuesOfTheTypeNoneOrAllAreValid) {
  const std::vector<uint8_t> bytes{0, 1, 100, 200};
  EXPECT_EQ(missing_of(bytes, "valid_min", 300), "----");
  EXPECT_EQ(missing_of(bytes, "valid_max", 300), "++++");
  EXPECT_EQ(missing_of(bytes, "valid_min", -300), "++++");
  EXPECT_EQ(missing_of(bytes, "valid_max", -300), "----");
  const std::vector<int32_t> integers{-5, 0, 5, 2147483647};
  EXPECT_EQ(missing_of(integers, "valid_min", 1e10), "----");
  EXPECT_EQ(missing_of(integers, "valid_max", 1e10), "++++");
  EXPECT_EQ(missing_of(integers, "valid_min", -1e10), "++++");
  EXPECT_EQ(missing_of(integers, "valid_max", -1e10), "----");
  EXPECT_EQ(missing_of(integers, "valid_min", kInfinity), "----");
  EXPECT_EQ(missing_of(integers, "valid_max", kInfinity), "++++");
  const std::vector<int64_t> wide{-5, 0, 5, std::numeric_limits<int64_t>::max()};
  EXPECT_EQ(missing_of(wide, "valid_min", 1e30), "----");
  EXPECT_EQ(missing_of(wide, "valid_max", -1e30), "----");
}

TEST(NetcdfBounds, BetweenTwoValuesOfTheTypeTheNextOneInsideCounts) {
  const std::vector<int32_t> integers{-2, -1, 0, 1, 2};
  EXPECT_EQ(missing_of(integers, "valid_min", 0.5), "---++");
  EXPECT_EQ(missing_of(integers, "valid_min", -0.5), "--+++");
  EXPECT_EQ(missing_of(integers, "valid_max", 0.5), "+++--");
  EXPECT_EQ(missing_of(integers, "valid_max", -0.5), "++---");
  EXPECT_EQ(missing_of(integers, "valid_min", 1), "---++");
  EXPECT_EQ(missing_of(integers, "valid_max", 1), "++++-");
}

TEST(NetcdfBounds, ThatAreNoNumberBoundNothing) {
  EXPECT_EQ(missing_of<int32_t>({-1, 0, 1}, "valid_min", kNaN), "+++");
  EXPECT_EQ(missing_of<float>({-1, 0, 1}, "valid_max", kNaN), "+++");
}

}  // namespace
}  // namespace bora::data::test
