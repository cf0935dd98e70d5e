// SPDX-License-Identifier: Apache-2.0
// Feature row 116 (pictures with shared scales).  Pictures are read back with the PNG library and
// looked at where the content is known.
#include "data/figure.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "data/canvas.hpp"
#include "data/image.hpp"
#include "tests/data/picture.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data {
namespace {

using test::message_of;
using test::Picture;
using test::TempFolder;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Rgb kGrey{128, 128, 128};

/// 4 x 3 cells of 10 m; truth 0 to 4 m/s, one building.
Slice small_slice(float error) {
  Slice s;
  s.label = "z = 10 m";
  s.u_label = "x (m)";
  s.v_label = "y (m)";
  s.nu = 4;
  s.nv = 3;
  s.u_end = 40;
  s.v_end = 30;
  for (int i = 0; i < 12; ++i) {
    s.truth.push_back(static_cast<float>(i % 5));
    s.prediction.push_back(s.truth.back() + error);
    s.open.push_back(i != 6);
  }
  return s;
}

/// Lightness in OKLab, the inverse of from_oklab.
double lightness(Rgb c) {
  const auto linear = [](uint8_t v) {
    const double x = v / 255.0;
    return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
  };
  const double r = linear(c.r), g = linear(c.g), b = linear(c.b);
  const double l = std::cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b);
  const double m = std::cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b);
  const double s = std::cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b);
  return 0.2104542553 * l + 0.7936177850 * m - 0.0040720468 * s;
}

TEST(WritePng, BringsEveryPixelBack) {
  const TempFolder folder;
  for (const auto& [w, h] : {std::pair<int64_t, int64_t>{1, 1}, {3, 2}, {17, 5}}) {
    std::vector<uint8_t> rgb;
    for (int64_t i = 0; i < 3 * w * h; ++i) rgb.push_back(static_cast<uint8_t>(37 * i));
    write_png(folder.file("a.png"), w, h, rgb);
    const Picture back(folder.file("a.png"));
    EXPECT_EQ(back.width, w);
    EXPECT_EQ(back.height, h);
    EXPECT_EQ(back.rgb, rgb);
  }
  EXPECT_THAT(message_of([&] { write_png(folder.file("b.png"), 2, 2, std::vector<uint8_t>(3)); }),
              HasSubstr("want 12 bytes, got 3"));
  EXPECT_THROW(write_png(folder.file("b.png"), 0, 2, {}), Error);
  EXPECT_THAT(
      message_of([&] { write_png(folder.file("no/b.png"), 1, 1, std::vector<uint8_t>(3)); }),
      HasSubstr("no/b.png"));
}

// 8 bits give steps of 1/255; near black a step of a channel is up to 0.007 of lightness.
TEST(ColourMap, SequentialGrowsEvenlyInLightness) {
  for (int i = 0; i <= 100; ++i)
    EXPECT_NEAR(lightness(colour(ColourMap::sequential, i / 100.0)), 0.27 + 0.0064 * i, 0.007) << i;
}

TEST(ColourMap, DivergingIsBalancedAndNearWhiteInTheMiddle) {
  const Rgb middle = colour(ColourMap::diverging, 0.5);
  EXPECT_GT(middle.r, 240);
  EXPECT_EQ(middle.r, middle.g);
  EXPECT_EQ(middle.g, middle.b);
  for (int i = 0; i <= 50; ++i)
    EXPECT_NEAR(lightness(colour(ColourMap::diverging, i / 100.0)),
                lightness(colour(ColourMap::diverging, 1 - i / 100.0)), 0.007)
        << i;
  EXPECT_GT(colour(ColourMap::diverging, 0).b, colour(ColourMap::diverging, 0).r);
  EXPECT_GT(colour(ColourMap::diverging, 1).r, colour(ColourMap::diverging, 1).b);
}

TEST(ColourMap, ClampsAndShowsNan) {
  EXPECT_EQ(colour(ColourMap::sequential, -1), colour(ColourMap::sequential, 0));
  EXPECT_EQ(colour(ColourMap::sequential, 7), colour(ColourMap::sequential, 1));
  EXPECT_EQ(colour(ColourMap::diverging, std::nan("")), (Rgb{255, 0, 255}));
}

