// SPDX-License-Identifier: Apache-2.0
// The flight recorder by itself: what it keeps, what it forgets, who may read it when.
#include "comm/flight_recorder.hpp"
#include "comm/communicator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <vector>

namespace bora {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr auto kCapacity = FlightRecorder::kCapacity;

FlightNote note(std::string_view label, uint64_t sequence) {
  return {.operation = "all_reduce",
          .group = "world",
          .label = label,
          .sequence = sequence,
          .count = static_cast<int64_t>(sequence),
          .type = DType::f16};
}

TEST(FlightRecorder, KeepsWhatItWasTold) {
  FlightRecorder recorder;
  EXPECT_FALSE(recorder.latest());
  const RecordToken token = recorder.begin(note("bucket 3", 17));
  FlightEntry e = recorder.latest().value();
  EXPECT_EQ(FlightState::queued, e.state);
  EXPECT_EQ("all_reduce 'bucket 3' #17 of world", e.describe());
  EXPECT_EQ(34, e.bytes);
  EXPECT_TRUE(e.queued_ns > 0 && e.arrived_ns == 0 && e.moving_ns == 0 && e.ended_ns == 0);
  token.arrived();
  token.moving();
  EXPECT_EQ(FlightState::moving, recorder.latest()->state);
  token.done();
  token.failed("too late to fail");
  e = recorder.latest().value();
  EXPECT_EQ(FlightState::done, e.state);
  EXPECT_STREQ("", e.fault);
  EXPECT_TRUE(e.queued_ns <= e.arrived_ns && e.arrived_ns <= e.moving_ns &&
              e.moving_ns <= e.ended_ns);
}

TEST(FlightRecorder, LongTextsAreCut) {
  FlightRecorder recorder;
  const std::string long_text(1000, 'x');
  const RecordToken token =
      recorder.begin({.operation = long_text, .group = long_text, .label = long_text});
  token.failed(long_text);
  const FlightEntry e = recorder.latest().value();
  EXPECT_EQ(sizeof(e.operation) - 1, std::string(e.operation).size());
  EXPECT_EQ(sizeof(e.label) - 1, std::string(e.label).size());
  EXPECT_EQ(sizeof(e.fault) - 1, std::string(e.fault).size());
}

TEST(FlightRecorder, TheLastOnesAreKeptInOrder) {
  FlightRecorder recorder;
  for (uint64_t i = 1; i <= 3 * kCapacity + 7; ++i) recorder.begin(note("x", i)).done();
  const auto all = recorder.entries();
  ASSERT_EQ(kCapacity, all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    ASSERT_EQ(2 * kCapacity + 8 + i, all[i].sequence);
    ASSERT_EQ(all[i].sequence, all[i].id);
  }
  EXPECT_EQ(static_cast<int64_t>(3 * kCapacity + 7), recorder.n_recorded());
}

// The oldest operation that is under way is the one that a hang is about.
TEST(FlightRecorder, WhatIsUnderWayIsNotOverwritten) {
  FlightRecorder recorder;
  const RecordToken first = recorder.begin(note("hangs", 1));
  for (uint64_t i = 2; i <= 2 * kCapacity; ++i) recorder.begin(note("x", i)).done();
  auto all = recorder.entries();
  EXPECT_EQ("all_reduce 'hangs' #1 of world", all.front().describe());
  EXPECT_EQ(FlightState::queued, all.front().state);
  first.done();
  for (uint64_t i = 0; i < kCapacity; ++i) recorder.begin(note("x", i)).done();
  for (const FlightEntry& e : recorder.entries()) ASSERT_STREQ("x", e.label);
  first.failed("its place is another's now");
  for (const FlightEntry& e : recorder.entries()) ASSERT_EQ(FlightState::done, e.state);
}

TEST(FlightRecorder, TooManyUnderWayAreCounted) {
  FlightRecorder recorder;
  std::vector<RecordToken> tokens;
  for (uint64_t i = 1; i <= kCapacity + 3; ++i) tokens.push_back(recorder.begin(note("x", i)));
  EXPECT_EQ(3, recorder.n_dropped());
  EXPECT_EQ(kCapacity, recorder.entries().back().sequence);
  for (const RecordToken& token : tokens) token.done();  // those that are not there too
  EXPECT_THAT(recorder.text("test"), HasSubstr("3 operations were not recorded"));
}

// Every writer's entries carry values that belong together; a reader must never see a mixture.
TEST(FlightRecorder, ReadersSeeWholeEntriesWhileOthersWrite) {
  FlightRecorder recorder;
  constexpr int kWriters = 3, kEach = 20'000;
  std::atomic<int> writing{kWriters};
  std::vector<std::thread> threads;
  for (int t = 0; t < kWriters; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 1; i <= kEach; ++i) {
        const uint64_t n = i * kWriters + static_cast<uint64_t>(t);
        const RecordToken token = recorder.begin(note(std::to_string(n), n));
        token.arrived();
        token.moving();
        i % 5 == 0 ? token.failed(std::to_string(n)) : token.done();
      }
      --writing;
    });
  }
  int64_t n_read = 0;
  const auto check = [&] {
    uint64_t last_id = 0;
    for (const FlightEntry& e : recorder.entries()) {
      ASSERT_EQ(std::to_string(e.sequence), e.label);
      ASSERT_EQ(static_cast<int64_t>(e.sequence), e.count);
      ASSERT_EQ(e.state == FlightState::failed ? std::to_string(e.sequence) : "", e.fault);
      ASSERT_EQ(e.state == FlightState::moving || !e.under_way(), e.moving_ns != 0);
      ASSERT_EQ(!e.under_way(), e.ended_ns != 0);
      ASSERT_LT(last_id, e.id);
      last_id = e.id;
      ++n_read;
    }
  };
  while (writing > 0 && !HasFatalFailure()) check();
  for (std::thread& thread : threads) thread.join();
  check();
  EXPECT_GT(n_read, 0);
  EXPECT_EQ(kWriters * kEach, recorder.n_recorded());
  EXPECT_EQ(0, recorder.n_dropped());
}

