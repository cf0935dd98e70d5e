// SPDX-License-Identifier: Apache-2.0
// Row 88: with on_bad_files = skip, whatever is wrong with a case leaves it out, and no other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/foreground.hpp"
#include "data/volume_cases.hpp"
#include "data/volume_read.hpp"
#include "tests/data/volume_fixture.hpp"

namespace bora::data::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class VolumeSkip : public VolumeTest {
 protected:
  void good(const std::string& name) const {
    write_pair(name, places({4, 3, 2}), no_labels({4, 3, 2}));
  }
  static std::vector<std::string> names(const VolumeCases& found) {
    std::vector<std::string> out;
    for (const VolumeCase& c : found.cases) out.push_back(c.name);
    return out;
  }
  VolumesConfig skipping() const {
    VolumesConfig config = pairs();
    config.on_bad_files = "skip";
    return config;
  }
};

TEST_F(VolumeSkip, CasesThatThePreFlightFindsWrongAreLeftOut) {
  for (const char* name : {"a", "c", "e", "g"}) good(name);
  write_pair("b", places({4, 3, 2}), no_labels({4, 3, 3}));  // another grid
  Tensor holes = places({4, 3, 2});
  holes.data<float>()[7] = NAN;
  write_pair("d", holes, no_labels({4, 3, 2}));
  write_pair("f", places({4, 3, 2}), Tensor::full({4, 3, 2}, 9, DType::u8));  // no such class
  write_list("h_image.h5", "no HDF5");
  write("h_label.h5", "label", no_labels({4, 3, 2}));
  const VolumeCases found = find_volume_cases(skipping());
  EXPECT_THAT(names(found), ElementsAre("a", "c", "e", "g"));
  // Their own headers, not those of the cases before or behind them.
  for (const VolumeCase& c : found.cases) {
    EXPECT_EQ(c.grid, (Dims3{4, 3, 2})) << c.name;
    EXPECT_EQ(c.image_stamp, FileStamp::of(root + "/" + c.name + "_image.h5"));
    EXPECT_EQ(c.label_stamp, FileStamp::of(root + "/" + c.name + "_label.h5"));
  }
  EXPECT_THAT(found.problems, UnorderedElementsAre(HasSubstr("b_label.h5' has a grid of 4x3x3"),
                                                   HasSubstr("d_image.h5"), HasSubstr("f_label.h5"),
                                                   HasSubstr("h_image.h5")));
}

TEST_F(VolumeSkip, CasesThatDoNotGoWithTheOthersAreLeftOut) {
  for (const char* name : {"a", "c"}) good(name);
  VolumesConfig config = skipping();
  config.order = "xyzc";
  write("b_image.h5", "raw", Tensor::full({4, 3, 2, 2}, 1, DType::f32));
  write("b_label.h5", "label", no_labels({4, 3, 2}));
  const VolumeCases found = find_volume_cases(config);
  EXPECT_THAT(names(found), ElementsAre("a", "c"));
  EXPECT_THAT(found.problems, ElementsAre(HasSubstr("b_image.h5' has 2 channel(s)")));
}

TEST_F(VolumeSkip, BothOfTwoCasesThatShareCellsAreLeftOut) {
  for (const char* name : {"p", "q"}) good(name);
  // Boxes of p: the first two touch, the third shares a layer with the second; q is alone.
  write_list("m.csv",
             "case,image,label,box,group\n"
             "one,p_image.h5,p_label.h5,\"0:1,,\",g1\n"
             "two,p_image.h5,p_label.h5,\"1:3,,\",g2\n"
             "three,p_image.h5,p_label.h5,\"2:4,,\",g3\n"
             "alone,q_image.h5,q_label.h5,,\n");
  VolumesConfig config = skipping();
  config.list = "m.csv";
  const VolumeCases found = find_volume_cases(config);
  EXPECT_THAT(names(found), UnorderedElementsAre("one", "alone"));
  EXPECT_THAT(found.problems, ElementsAre(HasSubstr("have cells of")));
}

// Cells that are not to be looked at are passed over, and count as places all the same.
TEST(ForegroundCells, KnowsItsPlacesBehindIgnoredCells) {
  const Box box{{5, 6, 7}, {2, 3, 4}};
  ForegroundCells cells(box, 3);
  Tensor first = Tensor::full({1, 3, 4}, kIgnoredClass, DType::u8);
  Tensor second = Tensor::full({1, 3, 4}, kIgnoredClass, DType::u8);
  second.data<uint8_t>()[1 * 4 + 2] = 2;  // cell (1, 1, 2) of the box
  cells.add(first);
  cells.add(second);
  EXPECT_EQ(cells.count(), 1);
  for (uint64_t k = 0; k < 5; ++k)
    for (const bool by_class : {false, true}) {
      const auto cell = cells.draw({k, rng_stream("test")}, by_class);
      ASSERT_TRUE(cell.has_value());
      EXPECT_EQ(*cell, (Dims3{1, 1, 2}));
    }
}

}  // namespace
}  // namespace bora::data::test
