// SPDX-License-Identifier: Apache-2.0
// Data beyond 2^31 bytes, where counts in int end (features 20, 23, 24, 25).  Skipped where ranks
// cannot have 5 GB each.
#include "comm/communicator.hpp"
#include "tests/support/mpi_main.hpp"

#include <gtest/gtest.h>
#include <sys/sysinfo.h>

namespace bora {
namespace {

using testing::session;

constexpr int64_t kBeyond = (int64_t{1} << 31) + 5000;

// Every so many bytes one that differs from all that a wrong offset could bring; the rest is zero.
constexpr int64_t kStride = 4093;

uint8_t pattern(int64_t i, int rank) {
  const auto x = static_cast<uint64_t>(i / kStride);
  return static_cast<uint8_t>((x ^ (x >> 8) ^ (x >> 16)) * 7 + static_cast<uint64_t>(rank) + 1);
}

void fill(Tensor& x, int rank) {
  auto* v = x.data<uint8_t>();
  for (int64_t i = 0; i < x.numel(); i += kStride) v[i] = pattern(i, rank);
}

int64_t count_wrong(const uint8_t* v, int64_t n, int rank) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; i += kStride) wrong += v[i] != pattern(i, rank);
  return wrong;
}

bool enough_memory() {
  struct sysinfo s {};
  ::sysinfo(&s);
  const double here = static_cast<double>(s.freeram + s.bufferram) * s.mem_unit;
  return here > 5e9 * session().local_size();
}

std::unique_ptr<Collective> large_communicator(AllReduceAlgorithm way) {
  auto comm = make_communicator(session(), {.all_reduce = way});
  const bool enough = comm->all_reduce(enough_memory() ? 1.0 : 0.0, ReduceOp::min, "memory") > 0;
  if (comm->size() != 2 || !enough) comm.reset();
  return comm;
}

TEST(Large, AllReduce) {
  for (const AllReduceAlgorithm way :
       {AllReduceAlgorithm::automatic, AllReduceAlgorithm::chunked_ring}) {
    const auto comm = large_communicator(way);
    if (!comm) GTEST_SKIP() << "wants 2 ranks with 5 GB each";
    Tensor x = Tensor::zeros({kBeyond}, DType::u8);
    fill(x, comm->rank());
    comm->all_reduce(x, ReduceOp::max, "large");
    const auto* v = x.data<uint8_t>();
    int64_t wrong = 0;
    for (int64_t i = 0; i < kBeyond; i += kStride)
      wrong += v[i] != std::max(pattern(i, 0), pattern(i, 1));
    EXPECT_EQ(wrong, 0) << name_of(way);
  }
}

TEST(Large, BroadcastAndSwapAndAllGather) {
  const auto comm = large_communicator(AllReduceAlgorithm::automatic);
  if (!comm) GTEST_SKIP() << "wants 2 ranks with 5 GB each";
  const int me = comm->rank(), other = 1 - me;
  Tensor x = Tensor::zeros({kBeyond}, DType::u8);
  fill(x, me);
  comm->broadcast(x, 1, "large");
  EXPECT_EQ(count_wrong(x.data<uint8_t>(), kBeyond, 1), 0);
  Tensor half = Tensor::wrap(x.raw(), {kBeyond / 2 + 1}, DType::u8);
  fill(half, me);
  Tensor both = Tensor::empty({2, half.numel()}, DType::u8);
  // Row 25: 1 GiB to the neighbour and 1 GiB from it at once.
  Tensor in = both.rows(0, 1).reshape({half.numel()});
  comm->swap(half, other, in, other, "large");
  EXPECT_EQ(count_wrong(in.data<uint8_t>(), in.numel(), other), 0);
  comm->all_gather(half, both, "large");
  for (int r = 0; r < 2; ++r)
    EXPECT_EQ(count_wrong(both.data<uint8_t>() + r * half.numel(), half.numel(), r), 0) << r;
}

}  // namespace
}  // namespace bora