// Printed, not tested: machines differ, and share their cores.
TEST(FlightRecorder, CostOfAnOperation) {
  FlightRecorder recorder;
  constexpr int kEach = 100'000;
  double best_ns = 1e9;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const int64_t begin = steady_now_ns();
    for (uint64_t i = 0; i < kEach; ++i) {
      const RecordToken token = recorder.begin(note("gradients, bucket 2", i));
      token.arrived();
      token.moving();
      token.done();
    }
    best_ns = std::min(best_ns, static_cast<double>(steady_now_ns() - begin) / kEach);
  }
  std::printf("an operation with all its states: %.0f ns\n", best_ns);
  RecordProperty("ns_per_operation", std::to_string(best_ns));
}

std::string read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(FlightRecord, SaysWhoWhyAndWhat) {
  FlightRecorder recorder;
  recorder.set_identity(3, 8, "node7");
  recorder.begin(note("bucket 1", 6)).done();
  const RecordToken hangs = recorder.begin(note("bucket 2", 7));
  hangs.arrived();
  recorder
      .begin(
          {.operation = "barrier", .group = "world/split 1 color 0", .label = "end", .sequence = 2})
      .failed("node9 is on fire");
  const std::string text = recorder.text("somebody asked", "more\n");
  EXPECT_THAT(text, HasSubstr("flight record of rank 3 of 8, host node7, process "));
  EXPECT_THAT(text, HasSubstr("why: somebody asked\nmore\nthe last 3 of 3 operations"));
  std::istringstream lines(text);
  std::string line, found;
  while (std::getline(lines, line))
    if (line.find("'bucket 2'") != std::string::npos) found = line;
  EXPECT_THAT(found, HasSubstr("arrived  all_reduce         #7  f16             7"));
  EXPECT_THAT(found, HasSubstr("+"));
  EXPECT_THAT(text, HasSubstr("world/split 1 color 0  'end'\n           ^ node9 is on fire"));
}

TEST(FlightRecord, IsWrittenIntoItsFolderAndAddedTo) {
  const std::string folder = ::testing::TempDir() + "flight_record_test/deeper";
  std::filesystem::remove_all(folder);
  FlightRecorder recorder;
  recorder.set_folder("");
  EXPECT_EQ("", recorder.write("nowhere to go"));
  recorder.set_identity(2, 4, "node1");
  recorder.set_folder(folder);
  EXPECT_EQ(folder + "/flight-2.txt", recorder.write("the first"));
  recorder.begin(note("x", 1));
  recorder.write("the second");
  const std::string text = read(folder + "/flight-2.txt");
  EXPECT_THAT(text, HasSubstr("why: the first\n"));
  EXPECT_THAT(text, HasSubstr("why: the second\n"));
  // Another process begins anew.
  FlightRecorder next;
  next.set_identity(2, 4, "node1");
  next.set_folder(folder);
  next.write("the third");
  EXPECT_THAT(read(folder + "/flight-2.txt"), Not(HasSubstr("the first")));
  // A file in the place of the folder is a warning, no more.
  next.set_folder(folder + "/flight-2.txt");
  EXPECT_EQ("", next.write("cannot be"));
  std::filesystem::remove_all(folder);
}

// One rank has nobody to wait for, but its record shows what it did.
TEST(FlightRecord, ASelfCommunicatorIsRecorded) {
  const auto comm = make_self_communicator();
  Tensor x = Tensor::zeros({5}, DType::f32);
  comm->all_reduce(x, ReduceOp::sum, "alone");
  const FlightEntry e = FlightRecorder::instance().latest().value();
  EXPECT_EQ(FlightState::done, e.state);
  EXPECT_THAT(e.describe(), HasSubstr("all_reduce 'alone' #1 of self"));
  EXPECT_EQ(5, e.count);
  EXPECT_THROW(comm->broadcast(x, 1, "no such root"), Error);
  comm->barrier("end");
  EXPECT_THAT(FlightRecorder::instance().latest()->describe(), HasSubstr("barrier 'end' #2"));
}

}  // namespace
}  // namespace bora
