// SPDX-License-Identifier: Apache-2.0
// The parts of the watchdog by themselves.  How whole programs end is in endings.cpp.
#include "comm/watchdog.hpp"
#include "comm/operation_queue.hpp"
#include "comm/rank_group.hpp"
#include "comm/status_board.hpp"
#include "core/host.hpp"
#include "tests/support/message_of.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <thread>

namespace bora {
namespace {

using bora::testing::message_of;
using ::testing::HasSubstr;

using std::chrono::milliseconds;

TEST(RankList, IsShort) {
  EXPECT_EQ("", rank_list({}));
  EXPECT_EQ("3", rank_list({3}));
  EXPECT_EQ("0, 1", rank_list({0, 1}));
  EXPECT_EQ("0, 3-7, 9, 11, 12", rank_list({0, 3, 4, 5, 6, 7, 9, 11, 12}));
}

TEST(RankGroup, NamesRanksByTheWorld) {
  RankGroup world;
  world.world_ranks = {0, 1, 2, 3};
  world.hosts = {"a", "a", "b", "b"};
  EXPECT_EQ("rank 2 on host b", world.who(2));
  const auto part = world.part("world/split 1 color 1", {3, 1});
  EXPECT_EQ("rank 0 (world rank 3) on host b", part->who(0));
  EXPECT_EQ(1, part->world_rank(1));
  EXPECT_EQ(-1, part->world_rank(2));
  const auto part_of_part = part->part("deeper", {1});
  EXPECT_EQ("rank 0 (world rank 1) on host a", part_of_part->who(0));
  EXPECT_EQ("rank 7", RankGroup().who(7));  // nothing is known
}

// A suspended job has not waited: what it finds when it goes on is one long gap.
TEST(PatientClock, CountsNoGap) {
  PatientClock clock;
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(milliseconds(20));
    clock.elapsed_s();
  }
  EXPECT_GE(clock.elapsed_s(), 0.1);
  const double before = clock.elapsed_s();
  std::this_thread::sleep_for(milliseconds(1500));
  const double gap = clock.elapsed_s() - before;
  EXPECT_GT(gap, 0.9);
  EXPECT_LE(gap, PatientClock::kMostPerCall_s);
}

TEST(LongSection, RaisesTheLimitWhileItLives) {
  EXPECT_FALSE(wait_is_over(9, 10));
  EXPECT_TRUE(wait_is_over(11, 10));
  {
    const LongSection saving("saving", 100);
    EXPECT_FALSE(wait_is_over(11, 10));
    EXPECT_FALSE(wait_is_over(100, 10));
    EXPECT_TRUE(wait_is_over(101, 10));
    {
      const LongSection longer("drawing", 200);
      EXPECT_FALSE(wait_is_over(101, 10));
    }
    EXPECT_TRUE(wait_is_over(101, 10));
    EXPECT_TRUE(wait_is_over(401, 400));  // a limit that is longer than the section stays
    EXPECT_FALSE(wait_is_over(399, 400));
  }
  EXPECT_TRUE(wait_is_over(11, 10));
  EXPECT_THAT(message_of([] { LongSection bad("bad", 0); }), HasSubstr("LongSection 'bad'"));
}

TEST(LongSection, EndsWhenItWasAnnouncedToEnd) {
  const LongSection saving("saving", 0.05);
  std::this_thread::sleep_for(milliseconds(60));
  EXPECT_TRUE(wait_is_over(0.04, 0.01));
}

/// Places for n ranks that processes share.
class SharedPlaces {
 public:
  explicit SharedPlaces(size_t n) : bytes_(n * StatusBoard::kBytes) {
    memory_ = static_cast<char*>(
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  ~SharedPlaces() { ::munmap(memory_, bytes_); }
  StatusBoard board(std::vector<int> world_ranks, int index) {
    return StatusBoard([this](int i) { return memory_ + i * StatusBoard::kBytes; },
                       std::move(world_ranks), index);
  }

 private:
  size_t bytes_;
  char* memory_;
};

TEST(StatusBoard, OthersReadWhatARankWrites) {
  SharedPlaces places(3);
  StatusBoard first = places.board({4, 5, 9}, 0), last = places.board({4, 5, 9}, 2);
  EXPECT_EQ("", first.describe(9));
  RankStatus status;
  status.written_ns = steady_now_ns();
  status.process = 77;
  last.write(status);
  EXPECT_EQ("process 77: no operation yet", first.describe(9));
  EXPECT_EQ("", first.describe(3));  // not of this host
  std::strcpy(status.operation, "barrier 'end' #3 of world");
  status.since_ns = status.written_ns - 2'000'000'000;
  last.write(status);
  EXPECT_EQ(
      "process 77: last operation barrier 'end' #3 of world, ended 2.0 s ago; since then in "
      "its own code",
      first.describe(9));
  status.under_way = 1;
  last.write(status);
  EXPECT_EQ("process 77: for 2.0 s in barrier 'end' #3 of world", first.describe(9));
  EXPECT_FALSE(first.others_are_busy());
  std::strcpy(status.section, "saving");
  status.section_begin_ns = status.written_ns - 1'000'000'000;
  status.section_end_ns = status.written_ns + 100'000'000'000;
  last.write(status);
  EXPECT_THAT(first.describe(9), HasSubstr("in 'saving' for 1.0 s; "));
  EXPECT_TRUE(first.others_are_busy());
  EXPECT_FALSE(last.others_are_busy());  // it is the busy one itself
  // One that has not run for long is excused by no section.
  status.written_ns -= 10'000'000'000;
  last.write(status);
  EXPECT_THAT(first.describe(9), HasSubstr("has not run for 10.0 s (stopped, or dead)"));
  EXPECT_FALSE(first.others_are_busy());
}

TEST(StatusBoard, ASectionThatIsOverExcusesNobody) {
  SharedPlaces places(2);
  StatusBoard a = places.board({0, 1}, 0), b = places.board({0, 1}, 1);
  RankStatus status;
  status.written_ns = steady_now_ns();
  status.section_begin_ns = status.written_ns - 2'000'000'000;
  status.section_end_ns = status.written_ns - 1'000'000'000;
  b.write(status);
  EXPECT_FALSE(a.others_are_busy());
  EXPECT_THAT(a.describe(1), HasSubstr("longer than announced"));
}

TEST(StatusBoard, RecordsAreAskedForOnce) {
  SharedPlaces places(2);
  StatusBoard a = places.board({0, 1}, 0), b = places.board({0, 1}, 1);
  EXPECT_FALSE(b.was_asked());
  a.ask_for_records();
  EXPECT_FALSE(a.was_asked());
  EXPECT_TRUE(b.was_asked());
  EXPECT_FALSE(b.was_asked());
}

// Row 154.  A child stands for the next rank.
TEST(StatusBoard, ADeadNeighbourIsNoticedAlsoAsAZombie) {
  SharedPlaces places(2);
  StatusBoard mine = places.board({0, 1}, 0), theirs = places.board({0, 1}, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  RankStatus status;
  status.written_ns = steady_now_ns();
  status.process = child;
  status.process_born = process_born(child);
  EXPECT_GT(status.process_born, 0);
  EXPECT_EQ(-1, mine.dead_neighbour());  // it has not written
  theirs.write(status);
  EXPECT_EQ(-1, mine.dead_neighbour());
  ::kill(child, SIGSTOP);
  EXPECT_EQ(-1, mine.dead_neighbour());
  ::kill(child, SIGKILL);
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);  // it stays a zombie
  EXPECT_EQ(1, mine.dead_neighbour());
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(1, mine.dead_neighbour());
  status.ended = 1;  // had it left in good order
  theirs.write(status);
  EXPECT_EQ(-1, mine.dead_neighbour());
  // A process that was never seen alive may be one of another container.
  StatusBoard fresh = places.board({0, 1}, 0);
  status.ended = 0;
  theirs.write(status);
  EXPECT_EQ(-1, fresh.dead_neighbour());
}

// Operations of a queue are recorded from end to end.
TEST(Queue, RecordsEveryState) {
  FlightState seen = FlightState::done;
  OperationQueue queue(
      [&](Operation& op) {
        seen = FlightRecorder::instance().latest()->state;
        op.record.moving();
        if (op.label == "bad") throw AgreedError("ranks disagree");
      },
      /*threaded=*/true, std::make_shared<Heartbeat>());
  for (const char* label : {"good", "bad"}) {
    auto operation = std::make_shared<Operation>();
    operation->kind = OperationKind::all_reduce;
    operation->in = Tensor::zeros({7}, DType::f32);
    operation->label = label;
    operation->sequence = 5;
    queue.submit(operation);
    const std::string text = message_of([&] { operation->wait(); });
    const FlightEntry e = FlightRecorder::instance().latest().value();
    EXPECT_EQ(FlightState::arrived, seen);
    EXPECT_EQ(std::string("all_reduce '") + label + "' #5 of world", e.describe());
    EXPECT_EQ(28, e.bytes);
    EXPECT_GT(e.moving_ns, 0);
    const bool good = std::string(label) == "good";
    EXPECT_EQ(good ? FlightState::done : FlightState::failed, e.state);
    EXPECT_EQ(good ? "no error" : "ranks disagree", text);
    EXPECT_STREQ(good ? "" : "ranks disagree", e.fault);
  }
}

}  // namespace
}  // namespace bora
