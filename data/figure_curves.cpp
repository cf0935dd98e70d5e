// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "data/canvas.hpp"
#include "data/figure.hpp"

namespace bora::data {
namespace {

constexpr Rgb kInk{38, 38, 38}, kGrid{225, 225, 225};
// Colours that stay apart for the colour-blind and in grey: hues of equal chroma, falling
// lightness.
const std::array<Rgb, 6> kColours = {from_oklab(0.55, -0.03, -0.13), from_oklab(0.66, 0.10, 0.12),
                                     from_oklab(0.58, -0.12, 0.05),  from_oklab(0.52, 0.17, 0.07),
                                     from_oklab(0.45, 0.08, -0.14),  from_oklab(0.50, 0.0, 0.0)};

constexpr double kWidth = 680, kHeight = 420, kLeft = 78, kRight = 24, kTop = 52, kBottom = 58;

bool drawable(double x, double y, bool log_y) {
  return std::isfinite(x) && std::isfinite(y) && (!log_y || y > 0);
}

struct Range {
  double low = INFINITY, high = -INFINITY;
  void add(double x) {
    low = std::min(low, x);
    high = std::max(high, x);
  }
  /// Some room at both ends; a single value gets one on either side.
  void widen(double part) {
    const double room = high > low ? part * (high - low) : std::max(std::abs(low), 1.0) * 0.5;
    low -= room;
    high += room;
  }
};

/// Ticks of a log axis over [low, high] (logarithms): decades, with 2 and 5 where there are few.
std::vector<double> log_ticks(double low, double high) {
  std::vector<double> out;
  const double decades = high - low;
  const int every = std::max(1, static_cast<int>(std::ceil(decades / 8)));
  for (int p = static_cast<int>(std::floor(low)); p <= high; ++p) {
    if (p % every != 0) continue;
    for (const double m : {1.0, 2.0, 5.0}) {
      const double at = p + std::log10(m);
      if ((m == 1 || decades < 2.5) && at >= low && at <= high) out.push_back(m * std::pow(10, p));
    }
  }
  return out.size() >= 2 ? out : detail::ticks(std::pow(10, low), std::pow(10, high), 4);
}

std::vector<std::string> log_texts(const std::vector<double>& ticks) {
  std::vector<std::string> out;
  for (const double t : ticks) out.push_back(detail::tick_texts({t}).front());
  return out;
}

}  // namespace

void draw_curves(const std::string& path, const CurveFigure& figure) {
  Range x_range, y_range;
  const auto y_of = [&](double y) { return figure.log_y ? std::log10(y) : y; };
  for (const Curve& curve : figure.curves) {
    BORA_CHECK(curve.x.size() == curve.y.size(), "draw_curves: curve '", curve.label, "' has ",
               curve.x.size(), " x and ", curve.y.size(), " y");
    for (size_t i = 0; i < curve.x.size(); ++i)
      if (drawable(curve.x[i], curve.y[i], figure.log_y)) {
        x_range.add(curve.x[i]);
        y_range.add(y_of(curve.y[i]));
      }
  }
  BORA_CHECK(x_range.low <= x_range.high, "draw_curves: '", figure.title,
             "' has no point that could be drawn", figure.log_y ? " on a log axis" : "");
  if (x_range.low == x_range.high) x_range.widen(0);
  y_range.widen(0.06);

  Canvas page(kWidth, kHeight);
  const Rect frame{kLeft, kTop, kWidth - kLeft - kRight, kHeight - kTop - kBottom};
  const auto px = [&](double x) {
    return frame.x + frame.width * (x - x_range.low) / (x_range.high - x_range.low);
  };
  const auto py = [&](double y) {
    return frame.bottom() - frame.height * (y - y_range.low) / (y_range.high - y_range.low);
  };
  const auto x_ticks = detail::ticks(x_range.low, x_range.high, 6);
  const auto x_texts = detail::tick_texts(x_ticks);
  const auto y_ticks = figure.log_y ? log_ticks(y_range.low, y_range.high)
                                    : detail::ticks(y_range.low, y_range.high, 6);
  const auto y_texts = figure.log_y ? log_texts(y_ticks) : detail::tick_texts(y_ticks);
  for (size_t i = 0; i < x_ticks.size(); ++i) {
    const double x = px(x_ticks[i]);
    page.line({{x, frame.y}, {x, frame.bottom()}}, kGrid, 0.8);
    page.text(x_texts[i], x, frame.bottom() + 8,
              {.size = 11, .across = Align::middle, .down = Align::begin});
  }
  for (size_t i = 0; i < y_ticks.size(); ++i) {
    const double y = py(y_of(y_ticks[i]));
    page.line({{frame.x, y}, {frame.right(), y}}, kGrid, 0.8);
    page.text(y_texts[i], frame.x - 8, y,
              {.size = 11, .across = Align::end, .down = Align::middle});
  }
  page.clip(frame);
  for (size_t c = 0; c < figure.curves.size(); ++c) {
    const Curve& curve = figure.curves[c];
    const Rgb colour = kColours[c % kColours.size()];
    const double dash = c >= kColours.size() ? 5 : 0;  // colours come again, dashed
    std::vector<std::pair<double, double>> run;
    const auto flush = [&] {
      // A lone point has no line: a dot.
      if (run.size() == 1)
        page.fill({run[0].first - 2, run[0].second - 2, 4, 4}, colour);
      else if (run.size() > 1)
        page.line(run, colour, 1.8, dash);
      run.clear();
    };
    for (size_t i = 0; i < curve.x.size(); ++i) {
      if (drawable(curve.x[i], curve.y[i], figure.log_y))
        run.emplace_back(px(curve.x[i]), py(y_of(curve.y[i])));
      else
        flush();
    }
    flush();
  }
  page.unclip();
  page.outline(frame, kInk, 0.8);

  page.text(figure.title, frame.x, 20, {.size = 15, .down = Align::begin, .bold = true});
  page.text(figure.x_label, frame.x + frame.width / 2, frame.bottom() + 32,
            {.size = 12, .across = Align::middle, .down = Align::begin});
  page.text(figure.y_label, 22, frame.y + frame.height / 2,
            {.size = 12, .across = Align::middle, .down = Align::end, .upwards = true});
  // Legend on the title's line, from the right: it covers no curve.
  double x = frame.right();
  for (size_t c = figure.curves.size(); c-- > 0;) {
    const TextStyle style{.size = 12, .across = Align::end, .down = Align::middle};
    page.text(figure.curves[c].label, x, 38, style);
    x -= page.text_width(figure.curves[c].label, style) + 6;
    page.line({{x - 22, 38}, {x, 38}}, kColours[c % kColours.size()], 2.2,
              c >= kColours.size() ? 5 : 0);
    x -= 22 + 16;
  }
  page.save(path);
}

}  // namespace bora::data
