// SPDX-License-Identifier: Apache-2.0
// Row 89: every type, packing and way of being missing, with the values that netCDF4 for Python and
// xarray read (tests/reference/netcdf_cases.py says where they differ, and whom we follow).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "data/netcdf.hpp"
#include "data/netcdf_volume.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/data/reference_values.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kCases = kReference + "netcdf_cases.nc";

TEST(NetcdfCases, ValuesAreThoseOfTheReference) {
  const NetcdfFile file = NetcdfFile::open(kCases);
  std::ifstream in(kReference + "netcdf_cases.txt");
  int n_variables = 0;
  for (std::string line; std::getline(in, line); ++n_variables) {
    const std::vector<std::string> parts = parts_of(line, ' ');
    SCOPED_TRACE(parts[0]);
    const Tensor found = file.read(parts[0], parts_of(parts[1], ','), {}, DType::f64);
    ASSERT_EQ(static_cast<size_t>(found.numel()), parts.size() - 3);
    for (int64_t i = 0; i < found.numel(); ++i) {
      const double wanted = std::strtod(parts[static_cast<size_t>(i) + 3].c_str(), nullptr);
      const double value = found.data<double>()[i];
      EXPECT_EQ(std::isnan(value), std::isnan(wanted)) << i << ": " << value << ", " << wanted;
      // Two roundings of an f64: product and sum.
      const double bound = std::isfinite(wanted) ? 0x1p-52 * std::abs(wanted) : 0;
      EXPECT_TRUE(std::isnan(wanted) || value == wanted || std::abs(value - wanted) <= bound)
          << i << ": " << value << ", " << wanted;
    }
  }
  EXPECT_EQ(n_variables, 55);
}

// Compared in the stored type: neighbours that one f64 stands for are told apart.
TEST(NetcdfCases, Integers64AreExact) {
  const NetcdfFile file = NetcdfFile::open(kCases);
  const int64_t begin[] = {1}, count[] = {3};
  const Tensor t = file.read_whole_block("fill_i64", begin, count);
  ASSERT_EQ(t.dtype(), DType::i64);
  EXPECT_THAT(t.to_vector<int64_t>(),
              ElementsAre(INT64_MIN + 4, (int64_t{1} << 62) + 1, int64_t{1} << 62));
  // One is missing, one is beyond i64: as f64.
  const int64_t all[] = {0}, four[] = {4};
  EXPECT_EQ(file.read_whole_block("fill_i64", all, four).dtype(), DType::f64);
  EXPECT_EQ(file.read_whole_block("fill_u64", all, four).dtype(), DType::f64);
}

TEST(NetcdfCases, TypesOfValuesAreTold) {
  const NetcdfFile file = NetcdfFile::open(kCases);
  EXPECT_EQ(file.unpacked_type("type_u8"), DType::u8);
  EXPECT_EQ(file.unpacked_type("type_i8"), DType::i32);
  EXPECT_EQ(file.unpacked_type("unsigned_i8"), DType::u8);
  EXPECT_EQ(file.unpacked_type("signed_u8"), DType::i32);
  EXPECT_EQ(file.unpacked_type("type_u32"), DType::i64);
  EXPECT_EQ(file.unpacked_type("unsigned_i32"), DType::i64);
  EXPECT_EQ(file.unpacked_type("type_f32"), DType::f32);
  EXPECT_EQ(file.unpacked_type("scaled_float"), DType::f64);
  EXPECT_TRUE(file.is_packed("offset_only"));
  EXPECT_FALSE(file.is_packed("type_u8"));
}

TEST(NetcdfCases, WhatIsNoNumberIsRefusedByName) {
  const NetcdfFile file = NetcdfFile::open(kCases);
  const auto refusal = [&](const std::string& variable, const std::vector<std::string>& axes) {
    return message_of([&] { file.read(variable, axes, {}); });
  };
  const auto names = [](const char* variable, const char* type) {
    return AllOf(HasSubstr("netcdf_cases.nc"), HasSubstr(variable), HasSubstr(type),
                 HasSubstr("wanted numbers"));
  };
  EXPECT_THAT(refusal("text", {}), names("'text'", "'variable text'"));
  EXPECT_THAT(refusal("letters", {"x"}), names("'letters'", "'text'"));
  EXPECT_THAT(refusal("table", {"x"}), names("'table'", "'compound'"));
  EXPECT_THAT(refusal("colours", {"x"}), names("'colours'", "'enum'"));
  EXPECT_THAT(refusal("ragged", {"x"}), names("'ragged'", "'variable-length list'"));
}

