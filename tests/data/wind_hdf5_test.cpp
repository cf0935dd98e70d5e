// SPDX-License-Identifier: Apache-2.0
// Rows 88 to 91 for wind cases that come otherwise: one HDF5 file with raw (mask) and label (wind)
// for each case, and list files and manifests instead of a search.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "data/permute.hpp"
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

class WindOtherwise : public WindDatasetTest {
 protected:
  /// Every case as h5/<case>.h5, the axes in this order; "c": of one cell.
  void write_hdf5(const std::vector<int>& order, bool with_channel = false) {
    for (const WindCase& c : find_wind_files(config_).cases) {
      fs::create_directories(folder_.file("h5"));
      hdf5::File out = hdf5::File::create(folder_.file("h5/" + c.name + ".h5"));
      for (const auto& [name, path, variable] : {std::tuple{"raw", c.mask_path, "building_mask"},
                                                 {"label", c.wind_path, "wind_speed"}}) {
        Tensor t = permute(NetcdfFile::open(path).read(variable, {"x", "y", "z"}, {}), order);
        if (with_channel) t = t.reshape(Shape{1, t.size(0), t.size(1), t.size(2)});
        std::vector<int64_t> chunk = {4, 3, 2};
        if (with_channel) chunk.insert(chunk.begin(), 1);
        out.write_dataset(name, t, {chunk, 4, true, false});
      }
      out.close();
    }
  }
  WindConfig hdf5_config() const {
    WindConfig config = config_;
    config.files.wind_folder = config.files.mask_folder = "h5";
    config.files.wind_suffix = config.files.mask_suffix = ".h5";
    config.files.mask_variable = "raw";
    config.files.wind_variable = "label";
    return config;
  }
  void write_text(const std::string& name, const std::string& text) {
    std::ofstream(folder_.file(name)) << text;
  }
  WindFiles listed(const std::string& name) {
    config_.files.list = name;
    return find_wind_files(config_);
  }
  std::string refusal(const std::string& name) {
    return message_of([&] { listed(name); });
  }
};

TEST_F(WindOtherwise, Hdf5CasesEqualTheNetcdfPairs) {
  write_hdf5({2, 1, 0});
  config_.shape = {8, 8, 5};
  const WindDataset pairs(config_), files(hdf5_config());
  ASSERT_EQ(files.size(), pairs.size());
  for (int64_t i = 0; i < pairs.size(); ++i) {
    EXPECT_EQ(files.name(i), pairs.name(i));
    EXPECT_EQ(files.group(i), pairs.group(i));
    EXPECT_EQ(files.at(i).wind_path, files.at(i).mask_path);
    const RngKey key{3, static_cast<uint64_t>(i)};
    EXPECT_TRUE(
        same(files.read(i, WindowChoice::centred()), pairs.read(i, WindowChoice::centred())));
    EXPECT_TRUE(
        same(files.read(i, WindowChoice::random(key)), pairs.read(i, WindowChoice::random(key))));
    EXPECT_EQ(files.read_wind(i).values.to_vector<float>(),
              pairs.read_wind(i).values.to_vector<float>());
  }
  EXPECT_EQ(hdf5::open_objects(), 0);
}

TEST_F(WindOtherwise, OtherOrdersAndAChannelAxisAreSaid) {
  write_hdf5({1, 0, 2}, true);
  WindConfig config = hdf5_config();
  EXPECT_THAT(
      message_of([&] { WindDataset data(config); }),
      AllOf(HasSubstr("h5/0VF1.h5', variable 'raw': no dimension 'x'"), HasSubstr("files.order")));
  config.files.order = "cyxz";
  const WindDataset pairs(config_), files(config);
  for (int64_t i = 0; i < pairs.size(); ++i)
    EXPECT_TRUE(
        same(files.read(i, WindowChoice::centred()), pairs.read(i, WindowChoice::centred())));
  config.files.order = "zzy";
  EXPECT_THAT(message_of<UsageError>([&] { WindDataset data(config); }),
              AllOf(HasSubstr("files.order"), HasSubstr("zzy")));
}

