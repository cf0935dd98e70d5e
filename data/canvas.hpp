// SPDX-License-Identifier: Apache-2.0
// Canvas: lines, text and images on a page; the one place that knows the drawing library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/colour_map.hpp"

namespace bora::data {

struct Rect {
  double x = 0, y = 0, width = 0, height = 0;
  double right() const { return x + width; }
  double bottom() const { return y + height; }
};

enum class Align { begin, middle, end };

struct TextStyle {
  double size = 12;
  Rgb colour{38, 38, 38};
  Align across = Align::begin;  ///< what of the text is at x: its left, middle or right
  Align down = Align::end;      ///< what is at y: top of capitals, their middle, the base line
  bool bold = false;
  bool upwards = false;  ///< turned by 90 degrees, read from below
};

/// A white page; x to the right, y down, in points.  The picture has `scale` pixels a point.
class Canvas {
 public:
  Canvas(double width, double height, double scale = 2);
  ~Canvas();
  Canvas(const Canvas&) = delete;
  Canvas& operator=(const Canvas&) = delete;

  void fill(const Rect& rect, Rgb colour);
  void fill(const std::vector<std::pair<double, double>>& polygon, Rgb colour);
  void outline(const Rect& rect, Rgb colour, double line_width = 1);
  /// Joined points; `dash` 0 for a solid line.
  void line(const std::vector<std::pair<double, double>>& points, Rgb colour, double line_width = 1,
            double dash = 0);
  void text(const std::string& text, double x, double y, const TextStyle& style = {});
  double text_width(const std::string& text, const TextStyle& style = {});
  /// rgb (ny, nx, 3), rows from the top, each cell a rectangle of one colour.
  void image(const Rect& rect, int64_t nx, int64_t ny, const std::vector<uint8_t>& rgb);
  /// Drawing outside `rect` has no effect until unclip().
  void clip(const Rect& rect);
  void unclip();

  /// Writes a PNG, atomically.  Throws Error naming the path.
  void save(const std::string& path);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bora::data
