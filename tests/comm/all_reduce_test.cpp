// SPDX-License-Identifier: Apache-2.0
// All-reduce against a reference computed from what all ranks are known to hold.
#include "tests/comm/collective_values.hpp"
#include "tests/support/mpi_main.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace bora {
namespace {

using namespace testing;

void check_all_reduce(Collective& comm, const std::vector<int64_t>& lengths) {
  for (DType type : kTypes) {
    for (ReduceOp op : kOps) {
      for (int64_t n : lengths) {
        dispatch_any(type, [&]<class T>() {
          Tensor x = filled<T>({n}, comm.rank());
          comm.all_reduce(x, op, "test");
          EXPECT_EQ(0,
                    count_wrong<T>(x, [&](int64_t i) { return expected<T>(op, comm.size(), i); }))
              << name_of(op) << " of " << n << ' ' << type;
        });
      }
    }
  }
}

// Rows 20, 21, 22: the reference is the contract's own order, so equality is to the bit; as every
// rank compares with the same reference, all ranks hold the same bits, and each run gives them.
TEST(AllReduce, EqualsReferenceForAllTypesOpsAndLengths) {
  const auto comm = make_communicator(session(), normal());
  check_all_reduce(*comm, {0, 1, 2, 3, 7, 12, 13, 1009, 10007});
}

TEST(AllReduce, EqualsReferenceWhenCutIntoManyPieces) {
  const auto comm = make_communicator(session(), small_pieces());
  check_all_reduce(*comm, {0, 1, 5, 24, 25, 26, 99, 250, 251, 1009});
}

TEST(AllReduce, EqualsReferenceWithoutAThread) {
  const auto comm = make_communicator(session(), inline_work());
  check_all_reduce(*comm, {0, 1, 26, 251, 1009});
}

// Row 20, the long length.  The elements repeat after a prime number of them, so that filling and
// checking cost little beside the reduction, and no piece (sizes are even) can pass for its
// neighbour.
TEST(AllReduce, TenMillionElementsOfAllTypesAndOps) {
  const auto comm = make_communicator(session(), normal());
  constexpr int64_t kN = 10'000'000, kPeriod = 10'007;
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64}) {
    dispatch_any(type, [&]<class T>() {
      const std::vector<T> mine = filled<T>({kPeriod}, comm->rank()).template to_vector<T>();
      for (ReduceOp op : kOps) {
        Tensor x = Tensor::empty({kN}, type);
        const auto periods = [&](auto&& body) {  // body(first element, how many)
          for (int64_t at = 0; at < kN; at += kPeriod) body(at, std::min(kPeriod, kN - at));
        };
        periods([&](int64_t at, int64_t n) {
          std::memcpy(x.data<T>() + at, mine.data(), static_cast<size_t>(n) * sizeof(T));
        });
        comm->all_reduce(x, op, "long");
        std::vector<T> wanted(static_cast<size_t>(kPeriod));
        for (int64_t i = 0; i < kPeriod; ++i)
          wanted[static_cast<size_t>(i)] = expected<T>(op, comm->size(), i);
        int64_t wrong = 0;
        periods([&](int64_t at, int64_t n) {
          wrong +=
              std::memcmp(x.data<T>() + at, wanted.data(), static_cast<size_t>(n) * sizeof(T)) != 0;
        });
        EXPECT_EQ(0, wrong) << "periods, " << name_of(op) << ' ' << type;
      }
    });
  }
}

// Row 22, by comparison of what the ranks really hold, and of two runs.
TEST(AllReduce, BitsAreTheSameOnAllRanksAndRunAfterRun) {
  const auto comm = make_communicator(session(), normal());
  constexpr int64_t kN = 100'003;
  std::vector<float> first;
  for (int run = 0; run < 3; ++run) {
    Tensor x = filled<float>({kN}, comm->rank());
    comm->all_reduce(x, ReduceOp::mean, "repeat");
    const auto mine = x.to_vector<float>();
    if (run == 0) first = mine;
    EXPECT_EQ(0, std::memcmp(first.data(), mine.data(), kN * sizeof(float)));
    Tensor all = Tensor::empty({comm->size(), kN}, DType::f32);
    comm->all_gather(x, all, "compare");
    for (int r = 1; r < comm->size(); ++r)
      EXPECT_EQ(0, std::memcmp(all.raw(), all.data<float>() + r * kN, kN * sizeof(float)));
  }
}

TEST(AllReduce, MinAndMaxPropagateNaN) {
  const auto comm = make_communicator(session(), normal());
  for (DType type : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    for (ReduceOp op : kOps) {
      for (int64_t n : {4, 5000}) {
        // Element r is NaN on rank r only; every rank has NaN at most once.
        Tensor x = Tensor::full({n}, 1.0, DType::f64);
        if (comm->rank() < n)
          x.data<double>()[comm->rank()] = std::numeric_limits<double>::quiet_NaN();
        x = x.to(type);
        comm->all_reduce(x, op, "nan");
        const Tensor y = x.to(DType::f64);
        for (int64_t i = 0; i < n; ++i)
          ASSERT_EQ(i < comm->size(), std::isnan(y.data<double>()[i]))
              << name_of(op) << ' ' << type << " element " << i;
      }
    }
  }
}

TEST(AllReduce, InfinitiesOfBothSignsGiveNaN) {
  const auto comm = make_communicator(session(), normal());
  if (comm->size() < 2) GTEST_SKIP() << "wants two ranks";
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(std::isnan(comm->all_reduce(comm->rank() == 0 ? inf : -inf, ReduceOp::sum, "inf")));
}

TEST(AllReduce, SeveralInFlightCompleteInOrderWithTheirOwnData) {
  const auto comm = make_communicator(session(), small_pieces());
  std::vector<Tensor> tensors;
  std::vector<Work> works;
  for (int k = 0; k < 20; ++k) {
    tensors.push_back(Tensor::full({1 + 37 * k}, 1.0 + k, DType::f32));
    works.push_back(
        comm->all_reduce_async(tensors.back(), ReduceOp::sum, "flight " + std::to_string(k)));
  }
  works.back().wait();
  for (int k = 0; k < 20; ++k) {
    EXPECT_TRUE(works[static_cast<size_t>(k)].done());  // FIFO: the last is done, so all are
    EXPECT_EQ(0, count_wrong<float>(tensors[static_cast<size_t>(k)], [&](int64_t) {
                return static_cast<float>(comm->size() * (1 + k));
              }));
  }
}

}  // namespace
}  // namespace bora
