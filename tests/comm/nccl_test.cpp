// SPDX-License-Identifier: Apache-2.0
// The operations of the NCCL communicator, over the doubles.
#include "comm/flight_recorder.hpp"
#include "comm/nccl_flight.hpp"
#include "core/backend.hpp"
#include "tests/comm/nccl_fixture.hpp"

#include <cuda_runtime_api.h>

#include <cmath>
#include <thread>

namespace bora {
namespace {

using ::testing::AllOf;
using testing::count_wrong;
using testing::filled;
using ::testing::HasSubstr;
using testing::kOps;
using testing::kTypes;
using testing::message_of;
using testing::NcclOperations;
using testing::NcclTest;
using testing::same_bits;
using testing::session;
using testing::value;

const std::vector<int64_t> kLengths = {0, 1, 7, 1009};

/// Half a unit in the last place, relative.
template <class T>
constexpr double roundoff() {
  if constexpr (std::is_same_v<T, Half>) return 0x1p-11;
  if constexpr (std::is_same_v<T, BFloat16>) return 0x1p-8;
  if constexpr (std::is_same_v<T, float>) return 0x1p-24;
  return 0x1p-53;
}

template <class T>
double wide(T v) {
  return static_cast<double>(static_cast<acc_t<T>>(v));
}

/// Values of which the sum fits an integer type, so that a mean is defined.
template <class T>
T small_value(int rank, int64_t i) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(value<T>(rank, i) / 16);
  else
    return value<T>(rank, i);
}

template <class T>
Tensor small(const Shape& shape, int rank, int64_t first = 0) {
  std::vector<T> v(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < v.size(); ++i)
    v[i] = small_value<T>(rank, first + static_cast<int64_t>(i));
  return Tensor::from<T>(shape, v);
}

bool is_allowed(ReduceOp op, DType type, int size) {
  const bool is_short = type == DType::f16 || type == DType::bf16;
  return op != ReduceOp::mean || (type != DType::u8 && (!is_short || (size & (size - 1)) == 0));
}

/// Wrong elements.  NCCL may sum in any order and round to T after each addition: n - 1 roundings
/// of partial sums that are at most the sum of magnitudes; a mean rounds 1/n and each product too.
template <class T>
int64_t count_wrong_sums(const Tensor& got, ReduceOp op, int n, int64_t first = 0) {
  const std::vector<T> out = got.to_vector<T>();
  int64_t wrong = 0;
  for (size_t k = 0; k < out.size(); ++k) {
    const int64_t i = first + static_cast<int64_t>(k);
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      T want = small_value<T>(0, i);
      for (int r = 1; r < n; ++r) {
        const T v = small_value<T>(r, i);
        want = op == ReduceOp::min   ? std::min(want, v)
               : op == ReduceOp::max ? std::max(want, v)
                                     : static_cast<T>(static_cast<U>(want) + static_cast<U>(v));
      }
      if (op == ReduceOp::mean) want = static_cast<T>(want / static_cast<T>(n));
      wrong += out[k] == want ? 0 : 1;
    } else {
      double want = wide(small_value<T>(0, i)), magnitude = std::abs(want);
      for (int r = 1; r < n; ++r) {
        const double v = wide(small_value<T>(r, i));
        magnitude += std::abs(v);
        want = op == ReduceOp::min   ? std::min(want, v)
               : op == ReduceOp::max ? std::max(want, v)
                                     : want + v;
      }
      double bound = 0;
      if (op == ReduceOp::sum) bound = (n - 1) * roundoff<T>() * magnitude;
      if (op == ReduceOp::mean) {
        want /= n;
        bound = (n + 1) * roundoff<T>() * magnitude / n;
      }
      // Second order, what the reference itself rounds, and the subnormal numbers of f16.
      bound = bound * (1 + 0x1p-6) + 0x1p-50 * magnitude + (sizeof(T) == 2 ? 0x1p-24 : 0);
      const bool exact = op == ReduceOp::min || op == ReduceOp::max;
      wrong += std::abs(wide(out[k]) - want) <= (exact ? 0 : bound) ? 0 : 1;
    }
  }
  return wrong;
}

// Rows 20, 22.
TEST_F(NcclOperations, AllReduceEqualsTheReference) {
  for (DType type : kTypes) {
    dispatch_any(type, [&]<class T>() {
      for (ReduceOp op : kOps) {
        if (!is_allowed(op, type, size())) continue;
        for (int64_t n : kLengths) {
          Tensor x = small<T>({n}, rank()).to(device_);
          Tensor y = x.clone();
          nccl_->all_reduce(x, op, "x");
          EXPECT_EQ(0, count_wrong_sums<T>(x, op, size()))
              << name_of(op) << ' ' << type << ' ' << n;
          if (n == 0) continue;
          expect_same_everywhere(x);
          nccl_->all_reduce(y, op, "again");
          const auto a = x.to_vector<T>(), b = y.to_vector<T>();
          for (size_t i = 0; i < a.size(); ++i) ASSERT_TRUE(same_bits(a[i], b[i]));
        }
      }
    });
  }
}

