// SPDX-License-Identifier: Apache-2.0
// Every collective but all-reduce against a reference computed from what all ranks are known to
// hold.
#include "tests/comm/collective_values.hpp"
#include "tests/support/mpi_main.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace bora {
namespace {

using namespace testing;

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