// A prediction for such a case has the case's own form: its data set, order of axes and chunks.
TEST_F(WindOtherwise, PredictionsHaveTheFormOfTheFile) {
  write_hdf5({2, 1, 0});
  const WindConfig config = hdf5_config();
  const WindDataset files(config);
  const WindCase& c = files.at(0);
  const std::string path = folder_.file("prediction.h5");
  Tensor wind = Tensor::empty(Shape{12, 9, 7}, DType::f32);
  for (int64_t i = 0; i < wind.numel(); ++i) wind.data<float>()[i] = static_cast<float>(i);
  write_prediction(path, config, c, wind);
  const hdf5::File file = hdf5::File::open(path);
  const hdf5::Dataset label = file.open_dataset("label");
  EXPECT_THAT(label.extents(), ElementsAre(7, 9, 12));
  EXPECT_THAT(label.chunk(), ElementsAre(4, 3, 2));
  EXPECT_EQ(label.read().to_vector<float>(), permute(wind, {2, 1, 0}).to_vector<float>());
}

TEST_F(WindOtherwise, AManifestGivesCaseLayoutAndAngle) {
  // As the data set's own: further columns are left alone.
  write_text("manifest.csv",
             "case,layout_id,angle,style,note\n0VF1,17,5.5,small,\"a, b\"\n30VF2,18,-30,slabs,\n");
  const WindFiles files = listed("manifest.csv");
  ASSERT_THAT(files.cases, SizeIs(2));
  EXPECT_THAT(files.problems, IsEmpty());
  EXPECT_EQ(files.cases[0].group, "17");
  EXPECT_EQ(files.cases[0].angle_deg, 5.5);
  EXPECT_EQ(files.cases[1].angle_deg, -30);
  EXPECT_EQ(files.cases[1].wind_path, wind("30VF2"));
}

TEST_F(WindOtherwise, AManifestSaysWhichCasesTrainAndWhichNot) {
  write_text("parts.csv", "case,part\n0VF1,validation\n0VF2,training\n30VF2,training\n30VF3,\n");
  const WindFiles files = listed("parts.csv");
  ASSERT_THAT(files.cases, SizeIs(4));
  EXPECT_EQ(files.cases[0].part, "validation");
  EXPECT_EQ(files.cases[3].part, "");
  const Split split = split_wind(files.cases, {});  // a share of validation, which is there already
  EXPECT_THAT(split.validation, ElementsAre(0));
  EXPECT_THAT(split.train, ElementsAre(1, 2, 3));
  SplitConfig named;
  named.validation_cases = {"0VF2"};
  EXPECT_THAT(message_of([&] { split_wind(files.cases, named); }),
              AllOf(HasSubstr("'0VF2' is in the training part"),
                    HasSubstr("named in split.validation_cases")));
  write_text("half.csv", "case,part\n0VF1,training\n0VF2,training\n30VF2,\n");
  EXPECT_THAT(message_of([&] { split_wind(listed("half.csv").cases, {}); }),
              AllOf(HasSubstr("'30VF2' has no part"), HasSubstr("group '2'")));
  SplitConfig by_case;
  by_case.by = "case";
  by_case.validation = 0;
  EXPECT_THAT(split_wind(listed("half.csv").cases, by_case).train, ElementsAre(0, 1, 2));
  write_text("wrong.csv", "case,part\n0VF1,train\n");
  EXPECT_THAT(refusal("wrong.csv"),
              AllOf(HasSubstr("wrong.csv', line 2: case '0VF1': column 'part' is 'train', wanted "
                              "training, validation, test or nothing"),
                    HasSubstr("files.columns.part")));
  config_.files.columns.part = "";  // another meaning: left alone
  EXPECT_THAT(listed("wrong.csv").problems, IsEmpty());
}

TEST_F(WindOtherwise, ColumnsHaveOtherNamesAndPathsAreBelowTheList) {
  fs::create_directories(folder_.file("lists"));
  write_text(
      "lists/set.csv",
      "id,speed,city\n"
      "a,../wind_speed_filled/0VF1_ws_filled.nc,../mask_buildings/0VF1_ws_building_mask.nc\n");
  config_.files.columns.name = "id";
  config_.files.columns.wind = "speed";
  config_.files.columns.mask = "city";
  config_.files.angle_patterns.clear();
  config_.files.layout_pattern.clear();
  const WindFiles files = listed("lists/set.csv");
  ASSERT_THAT(files.cases, SizeIs(1));
  EXPECT_EQ(files.cases[0].name, "a");
  EXPECT_EQ(files.cases[0].group, "a");
  EXPECT_TRUE(fs::equivalent(files.cases[0].wind_path, wind("0VF1")));
  config_.files.columns.group = "town";
  EXPECT_THAT(refusal("lists/set.csv"),
              AllOf(HasSubstr("set.csv"), HasSubstr("no column 'town' (data.files.columns.group)"),
                    HasSubstr("id, speed, city")));
}

