// SPDX-License-Identifier: Apache-2.0
// Every collective against a reference computed from what all ranks are known to hold.
#include "comm/communicator.hpp"

#include "core/rng.hpp"
#include "tests/support/mpi_main.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

namespace bora {
namespace {

using testing::session;

const std::vector<DType> kTypes = {DType::f16, DType::bf16, DType::f32, DType::f64,
                                   DType::u8,  DType::i32,  DType::i64};
const std::vector<ReduceOp> kOps = {ReduceOp::sum, ReduceOp::mean, ReduceOp::min, ReduceOp::max};

// Small pieces, so that short tensors go every way: in the record, direct, in many segments and
// many messages.
CommunicatorOptions small_pieces() {
  CommunicatorOptions o;
  o.timeout_s = 30;
  o.message_bytes = 100;
  o.segment_bytes = 1000;
  o.direct_bytes = 200;
  return o;
}

CommunicatorOptions normal() {
  CommunicatorOptions o;
  o.timeout_s = 30;
  return o;
}

CommunicatorOptions inline_work() {
  CommunicatorOptions o = small_pieces();
  o.threaded = false;
  return o;
}

// Element i of rank r, any type: floating values with full mantissas, integers of both signs.  Not
// inlined: the compiler may fuse its last product with an addition of the reference's.
template <class T>
[[gnu::noinline]] T value(int rank, int64_t i) {
  const RngKey key{1234, rng_stream("comm test", static_cast<uint64_t>(rank))};
  if constexpr (std::is_same_v<T, double>) {
    return key.normal(static_cast<uint64_t>(i));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(key.bits(static_cast<uint64_t>(i)) - 0x80000000u);
  } else {
    return static_cast<T>(static_cast<float>(key.normal(static_cast<uint64_t>(i))));
  }
}

template <class T>
Tensor filled(const Shape& shape, int rank, int64_t first = 0) {
  std::vector<T> v(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < v.size(); ++i) v[i] = value<T>(rank, first + static_cast<int64_t>(i));
  return Tensor::from<T>(shape, v);
}

// The contract, straight from core/collective.hpp: acc_t, rank order, one rounding at the end.
template <class T>
T expected(ReduceOp op, int size, int64_t i) {
  if constexpr (std::is_integral_v<T>) {
    int64_t acc = static_cast<int64_t>(value<T>(0, i));
    for (int r = 1; r < size; ++r) {
      const auto v = static_cast<int64_t>(value<T>(r, i));
      acc = op == ReduceOp::min   ? std::min(acc, v)
            : op == ReduceOp::max ? std::max(acc, v)
                                  : acc + v;
    }
    return static_cast<T>(op == ReduceOp::mean ? acc / size : acc);
  } else {
    using A = acc_t<T>;
    A acc = static_cast<A>(value<T>(0, i));
    for (int r = 1; r < size; ++r) {
      const A v = static_cast<A>(value<T>(r, i));
      acc = op == ReduceOp::min   ? std::min(acc, v)
            : op == ReduceOp::max ? std::max(acc, v)
                                  : acc + v;
    }
    return static_cast<T>(op == ReduceOp::mean ? acc / static_cast<A>(size) : acc);
  }
}

template <class T>
bool same_bits(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T, class F>
int64_t count_wrong(const Tensor& x, F&& wanted) {
  const T* data = x.data<T>();
  int64_t wrong = 0;
  for (int64_t i = 0; i < x.numel(); ++i) wrong += same_bits(data[i], T(wanted(i))) ? 0 : 1;
  return wrong;
}

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

// Row 23.
TEST(Broadcast, AllRanksHoldTheRootsBytes) {
  for (const auto& options : {normal(), small_pieces(), inline_work()}) {
    const auto comm = make_communicator(session(), options);
    for (DType type : kTypes) {
      for (int64_t n : {0, 1, 6, 49, 1009}) {
        for (int root = 0; root < comm->size(); ++root) {
          dispatch_any(type, [&]<class T>() {
            Tensor x = filled<T>({n}, comm->rank());
            comm->broadcast(x, root, "test");
            EXPECT_EQ(0, count_wrong<T>(x, [&](int64_t i) { return value<T>(root, i); }))
                << n << ' ' << type << " from " << root;
          });
        }
      }
    }
  }
}

// Row 24.
TEST(AllGather, EqualsReference) {
  for (const auto& options : {normal(), small_pieces()}) {
    const auto comm = make_communicator(session(), options);
    for (DType type : kTypes) {
      for (int64_t n : {0, 1, 6, 49, 1009}) {
        dispatch_any(type, [&]<class T>() {
          const Tensor x = filled<T>({n, 2}, comm->rank());
          Tensor out = Tensor::empty({comm->size(), n, 2}, type);
          comm->all_gather(x, out, "test");
          EXPECT_EQ(0, count_wrong<T>(out,
                                      [&](int64_t i) {
                                        return value<T>(static_cast<int>(i / (2 * n)), i % (2 * n));
                                      }))
              << n << ' ' << type;
        });
      }
    }
  }
}

TEST(AllGather, TakesItsInputFromTheOutput) {
  const auto comm = make_communicator(session(), normal());
  constexpr int64_t kN = 501;
  Tensor out = Tensor::zeros({comm->size(), kN}, DType::f64);
  Tensor mine = out.rows(comm->rank(), comm->rank() + 1).reshape({kN});
  mine.copy_from(filled<double>({kN}, comm->rank()));
  comm->all_gather(mine, out, "in place");
  EXPECT_EQ(0, count_wrong<double>(out, [&](int64_t i) {
              return value<double>(static_cast<int>(i / kN), i % kN);
            }));
}

TEST(Gather, EqualsReferenceOnTheRootOnly) {
  for (const auto& options : {normal(), small_pieces()}) {
    const auto comm = make_communicator(session(), options);
    for (int64_t n : {0, 1, 6, 1009}) {
      for (int root = 0; root < comm->size(); ++root) {
        const Tensor x = filled<int32_t>({n}, comm->rank());
        Tensor out;  // may stay undefined elsewhere
        if (comm->rank() == root) out = Tensor::empty({comm->size(), n}, DType::i32);
        comm->gather(x, out, root, "test");
        if (comm->rank() == root) {
          EXPECT_EQ(0, count_wrong<int32_t>(out, [&](int64_t i) {
                      return value<int32_t>(static_cast<int>(i / n), i % n);
                    }));
        }
      }
    }
  }
}

TEST(Reduce, EqualsReferenceOnTheRootAndLeavesTheOthersAlone) {
  for (const auto& options : {normal(), small_pieces()}) {
    const auto comm = make_communicator(session(), options);
    for (DType type : kTypes) {
      for (int64_t n : {0, 1, 6, 49, 1009}) {
        for (int root = 0; root < comm->size(); ++root) {
          dispatch_any(type, [&]<class T>() {
            Tensor x = filled<T>({n}, comm->rank());
            comm->reduce(x, root, ReduceOp::sum, "test");
            const bool here = comm->rank() == root;
            EXPECT_EQ(0, count_wrong<T>(x,
                                        [&](int64_t i) {
                                          return here ? expected<T>(ReduceOp::sum, comm->size(), i)
                                                      : value<T>(comm->rank(), i);
                                        }))
                << n << ' ' << type << " on " << root;
          });
        }
      }
    }
  }
}

TEST(ReduceScatter, EqualsReferenceAndKeepsItsInput) {
  for (const auto& options : {normal(), small_pieces()}) {
    const auto comm = make_communicator(session(), options);
    for (DType type : kTypes) {
      for (ReduceOp op : kOps) {
        for (int64_t n : {0, 1, 6, 49, 1009}) {
          dispatch_any(type, [&]<class T>() {
            const Tensor x = filled<T>({comm->size(), n}, comm->rank());
            Tensor out = Tensor::empty({n}, type);
            comm->reduce_scatter(x, out, op, "test");
            EXPECT_EQ(0, count_wrong<T>(out,
                                        [&](int64_t i) {
                                          return expected<T>(op, comm->size(),
                                                             comm->rank() * n + i);
                                        }))
                << name_of(op) << ' ' << n << ' ' << type;
            EXPECT_EQ(0, count_wrong<T>(x, [&](int64_t i) { return value<T>(comm->rank(), i); }));
          });
        }
      }
    }
  }
}

TEST(Barrier, NobodyPassesBeforeAllArrive) {
  const auto comm = make_communicator(session(), normal());
  for (int late = 0; late < comm->size(); ++late) {
    const auto now = [] {  // one host, one clock
      return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
          .count();
    };
    if (comm->rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const double arrived = now();
    comm->barrier("all");
    const double passed = now();
    EXPECT_LE(comm->all_reduce(arrived, ReduceOp::max, "last arrival"),
              comm->all_reduce(passed, ReduceOp::min, "first departure"));
  }
}

TEST(Split, GroupsByColorOrdersByKey) {
  const auto comm = make_communicator(session(), normal());
  const int n = comm->size(), r = comm->rank();
  const auto group = comm->split(r % 2, -r);  // reversed within each color
  const int members = (n - r % 2 + 1) / 2;
  ASSERT_EQ(members, group->size());
  EXPECT_EQ(members - 1 - r / 2, group->rank());
  int64_t wanted = 0;
  for (int k = r % 2; k < n; k += 2) wanted += k;
  EXPECT_EQ(wanted, group->all_reduce(static_cast<int64_t>(r), ReduceOp::sum, "of the group"));
  // Both work at once: the groups are independent of each other and of the whole.
  EXPECT_EQ(static_cast<int64_t>(n), comm->all_reduce(int64_t{1}, ReduceOp::sum, "of all"));
}

TEST(Text, TravelsInRankOrderAndFromTheRoot) {
  const auto comm = make_communicator(session(), normal());
  const auto text = [](int r) { return std::string(static_cast<size_t>(r) * 40, char('a' + r)); };
  const auto all = comm->all_gather_text(text(comm->rank()), "texts");
  ASSERT_EQ(static_cast<size_t>(comm->size()), all.size());
  for (int r = 0; r < comm->size(); ++r) EXPECT_EQ(text(r), all[static_cast<size_t>(r)]);
  const int root = comm->size() - 1;
  EXPECT_EQ(text(root), comm->broadcast_text(text(comm->rank()), root, "text"));
}

// Row 17.
TEST(Session, RanksSizesAndHostAreConsistent) {
  const auto comm = make_communicator(session(), normal());
  EXPECT_EQ(session().rank(), comm->rank());
  EXPECT_EQ(session().size(), comm->size());
  EXPECT_EQ(session().size(), session().local_size());  // one host here
  EXPECT_EQ(session().rank(), session().local_rank());
  EXPECT_FALSE(session().host().empty());
  const int64_t n = comm->size();
  EXPECT_EQ(n * (n - 1) / 2,
            comm->all_reduce(static_cast<int64_t>(comm->rank()), ReduceOp::sum, "ranks"));
}

}  // namespace
}  // namespace bora