TEST(Ticks, AreRoundNumbersInside) {
  EXPECT_THAT(detail::ticks(0, 320, 4), ElementsAre(0, 100, 200, 300));
  EXPECT_THAT(detail::ticks(0, 160, 3), ElementsAre(0, 50, 100, 150));
  EXPECT_THAT(detail::ticks(-1, 1, 4), ElementsAre(-1, -0.5, 0, 0.5, 1));
  EXPECT_THAT(detail::tick_texts({-0.5, 0, 0.5}), ElementsAre("-0.5", "0.0", "0.5"));
  EXPECT_THAT(detail::tick_texts({0, 100}), ElementsAre("0", "100"));
  EXPECT_THAT(detail::tick_texts({0, 0.25}), ElementsAre("0.00", "0.25"));
  EXPECT_THAT(detail::tick_texts({2e-5}), ElementsAre("2e-05"));
  for (const double high : {1e-12, 0.003, 0.7, 1.0, 9.99, 123.4, 1e9})
    for (int n = 1; n <= 9; ++n) {
      const auto t = detail::ticks(-high / 3, high, n);
      ASSERT_GE(t.size(), 1u);
      ASSERT_LE(t.size(), 2u * static_cast<size_t>(n) + 2);
      ASSERT_GE(t.front(), -high / 3 * 1.0001);
      ASSERT_LE(t.back(), high * 1.0001);
    }
  EXPECT_THROW(detail::ticks(1, 1, 3), Error);
}

TEST(Slices, CutTheNearestPlane) {
  SliceSource source;
  source.truth = Tensor::empty({2, 3, 4}, DType::f32);
  for (int i = 0; i < 24; ++i) source.truth.data<float>()[i] = static_cast<float>(i);
  source.prediction = Tensor::full({2, 3, 4}, 7, DType::f32);
  source.open = Tensor::full({2, 3, 4}, 1, DType::u8);
  source.axes[2] = {"z", "m", {2.5, 7.5, 12.5, 17.5}};
  source.axes[1] = {"y", "m", {0, 10, 20}};
  const Slice flat = horizontal_slice(source, 11);
  EXPECT_EQ(flat.label, "Horizontal slice at z = 12.5 m");
  EXPECT_THAT(flat.truth, ElementsAre(2, 6, 10, 14, 18, 22));
  EXPECT_EQ(flat.u_label, "x (cells)");
  EXPECT_EQ(flat.v_label, "y (m)");
  EXPECT_EQ(flat.u_end, 2);
  EXPECT_EQ(flat.v_begin, -5);
  EXPECT_EQ(flat.v_end, 25);
  const Slice upright = vertical_slice(source, 1e9);
  EXPECT_EQ(upright.label, "Vertical slice at y = 20 m");
  EXPECT_THAT(upright.truth, ElementsAre(8, 9, 10, 11, 20, 21, 22, 23));
  EXPECT_EQ(upright.v_begin, 0);
  EXPECT_EQ(upright.v_end, 20);
  source.prediction = Tensor::zeros({2, 3, 5}, DType::f32);
  EXPECT_THAT(message_of([&] { horizontal_slice(source, 0); }), HasSubstr("(2, 3, 5)"));
}

TEST(Slices, PanelsShareOneScaleAndShowTheError) {
  const TempFolder folder;
  draw_slices(folder.file("a.png"),
              {.title = "t", .slices = {small_slice(1)}, .low = 0, .high = 8, .error = 2});
  const Picture p(folder.file("a.png"));
  // Truth 0 at the lower left cell: t = 0; prediction 1: t = 1/8; error 1 of [-2, 2]: t = 3/4.
  // Every cell is at least 60 x 60 pixels; count pixels of exactly these colours.
  const int64_t cell = 60 * 60;
  EXPECT_GT(p.count(colour(ColourMap::sequential, 0)), 2 * cell);
  EXPECT_GT(p.count(colour(ColourMap::sequential, 1.0 / 8)), 4 * cell);  // truth and prediction
  EXPECT_GT(p.count(colour(ColourMap::diverging, 0.75)), 11 * cell);     // the whole error panel
  EXPECT_GT(p.count(kGrey), 3 * cell);                                   // the building, thrice
  EXPECT_LT(p.count(kGrey), 8 * 135 * 135);
  EXPECT_EQ(p.count({255, 0, 255}), 0);
}

