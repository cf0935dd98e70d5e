// SPDX-License-Identifier: Apache-2.0
// The performance monitor and the block at the start of a run (features 151-153, 179).
#include "apps/common/monitor.hpp"

#include <gtest/gtest.h>

#include "apps/common/place.hpp"
#include "apps/common/same_settings.hpp"
#include "core/error.hpp"
#include "core/profile.hpp"

namespace bora::apps {
namespace {

struct FakeClock {
  double now = 100;
  Monitor::Clock clock() {
    return [this] { return now; };
  }
};

TEST(Monitor, KeepsTheLastStepsOnly) {
  FakeClock time;
  Monitor monitor(3, time.clock());
  for (int i = 1; i <= 5; ++i) {
    monitor.begin_step();
    monitor.add_data_wait(0.125 * i);
    monitor.add_comm_wait(0.25);
    time.now += i;
    monitor.end_step(2);
    time.now += 50;  // between steps: counts for nothing
  }
  const StepWindow w = monitor.window();
  EXPECT_EQ(w.steps, 3);
  EXPECT_EQ(w.samples, 6);
  EXPECT_EQ(w.seconds, 3 + 4 + 5);
  EXPECT_EQ(w.data_wait_s, 0.125 * 12);
  EXPECT_EQ(w.comm_wait_s, 0.75);
  EXPECT_EQ(w.longest_s, 5);
  EXPECT_EQ(w.own_s_a_step(), (12 - 0.75) / 3);
  monitor.clear();
  EXPECT_EQ(monitor.window().steps, 0);
}

TEST(Monitor, AnEmptyWindowIsAllZero) {
  const StepWindow w = Monitor().window();
  EXPECT_EQ(w.steps, 0);
  EXPECT_EQ(w.own_s_a_step(), 0);
  const JobWindow job = join_windows({w, w});
  EXPECT_EQ(job.samples_per_s, 0);
  EXPECT_EQ(job.step_s, 0);
  EXPECT_FALSE(job.straggler());
  EXPECT_EQ(join_windows({}).samples_per_s, 0);
}

TEST(Monitor, WrongUseIsAnError) {
  FakeClock time;
  Monitor monitor(2, time.clock());
  EXPECT_THROW(monitor.end_step(1), Error);
  EXPECT_THROW(monitor.add_data_wait(1), Error);
  monitor.begin_step();
  EXPECT_THROW(monitor.begin_step(), Error);
  EXPECT_THROW(monitor.add_comm_wait(-1), Error);
  time.now -= 1;
  EXPECT_THROW(monitor.end_step(1), Error);  // a clock that goes back
  monitor.begin_step();
  monitor.abandon_step();
  monitor.begin_step();
  EXPECT_THROW(Monitor(0), Error);
}

TEST(Monitor, TheJobIsTheSumOfItsRanksAndNamesTheSlowest) {
  // Rank 2 computes for 1.8 s of each 2 s step; the others wait for it.
  std::vector<StepWindow> ranks;
  for (const double comm : {0.9, 1.0, 0.2, 0.8})
    ranks.push_back({.steps = 10,
                     .samples = 20,
                     .seconds = 20,
                     .data_wait_s = comm,
                     .comm_wait_s = 10 * comm,
                     .longest_s = 3});
  const JobWindow job = join_windows(ranks);
  EXPECT_DOUBLE_EQ(job.samples_per_s, 4.0);
  EXPECT_DOUBLE_EQ(job.step_s, 2.0);
  EXPECT_DOUBLE_EQ(job.data_wait_share, 0.05);
  EXPECT_DOUBLE_EQ(job.comm_wait_share, 0.1);
  EXPECT_EQ(job.slowest, 2);
  EXPECT_DOUBLE_EQ(job.slowest_own_s, 1.8);
  EXPECT_DOUBLE_EQ(job.median_own_s, 1.1);
  EXPECT_TRUE(job.straggler());
  ranks[2].comm_wait_s = 8;
  EXPECT_FALSE(join_windows(ranks).straggler());
}

// A step of a tiny network takes less time than the scheduler gives others: twice as long is noise.
TEST(Monitor, NobodyWaitsForARankThatNeedsLessThanAMillisecondMore) {
  JobWindow job;
  job.slowest_own_s = 0.0019;
  job.median_own_s = 0.001;
  EXPECT_FALSE(job.straggler());
  EXPECT_EQ(StragglerWatch().begins(job), std::nullopt);
  job.slowest_own_s = 0.0021;
  EXPECT_TRUE(job.straggler());
}

TEST(Monitor, AStragglerIsNamedOnceUntilItIsWellAgain) {
  StragglerWatch watch;
  const auto begins = [&](int rank, double own_s) {
    JobWindow job;
    job.slowest = rank;
    job.slowest_own_s = own_s;
    job.median_own_s = 1;
    return watch.begins(job);
  };
  EXPECT_EQ(begins(1, 1.1), std::nullopt);
  EXPECT_EQ(begins(1, 1.2), 1);
  EXPECT_EQ(begins(1, 1.1), std::nullopt);  // between the thresholds: goes on
  EXPECT_EQ(begins(1, 1.3), std::nullopt);
  EXPECT_EQ(begins(2, 1.3), 2);  // another one
  EXPECT_EQ(begins(2, 1.0), std::nullopt);
  EXPECT_EQ(begins(2, 1.2), 2);  // was well, and is slow again
  EXPECT_EQ(StragglerWatch().begins({}), std::nullopt);
}

// Row 153: what a step pays for being watched, against 1 % of a step of 10 ms, far shorter than any
// that trains a 3-D network.  Measured 0.1 us; the bound leaves room for a busy machine.
TEST(Monitor, CostsLessThanAHundredthOfAShortStep) {
  Monitor monitor;
  constexpr int kSteps = 20000;
  const double begin = now_s();
  for (int i = 0; i < kSteps; ++i) {
    monitor.begin_step();
    monitor.add_data_wait(0);
    monitor.add_comm_wait(0);
    monitor.end_step(1);
  }
  EXPECT_LT((now_s() - begin) / kSteps, 0.01 * 0.01);
}

TEST(SameSettings, TheFirstDifferenceHasItsSectionAndBothValues) {
  const std::string text = "resume = false\n[optim]\nlr = 0.1\n[train]\nseed = 1\n";
  EXPECT_EQ(first_difference(text, text), "nothing");
  EXPECT_EQ(first_difference("resume = false\n[optim]\nlr = 0.2\n[train]\nseed = 1\n", text),
            "[optim] 'lr = 0.2', on rank 0 'lr = 0.1'");
  EXPECT_EQ(first_difference("resume = true\n", text),
            "'resume = true', on rank 0 'resume = false'");
  EXPECT_EQ(first_difference(text + "x = 1\n", text), "[train] 'x = 1', on rank 0 '(none)'");
}

RankPlace place(int rank, const std::string& host, std::vector<int> cpus, int threads) {
  RankPlace p;
  p.rank = rank;
  p.host = host;
  p.cpus = std::move(cpus);
  p.threads = threads;
  p.host_cores = 8;
  p.build = "abc";
  p.interfaces = {{"ib0", "10.0.0." + std::to_string(rank + 1)}};
  return p;
}

TEST(Launch, PlacesTravelAsText) {
  RankPlace p = place(3, "n1", {0, 1, 2, 5}, 4);
  p.local_rank = 1;
  p.interfaces.emplace_back("eth0", "192.168.1.5");
  const RankPlace q = decode_place(encode(p));
  EXPECT_EQ(q.rank, 3);
  EXPECT_EQ(q.local_rank, 1);
  EXPECT_EQ(q.host, "n1");
  EXPECT_EQ(q.cpus, p.cpus);
  EXPECT_EQ(q.threads, 4);
  EXPECT_EQ(q.host_cores, 8);
  EXPECT_EQ(q.interfaces, p.interfaces);
  p.interfaces.clear();
  p.cpus.clear();
  EXPECT_TRUE(decode_place(encode(p)).cpus.empty());
  EXPECT_THROW(decode_place("rank 3"), Error);
  EXPECT_THROW(decode_place("x\t1\tn\t1\t1\tcpu\tb\t\t"), Error);
}

TEST(Launch, RangesAreShort) {
  EXPECT_EQ(number_ranges({}), "none");
  EXPECT_EQ(number_ranges({7}), "7");
  EXPECT_EQ(number_ranges({0, 1, 2, 3, 8, 10, 11}), "0-3,8,10-11");
}

TEST(Launch, HostsThatAreAlikeAreToldOnce) {
  std::vector<RankPlace> places;
  for (int h = 0; h < 500; ++h)
    for (int r = 0; r < 2; ++r)
      places.push_back(place(2 * h + r, "n" + std::to_string(h),
                             r ? std::vector<int>{4, 5, 6, 7} : std::vector<int>{0, 1, 2, 3}, 4));
  places.push_back(place(1000, "odd", {0, 1, 2, 3, 4, 5, 6, 7}, 4));
  const LaunchReport report = launch_report(places);
  ASSERT_EQ(report.lines.size(), 3U);
  EXPECT_EQ(report.lines[0], "job: 1001 ranks on 501 hosts, 4004 threads");
  EXPECT_EQ(report.lines[1],
            "  hosts n0 to n499 (500): ranks 0-999; each 2 ranks x 4 threads on cores 0-3; 4-7 of "
            "8, device cpu; network ib0");
  EXPECT_EQ(report.lines[2],
            "  host odd: rank 1000; 1 rank x 4 threads on cores 0-7 of 8, device cpu; network ib0 "
            "10.0.0.1001");
  EXPECT_TRUE(report.warnings.empty()) << report.warnings.front();
}

TEST(Launch, OversubscriptionIsNamed) {
  // Both ranks may use cores 0 and 1 and compute with two threads each.
  const LaunchReport report = launch_report({place(0, "n1", {0, 1}, 2), place(1, "n1", {0, 1}, 2)});
  ASSERT_EQ(report.warnings.size(), 1U);
  EXPECT_EQ(report.warnings[0],
            "host n1 is oversubscribed: 2 ranks with 4 threads share 2 cores (0-1); start fewer "
            "ranks a host, set OMP_NUM_THREADS, or give them more cores");
  const LaunchReport alone = launch_report({place(0, "n1", {3}, 2)});
  ASSERT_EQ(alone.warnings.size(), 1U);
  EXPECT_EQ(alone.warnings[0],
            "host n1, rank 0: 2 threads on 1 cores of the affinity mask: unset OMP_NUM_THREADS or "
            "give the rank more cores");
}

TEST(Launch, RanksBoundToOneCoreEachAreNamed) {
  const LaunchReport report = launch_report({place(0, "n1", {0}, 1), place(1, "n1", {1}, 1)});
  ASSERT_EQ(report.warnings.size(), 1U);
  EXPECT_NE(report.warnings[0].find("each rank is bound to one core, 2 of 8 are used"),
            std::string::npos);
}

TEST(Launch, DifferentBuildsAndThreadsAreNamed) {
  std::vector<RankPlace> places{place(0, "a", {0, 1, 2, 3}, 4), place(1, "b", {0, 1, 2, 3}, 2)};
  places[1].build = "old";
  const LaunchReport report = launch_report(places);
  ASSERT_EQ(report.warnings.size(), 2U);
  EXPECT_EQ(report.warnings[0],
            "rank 1 on host b runs build old, rank 0 runs abc: all ranks should start the same "
            "program");
  EXPECT_EQ(report.warnings[1],
            "rank 1 on host b computes with 2 threads, rank 0 with 4: every step waits for the "
            "rank with the fewest");
}

}  // namespace
}  // namespace bora::apps
