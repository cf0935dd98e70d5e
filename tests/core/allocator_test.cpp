// SPDX-License-Identifier: Apache-2.0
#include "core/allocator.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/core/fake_backend.hpp"

namespace bora {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kSegment = 64 * kMiB;

class AllocatorTest : public testing::Test {
 protected:
  char* take(int64_t bytes) { return static_cast<char*>(allocator_.allocate(bytes)); }

  FakeBackend backend_{DeviceType::cpu};
  CachingAllocator allocator_{cpu()};
};

TEST_F(AllocatorTest, BlocksAreAlignedAndApart) {
  char* previous_end = nullptr;
  std::vector<char*> blocks;
  for (int64_t bytes : {1, 255, 256, 257, 1000}) {
    char* p = take(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 256, 0u);
    std::memset(p, 0x5a, static_cast<size_t>(bytes));
    EXPECT_GE(p, previous_end);
    previous_end = p + bytes;
    blocks.push_back(p);
  }
  EXPECT_EQ(allocator_.stats().live, 256 + 256 + 256 + 512 + 1024);
  for (char* p : blocks) allocator_.free(p);
  EXPECT_EQ(allocator_.stats().live, 0);
}

TEST_F(AllocatorTest, RefusesZeroAndNegative) {
  EXPECT_THAT([&] { take(0); }, ThrowsMessage<Error>(HasSubstr("0 bytes asked for")));
  EXPECT_THROW(take(-1), Error);
}

TEST_F(AllocatorTest, SmallBlocksShareASegment) {
  take(1000);
  take(kMiB);
  EXPECT_EQ(backend_.n_allocations, 1);
  EXPECT_EQ(allocator_.stats().reserved, kSegment);
}

TEST_F(AllocatorTest, LargeBlockGetsItsOwnSegmentInWholeHugePages) {
  take(kSegment + 1);
  EXPECT_EQ(allocator_.stats().reserved, kSegment + 2 * kMiB);
  EXPECT_EQ(allocator_.stats().n_backend_allocations, 1);
}

TEST_F(AllocatorTest, ReuseNeedsNoNewBackendAllocation) {
  for (int step = 0; step < 5; ++step) {
    std::vector<char*> blocks;
    for (int i = 1; i <= 10; ++i) blocks.push_back(take(i * 100000));
    for (char* p : blocks) allocator_.free(p);
  }
  EXPECT_EQ(backend_.n_allocations, 1);
  EXPECT_EQ(backend_.n_frees, 0);
  EXPECT_EQ(allocator_.stats().n_allocations, 50);
}

TEST_F(AllocatorTest, FreedBlockIsHandedOutAgain) {
  char* a = take(4096);
  take(4096);
  allocator_.free(a);
  EXPECT_EQ(take(4096), a);
}

TEST_F(AllocatorTest, TakesTheSmallestBlockThatFits) {
  char* large = take(8192);
  take(256);
  char* small = take(2048);
  take(256);
  allocator_.free(large);
  allocator_.free(small);
  EXPECT_EQ(take(2000), small);
  EXPECT_EQ(take(2304), large);  // does not fit where 2000 was
}

TEST_F(AllocatorTest, SplitsABlockAndUsesTheRest) {
  char* a = take(4096);
  take(256);
  allocator_.free(a);
  EXPECT_EQ(take(1024), a);
  EXPECT_EQ(take(3072), a + 1024);
}

// In each order of freeing, three neighbours become one block again.
TEST_F(AllocatorTest, MergesWithBothNeighbours) {
  const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const auto& order : orders) {
    char* p[3] = {take(1024), take(1024), take(1024)};
    char* wall = take(256);
    for (int i : order) allocator_.free(p[i]);
    EXPECT_EQ(take(3072), p[0]);
    allocator_.free(p[0]);
    allocator_.free(wall);
  }
}

// Even if two segments lie side by side in memory, they were given apart and must go back apart.
TEST_F(AllocatorTest, DoesNotMergeAcrossSegments) {
  for (const bool lower_first : {true, false}) {
    char* low = take(kSegment);
    char* high = take(kSegment);
    if (low > high) std::swap(low, high);
    allocator_.free(lower_first ? low : high);
    allocator_.free(lower_first ? high : low);
    const int before = backend_.n_allocations;
    char* both = take(2 * kSegment);
    EXPECT_EQ(backend_.n_allocations, before + 1);
    allocator_.free(both);
    allocator_.release_cached();
    EXPECT_THAT(backend_.calls, testing::Not(testing::Contains("bad free")));
  }
}

TEST_F(AllocatorTest, PeakIsTheLargestLive) {
  char* a = take(1024);
  char* b = take(2048);
  allocator_.free(a);
  take(512);
  EXPECT_EQ(allocator_.stats().live, 2560);
  EXPECT_EQ(allocator_.stats().peak, 3072);
  allocator_.free(b);
  allocator_.reset_peak();
  EXPECT_EQ(allocator_.stats().peak, 512);
}