TEST(NetcdfCases, BadAttributesAreRefusedByName) {
  const NetcdfFile file = NetcdfFile::open(kCases);
  EXPECT_THAT(message_of([&] { file.read("bad_range", {"x"}, {}); }),
              AllOf(HasSubstr("netcdf_cases.nc"), HasSubstr("bad_range"),
                    HasSubstr("valid_range holds 3 values, wanted 2")));
  EXPECT_THAT(
      message_of([&] { file.read("bad_scale", {"x"}, {}); }),
      AllOf(HasSubstr("bad_scale"), HasSubstr("scale_factor nan"), HasSubstr("wanted finite")));
  EXPECT_THAT(
      message_of([&] { file.read("bad_fill", {"x"}, {}); }),
      AllOf(HasSubstr("bad_fill"), HasSubstr("missing_value"), HasSubstr("wanted numbers")));
}

TEST(NetcdfCases, ADimensionThatOccursTwiceIsTold) {
  const NetcdfFile file = NetcdfFile::open(kCases);
  EXPECT_THAT(file.info("square").dimensions, ElementsAre("y", "y"));
  EXPECT_THAT(message_of([&] {
                file.read("square", {"y", "x"}, {});
              }),
              AllOf(HasSubstr("netcdf_cases.nc"), HasSubstr("'square'"),
                    HasSubstr("dimension 'y' occurs more than once in 'y', 'y'")));
}

// One test for each kind of the older format: named, with the commands that convert it.
TEST(NetcdfCases, ClassicFilesAreRefusedWithTheCommand) {
  for (const auto& [file, kind] : {std::pair{"classic1.nc", "NetCDF-3 (classic, CDF-1)"},
                                   {"classic2.nc", "NetCDF-3 (64-bit offset, CDF-2)"},
                                   {"classic5.nc", "NetCDF-3 (64-bit data, CDF-5)"}}) {
    const std::string path = kReference + file;
    const auto wanted = AllOf(HasSubstr("'" + path + "'"), HasSubstr(kind),
                              HasSubstr("nccopy -k nc4 '" + path + "' out.nc"),
                              HasSubstr("ncks -4 '" + path + "' out.nc"));
    EXPECT_THAT(message_of([&] { NetcdfFile::open(path); }), wanted);
    EXPECT_THAT(message_of([&] { open_netcdf_volume({path, "v", ""}); }), wanted);
  }
}

TEST(NetcdfVolume, IsFoundAndTurned) {
  const auto file = open_netcdf_volume({kCases, "filtered_i2", ""});
  const VolumeInfo& info = file->info();
  EXPECT_EQ(info.format, "NetCDF-4");
  EXPECT_EQ(info.grid, (Dims3{4, 3, 2}));
  EXPECT_EQ(info.channels, 1);
  EXPECT_EQ(info.type, DType::i32);
  EXPECT_EQ(info.stored_type, "i16");
  EXPECT_EQ(info.codec, "deflate 4, fletcher32, shuffle");
  EXPECT_THAT(info.chunk, ElementsAre(3, 3, 1));
  EXPECT_GT(info.stored_bytes, 0);
  EXPECT_EQ(info.file_bytes, static_cast<int64_t>(std::filesystem::file_size(kCases)));
  const Tensor direct = NetcdfFile::open(kCases).read("filtered_i2", {"x", "y", "z"}, {});
  const Tensor all = file->read({0, 0, 0}, {4, 3, 2}, DType::f32);
  ASSERT_EQ(all.shape(), Shape({4, 3, 2, 1}));
  EXPECT_EQ(all.to_vector<float>(), direct.to_vector<float>());
  const Tensor whole = file->read({1, 2, 0}, {3, 1, 2}, DType::i64);
  EXPECT_EQ(whole.data<int64_t>()[5],
            static_cast<int64_t>(direct.data<float>()[3 * 6 + 2 * 2 + 1]));
  EXPECT_EQ(open_netcdf_volume({kCases, "big_f8", ""})->info().stored_type, "f64, big-endian");
  EXPECT_TRUE(is_netcdf4(kCases));
  EXPECT_FALSE(is_netcdf4(kReference + "volumes.h5"));
}

