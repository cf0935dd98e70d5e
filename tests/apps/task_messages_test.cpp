// SPDX-License-Identifier: Apache-2.0
// What unet3d's tasks say of settings and cases that cannot train, or would waste time (rows 88,
// 96).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "apps/unet3d/segmentation_task.hpp"
#include "apps/unet3d/wind_task.hpp"
#include "comm/communicator.hpp"
#include "core/tape.hpp"
#include "data/convert.hpp"
#include "data/synthetic.hpp"
#include "nn/parameter_arena.hpp"
#include "tests/data/volume_fixture.hpp"
#include "tests/support/message_of.hpp"

namespace bora::unet3d {
namespace {

using bora::testing::message_of;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

/// Six wind cases of 12 x 10 x 6 cells.
class WindMessages : public data::test::VolumeTest {
 protected:
  void SetUp() override {
    VolumeTest::SetUp();
    data::SyntheticWindOptions options;
    options.n_layouts = 6;
    options.angles = {0};
    options.grid = {12, 10, 6};
    data::write_synthetic_wind(root, options);
    config.data.root = root;
    config.model = {.base = 4, .levels = 1};
    config.split.validation = 0.2;
  }
  Config config;
  std::unique_ptr<Collective> ranks = make_self_communicator();
};

TEST_F(WindMessages, ASampleThatIsMostlyPaddingIsWarnedOf) {
  config.data.shape = {24, 20, 12};
  EXPECT_THAT(WindTask(config, *ranks).warnings(1),
              Contains(AllOf(HasSubstr("data.shape=24x20x12, but the grids are 12x10x6 cells: at "
                                       "most 12.5 % of a sample is data"),
                             HasSubstr("padding that costs time and memory"))));
  config.data.shape = {24, 10, 6};  // half of it
  EXPECT_THAT(WindTask(config, *ranks).warnings(1), Each(Not(HasSubstr("padding"))));
}

// Samples of a part of the grid, out of files in one compressed chunk.
TEST_F(WindMessages, ChunksThatDoNotFitTheSamplesAreWarnedOf) {
  config.data.shape = {4, 4, 2};
  const auto rewrite = [&](const data::Codec& codec) {
    const data::WindFilesConfig& f = config.data.files;
    for (const data::WindCase& c : data::find_wind_files(config.data).cases)
      for (const auto& [path, variable] :
           {std::pair{c.wind_path, f.wind_variable}, {c.mask_path, f.mask_variable}}) {
        data::convert_netcdf(path, variable, root + "/one.nc",
                             {.patch = {24, 24, 24}, .threads = 1, .codec = codec, .verify = true});
        std::filesystem::rename(root + "/one.nc", path);
      }
  };
  rewrite({0, false});
  EXPECT_THAT(WindTask(config, *ranks).warnings(1), Each(Not(HasSubstr("unpack"))))
      << "nothing is compressed";
  rewrite({1, false});
  EXPECT_THAT(WindTask(config, *ranks).warnings(1),
              Contains(AllOf(HasSubstr("_ws_filled.nc' has chunks of 12x10x6 cells: patches of "
                                       "4x4x2 make their reader unpack 22 times"),
                             HasSubstr("data.cache.kind=ram or shared"))));
  config.data.cache.kind = "ram";
  EXPECT_THAT(WindTask(config, *ranks).warnings(1), Each(Not(HasSubstr("unpack"))));
  config.data.cache.kind = "none";
  config.data.shape = {};  // whole fields
  EXPECT_THAT(WindTask(config, *ranks).warnings(1), Each(Not(HasSubstr("unpack"))));
}

TEST_F(WindMessages, AWindowThatIsTooSmallForTheNetworkIsNamed) {
  config.model.levels = 3;
  config.data.shape = {12, 10, 3};
  EXPECT_THAT(message_of([&] { WindTask task(config, *ranks); }),
              AllOf(HasSubstr("case 0VF1"), HasSubstr("12x10x3 is too small")));
}

TEST_F(WindMessages, AValidationCaseWithoutAnOpenCellIsNamed) {
  WindTask task(config, *ranks);
  task.prepare(*ranks);
  const nn::ParameterArena arena(task.model(), DType::f32);
  nn::initialise(task.model(), 1);
  data::Sample sample = data::read_sample(*task.validation(), 0, data::WindowChoice::centred());
  sample.region = Tensor::zeros(sample.region.shape(), sample.region.dtype());
  const NoGrad no_tape;
  EXPECT_THAT(
      message_of([&] { task.validate(data::collate({sample}), cpu()); }),
      HasSubstr("validation case " + sample.name + " has no open cell: it cannot be scored"));
}

TEST_F(WindMessages, SettingsThatCannotBeAreNamedByTheirKey) {
  config.data.root.clear();
  EXPECT_THAT(message_of([&] { WindTask task(config, *ranks); }),
              HasSubstr("data.root is not set: wanted the folder of the cases"));
  config.volumes.root = root;
  EXPECT_THAT(message_of([&] { WindTask task(config, *ranks); }),
              AllOf(HasSubstr("volumes.root"), HasSubstr("task=wind")));
}

/// Labelled volumes a (8 x 8 x 8 cells), b and c (8 x 8 x 6).
class VolumeMessages : public data::test::VolumeTest {
 protected:
  void SetUp() override {
    VolumeTest::SetUp();
    for (const char* name : {"a", "b", "c"}) {
      const Dims3 grid{8, 8, *name == 'a' ? 8 : 6};
      write_pair(name, data::test::places(grid), data::test::no_labels(grid));
    }
    config.task = "segmentation";
    config.volumes = pairs();
    config.model = {.base = 4, .levels = 1};
    config.split.validation = 0;
    config.train.batch = 1;
  }
  std::vector<std::string> warnings() { return SegmentationTask(config, *ranks).warnings(1); }
  std::string refusal() {
    return message_of([&] { SegmentationTask task(config, *ranks); });
  }
  Config config;
  std::unique_ptr<Collective> ranks = make_self_communicator();
};

TEST_F(VolumeMessages, APatchThatIsMostlyPaddingIsWarnedOf) {
  config.volumes.patch = {16, 16, 8};
  EXPECT_THAT(warnings(),
              Contains(AllOf(HasSubstr("volumes.patch=16x16x8, but the volumes are 8x8x8 cells: at "
                                       "most 25 % of a sample is data"),
                             HasSubstr("padding that costs time and memory"))));
  config.volumes.patch = {16, 8, 8};  // half of it
  EXPECT_THAT(warnings(), Each(Not(HasSubstr("padding"))));
}

TEST_F(VolumeMessages, ARunThatValidatesNothingIsWarnedOf) {
  EXPECT_THAT(warnings(), Contains(HasSubstr("no case validates: nothing is scored")));
}

TEST_F(VolumeMessages, SamplesThatDoNotFitTheNetworkOrEachOtherAreNamed) {
  config.train.batch = 2;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("samples of one batch must be alike"),
                               HasSubstr("case a have 8x8x8 cells and those of case b 8x8x6"),
                               HasSubstr("set volumes.patch, or train.batch=1")));
  config.train.batch = 1;
  config.model.levels = 4;
  EXPECT_THAT(refusal(), AllOf(HasSubstr("case a: a sample of 8x8x8 cells is too small for a "
                                         "network of 4 levels"),
                               HasSubstr("volumes.patch pads")));
}

