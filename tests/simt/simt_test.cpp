// SPDX-License-Identifier: Apache-2.0
// The emulator: right kernels give right answers under every schedule, wrong ones do not get
// through.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "core/backend.hpp"
#include "core/tensor.hpp"
#include "kernels/launch.hpp"
#include "tests/support/message_of.hpp"

namespace bora {
namespace {

using bora::testing::message_of;
using kernels::launch;
using kernels::LaunchShape;
using simt::Schedule;
using simt::ScheduleKind;
using simt::ScheduleScope;
using ::testing::AllOf;
using ::testing::HasSubstr;

const Schedule kSchedules[] = {{ScheduleKind::forward},
                               {ScheduleKind::backward},
                               {ScheduleKind::shuffled, 1},
                               {ScheduleKind::shuffled, 2}};
constexpr unsigned kAll = 0xffffffffu;

Stream stream() { return current_stream(cuda(0)); }

/// out[block] = sum of in over the block's threads, by shuffles and shared memory.
template <bool kBarrier>
__global__ void block_sum(const int* in, int* out, int n) {
  __shared__ int per_warp[32];
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  int v = i < n ? in[i] : 0;
  for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(kAll, v, static_cast<unsigned>(d));
  if (threadIdx.x % 32 == 0) per_warp[threadIdx.x / 32] = v;
  if (kBarrier) __syncthreads();
  if (threadIdx.x == 0) {
    int total = 0;
    for (unsigned w = 0; w < blockDim.x / 32; ++w) total += per_warp[w];
    out[blockIdx.x] = total;
    for (unsigned w = 0; w < blockDim.x / 32; ++w) per_warp[w] = -1000;
  }
}

std::vector<int> block_sums(void (*kernel)(const int*, int*, int), int n) {
  std::vector<int> in(static_cast<size_t>(n)), out(static_cast<size_t>((n + 255) / 256), -1);
  std::iota(in.begin(), in.end(), 1);
  const Tensor x = Tensor::from<int>({n}, in, cuda(0));
  Tensor y = Tensor::from<int>({static_cast<int64_t>(out.size())}, out, cuda(0));
  launch("block_sum", stream(), {.grid = static_cast<unsigned>(out.size())}, kernel, x.data<int>(),
         y.data<int>(), n);
  return y.to_vector<int>();
}

TEST(Simt, SharedMemoryAndShufflesGiveTheSameUnderAllSchedules) {
  for (const Schedule& s : kSchedules) {
    const ScheduleScope scope(s);
    const std::vector<int> got = block_sums(block_sum<true>, 1000);
    ASSERT_EQ(4u, got.size());
    for (int b = 0; b < 4; ++b) {
      const int first = b * 256 + 1, last = std::min(1000, (b + 1) * 256);
      EXPECT_EQ((first + last) * (last - first + 1) / 2, got[static_cast<size_t>(b)]);
    }
  }
}

TEST(Simt, AMissingBarrierShowsAsSchedulesThatDisagree) {
  std::set<std::vector<int>> results;
  for (const Schedule& s : kSchedules) {
    const ScheduleScope scope(s);
    results.insert(block_sums(block_sum<false>, 1000));
  }
  EXPECT_GT(results.size(), 1u);
}

/// What one lane gives to another, for each kind of shuffle; lanes 0-31 of one warp.
__global__ void shuffles(int* out) {
  const int lane = static_cast<int>(threadIdx.x);
  out[lane] = __shfl_sync(kAll, lane, 5);
  out[32 + lane] = __shfl_up_sync(kAll, lane, 3);
  out[64 + lane] = __shfl_down_sync(kAll, lane, 3);
  out[96 + lane] = __shfl_xor_sync(kAll, lane, 7);
  out[128 + lane] = __shfl_down_sync(kAll, lane, 3, 8);
  out[160 + lane] = __shfl_sync(kAll, lane, 9, 8);
  out[192 + lane] = static_cast<int>(__ballot_sync(kAll, lane % 3 == 0));
  out[224 + lane] = __any_sync(kAll, lane == 9) * 2 + __all_sync(kAll, lane == 9);
  const double wide = __shfl_xor_sync(kAll, 0.5 * lane, 1);
  out[256 + lane] = static_cast<int>(2 * wide);
}

// The CUDA programming guide, warp shuffle functions and warp vote functions.
TEST(Simt, WarpOperationsFollowTheProgrammingGuide) {
  for (const Schedule& s : kSchedules) {
    const ScheduleScope scope(s);
    Tensor t = Tensor::empty({288}, DType::i32, cuda(0));
    launch("shuffles", stream(), {.block = 32}, shuffles, t.data<int>());
    const std::vector<int> got = t.to_vector<int>();
    for (int l = 0; l < 32; ++l) {
      const auto at = [&](int k) { return got[static_cast<size_t>(32 * k + l)]; };
      EXPECT_EQ(5, at(0));
      EXPECT_EQ(l < 3 ? l : l - 3, at(1));
      EXPECT_EQ(l < 29 ? l + 3 : l, at(2));
      EXPECT_EQ(l ^ 7, at(3));
      EXPECT_EQ(l % 8 < 5 ? l + 3 : l, at(4));
      EXPECT_EQ(l / 8 * 8 + 1, at(5));
      EXPECT_EQ(0b01001001001001001001001001001001, at(6));
      EXPECT_EQ(2, at(7));
      EXPECT_EQ(l ^ 1, at(8));
    }
  }
}

/// Halves of a warp under masks of their own.
__global__ void half_warps(int* out) {
  const unsigned lane = threadIdx.x, mask = lane < 16 ? 0xffffu : 0xffff0000u;
  int v = static_cast<int>(lane);
  if (lane < 16) {
    for (int d = 8; d > 0; d /= 2) v += __shfl_xor_sync(mask, v, d);
  } else {
    v = -__shfl_sync(mask, v, 20);
  }
  out[lane] = v;
}

TEST(Simt, PartsOfAWarpMeetUnderTheirOwnMasks) {
  Tensor t = Tensor::empty({32}, DType::i32, cuda(0));
  launch("half_warps", stream(), {.block = 32}, half_warps, t.data<int>());
  const std::vector<int> got = t.to_vector<int>();
  for (size_t l = 0; l < 32; ++l) EXPECT_EQ(l < 16 ? 120 : -20, got[l]);
}

__global__ void places(int* out, int* count) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned n = blockDim.x * blockDim.y * blockDim.z;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * n + thread] = static_cast<int>(block * n + thread);
  atomicAdd(count, 1);
}

