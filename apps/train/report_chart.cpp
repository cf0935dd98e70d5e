// SPDX-License-Identifier: Apache-2.0
#include "apps/train/report_chart.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "apps/common/text.hpp"
#include "core/error.hpp"
#include "data/figure.hpp"

namespace bora::train {
namespace {

using bora::detail::join;

// In units of the view; the page scales it.
constexpr double kWidth = 640, kHeight = 300, kLeft = 64, kRight = 14, kTop = 40, kBottom = 44;
constexpr size_t kMostPoints = 600, kBins = 300;

std::string number(double value) { return apps::fixed(value, 1); }

struct Axis {
  double low = 0, high = 1, begin = 0, end = 1;  // of the values; of the view
  bool log = false;
  double at(double value) const {
    const double l = log ? std::log10(low) : low, h = log ? std::log10(high) : high;
    const double v = log ? std::log10(value) : value;
    return begin + (v - l) / (h - l) * (end - begin);
  }
};

bool drawable(double y, bool log) { return std::isfinite(y) && (!log || y > 0); }

std::vector<std::pair<double, std::string>> ticks_of(const Axis& axis, int n) {
  std::vector<std::pair<double, std::string>> out;
  if (!axis.log) {
    const std::vector<double> values = data::detail::ticks(axis.low, axis.high, n);
    const std::vector<std::string> texts = data::detail::tick_texts(values);
    for (size_t i = 0; i < values.size(); ++i) out.emplace_back(values[i], texts[i]);
    return out;
  }
  const double decades = std::log10(axis.high / axis.low);
  const std::vector<double> steps = decades > 3   ? std::vector<double>{1}
                                    : decades > 1 ? std::vector<double>{1, 2, 5}
                                                  : std::vector<double>{1, 1.5, 2, 3, 4, 5, 6, 8};
  const int every = std::max(1, static_cast<int>(decades / 8));  // decades from label to label
  for (int e = static_cast<int>(std::floor(std::log10(axis.low))); std::pow(10, e) <= axis.high;
       e += every)
    for (const double step : steps) {
      const double value = step * std::pow(10, e);
      if (value >= axis.low * 0.9999 && value <= axis.high * 1.0001)
        out.emplace_back(value, apps::brief(value));
    }
  return out;
}

/// Pieces between gaps.
std::vector<std::vector<std::pair<double, double>>> pieces_of(const Series& series, bool log) {
  std::vector<std::vector<std::pair<double, double>>> pieces(1);
  for (const auto& point : series.points) {
    if (drawable(point.second, log)) {
      pieces.back().push_back(point);
    } else if (!pieces.back().empty()) {
      pieces.emplace_back();
    }
  }
  return pieces;
}

std::string path_of(const std::vector<std::pair<double, double>>& points, const Axis& x,
                    const Axis& y) {
  std::string d;
  for (const auto& [px, py] : points)
    d += (d.empty() ? "M" : "L") + number(x.at(px)) + "," + number(y.at(py));
  return d;
}

/// A long series as means over ranges of x, on a band from least to largest.
std::string thinned(const Series& series, int colour, const Axis& x, const Axis& y) {
  struct Bin {
    double sum_x = 0, sum = 0, low = 0, high = 0;
    int n = 0;
  };
  std::vector<Bin> bins(kBins);
  for (const auto& [px, py] : series.points) {
    if (!drawable(py, y.log)) continue;
    const double place = (px - x.low) / (x.high - x.low) * static_cast<double>(kBins);
    Bin& bin = bins[static_cast<size_t>(std::clamp(place, 0.0, static_cast<double>(kBins - 1)))];
    bin.low = bin.n == 0 ? py : std::min(bin.low, py);
    bin.high = bin.n == 0 ? py : std::max(bin.high, py);
    bin.sum += py;
    bin.sum_x += px;
    ++bin.n;
  }
  std::vector<std::pair<double, double>> mean, band, back;
  for (const Bin& bin : bins) {
    if (bin.n == 0) continue;
    const double middle = bin.sum_x / bin.n;
    mean.emplace_back(middle, bin.sum / bin.n);
    band.emplace_back(middle, bin.high);
    back.emplace_back(middle, bin.low);
  }
  band.insert(band.end(), back.rbegin(), back.rend());
  return join("<path class=\"band line", colour, "\" d=\"", path_of(band, x, y), "Z\"/>",
              "<path class=\"line line", colour, "\" d=\"", path_of(mean, x, y), "\"/>");
}

std::string draw(const Series& series, int colour, const Axis& x, const Axis& y) {
  if (series.points.size() > kMostPoints) return thinned(series, colour, x, y);
  std::string out;
  for (const auto& piece : pieces_of(series, y.log)) {
    if (piece.empty()) continue;
    if (piece.size() > 1)
      out += join("<path class=\"line line", colour, "\" d=\"", path_of(piece, x, y), "\"/>");
    if (!series.dots && piece.size() > 1) continue;
    for (const auto& [px, py] : piece)
      out += join("<circle class=\"dot line", colour, "\" cx=\"", number(x.at(px)), "\" cy=\"",
                  number(y.at(py)), "\" r=\"2.6\"><title>", html_text(series.label), " ",
                  apps::brief(py), " at ", apps::brief(px), "</title></circle>");
  }
  return out;
}

void widen(Axis& axis) {
  if (axis.high > axis.low) return;
  if (axis.log) {
    axis.low /= 2;
    axis.high *= 2;
  } else {
    const double by = axis.low == 0 ? 1 : 0.5 * std::abs(axis.low);
    axis.low -= by;
    axis.high += by;
  }
}

}  // namespace

std::string html_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') out += c;
    }
  }
  return out;
}

