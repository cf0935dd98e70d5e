// SPDX-License-Identifier: Apache-2.0
// Row 89 and "damage": wrong values in files, each refused by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "comm/communicator.hpp"
#include "tests/data/held_lock.hpp"
#include "tests/data/wind_fixture.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class WindValuesTest : public WindDatasetTest {};

TEST_F(WindValuesTest, AMaskWithOtherValuesIsRefused) {
  const WindDataset before(config_);
  spoil(mask("0VF1"), "building_mask", [](Tensor& t) {
    t.data<float>()[(2 * 9 + 3) * 7 + 1] = 0.5f;
    t.data<float>()[t.numel() - 1] = std::nanf("");
  });
  EXPECT_THAT(message_of([&] { before.read(0, WindowChoice::centred()); }),
              AllOf(HasSubstr(mask("0VF1")), HasSubstr("has changed since the start")));
  EXPECT_THAT(message_of([&] { WindDataset(config_).read(0, WindowChoice::centred()); }),
              AllOf(HasSubstr(mask("0VF1")), HasSubstr("'building_mask'"), HasSubstr("2 of 756"),
                    HasSubstr("0.5"), HasSubstr("cell (2, 3, 1)")));
}

TEST_F(WindValuesTest, OtherMaskValuesByConfiguration) {
  const Sample plain = WindDataset(config_).read(0, WindowChoice::centred());
  spoil(mask("0VF1"), "building_mask", [](Tensor& t) {
    for (int64_t i = 0; i < t.numel(); ++i)
      t.data<float>()[i] = t.data<float>()[i] > 0 ? 0.0f : 1.0f;
  });
  config_.files.mask_building = 1;
  config_.files.mask_open = 0;
  EXPECT_TRUE(same(plain, WindDataset(config_).read(0, WindowChoice::centred())));
}

TEST_F(WindValuesTest, MissingWindInOpenCellsIsRefusedOrMasked) {
  const Sample plain = WindDataset(config_).read(0, WindowChoice::centred());
  const int64_t hole = first_open(plain);
  const int64_t building =
      std::find(plain.region.data<uint8_t>(), plain.region.data<uint8_t>() + 756, 0) -
      plain.region.data<uint8_t>();
  ASSERT_LT(building, 756);
  spoil(wind("0VF1"), "wind_speed",
        [&](Tensor& t) { t.data<float>()[hole] = t.data<float>()[building] = std::nanf(""); });
  EXPECT_THAT(message_of([&] { WindDataset(config_).read(0, WindowChoice::centred()); }),
              AllOf(HasSubstr(wind("0VF1")), HasSubstr("'wind_speed'"),
                    HasSubstr("1 of 756 values are missing"), HasSubstr("files.missing")));
  EXPECT_THAT(message_of([&] { WindDataset(config_).moments(0); }), HasSubstr("missing"));
  config_.files.missing = "mask";
  const WindDataset data(config_);
  const Sample s = data.read(0, WindowChoice::centred());
  EXPECT_EQ(s.region.data<uint8_t>()[hole], 0);
  EXPECT_EQ(s.valid.data<uint8_t>()[hole], 0);
  EXPECT_EQ(s.input.data<float>()[hole], 1);  // still air
  EXPECT_EQ(s.target.data<float>()[hole], 0);
  EXPECT_EQ(s.target.data<float>()[building], 0);
  EXPECT_EQ(s.valid.data<uint8_t>()[building], 1);
  for (int64_t i = 0; i < 756; ++i)
    if (i != hole) {
      EXPECT_EQ(s.target.data<float>()[i], plain.target.data<float>()[i]);
    }
  EXPECT_EQ(data.moments(0).n, WindDataset(config_).moments(0).n);
  // How many are left out is told once they were looked at: of the open cells, so not the building.
  config_.files.preflight = "full";
  ::testing::internal::CaptureStderr();
  const WindFiles files = find_wind_files(config_);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("files.missing = mask: 1 of "),
                    HasSubstr("in 1 of 6 cases; most in '0VF1'")));
  EXPECT_EQ(files.cases.at(0).missing.missing, 1);
  EXPECT_EQ(files.cases.at(0).missing.cells, data.moments(0).n + 1);
}

TEST_F(WindValuesTest, ACaseWithoutAValueIsAProblem) {
  spoil(wind("0VF1"), "wind_speed", [](Tensor& t) { t.fill(NAN); });
  config_.files.missing = "mask";
  config_.files.preflight = "full";
  EXPECT_THAT(
      message_of([&] { find_wind_files(config_); }),
      AllOf(HasSubstr(wind("0VF1")), HasSubstr("open cells has a value; nothing of the case")));
}

TEST_F(WindValuesTest, OneFileOfTwoCasesMayNotComeToTwoSides) {
  const auto copy_as = [&](const std::string& name) {
    std::filesystem::create_hard_link(wind("0VF1"), wind(name));
    std::filesystem::copy(mask("0VF1"), mask(name));
  };
  copy_as("90VF1");  // of the same layout: one side
  EXPECT_EQ(find_wind_files(config_).cases.size(), 7U);
  copy_as("0VF9");
  EXPECT_THAT(message_of([&] { find_wind_files(config_); }),
              AllOf(HasSubstr("cases '0VF1' and '0VF9' are both of '" + wind("0VF1")),
                    HasSubstr("different sides of the split")));
}

TEST_F(WindValuesTest, InfiniteWindIsRefused) {
  spoil(wind("0VF1"), "wind_speed",
        [](Tensor& t) { t.data<float>()[5] = std::numeric_limits<float>::infinity(); });
  config_.files.missing = "mask";
  EXPECT_THAT(message_of([&] { WindDataset(config_).read(0, WindowChoice::centred()); }),
              AllOf(HasSubstr(wind("0VF1")),
                    HasSubstr("values are infinite, the first at cell (0, 0, 5)")));
}

// What the pre-flight has not read is read by the fit: a file that does not answer is named.
TEST_F(WindValuesTest, AFitIsBoundedInTime) {
  config_.normalisation = "global";
  WindDataset data(config_);
  const auto self = make_self_communicator();
  {
    const HeldLock hangs;
    EXPECT_THAT(message_of([&] { data.fit_normaliser({0}, *self, {.silence_s = 0.05}); }),
                AllOf(HasSubstr("no answer for a long time from the file system"),
                      HasSubstr(wind("0VF1")), HasSubstr(mask("0VF1"))));
  }
  data.fit_normaliser({0}, *self);
  EXPECT_TRUE(data.normaliser().is_ready());
}

TEST_F(WindValuesTest, AVanishedFileIsNamed) {
  const WindDataset data(config_);
  std::filesystem::remove(wind("0VF1"));
  EXPECT_THAT(message_of([&] { data.read(0, WindowChoice::centred()); }),
              AllOf(HasSubstr(wind("0VF1")), HasSubstr("No such file")));
  EXPECT_THAT(message_of([&] { data.read(6, WindowChoice::centred()); }),
              HasSubstr("case 6 of a data set of 6"));
}

}  // namespace
}  // namespace bora::data::test