TEST(Slices, DrawsUWardsRightAndVUpwards) {
  const TempFolder folder;
  Slice s = small_slice(0);
  std::fill(s.truth.begin(), s.truth.end(), 0.0f);
  std::fill(s.open.begin(), s.open.end(), uint8_t{1});
  s.truth[0 * 3 + 2] = 8;  // u = 0, v = 2: the upper left corner
  s.prediction = s.truth;
  draw_slices(folder.file("a.png"), {.title = "t", .slices = {s}, .low = 0, .high = 10});
  const Picture p(folder.file("a.png"));
  const auto [x, y] = p.first(colour(ColourMap::sequential, 0.8));
  const auto [x0, y0] = p.first(colour(ColourMap::sequential, 0));
  ASSERT_GE(x, 0);
  EXPECT_LT(x, x0);                // the corner cell is left of the first other one of its row
  EXPECT_LE(std::abs(y - y0), 1);  // and on the top row
}

TEST(Slices, FollowTheDataUnlessTold) {
  const TempFolder folder;
  Slice spoiled = small_slice(0.5f);
  spoiled.prediction[1] = std::numeric_limits<float>::quiet_NaN();  // shown, but no scale from it
  spoiled.prediction[6] = 1e9f;                                     // in the building: ignored
  draw_slices(folder.file("a.png"), {.title = "t", .slices = {spoiled, small_slice(0)}});
  const Picture p(folder.file("a.png"));
  EXPECT_GT(p.count({255, 0, 255}), 2 * 60 * 60);  // in the prediction and in the error
  EXPECT_GT(p.count(colour(ColourMap::sequential, 1)), 60 * 60);  // 4.5 m/s, the largest value
  Slice constant = small_slice(0);
  std::fill(constant.truth.begin(), constant.truth.end(), 3.0f);
  constant.prediction = constant.truth;
  draw_slices(folder.file("b.png"), {.title = "constant, no error", .slices = {constant}});
}

TEST(Slices, RefuseWhatDoesNotFit) {
  const TempFolder folder;
  const std::string path = folder.file("a.png");
  EXPECT_THROW(draw_slices(path, {.title = "none"}), Error);
  Slice s = small_slice(0);
  s.truth.pop_back();
  EXPECT_THAT(message_of([&] { draw_slices(path, {.title = "t", .slices = {s}}); }),
              HasSubstr("'z = 10 m' of 4 x 3 cells has 11 of truth"));
  s = small_slice(0);
  std::fill(s.open.begin(), s.open.end(), uint8_t{0});
  EXPECT_THAT(message_of([&] { draw_slices(path, {.title = "t", .slices = {s}}); }),
              HasSubstr("no open cell"));
  EXPECT_EQ(folder.n_files(), 0);
}

TEST(Curves, AreDrawnWithGapsAndOnALogAxis) {
  const TempFolder folder;
  const std::string path = folder.file("c.png");
  const double nan = std::nan("");
  draw_curves(path, {.title = "Loss",
                     .x_label = "update",
                     .y_label = "loss",
                     .log_y = true,
                     .curves = {{"training", {0, 1, 2, 3, 4}, {1, 0.5, nan, 0.01, 0}},
                                {"validation", {2}, {0.1}}}});
  const Picture p(path);
  EXPECT_EQ(p.width, 1360);
  EXPECT_EQ(p.height, 840);
  EXPECT_LT(p.count({255, 255, 255}), 1360 * 840);
  EXPECT_THAT(message_of([&] {
                draw_curves(path, {.title = "t", .log_y = true, .curves = {{"a", {1}, {-1}}}});
              }),
              HasSubstr("no point"));
  EXPECT_THAT(message_of([&] {
                draw_curves(path, {.title = "t", .curves = {{"a", {1}, {}}}});
              }),
              HasSubstr("curve 'a' has 1 x and 0 y"));
  draw_curves(path, {.title = "one point", .curves = {{"a", {3}, {2}}}});
}

TEST(Pictures, AreTheSameBytesEachTime) {
  const TempFolder folder;
  for (const char* name : {"a.png", "b.png"})
    draw_slices(folder.file(name), {.title = "t", .slices = {small_slice(0.3f)}});
  EXPECT_EQ(test::read_file(folder.file("a.png")), test::read_file(folder.file("b.png")));
}

TEST(Canvas, RefusesSizesThatCannotBe) {
  EXPECT_THROW(Canvas(0, 10), Error);
  EXPECT_THROW(Canvas(10, 1e9), Error);
  Canvas page(10, 10);
  EXPECT_THROW(page.image({0, 0, 5, 5}, 2, 2, {1, 2, 3}), Error);
}

}  // namespace
}  // namespace bora::data
