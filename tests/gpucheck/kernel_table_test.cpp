// SPDX-License-Identifier: Apache-2.0
// The table of kernels against the headers, and the stage that runs it against planted faults.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "apps/gpucheck/kernel_table.hpp"
#include "apps/gpucheck/stages.hpp"
#include "tests/support/message_of.hpp"

namespace bora::gpucheck {
namespace {

// What takes a stream in kernels/*.hpp but is no kernel by itself, or is what a row calls anyway.
const std::set<std::string> kNoRow{
    "map",           "map_n",         "map_launch",     "for_each",
    "for_each_row",  "for_each_cell", "reduce_columns", "reduce_rows",
    "reduce_launch", "launch",  // launch shapes: every row goes through them
    "native"};

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(KernelTable, HasARowForEveryKernelOfTheHeaders) {
  const std::regex declaration(R"((\w+)\(Stream (?:stream)?\b)");
  std::set<std::string> rows, kernels;
  for (const Row& row : kernel_table()) {
    EXPECT_TRUE(rows.insert(row.name).second) << row.name << " has two rows";
  }
  size_t n_headers = 0;
  // The tests run from the repository's root.
  for (const auto& entry : std::filesystem::directory_iterator("kernels")) {
    if (entry.path().extension() != ".hpp") continue;
    ++n_headers;
    const std::string text = text_of(entry.path());
    for (std::sregex_iterator i(text.begin(), text.end(), declaration), end; i != end; ++i)
      if (kNoRow.count((*i)[1]) == 0) kernels.insert((*i)[1]);
  }
  ASSERT_GT(n_headers, 10u);
  // Own kernels on a device that have no function of their own above: reached through conv3d_*.
  const std::string head = text_of("kernels/cuda/head.hpp");
  for (std::sregex_iterator i(head.begin(), head.end(), declaration), end; i != end; ++i)
    kernels.insert((*i)[1]);
  for (const std::string& name : kernels)
    EXPECT_EQ(rows.count(name), 1u)
        << "kernels/*.hpp declares " << name << ", apps/gpucheck/rows_*.cpp has no row for it";
  for (const std::string& name : rows) {
    if (name.rfind("backend ", 0) == 0) continue;  // the element functions of core/backend.hpp
    const std::string function = name.substr(0, name.find(" with "));  // a second row of one kernel
    EXPECT_EQ(kernels.count(function), 1u) << "row " << name << " is no function of kernels/*.hpp";
  }
}

// On the emulated device where there is one, else on the CPU: rows, references and tolerances are
// the same.
StageOptions options(const std::string& only) {
  StageOptions o;
  o.target = find_target("auto");
  if (o.target.kind == Target::Kind::none) o.target = find_target("cpu");
  o.tiny = true;
  o.only = only;
  return o;
}

TEST(KernelsStage, PassesOnWhatIsRight) {
  const Stage stage = kernels_stage(options("relu,adamw,norm_moments"));
  EXPECT_EQ(stage.status, Status::passed);
  for (const Check& c : stage.checks) {
    EXPECT_TRUE(c.pass) << c.op << ' ' << c.shape << ' ' << c.dtype << ": " << c.note;
    EXPECT_GT(c.tol_from.size(), 10u) << c.op;
  }
  EXPECT_GT(stage.checks.size(), 30u);
}

TEST(KernelsStage, FindsAWrongElement) {
  StageOptions o = options("leaky_relu_forward,adamw");
  o.plant = "adamw";
  const Stage stage = kernels_stage(o);
  EXPECT_EQ(stage.status, Status::failed);
  int n_found = 0;
  for (const Check& c : stage.checks) {
    EXPECT_EQ(c.pass, c.op != "adamw") << c.op << ' ' << c.shape << ' ' << c.dtype;
    if (c.op != "adamw") continue;
    ++n_found;
    EXPECT_TRUE(c.bitwise_repeat);
    EXPECT_NE(c.note.find("element 0"), std::string::npos) << c.note;
  }
  EXPECT_GE(n_found, 9);  // three shapes, three types
}

TEST(KernelsStage, FindsARunThatGivesOtherBits) {
  StageOptions o = options("sigmoid_forward");
  o.plant = "sigmoid_forward:once";
  const Stage stage = kernels_stage(o);
  EXPECT_EQ(stage.status, Status::failed);
  for (const Check& c : stage.checks) {
    EXPECT_FALSE(c.bitwise_repeat);
    EXPECT_FALSE(c.pass);
    EXPECT_LE(c.max_abs, c.tol_max_abs) << "the first run was right";
  }
}

TEST(KernelsStage, SaysWhatWasLeftOutForTime) {
  StageOptions o = options("");
  o.budget_s = 1e-9;
  const Stage stage = kernels_stage(o);
  EXPECT_TRUE(stage.checks.empty());
  EXPECT_GT(stage.numbers.at("left_out_for_time"), 100);
}

TEST(KernelsStage, RefusesWordsThatNameNoRow) {
  const std::string message = testing::message_of([] { kernels_stage(options("no_such_kernel")); });
  EXPECT_NE(message.find("no_such_kernel"), std::string::npos) << message;
}

TEST(KernelsStage, WithoutADeviceSaysSo) {
  StageOptions o;
  o.target.reason = "none here";
  const Stage stage = kernels_stage(o);
  EXPECT_EQ(stage.status, Status::no_device);
  EXPECT_EQ(stage.error, "none here");
}

}  // namespace
}  // namespace bora::gpucheck