TEST_F(VolumeMessages, AValidationCaseWithoutACellThatCountsIsNamed) {
  config.volumes.label_map = {"0:ignore"};
  config.split.validation = 0.4;
  SegmentationTask task(config, *ranks);
  const nn::ParameterArena arena(task.model(), DType::f32);
  nn::initialise(task.model(), 1);
  const data::Sample sample =
      data::read_sample(*task.validation(), 0, data::WindowChoice::centred());
  const NoGrad no_tape;
  EXPECT_THAT(message_of([&] { task.validate(data::collate({sample}), cpu()); }),
              HasSubstr("the validation case " + sample.name +
                        " has no cell that counts: it cannot be scored"));
}

TEST_F(VolumeMessages, SettingsThatCannotBeAreNamedByTheirKey) {
  const struct {
    std::function<void(Config&)> change;
    const char* words;
  } kRefused[] = {
      {[](Config& c) { c.volumes.root.clear(); }, "volumes.root is not set"},
      {[](Config& c) { c.model.deep_supervision = 1; },
       "model.deep_supervision with task=segmentation"},
      {[](Config& c) {
         c.segmentation.overlap = {0.5, 0.5};
       },
       "segmentation.overlap has 2 numbers, wanted one, or one for each axis"},
      {[](Config& c) { c.segmentation.dice_weight = c.segmentation.cross_entropy_weight = 0; },
       "segmentation.dice_weight and segmentation.cross_entropy_weight are both 0"},
      {[](Config& c) { c.segmentation.empty_class = "two"; },
       "segmentation.empty_class 'two': wanted skip, one or zero"},
      {[](Config& c) { c.data.root = "/x"; }, "data.root is set, but task=segmentation"},
      {[](Config& c) { c.volumes.cache.kind = "disk"; },
       "volumes.cache.kind=disk wants volumes.cache.folder"}};
  for (const auto& refused : kRefused) {
    const Config good = config;
    refused.change(config);
    EXPECT_THAT(refusal(), HasSubstr(refused.words));
    config = good;
  }
}

}  // namespace
}  // namespace bora::unet3d