// Axes by names, by the attribute `axis`, or by the order; time as channels; spacing of
// coordinates.
TEST(NetcdfVolume, AxesAreToldByNameOrOrder) {
  const TempFolder folder;
  const std::string path = folder.file("a.nc");
  {
    NetcdfWriter out(path);
    out.coordinate("lon", Tensor::from(Shape{4}, std::vector<double>{0, 2.5, 5, 7.5}))
        .set_attribute("units", "m");
    out.coordinate("rows", Tensor::from(Shape{3}, std::vector<double>{9, 8, 7}))
        .set_attribute("axis", "Y");
    out.coordinate("Z", Tensor::from(Shape{2}, std::vector<float>{1, 4}));
    out.dimension("time", 2);
    out.dimension("a", 3);
    std::vector<float> v(48);
    std::iota(v.begin(), v.end(), 0.0f);
    const Tensor values = Tensor::from(Shape{2, 2, 3, 4}, v);
    out.variable("v", {"time", "Z", "rows", "lon"}, values);
    out.variable("odd", {"time", "a", "lon"}, Tensor::zeros(Shape{2, 3, 4}, DType::f32));
    out.close();
  }
  const auto file = open_netcdf_volume({path, "v", ""});
  EXPECT_EQ(file->info().grid, (Dims3{4, 3, 2}));
  EXPECT_EQ(file->info().channels, 2);
  EXPECT_THAT(file->info().spacing, ElementsAre(2.5, 1, 3));
  const Tensor cell = file->read({3, 1, 1}, {1, 1, 1}, DType::f32);
  EXPECT_THAT(cell.to_vector<float>(), ElementsAre(1 * 12 + 1 * 4 + 3, 24 + 1 * 12 + 1 * 4 + 3));
  EXPECT_THAT(message_of([&] {
                open_netcdf_volume({path, "odd", ""});
              }),
              AllOf(HasSubstr(path), HasSubstr("'odd'"), HasSubstr("'time', 'a', 'lon'"),
                    HasSubstr("set the order")));
  EXPECT_EQ(open_netcdf_volume({path, "odd", "zyx"})->info().grid, (Dims3{4, 3, 2}));
  EXPECT_THAT(message_of([&] {
                open_netcdf_volume({path, "", ""});
              }),
              AllOf(HasSubstr("several variables"), HasSubstr("'odd', 'v'")));
  EXPECT_THAT(message_of([&] {
                file->read({0, 0, 0}, {5, 1, 1}, DType::f32);
              }),
              AllOf(HasSubstr(path), HasSubstr("is not inside the grid of 4x3x2")));
}

TEST(NetcdfVolume, MissingLabelsAreRefusedWithTheirCell) {
  const TempFolder folder;
  const std::string path = folder.file("a.nc");
  {
    NetcdfWriter out(path);
    for (const char* name : {"z", "y", "x"}) out.dimension(name, 2);
    out.variable("v", {"z", "y", "x"},
                 Tensor::from(Shape{2, 2, 2}, std::vector<int32_t>{1, 2, 3, 1, 2, 7, 1, 0}))
        .set_attribute("_FillValue", int64_t{7});
    out.close();
  }
  const auto file = open_netcdf_volume({path, "v", ""});
  EXPECT_THAT(message_of([&] {
                file->read({0, 0, 0}, {2, 2, 2}, DType::u8);
              }),
              AllOf(HasSubstr(path), HasSubstr("'v'"), HasSubstr("at cell (1, 0, 1) is missing")));
  EXPECT_TRUE(std::isnan(file->read({1, 0, 1}, {1, 1, 1}, DType::f32).data<float>()[0]));
  EXPECT_EQ(file->read({0, 0, 0}, {1, 1, 1}, DType::u8).data<uint8_t>()[0], 1);
}

}  // namespace
}  // namespace bora::data::test
