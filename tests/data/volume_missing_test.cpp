// SPDX-License-Identifier: Apache-2.0
// Rows 89, 93: a cell without a value in any one of its channels is left out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/data/volume_fixture.hpp"
#include "tests/support/message_of.hpp"

namespace bora::data::test {
namespace {

class VolumeMissing : public OneCaseTest {};

TEST_F(VolumeMissing, ACellThatLacksOneChannelIsLeftOut) {
  Tensor image = Tensor::full({2, 2, 2, 3}, 5, DType::f32);
  float* v = image.data<float>();
  v[1 * 3 + 0] = NAN;  // cell 1 lacks its first channel, 3 the second, 6 the last, 7 all
  v[3 * 3 + 1] = NAN;
  v[6 * 3 + 2] = NAN;
  for (int c = 0; c < 3; ++c) v[7 * 3 + c] = NAN;
  write("a_image.h5", "raw", image);
  write("a_label.h5", "label", Tensor::full({2, 2, 2}, 1, DType::u8));
  VolumesConfig config = pairs();
  config.order = "xyzc";
  config.missing = "mask";
  const Sample s = VolumeDataset(config).read(0, WindowChoice::centred());
  ASSERT_EQ(s.input.shape(), (Shape{2, 2, 2, 3}));
  for (int64_t i = 0; i < 8; ++i) {
    const bool lacks = i == 1 || i == 3 || i == 6 || i == 7;
    EXPECT_EQ(s.valid.data<uint8_t>()[i], lacks ? 0 : 1) << i;
    EXPECT_EQ(s.region.data<uint8_t>()[i], lacks ? 0 : 1) << i;
    // All of its channels hold the padding's value, not what is left of them.
    for (int64_t c = 0; c < 3; ++c)
      EXPECT_EQ(s.input.data<float>()[i * 3 + c], lacks ? 0 : 5) << i << " " << c;
  }
}

TEST_F(VolumeMissing, HowManyAreLeftOutIsTold) {
  Tensor image = Tensor::full({4, 4, 4, 2}, 5, DType::f32);
  image.data<float>()[2 * 2] = NAN;
  for (int c = 0; c < 2; ++c) image.data<float>()[9 * 2 + c] = NAN;
  write("a_image.h5", "raw", image);
  write("a_label.h5", "label", Tensor::full({4, 4, 4}, 1, DType::u8));
  VolumesConfig config = pairs();
  config.order = "xyzc";
  config.missing = "mask";
  const auto told = [&] {
    ::testing::internal::CaptureStderr();
    const VolumeCases found = find_volume_cases(config);
    EXPECT_EQ(found.cases.at(0).missing.cells, config.preflight == "headers" ? 0 : 64);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(
      told(),
      "volumes.missing = mask: 2 of 64 cells (3.12 %) have no value and are left out, in 1 of 1 "
      "case; most in 'a', 3.12 %\n");
  config.preflight = "headers";
  EXPECT_EQ(told(), "");  // nobody looked
}

TEST_F(VolumeMissing, ACaseOfWhichNothingCountsIsAProblem) {
  write("a_image.h5", "raw", Tensor::full({4, 4, 4}, NAN, DType::f32));
  write("a_label.h5", "label", Tensor::full({4, 4, 4}, 1, DType::u8));
  write("a_weight.h5", "weight", Tensor::zeros({4, 4, 4}, DType::f32));
  VolumesConfig config = pairs();
  config.order = "xyz";
  config.missing = "mask";
  config.weight_suffix = "_weight.h5";
  EXPECT_THAT(
      bora::testing::message_of([&] { find_volume_cases(config); }),
      ::testing::AllOf(::testing::HasSubstr("a_image.h5"),
                       ::testing::HasSubstr("none of its 64 cells has a value"),
                       ::testing::HasSubstr("a_weight.h5"),
                       ::testing::HasSubstr("all weights are 0; nothing of the case would count")));
}

TEST(MissingCells, ACaseThatLacksHalfIsAWarning) {
  const auto told = [](const std::vector<NamedMissing>& cases) {
    ::testing::internal::CaptureStderr();
    tell_missing(cases, "files.missing");
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(told({{"a", {0, 10}}, {"b", {}}}), "");
  EXPECT_EQ(told({{"a", {1, 10}}, {"b", {4, 10}}, {"c", {}}, {"d", {0, 20}}}),
            "files.missing = mask: 5 of 40 cells (12.5 %) have no value and are left out, in 2 of "
            "3 cases; "
            "most in 'b', 40 %\n");
  EXPECT_EQ(
      told({{"a", {5, 10}}, {"b", {4, 10}}}),
      "warn: files.missing = mask: 9 of 20 cells (45 %) have no value and are left out, in 2 of 2 "
      "cases; most in 'a', 50 %. Is a fill value or valid range of the files another one than it "
      "should be?\n");
}

}  // namespace
}  // namespace bora::data::test