TEST_F(WindOtherwise, AListFileHasNamesOrMaskFiles) {
  write_text("list.txt", "# two of them\n0VF1\n\nmask_buildings/30VF3_ws_building_mask.nc\n");
  const WindFiles files = listed("list.txt");
  ASSERT_THAT(files.cases, SizeIs(2));
  EXPECT_EQ(files.cases[0].name, "0VF1");
  EXPECT_EQ(files.cases[1].name, "30VF3");
  EXPECT_EQ(files.cases[1].group, "3");
  EXPECT_EQ(files.cases[1].angle_deg, 30);
  EXPECT_EQ(WindDataset(config_).size(), 2);
}

TEST_F(WindOtherwise, WhatIsWrongWithAListIsSaidWithItsLine) {
  write_text("missing.csv", "case\n0VF1\n7VF9\n");
  EXPECT_THAT(refusal("missing.csv"),
              AllOf(HasSubstr("missing.csv', line 3"), HasSubstr("case '7VF9'"),
                    HasSubstr("there is no mask file"), HasSubstr("7VF9_ws_building_mask.nc")));
  write_text("double.csv", "case\n0VF1\n0VF2\n0VF1\n");
  EXPECT_THAT(refusal("double.csv"), AllOf(HasSubstr("double.csv', line 4"),
                                           HasSubstr("'0VF1' is listed twice, first in line 2")));
  write_text("short.csv", "case,angle\n0VF1,0\n0VF2\n");
  EXPECT_THAT(refusal("short.csv"),
              AllOf(HasSubstr("short.csv', line 3"), HasSubstr("too few cells")));
  write_text("angle.csv", "case,angle\n0VF1,north\n");
  EXPECT_THAT(refusal("angle.csv"), AllOf(HasSubstr("line 2"), HasSubstr("'angle' is 'north'")));
  write_text("empty.csv", "case,angle,layout_id\n0VF1,,1\n0VF2,0,\n");
  EXPECT_THAT(refusal("empty.csv"),
              AllOf(HasSubstr("line 2: case '0VF1': column 'angle' is empty"),
                    HasSubstr("line 3: case '0VF2': column 'layout_id' is empty")));
  write_text("name.csv", "case\na/b\n");
  EXPECT_THAT(refusal("name.csv"),
              AllOf(HasSubstr("line 2"), HasSubstr("'a/b' cannot be the name")));
  write_text("none.csv", "style\nsmall\n");
  EXPECT_THAT(refusal("none.csv"), AllOf(HasSubstr("none.csv"), HasSubstr("no column 'case'")));
  EXPECT_THAT(refusal("nowhere.csv"), HasSubstr("nowhere.csv"));
  // Left out with a warning where that is asked for.
  config_.files.on_bad_files = "skip";
  EXPECT_THAT(listed("double.csv").cases, SizeIs(2));
  EXPECT_THAT(listed("missing.csv").problems, SizeIs(1));
}

// The manifest of the shipped samples, as it is.
TEST(WindSamples, TheirOwnManifestIsRead) {
  WindConfig config;
  config.root = kSample;
  config.files.preflight = "headers";
  const WindFiles found = find_wind_files(config);
  config.files.list = "manifest.csv";
  config.files.on_bad_files = "skip";  // the manifest may tell of cases that were not shipped
  const WindFiles files = find_wind_files(config);
  ASSERT_EQ(files.cases.size(), found.cases.size());
  for (size_t i = 0; i < files.cases.size(); ++i) {
    EXPECT_EQ(files.cases[i].name, found.cases[i].name);
    EXPECT_EQ(files.cases[i].group, found.cases[i].group);
    EXPECT_EQ(files.cases[i].angle_deg, found.cases[i].angle_deg);
  }
}

}  // namespace
}  // namespace bora::data::test
