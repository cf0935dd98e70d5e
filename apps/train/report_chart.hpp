// SPDX-License-Identifier: Apache-2.0
// Curves as inline SVG for the report of a run: no script, no font, no file of their own.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace bora::train {

struct Series {
  std::string label;
  std::vector<std::pair<double, double>> points;  ///< by ascending x; a y that is no finite number,
                                                  ///< or not positive on a log axis, makes a gap
  bool dots = false;  ///< few values that belong to moments, such as validations
};

struct Chart {
  std::string title, x_label, y_label;
  bool log_y = false;  ///< taken back where no value is positive
  bool from_zero = false;
  std::vector<Series> series;  ///< at most 6: each has a colour of the page's
  std::vector<double> marks;   ///< upright lines: where a run went on
};

/// The chart as an <svg> element, with its title and values readable without sight.  Of more than
/// some hundred points a series is drawn as the mean over small ranges of x, over a pale band from
/// the least to the largest value there.  Empty if there is nothing to draw.  Colours come from the
/// page: classes line0 to line5.
std::string chart_svg(const Chart& chart);

/// Whether a log axis tells more: all values are positive, and the largest is over 5 times the
/// least.
bool wants_log(const std::vector<Series>& series);

/// Text as it may stand in HTML and in attributes: &, <, >, " and ' are written out, control
/// characters are left out.
std::string html_text(const std::string& text);

}  // namespace bora::train
