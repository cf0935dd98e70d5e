// SPDX-License-Identifier: Apache-2.0
// Row 88 (pairing), 89 (schema refused by name): what is found before training begins.
#include "data/wind_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "data/netcdf.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/data/reference_values.hpp"
#include "tests/data/wind_fixture.hpp"

namespace bora::data::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Four cases of 6 x 5 x 4 cells.
class WindFilesTest : public WindFolder {
 protected:
  WindFilesTest() : WindFolder(2, {6, 5, 4}) {}
  /// A wind file with another name, order, size or type.
  void rewrite(const std::string& path, const std::vector<std::string>& dims, const Tensor& values,
               const std::string& variable = "wind_speed", float first = 2.5f) {
    NetcdfWriter out(path);
    for (size_t i = 0; i < dims.size(); ++i) {
      std::vector<float> centres(static_cast<size_t>(values.size(static_cast<int>(i))));
      for (size_t k = 0; k < centres.size(); ++k) centres[k] = first + 5.0f * static_cast<float>(k);
      out.coordinate(dims[i], Tensor::from(Shape{values.size(static_cast<int>(i))}, centres));
    }
    out.variable(variable, dims, values);
    out.close();
  }
  /// The message with refuse; also expects that skip leaves `left` cases and lists one problem.
  std::string refusal(size_t left = 3) {
    config_.files.on_bad_files = "skip";
    const WindFiles files = find_wind_files(config_);
    EXPECT_THAT(files.cases, SizeIs(left));
    EXPECT_THAT(files.problems, SizeIs(1));
    EXPECT_EQ(hdf5::open_objects(), 0);
    config_.files.on_bad_files = "refuse";
    const std::string text = message_of([&] { find_wind_files(config_); });
    EXPECT_THAT(text, AllOf(HasSubstr("1 problem(s)"), HasSubstr("on_bad_files")));
    return text;
  }
};

TEST_F(WindFilesTest, GoodFilesArePaired) {
  const WindFiles files = find_wind_files(config_);
  ASSERT_THAT(files.cases, SizeIs(4));
  EXPECT_THAT(files.problems, IsEmpty());
  EXPECT_EQ(files.cases[3].name, "30VF2");
  EXPECT_EQ(files.cases[3].group, "2");
  EXPECT_EQ(files.cases[3].angle_deg, 30);
  EXPECT_EQ(files.cases[3].grid, (Dims3{6, 5, 4}));
  EXPECT_EQ(files.cases[3].wind_path, wind("30VF2"));
  EXPECT_EQ(files.cases[3].mask_path, mask("30VF2"));
}

TEST_F(WindFilesTest, UnpairedFilesAreListed) {
  fs::remove(mask("0VF1"));
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr(wind("0VF1")), HasSubstr("has no mask '0VF1_ws_building_mask.nc'")));
  fs::remove(wind("0VF1"));
  fs::remove(wind("0VF2"));
  EXPECT_THAT(refusal(2), AllOf(HasSubstr(mask("0VF2")), HasSubstr("has no wind file")));
}

TEST_F(WindFilesTest, DuplicatesAreListedAndLeftOut) {
  fs::create_directory(folder_.file("wind_speed_filled/more"));
  fs::copy(wind("0VF1"), folder_.file("wind_speed_filled/more"));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("case '0VF1' occurs 2 times"), HasSubstr("more/0VF1")));
}

// Two such links have 2^40 ways round before the system sees too many of them.
TEST_F(WindFilesTest, LinksToAFolderAboveAreNotFollowed) {
  fs::create_directory(folder_.file("wind_speed_filled/more"));
  fs::rename(wind("0VF1"), folder_.file("wind_speed_filled/more/0VF1_ws_filled.nc"));
  for (const char* name : {"a", "b"}) {
    fs::create_directory_symlink("..", folder_.file("wind_speed_filled/more/") + name);
    fs::create_directory_symlink(".", folder_.file("mask_buildings/") + name);
  }
  testing::internal::CaptureStderr();
  const WindFiles files = find_wind_files(config_);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("more/b' is a link to a folder that it lies in: it is not followed"));
  EXPECT_THAT(files.problems, IsEmpty());
  EXPECT_THAT(files.cases, SizeIs(4));
}

