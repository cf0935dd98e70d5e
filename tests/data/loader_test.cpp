// SPDX-License-Identifier: Apache-2.0
// Feature rows 75 (threads, errors), 77 (persistent, bounded, refusals), 87 (waiting time).
#include "data/loader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <set>
#include <thread>

#include "core/rng.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data {
namespace {

using namespace std::chrono_literals;
using test::message_of;
using testing::HasSubstr;

std::vector<Slot> first_slots(int64_t n, int64_t epoch = 0) {
  std::vector<Slot> slots;
  for (int64_t i = 0; i < n; ++i) slots.push_back({i, i, epoch, false});
  return slots;
}

/// Some work of uneven length whose result depends on the slot alone.
std::vector<float> noise(const Slot& slot) {
  const RngKey key{3, rng_stream("loader test", static_cast<uint64_t>(slot.epoch),
                                 static_cast<uint64_t>(slot.index))};
  std::this_thread::sleep_for(std::chrono::microseconds(key.below(300, 0)));
  std::vector<float> values(16);
  for (size_t i = 0; i < values.size(); ++i) values[i] = key.uniform(i);
  return values;
}

template <class T>
std::vector<T> drain(Loader<T>& loader) {
  std::vector<T> all;
  while (auto item = loader.next()) all.push_back(std::move(*item));
  return all;
}

class LoaderThreads : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Counts, LoaderThreads, testing::Values(0, 1, 2, 4));

TEST_P(LoaderThreads, GiveTheSameItemsInTheSameOrder) {
  Loader<std::vector<float>> loader({.n_threads = GetParam()}, noise);
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    loader.start(first_slots(40, epoch));
    const auto items = drain(loader);
    ASSERT_EQ(items.size(), 40u);
    for (int64_t i = 0; i < 40; ++i)
      ASSERT_EQ(items[static_cast<size_t>(i)], noise({i, i, epoch, false})) << i;
  }
}

TEST_P(LoaderThreads, PassOnAnErrorAtItsTurnWithTheSamplesName) {
  Loader<int> loader(
      {.n_threads = GetParam()},
      [](const Slot& s) -> int {
        if (s.index == 3) BORA_FAIL("no variable wind_speed");
        if (s.index == 5) throw UsageError("a bad value");
        if (s.index == 6) throw std::runtime_error("something foreign");
        return static_cast<int>(s.index);
      },
      [](int64_t index) { return "case_" + std::to_string(index); });
  loader.start(first_slots(8));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(loader.next(), i);
  EXPECT_THAT(message_of([&] { loader.next(); }),
              HasSubstr("reading sample case_3: no variable wind_speed"));
  EXPECT_EQ(loader.next(), 4);  // the following item, not the end
  EXPECT_EQ(message_of<UsageError>([&] { loader.next(); }), "reading sample case_5: a bad value");
  EXPECT_EQ(message_of([&] { loader.next(); }), "reading sample case_6: something foreign");
  EXPECT_EQ(loader.next(), 7);
  EXPECT_EQ(loader.next(), std::nullopt);
  EXPECT_EQ(loader.next(), std::nullopt);
}

TEST_P(LoaderThreads, StartAgainInTheMiddleOfAnEpoch) {
  Loader<int64_t> loader({.n_threads = GetParam()}, [](const Slot& s) {
    std::this_thread::sleep_for(200us);
    return 100 * s.epoch + s.index;
  });
  EXPECT_EQ(loader.next(), std::nullopt);  // before the first start
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    loader.start(first_slots(30, epoch));
    for (int64_t i = 0; i < epoch % 5; ++i) EXPECT_EQ(loader.next(), 100 * epoch + i);
  }
  loader.start({});
  EXPECT_EQ(loader.next(), std::nullopt);
}

TEST_P(LoaderThreads, WorkWithMoveOnlyItems) {
  Loader<std::unique_ptr<int64_t>> loader(
      {.n_threads = GetParam()}, [](const Slot& s) { return std::make_unique<int64_t>(s.index); });
  loader.start(first_slots(5));
  const auto items = drain(loader);
  ASSERT_EQ(items.size(), 5u);
  EXPECT_EQ(*items[4], 4);
}

