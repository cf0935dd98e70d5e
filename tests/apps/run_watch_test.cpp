// SPDX-License-Identifier: Apache-2.0
// What a run leaves to look at, written beside it; and what happens where it cannot be.  Row 147.
#include "apps/train/run_watch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "apps/train/report.hpp"
#include "apps/train/run_folder.hpp"
#include "apps/train/run_log.hpp"
#include "comm/communicator.hpp"
#include "core/log.hpp"
#include "core/log_warnings.hpp"
#include "data/image.hpp"
#include "tests/data/event_file.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::train {
namespace {

using data::test::message_of;
using data::test::read_file;
using data::test::TempFolder;
using testing::HasSubstr;

/// Ten cases that nobody reads.
class NoCases : public data::Dataset {
 public:
  int64_t size() const override { return 10; }
  data::Sample read(int64_t index, const data::WindowChoice&) const override {
    BORA_FAIL("case ", index, " is read");
  }
  std::string name(int64_t index) const override { return std::to_string(index); }
  int64_t n_channels() const override { return 1; }
};

class QuietTask : public Task {
 public:
  nn::Module& model() override { BORA_FAIL("the network is used"); }
  const data::Dataset& training() const override { return cases_; }
  Loss loss(const data::Batch&) override { BORA_FAIL("the loss is used"); }
  std::string settings_text() const override { return "[task]\nquiet = true\n"; }
  OldSettings compare_settings(const std::string&, const std::string&) const override { return {}; }
  std::vector<std::string> describe() const override { return {"a quiet task"}; }

 private:
  NoCases cases_;
};

class RunWatchTest : public testing::Test {
 protected:
  RunWatchTest() {
    config_.output.dir = folder_.path();
    log_take_warnings();
  }
  RunLog log() const { return RunLog::read(folder_.file("metrics.jsonl")); }
  std::string path(const std::string& name) const { return folder_.file(name); }
  Picture picture(const std::string& name) const {
    return {name, "Title of " + name,
            [](const std::string& to) { data::write_png(to, 2, 2, std::vector<uint8_t>(12, 7)); }};
  }
  std::string event_file() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      if (data::is_event_file(entry.path().filename().string())) return entry.path().string();
    return {};
  }

  TempFolder folder_;
  RunConfig config_;
  QuietTask task_;
  std::unique_ptr<Collective> alone_ = make_self_communicator();
  data::JsonlWriter json_{folder_.file("metrics.jsonl"), data::OpenMode::replace};
};