TEST_F(WindFilesTest, UnreadableFilesAreListedWithTheReason) {
  const std::string whole = read_file(wind("0VF1"));
  write_file(wind("0VF1"), whole.substr(0, whole.size() / 2));
  EXPECT_THAT(refusal(),
              HasSubstr("cannot open '" + wind("0VF1") +
                        "': HDF5: H5Fopen failed: the file is "
                        "truncated: it has " +
                        std::to_string(whole.size() / 2) + " of " + std::to_string(whole.size()) +
                        " bytes; was it copied or written to its end?"));
  write_file(wind("0VF1"), "");
  EXPECT_THAT(refusal(), HasSubstr("0 bytes"));
  write_file(wind("0VF1"), read_file(kReference + "classic1.nc"));
  EXPECT_THAT(refusal(), HasSubstr("nccopy"));
  fs::remove(wind("0VF1"));
  fs::create_symlink("/nowhere/at/all", wind("0VF1"));
  EXPECT_THAT(refusal(), AllOf(HasSubstr(wind("0VF1")), HasSubstr("No such file")));
}

TEST_F(WindFilesTest, NamesThatDoNotFitAreListed) {
  fs::copy(wind("0VF1"), folder_.file("wind_speed_filled/0VF1.nc"));
  EXPECT_THAT(refusal(4),
              AllOf(HasSubstr("0VF1.nc"), HasSubstr("is not called <case>_ws_filled.nc")));
  fs::remove(folder_.file("wind_speed_filled/0VF1.nc"));
  write_file(folder_.file("wind_speed_filled/README.md"), "other kinds of files do not matter");
  EXPECT_THAT(find_wind_files(config_).cases, SizeIs(4));
  fs::rename(wind("0VF1"), wind("city"));
  fs::rename(mask("0VF1"), mask("city"));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("'city'"), HasSubstr("no wind angle")));
  config_.files.angle_patterns.clear();
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("'city'"), HasSubstr("no layout"), HasSubstr("VF([0-9]+)")));
  config_.files.layout_pattern.clear();
  const WindFiles files = find_wind_files(config_);
  ASSERT_THAT(files.cases, SizeIs(4));
  EXPECT_EQ(files.cases[3].group, "city");
  EXPECT_TRUE(std::isnan(files.cases[3].angle_deg));
}

TEST_F(WindFilesTest, WrongVariableAndDimensionsAreListed) {
  const Tensor values = Tensor::zeros(Shape{6, 5, 4}, DType::f32);
  rewrite(wind("0VF1"), {"x", "y", "z"}, values, "speed");
  EXPECT_THAT(refusal(), AllOf(HasSubstr(wind("0VF1")), HasSubstr("no variable 'wind_speed'"),
                               HasSubstr("'speed'")));
  rewrite(wind("0VF1"), {"lon", "lat", "height"}, values);
  EXPECT_THAT(refusal(), AllOf(HasSubstr("no dimension 'x'"), HasSubstr("'lon', 'lat', 'height'")));
  rewrite(wind("0VF1"), {"x", "y", "z"}, Tensor::zeros(Shape{6, 5, 3}, DType::f32));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("6x5x3"), HasSubstr("its mask"), HasSubstr("6x5x4")));
  rewrite(wind("0VF1"), {"x", "y", "z"}, values, "wind_speed", 0.0f);
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("different coordinates 'x': 0 and 2.5 at cell 0, wanted the same"),
                    HasSubstr(mask("0VF1"))));
}

TEST_F(WindFilesTest, AnotherOrderOfDimensionsIsTaken) {
  rewrite(wind("0VF1"), {"z", "y", "x"}, Tensor::zeros(Shape{4, 5, 6}, DType::f64));
  EXPECT_EQ(find_wind_files(config_).cases[0].grid, (Dims3{6, 5, 4}));
}

TEST_F(WindFilesTest, ManyProblemsAreCutShort) {
  for (int i = 0; i < 30; ++i)
    write_file(folder_.file("mask_buildings/bad" + std::to_string(i) + ".nc"), "x");
  EXPECT_THAT(message_of([&] { find_wind_files(config_); }),
              AllOf(HasSubstr("30 problem(s)"), HasSubstr("and 10 more")));
}

TEST_F(WindFilesTest, EmptyAndMissingFoldersAreNamed) {
  config_.root = folder_.file("nothing");
  EXPECT_THAT(message_of([&] { find_wind_files(config_); }),
              AllOf(HasSubstr("nothing/wind_speed_filled"), HasSubstr("does not exist")));
  fs::create_directories(folder_.file("nothing/wind_speed_filled"));
  fs::create_directories(folder_.file("nothing/mask_buildings"));
  EXPECT_THAT(message_of([&] { find_wind_files(config_); }),
              AllOf(HasSubstr("no case in"), HasSubstr("<case>_ws_filled.nc")));
}

