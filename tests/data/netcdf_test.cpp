// SPDX-License-Identifier: Apache-2.0
// Rows 89 (schema, other orders, names and types) and 91 (partial read) at the level of one
// variable.
#include "data/netcdf.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

#include "data/hdf5_scales.hpp"
#include "data/permute.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/data/reference_values.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// NaN where NaN is wanted, else equal to `relative`.
void expect_values(const Tensor& found, const std::vector<double>& wanted, double relative) {
  const std::vector<double> v = found.to(DType::f64).to_vector<double>();
  ASSERT_EQ(v.size(), wanted.size());
  for (size_t i = 0; i < v.size(); ++i) {
    if (std::isnan(wanted[i]))
      EXPECT_TRUE(std::isnan(v[i])) << i << ": " << v[i];
    else
      EXPECT_LE(std::abs(v[i] - wanted[i]), relative * std::abs(wanted[i])) << i;
  }
}

// Packed, filled, unsigned, big-endian and ranged variables as netCDF4 for Python reads them.
TEST(Netcdf, ReadsWhatNetcdf4PythonReads) {
  const NetcdfFile file = NetcdfFile::open(kReference + "packed.nc");
  for (const char* name :
       {"i16", "unwritten", "plain_f64", "big_endian", "unsigned", "ranged", "bytes"}) {
    SCOPED_TRACE(name);
    const ReferenceValues wanted = reference_values("packed.nc", name);
    const VariableInfo info = file.info(name);
    EXPECT_EQ(info.dimensions, wanted.dimensions);
    EXPECT_EQ(info.extents, wanted.extents);
    // Two roundings of an f64: product and sum.
    expect_values(file.read(name, wanted.dimensions, {}, DType::f64), wanted.values, 0x1p-52);
    // One more to f32.
    expect_values(file.read(name, wanted.dimensions, {}), wanted.values, 0x1p-24 + 0x1p-50);
  }
  EXPECT_EQ(file.info("i16").units, "K");
  EXPECT_EQ(file.info("i16").type.name, "i16");
  // y is a dimension without a variable.
  EXPECT_THAT(file.variables(), ElementsAre("big_endian", "bytes", "i16", "plain_f64", "ranged",
                                            "unsigned", "unwritten", "x", "z"));
  EXPECT_THAT(file.axis("z").centres, ElementsAre(0, 2.5, 5));
  EXPECT_EQ(file.axis("z").units, "m");
  EXPECT_THAT(file.axis("y").centres, IsEmpty());
}

TEST(Netcdf, AnyOrderOfDimensionsIsTransposed) {
  const NetcdfFile file = NetcdfFile::open(kReference + "packed.nc");
  const ReferenceValues wanted = reference_values("packed.nc", "plain_f64");  // y, x, z
  const Tensor t = file.read("plain_f64", {"x", "y", "z"}, {}, DType::f64);
  ASSERT_EQ(t.shape(), Shape({5, 4, 3}));
  for (int64_t x = 0; x < 5; ++x)
    for (int64_t y = 0; y < 4; ++y)
      for (int64_t z = 0; z < 3; ++z)
        EXPECT_EQ(t.data<double>()[(x * 4 + y) * 3 + z],
                  wanted.values[static_cast<size_t>((y * 5 + x) * 3 + z)]);
}

TEST(Netcdf, ReadsOnlyTheBlock) {
  const NetcdfFile file = NetcdfFile::open(kReference + "packed.nc");
  const Tensor all = file.read("i16", {"x", "y", "z"}, {});
  const int64_t before = hdf5::bytes_read();
  const Tensor block = file.read("i16", {"x", "y", "z"}, {{1, 3}, {0, -1}, {0, 2}});
  EXPECT_EQ(hdf5::bytes_read() - before, 3 * 4 * 2 * 2);
  ASSERT_EQ(block.shape(), Shape({3, 4, 2}));
  for (int64_t i = 0; i < block.numel(); ++i) {
    const int64_t x = i / 8, y = i / 2 % 4, z = i % 2;
    const float a = block.data<float>()[i], b = all.data<float>()[((x + 1) * 4 + y) * 3 + z];
    EXPECT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << i;
  }
}

