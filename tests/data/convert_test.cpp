// SPDX-License-Identifier: Apache-2.0
// data convert: the same values, types, affine and units in chunks that fit the patch.
#include "data/convert.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>

#include "data/netcdf.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor counted(const Shape& shape, int64_t most) {
  std::vector<int32_t> v(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<int32_t>(static_cast<int64_t>(i) % most);
  return Tensor::from(shape, v);
}

std::vector<double> values_of(const std::string& path, const std::string& name) {
  const auto volume = open_volume({path, name, {}});
  return volume->read({0, 0, 0}, volume->info().grid, DType::f64).to_vector<double>();
}

TEST(Convert, Hdf5FieldsKeepValuesTypesAffineAndUnits) {
  TempFolder folder;
  const std::string in = folder.file("in.h5"), out = folder.file("out.h5");
  const std::vector<double> affine{0.5, 0, 0, -1, 0, 2, 0, -2, 0, 0, 3, -3};
  {
    hdf5::File file = hdf5::File::create(in);
    // Axes (z, y, x), as HDF5 volumes are taken without names.
    for (const auto& [name, type] : std::vector<std::pair<std::string, std::string>>{
             {"a", "i16"}, {"b", "u8"}, {"c", "f32"}, {"d", "u16"}, {"e", "f64"}}) {
      hdf5::Dataset d = file.create_dataset(name, {7, 9, 11}, type);
      d.write(counted({7, 9, 11}, 200));
      d.set_attribute("affine", affine);
      d.set_attribute("units", "HU");
      d.set_attribute("spacing", std::vector<double>{3, 2, 0.5});
      d.set_attribute("spacing_unit", "mm");
    }
    hdf5::Dataset four = file.create_dataset("f", {2, 7, 9, 11}, std::string("i16"));
    four.write(counted({2, 7, 9, 11}, 500));
    file.close();
  }
  std::vector<ConvertField> fields;
  for (const char* name : {"a", "b", "c", "d", "e", "f"}) fields.push_back({name, {in, name, {}}});
  ConvertOptions options{.patch = {8, 8, 0}, .threads = 2, .codec = {4, true}, .verify = true};
  const Converted done = convert_to_hdf5(out, fields, options);
  EXPECT_EQ(done.chunk, (Dims3{8, 8, 7}));
  EXPECT_EQ(done.bytes_after, static_cast<int64_t>(std::filesystem::file_size(out)));
  for (const ConvertField& f : fields) {
    EXPECT_EQ(values_of(out, f.name), values_of(in, f.name)) << f.name;
    const auto before = open_volume({in, f.name, {}}), after = open_volume({out, f.name, {}});
    EXPECT_EQ(after->info().stored_type, before->info().stored_type) << f.name;
    EXPECT_EQ(after->info().grid, (Dims3{11, 9, 7}));
    EXPECT_EQ(after->info().channels, f.name == "f" ? 2 : 1);
    EXPECT_EQ(after->info().affine, before->info().affine);
    EXPECT_EQ(after->info().spacing, before->info().spacing);
    EXPECT_EQ(after->info().spacing_unit, before->info().spacing_unit);
    EXPECT_EQ(after->info().unit, before->info().unit);
    EXPECT_EQ(after->info().codec, "deflate 4, shuffle");
  }
  ASSERT_TRUE(open_volume({out, "a", {}})->info().affine.has_value());
  EXPECT_EQ((*open_volume({out, "a", {}})->info().affine)[2][3], -3);
  EXPECT_EQ(open_volume({out, "a", {}})->info().unit, "HU");
  EXPECT_EQ(folder.n_files(), 2);  // nothing temporary is left
}

