// SPDX-License-Identifier: Apache-2.0
// What is drawn how often, what is refused, labels of sides.  Features 79, 100.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "data/transforms/label_swap.hpp"
#include "data/transforms/transforms.hpp"
#include "tests/data/transforms_support.hpp"
#include "tests/support/message_of.hpp"

namespace bora::data::test {
namespace {

using bora::testing::message_of;
using ::testing::HasSubstr;

/// n p within 5 standard deviations of the binomial distribution: 6e-7 of all keys fail, and these
/// are fixed.
void expect_share(int64_t count, int64_t n, double p) {
  const auto trials = static_cast<double>(n);
  EXPECT_NEAR(trials * p, static_cast<double>(count), 5 * std::sqrt(trials * p * (1 - p)));
}

TransformConfig everything() {
  TransformConfig c;
  c.flip_x = 0.5;
  c.flip_y = 0.25;
  c.flip_z = 0.1;
  c.quarter_turns = {"xy", "yz"};
  c.quarter_turns_probability = 0.8;
  c.rotation = {10, 20, 30};
  c.rotation_probability = 0.3;
  c.zoom = {0.5, 2};
  c.zoom_probability = 0.4;
  c.elastic = 2;
  c.elastic_probability = 0.6;
  return c;
}

TEST(DrawGeometry, HappensAsOftenAsAskedWithinItsRange) {
  const TransformConfig c = everything();
  constexpr int64_t kDraws = 10000;
  std::array<int64_t, 3> flips{}, turned{};
  int64_t rotated = 0, zoomed = 0, larger = 0, warped = 0, pairs = 0;
  double largest_z = 0;
  for (int64_t i = 0; i < kDraws; ++i) {
    const Geometry g = draw_geometry(c, {3, rng_stream("augment", 0, static_cast<uint64_t>(i))});
    for (size_t a = 0; a < 3; ++a) {
      flips[a] += g.flip[a] ? 1 : 0;
      turned[a] += g.quarter_turns[a] != 0 ? 1 : 0;
      EXPECT_LE(std::abs(g.rotation_deg[a]), c.rotation[a]);
      EXPECT_TRUE(g.quarter_turns[a] >= 0 && g.quarter_turns[a] <= 3);
    }
    pairs += g.flip[0] && g.flip[1] ? 1 : 0;
    rotated += g.rotation_deg[0] != 0 ? 1 : 0;
    largest_z = std::max(largest_z, std::abs(g.rotation_deg[2]));
    zoomed += g.zoom != 1 ? 1 : 0;
    larger += g.zoom > 1 ? 1 : 0;
    EXPECT_TRUE(g.zoom >= 0.5 - 1e-6 && g.zoom <= 2 + 1e-6);
    warped += g.elastic > 0 ? 1 : 0;
    EXPECT_LE(g.elastic, 2);
  }
  expect_share(flips[0], kDraws, 0.5);
  expect_share(flips[1], kDraws, 0.25);
  expect_share(flips[2], kDraws, 0.1);
  expect_share(pairs, kDraws, 0.125);
  expect_share(turned[0], kDraws, 0.8 * 0.75);
  EXPECT_EQ(0, turned[1]);
  expect_share(turned[2], kDraws, 0.8 * 0.75);
  expect_share(rotated, kDraws, 0.3);
  EXPECT_GT(largest_z, 29);
  expect_share(zoomed, kDraws, 0.4);
  expect_share(larger, kDraws, 0.2);
  expect_share(warped, kDraws, 0.6);
}

TEST(DrawGeometry, IsAPureFunctionOfTheKey) {
  const TransformConfig c = everything();
  const RngKey key{1, rng_stream("augment", 2, 3)};
  const Geometry a = draw_geometry(c, key), b = draw_geometry(c, key);
  EXPECT_EQ(a.rotation_deg, b.rotation_deg);
  EXPECT_EQ(a.zoom, b.zoom);
  EXPECT_EQ(a.elastic_key.stream, b.elastic_key.stream);
  // Switching one off leaves the others as they were.
  TransformConfig fewer = c;
  fewer.flip_x = 0;
  fewer.rotation.clear();
  for (uint64_t i = 0; i < 50; ++i) {
    const Geometry all = draw_geometry(c, {1, i}), some = draw_geometry(fewer, {1, i});
    EXPECT_EQ(all.flip[1], some.flip[1]);
    EXPECT_EQ(all.quarter_turns, some.quarter_turns);
    EXPECT_EQ(all.zoom, some.zoom);
    EXPECT_EQ(all.elastic, some.elastic);
    EXPECT_FALSE(some.flip[0]);
    EXPECT_EQ((std::array<double, 3>{}), some.rotation_deg);
  }
  // Samples, epochs and seeds have numbers of their own.
  std::vector<double> zooms;
  TransformConfig zoom;
  zoom.zoom = {0.5, 2};
  zoom.zoom_probability = 1;
  for (const uint64_t seed : {0, 1})
    for (const uint64_t epoch : {0, 1})
      for (const uint64_t sample : {0, 1})
        zooms.push_back(draw_geometry(zoom, {seed, rng_stream("augment", epoch, sample)}).zoom);
  std::sort(zooms.begin(), zooms.end());
  EXPECT_EQ(zooms.end(), std::adjacent_find(zooms.begin(), zooms.end()));
}

TEST(DrawGeometry, TheDefaultsDrawNothing) {
  for (uint64_t i = 0; i < 100; ++i)
    EXPECT_TRUE(draw_geometry(TransformConfig{}, {1, i}).is_identity());
  Sample s = random_sample({3, 4, 5}, 1, 1), before = s;
  before.input = s.input.clone();
  apply_intensity(s, TransformConfig{}, {1, 2});
  expect_same(before, s);
}

TEST(LabelSwap, SidesChangePlacesWithTheirAxis) {
  TransformConfig c;
  c.flip_x = c.flip_y = 0.5;
  c.sides = "x";
  c.swap_labels = {"1:2"};
  const Sample before = random_sample({4, 3, 2}, 1, 5);
  for (const bool flip_x : {false, true}) {
    Geometry g;
    g.flip = {flip_x, true, false};
    Sample s = before;
    apply_geometry(s, g, {}, c, 0);
    for (int64_t x = 0; x < 4; ++x)
      for (int64_t y = 0; y < 3; ++y)
        for (int64_t z = 0; z < 2; ++z) {
          const int64_t from = ((flip_x ? 3 - x : x) * 3 + 2 - y) * 2 + z;
          int wanted = before.target.data<uint8_t>()[from];
          if (flip_x && (wanted == 1 || wanted == 2)) wanted = 3 - wanted;
          EXPECT_EQ(wanted, s.target.data<uint8_t>()[(x * 3 + y) * 2 + z]);
        }
  }
}

TransformUse of_patch(const Dims3& patch, int64_t n_classes = 0) {
  TransformUse use;
  use.patch = patch;
  use.n_classes = n_classes;
  return use;
}

std::string refusal(const TransformConfig& c, const TransformUse& use = of_patch({8, 8, 8})) {
  return message_of([&] {
    config_check(c);
    check_transforms(c, use);
  });
}

template <class Change>
std::string refusal_of(Change&& change, const TransformUse& use = of_patch({8, 8, 8})) {
  TransformConfig c;
  change(c);
  return refusal(c, use);
}

TEST(CheckTransforms, WhatIsTrueIsAllowed) {
  EXPECT_EQ("no error", refusal(TransformConfig{}));
  EXPECT_EQ("no error", refusal(everything()));
  EXPECT_EQ("no error", refusal_of(
                            [](auto& c) {
                              c.sides = "x";
                              c.swap_labels = {"1:2", "3:4"};
                              c.flip_x = 0.5;
                              c.quarter_turns = {"yz"};
                              c.rotation = {15};
                            },
                            of_patch({8, 6, 6}, 5)));
}

TEST(CheckTransforms, WhatWouldMakeLabelsFalseIsRefused) {
  const auto message = refusal_of([](auto& c) { c.sides = "x", c.flip_x = 0.5; });
  EXPECT_THAT(message, HasSubstr("volumes.transforms.flip_x would make the labels false"));
  EXPECT_THAT(message, HasSubstr("volumes.transforms.swap_labels"));
  EXPECT_THAT(refusal_of([](auto& c) { c.sides = "y", c.quarter_turns = {"xy"}; }),
              HasSubstr("quarter_turns in the plane xy would make the labels false"));
  TransformUse wind;
  wind.input = TransformUse::Input::building_mask;
  for (const auto& change :
       std::vector<std::function<void(TransformConfig&)>>{[](auto& c) { c.rotation = {5}; },
                                                          [](auto& c) {
                                                            c.gamma = {0.7, 1.5};
                                                          },
                                                          [](auto& c) { c.flip_x = 0.5; },
                                                          [](auto& c) {
                                                            c.low_resolution = {0.5, 1};
                                                          }})
    EXPECT_THAT(refusal_of(change, wind), HasSubstr("a building mask has two values"));
  EXPECT_EQ("no error", refusal(TransformConfig{}, wind));
}

TEST(CheckTransforms, WhatCannotBeIsRefused) {
  EXPECT_THAT(refusal_of([](auto& c) { c.quarter_turns = {"xz"}; }, of_patch({8, 8, 6})),
              HasSubstr("quarter_turns in the plane xz wants a patch with as many cells along both "
                        "axes, it is 8x8x6"));
  EXPECT_THAT(refusal_of([](auto& c) { c.quarter_turns = {"xy"}; }, of_patch({0, 0, 6})),
              HasSubstr("(0: as large as the case)"));
  EXPECT_THAT(refusal_of([](auto& c) { c.quarter_turns = {"zx"}; }), HasSubstr("xy, xz"));
  EXPECT_THAT(refusal_of([](auto& c) { c.elastic = 2, c.elastic_spacing = 12; }),
              HasSubstr("elastic is 2 cells with points 12 cells apart: the warp could fold"));
  EXPECT_THAT(refusal_of([](auto& c) { c.zoom = {1.2, 0.8}; }), HasSubstr("zoom has 2 numbers"));
  EXPECT_THAT(refusal_of([](auto& c) { c.noise = {0.1}; }), HasSubstr("noise has 1 numbers"));
  EXPECT_THAT(refusal_of([](auto& c) {
                c.rotation = {10, 10};
              }),
              HasSubstr("rotation has 2 angles"));
  EXPECT_THAT(refusal_of([](auto& c) { c.rotation = {90}; }), HasSubstr("rotation"));
  EXPECT_THAT(refusal_of([](auto& c) { c.flip_x = 1.5; }), HasSubstr("flip_x"));
  EXPECT_THAT(refusal_of([](auto& c) { c.swap_labels = {"1:2"}; }), HasSubstr(".sides"));
  for (const char* bad : {"1", "1:", "a:b", "1:1", "1:300", "-1:2", "1:2:3"})
    EXPECT_THAT(refusal_of([&](auto& c) { c.sides = "x", c.swap_labels = {bad}; }),
                HasSubstr(std::string("swap_labels has '") + bad + "'"));
  EXPECT_THAT(refusal_of([](auto& c) {
                c.sides = "x", c.swap_labels = {"1:2", "2:3"};
              }),
              HasSubstr("names the label 2 twice"));
  EXPECT_THAT(
      refusal_of([](auto& c) { c.sides = "x", c.swap_labels = {"1:5"}; }, of_patch({8, 8, 8}, 3)),
      HasSubstr("names the label 5, there are 3 classes"));
}

TEST(ApplyGeometry, RefusesWhatDoesNotFit) {
  Geometry turn;
  turn.quarter_turns = {1, 0, 0};
  Sample s = random_sample({4, 5, 3}, 1, 1);
  EXPECT_THAT(message_of([&] { apply_geometry(s, turn, {}, {}, 0); }),
              HasSubstr("a quarter turn of case 'case' needs as many cells along both axes"));
  EXPECT_THAT(message_of([&] {
                apply_geometry(s, {}, {2, 0, 0}, {}, 0);
              }),
              HasSubstr("no patch inside a margin of 2x0x0"));
  s.region = Tensor::full({4, 5, 2}, 1, DType::u8);
  EXPECT_THAT(message_of([&] { apply_geometry(s, {}, {}, {}, 0); }), HasSubstr("(4, 5, 2)"));
}

}  // namespace
}  // namespace bora::data::test