TEST_F(NcclOperations, AllReduceOfManyElements) {
  constexpr int64_t kMany = 300'007;
  Tensor x = small<float>({kMany}, rank()).to(device_);
  nccl_->all_reduce(x, ReduceOp::sum, "many");
  EXPECT_EQ(0, count_wrong_sums<float>(x, ReduceOp::sum, size()));
}

TEST_F(NcclOperations, AreOnTheFlightRecord) {
  options_.observer = make_flight_observer();
  const auto comm = make();
  Tensor x = Tensor::full({7}, 1.0, DType::f32, cuda(comm->device()));
  comm->all_reduce(x, ReduceOp::sum, "on record");
  comm->synchronize();
  const std::vector<FlightEntry> entries = FlightRecorder::instance().entries();
  const auto mine = std::find_if(entries.begin(), entries.end(), [](const FlightEntry& e) {
    return std::string(e.label) == "on record" && std::string(e.group) == "bora";
  });
  ASSERT_NE(mine, entries.end());
  EXPECT_EQ(std::string(mine->operation), "all_reduce");
  EXPECT_EQ(mine->count, 7);
  EXPECT_EQ(mine->state, FlightState::done);
}

TEST_F(NcclOperations, MeansThatWouldBeWrongAreRefused) {
  Tensor bytes = Tensor::zeros({3}, DType::u8, device_);
  EXPECT_THAT(message_of([&] { nccl_->all_reduce(bytes, ReduceOp::mean, "b"); }),
              AllOf(HasSubstr("no mean of u8"), HasSubstr("wider")));
  if (size() != 3) return;
  Tensor half = Tensor::zeros({3}, DType::f16, device_);
  EXPECT_THAT(message_of([&] { nccl_->all_reduce(half, ReduceOp::mean, "h"); }),
              AllOf(HasSubstr("mean of f16 over 3 ranks"), HasSubstr("reduce in f32")));
}

// Row 23.
TEST_F(NcclOperations, BroadcastGivesAllTheRootsBytes) {
  for (DType type : kTypes) {
    dispatch_any(type, [&]<class T>() {
      for (int root = 0; root < size(); ++root) {
        for (int64_t n : kLengths) {
          Tensor x = filled<T>({n}, rank()).to(device_);
          nccl_->broadcast(x, root, "x");
          const Tensor got = x.to(cpu());
          EXPECT_EQ(0, count_wrong<T>(got, [&](int64_t i) { return value<T>(root, i); }));
        }
      }
    });
  }
}

// Row 24.
TEST_F(NcclOperations, GathersKeepRankOrder) {
  for (DType type : kTypes) {
    dispatch_any(type, [&]<class T>() {
      for (int64_t n : kLengths) {
        const auto wanted = [&](int64_t i) { return value<T>(static_cast<int>(i / n), i % n); };
        const Tensor x = filled<T>({n}, rank()).to(device_);
        Tensor all = Tensor::zeros({size(), n}, type, device_);
        nccl_->all_gather(x, all, "x");
        EXPECT_EQ(0, count_wrong<T>(all.to(cpu()), wanted)) << type << ' ' << n;
        for (int root = 0; root < size(); ++root) {
          Tensor there = rank() == root ? Tensor::zeros({size(), n}, type, device_) : Tensor();
          nccl_->gather(x, there, root, "x");
          if (rank() == root) {
            EXPECT_EQ(0, count_wrong<T>(there.to(cpu()), wanted)) << type << ' ' << n;
          }
        }
      }
    });
  }
}

// Row 24.
TEST_F(NcclOperations, ReduceAndReduceScatterEqualTheReference) {
  for (DType type : kTypes) {
    dispatch_any(type, [&]<class T>() {
      for (ReduceOp op : kOps) {
        if (!is_allowed(op, type, size())) continue;
        for (int64_t n : kLengths) {
          const int root = size() - 1;
          Tensor x = small<T>({n}, rank()).to(device_);
          nccl_->reduce(x, root, op, "x");
          if (rank() == root) {
            EXPECT_EQ(0, count_wrong_sums<T>(x, op, size()));
          } else {  // left as it was
            const auto same = [&](int64_t i) { return small_value<T>(rank(), i); };
            EXPECT_EQ(0, count_wrong<T>(x.to(cpu()), same));
          }
          const Tensor whole = small<T>({size(), n}, rank()).to(device_);
          Tensor part = Tensor::zeros({n}, type, device_);
          nccl_->reduce_scatter(whole, part, op, "whole");
          EXPECT_EQ(0, count_wrong_sums<T>(part, op, size(), rank() * n)) << type << ' ' << n;
        }
      }
    });
  }
}