TEST(Loader, ReadsAheadNoFurtherThanTheQueueIsDeep) {
  std::atomic<int64_t> n_read = 0;
  Loader<int64_t> loader({.n_threads = 2, .queue_depth = 3}, [&](const Slot& s) {
    ++n_read;
    return s.index;
  });
  loader.start(first_slots(100));
  int64_t delivered = 0;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(loader.next());
    ++delivered;
    std::this_thread::sleep_for(5ms);  // long enough for idle threads to overrun, if they could
    ASSERT_LE(n_read.load(), delivered + 3);
  }
  EXPECT_EQ(n_read.load(), delivered + 3);  // and it does read ahead
}

TEST(Loader, ThreadsLiveOnOverEpochs) {
  std::mutex mutex;
  std::set<std::thread::id> ids;
  Loader<int> loader({.n_threads = 2}, [&](const Slot&) {
    const std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
    return 0;
  });
  for (int64_t epoch = 0; epoch < 30; ++epoch) {
    loader.start(first_slots(6, epoch));
    drain(loader);
  }
  EXPECT_LE(ids.size(), 2u);
  EXPECT_EQ(ids.count(std::this_thread::get_id()), 0u);
}

TEST(Loader, EndsAtOnceWithAFullQueue) {
  using Clock = std::chrono::steady_clock;
  auto loader = std::make_unique<Loader<int64_t>>(LoaderOptions{.n_threads = 4, .queue_depth = 4},
                                                  [](const Slot& s) { return s.index; });
  loader->start(first_slots(1000));
  std::this_thread::sleep_for(20ms);  // the queue is full now, the threads wait for room
  const auto begin = Clock::now();
  loader.reset();
  // A wake-up and a join take microseconds; the bound leaves room for a loaded machine.
  EXPECT_LT(Clock::now() - begin, 500ms);
}

TEST(Loader, MeasuresHowLongItsCallerWaited) {
  for (const int n_threads : {0, 1}) {
    Loader<int> slow({.n_threads = n_threads}, [](const Slot&) {
      std::this_thread::sleep_for(5ms);
      return 0;
    });
    slow.start(first_slots(4));
    drain(slow);
    EXPECT_GE(slow.wait_s(), 0.018) << n_threads;  // 4 reads of 5 ms, less what start() overlapped
  }
  Loader<int> fast({.n_threads = 1, .queue_depth = 8}, [](const Slot&) { return 0; });
  fast.start(first_slots(8));
  std::this_thread::sleep_for(100ms);  // everything is there before it is asked for
  drain(fast);
  EXPECT_LT(fast.wait_s(), 0.05);
  EXPECT_EQ(fast.n_delivered(), 8);
}