TEST(Netcdf, AxesOfOneCellThatNobodyAskedForAreLeftOut) {
  const NetcdfFile file = NetcdfFile::open(kReference + "unlimited.nc");
  const ReferenceValues wanted = reference_values("unlimited.nc", "speed");
  const Tensor t = file.read("speed", {"y", "x"}, {});
  EXPECT_EQ(t.shape(), Shape({2, 3}));
  expect_values(t, wanted.values, 0);
}

TEST(Netcdf, ReadsWhatH5netcdfWrote) {
  const NetcdfFile file = NetcdfFile::open(kReference + "h5netcdf.nc");
  const ReferenceValues wanted = reference_values("h5netcdf.nc", "wind");
  expect_values(file.read("wind", {"lat", "lon"}, {}), wanted.values, 0);
  EXPECT_EQ(file.info("wind").units, "m/s");
}

TEST(Netcdf, WrongNamesSayWhatIsThere) {
  const NetcdfFile file = NetcdfFile::open(kReference + "packed.nc");
  EXPECT_THAT(message_of([&] { file.read("wind", {"x"}, {}); }),
              AllOf(HasSubstr("packed.nc"), HasSubstr("no variable 'wind'"), HasSubstr("'i16'")));
  EXPECT_THAT(message_of([&] {
                file.read("i16", {"lon", "y", "z"}, {});
              }),
              AllOf(HasSubstr("packed.nc"), HasSubstr("variable 'i16'"),
                    HasSubstr("no dimension 'lon'"), HasSubstr("'z', 'y', 'x'")));
  EXPECT_THAT(message_of([&] {
                file.read("i16", {"x", "y"}, {});
              }),
              HasSubstr("dimension 'z' of 3 cells is not among the wanted"));
  EXPECT_THAT(message_of([&] {
                file.read("i16", {"x", "y", "z"}, {{0, 6}, {0, 4}, {0, 3}});
              }),
              HasSubstr("cells 0 to 6 of axis 'x', which has 5"));
  EXPECT_THAT(
      message_of([&] { NetcdfFile::open(kReference + "unlimited.nc").read("label", {}, {}); }),
      AllOf(HasSubstr("unlimited.nc"), HasSubstr("label"), HasSubstr("variable text")));
  EXPECT_THAT(
      message_of([&] { NetcdfFile::open(kReference + "plain.h5").read("half", {"x"}, {}); }),
      HasSubstr("no dimension 'x'"));
}

/// Output of a command, or nothing if it failed.
std::string output_of(const std::string& command) {
  std::string out;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return "";
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  return ::pclose(pipe) == 0 ? out : "";
}

/// Values that are no multiples, with a NaN.
Tensor field(const Shape& shape) {
  Tensor t = Tensor::empty(shape, DType::f32);
  for (int64_t i = 0; i < t.numel(); ++i) t.data<float>()[i] = static_cast<float>(i) / 7.0f;
  t.data<float>()[3] = std::nanf("");
  return t;
}

TEST(NetcdfWriter, WhatIsWrittenIsReadBack) {
  TempFolder folder;
  const std::string path = folder.file("a.nc");
  const Tensor values = field(Shape{3, 2, 4});
  {
    NetcdfWriter out(path);
    out.coordinate("x", Tensor::from(Shape{3}, std::vector<float>{1, 2, 3}))
        .set_attribute("units", "m");
    out.dimension("y", 2);
    out.coordinate("z", Tensor::from(Shape{4}, std::vector<double>{0, 1, 2, 3}));
    out.variable("v", {"x", "y", "z"}, values, {{2, 2, 2}, 4, true, false})
        .set_attribute("units", "m/s");
    out.variable("n", {}, Tensor::scalar(5));
    out.root().set_attribute("title", "a test");
    EXPECT_FALSE(std::filesystem::exists(path));
    out.close();
  }
  EXPECT_EQ(folder.n_files(), 1);
  EXPECT_EQ(hdf5::open_objects(), 0);
  const NetcdfFile in = NetcdfFile::open(path);
  EXPECT_THAT(in.variables(), ElementsAre("n", "v", "x", "z"));
  const Volume v = in.read_volume("v", {"x", "y", "z"});
  EXPECT_EQ(v.units, "m/s");
  EXPECT_THAT(v.axes[0].centres, ElementsAre(1, 2, 3));
  EXPECT_EQ(v.axes[0].units, "m");
  EXPECT_THAT(v.axes[1].centres, IsEmpty());
  expect_values(v.values, values.to(DType::f64).to_vector<double>(), 0);
  const Volume part = in.read_volume("v", {"z", "y", "x"}, {{1, 2}, {0, 2}, {2, 1}});
  EXPECT_THAT(part.axes[0].centres, ElementsAre(1, 2));
  EXPECT_EQ(part.values.shape(), Shape({2, 2, 1}));
}