TEST(Simt, EveryThreadOfEveryBlockRunsOnce) {
  for (const Schedule& s : kSchedules) {
    const ScheduleScope scope(s);
    Tensor t = Tensor::full({2 * 3 * 4 * 5 * 6 * 7}, -1, DType::i32, cuda(0));
    Tensor count = Tensor::zeros({1}, DType::i32, cuda(0));
    launch("places", stream(), {.grid = {2, 3, 4}, .block = {5, 6, 7}}, places, t.data<int>(),
           count.data<int>());
    const std::vector<int> got = t.to_vector<int>();
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(static_cast<int>(i), got[i]);
    EXPECT_EQ(got.size(), static_cast<size_t>(count.to_vector<int>()[0]));
  }
}

/// out[i] = i-th word of dynamic shared memory before anything wrote it; then it is used.
__global__ void shared_words(float* out) {
  BORA_DYNAMIC_SHARED(float, words);
  out[blockIdx.x * blockDim.x + threadIdx.x] = words[threadIdx.x];
  __syncthreads();
  words[threadIdx.x] = 1.0f;
}

TEST(Simt, DynamicSharedMemoryIsNaNBeforeEachBlock) {
  Tensor t = Tensor::zeros({4 * 64}, DType::f32, cuda(0));
  launch("shared_words", stream(), {.grid = 4, .block = 64, .shared_bytes = 64 * sizeof(float)},
         shared_words, t.data<float>());
  for (const float v : t.to_vector<float>()) EXPECT_TRUE(std::isnan(v));
}

/// The same of static shared memory.
__global__ void static_words(float* out) {
  __shared__ float words[64];
  out[blockIdx.x * blockDim.x + threadIdx.x] = words[threadIdx.x];
  __syncthreads();
  words[threadIdx.x] = 1.0f;
}

