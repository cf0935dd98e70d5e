// SPDX-License-Identifier: Apache-2.0
// Memory of a device whose work happens late: reuse, pools, poison.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>

#include "core/allocator.hpp"
#include "core/memory_report.hpp"
#include "core/tensor.hpp"
#include "tests/support/deferred_backend.hpp"

namespace bora {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

struct Poison {
  Poison() { set_memory_poison(true); }
  ~Poison() { set_memory_poison(false); }
};

class DeviceMemoryTest : public testing::Test {
 protected:
  test::DeferredBackend device_;
  Stream compute_ = current_stream(cuda(0));
  Stream other_ = device_.make_stream(cuda(0), false);
};

TEST_F(DeviceMemoryTest, AFreedBlockIsReusedAtOnceOnOneStream) {
  const void* place = Tensor::full({1000}, 1.0, DType::f32, cuda(0)).raw();
  const Tensor next = Tensor::full({1000}, 2.0, DType::f32, cuda(0));
  EXPECT_EQ(next.raw(), place);
  EXPECT_EQ(next.to_vector<float>()[999], 2.0f);
}

// Another stream reads a temporary that is freed and its memory taken again before it has run.
float read_by_other_stream(test::DeferredBackend& device, Stream other, bool recorded) {
  Tensor copy = Tensor::zeros({1000}, DType::f32, cuda(0));
  {
    const Tensor temporary = Tensor::full({1000}, 1.0, DType::f32, cuda(0));
    other.wait(temporary.stream().record());
    device.copy(other, copy.raw(), cuda(0), temporary.raw(), cuda(0), temporary.bytes());
    if (recorded) temporary.storage()->record_use(other);
  }
  const Tensor next = Tensor::full({1000}, 2.0, DType::f32, cuda(0));
  current_stream(cuda(0)).synchronize();  // compute first: the worst order
  device.run(other);
  return copy.to_vector<float>()[500];
}

TEST_F(DeviceMemoryTest, RecordedUseKeepsABlockUntilTheOtherStreamHasPassed) {
  EXPECT_EQ(read_by_other_stream(device_, other_, false), 2.0f) << "the hazard shows in this test";
  EXPECT_EQ(read_by_other_stream(device_, other_, true), 1.0f);
  const int64_t live = caching_allocator(cuda(0)).stats().live;
  device_.run_all();
  Tensor::empty({1}, DType::f32, cuda(0));  // looks after the resting blocks
  EXPECT_LT(caching_allocator(cuda(0)).stats().live, live);
  EXPECT_THROW(Tensor::zeros({1}, DType::f32).storage()->record_use(other_), Error);
}

TEST_F(DeviceMemoryTest, RestingBlocksAreWaitedForBeforeThereIsNoMemory) {
  constexpr int64_t kHalf = int64_t{40} << 20;
  caching_allocator(cuda(0)).release_cached();
  device_.limit = int64_t{80} << 20;
  {
    const Tensor temporary = Tensor::empty({kHalf}, DType::u8, cuda(0));
    device_.enqueue(other_, [] {});
    temporary.storage()->record_use(other_);
  }
  EXPECT_EQ(Tensor::empty({int64_t{70} << 20}, DType::u8, cuda(0)).numel(), int64_t{70} << 20);
}

TEST_F(DeviceMemoryTest, OutOfMemoryNamesWhatIsLargest) {
  device_.limit = int64_t{200} << 20;
  const AllocationTag tag("conv3d");
  const Tensor held = Tensor::empty({int64_t{100} << 20}, DType::u8, cuda(0));
  EXPECT_THAT(
      [&] {
        const AllocationTag inner("norm");
        Tensor::empty({int64_t{150} << 20}, DType::u8, cuda(0));
      },
      ThrowsMessage<Error>(AllOf(HasSubstr("out of memory"), HasSubstr("cuda:0 holds 100 MiB live"),
                                 HasSubstr("conv3d 100 MiB"), HasSubstr("smaller batch"))));
}

TEST_F(DeviceMemoryTest, PoisonShowsReadsOfMemoryThatNobodyWrote) {
  const Poison poison;
  for (const DType type : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const Tensor fresh = Tensor::empty({100}, type, cuda(0));
    for (const float x : fresh.to(DType::f32).to_vector<float>())
      ASSERT_TRUE(std::isnan(x)) << name_of(type);
  }
  Tensor cpu_memory = Tensor::empty({100}, DType::f32);
  EXPECT_TRUE(std::isnan(cpu_memory.data<float>()[99]));
}

TEST_F(DeviceMemoryTest, PoisonShowsReadsOfMemoryThatHasGone) {
  const Poison poison;
  Tensor copy = Tensor::zeros({1000}, DType::f32, cuda(0));
  const void* gone = nullptr;
  {
    const Tensor temporary = Tensor::full({1000}, 1.0, DType::f32, cuda(0));
    gone = temporary.raw();
  }
  device_.copy(compute_, copy.raw(), cuda(0), gone, cuda(0), copy.bytes());
  EXPECT_TRUE(std::isnan(copy.to_vector<float>()[0]));
}

TEST_F(DeviceMemoryTest, APoolsMemoryGoesBackToIt) {
  auto pool = std::make_shared<CachingAllocator>(cuda(0));
  const int64_t outside = caching_allocator(cuda(0)).stats().live;
  Tensor in_pool, host;
  {
    const AllocationPoolScope scope(pool);
    in_pool = Tensor::full({1000}, 3.0, DType::f32, cuda(0));
    host = Tensor::zeros({1000}, DType::f32);  // another device's tensors come from where they do
    EXPECT_EQ(allocation_pool(cuda(0)), pool);
    EXPECT_EQ(allocation_pool(cpu()), nullptr);
  }
  EXPECT_EQ(allocation_pool(cuda(0)), nullptr);
  EXPECT_EQ(pool->stats().live, 4096);
  EXPECT_EQ(memory_of(cuda(0)).live, outside + 4096);
  reset_memory_peaks(cuda(0));
  EXPECT_EQ(memory_of(cuda(0)).by_op_at_peak.at("(none)"), memory_of(cuda(0)).live);
  EXPECT_EQ(caching_allocator(cuda(0)).stats().live, outside);
  pool.reset();  // the tensor keeps it
  EXPECT_EQ(in_pool.to_vector<float>()[999], 3.0f);
  in_pool = {};
  EXPECT_EQ(device_.limit, INT64_MAX);
}

}  // namespace
}  // namespace bora