TEST(NetcdfWriter, NcdumpReadsIt) {
  if (output_of("ncdump -h " + kReference + "packed.nc").empty())
    GTEST_SKIP() << "ncdump (package netcdf-bin) is not installed";
  TempFolder folder;
  const std::string path = folder.file("a.nc");
  {
    NetcdfWriter out(path);
    out.coordinate("x", Tensor::from(Shape{2}, std::vector<float>{1, 2}))
        .set_attribute("units", "m");
    out.dimension("y", 3);
    out.variable("v", {"x", "y"}, field(Shape{2, 3})).set_attribute("units", "m s-1");
    out.variable("w", {"y", "y"}, Tensor::zeros(Shape{3, 3}, DType::i64));
    out.root().set_attribute("title",
                             "gr\xc3\xbc\xc3\x9f"
                             "e");
    out.close();
  }
  const std::string text = output_of("ncdump " + path);
  EXPECT_THAT(text, AllOf(HasSubstr("x = 2 ;"), HasSubstr("y = 3 ;"), HasSubstr("float x(x) ;"),
                          HasSubstr("float v(x, y) ;"), HasSubstr("int64 w(y, y) ;"),
                          HasSubstr("v:units = \"m s-1\""), HasSubstr("x = 1, 2 ;")));
  EXPECT_THAT(text, HasSubstr("0, 0.1428571, 0.2857143,"));
  EXPECT_THAT(text, HasSubstr("gr\xc3\xbc\xc3\x9f"
                              "e"));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("float y(")));
  // And copies it, which reads all attributes and scales.
  EXPECT_EQ(output_of("nccopy " + path + " " + folder.file("b.nc") + " && echo copied"),
            "copied\n");
  const NetcdfFile copy = NetcdfFile::open(folder.file("b.nc"));
  EXPECT_THAT(copy.info("v").dimensions, ElementsAre("x", "y"));
}

TEST(NetcdfWriter, MistakesAreRefused) {
  TempFolder folder;
  {
    NetcdfWriter out(folder.file("a.nc"));
    out.dimension("x", 2);
    EXPECT_THAT(message_of([&] { out.dimension("x", 2); }), HasSubstr("'x' is written twice"));
    EXPECT_THAT(message_of([&] { out.variable("v", {"y"}, field(Shape{4})); }),
                HasSubstr("dimension 'y', which was not made"));
    EXPECT_THAT(message_of([&] { out.variable("v", {"x"}, field(Shape{4})); }),
                HasSubstr("has 2 cells"));
    EXPECT_THAT(message_of([&] { out.variable("v", {"x"}, Tensor::zeros(Shape{2}, DType::f16)); }),
                HasSubstr("f16"));
    // No close: nothing stays.
  }
  EXPECT_EQ(folder.n_files(), 0);
  EXPECT_THAT(message_of([] { NetcdfWriter out("/nowhere/a.nc"); }), HasSubstr("/nowhere"));
}

