// SPDX-License-Identifier: Apache-2.0
// Results as files, joined, judged and rendered.
#include "apps/gpucheck/report.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "apps/gpucheck/stages.hpp"
#include "tests/support/message_of.hpp"

namespace bora::gpucheck {
namespace {

using testing::message_of;

/// A folder of the test's own, empty.
std::string folder(const std::string& name) {
  const std::string path = ::testing::TempDir() + "gpucheck_report_" + name;
  std::filesystem::remove_all(path);
  std::filesystem::create_directories(path);
  return path;
}

Check check(bool pass) {
  return {.op = "relu_forward",
          .shape = "(2, 3)",
          .dtype = "f16",
          .reference = "cpu f64",
          .rel_l2 = 1e-4,
          .max_abs = NAN,
          .tol_rel_l2 = 1e-3,
          .tol_max_abs = HUGE_VAL,
          .tol_from = "somewhere",
          .bitwise_repeat = pass,
          .pass = pass,
          .note = pass ? "" : "element 3 of 6: \"quoted\"\n"};
}

Stage stage(const std::string& name, Status status) {
  Stage s;
  s.name = name;
  s.status = status;
  s.device = "gpu";
  return s;
}

TEST(GpuCheckResult, ComesBackAsItWasWritten) {
  const std::string path = folder("back") + "/a.json";
  Stage s = stage("kernels", Status::failed);
  s.seconds = 1.5;
  s.error = "an error";
  s.facts = {{"gpu", "NVIDIA H200"}};
  s.numbers = {{"copy_GBps", 4300.5}};
  s.checks = {check(true), check(false)};
  s.bench = {{.name = "adamw",
              .shape = "(7)",
              .dtype = "f16",
              .ms_median = 0.25,
              .n = 30,
              .bytes = 1e9,
              .pct_of_floor = 85,
              .peak_mib = 3}};
  s.plans = {{.layer = "32 -> 32",
              .pass = "forward",
              .dtype = "f16",
              .engine = "engine 62",
              .tensor_core = true,
              .workspace_mib = 6,
              .predicted = "engine 62"}};
  s.properties_json = R"({"deviceVer":900})";
  write_stage(s, path);
  const Stage r = read_stage(path);
  EXPECT_EQ(r.status, Status::failed);
  EXPECT_EQ(r.facts, s.facts);
  EXPECT_EQ(r.numbers, s.numbers);
  ASSERT_EQ(r.checks.size(), 2u);
  EXPECT_EQ(r.checks[1].note, s.checks[1].note);
  EXPECT_TRUE(std::isnan(r.checks[0].max_abs));
  EXPECT_TRUE(std::isinf(r.checks[0].tol_max_abs));
  ASSERT_EQ(r.bench.size(), 1u);
  EXPECT_EQ(r.bench[0].pct_of_floor, 85);
  EXPECT_DOUBLE_EQ(r.bench[0].gb_per_s(), 4000);
  ASSERT_EQ(r.plans.size(), 1u);
  EXPECT_TRUE(r.plans[0].tensor_core);
  EXPECT_EQ(r.properties_json, s.properties_json);
}

TEST(GpuCheckReport, JudgesByCorrectnessOnly) {
  EXPECT_TRUE(at_fault(stage("kernels", Status::failed), false));
  EXPECT_TRUE(at_fault(stage("training", Status::error), false));
  EXPECT_TRUE(at_fault(stage("cudnn", Status::timed_out), false));
  EXPECT_FALSE(at_fault(stage("kernels", Status::no_device), false));
  EXPECT_TRUE(at_fault(stage("kernels", Status::no_device), true));
  EXPECT_FALSE(at_fault(stage("sanitizer", Status::not_available), true));
  EXPECT_FALSE(at_fault(stage("throughput mlperf graph", Status::error), true));
  EXPECT_FALSE(at_fault(stage("ncu", Status::timed_out), true));
  EXPECT_FALSE(at_fault(stage("training", Status::not_wanted), true));
  EXPECT_TRUE(at_fault(stage("training", Status::left_out), true));
  // A stage that calls itself passed with a check that is not.
  Stage s = stage("kernels", Status::passed);
  s.checks = {check(true), check(false)};
  EXPECT_TRUE(at_fault(s, false));
  s.checks = {check(true)};
  EXPECT_FALSE(at_fault(s, true));
  s.device = "emulated";
  EXPECT_TRUE(at_fault(s, true));
}

TEST(GpuCheckReport, JoinsStagesAndKeepsWhatCannotBeRead) {
  const std::string path = folder("join");
  Stage environment = stage("environment", Status::passed);
  environment.facts = {{"gpu", "NVIDIA H200"}};
  environment.numbers = {{"copy_GBps", 4300}};
  write_stage(environment, path + "/01-environment.json");
  Stage kernels = stage("kernels", Status::passed);
  kernels.checks = {check(true)};
  write_stage(kernels, path + "/02-kernels.json");
  gpucheck::Run run = join_stages(path, true);
  EXPECT_TRUE(run.right);
  EXPECT_EQ(run.machine.at("gpu"), "NVIDIA H200");
  EXPECT_EQ(run.ceilings.at("copy_GBps"), 4300);
  EXPECT_EQ(run.stages.size(), 2u);
  std::ofstream(path + "/03-training.json") << "{\"schema\": ";
  run = join_stages(path, true);
  EXPECT_FALSE(run.right);
  ASSERT_EQ(run.stages.size(), 3u);
  EXPECT_EQ(run.stages[2].status, Status::error);
  EXPECT_NE(run.stages[2].error.find("03-training.json"), std::string::npos);
  write_run(run, path + "/run.out");
  const gpucheck::Run again = read_run(path + "/run.out");
  EXPECT_EQ(table(again), table(run));
  EXPECT_NE(message_of([&] { read_run(path + "/02-kernels.json"); }).find("schema"),
            std::string::npos);
  EXPECT_NE(message_of([] { join_stages("/nowhere", false); }).find("/nowhere"), std::string::npos);
}

TEST(GpuCheckReport, SaysThatNothingWasJudgedOrThatARunWasBrokenOff) {
  const std::string path = folder("nothing");
  write_stage(stage("environment", Status::passed), path + "/01-environment.json");
  gpucheck::Run run = join_stages(path, true);
  EXPECT_FALSE(run.judged);
  EXPECT_STREQ(verdict(run), "NOTHING WAS JUDGED");
  Stage kernels = stage("kernels", Status::passed);
  kernels.checks = {check(true)};
  write_stage(kernels, path + "/02-kernels.json");
  run = join_stages(path, true);
  EXPECT_TRUE(run.judged);
  EXPECT_STREQ(verdict(run), "no fault found");
  run.finished = false;
  write_run(run, path + "/run.out");
  EXPECT_STREQ(verdict(read_run(path + "/run.out")), "BROKEN OFF, no fault found so far");
}

Stage timed(const std::string& way, double ms, double parameters, double peak) {
  Stage s = stage("throughput mlperf " + way, Status::passed);
  s.bench = {{.name = way,
              .shape = "mlperf 2x128",
              .dtype = "f16",
              .ms_median = ms,
              .n = 30,
              .peak_mib = peak}};
  s.numbers = {{"parameters", parameters}};
  return s;
}

TEST(GpuCheckReport, ComparesWithTheBetterLayoutOfTheSameNetwork) {
  const std::string path = folder("compare");
  int number = 0;
  const auto put = [&](const Stage& s) {
    write_stage(s, detail::join(path, '/', ++number, ".json"));
  };
  put(timed("ours eager", 30, 31, 900));
  put(timed("ours graph", 20, 31, 1000));
  put(timed("torch channels_last", 50, 31, 3000));
  put(timed("torch contiguous", 40, 31, 2000));
  gpucheck::Run run = join_stages(path, false);
  ASSERT_EQ(run.compare.size(), 1u);
  EXPECT_EQ(run.compare[0].ours_ms, 20);
  EXPECT_EQ(run.compare[0].ratio_to_best, 2);
  EXPECT_EQ(run.compare[0].ours_peak_mib, 1000);
  EXPECT_EQ(run.compare[0].torch_peak_mib, 2000);
  put(timed("torch contiguous", 40, 32, 2000));
  run = join_stages(path, false);
  EXPECT_EQ(run.compare[0].ratio_to_best, 0);
  EXPECT_NE(run.compare[0].note.find("not the same network"), std::string::npos);
  EXPECT_NE(table(run).find("not the same network"), std::string::npos);
}

TEST(GpuCheckReport, NeitherShowsNorComparesTimesOfAnEmulatedDevice) {
  const std::string path = folder("emulated");
  for (const char* way : {"ours eager", "torch contiguous"}) {
    Stage s = timed(way, 123.25, 31, 900);
    s.device = "emulated";
    write_stage(s, path + "/" + way + ".json");
  }
  const gpucheck::Run run = join_stages(path, false);
  EXPECT_TRUE(run.compare.empty());
  EXPECT_EQ(table(run).find("123.2"), std::string::npos) << table(run);
}

TEST(GpuCheckReport, PrintsNoNumberThatIsNotThere) {
  const std::string path = folder("none");
  write_stage(stage("kernels", Status::no_device), path + "/1.json");
  const std::string text = table(join_stages(path, false));
  EXPECT_NE(text.find("not measured"), std::string::npos) << text;
  EXPECT_EQ(text.find("ms median"), std::string::npos) << text;
}

TEST(GpuCheckReport, ReadsWhatNsightComputeWrites) {
  const std::string path = folder("ncu") + "/ncu.csv";
  std::ofstream(path) << "==PROF== Connected to process 1\n"
                         "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n"
                         "\"0\",\"norm<a, b>\",\"dram__bytes.sum\",\"Mbyte\",\"1,234.5\"\n"
                         "\"0\",\"norm<a, b>\",\"gpu__time_duration.sum\",\"us\",\"250\"\n"
                         "\"0\",\"norm<a, b>\",\"lts__t_sector_hit_rate.pct\",\"%\",\"33.5\"\n"
                         "\"1\",\"adamw\",\"dram__bytes.sum\",\"Gbyte\",\"2\"\n";
  const Stage s = ncu_stage(path);
  ASSERT_EQ(s.bench.size(), 2u);
  EXPECT_EQ(s.bench[0].name, "norm<a, b>");
  EXPECT_DOUBLE_EQ(s.bench[0].bytes, 1234.5e6);
  EXPECT_DOUBLE_EQ(s.bench[0].ms_median, 0.25);
  EXPECT_DOUBLE_EQ(s.numbers.at("norm<a, b>: lts__t_sector_hit_rate.pct"), 33.5);
  EXPECT_DOUBLE_EQ(s.bench[1].bytes, 2e9);
  std::ofstream(path) << "nothing\n";
  EXPECT_NE(message_of([&] { ncu_stage(path); }).find("holds no launch"), std::string::npos);
}

}  // namespace
}  // namespace bora::gpucheck
