// SPDX-License-Identifier: Apache-2.0
// The emulator: right kernels give right answers under every schedule, wrong ones do not get
// through.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <thread>

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

}  // namespace
}  // namespace bora