// A prediction is written in the input's own format: order, coordinates, attributes.
TEST(NetcdfWriter, WritesLikeAnotherFile) {
  TempFolder folder;
  const std::string path = folder.file("p.nc");
  const Tensor values = field(Shape{5, 4, 3});  // x, y, z; the variable is (z, y, x) and packed
  write_netcdf_like(path, kReference + "packed.nc", "i16", {"x", "y", "z"}, "wind_speed", values,
                    {{"history", "predicted"}});
  const NetcdfFile in = NetcdfFile::open(path);
  EXPECT_THAT(in.info("wind_speed").dimensions, ElementsAre("z", "y", "x"));
  EXPECT_EQ(in.info("wind_speed").units, "K");
  expect_values(in.read("wind_speed", {"x", "y", "z"}, {}),
                values.to(DType::f64).to_vector<double>(), 0);
  EXPECT_THAT(in.axis("x").centres, ElementsAre(0, 2.5, 5, 7.5, 10));
  EXPECT_THAT(in.axis("y").centres, IsEmpty());
  EXPECT_FALSE(in.hdf5().open_dataset("wind_speed").has_attribute("scale_factor"));
  EXPECT_EQ(in.hdf5().attribute<std::string>("history"), "predicted");
  EXPECT_THAT(
      message_of([&] {
        write_netcdf_like(path, kReference + "packed.nc", "i16", {"z", "y", "x"}, "w", values);
      }),
      HasSubstr("axis 'z' has 5 cells, 3 in"));
}

TEST(Permute, EveryOrderOfThreeAxes) {
  Tensor t = Tensor::empty(Shape{2, 3, 4}, DType::i32);
  for (int i = 0; i < 24; ++i) t.data<int32_t>()[i] = i;
  std::vector<int> order = {0, 1, 2};
  do {
    const Tensor p = permute(t, order);
    int64_t i[3];  // index in t, by its axes
    const size_t a = static_cast<size_t>(order[0]), b = static_cast<size_t>(order[1]),
                 c = static_cast<size_t>(order[2]);
    const int32_t* v = p.data<int32_t>();
    for (i[a] = 0; i[a] < t.size(order[0]); ++i[a])
      for (i[b] = 0; i[b] < t.size(order[1]); ++i[b])
        for (i[c] = 0; i[c] < t.size(order[2]); ++i[c])
          EXPECT_EQ(*v++, (i[0] * 3 + i[1]) * 4 + i[2]);
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_EQ(permute(Tensor::zeros(Shape{0, 3}, DType::u8), {1, 0}).shape(), Shape({3, 0}));
  EXPECT_THROW(permute(t, {0, 1}), Error);
  EXPECT_THROW(permute(t, {0, 1, 1}), Error);
}

// A killed process removes nothing; the next writer of the same file does, where it is sure that
// the other is dead.
TEST(NetcdfWriter, RemovesWhatKilledWritersOfTheSameFileLeft) {
  const TempFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    NetcdfWriter out(folder.file("a.nc"));
    out.dimension("x", 3);
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(folder.n_files(), 1);
  NetcdfWriter living(folder.file("a.nc"));  // takes the dead one's away
  EXPECT_EQ(folder.n_files(), 1);
  living.dimension("x", 3);
  NetcdfWriter other(folder.file("a.nc"));  // leaves the living one's
  EXPECT_EQ(folder.n_files(), 2);
  living.close();
  other.dimension("x", 4);
  other.close();
  EXPECT_EQ(folder.n_files(), 1);
}

// Two runs of one program give the same bytes, wherever their memory lies.
TEST(NetcdfWriter, BytesDoNotDependOnAddresses) {
  const TempFolder folder;
  const auto write = [&](const std::string& name, const std::array<size_t, 3>& place) {
    hdf5::File file = hdf5::File::create(folder.file(name));
    std::array<std::optional<hdf5::Dataset>, 3> axes;
    for (size_t i = 0; i < 3; ++i) {
      hdf5::Dataset& axis = axes[place[i]].emplace(file.write_dataset(
          std::string(1, "xyz"[i]), Tensor::zeros(Shape{2 + static_cast<int64_t>(i)}, DType::f32)));
      hdf5::make_scale(axis, std::string(1, "xyz"[i]), static_cast<int>(i), false);
    }
    hdf5::Dataset v = file.write_dataset("v", Tensor::zeros(Shape{2, 3, 4}, DType::f32));
    hdf5::attach_scales({{&v, {&*axes[place[0]], &*axes[place[1]], &*axes[place[2]]}}});
  };
  write("up.nc", {0, 1, 2});
  write("down.nc", {2, 1, 0});
  EXPECT_EQ(read_file(folder.file("up.nc")), read_file(folder.file("down.nc")));
  EXPECT_EQ(NetcdfFile::open(folder.file("down.nc")).info("v").dimensions,
            (std::vector<std::string>{"x", "y", "z"}));
}

}  // namespace
}  // namespace bora::data::test