TEST_F(AllocatorTest, PeakIsSplitByOp) {
  char* outside = take(256);
  char* conv = nullptr;
  {
    const AllocationTag tag("conv3d");
    conv = take(1024);
    {
      const AllocationTag inner("norm");
      take(512);
    }
    take(256);
  }
  const std::map<std::string, int64_t> expected{{"(none)", 256}, {"conv3d", 1280}, {"norm", 512}};
  EXPECT_EQ(allocator_.stats().by_op_at_peak, expected);
  allocator_.free(conv);
  allocator_.free(outside);
  take(256);  // below the peak: the split stays as it was
  EXPECT_EQ(allocator_.stats().by_op_at_peak, expected);
  allocator_.reset_peak();
  const std::map<std::string, int64_t> now{{"(none)", 256}, {"conv3d", 256}, {"norm", 512}};
  EXPECT_EQ(allocator_.stats().by_op_at_peak, now);
}

TEST_F(AllocatorTest, ReleaseCachedGivesBackWhollyFreeSegmentsOnly) {
  char* kept = take(1000);
  char* large = take(kSegment);
  allocator_.free(large);
  allocator_.release_cached();
  EXPECT_EQ(backend_.n_frees, 1);
  EXPECT_EQ(allocator_.stats().reserved, kSegment);
  std::memset(kept, 1, 1000);  // still there
  allocator_.free(kept);
  allocator_.release_cached();
  EXPECT_EQ(allocator_.stats().reserved, 0);
  EXPECT_TRUE(backend_.live.empty());
  take(1000);  // and it goes on
  EXPECT_EQ(backend_.n_allocations, 3);
}

TEST_F(AllocatorTest, DestructorGivesEverythingBack) {
  {
    CachingAllocator other{cpu()};
    other.free(other.allocate(100));
    other.free(other.allocate(kSegment + 1));
  }
  EXPECT_TRUE(backend_.live.empty());
  EXPECT_THAT(backend_.calls, testing::Not(testing::Contains("bad free")));
}

TEST_F(AllocatorTest, ForeignPointerAndSecondFreeChangeNothing) {
  char* a = take(1024);
  allocator_.free(a);
  allocator_.free(a);
  int other = 0;
  allocator_.free(&other);
  EXPECT_EQ(allocator_.stats().live, 0);
  char* b = take(1024);
  EXPECT_NE(take(1024), b);
}

TEST_F(AllocatorTest, OutOfMemorySaysWhoHoldsWhat) {
  backend_.limit = 2 * kSegment;
  char* a = take(kSegment);
  EXPECT_THAT([&] { take(2 * kSegment); },
              ThrowsMessage<Error>(AllOf(HasSubstr("fake: out of memory"),
                                         HasSubstr("cpu holds 64 MiB live, 64 MiB reserved"),
                                         HasSubstr("use a smaller batch"))));
  allocator_.free(a);  // and the allocator still works
  EXPECT_EQ(take(kSegment), a);
}

// Free segments must not stand in the way of one larger block.
TEST_F(AllocatorTest, OutOfMemoryGivesBackFreeSegmentsAndTriesAgain) {
  backend_.limit = 3 * kSegment;
  char* a = take(kSegment);
  char* b = take(kSegment);
  allocator_.free(a);
  allocator_.free(b);
  EXPECT_NO_THROW(take(2 * kSegment + 1));
  EXPECT_EQ(allocator_.stats().reserved, 2 * kSegment + 2 * kMiB);
}

TEST_F(AllocatorTest, ManyThreadsNeverShareABlock) {
  std::vector<std::thread> threads;
  std::vector<int> damaged(4, 0);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<unsigned>(t));
      struct Held {
        unsigned char* data;
        int64_t bytes;
        unsigned char mark;
      };
      std::vector<Held> held;
      const auto release = [&](size_t i) {
        const Held h = held[i];
        for (const int64_t at : {int64_t{0}, h.bytes / 2, h.bytes - 1})
          if (h.data[at] != h.mark) ++damaged[static_cast<size_t>(t)];
        allocator_.free(h.data);
        held[i] = held.back();
        held.pop_back();
      };
      for (int i = 0; i < 3000; ++i) {
        if (held.size() < 20 && random() % 3 != 0) {
          const auto bytes = static_cast<int64_t>(1 + random() % 20000);
          auto* data = static_cast<unsigned char*>(allocator_.allocate(bytes));
          const auto mark = static_cast<unsigned char>(random());
          std::memset(data, mark, static_cast<size_t>(bytes));
          held.push_back({data, bytes, mark});
        } else if (!held.empty()) {
          release(random() % held.size());
        }
      }
      while (!held.empty()) release(0);
    });
  for (auto& t : threads) t.join();
  EXPECT_THAT(damaged, testing::Each(0));
  EXPECT_EQ(allocator_.stats().live, 0);
  // Everything has merged back: one block of a whole segment.
  EXPECT_EQ(backend_.n_allocations, 1);
  take(kSegment);
  EXPECT_EQ(backend_.n_allocations, 1);
}

TEST(Allocator, IsOnePerDevice) {
  EXPECT_EQ(&caching_allocator(cpu()), &caching_allocator(cpu()));
  EXPECT_NE(&caching_allocator(cuda(0)), &caching_allocator(cuda(1)));
  EXPECT_NE(&caching_allocator(cpu()), &caching_allocator(cuda(0)));
  EXPECT_EQ(caching_allocator(cuda(1)).device(), cuda(1));
  CachingAllocator* other = nullptr;
  std::thread([&] { other = &caching_allocator(cpu()); }).join();
  EXPECT_EQ(other, &caching_allocator(cpu()));
}

}  // namespace
}  // namespace bora
