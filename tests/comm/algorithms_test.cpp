// SPDX-License-Identifier: Apache-2.0
// Each way of an all-reduction against a reference computed from what all ranks are known to hold,
// on one host and on hosts that are pretended.
#include "tests/comm/collective_values.hpp"
#include "tests/support/mpi_main.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace bora {
namespace {

using namespace testing;
using enum AllReduceAlgorithm;

struct Way {
  AllReduceAlgorithm algorithm;
  int ranks_per_host = 0;
  bool small_pieces = false;
  bool rank_order = false;  ///< the sum has exactly the contract's bits
};

std::string name_of_way(const ::testing::TestParamInfo<Way>& info) {
  const Way& w = info.param;
  return detail::join(name_of(w.algorithm), w.ranks_per_host, w.small_pieces ? "small" : "");
}

std::unique_ptr<Collective> communicator(const Way& way) {
  CommunicatorOptions o = way.small_pieces ? small_pieces() : normal();
  if (way.small_pieces) {
    o.stage_bytes = 256;
    o.ring_piece_bytes = 64;
  }
  o.all_reduce = way.algorithm;
  o.ranks_per_host = way.ranks_per_host;
  return make_communicator(session(), o);
}

template <class T>
double number(T x) {
  return static_cast<double>(static_cast<acc_t<T>>(x));
}

// Largest error of a sum of n terms formed in any order, each partial sum rounded to the type, and
// of the division: n roundings of at most sum |x| each.
template <class T>
double bound(ReduceOp op, int size, int64_t i) {
  if (!is_float(dtype_of<T>) || op == ReduceOp::min || op == ReduceOp::max) return 0;
  double sum = 0;
  for (int r = 0; r < size; ++r) sum += std::abs(number(value<T>(r, i)));
  const double digits = dtype_of<T> == DType::f16    ? 11
                        : dtype_of<T> == DType::bf16 ? 8
                        : dtype_of<T> == DType::f32  ? 24
                                                     : 53;
  return size * sum * std::pow(2.0, -digits);
}

template <class T>
int64_t count_off(const Tensor& x, ReduceOp op, int size) {
  int64_t wrong = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double got = number(x.data<T>()[i]);
    const double wanted = number(expected<T>(op, size, i));
    wrong += std::abs(got - wanted) <= bound<T>(op, size, i) ? 0 : 1;
  }
  return wrong;
}

/// Number of bytes in which ranks differ from rank 0.
int64_t count_different(Collective& comm, const Tensor& x) {
  Tensor all = Tensor::empty({comm.size(), x.numel()}, x.dtype());
  comm.all_gather(x, all, "compare");
  int64_t different = 0;
  for (int r = 1; r < comm.size(); ++r)
    for (int64_t b = 0; b < x.bytes(); ++b)
      different += static_cast<const char*>(all.raw())[b] !=
                   static_cast<const char*>(all.raw())[r * x.bytes() + b];
  return different;
}

class Algorithms : public ::testing::TestWithParam<Way> {};

// Rows 20, 21, 22; pitfalls 49 to 56: no deadlock, in place, sums and means that are right for
// lengths that no number of ranks divides, the same bits on every rank.
TEST_P(Algorithms, EqualReferenceAndAgreeForAllTypesOpsAndLengths) {
  const auto comm = communicator(GetParam());
  for (DType type : kTypes) {
    for (ReduceOp op : kOps) {
      for (int64_t n : {0, 1, 2, 7, 61, 1023, 4099}) {
        if (GetParam().small_pieces && n > 1023) continue;
        const bool main_type = type == DType::f32 || type == DType::f16;
        if (!main_type && n != 61 && n != 1023) continue;
        dispatch_any(type, [&]<class T>() {
          Tensor x = filled<T>({n}, comm->rank());
          comm->all_reduce(x, op, "test");
          const auto what = detail::join(name_of(op), " of ", n, ' ', type);
          if (GetParam().rank_order) {
            EXPECT_EQ(
                0, count_wrong<T>(x, [&](int64_t i) { return expected<T>(op, comm->size(), i); }))
                << what;
          } else {
            EXPECT_EQ(0, count_off<T>(x, op, comm->size())) << what;
          }
          if (n == 1023) {
            EXPECT_EQ(0, count_different(*comm, x)) << what;
          }
        });
      }
    }
  }
}