// A file system that hangs: told with the file's name, then an Error, then an end.
TEST(Loader, NamesWhatItWaitsForAndGivesUp) {
  std::mutex mutex;
  std::condition_variable released;
  bool is_released = false;
  std::atomic<int> n_out{0};
  auto loader = std::make_unique<Loader<int>>(
      LoaderOptions{.n_threads = 2, .timeout_s = 0.3, .tell_s = 0.1},
      [&](const Slot& s) {
        std::unique_lock lock(mutex);
        if (s.index >= 1) released.wait(lock, [&] { return is_released; });
        if (s.index >= 1) ++n_out;
        return static_cast<int>(s.index);
      },
      [](int64_t i) { return "case_" + std::to_string(i); },
      [](int64_t i) { return "case_" + std::to_string(i) + " ('/slow/file.nc')"; });
  // Another one whose threads are behind the hanging one, as by the lock of HDF5: nor is it waited
  // for.
  auto other = std::make_unique<Loader<int>>(LoaderOptions{.n_threads = 1}, [&](const Slot&) {
    std::unique_lock lock(mutex);
    released.wait(lock, [&] { return is_released; });
    ++n_out;
    return 0;
  });
  other->start(first_slots(1));
  loader->start(first_slots(6));
  EXPECT_EQ(loader->next(), 0);
  testing::internal::CaptureStderr();
  const std::string error = message_of([&] { loader->next(); });
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("loader: waiting for sample case_1 for 0.1 s; being read: case_"));
  EXPECT_THAT(told, HasSubstr("('/slow/file.nc') for 0.1 s"));
  EXPECT_THAT(error, HasSubstr("loader.timeout_s = 0.3 has passed: waiting for sample case_1"));
  EXPECT_THAT(error, HasSubstr("case_1 ('/slow/file.nc') for 0.3 s"));
  EXPECT_THAT(error, HasSubstr("case_2 ('/slow/file.nc') for 0.3 s"));
  const auto begin = std::chrono::steady_clock::now();
  loader.reset();  // does not wait for ever
  other.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);
  {
    const std::lock_guard lock(mutex);
    is_released = true;
  }
  released.notify_all();
  a_read_hangs() = false;
  while (n_out < 3) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(50ms);  // the threads go by themselves
}

TEST(Loader, GoesOnAfterASlowRead) {
  Loader<int> loader({.n_threads = 1, .timeout_s = 0.05}, [](const Slot& s) {
    if (s.index == 0) std::this_thread::sleep_for(200ms);
    return static_cast<int>(s.index);
  });
  loader.start(first_slots(2));
  EXPECT_THAT(message_of([&] { loader.next(); }), HasSubstr("sample number 0"));
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(loader.next(), 0);  // it was late, not lost
  a_read_hangs() = false;
  EXPECT_EQ(loader.next(), 1);
}

TEST(Loader, TellsASlowReadInTheCallersThread) {
  Loader<int> loader({.n_threads = 0, .tell_s = 0.01}, [](const Slot&) {
    std::this_thread::sleep_for(20ms);
    return 0;
  });
  loader.start(first_slots(1));
  testing::internal::CaptureStderr();
  loader.next();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("loader: reading sample number 0 has taken 0"));
}

TEST_P(LoaderThreads, PassOnALackOfMemory) {
  Loader<int> loader(
      {.n_threads = GetParam()},
      [](const Slot& s) -> int {
        if (s.index == 1) throw std::bad_alloc();
        return 0;
      },
      [](int64_t) { return "big"; });
  loader.start(first_slots(3));
  EXPECT_TRUE(loader.next());
  EXPECT_THAT(message_of([&] { loader.next(); }),
              HasSubstr("reading sample big: out of memory; fewer loader.threads"));
  EXPECT_TRUE(loader.next());
}

TEST(Loader, RefusesWhatCannotBe) {
  const struct {
    LoaderOptions options;
    const char* words;
  } kRefused[] = {
      {{.timeout_s = -1}, "timeout_s must not be negative, tell_s must be positive, got -1 and "},
      {{.tell_s = 0}, "tell_s must be positive, got "},
      {{.n_threads = -1}, "n_threads must be in [0, 256], got -1"},
      {{.n_threads = 1000}, "n_threads must be in [0, 256], got 1000"},
      {{.n_threads = 1, .queue_depth = -2}, "queue_depth must not be negative, got -2"},
      {{.n_threads = 0, .queue_depth = 2}, "queue_depth is 2, but there are no threads to fill"},
      {{.n_threads = 4, .queue_depth = 2}, "queue_depth 2 keeps some of the 4 threads idle"}};
  for (const auto& refused : kRefused)
    EXPECT_THAT(message_of<UsageError>([&] { checked(refused.options); }),
                HasSubstr(refused.words));
  EXPECT_EQ(checked(LoaderOptions{.n_threads = 3}).queue_depth, 6);
  EXPECT_THROW(Loader<int>({.n_threads = 1}, nullptr), Error);
}

}  // namespace
}  // namespace bora::data
