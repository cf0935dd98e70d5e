// SPDX-License-Identifier: Apache-2.0
// Row 88: the pre-flight: the same list on all ranks, every kind of damage told by name, no hang.
#include "data/preflight.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <thread>

#include "comm/communicator.hpp"
#include "data/preflight_work.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/support/mpi_main.hpp"

namespace bora::data::test {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

std::vector<PreflightItem> items(size_t n) {
  std::vector<PreflightItem> out;
  for (size_t i = 0; i < n; ++i) out.push_back({"case" + std::to_string(i), {}});
  return out;
}

std::string text_of(const PreflightReport& r) {
  std::string text;
  for (size_t i = 0; i < r.records.size(); ++i) {
    text += r.records[i] + "|";
    for (const std::string& p : r.problems[i]) text += p + "|";
    text += "\n";
  }
  return text + std::to_string(r.n_bad) + " " + std::to_string(r.n_read);
}

TEST(Preflight, EveryRankHasTheSameListInTheSameOrder) {
  const auto ranks = make_communicator(bora::testing::session());
  const PreflightCheck check = [](size_t i, PreflightDepth depth, std::vector<std::string>& bad) {
    EXPECT_EQ(depth, PreflightDepth::values);
    if (i % 3 == 1) bad.push_back("first of " + std::to_string(i));
    if (i % 3 == 1) bad.push_back("second\nwith\ta tab");
    if (i == 5) BORA_FAIL("case ", i, " throws");
    if (i == 6) throw std::bad_alloc();  // whatever it is, it is this case's
    return std::string("record\n5:x\t") + std::to_string(i) + std::string(1, '\0');
  };
  for (size_t n : {size_t{0}, size_t{1}, size_t{7}, size_t{33}})
    for (int threads : {1, 3}) {
      const PreflightReport mine = preflight(items(n), check, {.n_threads = threads}, ranks.get());
      const PreflightReport alone = preflight(items(n), check, {.n_threads = 1}, nullptr);
      EXPECT_EQ(text_of(mine), text_of(alone)) << n;
      EXPECT_THAT(ranks->all_gather_text(text_of(mine), "reports"), Each(text_of(alone)));
      ASSERT_THAT(mine.problems, SizeIs(n));
      if (n > 6) {
        EXPECT_THAT(mine.problems[4], ElementsAre("first of 4", "second with a tab"));
        EXPECT_THAT(mine.problems[5], ElementsAre(HasSubstr("case 5 throws")));
        EXPECT_TRUE(mine.is_bad(6));
        EXPECT_EQ(mine.records[2], std::string("record\n5:x\t2") + std::string(1, '\0'));
      }
    }
}

TEST(Preflight, AUsageErrorOfOneCaseIsOneForAllRanks) {
  const auto ranks = make_communicator(bora::testing::session());
  const PreflightCheck check = [](size_t i, PreflightDepth,
                                  std::vector<std::string>&) -> std::string {
    if (i == 2) throw UsageError("a key is wrong");
    return {};
  };
  EXPECT_THROW(preflight(items(5), check, {}, ranks.get()), UsageError);
  ranks->barrier("all are still in step");
}

TEST(Preflight, LevelsAndTheLimitDecideWhatIsReadTheSameEverywhere) {
  const auto ranks = make_communicator(bora::testing::session());
  const TempFolder folder;
  // Sparse files: 2 GiB in eight cases, twice the limit.
  std::vector<PreflightItem> big = items(8);
  for (size_t i = 0; i < 8; ++i) {
    const std::string path = folder.file(std::to_string(i));
    write_file(path, "x");
    fs::resize_file(path, kPreflightAutoBytes / 4);
    big[i].files = {path, ""};
  }
  const PreflightCheck check = [](size_t, PreflightDepth depth, std::vector<std::string>&) {
    return std::string(depth == PreflightDepth::values ? "v" : "h");
  };
  const auto depths = [&](PreflightLevel level) {
    const PreflightReport r = preflight(big, check, {.level = level}, ranks.get());
    EXPECT_EQ(r.n_files, 8);
    EXPECT_EQ(r.bytes, 2 * kPreflightAutoBytes);
    std::string text;
    for (const std::string& record : r.records) text += record;
    EXPECT_EQ(r.n_read, std::count(text.begin(), text.end(), 'v'));
    return text;
  };
  EXPECT_EQ(depths(PreflightLevel::full), "vvvvvvvv");
  EXPECT_EQ(depths(PreflightLevel::headers), "hhhhhhhh");
  EXPECT_EQ(depths(PreflightLevel::automatic), "hvhvhvhv");  // every second
  const PreflightReport r = preflight(big, check, {}, ranks.get());
  EXPECT_THAT(r.line(), AllOf(HasSubstr("8 files (2048 MiB) of 8 cases"),
                              HasSubstr("preflight = auto"), HasSubstr("values of 4 cases read"),
                              HasSubstr("of 4 only what the files say"), HasSubstr("none bad")));
  EXPECT_EQ(name_of(preflight_level("headers")), "headers");
  EXPECT_THAT(message_of([] { preflight_level("some"); }),
              AllOf(HasSubstr("'some'"), HasSubstr("auto, full or headers")));
}

/// A check that waits for `gate` in one case; shares all it uses, as it may outlive the call.
TEST(Preflight, AFileThatDoesNotAnswerIsNamedOnAllRanks) {
  const auto ranks = make_communicator(bora::testing::session());
  const auto gate = std::make_shared<std::atomic<bool>>(false);
  const auto left = std::make_shared<std::atomic<int>>(0);
  const PreflightCheck check = [gate, left](size_t i, PreflightDepth, std::vector<std::string>&) {
    if (i != 1) return std::string("ok");
    while (!*gate) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ++*left;
    return std::string("late");
  };
  std::vector<PreflightItem> four = items(4);
  four[1].files = {"/far/away/hangs.nc"};
  const auto begin = std::chrono::steady_clock::now();
  const std::string text =
      message_of([&] { preflight(four, check, {.silence_s = 0.3}, ranks.get()); });
  EXPECT_THAT(text, AllOf(HasSubstr("no answer"), HasSubstr("case 'case1' '/far/away/hangs.nc'")));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  *gate = true;
  const bool is_mine = 1 % ranks->size() == ranks->rank();
  while (is_mine && *left == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ranks->barrier("all are still in step");
}

TEST(Preflight, AReadOutsideOfItIsBoundedToo) {
  const auto gate = std::make_shared<std::promise<void>>();
  const auto left = std::make_shared<std::promise<void>>();
  const PreflightItem item{"case 7", {"/far/away/hangs.nc", ""}};
  EXPECT_THAT(message_of([&] {
                detail::read_bounded("statistics of", item, 1 << 20,
                                     [gate, left] {
                                       gate->get_future().wait();
                                       left->set_value();
                                     },
                                     {.silence_s = 0.2});
              }),
              AllOf(HasSubstr("no answer"), HasSubstr("case 'case 7' '/far/away/hangs.nc'")));
  gate->set_value();
  left->get_future().wait();
  int n = 0;
  detail::read_bounded("statistics of", item, 0, [&n] { ++n; }, {.silence_s = 0.2});
  EXPECT_EQ(n, 1);
  EXPECT_EQ(message_of([&] {
              detail::read_bounded("statistics of", item, 0, [] { throw Error("it is damaged"); });
            }),
            "it is damaged");
}

TEST(Preflight, AHookMayEndItOnAllRanks) {
  const auto ranks = make_communicator(bora::testing::session());
  const PreflightCheck slow = [](size_t, PreflightDepth, std::vector<std::string>&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    return std::string();
  };
  PreflightOptions options;
  options.n_threads = 1;
  if (ranks->rank() == ranks->size() - 1)
    options.hooks.may_go_on = [] { BORA_FAIL("told to stop"); };
  EXPECT_THAT(message_of([&] { preflight(items(30), slow, options, ranks.get()); }),
              HasSubstr("told to stop"));
  int64_t last = -1, of = -1;
  options.hooks = {};
  options.hooks.progress = [&](int64_t done, int64_t total, double) { last = done, of = total; };
  std::string line;
  options.hooks.outcome = [&](const std::string& text) { line = text; };
  preflight(items(30), slow, options, ranks.get());
  EXPECT_EQ(last, of);
  EXPECT_GT(of, 0);
  EXPECT_EQ(line.empty(), ranks->rank() != 0);
}

TEST(Preflight, PolicyStopListsAndSkipWarns) {
  const auto ranks = make_communicator(bora::testing::session());
  std::vector<std::string> many;
  for (int i = 0; i < 25; ++i) many.push_back("problem " + std::to_string(100 + i));
  EXPECT_THAT(
      message_of([&] { settle_problems(many, "the files", true, "k.on_bad", ranks.get()); }),
      AllOf(HasSubstr("25 problem(s) with the files"), HasSubstr("problem 119"),
            HasSubstr("and 5 more"), HasSubstr("k.on_bad = \"skip\"")));
  settle_problems(many, "the files", false, "k.on_bad", ranks.get());
  settle_problems({}, "the files", true, "k.on_bad", ranks.get());
  std::vector<std::string> heard;
  PreflightHooks hooks;
  hooks.problems = [&](const std::vector<std::string>& p) { heard = p; };
  settle_problems(many, "the files", true, "k.on_bad", ranks.get(), hooks);
  EXPECT_EQ(heard, many);
}

TEST(ReadableFile, WhatIsNoReadableFileIsNamed) {
  const TempFolder folder;
  const std::string path = folder.file("a.nc");
  const auto refusal = [&] { return message_of([&] { check_readable_file(path); }); };
  EXPECT_THAT(refusal(), AllOf(HasSubstr(path), HasSubstr("No such file")));
  fs::create_symlink("/nowhere/at/all", path);
  EXPECT_THAT(refusal(), AllOf(HasSubstr(path), HasSubstr("link to '/nowhere/at/all'"),
                               HasSubstr("No such file")));
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_THAT(refusal(), AllOf(HasSubstr(path), HasSubstr("is a folder, wanted a file")));
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(refusal(), AllOf(HasSubstr(path), HasSubstr("is a pipe")));  // and does not hang
  fs::remove(path);
  write_file(path, "");
  EXPECT_THAT(refusal(), AllOf(HasSubstr(path), HasSubstr("0 bytes")));
  write_file(path, "x");
  check_readable_file(path);
  fs::permissions(path, fs::perms::none);
  // root may read anything: ask as somebody else.
  const bool is_root = ::geteuid() == 0;
  if (is_root) {
    fs::permissions(folder.path(), fs::perms::all);
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const std::string text = refusal();
  if (is_root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  EXPECT_THAT(text, AllOf(HasSubstr(path), HasSubstr("Permission denied")));
}

}  // namespace
}  // namespace bora::data::test
