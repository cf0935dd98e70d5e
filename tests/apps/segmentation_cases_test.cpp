// SPDX-License-Identifier: Apache-2.0
// The cases of task=segmentation: what the manifest's parts and weights become, what is refused
// before the first step (rows 71, 73, 102).
#include "apps/unet3d/segmentation_cases.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/communicator.hpp"
#include "data/checkpoint.hpp"
#include "data/sampler.hpp"
#include "tests/data/volume_fixture.hpp"
#include "tests/support/message_of.hpp"

namespace bora::unet3d {
namespace {

using bora::testing::message_of;
using data::VolumesConfig;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SegmentationCasesTest : public data::test::VolumeTest {
 protected:
  /// The cases a, b, c, d of these grids, listed with `columns` ("part,sample_weight") and what
  /// they say of each case.
  VolumesConfig cases(const std::string& columns, const std::vector<std::string>& rows,
                      const std::vector<Dims3>& grids = std::vector<Dims3>(4, {8, 8, 8})) {
    std::string text = "case," + columns + "\n";
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::string name(1, static_cast<char>('a' + i));
      write_pair(name, data::test::places(grids[i]), data::test::no_labels(grids[i]));
      text += name + "," + rows[i] + "\n";
    }
    write_list("list.csv", text);
    VolumesConfig config = pairs();
    config.list = "list.csv";
    return config;
  }
  SegmentationCases open(const VolumesConfig& config) { return {config, {}, *self}; }

  const std::unique_ptr<Collective> self = make_self_communicator();
};

// a trains three times as often as b, d not at all; c validates, and its weight is nobody's.
TEST_F(SegmentationCasesTest, WeightsOfTheManifestReachTheOrderOfTraining) {
  VolumesConfig config =
      cases("part,sample_weight", {"training,3", "training,", "validation,7", "training,0"});
  config.patches_per_volume = 2;
  const SegmentationCases c = open(config);
  EXPECT_THAT(c.training_weights(), ElementsAre(3, 3, 1, 1, 0, 0));
  EXPECT_EQ(c.training().size(), 6);
  int n[4] = {};
  for (int64_t epoch = 0; epoch < 1000; ++epoch)
    for (const data::Slot& s :
         data::DistributedSampler(
             {.n_samples = c.training().size(), .seed = 1, .weights = c.training_weights()})
             .slots({.epoch = epoch, .position = 0}))
      ++n[c.training().name(s.index)[0] - 'a'];
  // 6000 draws of chance 3/4: five standard deviations of a binomial count are 168.
  EXPECT_NEAR(n[0], 4500, 168);
  EXPECT_EQ(n[0] + n[1], 6000);
}

TEST_F(SegmentationCasesTest, WithoutWeightsEveryPatchComesOnceAnEpoch) {
  // All 1, said or not, and one that does not train.
  const SegmentationCases c =
      open(cases("part,sample_weight", {"training,1", "training,", "validation,7", "training,1"}));
  EXPECT_THAT(c.training_weights(), IsEmpty());
}

TEST_F(SegmentationCasesTest, PartsAreThoseOfTheManifest) {
  const SegmentationCases c = open(cases("part", {"training", "test", "validation", "training"}));
  EXPECT_THAT(c.names("training"), ElementsAre("a", "d"));
  EXPECT_THAT(c.names("test"), ElementsAre("b"));
  EXPECT_THAT(c.names("validation"), ElementsAre("c"));
  EXPECT_THAT(c.names("all"), ElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(c.validation().name(0), "c");
  EXPECT_THAT(message_of([&] { c.part("train"); }),
              HasSubstr("part 'train' of the cases: wanted training, validation, test or all"));
}

TEST_F(SegmentationCasesTest, AnotherSplitIsNoPlaceToGoOnFrom) {
  const std::string file = root + "/state.h5";
  const VolumesConfig config = cases("part", {"training", "training", "validation", "training"});
  SegmentationCases saved = open(config);
  data::save_checkpoint(file, [&](StateVisitor& v) { saved.state(v); });
  SegmentationCases same = open(config);
  data::load_checkpoint(file, [&](StateVisitor& v) { same.state(v); });
  const auto refusal = [&](const std::vector<std::string>& parts) {
    SegmentationCases other = open(cases("part", parts));
    return message_of(
        [&] { data::load_checkpoint(file, [&](StateVisitor& v) { other.state(v); }); });
  };
  EXPECT_THAT(refusal({"training", "training", "training", "validation"}),
              AllOf(HasSubstr("trained with 3 training cases, this run has 3 or others"),
                    HasSubstr("start a new run")));
  EXPECT_THAT(refusal({"training", "training", "validation", "test"}),
              HasSubstr("trained with 3 training cases, this run has 2 or others"));
}

TEST_F(SegmentationCasesTest, SamplesThatANetworkOrABatchCannotTakeAreRefused) {
  VolumesConfig config = cases("part", {"training", "training", "validation", "training"},
                               {{8, 8, 8}, {8, 8, 8}, {8, 4, 8}, {8, 8, 9}});
  const SegmentationCases whole = open(config);
  whole.require_extents(4, 3);
  EXPECT_THAT(message_of([&] { whole.require_extents(5, 3); }),
              AllOf(HasSubstr("case c: a sample of 8x4x8 cells is too small"),
                    HasSubstr("network of 3 levels: each extent must be at least 5")));
  EXPECT_EQ(whole.largest_patch(), (Dims3{8, 8, 9}));
  EXPECT_THAT(message_of([&] { whole.require_one_shape(); }),
              AllOf(HasSubstr("those of case a have 8x8x8 cells and those of case d 8x8x9"),
                    HasSubstr("set volumes.patch, or train.batch=1")));
  config.patch = {8, 0, 8};
  open(config).require_one_shape();  // c does not train
  EXPECT_THAT(open(config).padding_warning(), IsEmpty());
  config.patch = {32, 8, 8};
  open(config).require_extents(8, 4);  // padding counts
  EXPECT_THAT(open(config).padding_warning(), HasSubstr("at most 25 % of a sample is data"));
}

}  // namespace
}  // namespace bora::unet3d