TEST_F(WindFilesTest, SettingsThatCannotBeAreUsageErrors) {
  const auto refused = [&](auto change) {
    WindConfig c = config_;
    change(c);
    return message_of<UsageError>([&] { find_wind_files(c); });
  };
  EXPECT_THAT(refused([](WindConfig& c) { c.root.clear(); }), HasSubstr("root is not set"));
  EXPECT_THAT(refused([](WindConfig& c) { c.files.axes = {"x"}; }), HasSubstr("files.axes has 1"));
  EXPECT_THAT(refused([](WindConfig& c) { c.files.mask_open = -1; }),
              HasSubstr("data.files.mask_building and data.files.mask_open are equal, -1"));
  EXPECT_THAT(refused([](WindConfig& c) {
                c.clip = {10, -1};
              }),
              HasSubstr("clip wants two numbers, the lower first, or none; it has 2: 10, -1"));
  EXPECT_THAT(refused([](WindConfig& c) { c.files.range = {3}; }),
              HasSubstr("files.range wants two numbers, the lower first, or none; it has 1"));
  EXPECT_THAT(refused([](WindConfig& c) { c.files.preflight = "some"; }),
              HasSubstr("preflight 'some', wanted auto, full or headers"));
  EXPECT_THAT(refused([](WindConfig& c) { c.normalisation = "minmax"; }),
              HasSubstr("normalisation 'minmax', wanted global, per_sample or none"));
  EXPECT_THAT(refused([](WindConfig& c) { c.files.layout_pattern = "VF"; }),
              HasSubstr("layout_pattern 'VF' has 0 groups"));
  EXPECT_THAT(refused([](WindConfig& c) { c.files.layout_pattern = "("; }),
              HasSubstr("not a regular expression"));
  EXPECT_THAT(refused([](WindConfig& c) {
                c.angle_channels = true;
                c.files.angle_patterns.clear();
              }),
              HasSubstr("angle_channels"));
  // Operations that would make labels false.
  EXPECT_THAT(refused([](WindConfig& c) { c.augment.flip_x = true; }),
              AllOf(HasSubstr("augment.flip_x"), HasSubstr("only flip_y")));
  EXPECT_THAT(refused([](WindConfig& c) { c.augment.quarter_turns = true; }),
              HasSubstr("augment.quarter_turns"));
  EXPECT_THAT(refused([](WindConfig& c) {
                c.wind_direction = "angle";
                c.augment.flip_y = true;
              }),
              HasSubstr("angle_channels = true"));
  EXPECT_THAT(refused([](WindConfig& c) {
                c.wind_direction = "angle";
                c.angle_channels = c.augment.quarter_turns = true;
                c.shape = {4, 5, 4};
              }),
              HasSubstr("square window"));
}

TEST_F(WindFilesTest, OneMaskFileIsACaseForPrediction) {
  const WindCase c = open_wind_case(config_, mask("30VF1"));
  EXPECT_EQ(c.name, "30VF1");
  EXPECT_EQ(c.grid, (Dims3{6, 5, 4}));
  EXPECT_TRUE(c.wind_path.empty());
  fs::rename(mask("30VF1"), folder_.file("my city.nc"));
  EXPECT_EQ(open_wind_case(config_, folder_.file("my city.nc")).name, "my city");
  config_.angle_channels = true;  // now the angle is needed
  EXPECT_THAT(message_of([&] { open_wind_case(config_, folder_.file("my city.nc")); }),
              HasSubstr("no wind angle"));
  EXPECT_THAT(message_of([&] { open_wind_case(config_, folder_.file("0VF1_none.nc")); }),
              AllOf(HasSubstr("0VF1_none.nc"), HasSubstr("No such file")));
}

TEST(WindFiles, TheShippedSampleIsWhole) {
  WindConfig config;
  config.root = kSample;
  const WindFiles files = find_wind_files(config);
  EXPECT_THAT(files.cases, SizeIs(57));
  EXPECT_THAT(files.problems, IsEmpty());
  for (const WindCase& c : files.cases) EXPECT_EQ(c.grid, (Dims3{64, 64, 32})) << c.name;
}

}  // namespace
}  // namespace bora::data::test