// x of the file runs to the back, y to the left, z down.
TEST(Convert, VolumesAreTurnedToRightFrontAndUpWithTheirAffine) {
  TempFolder folder;
  const std::string in = folder.file("in.h5"), out = folder.file("out.h5");
  {
    hdf5::File file = hdf5::File::create(in);
    hdf5::Dataset d = file.create_dataset("raw", {2, 3, 4}, std::string("i16"));
    d.write(counted({2, 3, 4}, 100));
    d.set_attribute("DIMENSION_LABELS", std::vector<std::string>{"x", "y", "z"});
    d.set_attribute("affine", std::vector<double>{0, -3, 0, 10, -2, 0, 0, 20, 0, 0, -4, 30});
    d.set_attribute("spacing", std::vector<double>{2, 3, 4});
    hdf5::Dataset without = file.create_dataset("bare", {2, 3, 4}, std::string("i16"));
    without.write(counted({2, 3, 4}, 100));
    file.close();
  }
  const ConvertOptions options{.patch = {}, .codec = {}, .verify = true, .to_ras = true};
  convert_to_hdf5(out, {{"raw", {in, "raw", {}}}}, options);
  const auto turned = open_volume({out, "raw", {}}), before = open_volume({in, "raw", {}});
  EXPECT_EQ(turned->info().grid, (Dims3{3, 2, 4}));
  EXPECT_EQ(turned->info().spacing, (std::array<double, 3>{3, 2, 4}));
  EXPECT_EQ(*turned->info().affine, (Affine{{{3, 0, 0, 4}, {0, 2, 0, 18}, {0, 0, 4, 18}}}));
  for (int64_t x = 0; x < 3; ++x)
    for (int64_t y = 0; y < 2; ++y)
      for (int64_t z = 0; z < 4; ++z)
        EXPECT_EQ(turned->read({x, y, z}, {1, 1, 1}, DType::f64).to_vector<double>(),
                  before->read({1 - y, 2 - x, 3 - z}, {1, 1, 1}, DType::f64).to_vector<double>());
  EXPECT_THAT(message_of([&] {
                convert_to_hdf5(folder.file("no.h5"), {{"raw", {in, "bare", {}}}}, options);
              }),
              AllOf(HasSubstr("in.h5' has no affine"), HasSubstr("--orientation=stored")));
}

TEST(Convert, AFailureLeavesWhatWasThere) {
  TempFolder folder;
  const std::string in = folder.file("in.h5"), out = folder.file("out.h5");
  hdf5::File file = hdf5::File::create(in);
  file.write_dataset("raw", counted({8, 8, 8}, 100), {{4, 8, 8}, 1, false});
  file.close();
  const ConvertOptions options{.patch = {4, 4, 4}, .threads = 1, .codec = {}, .verify = true};
  convert_to_hdf5(out, {{"raw", {in, "raw", {}}}}, options);
  const std::vector<double> before = values_of(out, "raw");
  EXPECT_THAT(
      message_of([&] {
        convert_to_hdf5(out, {{"raw", {in, "raw", {}}}, {"label", {in, "no", {}}}}, options);
      }),
      AllOf(HasSubstr("out.h5"), HasSubstr("in.h5"), HasSubstr("'no'")));
  EXPECT_EQ(values_of(out, "raw"), before);
  EXPECT_EQ(folder.n_files(), 2);
}

TEST(Convert, NetcdfKeepsDimensionsCoordinatesPackingAndAttributes) {
  TempFolder folder;
  const std::string in = folder.file("in.nc"), out = folder.file("out.nc");
  {
    NetcdfWriter w(in);
    w.coordinate("x", Tensor::from(Shape{5}, std::vector<float>{0, 1, 2, 3, 4}))
        .set_attribute("units", "m");
    w.dimension("y", 6);
    w.dimension("z", 7);
    hdf5::Dataset& v = w.variable("speed", {"z", "y", "x"}, counted({7, 6, 5}, 90));
    v.set_attribute("units", "m s-1");
    v.set_attribute("scale_factor", 0.5);
    w.root().set_attribute("title", "a test");
    w.close();
  }
  const ConvertOptions options{
      .patch = {0, 0, 0}, .threads = 1, .codec = {1, true}, .verify = true};
  convert_netcdf(in, "speed", out, options);
  const NetcdfFile a = NetcdfFile::open(in), b = NetcdfFile::open(out);
  EXPECT_EQ(b.variables(), a.variables());
  EXPECT_EQ(b.info("speed").dimensions, a.info("speed").dimensions);
  EXPECT_EQ(b.info("speed").units, "m s-1");
  EXPECT_EQ(b.info("speed").type.name, "i32");
  EXPECT_EQ(b.axis("x").centres, a.axis("x").centres);
  EXPECT_EQ(b.axis("x").units, "m");
  EXPECT_EQ(b.hdf5().attribute<std::string>("title"), "a test");
  EXPECT_EQ(b.read("speed", {"x", "y", "z"}, {}).to_vector<float>(),
            a.read("speed", {"x", "y", "z"}, {}).to_vector<float>());
  EXPECT_THAT(b.hdf5().open_dataset("speed").chunk(), ElementsAre(7, 6, 5));
  EXPECT_EQ(b.hdf5().open_dataset("speed").storage().deflate, 1);
}

