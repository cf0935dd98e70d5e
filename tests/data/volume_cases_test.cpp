// SPDX-License-Identifier: Apache-2.0
// Row 88 for volumes: pairs from folders, lists and manifests, and each thing that is wrong.
#include "data/volume_cases.hpp"

#include <gmock/gmock.h>

#include <fstream>

#include "tests/data/volume_fixture.hpp"
#include "tests/support/message_of.hpp"

namespace bora::data::test {
namespace {

using bora::testing::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
namespace fs = std::filesystem;

class VolumeCasesTest : public VolumeTest {
 protected:
  static std::vector<std::string> names(const std::vector<VolumeCase>& cases) {
    std::vector<std::string> out;
    for (const VolumeCase& c : cases) out.push_back(c.name);
    return out;
  }
  static std::string refusal(const VolumesConfig& config) {
    return message_of([&] { find_volume_cases(config); });
  }
  /// case1, case2, ... as .nii files, and the settings that find them.
  VolumesConfig nifti_cases(int n, const Dims3& grid, double spacing_mm = 1) const {
    SyntheticVolumesOptions o;
    o.n_cases = n;
    o.grid = grid;
    o.format = "nii";
    o.spacing_mm = spacing_mm;
    write_synthetic_volumes(root, o);
    VolumesConfig config = synthetic();
    config.image_suffix = "_image.nii";
    config.label_suffix = "_label.nii";
    return config;
  }
  void two_pairs() const {
    write_pair("a", places({4, 3, 2}), no_labels({4, 3, 2}));
    write_pair("b", places({4, 3, 2}), no_labels({4, 3, 2}));
  }
  VolumesConfig listed(const std::string& name, const std::string& text) const {
    write_list(name, text);
    VolumesConfig config = pairs();
    config.list = name;
    return config;
  }
};

TEST_F(VolumeCasesTest, AFolderOfPairsIsFound) {
  SyntheticVolumesOptions o;
  o.grid = {9, 8, 7};
  o.spacing_mm = 1.5;
  o.weights = true;
  write_synthetic_volumes(root, o);
  VolumesConfig config = synthetic();
  config.weight_suffix = "_weight.nii.gz";
  const VolumeCases found = find_volume_cases(config);
  EXPECT_THAT(names(found.cases), ElementsAre("case1", "case2", "case3", "case4"));
  EXPECT_THAT(found.problems, IsEmpty());
  const VolumeCase& c = found.cases[1];
  EXPECT_EQ(c.image.path, root + "/case2_image.nii.gz");
  EXPECT_EQ(c.label.path, root + "/case2_label.nii.gz");
  EXPECT_EQ(c.weight.path, root + "/case2_weight.nii.gz");
  EXPECT_EQ(c.group, "case2");
  EXPECT_EQ(c.grid, (Dims3{9, 8, 7}));
  EXPECT_EQ(c.box, (Box{{}, {9, 8, 7}}));
  EXPECT_EQ(c.spacing, (std::array<double, 3>{1.5, 1.5, 1.5}));
  EXPECT_EQ(c.channels, 1);
  EXPECT_EQ(c.image_stamp, FileStamp::of(c.image.path));
}

TEST_F(VolumeCasesTest, ImageAndLabelMayBeInOneFile) {
  SyntheticVolumesOptions o;
  o.grid = {9, 8, 7};
  o.channels = 2;
  o.format = "h5";
  write_synthetic_volumes(root, o);
  VolumesConfig config = synthetic();
  config.image_suffix = config.label_suffix = ".h5";
  const VolumeCases found = find_volume_cases(config);
  ASSERT_EQ(found.cases.size(), 4U);
  EXPECT_EQ(found.cases[0].image.path, found.cases[0].label.path);
  EXPECT_EQ(found.cases[0].image.variable, "raw");
  EXPECT_EQ(found.cases[0].label.variable, "label");
  EXPECT_EQ(found.cases[0].channels, 2);
  EXPECT_EQ(found.cases[0].grid, (Dims3{9, 8, 7}));
}

TEST_F(VolumeCasesTest, ALongerSuffixWinsAndAFolderMayBeACase) {
  fs::create_directories(root + "/p1");
  write_pair("p1/", places({4, 3, 2}), no_labels({4, 3, 2}));  // p1/_image.h5
  write("q.h5", "raw", places({4, 3, 2}));
  write("q-mask.h5", "label", no_labels({4, 3, 2}));
  VolumesConfig config = pairs();
  EXPECT_THAT(names(find_volume_cases(config).cases), ElementsAre("p1"));
  fs::remove_all(root + "/p1");
  config.image_suffix = ".h5";
  config.label_suffix = "-mask.h5";
  EXPECT_THAT(names(find_volume_cases(config).cases), ElementsAre("q"));
}

TEST_F(VolumeCasesTest, MissingPartnersAndDoubleCasesAreListedTogether) {
  two_pairs();
  fs::remove(root + "/a_label.h5");
  fs::remove(root + "/b_image.h5");
  fs::create_directories(root + "/more");
  write_pair("c", places({4, 3, 2}), no_labels({4, 3, 2}));
  write_pair("more/c", places({4, 3, 2}), no_labels({4, 3, 2}));
  EXPECT_THAT(refusal(pairs()),
              AllOf(HasSubstr("3 problem(s)"), HasSubstr("a_image.h5' has no label 'a_label.h5'"),
                    HasSubstr("b_label.h5', a label, has no image 'b_image.h5'"),
                    HasSubstr("case 'c' has 2 images: '" + root + "/c_image.h5' '" + root +
                              "/more/c_image.h5'"),
                    HasSubstr("volumes.on_bad_files")));
}

TEST_F(VolumeCasesTest, SkipLeavesBadCasesOut) {
  two_pairs();
  fs::remove(root + "/a_label.h5");
  VolumesConfig config = pairs();
  config.on_bad_files = "skip";
  const VolumeCases found = find_volume_cases(config);
  EXPECT_THAT(names(found.cases), ElementsAre("b"));
  EXPECT_THAT(found.problems, ElementsAre(HasSubstr("has no label 'a_label.h5'")));
  fs::remove(root + "/b_label.h5");
  EXPECT_THAT(refusal(config), HasSubstr("no case among the volumes in"));
}

TEST_F(VolumeCasesTest, FilesThatDoNotFitEachOtherAreNamed) {
  write_pair("a", places({4, 3, 2}), no_labels({4, 3, 3}));
  EXPECT_THAT(refusal(pairs()), HasSubstr("the label '" + root +
                                          "/a_label.h5' has a grid of 4x3x3 cells, its image '" +
                                          root + "/a_image.h5' one of 4x3x2"));
  write("a_label.h5", "label", Tensor::zeros({2, 4, 3, 2}, DType::u8));
  VolumesConfig config = pairs();
  config.order = "cxyz";
  EXPECT_THAT(refusal(config), HasSubstr("a_label.h5' has 2 channels, wanted one"));
}

TEST_F(VolumeCasesTest, AffinesThatDifferAreNamed) {
  nifti_cases(1, {11, 8, 7});
  fs::rename(root + "/case1_image.nii", root + "/keep");
  VolumesConfig config = nifti_cases(1, {11, 8, 7}, 1.01);
  fs::rename(root + "/keep", root + "/case1_image.nii");
  // Corners (10, 7, 6) cells from the first: 0.01 sqrt(10^2 + 7^2 + 6^2) = 0.136 mm.
  EXPECT_THAT(refusal(config), AllOf(HasSubstr("case1_label.nii' lies elsewhere than its image"),
                                     HasSubstr("0.136"), HasSubstr("affine_tolerance_mm")));
  config.affine_tolerance_mm = 0.14;
  EXPECT_EQ(find_volume_cases(config).cases.size(), 1U);
}

// The same head, written by two programs: x to the right in one file, to the left in the other.
TEST_F(VolumeCasesTest, ALabelWithTurnedAxesIsToldByBothOrientations) {
  const VolumesConfig config = nifti_cases(1, {11, 8, 7});
  const std::string path = root + "/case1_label.nii";
  const Affine before = *open_volume({path, "", ""})->info().affine;
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  const float step = -static_cast<float>(before[0][0]);
  const auto begin = static_cast<float>(before[0][3] + 10 * before[0][0]);
  file.seekp(280);  // srow_x
  file.write(reinterpret_cast<const char*>(&step), sizeof step);
  file.seekp(292);
  file.write(reinterpret_cast<const char*>(&begin), sizeof begin);
  file.close();
  EXPECT_THAT(refusal(config), AllOf(HasSubstr("case1_label.nii' lies elsewhere than its image"),
                                     HasSubstr("the axes of the image run RAS, those of the label "
                                               "LAS: resample one onto the grid of the other")));
}

TEST_F(VolumeCasesTest, VolumesThatAreMirrorImagesOfEachOtherAreToldOnce) {
  const VolumesConfig config = nifti_cases(3, {5, 4, 3});
  const auto warning = [&] {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(find_volume_cases(config).cases.size(), 3U);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(warning(), "");
  for (const char* part : {"image", "label"}) {  // of one case; its two files are alike
    std::fstream file(root + "/case2_" + part + ".nii",
                      std::ios::in | std::ios::out | std::ios::binary);
    const float step = -1;
    file.seekp(280);  // srow_x
    file.write(reinterpret_cast<const char*>(&step), sizeof step);
  }
  EXPECT_THAT(warning(), AllOf(HasSubstr("run in different directions: LAS in 1 ('case2'), RAS in "
                                         "2 ('case1', 'case3')"),
                               HasSubstr("unet3d data convert --orientation=ras")));
}

TEST_F(VolumeCasesTest, ARootThatIsAFileIsToldAsOne) {
  write_list("cases.txt", "a\n");
  VolumesConfig config = pairs();
  config.root = root + "/cases.txt";
  EXPECT_THAT(refusal(config), HasSubstr("cases.txt' is a file, wanted a folder"));
  config.root = root + "/nowhere";
  EXPECT_THAT(refusal(config), HasSubstr("nowhere' does not exist"));
}

TEST_F(VolumeCasesTest, UnreadableFilesAreNamed) {
  two_pairs();
  write_file_atomic(root + "/a_image.h5", "no HDF5");
  write_file_atomic(root + "/b_label.h5", "");
  EXPECT_THAT(refusal(pairs()), AllOf(HasSubstr("2 problem(s)"), HasSubstr("/a_image.h5'"),
                                      HasSubstr("/b_label.h5'"), HasSubstr("empty")));
}

TEST_F(VolumeCasesTest, ValuesAreLookedAtByThePreFlight) {
  Tensor image = places({4, 3, 2}), label = no_labels({4, 3, 2});
  image.data<float>()[7] = NAN;   // cell (1, 0, 1)
  label.data<uint8_t>()[23] = 9;  // cell (3, 2, 1)
  write_pair("a", image, label);
  VolumesConfig config = pairs();
  EXPECT_THAT(refusal(config),
              AllOf(HasSubstr("2 problem(s)"),
                    HasSubstr("/a_image.h5', variable 'raw': 1 of 24 values are missing (NaN), the "
                              "first at cell (1, 0, 1)"),
                    HasSubstr("/a_label.h5', variable 'label': 1 of 24 labels have no class, the "
                              "first is 9 at cell (3, 2, 1); there are classes for 0 to 1")));
  config.preflight = "headers";
  EXPECT_EQ(find_volume_cases(config).cases.size(), 1U);
  config.preflight = "full";
  config.missing = "mask";
  config.label_map = {"9:ignore"};
  EXPECT_EQ(find_volume_cases(config).cases.size(), 1U);
  image.data<float>()[7] = -INFINITY;
  write("a_image.h5", "raw", image);
  EXPECT_THAT(refusal(config), HasSubstr("infinite value at cell (1, 0, 1)"));
}

TEST_F(VolumeCasesTest, AListNamesCasesOrImages) {
  two_pairs();
  write_pair("c", places({4, 3, 2}), no_labels({4, 3, 2}));
  EXPECT_THAT(names(find_volume_cases(listed("l.txt", "# two\nc\na_image.h5\n")).cases),
              ElementsAre("a", "c"));
  EXPECT_THAT(refusal(listed("l.txt", "a\nx\n")),
              HasSubstr("l.txt', line 2 has no image 'x_image.h5'"));
  EXPECT_THAT(
      refusal(listed("l.txt", "a\nb\na\n")),
      AllOf(HasSubstr("case 'a' occurs 2 times:"), HasSubstr("line 1"), HasSubstr("line 3")));
}

TEST_F(VolumeCasesTest, AManifestSaysBoxesPartsGroupsAndWeights) {
  two_pairs();
  const VolumesConfig config = listed("m.csv",
                                      "case,image,label,part,box,group,sample_weight\n"
                                      "front,a_image.h5,,training,\"0:2,,\",,2.5\n"
                                      "back,a_image.h5,a_label.h5,validation,\"2:4,:,1:2\",,\n"
                                      "b,,,,,patient 7,0\n");
  const std::vector<VolumeCase> cases = find_volume_cases(config).cases;
  ASSERT_THAT(names(cases), ElementsAre("b", "back", "front"));
  EXPECT_EQ(cases[0].group, "patient 7");
  EXPECT_EQ(cases[0].sample_weight, 0);
  EXPECT_EQ(cases[0].part, "");
  EXPECT_EQ(cases[1].box, (Box{{2, 0, 1}, {2, 3, 1}}));
  EXPECT_EQ(cases[1].part, "validation");
  EXPECT_EQ(cases[1].group, "a");  // both boxes of one volume
  EXPECT_EQ(cases[2].group, "a");
  EXPECT_EQ(cases[2].label.path, root + "/a_label.h5");
  EXPECT_EQ(cases[2].box, (Box{{}, {2, 3, 2}}));
  EXPECT_EQ(cases[2].sample_weight, 2.5);

  const Split split = split_volumes(cases, {});
  EXPECT_THAT(split.train, ElementsAre(0, 2));
  EXPECT_THAT(split.validation, ElementsAre(1));
}

TEST_F(VolumeCasesTest, BoundsMayBeColumns) {
  two_pairs();
  const VolumesConfig config = listed("m.csv", "case,begin_x,end_x,end_z\na,1,3,\nb,,,1\n");
  const std::vector<VolumeCase> cases = find_volume_cases(config).cases;
  EXPECT_EQ(cases[0].box, (Box{{1, 0, 0}, {2, 3, 2}}));
  EXPECT_EQ(cases[1].box, (Box{{0, 0, 0}, {4, 3, 1}}));
}

TEST_F(VolumeCasesTest, MistakesInAManifestAreToldWithTheirLine) {
  two_pairs();
  const auto of = [&](const std::string& text) { return refusal(listed("m.csv", text)); };
  EXPECT_THAT(of("case,lable\na,b\n"), HasSubstr("has a column 'lable' that means nothing here"));
  EXPECT_THAT(of("part\ntest\n"), HasSubstr("neither a column 'case' nor a column 'image'"));
  EXPECT_THAT(of("case,image\na,\n,\n"), HasSubstr("line 3: neither a case nor an image"));
  EXPECT_THAT(of("case,part\na,train\n"),
              HasSubstr("line 2: part is 'train', wanted training, validation, test or nothing"));
  EXPECT_THAT(of("case,sample_weight\na,-1\n"), HasSubstr("line 2: sample_weight is -1"));
  EXPECT_THAT(of("case,sample_weight\na,x\n"),
              HasSubstr("line 2: column 'sample_weight' is 'x', wanted a number"));
  EXPECT_THAT(of("case,box\na,\"0:2,0:2\"\n"),
              HasSubstr("line 2: box '0:2,0:2' has 2 parts, wanted three"));
  EXPECT_THAT(of("case,box\na,\"0:2,0:2,1\"\n"), HasSubstr("'1' has no colon"));
  EXPECT_THAT(of("case,box\na,\"0:2,0:2,-1:2\"\n"), HasSubstr("'-1' is no whole number"));
  EXPECT_THAT(of("case,box\na,\"2:2,,\"\n"), HasSubstr("'2:2' has no cell"));
  EXPECT_THAT(of("case,box,end_x\na,\"0:2,,\",2\n"),
              HasSubstr("line 2: both a box and begin_ or end_ columns"));
  EXPECT_THAT(of("case,box\na,\"0:5,,\"\n"),
              AllOf(HasSubstr("m.csv', line 2: box 0:5,0:3,0:2 is not inside the grid of 4x3x2"),
                    HasSubstr("a_image.h5")));
  EXPECT_THAT(of("case,image\na,none.h5\n"),
              HasSubstr("m.csv', line 2: there is no image '" + root + "/none.h5'"));
  EXPECT_THAT(of("case,image,part,box\np,a_image.h5,training,\"0:3,,\"\n"
                 "q,a_image.h5,test,\"2:4,,\"\n"),
              HasSubstr("cases 'p' (training) and 'q' (test) have cells of '" + root +
                        "/a_image.h5' in common"));
  EXPECT_THAT(of("case,image,group\np,a_image.h5,1\nq,a_image.h5,2\n"),
              HasSubstr("cases 'p' (group 1) and 'q' (group 2) have cells of"));
  EXPECT_THAT(message_of([&] { find_volume_cases(listed("n.csv", "")); }),
              HasSubstr("n.csv' is empty"));
}

TEST_F(VolumeCasesTest, CasesOfOneSetHaveAsManyChannels) {
  write_pair("a", Tensor::zeros({2, 4, 3, 2}, DType::f32), no_labels({4, 3, 2}));
  write_pair("b", places({4, 3, 2}), no_labels({4, 3, 2}));
  VolumesConfig config = pairs();
  config.order = "cxyz";
  EXPECT_THAT(refusal(config), AllOf(HasSubstr("b_image.h5' has 1 channel(s), '"),
                                     HasSubstr("a_image.h5' has 2, wanted as many")));
}

TEST_F(VolumeCasesTest, GroupsComeFromNamesByAPattern) {
  write_pair("p1-x", places({4, 3, 2}), no_labels({4, 3, 2}));
  write_pair("p1-y", places({4, 3, 2}), no_labels({4, 3, 2}));
  write_pair("q", places({4, 3, 2}), no_labels({4, 3, 2}));
  VolumesConfig config = pairs();
  config.group_pattern = "p([0-9]+)";
  config.on_bad_files = "skip";
  const VolumeCases found = find_volume_cases(config);
  ASSERT_THAT(names(found.cases), ElementsAre("p1-x", "p1-y"));
  EXPECT_EQ(found.cases[0].group, "1");
  EXPECT_THAT(found.problems, ElementsAre(HasSubstr("'q': no group in the name")));
}

TEST_F(VolumeCasesTest, OneFileOpensForPrediction) {
  two_pairs();
  const VolumeCase c = open_volume_case(pairs(), root + "/a_image.h5");
  EXPECT_EQ(c.name, "a");
  EXPECT_EQ(c.label.path, "");
  EXPECT_EQ(c.box, (Box{{}, {4, 3, 2}}));
  EXPECT_EQ(volume_case_name(pairs(), "/x/scan.v2.nii.gz"), "scan");
}

TEST_F(VolumeCasesTest, AGroupHalfOfWhichHasAPartIsRefused) {
  std::vector<VolumeCase> cases(3);
  cases[0].name = "a", cases[0].group = "g", cases[0].part = "test";
  cases[1].name = "b", cases[1].group = "g";
  cases[2].name = "c", cases[2].group = "h", cases[2].part = "training";
  EXPECT_THAT(message_of([&] { split_volumes(cases, {}); }),
              AllOf(HasSubstr("case 'b' has no part"), HasSubstr("'a' of its group 'g'")));
  cases[1].part = "validation";  // one group on two sides: the manifest says so
  const Split split = split_volumes(cases, {});
  EXPECT_THAT(split.train, ElementsAre(2));
  EXPECT_THAT(split.validation, ElementsAre(1));
  EXPECT_THAT(split.test, ElementsAre(0));
  cases[2].part = "test";
  EXPECT_THAT(message_of([&] { split_volumes(cases, {}); }),
              HasSubstr("no case is left for training"));
}

}  // namespace
}  // namespace bora::data::test