TEST_F(RunWatchTest, LeavesRowsEventsPicturesAndAReport) {
  RunWatch watch(config_, *alone_, cpu());
  watch.begin(json_,
              {.update = 4,
               .epoch = 1,
               .updates = 100,
               .updates_an_epoch = 10,
               .effective_batch = 2,
               .parameters = 7,
               .threads = 3},
              task_);
  watch.row({{"kind", "train"}, {"update", 5}, {"epoch", 1}, {"loss", 0.5}, {"lr", 0.1}});
  log_warn("a hot room");
  watch.cases({{.index = 1, .name = "b", .loss = 2, .scores = {{"mae", "MAE", "m/s", 0.5}}}}, 5, 1);
  watch.row({{"kind", "validation"}, {"update", 5}, {"epoch", 1}, {"loss", 0.25}, {"best", true}});
  watch.pictures({picture("one"), picture("two")}, 0.001);
  EXPECT_FALSE(watch.pictures_due(0)) << "not again at once";
  watch.finish("finished", 40, 6, 1);

  const RunLog log = this->log();
  EXPECT_EQ(number_of(*log.last("start"), "parameters"), 7);
  EXPECT_EQ(number_of(*log.last("start"), "training_samples"), 10);
  EXPECT_EQ(text_of(*log.last("start"), "description"), "a quiet task\n");
  EXPECT_EQ(text_of(*log.last("score"), "unit"), "m/s");
  EXPECT_EQ(number_of(*log.last("case"), "mae"), 0.5);
  EXPECT_EQ(text_of(*log.last("warning"), "text"), "a hot room");
  ASSERT_EQ(log.of("figure").size(), 2u);
  EXPECT_EQ(text_of(*log.of("figure")[1], "title"), "Title of two, after epoch 1");
  EXPECT_EQ(text_of(*log.last("end"), "reason"), "finished");
  EXPECT_EQ(number_of(*log.last("end"), "samples"), 40);
  EXPECT_GT(number_of(*log.last("end"), "wall_s"), 0);

  const std::string page = read_file(path(kReportFile));
  EXPECT_NE(page.find("id=\"state\">finished<"), std::string::npos);
  EXPECT_NE(page.find("Title of two"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(path(std::string(kPictureFolder) + "/one.png")));

  const std::string events = read_file(event_file());
  std::vector<std::string> tags;
  for (const std::string_view record : data::test::event_records(events)) {
    const data::test::Message event(record);
    if (!event.has(5)) continue;
    const data::test::Message summary = event.message(5);
    for (const auto& value : summary.fields.at(1))
      tags.emplace_back(data::test::Message(value.bytes).one(1).bytes);
  }
  EXPECT_THAT(tags, testing::ElementsAre("settings", "train/loss", "optim/lr", "validation/loss",
                                         "pictures/one"));
}

TEST_F(RunWatchTest, WhatCannotBeWrittenIsToldOnceAndTheRunGoesOn) {
  std::filesystem::create_directories(path(kReportFile) + "/in the way");
  RunWatch watch(config_, *alone_, cpu());
  watch.begin(json_, {}, task_);
  watch.pictures({picture("one")}, 0);
  watch.row({{"kind", "train"}, {"update", 1}, {"loss", 0.5}});
  watch.finish("finished", 1, 1, 0);
  const RunLog log = this->log();
  ASSERT_EQ(log.of("warning").size(), 1u);
  EXPECT_THAT(text_of(*log.last("warning"), "text"), HasSubstr("report.html"));
  EXPECT_THAT(text_of(*log.last("warning"), "text"), HasSubstr("the run goes on without"));
  EXPECT_EQ(log.of("end").size(), 1u);
}

TEST_F(RunWatchTest, APictureThatFailsDoesNotCostTheReport) {
  RunWatch watch(config_, *alone_, cpu());
  watch.begin(json_, {}, task_);
  watch.pictures({{"bad", "t", [](const std::string&) { BORA_FAIL("no ink"); }}}, 0);
  watch.finish("finished", 1, 1, 0);
  EXPECT_THAT(text_of(*log().last("warning"), "text"), HasSubstr("no ink"));
  EXPECT_NE(read_file(path(kReportFile)).find("id=\"state\">finished<"), std::string::npos);
}

TEST_F(RunWatchTest, TellsAFailureAndWritesNothingThatIsNotWanted) {
  config_.output.tensorboard = false;
  {
    RunWatch watch(config_, *alone_, cpu());
    watch.begin(json_, {}, task_);
    watch.failed("the loss is nan", 3, 0);
  }
  EXPECT_EQ(event_file(), "");
  EXPECT_EQ(text_of(*log().last("end"), "reason"), "failed: the loss is nan");
  EXPECT_NE(read_file(path(kReportFile)).find("failed: the loss is nan"), std::string::npos);
  std::filesystem::remove(path(kReportFile));
  config_.output.report = false;
  RunWatch watch(config_, *alone_, cpu());
  watch.begin(json_, {}, task_);
  EXPECT_FALSE(watch.pictures_due(0));
  watch.finish("finished", 1, 1, 0);
  EXPECT_FALSE(std::filesystem::exists(path(kReportFile)));
}

TEST_F(RunWatchTest, ManyCasesAreCutToTheHardest) {
  RunWatch watch(config_, *alone_, cpu());
  watch.begin(json_, {}, task_);
  std::vector<ScoredCase> cases;
  for (int i = 0; i < 700; ++i)
    cases.push_back({.index = i, .name = std::to_string(i), .loss = 700.0 - i, .scores = {}});
  watch.cases(cases, 1, 1);
  const auto rows = RunLog::read(path("metrics.jsonl"));
  ASSERT_EQ(rows.of("case").size(), 500u);
  EXPECT_EQ(text_of(*rows.last("case"), "case"), "499");
}

}  // namespace
}  // namespace bora::train
