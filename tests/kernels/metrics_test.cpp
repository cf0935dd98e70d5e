// SPDX-License-Identifier: Apache-2.0
// Error metrics: against numpy, joined over samples and ranks.  Features 112, 113.
#include "kernels/metrics.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "core/rng.hpp"
#include "tests/core/thread_collective.hpp"
#include "tests/support/device.hpp"
#include "tests/support/random.hpp"

namespace bora::kernels {
namespace {

using test::make_tensor;

const Stream kStream = test::stream();

/// tests/reference/data/metrics.txt, made by tests/reference/make_metrics_reference.py with numpy.
struct Reference {
  std::vector<double> prediction, target, region;
  std::map<std::string, double> values;

  Reference() {
    std::ifstream file("tests/reference/data/metrics.txt");
    std::string line;
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string first, p, t, r;
      words >> first >> p >> t >> r;
      if (r.empty()) {
        values[first] = std::stod(p);
        continue;
      }
      prediction.push_back(std::stod(p));
      target.push_back(std::stod(t));
      region.push_back(std::stod(r));
    }
  }
};

void expect_metrics(const Reference& reference, const std::string& suffix, const ErrorSums& s) {
  const auto near = [&](const char* name, double got) {
    const double want = reference.values.at(name + suffix);
    EXPECT_NEAR(want, got, 1e-12 * std::max(1.0, std::abs(want))) << name << suffix;
  };
  near("count", s.count);
  near("mae", s.mae());
  near("rmse", s.rmse());
  near("mre", s.mre());
  near("nrmse", s.nrmse());
  near("hit_rate", s.hit_rate());
  near("r2", s.r2());
  near("relative_l2", s.relative_l2());
  near("max_abs", s.max_abs);
}

// Features 112 and 113: each sample, and the samples joined, against numpy.
TEST(ErrorSums, MatchNumpyOnMaskedCells) {
  const Reference reference;
  ASSERT_EQ(180u, reference.prediction.size()) << "run from the repository's root";
  const Shape s{3, 4, 5, 3, 1};
  Tensor rows = test::empty({3, ErrorSums::kNumbers}, DType::f64);
  error_sums(kStream, {0.25, 0.5}, make_tensor(s, reference.prediction, DType::f32),
             make_tensor(s, reference.target, DType::f32),
             make_tensor({3, 4, 5, 3}, reference.region, DType::u8), rows);
  const std::vector<double> host = rows.to_vector<double>();
  ErrorSums pooled;
  for (int64_t n = 0; n < 3; ++n) {
    const ErrorSums one = ErrorSums::from_row(host.data() + n * ErrorSums::kNumbers);
    if (n < 2) expect_metrics(reference, n == 0 ? ".0" : ".1", one);
    pooled.add(one);  // the third is empty
  }
  expect_metrics(reference, "", pooled);
}

// Feature 113: N ranks with unequal shares of the samples, some with none, give the numbers of one
// rank on the whole set.  Targets are powers of two and predictions quarters, so that every sum is
// exact and the order of adding cannot excuse a difference.
TEST(ErrorSums, RanksTogetherGiveTheNumbersOfTheWhole) {
  constexpr int64_t kSamples = 7, kCells = 30;
  const RngKey key{3, 1};
  std::vector<double> p, t, r;
  for (uint64_t i = 0; i < kSamples * kCells; ++i) {
    t.push_back(std::ldexp(1.0, static_cast<int>(key.bits(3 * i) % 5)));
    p.push_back(t.back() + static_cast<double>(key.bits(3 * i + 1) % 17) / 4.0 - 2.0);
    r.push_back(key.bits(3 * i + 2) % 4 == 0 ? 0.0 : 1.0);
  }
  Tensor rows = test::empty({kSamples, ErrorSums::kNumbers}, DType::f64);
  error_sums(kStream, {0.5, 1e-3}, make_tensor({kSamples, kCells, 1}, p, DType::f32),
             make_tensor({kSamples, kCells, 1}, t, DType::f32),
             make_tensor({kSamples, kCells}, r, DType::u8), rows);
  const std::vector<double> host = rows.to_vector<double>();
  const auto sum_of = [&](int64_t begin, int64_t end) {
    ErrorSums s;
    for (int64_t n = begin; n < end; ++n)
      s.add(ErrorSums::from_row(host.data() + n * ErrorSums::kNumbers));
    return s;
  };
  const auto numbers = [](const ErrorSums& s) {
    return std::vector<double>{s.count,   s.target_min, s.target_max, s.max_abs,
                               s.target,  s.mae(),      s.rmse(),     s.mre(),
                               s.nrmse(), s.hit_rate(), s.r2(),       s.relative_l2()};
  };
  const std::vector<double> whole = numbers(sum_of(0, kSamples));
  for (double v : whole) ASSERT_TRUE(std::isfinite(v));
  for (const std::vector<int64_t>& ends :
       {std::vector<int64_t>{0, 7}, {0, 2, 7}, {0, 0, 7}, {0, 7, 7}, {0, 1, 1, 6, 7}}) {
    const auto n = static_cast<int>(ends.size()) - 1;
    std::vector<std::vector<double>> on(static_cast<size_t>(n));
    on_ranks(n, [&](Collective& ranks) {
      const auto rank = static_cast<size_t>(ranks.rank());
      ErrorSums mine = sum_of(ends[rank], ends[rank + 1]);
      mine.all_reduce(ranks);
      on[rank] = numbers(mine);
    });
    for (const auto& got : on) EXPECT_EQ(whole, got) << n << " ranks";
  }
}

TEST(ErrorSums, ABadValueOnOneRankIsSeenOnAll) {
  on_ranks(3, [](Collective& ranks) {
    ErrorSums mine;
    mine.count = 1;
    mine.abs = mine.max_abs = ranks.rank() == 1 ? NAN : 1.0;
    mine.all_reduce(ranks);
    EXPECT_TRUE(std::isnan(mine.mae()));
    EXPECT_TRUE(std::isnan(mine.max_abs));
    EXPECT_EQ(3.0, mine.count);
  });
}

TEST(ErrorSums, NothingCountedIsNaNNotZero) {
  const ErrorSums none;
  for (const double v : {none.mae(), none.rmse(), none.mre(), none.nrmse(), none.hit_rate(),
                         none.r2(), none.relative_l2()})
    EXPECT_TRUE(std::isnan(v));
}

TEST(ErrorSums, BadValueInTheRegionIsSeen) {
  std::vector<double> values(10, 1.0);
  values[4] = NAN;
  const Tensor t = test::full({1, 10, 1}, 1.0, DType::f32);
  Tensor rows = test::empty({1, ErrorSums::kNumbers}, DType::f64);
  error_sums(kStream, {}, make_tensor({1, 10, 1}, values, DType::f32), t, {}, rows);
  const ErrorSums s = ErrorSums::from_row(rows.to_vector<double>().data());
  EXPECT_TRUE(std::isnan(s.mae()));
  EXPECT_TRUE(std::isnan(s.max_abs));
}

}  // namespace
}  // namespace bora::kernels