TEST(Simt, StaticSharedMemoryIsNaNBeforeEachBlock) {
  Tensor t = Tensor::zeros({4 * 64}, DType::f32, cuda(0));
  launch("static_words", stream(), {.grid = 4, .block = 64}, static_words, t.data<float>());
  for (const float v : t.to_vector<float>()) EXPECT_TRUE(std::isnan(v));
}

TEST(Simt, DeviceMemoryIsNaNBeforeItIsWritten) {
  void* const p = backend(DeviceType::cuda).allocate(4096, cuda(0));
  const Tensor f16 = Tensor::wrap(p, {2048}, DType::f16, cuda(0));
  for (const double v : f16.to(DType::f64).to_vector<double>()) ASSERT_TRUE(std::isnan(v));
  const Tensor f64 = Tensor::wrap(p, {512}, DType::f64, cuda(0));
  for (const double v : f64.to_vector<double>()) ASSERT_TRUE(std::isnan(v));
  backend(DeviceType::cuda).free(p, 4096, cuda(0));
}

// ---- what is wrong is refused, and says where -------------------------------------------------

__global__ void barrier_for_some() {
  if (threadIdx.x < 40) __syncthreads();
}
__global__ void two_barriers() {
  if (threadIdx.x < 32)
    __syncthreads();
  else
    __syncthreads();
}
__global__ void lane_outside_its_mask() { __shfl_sync(threadIdx.x < 8 ? 0xffffu : 0xff00u, 1, 8); }
__global__ void lane_that_never_comes() {
  if (threadIdx.x != 7) __shfl_down_sync(kAll, 1, 1);
}
__global__ void source_outside_the_mask() {
  if (threadIdx.x < 16) __shfl_sync(0xffffu, 1, 20);
}
__global__ void different_operations() {
  if (threadIdx.x % 2)
    __ballot_sync(kAll, 1);
  else
    __shfl_sync(kAll, 1, 0);
}
__global__ void barrier_against_warp() {
  if (threadIdx.x < 32)
    __syncwarp();
  else if (threadIdx.x < 40)
    __syncwarp();
  else
    __syncthreads();
}
__global__ void throws_at(unsigned thread) {
  __syncthreads();
  BORA_CHECK(threadIdx.x != thread, "the pack is not aligned");
  __syncthreads();
}

std::string fault_of(void (*kernel)(), unsigned threads) {
  return message_of([&] { launch("my_op", stream(), {.block = threads}, kernel); });
}

TEST(SimtFaults, ADivergentBarrierIsAnErrorThatNamesBothThreads) {
  for (const Schedule& s : kSchedules) {
    const ScheduleScope scope(s);
    EXPECT_THAT(
        fault_of(barrier_for_some, 64),
        AllOf(HasSubstr("my_op: thread (0, 0, 0) of block (0, 0, 0) waits in __syncthreads"),
              HasSubstr("simt_test.cpp"), HasSubstr("thread 40 of the block has ended")));
    EXPECT_THAT(fault_of(two_barriers, 64), HasSubstr("all threads must meet at one barrier"));
    EXPECT_THAT(fault_of(barrier_against_warp, 64), HasSubstr("waits in __syncwarp"));
  }
}

TEST(SimtFaults, WrongMasksAreErrors) {
  for (const Schedule& s : kSchedules) {
    const ScheduleScope scope(s);
    EXPECT_THAT(fault_of(lane_outside_its_mask, 32), HasSubstr("is not in its own mask"));
    EXPECT_THAT(
        fault_of(lane_that_never_comes, 32),
        AllOf(HasSubstr("waits in a shuffle"), HasSubstr("thread 7 of the block has ended")));
    EXPECT_THAT(fault_of(source_outside_the_mask, 32), HasSubstr("reads lane 20"));
    EXPECT_THAT(fault_of(different_operations, 32), HasSubstr("must meet in one operation"));
    // 20 threads: the mask names 12 lanes that are not there.
    EXPECT_THAT(fault_of(lane_that_never_comes, 20), HasSubstr("lanes that the block has not"));
  }
}

