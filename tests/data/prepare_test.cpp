// SPDX-License-Identifier: Apache-2.0
// Row 80: ranks that start on an empty folder.
#include "data/prepare.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>

#include "comm/communicator.hpp"
#include "data/synthetic.hpp"
#include "data/wind_dataset.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/support/mpi_main.hpp"

namespace bora::data::test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

/// A folder that rank 0 made, by its name on all ranks.
class PrepareOnce : public ::testing::Test {
 protected:
  PrepareOnce() : ranks_(make_communicator(bora::testing::session())) {
    if (ranks_->rank() == 0) own_ = std::make_unique<TempFolder>();
    base_ = ranks_->broadcast_text(own_ ? own_->path() : "", 0, "folder");
  }
  ~PrepareOnce() override { ranks_->barrier("done with the folder"); }
  /// What lies in the base folder, as all ranks see it.
  int64_t n_here() {
    ranks_->barrier("before counting");
    return std::distance(fs::directory_iterator(base_), fs::directory_iterator());
  }

  std::unique_ptr<Collective> ranks_;
  std::unique_ptr<TempFolder> own_;
  std::string base_;
};

TEST_F(PrepareOnce, OneRankMakesAllReadAndNobodyMakesItAgain) {
  SyntheticWindOptions options;
  options.n_layouts = 2;
  options.grid = {8, 8, 4};
  const std::string folder = base_ + "/deep/data";
  int64_t n_made = 0;
  const auto make = [&](const std::string& part) {
    ++n_made;
    EXPECT_FALSE(fs::exists(folder));  // not before it is whole
    write_synthetic_wind(part, options);
  };
  for (const bool first : {true, false}) {
    EXPECT_EQ(prepare_once(folder + "/", *ranks_, make), first);
    EXPECT_EQ(ranks_->all_reduce(n_made, ReduceOp::sum, "times made"), 1);
    WindConfig config;
    config.root = folder;
    config.normalisation = "none";
    const WindDataset data(config);  // each rank alone
    EXPECT_EQ(data.size(), static_cast<int64_t>(2 * options.angles.size()));
    for (int64_t i = 0; i < data.size(); ++i) data.read(i, WindowChoice::centred());
  }
  // Others may read it, as the umask has it.
  const mode_t mask = ::umask(0);
  ::umask(mask);
  EXPECT_EQ(static_cast<mode_t>(fs::status(folder).permissions()), 0777 & ~mask);
}

TEST_F(PrepareOnce, AnEmptyFolderIsFilled) {
  const std::string folder = base_ + "/empty";
  ranks_->agree("making it", [&] {
    if (ranks_->rank() == 0) fs::create_directory(folder);
  });
  EXPECT_TRUE(prepare_once(folder, *ranks_,
                           [](const std::string& part) { write_file(part + "/a", "whole"); }));
  EXPECT_EQ(read_file(folder + "/a"), "whole");
  EXPECT_EQ(n_here(), 1);
}

TEST_F(PrepareOnce, AFailureIsEveryonesAndLeavesNothing) {
  const std::string folder = base_ + "/data";
  EXPECT_THAT(message_of([&] {
                prepare_once(folder, *ranks_, [](const std::string& part) {
                  write_file(part + "/half", "ha");
                  BORA_FAIL("the archive ends early");
                });
              }),
              HasSubstr("the archive ends early"));
  EXPECT_THAT(message_of([&] { prepare_once(folder, *ranks_, [](const std::string&) {}); }),
              HasSubstr("nothing was made"));
  EXPECT_EQ(n_here(), 0);
}

TEST_F(PrepareOnce, APlaceWhereNothingCanBeMadeIsNamed) {
  if (ranks_->rank() == 0) write_file(base_ + "/file", "in the way");
  ranks_->barrier("the file is there");
  const std::string folder = base_ + "/file/data";
  EXPECT_THAT(message_of([&] { prepare_once(folder, *ranks_, [](const std::string&) {}); }),
              HasSubstr("cannot make a folder beside '" + folder + "': Not a directory"));
}

TEST_F(PrepareOnce, AnotherJobThatWasFasterWins) {
  const std::string folder = base_ + "/data";
  EXPECT_FALSE(prepare_once(folder, *ranks_, [&](const std::string& part) {
    write_file(part + "/a", "ours");
    fs::create_directory(folder);
    write_file(folder + "/a", "theirs");
  }));
  EXPECT_EQ(read_file(folder + "/a"), "theirs");
  EXPECT_EQ(n_here(), 1);
}

}  // namespace
}  // namespace bora::data::test
