// SPDX-License-Identifier: Apache-2.0
#include "core/rng.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <numbers>
#include <set>
#include <thread>
#include <vector>

#include "core/box_muller.hpp"
#include "core/error.hpp"

namespace bora {
namespace {

void expect_block(const Philox4& block, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  EXPECT_EQ(block.v[0], a);
  EXPECT_EQ(block.v[1], b);
  EXPECT_EQ(block.v[2], c);
  EXPECT_EQ(block.v[3], d);
}

// The known answers that the authors of Philox publish with Random123 (philox4x32-10).
TEST(Philox, GivesThePublishedAnswers) {
  expect_block(philox4x32(0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
  expect_block(philox4x32(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}), 0x408f276d, 0x41c83b0e,
               0xa20bc7c6, 0x6d5451fd);
  // Counter and key are the digits of pi.
  expect_block(philox4x32(0x299f31d0a4093822ull, 0x85a308d3243f6a88ull, 0x0370734413198a2eull),
               0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

TEST(Rng, BitsAreTheBlocksInOrder) {
  const RngKey key{5, 6};
  for (uint64_t i = 0; i < 12; ++i) EXPECT_EQ(key.bits(i), philox4x32(5, i / 4, 6).v[i % 4]) << i;
}

TEST(Rng, UniformHasTheMomentsOfItsLaw) {
  constexpr int n = 1 << 20;
  const RngKey key{1, rng_stream("test")};
  double sum = 0, squares = 0, lag = 0, previous = 0.5;
  std::vector<int> bins(64);
  for (int i = 0; i < n; ++i) {
    const double u = key.uniform(static_cast<uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
    lag += (u - 0.5) * (previous - 0.5);
    previous = u;
    ++bins[static_cast<size_t>(u * 64)];
  }
  // Five standard deviations: of a mean sqrt(1/12/n), of a mean square sqrt(4/45/n), of the lag
  // 1/12/sqrt(n).
  const double root = std::sqrt(static_cast<double>(n));
  EXPECT_NEAR(sum / n, 0.5, 5 * std::sqrt(1.0 / 12) / root);
  EXPECT_NEAR(squares / n, 1.0 / 3, 5 * std::sqrt(4.0 / 45) / root);
  EXPECT_NEAR(lag / n, 0, 5.0 / 12 / root);
  double chi2 = 0;
  for (int b : bins) chi2 += (b - n / 64.0) * (b - n / 64.0) / (n / 64.0);
  EXPECT_LT(chi2, 63 + 5 * std::sqrt(2.0 * 63));  // chi squared with 63 degrees of freedom
}

TEST(Rng, NormalHasTheMomentsOfItsLaw) {
  constexpr int n = 1 << 20;
  const RngKey key{2, rng_stream("test")};
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0, pairs = 0, previous = 0;
  int beyond2 = 0;
  for (int i = 0; i < n; ++i) {
    const double x = key.normal(static_cast<uint64_t>(i));
    ASSERT_TRUE(std::isfinite(x));
    m1 += x;
    m2 += x * x;
    m3 += x * x * x;
    m4 += x * x * x * x;
    pairs += x * previous;
    previous = x;
    beyond2 += std::abs(x) > 2;
  }
  // Five standard deviations; variances of x^k are 1, 2, 15, 96.
  const double root = std::sqrt(static_cast<double>(n));
  EXPECT_NEAR(m1 / n, 0, 5 / root);
  EXPECT_NEAR(m2 / n, 1, 5 * std::sqrt(2.0) / root);
  EXPECT_NEAR(m3 / n, 0, 5 * std::sqrt(15.0) / root);
  EXPECT_NEAR(m4 / n, 3, 5 * std::sqrt(96.0) / root);
  EXPECT_NEAR(pairs / n, 0, 5 / root);
  const double p = std::erfc(2 / std::sqrt(2.0));
  EXPECT_NEAR(static_cast<double>(beyond2) / n, p, 5 * std::sqrt(p * (1 - p)) / root);
}

/// Powers of two and their neighbours, the places where the turn changes its quarter or eighth, and
/// numbers in between; all below 2^32.
std::vector<uint64_t> numbers_of_32_bits() {
  std::vector<uint64_t> out;
  const auto around = [&](uint64_t centre) {
    for (uint64_t x = centre - 3; x != centre + 4; ++x)
      if (x >> 32 == 0) out.push_back(x);
  };
  for (int k = 0; k <= 32; ++k) around(uint64_t{1} << k);
  for (uint64_t k = 0; k <= 8; ++k) around(k << 29);
  // Where the logarithm goes from one power of two to the next.
  for (int k = 0; k < 32; ++k)
    around(static_cast<uint64_t>(std::ldexp(std::numbers::sqrt2, k) - 1.0));
  const RngKey key{4, 4};
  for (uint64_t i = 0; i < 200; ++i) out.push_back(key.bits(i));
  return out;
}

// u and the angle's number are exact in long double, and so is the angle up to 4e-19: of a cosine
// of 1.5e-9, the smallest, that is the larger part of the error, hence the second term.
TEST(BoxMuller, IsRightOverTheWholeRange) {
  const std::vector<uint64_t> numbers = numbers_of_32_bits();
  for (const uint64_t a : numbers) {
    const long double u = std::ldexp(static_cast<long double>(a + 1), -32);
    const long double radius = std::sqrt(-2 * std::log(u));
    for (const uint64_t b : numbers) {
      const long double turn = std::ldexp(static_cast<long double>(b), -32);
      const long double wanted = radius * std::cos(2 * std::numbers::pi_v<long double> * turn);
      const double x = detail::box_muller(a, b);
      const double error = static_cast<double>(std::fabs(static_cast<long double>(x) - wanted));
      const double scale = std::fabs(static_cast<double>(wanted));
      ASSERT_LE(error, 2e-15 * scale + 2e-18 * static_cast<double>(radius)) << a << ' ' << b;
    }
  }
  EXPECT_EQ(detail::box_muller(0xffffffffu, 5), 0.0);
  EXPECT_EQ(detail::box_muller(7, 0x40000000u), 0.0);
  EXPECT_NEAR(detail::box_muller(0, 0), std::sqrt(64 * std::numbers::ln2), 1e-14);
  EXPECT_NEAR(detail::box_muller(0, 0x80000000u), -std::sqrt(64 * std::numbers::ln2), 1e-14);
}

// One rounding to f32 (2^-24), and the 4e-16 by which the key's own angle may be off.
TEST(RngFill, HoldsTheKeysNumbers) {
  const RngKey key{0x123456789abcdef0u, rng_stream("fill")};
  for (const uint64_t begin : {uint64_t{0}, uint64_t{1}, uint64_t{511}, uint64_t{512},
                               uint64_t{1000003}, (uint64_t{1} << 40) + 3})
    for (const size_t n : {0, 1, 2, 15, 16, 17, 511, 512, 513, 3000}) {
      std::vector<float> normal(n + 1, 77.0f), uniform(n + 1, 77.0f);
      fill_normal(key, begin, 0.3, {normal.data(), n});
      fill_uniform(key, begin, -0.25, 0.5, {uniform.data(), n});
      for (size_t j = 0; j < n; ++j) {
        const double x = 0.3 * key.normal(begin + j);
        ASSERT_NEAR(static_cast<double>(normal[j]), x, std::fabs(x) * 0x1.00001p-24 + 2e-15)
            << begin << '+' << j;
        const double u = -0.25 + 0.75 * static_cast<double>(key.uniform(begin + j));
        ASSERT_EQ(uniform[j], static_cast<float>(u)) << begin << '+' << j;
      }
      EXPECT_EQ(normal[n], 77.0f);
      EXPECT_EQ(uniform[n], 77.0f);
    }
  std::vector<float> two(2);
  EXPECT_THROW(fill_normal(key, ~uint64_t{0}, 1.0, two), Error);
  EXPECT_THROW(fill_uniform(key, ~uint64_t{0}, 0.0, 1.0, two), Error);
}

TEST(RngFill, DependsNeitherOnThreadsNorOnCuts) {
  constexpr size_t n = 100000;
  const RngKey key{6, 7};
  const auto filled = [&](int threads, std::vector<size_t> cuts) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    std::vector<float> out(2 * n);
    cuts.push_back(n);
    size_t from = 0;
    for (const size_t to : cuts) {
      fill_normal(key, 5 + from, 0.7, {out.data() + from, to - from});
      fill_uniform(key, 5 + from, -0.1, 0.3, {out.data() + n + from, to - from});
      from = to;
    }
    omp_set_num_threads(before);
    return out;
  };
  const std::vector<float> once = filled(1, {});
  EXPECT_EQ(once, filled(3, {}));
  EXPECT_EQ(once, filled(2, {1, 2, 19, 507, 508, 1019, 1020, 1021, 50001}));
}

TEST(RngFill, NormalHasTheMomentsAndTailsOfItsLaw) {
  constexpr size_t n = size_t{1} << 23;
  std::vector<float> v(n);
  fill_normal({8, rng_stream("fill")}, 0, 1.0, v);
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0, pairs = 0, previous = 0;
  int beyond[6] = {};
  for (const float f : v) {
    const double x = static_cast<double>(f), square = x * x;
    m1 += x;
    m2 += square;
    m3 += square * x;
    m4 += square * square;
    pairs += x * previous;
    previous = x;
    for (int k = 1; k <= 5; ++k) beyond[k] += std::fabs(x) > k;
  }
  // Five standard deviations, as above.
  const double count = static_cast<double>(n), root = std::sqrt(count);
  EXPECT_NEAR(m1 / count, 0, 5 / root);
  EXPECT_NEAR(m2 / count, 1, 5 * std::sqrt(2.0) / root);
  EXPECT_NEAR(m3 / count, 0, 5 * std::sqrt(15.0) / root);
  EXPECT_NEAR(m4 / count, 3, 5 * std::sqrt(96.0) / root);
  EXPECT_NEAR(pairs / count, 0, 5 / root);
  for (int k = 1; k <= 5; ++k) {
    const double p = std::erfc(k / std::numbers::sqrt2);
    EXPECT_NEAR(beyond[k], count * p, 5 * std::sqrt(count * p)) << k;
  }
  EXPECT_GT(beyond[5], 0);  // 4.8 expected
}

TEST(Rng, BelowStaysBelowAndReachesAll) {
  const RngKey key{3, 4};
  std::vector<int> hits(7);
  for (uint64_t i = 0; i < 70000; ++i) {
    const uint64_t x = key.below(7, i);
    ASSERT_LT(x, 7u);
    ++hits[x];
    ASSERT_EQ(key.below(1, i), 0u);
    ASSERT_LT(key.below(~uint64_t{0}, i), ~uint64_t{0});
  }
  for (int h : hits) EXPECT_NEAR(h, 10000, 5 * std::sqrt(70000 * 6.0 / 49));
  // A bound above 32 bits is really used.
  bool large = false;
  for (uint64_t i = 0; i < 64; ++i) large = large || key.below(uint64_t{1} << 40, i) >> 32 != 0;
  EXPECT_TRUE(large);
}

TEST(Rng, IsAPureFunction) {
  const RngKey key{7, 8};
  EXPECT_EQ(key.uniform(123), (RngKey{7, 8}).uniform(123));
  EXPECT_EQ(key.normal(uint64_t{1} << 40), key.normal(uint64_t{1} << 40));
}

TEST(Rng, StreamsAndSeedsDiffer) {
  std::set<uint64_t> seen;
  for (const char* purpose : {"shuffle", "flip", "op", ""})
    for (uint64_t a = 0; a < 8; ++a)
      for (uint64_t b = 0; b < 8; ++b)
        for (uint64_t c = 0; c < 8; ++c) {
          const uint64_t s = rng_stream(purpose, a, b, c);
          EXPECT_EQ(s >> 62, 0u);  // kept free for normal() and below()
          EXPECT_TRUE(seen.insert(s).second) << purpose << a << b << c;
        }
  int equal = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    equal += (RngKey{1, 1}).bits(i) == (RngKey{1, 2}).bits(i);
    equal += (RngKey{1, 1}).bits(i) == (RngKey{2, 1}).bits(i);
    // normal() and below() do not reuse the blocks of bits().
    equal += (RngKey{1, 1}).below(uint64_t{1} << 32, i) == (RngKey{1, 1}).bits(4 * i);
  }
  EXPECT_EQ(equal, 0);
}

// Made by a second implementation of FNV-1a and Philox: other numbers would be other networks,
// splits and samples for the same seed.
TEST(Rng, StreamsStayWhatTheyAre) {
  EXPECT_EQ(rng_stream(""), 0x2de57d4cfbd378e4ull);
  EXPECT_EQ(rng_stream("sampler.order", 5), 0x14c08b3c6294a332ull);
  EXPECT_EQ(rng_stream("gr\xc3\xbcn", 1, 2, 3), 0x2eb20cf064c8cbe5ull);
}

TEST(RngPosition, ScopeRestoresAndKeysMoveOn) {
  const RngScope outer({11, 22, 0});
  const RngKey first = next_rng_key();
  const RngKey second = next_rng_key();
  EXPECT_EQ(first.seed, 11u);
  EXPECT_NE(first.stream, second.stream);
  EXPECT_EQ(rng_position().next, 2u);
  {
    const RngScope again({11, 22, 0});
    EXPECT_EQ(next_rng_key().stream, first.stream);
  }
  EXPECT_EQ(rng_position().next, 2u);
  {
    const RngScope other_base({11, 23, 0});
    EXPECT_NE(next_rng_key().stream, first.stream);
  }
  uint64_t seed_elsewhere = 1;
  std::thread([&] { seed_elsewhere = rng_position().seed; }).join();
  EXPECT_EQ(seed_elsewhere, 0u);
}

}  // namespace
}  // namespace bora