TEST(SimtFaults, AnErrorInAKernelReachesTheCallerAndTheNextLaunchRuns) {
  for (const Schedule& s : kSchedules) {
    const ScheduleScope scope(s);
    EXPECT_THAT(
        message_of([] { launch("my_op", stream(), {.grid = 3, .block = 256}, throws_at, 77u); }),
        AllOf(HasSubstr("my_op: thread (77, 0, 0) of block"), HasSubstr("not aligned")));
    EXPECT_EQ(1u, block_sums(block_sum<true>, 100).size());
  }
}

__global__ void nothing() {}
__global__ void uses_32_kib(int* out) {
  __shared__ int words[8192];
  words[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = words[threadIdx.x];
}

TEST(SimtFaults, LaunchesThatADeviceRefusesAreRefused) {
  const auto fault = [](const LaunchShape& shape) {
    return message_of([&] { launch("my_op", stream(), shape, nothing); });
  };
  EXPECT_EQ("no error", fault({.grid = {7, 65535, 1}, .block = 1}));
  EXPECT_EQ("no error", fault({.block = {32, 32, 1}, .shared_bytes = 227 * 1024}));
  EXPECT_THAT(fault({.block = {33, 32, 1}}), HasSubstr("has 1056 threads"));
  EXPECT_THAT(fault({.block = {1, 1, 65}}), HasSubstr("at most 64 along z"));
  EXPECT_THAT(fault({.block = 0}), HasSubstr("has 0 threads"));
  EXPECT_THAT(fault({.grid = {1, 65536, 1}}), HasSubstr("my_op: a grid of (1, 65536, 1)"));
  EXPECT_THAT(fault({.grid = {1, 1, 65536}}), HasSubstr("65535"));
  EXPECT_THAT(fault({.grid = 0}), HasSubstr("a grid of (0, 1, 1)"));
  EXPECT_THAT(fault({.shared_bytes = 227 * 1024 + 1}), HasSubstr("dynamic shared memory"));
  Tensor t = Tensor::zeros({32}, DType::i32, cuda(0));
  const auto with_static = [&](size_t shared_bytes) {
    return message_of([&] {
      launch("my_op", stream(), {.block = 32, .shared_bytes = shared_bytes}, uses_32_kib,
             t.data<int>());
    });
  };
  EXPECT_EQ("no error", with_static(195 * 1024));
  EXPECT_THAT(with_static(195 * 1024 + 1), HasSubstr("and 32768 of static"));
}

TEST(SimtFaults, OtherDevicesAndWrongSchedulesAreRefused) {
  EXPECT_THAT(message_of([] { Tensor::zeros({1}, DType::f32, cuda(1)); }),
              HasSubstr("there is cuda:0 only"));
  EXPECT_EQ(7u, simt::schedule_from("shuffled:7").seed);
  for (const char* text : {"", "sideways", "shuffled:", "shuffled:x", "shuffled:1 "})
    EXPECT_THROW(simt::schedule_from(text), UsageError) << text;
}

TEST(Simt, ThreadsOfTheHostMayLaunchAtOnce) {
  std::vector<std::vector<int>> results(4);
  std::vector<std::thread> threads;
  for (auto& r : results) threads.emplace_back([&r] { r = block_sums(block_sum<true>, 5000); });
  for (std::thread& t : threads) t.join();
  for (const auto& r : results) EXPECT_EQ(results[0], r);
}

#if defined(__SANITIZE_ADDRESS__)
__global__ void writes_one_too_many(int* out, int n) {
  const int i = static_cast<int>(threadIdx.x);
  __syncthreads();
  if (i <= n) out[i] = i;
}
__global__ void writes_behind_shared(int n) {
  BORA_DYNAMIC_SHARED(int, words);
  words[static_cast<int>(threadIdx.x) + n] = 1;
}

TEST(SimtDeathTest, AddressSanitizerSeesAccessesOutOfBounds) {
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  std::vector<int> memory(100);
  EXPECT_DEATH(launch("my_op", stream(), {.block = 128}, writes_one_too_many, memory.data(), 100),
               "heap-buffer-overflow(.|\n)*writes_one_too_many");
  EXPECT_DEATH(
      launch("my_op", stream(), {.block = 64, .shared_bytes = 256}, writes_behind_shared, 1),
      "heap-buffer-overflow(.|\n)*writes_behind_shared");
}
#endif

}  // namespace
}  // namespace bora
