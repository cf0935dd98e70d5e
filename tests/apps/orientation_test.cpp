// SPDX-License-Identifier: Apache-2.0
// A checkpoint of a segmentation knows how the axes of its volumes ran (rows 88, 141).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "apps/unet3d/orientation_check.hpp"
#include "apps/unet3d/segmentation_cases.hpp"
#include "comm/communicator.hpp"
#include "data/checkpoint.hpp"
#include "tests/data/volume_fixture.hpp"
#include "tests/support/message_of.hpp"

namespace bora::unet3d {
namespace {

using bora::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

class OrientationTest : public data::test::VolumeTest {
 protected:
  /// Volumes a and c (training; c as a unless it is said) and b (validation), with x to the right
  /// or to the left; 0: not said.
  SegmentationCases cases(int a, int b = 1, std::optional<int> c = {}) {
    for (const auto& [name, x] : {std::pair{"a", a}, {"b", b}, {"c", c.value_or(a)}}) {
      write_pair(name, data::test::places({8, 8, 8}), data::test::no_labels({8, 8, 8}));
      if (x == 0) continue;
      for (const auto& [file, variable] : {std::pair{"_image.h5", "raw"}, {"_label.h5", "label"}}) {
        const std::string path = root + "/" + name + file;
        const Tensor values = data::hdf5::File::open(path).open_dataset(variable).read();
        data::hdf5::File out = data::hdf5::File::create(path);
        data::hdf5::Dataset d = out.create_dataset(variable, values.shape(),
                                                   std::string(bora::name_of(values.dtype())), {});
        d.write(values);
        d.set_attribute("affine", std::vector<double>{1.0 * x, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0});
        out.close();
      }
    }
    write_list("list.csv", "case,part\na,training\nb,validation\nc,training\n");
    data::VolumesConfig config = pairs();
    config.list = "list.csv";
    return {config, {}, *self};
  }
  std::string saved(SegmentationCases of) const {
    data::save_checkpoint(root + "/state.ckpt", [&](StateVisitor& v) { of.state(v); });
    return root + "/state.ckpt";
  }
  static void load(const std::string& path, SegmentationCases& into) {
    data::load_checkpoint(path, [&](StateVisitor& v) { into.state(v); });
  }
  const std::unique_ptr<Collective> self = make_self_communicator();
};

TEST_F(OrientationTest, IsThatOfTheTrainingImagesAndIsSaved) {
  EXPECT_EQ(cases(1).orientation(), "RAS");
  EXPECT_EQ(cases(-1, 1).orientation(), "LAS") << "what validates does not count";
  EXPECT_EQ(cases(0).orientation(), "");
  const std::string path = saved(cases(1));
  data::CheckpointReader reader(path);
  EXPECT_EQ(trained_orientation(reader), "RAS");
  SegmentationCases same = cases(1);
  load(path, same);
  SegmentationCases other = cases(-1);
  EXPECT_THAT(message_of([&] { load(path, other); }),
              AllOf(HasSubstr("volumes whose axes run RAS"), HasSubstr("' run LAS"),
                    HasSubstr("start a new run")));
}

// Volumes that run differently have no orientation in common; each is looked at.
TEST_F(OrientationTest, OneMirroredVolumeOfSeveralIsRefused) {
  const std::string path = saved(cases(1));
  SegmentationCases mixed = cases(1, 1, -1);
  EXPECT_EQ(mixed.orientation(), "");
  EXPECT_THAT(message_of([&] { load(path, mixed); }),
              AllOf(HasSubstr("volumes whose axes run RAS"), HasSubstr("c_image.h5' run LAS")));
}

TEST_F(OrientationTest, OlderCheckpointsAndUnknownOnesAreTaken) {
  const std::string path = saved(cases(0));  // as one from before: without the entry
  {
    data::CheckpointReader reader(path);
    EXPECT_FALSE(reader.has(kOrientationEntry));
    EXPECT_EQ(trained_orientation(reader), "");
  }
  SegmentationCases known = cases(-1);
  load(path, known);
  const std::string ras = saved(cases(1));
  SegmentationCases unknown = cases(0);
  load(ras, unknown);  // the whole of it is read: nothing is left over
}

TEST_F(OrientationTest, AWarningNamesBothAndWhatHelps) {
  std::vector<OrientedFile> all;
  for (size_t i = 0; i < 5; ++i)
    all.push_back({"v" + std::to_string(i) + ".nii", i == 1 ? "RAS" : "LPS"});
  EXPECT_EQ(orientation_warning("best.h5", "RAS", all),
            "the axes of 4 of 5 images run otherwise than those of the volumes that the network of "
            "best.h5 was trained on (RAS): 'v0.nii' (LPS), 'v2.nii' (LPS), 'v3.nii' (LPS), ...; it "
            "sees them mirrored or turned. unet3d data convert --orientation=ras turns them");
  EXPECT_THAT(orientation_warning("best.h5", "LAS", {all[1]}),
              AllOf(HasSubstr("1 of 1 image run"), HasSubstr("(LAS): 'v1.nii' (RAS)"),
                    HasSubstr("Turn them to LAS")));
  EXPECT_EQ(orientation_warning("best.h5", "RAS", {all[1]}), "");
  EXPECT_EQ(orientation_warning("best.h5", "", all), "") << "an older checkpoint";
  EXPECT_EQ(orientation_warning("best.h5", "x+ y+ z+", all), "") << "not to be compared";
  EXPECT_EQ(orientation_warning("best.h5", "RAS", {{"v.nii", ""}}), "");
  EXPECT_THAT(orientation_warning("best.h5", "x+ y+ z+", {{"v.nc", "x+ y- z+"}}),
              HasSubstr("ncpdq"));
}

}  // namespace
}  // namespace bora::unet3d