// Nothing is lost in silence: what the new file could not hold is refused by name.
TEST(Convert, WhatCannotBeKeptOfANetcdfFileIsNamed) {
  TempFolder folder;
  const std::string in = folder.file("in.nc"), out = folder.file("out.nc");
  {
    NetcdfWriter w(in);
    for (const char* name : {"x", "y", "z"}) w.dimension(name, 4);
    w.variable("speed", {"x", "y", "z"}, counted({4, 4, 4}, 9));
    w.variable("map", {"x", "y"}, counted({4, 4}, 9));
    w.close();
  }
  const ConvertOptions options{.patch = {4, 4, 4}, .threads = 1, .codec = {}, .verify = true};
  const auto refusal = [&](const std::string& variable) {
    return message_of([&] { convert_netcdf(in, variable, out, options); });
  };
  EXPECT_THAT(refusal("map"), AllOf(HasSubstr("converting '" + in + "' to '" + out + "'"),
                                    HasSubstr("variable 'map' has 2 dimensions, wanted 3")));
  EXPECT_THAT(refusal("speed"), HasSubstr("variable 'map' of 2 dimensions would be lost; convert "
                                          "files of one field"));
  EXPECT_THAT(refusal("none"), HasSubstr("has no variable 'none'; it has 'map', 'speed'"));
  {
    hdf5::File file = hdf5::File::create(in);
    file.create_dataset("speed", Shape{4, 4, 4}, "i32", {}).write(counted({4, 4, 4}, 9));
    file.close();
  }
  EXPECT_THAT(refusal("speed"), HasSubstr("axis 0 of 'speed' has no name"));
  EXPECT_EQ(folder.n_files(), 1);  // nothing is left of a refused one
}

TEST(Convert, CodecsAreMeasuredOnTheDataAndChosenByTheStorage) {
  TempFolder folder;
  const std::string in = folder.file("in.h5");
  hdf5::File file = hdf5::File::create(in);
  file.write_dataset("raw", counted({40, 40, 40}, 7));
  file.close();
  const ConvertOptions options{.patch = {16, 16, 16}, .threads = 2, .codec = {}, .verify = false};
  const auto figures = measure_codecs({in, "raw", {}}, options, folder.path());
  ASSERT_EQ(figures.size(), 7u);
  EXPECT_EQ(figures[0].codec.text(), "none");
  EXPECT_DOUBLE_EQ(figures[0].size_ratio, 1);
  for (size_t i = 1; i < figures.size(); ++i) {
    EXPECT_GT(figures[i].size_ratio, 3) << figures[i].codec.text();
    EXPECT_GT(figures[i].patch_ms, 0);
    EXPECT_LT(figures[i].patch_bytes, figures[0].patch_bytes);
  }
  EXPECT_NE(best_codec(figures, 1e3), 0u);  // storage of 1 kB/s: only size counts
  EXPECT_EQ(folder.n_files(), 1);
  // Equal times within 5 %: the smallest.
  const std::vector<CodecFigures> made{
      {{}, 1, 10, 0, 0}, {{4, false}, 3, 10.4, 0, 0}, {{6, false}, 4, 11, 0, 0}};
  EXPECT_EQ(best_codec(made, 1e9), 1u);
}

// Kept chunks once answered the trials' reads: their times were those of no codec.
TEST(Convert, CodecsAreMeasuredWithoutKeptChunks) {
  TempFolder folder;
  const std::string in = folder.file("in.h5");
  hdf5::File file = hdf5::File::create(in);
  file.write_dataset("raw", counted({20, 20, 20}, 7), {.chunk = {10, 10, 10}, .deflate = 4});
  file.close();
  std::filesystem::last_write_time(
      in, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  const auto read = [&] {
    for (int i = 0; i < 2; ++i)
      hdf5::File::open(in).open_dataset("raw").read({{0, 0, 0}}, {{4, 4, 4}}, DType::i32);
    return hdf5::chunk_cache_bytes();
  };
  hdf5::set_chunk_cache(hdf5::kDefaultChunkCacheBytes);
  ASSERT_GT(read(), 0);
  const ConvertOptions options{.patch = {8, 8, 8}, .threads = 1, .codec = {}, .verify = false};
  measure_codecs({in, "raw", {}}, options, folder.path());
  EXPECT_EQ(hdf5::chunk_cache_bytes(), 0);
  EXPECT_GT(read(), 0);  // as before
}

TEST(Convert, NamesOfCodecsGoThereAndBack) {
  for (const char* text : {"none", "deflate1", "deflate9+shuffle"})
    EXPECT_EQ(Codec::from(text).text(), text);
  for (const char* text :
       {"", "zstd", "deflate0", "deflate10", "deflate4+", "deflate4 ", "deflate"})
    EXPECT_THROW(Codec::from(text), UsageError) << text;
}

}  // namespace
}  // namespace bora::data::test