TEST_P(Algorithms, GiveTheSameBitsAgainForALongTensor) {
  const auto comm = communicator(GetParam());
  const int64_t n = GetParam().small_pieces ? 2'011 : 1'000'003;
  constexpr int64_t kPeriod = 1009;  // making values costs more than reducing them
  const auto values = filled<float>({kPeriod}, comm->rank()).to_vector<float>();
  std::vector<float> first;
  for (int run = 0; run < 2; ++run) {
    Tensor x = Tensor::empty({n}, DType::f32);
    for (int64_t i = 0; i < n; ++i) x.data<float>()[i] = values[static_cast<size_t>(i % kPeriod)];
    comm->all_reduce_async(x, ReduceOp::mean, "repeat").wait();
    if (run == 0) {
      first = x.to_vector<float>();
      int64_t off = 0;
      for (int64_t i = 0; i < n; i += 997)
        off += std::abs(first[static_cast<size_t>(i)] -
                        expected<float>(ReduceOp::mean, comm->size(), i % kPeriod)) >
               bound<float>(ReduceOp::mean, comm->size(), i % kPeriod);
      EXPECT_EQ(0, off);
    }
    EXPECT_EQ(0, std::memcmp(first.data(), x.raw(), static_cast<size_t>(n) * sizeof(float)));
    EXPECT_EQ(0, count_different(*comm, x));
  }
}

