// SPDX-License-Identifier: Apache-2.0
// Initial synchronisation, comparison of parameters, and metrics.
#include "comm/broadcast_state.hpp"
#include "comm/communicator.hpp"
#include "comm/metric_sums.hpp"
#include "core/rng.hpp"
#include "tests/support/message_of.hpp"
#include "tests/support/mpi_main.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace bora {
namespace {

using bora::testing::message_of;

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::session;

std::unique_ptr<Collective> communicator() {
  CommunicatorOptions options;
  options.timeout_s = 30;
  return make_communicator(session(), options);
}

Tensor random(const Shape& shape, uint64_t seed) {
  Tensor x = Tensor::empty(shape, DType::f32);
  const RngKey key{seed, 0};
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = key.uniform(static_cast<uint64_t>(i));
  return x;
}

// Rows 36 and 176: seeds differ, yet all is equal afterwards; a later difference is named.
TEST(State, BroadcastMakesAllRanksEqualAndTheCheckFindsADifference) {
  const auto comm = communicator();
  const auto rank = static_cast<uint64_t>(comm->rank());
  Tensor w = random({3, 5}, rank), b = random({5}, rank + 100), empty = random({0}, rank);
  const auto named = [&] {
    return std::vector<std::pair<std::string, Tensor>>{{"w", w}, {"b", b}, {"empty", empty}};
  };
  if (comm->size() > 1) {
    EXPECT_THAT(message_of([&] { check_same_everywhere(*comm, named(), "parameters"); }),
                AllOf(HasSubstr("parameters: 'w' on rank 1")));
  }
  broadcast_buffers(*comm, {&w, &b, &empty});
  check_same_everywhere(*comm, named(), "parameters");
  EXPECT_EQ(random({3, 5}, 0).to_vector<float>(), w.to_vector<float>());
  EXPECT_EQ(random({5}, 100).to_vector<float>(), b.to_vector<float>());
  if (comm->size() > 1) {
    // One bit of the last element, on the last rank.
    if (comm->rank() == comm->size() - 1)
      b.data<float>()[4] = std::nextafter(b.data<float>()[4], 2.0f);
    EXPECT_THAT(message_of([&] { check_same_everywhere(*comm, named(), "parameters"); }),
                HasSubstr("'b' on rank " + std::to_string(comm->size() - 1)));
  }
}

TEST(State, BroadcastOfDifferentListsIsAnErrorOnAllRanks) {
  const auto comm = communicator();
  if (comm->size() < 2) GTEST_SKIP() << "wants two ranks";
  Tensor a = random({2}, 0), b = random({2}, 1);
  const std::vector<Tensor*> list =
      comm->rank() == 0 ? std::vector<Tensor*>{&a} : std::vector<Tensor*>{&a, &b};
  EXPECT_THAT(message_of([&] { broadcast_buffers(*comm, list); }), HasSubstr("1 to 2"));
}

TEST(State, HashSeesEveryByteTheShapeAndTheType) {
  Tensor x = Tensor::zeros({19}, DType::u8);
  const uint64_t zero = hash_of(x);
  for (int64_t i = 0; i < x.numel(); ++i) {
    x.data<uint8_t>()[i] = 0x80;
    EXPECT_NE(zero, hash_of(x)) << i;
    x.data<uint8_t>()[i] = 0;
  }
  EXPECT_EQ(zero, hash_of(x));
  EXPECT_NE(zero, hash_of(Tensor::zeros({19, 1}, DType::u8)));
  EXPECT_NE(hash_of(Tensor::zeros({2}, DType::f32)), hash_of(Tensor::zeros({2}, DType::i32)));
}

// Row 113, pitfall 11: unequal shares give one rank's numbers, not the mean of means.
TEST(MetricSums, UnequalSharesGiveTheNumbersOfTheWhole) {
  const auto comm = communicator();
  MetricSums metrics;
  metrics.declare("loss");
  metrics.declare("speed");
  // Rank r holds r + 1 samples of value 2^-r, exact in binary: sums do not depend on the order.
  double sum = 0, count = 0;
  for (int r = 0; r < comm->size(); ++r) {
    sum += (r + 1) * std::ldexp(1.0, -r);
    count += r + 1;
  }
  for (int k = 0; k <= comm->rank(); ++k) metrics.add("loss", std::ldexp(1.0, -comm->rank()));
  if (comm->rank() == 0) metrics.add("speed", -6.0, 2.0);  // the others have no sample of it
  metrics.reduce(*comm);
  EXPECT_EQ(sum / count, metrics.mean("loss"));
  EXPECT_EQ(count, metrics.at("loss").count);
  EXPECT_EQ(1.0, metrics.at("loss").max);
  EXPECT_EQ(std::ldexp(1.0, 1 - comm->size()), metrics.at("loss").min);
  EXPECT_EQ(-3.0, metrics.mean("speed"));
  EXPECT_EQ(-3.0, metrics.at("speed").max);
  metrics.clear();
  EXPECT_TRUE(std::isnan(metrics.mean("loss")));
}

TEST(MetricSums, NaNStaysVisible) {
  const auto comm = communicator();
  MetricSums metrics;
  metrics.add("loss", comm->rank() == comm->size() - 1 ? std::nan("") : 1.0);
  metrics.reduce(*comm);
  EXPECT_TRUE(std::isnan(metrics.mean("loss")));
  EXPECT_TRUE(std::isnan(metrics.at("loss").min) && std::isnan(metrics.at("loss").max));
}

TEST(MetricSums, DifferentNamesAreAnErrorOnAllRanks) {
  const auto comm = communicator();
  if (comm->size() < 2) GTEST_SKIP() << "wants two ranks";
  MetricSums metrics;
  metrics.add(comm->rank() == 0 ? "loss" : "lost", 1.0);
  EXPECT_THAT(message_of([&] { metrics.reduce(*comm); }), HasSubstr("disagree"));
}

TEST(MetricSums, WrongUseIsNamed) {
  MetricSums metrics;
  EXPECT_THAT(message_of([&] { metrics.add("loss", 1.0, 0.0); }), HasSubstr("'loss'"));
  EXPECT_THAT(message_of([&] { metrics.mean("nothing"); }), HasSubstr("'nothing'"));
}

}  // namespace
}  // namespace bora
