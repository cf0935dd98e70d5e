// SPDX-License-Identifier: Apache-2.0
// Rows 99 (angle channels), 100 (flips, turns), 101 (noise).
#include "data/augment.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "data/angle.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data::test {
namespace {

using ::testing::HasSubstr;

/// Every cell holds its number; all arrays alike, so that it shows if one moves differently.
Sample numbered(int64_t nx, int64_t ny, int64_t nz, double angle) {
  Sample s;
  s.name = "case";
  s.angle_deg = angle;
  s.input = Tensor::empty(Shape{nx, ny, nz, 3}, DType::f32);
  s.target = Tensor::empty(Shape{nx, ny, nz, 1}, DType::f32);
  s.region = Tensor::empty(Shape{nx, ny, nz}, DType::u8);
  s.valid = Tensor::empty(Shape{nx, ny, nz}, DType::u8);
  for (int64_t i = 0; i < nx * ny * nz; ++i) {
    s.input.data<float>()[3 * i] = s.target.data<float>()[i] = static_cast<float>(i);
    s.region.data<uint8_t>()[i] = s.valid.data<uint8_t>()[i] = static_cast<uint8_t>(i);
  }
  set_angle_channels(s.input, angle);
  return s;
}

/// The number that the cell had before; checks that all arrays agree.
int64_t at(const Sample& s, int64_t x, int64_t y, int64_t z) {
  const int64_t i = (x * s.region.size(1) + y) * s.region.size(2) + z;
  const int64_t n = static_cast<int64_t>(s.target.data<float>()[i]);
  EXPECT_EQ(s.input.data<float>()[3 * i], static_cast<float>(n));
  EXPECT_EQ(s.region.data<uint8_t>()[i], n);
  EXPECT_EQ(s.valid.data<uint8_t>()[i], n);
  return n;
}

void expect_direction(const Sample& s, double c, double sin) {
  EXPECT_EQ(s.input.data<float>()[1], static_cast<float>(sin));
  EXPECT_EQ(s.input.data<float>()[2], static_cast<float>(c));
  EXPECT_EQ(s.input.data<float>()[s.input.numel() - 2], static_cast<float>(sin));
  const Direction d = Direction::of_degrees(s.angle_deg);
  EXPECT_NEAR(d.c, c, 1e-15);
  EXPECT_NEAR(d.s, sin, 1e-15);
}

TEST(Augment, MirrorsTurnTheDirectionToo) {
  for (double angle : {0.0, 30.0, 90.0, 200.0, 360.0}) {
    const Direction d = Direction::of_degrees(angle);
    Sample s = numbered(3, 4, 2, angle);
    vary(s, {true, false, 0});
    EXPECT_EQ(at(s, 0, 1, 1), (2 * 4 + 1) * 2 + 1);
    expect_direction(s, -d.c, d.s);
    vary(s, {true, false, 0});
    EXPECT_EQ(at(s, 2, 3, 0), (2 * 4 + 3) * 2);
    vary(s, {false, true, 0});
    EXPECT_EQ(at(s, 2, 0, 1), (2 * 4 + 3) * 2 + 1);
    expect_direction(s, d.c, -d.s);
  }
}

TEST(Augment, AQuarterTurnIsCounterClockwise) {
  Sample s = numbered(3, 3, 2, 30);
  vary(s, {false, false, 1});
  // What lay at the +x side lies at the +y side: cell (2, 1) goes to (1, 2).
  EXPECT_EQ(at(s, 1, 2, 0), (2 * 3 + 1) * 2);
  // And (0, 0), lower left, goes to the lower right.
  EXPECT_EQ(at(s, 2, 0, 1), 1);
  const Direction d = Direction::of_degrees(30);
  EXPECT_NEAR(Direction::of_degrees(s.angle_deg).c, -d.s, 1e-15);
  EXPECT_NEAR(Direction::of_degrees(s.angle_deg).s, d.c, 1e-15);
}

TEST(Augment, FourTurnsAndTwoMirrorsAreTheIdentity) {
  const Sample original = numbered(4, 4, 3, 15);
  for (int turns : {1, 2, 3}) {
    Sample s = numbered(4, 4, 3, 15);
    for (int i = 0; i < 4; ++i) vary(s, {false, false, turns});
    EXPECT_EQ(s.target.to_vector<float>(), original.target.to_vector<float>());
    EXPECT_EQ(s.input.to_vector<float>(), original.input.to_vector<float>());
    EXPECT_EQ(s.angle_deg, 15);
  }
  Sample a = numbered(4, 3, 3, 15), b = numbered(4, 3, 3, 15);
  vary(a, {true, true, 0});
  vary(b, {false, false, 2});  // a half turn needs no square
  EXPECT_EQ(a.target.to_vector<float>(), b.target.to_vector<float>());
  EXPECT_EQ(a.angle_deg, b.angle_deg);
  Sample c = numbered(4, 4, 2, 0), e = numbered(4, 4, 2, 0);
  for (int i = 0; i < 3; ++i) vary(c, {false, false, 1});
  vary(e, {false, false, 3});
  EXPECT_EQ(c.target.to_vector<float>(), e.target.to_vector<float>());
}

TEST(Augment, ANonSquareWindowRefusesAQuarterTurn) {
  Sample s = numbered(3, 4, 2, 0);
  EXPECT_THAT(message_of([&] {
                vary(s, {false, false, 1});
              }),
              HasSubstr("square window, it has 3 x 4"));
}

TEST(Augment, DrawsArePureFairAndOnlyWhatIsAllowed) {
  const AugmentConfig all{true, true, true}, y{false, true, false};
  int n_x = 0, n_y = 0, turns[4] = {};
  for (uint64_t i = 0; i < 4000; ++i) {
    const RngKey key{1, i};
    const Variation v = draw_variation(all, key);
    EXPECT_EQ(v, draw_variation(all, key));
    n_x += v.flip_x;
    n_y += v.flip_y;
    ++turns[v.quarter_turns];
    const Variation only_y = draw_variation(y, key);
    EXPECT_FALSE(only_y.flip_x);
    EXPECT_EQ(only_y.quarter_turns, 0);
    EXPECT_EQ(only_y.flip_y, v.flip_y);
    EXPECT_EQ(draw_variation({}, key), Variation{});
  }
  // Five standard deviations of a binomial: 158 and 137.
  EXPECT_NEAR(n_x, 2000, 158);
  EXPECT_NEAR(n_y, 2000, 158);
  for (int n : turns) EXPECT_NEAR(n, 1000, 137);
}

/// Buildings in every third cell, every seventh is padding.
Sample city() {
  Sample s = numbered(16, 16, 16, 30);
  for (int64_t i = 0; i < s.valid.numel(); ++i) {
    s.valid.data<uint8_t>()[i] = i % 7 != 0;
    s.input.data<float>()[3 * i] = i % 3 == 0 || i % 7 == 0 ? -1.0f : 1.0f;
  }
  return s;
}

TEST(Augment, NoiseIsOnTheInputAloneAndBuildingsStayRecoverable) {
  for (const double deviation : {0.05, 0.3}) {
    const Sample plain = city();
    Sample s = city();
    add_input_noise(s, {.noise = deviation}, {7, 1});
    EXPECT_EQ(s.target.to_vector<float>(), plain.target.to_vector<float>());
    EXPECT_EQ(s.region.to_vector<uint8_t>(), plain.region.to_vector<uint8_t>());
    EXPECT_EQ(s.valid.to_vector<uint8_t>(), plain.valid.to_vector<uint8_t>());
    EXPECT_EQ(s.angle_deg, plain.angle_deg);
    double sum = 0, squares = 0, n = 0;
    for (int64_t i = 0; i < s.valid.numel(); ++i) {
      const float was = plain.input.data<float>()[3 * i], is = s.input.data<float>()[3 * i];
      ASSERT_EQ(is < 0, was < 0) << i;
      ASSERT_EQ(s.input.data<float>()[3 * i + 1], plain.input.data<float>()[3 * i + 1]);
      ASSERT_EQ(s.input.data<float>()[3 * i + 2], plain.input.data<float>()[3 * i + 2]);
      if (plain.valid.data<uint8_t>()[i] == 0) {
        ASSERT_EQ(is, was) << "padding " << i;
        continue;
      }
      const double e = is - was;
      sum += e, squares += e * e, n += 1;
    }
    // 3510 cells: five standard errors of a mean, 5 / sqrt(n), and of a deviation, 5 / sqrt(2 n);
    // the cut at 0.95 takes 1 % off a deviation of 0.3.
    EXPECT_NEAR(sum / n, 0, 0.085 * deviation);
    EXPECT_NEAR(std::sqrt(squares / n), deviation, 0.07 * deviation);
    Sample again = city(), other = city();
    add_input_noise(again, {.noise = deviation}, {7, 1});
    add_input_noise(other, {.noise = deviation}, {7, 2});
    EXPECT_EQ(again.input.to_vector<float>(), s.input.to_vector<float>());
    EXPECT_NE(other.input.to_vector<float>(), s.input.to_vector<float>());
  }
}

TEST(Augment, NoiseComesAsOftenAsItsProbabilitySays) {
  const auto plain = numbered(2, 2, 2, 0).input.to_vector<float>();
  const auto noisy = [&](AugmentConfig config) {
    int n = 0;
    for (uint64_t i = 0; i < 2000; ++i) {
      Sample s = numbered(2, 2, 2, 0);
      s.valid.fill(1);
      add_input_noise(s, config, {3, i});
      n += s.input.to_vector<float>() != plain;
    }
    return n;
  };
  EXPECT_EQ(noisy({}), 0);
  EXPECT_EQ(noisy({.noise = 0.1, .noise_probability = 0}), 0);
  EXPECT_EQ(noisy({.noise = 0.1}), 2000);
  EXPECT_NEAR(noisy({.noise = 0.1, .noise_probability = 0.25}), 500, 97);  // five deviations
  Sample s = numbered(2, 2, 2, 0);
  EXPECT_THAT(message_of([&] { add_input_noise(s, {.noise_probability = 2}, {}); }),
              HasSubstr("probability 2"));
}

}  // namespace
}  // namespace bora::data::test