TEST_P(Algorithms, PropagateNaN) {
  const auto comm = communicator(GetParam());
  for (DType type : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    for (ReduceOp op : kOps) {
      constexpr int64_t kN = 300;
      Tensor x = Tensor::full({kN}, 1.0, DType::f64);
      x.data<double>()[comm->rank()] = std::numeric_limits<double>::quiet_NaN();
      x = x.to(type);
      comm->all_reduce(x, op, "nan");
      const Tensor y = x.to(DType::f64);
      for (int64_t i = 0; i < kN; ++i)
        ASSERT_EQ(i < comm->size(), std::isnan(y.data<double>()[i]))
            << name_of(op) << ' ' << type << " element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Algorithms,
    ::testing::Values(Way{exchange, 0, false, true}, Way{exchange, 0, true, true},
                      Way{shared, 0, false, true}, Way{shared, 0, true, true}, Way{library},
                      Way{library, 0, true}, Way{ring}, Way{ring, 0, true}, Way{chunked_ring},
                      Way{chunked_ring, 0, true}, Way{halving}, Way{halving, 0, true},
                      Way{hierarchical, 1}, Way{hierarchical, 2}, Way{hierarchical, 2, true},
                      Way{hierarchical, 3, true}, Way{automatic, 2}, Way{reproducible},
                      Way{reproducible, 0, true}, Way{reproducible, 2, true}),
    name_of_way);

// Pitfall 50: each rank sends its share, 2 (n-1)/n of the data, and not n-1 times the whole.
TEST(Traffic, OfRingsAndHalvingIsTheLeastPossible) {
  const int n = session().size();
  for (const AllReduceAlgorithm algorithm : {exchange, ring, chunked_ring, halving}) {
    const bool folds = algorithm == halving && (n & (n - 1)) != 0;
    for (int64_t count : {4099, 100'000}) {
      const auto comm = communicator({algorithm});
      Tensor x = Tensor::zeros({count}, DType::f32);
      comm->all_reduce(x, ReduceOp::sum, "counted");
      const int64_t mine = bytes_sent(*comm);
      const int64_t all = comm->all_reduce(mine, ReduceOp::sum, "traffic");
      const auto what = detail::join(name_of(algorithm), ", ", count);
      if (folds) {  // every pair sends all of it twice more
        EXPECT_LE(mine, 3 * x.bytes()) << what;
        continue;
      }
      EXPECT_EQ(2 * (n - 1) * x.bytes(), all) << what;
      const int64_t largest_slice = (count + n - 1) / n;
      EXPECT_LE(mine, 2 * (n - 1) * largest_slice * 4) << what;
    }
  }
}

// Between hosts goes no more than between so many ranks, one a host.
TEST(Traffic, OfTheHierarchyIsThatOfTheHosts) {
  if (session().size() != 4) GTEST_SKIP() << "wants 4 ranks";
  const auto comm = communicator({hierarchical, 2});
  Tensor x = Tensor::zeros({100'000}, DType::f32);
  comm->all_reduce(x, ReduceOp::sum, "counted");
  EXPECT_EQ(comm->rank() % 2 == 0 ? x.bytes() : 0, bytes_sent(*comm));
}

TEST(Shared, SendsNothing) {
  const auto comm = communicator({automatic});
  Tensor x = Tensor::zeros({100'000}, DType::f32);
  comm->all_reduce(x, ReduceOp::sum, "counted");
  EXPECT_EQ(0, bytes_sent(*comm));
}

// In shared memory itself: the same bits, at any offset, also if the ranks' offsets differ.
TEST(Shared, TensorsInSharedMemoryGiveTheSameBits) {
  const auto comm = communicator({automatic});
  constexpr int64_t kN = 4099;
  Tensor memory = make_shared_tensor(*comm, 2 * kN * 4);
  for (const int64_t first : {int64_t{0}, int64_t{5}, int64_t{comm->rank()}}) {
    for (ReduceOp op : kOps) {
      Tensor x = memory.rows(4 * first, 4 * (first + kN)).reshape({kN * 4});
      Tensor y = Tensor::wrap(x.raw(), {kN}, DType::f32);
      y.copy_from(filled<float>({kN}, comm->rank()));
      comm->all_reduce(y, op, "in shared memory");
      EXPECT_EQ(0, count_wrong<float>(
                       y, [&](int64_t i) { return expected<float>(op, comm->size(), i); }));
    }
  }
  comm->barrier("an operation without data");
  // One rank's tensor elsewhere: everybody takes the other way.
  Tensor y = Tensor::wrap(memory.raw(), {kN}, DType::f32);
  Tensor mine = comm->rank() == 0 ? Tensor::empty({kN}, DType::f32) : y;
  mine.copy_from(filled<float>({kN}, comm->rank()));
  comm->all_reduce(mine, ReduceOp::sum, "mixed");
  EXPECT_EQ(0, count_wrong<float>(mine, [&](int64_t i) {
              return expected<float>(ReduceOp::sum, comm->size(), i);
            }));
}

TEST(Shared, LaterUsesOfSharedMemoryDoNotDisturbEarlierOnes) {
  const auto comm = communicator({shared, 0, true});
  std::vector<Tensor> tensors;
  std::vector<Work> works;
  for (int64_t k = 0; k < 30; ++k) {
    tensors.push_back(filled<float>({1 + 613 * (k % 7)}, comm->rank(), k));
    works.push_back(comm->all_reduce_async(tensors.back(), ReduceOp::sum, "flight"));
  }
  for (size_t k = 0; k < works.size(); ++k) {
    works[k].wait();
    EXPECT_EQ(0, count_wrong<float>(tensors[k], [&](int64_t i) {
                return expected<float>(ReduceOp::sum, comm->size(), i + static_cast<int64_t>(k));
              }));
  }
}

TEST(Choice, NamesAreKnownAndOthersRefusedWithTheList) {
  for (const AllReduceAlgorithm a : all_reduce_algorithms())
    EXPECT_EQ(a, all_reduce_algorithm(name_of(a)));
  EXPECT_EQ(automatic, all_reduce_algorithm("auto"));
  try {
    all_reduce_algorithm("quick");
    FAIL() << "accepted";
  } catch (const UsageError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("'quick' is unknown; wants one of auto, library"));
  }
}

TEST(Choice, FollowsPlaceTypeAndSize) {
  const auto choose = [](AllReduceAlgorithm setting, int ranks, int hosts, bool memory, DType type,
                         ReduceOp op, int64_t bytes) {
    return detail::choose_all_reduce(setting, {ranks, hosts, memory}, type, op, bytes);
  };
  const int64_t large = 64 << 20, small = 1 << 10;
  EXPECT_EQ(shared, choose(automatic, 4, 1, true, DType::f32, ReduceOp::sum, large));
  EXPECT_EQ(exchange, choose(automatic, 4, 1, false, DType::f32, ReduceOp::sum, large));
  EXPECT_EQ(exchange, choose(automatic, 4, 2, true, DType::f32, ReduceOp::sum, small));
  EXPECT_EQ(hierarchical, choose(automatic, 4, 2, true, DType::f32, ReduceOp::sum, large));
  EXPECT_EQ(chunked_ring, choose(automatic, 4, 4, true, DType::f32, ReduceOp::sum, large));
  EXPECT_EQ(exchange, choose(automatic, 4, 4, true, DType::bf16, ReduceOp::sum, large));
  EXPECT_EQ(chunked_ring, choose(automatic, 2, 2, true, DType::bf16, ReduceOp::sum, large));
  EXPECT_EQ(exchange, choose(automatic, 4, 1, false, DType::f32, ReduceOp::sum, large));
  EXPECT_EQ(chunked_ring, choose(automatic, 64, 64, true, DType::f32, ReduceOp::sum, large));
  // A mean of bytes whose sum is beyond 255 must not be formed of partial sums.
  EXPECT_EQ(exchange, choose(ring, 4, 1, true, DType::u8, ReduceOp::mean, large));
  EXPECT_EQ(ring, choose(ring, 4, 1, true, DType::u8, ReduceOp::sum, large));
}

TEST(Choice, ThatDiffersBetweenRanksIsNamed) {
  if (session().size() < 2) GTEST_SKIP() << "wants two ranks";
  try {
    communicator({session().rank() == 0 ? ring : halving});
    FAIL() << "not noticed";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::AllOf(::testing::HasSubstr("by ring"),
                                           ::testing::HasSubstr("by halving")));
  }
}

TEST(Choice, MpisOwnIsRefusedWithoutMpi) {
  if (session().size() < 2 || session().transport_name() == std::string("MPI"))
    GTEST_SKIP() << "wants two ranks without MPI";
  EXPECT_THROW(communicator({AllReduceAlgorithm::library}), UsageError);
}

TEST(Choice, SharedOnSeveralHostsIsRefused) {
  if (session().size() < 2) GTEST_SKIP() << "wants two ranks";
  EXPECT_THROW(communicator({shared, 1}), UsageError);
}

}  // namespace
}  // namespace bora
