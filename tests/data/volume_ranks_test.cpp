// SPDX-License-Identifier: Apache-2.0
// Rows 88, 94, 102 for volumes: what all ranks must agree on; draws shared among ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "comm/communicator.hpp"
#include "data/atomic_file.hpp"
#include "data/sampler.hpp"
#include "data/synthetic_volumes.hpp"
#include "data/volume_dataset.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/mpi_main.hpp"
#include "tests/support/shared_folder.hpp"

namespace bora::data::test {
namespace {

using bora::testing::message_of;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

VolumesConfig write_cases(Collective& ranks, const std::string& folder) {
  ranks.agree("writing volumes", [&] {
    if (ranks.rank() != 0) return;
    SyntheticVolumesOptions o;
    o.n_cases = 5;
    o.grid = {12, 10, 8};
    write_synthetic_volumes(folder, o);
  });
  VolumesConfig config;
  config.root = folder;
  config.classes = synthetic_classes();
  config.normalisation = "global";
  config.patch = {6, 6, 6};
  config.foreground = 0.5;
  return config;
}

TEST(VolumeRanks, CasesStatisticsAndPatchesAreTheSameAsOnOneRank) {
  const auto ranks = make_communicator(bora::testing::session());
  const bora::testing::SharedFolder folder(*ranks);
  const VolumesConfig config = write_cases(*ranks, folder.path());
  VolumeDataset data(config, ranks.get()), alone(config);
  ASSERT_EQ(data.size(), 5);
  for (int64_t i = 0; i < data.size(); ++i) {
    EXPECT_EQ(data.name(i), alone.name(i));
    EXPECT_EQ(data.at(i).image.path, alone.at(i).image.path);
    EXPECT_EQ(data.at(i).box, alone.at(i).box);
    EXPECT_EQ(data.at(i).grid, alone.at(i).grid);
    EXPECT_EQ(data.at(i).spacing, alone.at(i).spacing);
    EXPECT_EQ(data.at(i).label_type, alone.at(i).label_type);
    EXPECT_EQ(data.at(i).label_stamp, alone.at(i).label_stamp);
  }
  const auto self = make_self_communicator();
  data.fit_normaliser({0, 2, 3}, *ranks);
  alone.fit_normaliser({0, 2, 3}, *self);
  const auto bits = [](double v) { return std::bit_cast<uint64_t>(v); };
  ASSERT_EQ(data.normaliser().moments().size(), 1U);
  EXPECT_EQ(data.normaliser().moments()[0].n, 3 * 12 * 10 * 8);
  EXPECT_EQ(bits(data.normaliser().moments()[0].mean), bits(alone.normaliser().moments()[0].mean));
  EXPECT_EQ(bits(data.normaliser().moments()[0].m2), bits(alone.normaliser().moments()[0].m2));
  for (uint64_t k = 0; k < 8; ++k) {
    const auto choice = WindowChoice::random({1, k});
    const int64_t index = static_cast<int64_t>(k % 5);
    EXPECT_EQ(data.read(index, choice).input.to_vector<float>(),
              alone.read(index, choice).input.to_vector<float>());
  }
}

TEST(VolumeRanks, ProblemsAreOneErrorOnAllRanks) {
  const auto ranks = make_communicator(bora::testing::session());
  const bora::testing::SharedFolder folder(*ranks);
  VolumesConfig config = write_cases(*ranks, folder.path());
  ranks->agree("spoiling files", [&] {
    if (ranks->rank() != 0) return;
    std::filesystem::remove(folder.path() + "/case2_label.nii.gz");
    write_file_atomic(folder.path() + "/case4_image.nii.gz", "no NIfTI");
  });
  const std::string text = message_of([&] { find_volume_cases(config, ranks.get()); });
  EXPECT_THAT(text, AllOf(HasSubstr("2 problem(s)"), HasSubstr("has no label 'case2_label.nii.gz'"),
                          HasSubstr("case4_image.nii.gz")));
  EXPECT_THAT(ranks->all_gather_text(text, "problems"), Each(text));
  config.on_bad_files = "skip";
  EXPECT_EQ(find_volume_cases(config, ranks.get()).cases.size(), 3U);
  config.list = "none.csv";
  EXPECT_THAT(message_of([&] { find_volume_cases(config, ranks.get()); }),
              HasSubstr("none.csv': No such file"));
}

TEST(VolumeRanks, AWeightedEpochIsSharedAndGoesOnFromAnOddPosition) {
  const auto ranks = make_communicator(bora::testing::session());
  const SamplerOptions one{
      .n_samples = 11, .seed = 3, .weights = {1, 0, 2, 0, 5, 1, 1, 0, 3, 1, 1}};
  SamplerOptions mine = one;
  mine.n_ranks = ranks->size();
  mine.rank = ranks->rank();
  for (const int64_t position : {0, 3, 7}) {
    const EpochPosition from{2, position};
    std::vector<double> drawn(11, 0);  // index + 1 of each slot
    for (const Slot& s : DistributedSampler(mine).slots(from))
      if (!s.padding) drawn[static_cast<size_t>(s.slot)] += static_cast<double>(s.index + 1);
    drawn = ranks->all_reduce(drawn, ReduceOp::sum, "draws");
    std::vector<double> wanted(11, 0);
    for (const Slot& s : DistributedSampler(one).slots(from))
      wanted[static_cast<size_t>(s.slot)] = static_cast<double>(s.index + 1);
    EXPECT_EQ(drawn, wanted) << "from " << position;
  }
}

}  // namespace
}  // namespace bora::data::test
