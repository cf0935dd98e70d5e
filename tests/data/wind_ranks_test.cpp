// SPDX-License-Identifier: Apache-2.0
// Rows 88, 96, 102: what all ranks must agree on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>

#include "comm/communicator.hpp"
#include "data/split.hpp"
#include "data/wind_dataset.hpp"
#include "tests/data/reference_values.hpp"
#include "tests/support/mpi_main.hpp"
#include "tests/support/shared_folder.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(WindRanks, FilesSplitAndStatisticsAreTheSameAsOnOneRank) {
  const auto ranks = make_communicator(bora::testing::session());
  const auto self = make_self_communicator();
  WindConfig config;
  config.root = kSample;
  config.shape = {0, 0, 8};
  WindDataset data(config, ranks.get());
  WindDataset alone(config);
  ASSERT_EQ(data.size(), alone.size());
  for (int64_t i = 0; i < data.size(); ++i) {
    EXPECT_EQ(data.name(i), alone.name(i));
    EXPECT_EQ(data.group(i), alone.group(i));
    EXPECT_EQ(data.at(i).angle_deg, alone.at(i).angle_deg);
    EXPECT_EQ(data.at(i).grid, alone.at(i).grid);
    EXPECT_EQ(data.at(i).wind_stamp, alone.at(i).wind_stamp);
  }
  const Split split = make_split(data, {});
  std::string text;
  for (int64_t i : split.train) text += data.name(i) + " ";
  EXPECT_THAT(ranks->all_gather_text(text, "split"), Each(text));

  const std::vector<int64_t> few(split.train.begin(), split.train.begin() + 7);
  data.fit_normaliser(few, *ranks);
  alone.fit_normaliser(few, *self);
  const auto bits = [](double v) { return std::bit_cast<uint64_t>(v); };
  EXPECT_EQ(data.normaliser().moments().n, alone.normaliser().moments().n);
  EXPECT_EQ(bits(data.normaliser().moments().mean), bits(alone.normaliser().moments().mean));
  EXPECT_EQ(bits(data.normaliser().moments().m2), bits(alone.normaliser().moments().m2));
}

// What is between the fields of a list must not be what a name may hold.
TEST(WindRanks, PathsHoldAnyBytes) {
  const auto ranks = make_communicator(bora::testing::session());
  const bora::testing::SharedFolder folder(*ranks);
  WindConfig config;
  config.root = folder.path() + "/tab\tand\nline";
  ranks->agree("linking the sample", [&] {
    if (ranks->rank() == 0)
      std::filesystem::create_directory_symlink(std::filesystem::absolute(kSample), config.root);
  });
  const WindDataset data(config, ranks.get());
  config.root = kSample;
  EXPECT_EQ(data.size(), WindDataset(config).size());
  EXPECT_THAT(data.at(0).wind_path, HasSubstr("tab\tand\nline/"));
}

TEST(WindRanks, AFailureOnOneRankIsTheSameErrorOnAll) {
  const auto ranks = make_communicator(bora::testing::session());
  WindConfig config;
  config.root = "/nowhere/at/all";
  try {
    WindDataset data(config, ranks.get());
    ADD_FAILURE() << "no exception";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("/nowhere/at/all/wind_speed_filled"));
  }
  Normaliser n(NormMode::global);
  try {  // only the rank that reads case 2 fails
    n.fit(
        {0, 1, 2},
        [](int64_t i) {
          BORA_CHECK(i != 2, "case 2 is broken");
          return Moments{1, 1, 1};
        },
        *ranks);
    ADD_FAILURE() << "no exception";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("case 2 is broken"));
  }
  ranks->barrier("all are still in step");
}

}  // namespace
}  // namespace bora::data::test