TEST_F(NcclOperations, NeighboursExchangeWhoeverSendsFirst) {
  if (size() < 2) GTEST_SKIP() << "wants two ranks";
  const int next = (rank() + 1) % size(), previous = (rank() + size() - 1) % size();
  for (int64_t n : kLengths) {
    const Tensor out = filled<float>({n}, rank()).to(device_);
    Tensor in = Tensor::zeros({n}, DType::f32, device_);
    const auto wanted = [&](int64_t i) { return value<float>(previous, i); };
    const Work leaves = nccl_->send_async(out, next, "ring");  // all ranks send first
    const Work arrives = nccl_->receive_async(in, previous, "ring");
    leaves.wait();
    arrives.wait();
    EXPECT_EQ(0, count_wrong<float>(in.to(cpu()), wanted));
    in.fill(0);
    nccl_->swap(out, next, in, previous, "swap");
    EXPECT_EQ(0, count_wrong<float>(in.to(cpu()), wanted));
  }
  // Begun by whatever comes next; an order of their own for each pair.
  Tensor first = Tensor::full({5}, 1, DType::f32, device_),
         second = Tensor::full({6}, 2, DType::f32, device_);
  if (rank() == 0) {
    nccl_->send_async(first, 1, "first");
    nccl_->send_async(second, 1, "second");
  }
  Tensor a = Tensor::zeros({5}, DType::f32, device_), b = Tensor::zeros({6}, DType::f32, device_);
  if (rank() == 1) {
    nccl_->receive(a, 0, "first");
    nccl_->receive(b, 0, "second");
    EXPECT_EQ(1, a.to_vector<float>()[4]);
    EXPECT_EQ(2, b.to_vector<float>()[5]);
  }
  nccl_->barrier("after pairs");
}

TEST_F(NcclOperations, SplitMakesGroupsByColorAndKey) {
  const auto part = nccl_->split(rank() % 2, -rank());  // in reverse order
  const int n = (size() + 1 - rank() % 2) / 2;
  EXPECT_EQ(n, part->size());
  EXPECT_EQ(n - 1 - rank() / 2, part->rank());
  EXPECT_EQ(DeviceType::cuda, part->device_type());
  // Operations of both groups in flight.
  Tensor x = Tensor::full({10}, rank(), DType::i64, device_), y = x.clone();
  const Work a = part->all_reduce_async(x, ReduceOp::sum, "part");
  const Work b = nccl_->all_reduce_async(y, ReduceOp::sum, "all");
  a.wait();
  b.wait();
  int64_t of_part = 0, of_all = 0;
  for (int r = 0; r < size(); ++r) {
    of_all += r;
    if (r % 2 == rank() % 2) of_part += r;
  }
  EXPECT_EQ(of_part, x.to_vector<int64_t>()[9]);
  EXPECT_EQ(of_all, y.to_vector<int64_t>()[9]);
  part->barrier("part");
  const auto again = part->split(0, part->rank());
  EXPECT_EQ(n, again->size());
  Tensor z = Tensor::full({1}, 1, DType::f32, device_);
  again->all_reduce(z, ReduceOp::sum, "of a part");
  EXPECT_EQ(n, z.item());
}

// Row 33.
TEST_F(NcclOperations, HostTensorsAreRefused) {
  Tensor host = Tensor::zeros({3}, DType::f32), rows = Tensor::zeros({size(), 3}, DType::f32);
  const auto refused = AllOf(HasSubstr("the tensor is on cpu"), HasSubstr("works on cuda tensors"));
  EXPECT_THAT(message_of([&] { nccl_->all_reduce(host, ReduceOp::sum, "x"); }), refused);
  EXPECT_THAT(message_of([&] { nccl_->broadcast(host, 0, "x"); }), refused);
  EXPECT_THAT(message_of([&] { nccl_->all_gather(host, rows, "x"); }), refused);
  EXPECT_THAT(message_of([&] { nccl_->gather(host, rows, 0, "x"); }), refused);
  EXPECT_THAT(message_of([&] { nccl_->reduce(host, 0, ReduceOp::sum, "x"); }), refused);
  EXPECT_THAT(message_of([&] { nccl_->reduce_scatter(rows, host, ReduceOp::sum, "x"); }), refused);
  EXPECT_THAT(message_of([&] { nccl_->send_async(host, 0, "x"); }), refused);
  // And of another device.
  const Device other = cuda(nccl_->device() == 0 ? 1 : 0);
  float on_other[3] = {};
  Tensor foreign = Tensor::wrap(on_other, {3}, DType::f32, other);
  EXPECT_THAT(message_of([&] { nccl_->all_reduce(foreign, ReduceOp::sum, "x"); }),
              AllOf(HasSubstr("the tensor is on cuda:"), HasSubstr("works on cuda:")));
  nccl_->barrier("nothing was sent, all is well");
}

// Row 12.
TEST_F(NcclOperations, NothingIsDoneOnOtherDevices) {
  EXPECT_EQ(session().local_rank(), nccl_->device());
  std::thread([&] {  // a thread starts on device 0
    Tensor x = Tensor::full({3}, 1, DType::f32, device_);
    nccl_->all_reduce(x, ReduceOp::sum, "from another thread");
    x.to_vector<float>();
  })
      .join();
  for (int d = 0; d < 8; ++d)
    if (d != nccl_->device()) {
      EXPECT_EQ(0, nccl_double::uses_of_device(d)) << d;
    }
}

}  // namespace
}  // namespace bora