bool wants_log(const std::vector<Series>& series) {
  double low = std::numeric_limits<double>::infinity(), high = 0;
  for (const Series& s : series)
    for (const auto& [x, y] : s.points) {
      if (!std::isfinite(y)) continue;
      if (y <= 0) return false;
      low = std::min(low, y);
      high = std::max(high, y);
    }
  return high > 5 * low;
}

std::string chart_svg(const Chart& chart) {
  BORA_CHECK(chart.series.size() <= 6, "chart_svg: ", chart.series.size(),
             " series, wanted 6 at most");
  constexpr double kInf = std::numeric_limits<double>::infinity();
  Axis x{kInf, -kInf, kLeft, kWidth - kRight}, y{kInf, -kInf, kHeight - kBottom, kTop};
  // A log axis needs something positive.
  for (const Series& s : chart.series)
    for (const auto& point : s.points) y.log = y.log || (chart.log_y && point.second > 0);
  for (const Series& s : chart.series)
    for (const auto& [px, py] : s.points) {
      if (!drawable(py, y.log) || !std::isfinite(px)) continue;
      x.low = std::min(x.low, px);
      x.high = std::max(x.high, px);
      y.low = std::min(y.low, py);
      y.high = std::max(y.high, py);
    }
  if (x.low > x.high) return {};
  if (chart.from_zero && !y.log) y.low = std::min(y.low, 0.0);
  widen(x);
  widen(y);
  if (!y.log) y.high += 0.04 * (y.high - y.low);

  std::ostringstream out;
  out << "<svg viewBox=\"0 0 " << kWidth << ' ' << kHeight << "\" role=\"img\" aria-label=\""
      << html_text(chart.title) << "\"><title>" << html_text(chart.title) << "</title>"
      << "<text class=\"name\" x=\"0\" y=\"14\">" << html_text(chart.title) << "</text>";
  for (const auto& [value, text] : ticks_of(y, 5)) {
    const std::string at = number(y.at(value));
    out << "<line class=\"grid\" x1=\"" << kLeft << "\" x2=\"" << kWidth - kRight << "\" y1=\""
        << at << "\" y2=\"" << at << "\"/><text class=\"tick end\" x=\"" << kLeft - 6 << "\" y=\""
        << number(y.at(value) + 4) << "\">" << text << "</text>";
  }
  for (const auto& [value, text] : ticks_of(x, 7))
    out << "<text class=\"tick middle\" x=\"" << number(x.at(value)) << "\" y=\""
        << kHeight - kBottom + 17 << "\">" << text << "</text>";
  for (const double mark : chart.marks)
    if (mark > x.low && mark < x.high)
      out << "<line class=\"mark\" x1=\"" << number(x.at(mark)) << "\" x2=\"" << number(x.at(mark))
          << "\" y1=\"" << kTop << "\" y2=\"" << kHeight - kBottom << "\"><title>the run went on "
          << "after update " << apps::brief(mark) << "</title></line>";
  out << "<line class=\"axis\" x1=\"" << kLeft << "\" x2=\"" << kWidth - kRight << "\" y1=\""
      << kHeight - kBottom << "\" y2=\"" << kHeight - kBottom << "\"/>"
      << "<text class=\"label middle\" x=\"" << (kLeft + kWidth - kRight) / 2 << "\" y=\""
      << kHeight - 6 << "\">" << html_text(chart.x_label) << "</text>"
      << "<text class=\"label\" x=\"0\" y=\"31\">" << html_text(chart.y_label)
      << (y.log ? " (log scale)" : "") << "</text>";
  double legend = kWidth - kRight;
  for (size_t i = chart.series.size(); i-- > 0 && chart.series.size() > 1;) {
    const std::string& label = chart.series[i].label;
    const double wide = 6.5 * static_cast<double>(label.size()) + 44;  // about, at 12 units
    legend -= wide;
    out << "<line class=\"line line" << i << "\" x1=\"" << number(legend) << "\" x2=\""
        << number(legend + 20) << "\" y1=\"27\" y2=\"27\"/><text class=\"label\" x=\""
        << number(legend + 25) << "\" y=\"31\">" << html_text(label) << "</text>";
  }
  for (size_t i = 0; i < chart.series.size(); ++i)
    out << draw(chart.series[i], static_cast<int>(i), x, y);
  out << "</svg>";
  return out.str();
}

}  // namespace bora::train
