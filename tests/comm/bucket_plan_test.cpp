// SPDX-License-Identifier: Apache-2.0
#include "comm/bucket_plan.hpp"

#include "core/rng.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace bora {
namespace {

FlatLayout layout_of(const std::vector<int64_t>& counts) {
  FlatLayout layout;
  for (size_t i = 0; i < counts.size(); ++i) layout.add(detail::join("p", i), {counts[i]});
  return layout;
}

// Bytes of ranges [first, last), padding included.
int64_t bytes_of(const FlatLayout& layout, int first, int last, DType type) {
  const auto n = static_cast<int>(layout.ranges().size());
  const int64_t end = last < n ? layout.range(last).offset : layout.size();
  return (end - layout.range(first).offset) * size_of(type);
}

TEST(BucketPlan, TilesTheBufferForAnySizes) {
  const RngKey key{99, rng_stream("bucket plan")};
  uint64_t draw = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<int64_t> counts(key.below(40, draw++));
    for (int64_t& c : counts) c = static_cast<int64_t>(key.below(5000, draw++));
    const BucketSizes sizes{static_cast<int64_t>(1 + key.below(30000, draw++)),
                            static_cast<int64_t>(1 + key.below(8000, draw++)),
                            static_cast<int64_t>(key.below(8000, draw++))};
    const DType type = round % 2 ? DType::f32 : DType::f16;
    const FlatLayout layout = layout_of(counts);
    const auto buckets = plan_buckets(layout, type, sizes);
    SCOPED_TRACE(round);
    ASSERT_EQ(counts.empty(), buckets.empty());
    int64_t at = 0;
    int range = 0;
    for (const Bucket& b : buckets) {
      ASSERT_EQ(at, b.begin);
      ASSERT_EQ(range, b.first_range);
      ASSERT_LT(b.first_range, b.last_range);  // never empty
      ASSERT_EQ(layout.range(b.first_range).offset, b.begin);
      at = b.end;
      range = b.last_range;
      // Without its last range a bucket is below its size: it is closed as early as possible.
      const int64_t wanted =
          &b == buckets.data() ? std::min(sizes.first, sizes.target) : sizes.target;
      if (b.last_range - b.first_range > 1) {
        ASSERT_LT(bytes_of(layout, b.first_range, b.last_range - 1, type), wanted);
      }
    }
    ASSERT_EQ(layout.size(), at);
    ASSERT_EQ(static_cast<int>(counts.size()), range);
    ASSERT_EQ(buckets, plan_buckets(layout, type, sizes));
    if (sizes.last > 0 && buckets.size() > 1 &&
        bytes_of(layout, range - 1, range, type) <= sizes.last) {
      const Bucket& tail = buckets.back();
      ASSERT_LE((tail.end - tail.begin) * size_of(type), sizes.last);
    }
  }
}

TEST(BucketPlan, FirstIsSmallThenTheTargetThenTheTail) {
  // 10 ranges of 64 f32 = 256 bytes.
  const FlatLayout layout = layout_of(std::vector<int64_t>(10, 64));
  const auto buckets = plan_buckets(layout, DType::f32, {1024, 256, 512});
  const std::vector<Bucket> wanted = {
      {0, 64, 0, 1}, {64, 320, 1, 5}, {320, 512, 5, 8}, {512, 640, 8, 10}};
  EXPECT_EQ(wanted, buckets);
}

TEST(BucketPlan, TheAutomaticTargetIsAnEighthOfTheBuffer) {
  // 64 ranges of 512 KiB: 32 MiB, so buckets of 4 MiB after the first, and a tail of 1 MiB.
  const auto buckets = plan_buckets(layout_of(std::vector<int64_t>(64, 1 << 17)), DType::f32, {});
  ASSERT_EQ(buckets.size(), 10u);
  EXPECT_EQ(buckets[0].end, 2 << 17);
  for (int i = 1; i < 8; ++i) EXPECT_EQ(buckets[i].end - buckets[i].begin, 8 << 17) << i;
  EXPECT_EQ(buckets[9].end - buckets[9].begin, 2 << 17);
  // Never above 25 MiB: 16 GiB.
  for (const Bucket& b :
       plan_buckets(layout_of(std::vector<int64_t>(4096, 1 << 20)), DType::f32, {}))
    EXPECT_LE(b.end - b.begin, 7 << 20);
}

// What is smaller than a first bucket is not cut: two reductions would only cost a second latency.
TEST(BucketPlan, ASmallBufferIsOneBucket) {
  const FlatLayout layout = layout_of(std::vector<int64_t>(10, 64));  // 2560 bytes
  EXPECT_EQ(1u, plan_buckets(layout, DType::f32, {4096, 2561, 512}).size());
  EXPECT_EQ(2u, plan_buckets(layout, DType::f32, {4096, 2560, 512}).size());
  EXPECT_EQ(1u, plan_buckets(layout, DType::f32, {}).size());
}

TEST(BucketPlan, RefusesSizesThatAreNotPositive) {
  EXPECT_THROW(plan_buckets(layout_of({1}), DType::f32, {-1, 1, 0}), Error);
  EXPECT_THROW(plan_buckets(layout_of({1}), DType::f32, {1, 0, 0}), Error);
  EXPECT_THROW(plan_buckets(layout_of({1}), DType::f32, {1, 1, -1}), Error);
}

}  // namespace
}  // namespace bora
