// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "data/canvas.hpp"
#include "data/figure.hpp"

namespace bora::data {
namespace {

constexpr Rgb kInk{38, 38, 38}, kFaint{110, 110, 110}, kBuilding{128, 128, 128};

// The page, in points.
constexpr double kPanelWidth = 270, kLeft = 64, kRight = 18, kTop = 22, kTitle = 24, kSubtitle = 20,
                 kHeading = 28, kCaption = 22, kBelowPanel = 52, kPanelGap = 22, kBarGap = 14,
                 kBarWidth = 13, kBarText = 62, kFooter = 6;

struct Scale {
  ColourMap map;
  double low, high;
  bool beyond_low = false, beyond_high = false;  // some values lie outside
  double at(double value) const { return (value - low) / (high - low); }
};

struct Row {
  const Slice* slice;
  double top, height;
};

void check(const Slice& s) {
  const auto n = static_cast<size_t>(s.nu * s.nv);
  BORA_CHECK(s.nu >= 1 && s.nv >= 1 && s.truth.size() == n && s.prediction.size() == n &&
                 s.open.size() == n,
             "draw_slices: slice '", s.label, "' of ", s.nu, " x ", s.nv, " cells has ",
             s.truth.size(), " of truth, ", s.prediction.size(), " of prediction, ", s.open.size(),
             " of mask");
  BORA_CHECK(s.u_end > s.u_begin && s.v_end > s.v_begin, "draw_slices: slice '", s.label,
             "' has no extent: u in [", s.u_begin, ", ", s.u_end, "], v in [", s.v_begin, ", ",
             s.v_end, "]");
}

/// Both scales; values that are not finite count for none.
std::pair<Scale, Scale> scales(const SliceFigure& figure) {
  double least = INFINITY, most = -INFINITY;
  std::vector<double> errors;
  for (const Slice& s : figure.slices)
    for (size_t i = 0; i < s.open.size(); ++i) {
      if (s.open[i] == 0) continue;
      for (const double x : {s.truth[i], s.prediction[i]})
        if (std::isfinite(x)) least = std::min(least, x), most = std::max(most, x);
      const double e = std::abs(double{s.prediction[i]} - double{s.truth[i]});
      if (std::isfinite(e)) errors.push_back(e);
    }
  BORA_CHECK(least <= most, "draw_slices: '", figure.title,
             "': no open cell with a number in truth or prediction");
  Scale field{ColourMap::sequential, figure.low.value_or(least >= 0 ? 0 : least),
              figure.high.value_or(most)};
  if (!(field.high > field.low)) field.high = field.low + 1;  // a constant field
  field.beyond_low = least < field.low;
  field.beyond_high = most > field.high;
  std::sort(errors.begin(), errors.end());
  double limit = figure.error.value_or(
      errors.empty() ? 1 : errors[static_cast<size_t>(0.995 * double(errors.size() - 1))]);
  if (!(limit > 0)) limit = errors.empty() || errors.back() == 0 ? 1 : errors.back();
  Scale error{ColourMap::diverging, -limit, limit};
  error.beyond_low = error.beyond_high = !errors.empty() && errors.back() > limit;
  return {field, error};
}

void draw_panel(Canvas& page, const Rect& at, const Slice& s, const std::vector<float>& values,
                const Scale& scale) {
  std::vector<uint8_t> rgb;
  rgb.reserve(values.size() * 3);
  for (int64_t v = s.nv - 1; v >= 0; --v)  // rows of a picture start at the top
    for (int64_t u = 0; u < s.nu; ++u) {
      const auto i = static_cast<size_t>(u * s.nv + v);
      const Rgb c = s.open[i] ? colour(scale.map, scale.at(values[i])) : kBuilding;
      rgb.insert(rgb.end(), {c.r, c.g, c.b});
    }
  page.image(at, s.nu, s.nv, rgb);
  page.outline(at, kInk, 0.8);
}

void draw_axes(Canvas& page, const Rect& at, const Slice& s, bool with_v) {
  constexpr double kTick = 4;
  const TextStyle below{.size = 11, .across = Align::middle, .down = Align::begin};
  const auto u = detail::ticks(s.u_begin, s.u_end, 4);
  const auto u_text = detail::tick_texts(u);
  for (size_t i = 0; i < u.size(); ++i) {
    const double x = at.x + at.width * (u[i] - s.u_begin) / (s.u_end - s.u_begin);
    page.line({{x, at.bottom()}, {x, at.bottom() + kTick}}, kInk, 0.8);
    page.text(u_text[i], x, at.bottom() + kTick + 4, below);
  }
  page.text(s.u_label, at.x + at.width / 2, at.bottom() + 25, below);
  const int n_v = std::max(3, static_cast<int>(at.height / 50));
  const auto v = detail::ticks(s.v_begin, s.v_end, n_v);
  const auto v_text = detail::tick_texts(v);
  for (size_t i = 0; i < v.size(); ++i) {
    const double y = at.bottom() - at.height * (v[i] - s.v_begin) / (s.v_end - s.v_begin);
    page.line({{at.x, y}, {at.x - kTick, y}}, kInk, 0.8);
    if (with_v)
      page.text(v_text[i], at.x - kTick - 4, y,
                {.size = 11, .across = Align::end, .down = Align::middle});
  }
  if (with_v)
    page.text(s.v_label, at.x - 44, at.y + at.height / 2,
              {.size = 11, .across = Align::middle, .down = Align::end, .upwards = true});
}

void draw_bar(Canvas& page, const Rect& at, const Scale& scale, const std::string& label) {
  constexpr int kSteps = 256;
  constexpr double kPoint = 11;  // height of a pointed end
  std::vector<uint8_t> rgb;
  for (int i = kSteps - 1; i >= 0; --i) {
    const Rgb c = colour(scale.map, (i + 0.5) / kSteps);
    rgb.insert(rgb.end(), {c.r, c.g, c.b});
  }
  page.image(at, 1, kSteps, rgb);
  std::vector<std::pair<double, double>> edge;
  const double middle = at.x + at.width / 2;
  edge.push_back({at.x, at.y});
  if (scale.beyond_high) {
    page.fill({{at.x, at.y}, {middle, at.y - kPoint}, {at.right(), at.y}}, colour(scale.map, 1));
    edge.push_back({middle, at.y - kPoint});
  }
  edge.push_back({at.right(), at.y});
  edge.push_back({at.right(), at.bottom()});
  if (scale.beyond_low) {
    page.fill({{at.x, at.bottom()}, {middle, at.bottom() + kPoint}, {at.right(), at.bottom()}},
              colour(scale.map, 0));
    edge.push_back({middle, at.bottom() + kPoint});
  }
  edge.push_back({at.x, at.bottom()});
  edge.push_back({at.x, at.y});
  page.line(edge, kInk, 0.8);
  const auto t =
      detail::ticks(scale.low, scale.high, std::max(2, static_cast<int>(at.height / 60)));
  const auto text = detail::tick_texts(t);
  double widest = 0;
  for (size_t i = 0; i < t.size(); ++i) {
    const double y = at.bottom() - at.height * scale.at(t[i]);
    const TextStyle style{.size = 11, .down = Align::middle};
    page.line({{at.right(), y}, {at.right() + 4, y}}, kInk, 0.8);
    page.text(text[i], at.right() + 8, y, style);
    widest = std::max(widest, page.text_width(text[i], style));
  }
  page.text(label, at.right() + 8 + widest + 8, at.y + at.height / 2,
            {.size = 11, .across = Align::middle, .down = Align::begin, .upwards = true});
}

}  // namespace

void draw_slices(const std::string& path, const SliceFigure& figure) {
  BORA_CHECK(!figure.slices.empty(), "draw_slices: '", figure.title, "' has no slices");
  for (const Slice& s : figure.slices) check(s);
  const auto [field, error] = scales(figure);

  double y = kTop + kTitle + (figure.subtitle.empty() ? 0 : kSubtitle) + kHeading;
  const double heading = y - 6;
  std::vector<Row> rows;
  for (const Slice& s : figure.slices) {
    y += kCaption;
    // True proportions, unless the panel would be a stripe.
    const double aspect = std::clamp((s.v_end - s.v_begin) / (s.u_end - s.u_begin), 0.25, 1.6);
    rows.push_back({&s, y, kPanelWidth * aspect});
    y += rows.back().height + kBelowPanel;
  }
  const double truth_x = kLeft, prediction_x = truth_x + kPanelWidth + kPanelGap,
               field_bar_x = prediction_x + kPanelWidth + kBarGap,
               error_x = field_bar_x + kBarWidth + kBarText + kPanelGap,
               error_bar_x = error_x + kPanelWidth + kBarGap;
  Canvas page(error_bar_x + kBarWidth + kBarText + kRight, y + kFooter);

  page.text(figure.title, kLeft, kTop, {.size = 17, .down = Align::begin, .bold = true});
  if (!figure.subtitle.empty())
    page.text(figure.subtitle, kLeft, kTop + kTitle,
              {.size = 12, .colour = kFaint, .down = Align::begin});
  const TextStyle column{.size = 14, .across = Align::middle, .bold = true};
  page.text("Truth", truth_x + kPanelWidth / 2, heading, column);
  page.text("Prediction", prediction_x + kPanelWidth / 2, heading, column);
  page.text("Error (prediction - truth)", error_x + kPanelWidth / 2, heading, column);

  for (const Row& row : rows) {
    const Slice& s = *row.slice;
    page.text(s.label, truth_x, row.top - 7, {.size = 12});
    std::vector<float> difference(s.truth.size());
    for (size_t i = 0; i < difference.size(); ++i) difference[i] = s.prediction[i] - s.truth[i];
    const Rect truth{truth_x, row.top, kPanelWidth, row.height};
    const Rect prediction{prediction_x, row.top, kPanelWidth, row.height};
    const Rect errors{error_x, row.top, kPanelWidth, row.height};
    draw_panel(page, truth, s, s.truth, field);
    draw_panel(page, prediction, s, s.prediction, field);
    draw_panel(page, errors, s, difference, error);
    draw_axes(page, truth, s, true);
    draw_axes(page, prediction, s, false);
    draw_axes(page, errors, s, false);
  }
  const double bar_top = rows.front().top,
               bar_height = rows.back().top + rows.back().height - bar_top;
  draw_bar(page, {field_bar_x, bar_top, kBarWidth, bar_height}, field,
           figure.quantity + " (" + figure.unit + ")");
  draw_bar(page, {error_bar_x, bar_top, kBarWidth, bar_height}, error,
           "error (" + figure.unit + ")");

  const double key_x = error_x + kPanelWidth - 12 - 6 - page.text_width("building", {.size = 11});
  page.fill({key_x, kTop, 12, 10}, kBuilding);
  page.text("building", key_x + 18, kTop + 5, {.size = 11, .down = Align::middle});
  page.save(path);
}

}  // namespace bora::data
