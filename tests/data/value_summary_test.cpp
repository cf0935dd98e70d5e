// SPDX-License-Identifier: Apache-2.0
// What `unet3d data inspect` and `stats` say of values: extremes, percentiles, distinct values.
#include "data/value_summary.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

namespace bora::data::test {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

ValueSummary of(const std::vector<float>& values) {
  ValueSummary summary;
  summary.add(Tensor::from(Shape{static_cast<int64_t>(values.size())}, values));
  return summary;
}

// Of an air-filled volume half of the values are 0: a percentile there is 0, not next to nothing.
TEST(ValueSummary, APercentileAmongZerosIsZero) {
  for (const float zero : {0.0f, -0.0f}) {
    const ValueSummary s = of({zero, zero, zero, zero, 0.5f, 1.25f, 2.75f, 3.5f});
    for (const double p : {0.0, 0.5, 10.0, 50.0}) {
      EXPECT_EQ(s.percentile(p), 0.0) << p;
      EXPECT_FALSE(std::signbit(s.percentile(p))) << p << ", of " << zero;
    }
    EXPECT_FALSE(std::signbit(s.min()));
    EXPECT_EQ(s.percentile(100), 3.5);
    EXPECT_EQ(s.histogram(0, 4, 4), (std::vector<int64_t>{5, 1, 1, 1}));
  }
  EXPECT_THAT(of({-0.0f, 0.0f, 1.0f}).distinct(), ElementsAre(Pair(0.0, 2), Pair(1.0, 1)));
}

TEST(ValueSummary, PercentilesAreRightToOnePartIn4096) {
  std::vector<float> values;
  for (int i = 1; i <= 1000; ++i) values.push_back(0.37f * static_cast<float>(i) - 100.0f);
  const ValueSummary s = of(values);
  for (const double p : {0.1, 1.0, 25.0, 50.0, 75.0, 99.9}) {
    const double exact = values[static_cast<size_t>(std::ceil(10 * p - 1e-9)) - 1];
    EXPECT_NEAR(s.percentile(p), exact, std::abs(exact) / 4096) << p;
  }
}

TEST(ValueSummary, WhatIsNotFiniteIsCountedApart) {
  const ValueSummary s = of({std::nanf(""), 2, std::numeric_limits<float>::infinity(), 4});
  EXPECT_EQ(s.n(), 2);
  EXPECT_EQ(s.n_nan(), 1);
  EXPECT_EQ(s.n_infinite(), 1);
  EXPECT_EQ(s.moments().mean, 3);
  EXPECT_EQ(s.max(), 4);
}

}  // namespace
}  // namespace bora::data::test
