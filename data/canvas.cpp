// SPDX-License-Identifier: Apache-2.0
#include "data/canvas.hpp"

#include <cairo.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "data/image.hpp"

namespace bora::data {
namespace {

void set_colour(cairo_t* c, Rgb colour) {
  cairo_set_source_rgb(c, colour.r / 255.0, colour.g / 255.0, colour.b / 255.0);
}

void path(cairo_t* c, const std::vector<std::pair<double, double>>& points) {
  for (size_t i = 0; i < points.size(); ++i)
    i == 0 ? cairo_move_to(c, points[i].first, points[i].second)
           : cairo_line_to(c, points[i].first, points[i].second);
}

}  // namespace

struct Canvas::Impl {
  double scale;
  cairo_surface_t* surface;
  cairo_t* c;
  /// A drawing library that fails in silence leaves a white picture: ask it.
  void check(const char* what) const {
    cairo_status_t status = cairo_status(c);
    if (status == CAIRO_STATUS_SUCCESS) status = cairo_surface_status(surface);
    BORA_CHECK(status == CAIRO_STATUS_SUCCESS, "cairo: ", what, ": ",
               cairo_status_to_string(status));
  }
  void select(const TextStyle& style) const {
    // A missing family is replaced by another one, in the end by a font inside the library.
    cairo_select_font_face(c, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                           style.bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c, style.size);
  }
};

Canvas::Canvas(double width, double height, double scale) {
  BORA_CHECK(
      width >= 1 && height >= 1 && scale > 0 && width * scale <= 30000 && height * scale <= 30000,
      "Canvas: ", width, " x ", height, " points with ", scale, " pixels each cannot be drawn");
  cairo_surface_t* surface =
      cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(std::ceil(width * scale)),
                                 static_cast<int>(std::ceil(height * scale)));
  impl_ = std::make_unique<Impl>(Impl{scale, surface, cairo_create(surface)});
  cairo_scale(impl_->c, scale, scale);
  set_colour(impl_->c, {255, 255, 255});
  cairo_paint(impl_->c);
}

Canvas::~Canvas() {
  cairo_destroy(impl_->c);
  cairo_surface_destroy(impl_->surface);
}

void Canvas::fill(const Rect& rect, Rgb colour) {
  set_colour(impl_->c, colour);
  cairo_rectangle(impl_->c, rect.x, rect.y, rect.width, rect.height);
  cairo_fill(impl_->c);
}

void Canvas::fill(const std::vector<std::pair<double, double>>& polygon, Rgb colour) {
  set_colour(impl_->c, colour);
  path(impl_->c, polygon);
  cairo_close_path(impl_->c);
  cairo_fill(impl_->c);
}

void Canvas::outline(const Rect& rect, Rgb colour, double line_width) {
  set_colour(impl_->c, colour);
  cairo_set_line_width(impl_->c, line_width);
  cairo_set_dash(impl_->c, nullptr, 0, 0);
  cairo_rectangle(impl_->c, rect.x, rect.y, rect.width, rect.height);
  cairo_stroke(impl_->c);
}

void Canvas::line(const std::vector<std::pair<double, double>>& points, Rgb colour,
                  double line_width, double dash) {
  set_colour(impl_->c, colour);
  cairo_set_line_width(impl_->c, line_width);
  cairo_set_line_join(impl_->c, CAIRO_LINE_JOIN_ROUND);
  cairo_set_dash(impl_->c, &dash, dash > 0 ? 1 : 0, 0);
  path(impl_->c, points);
  cairo_stroke(impl_->c);
}

double Canvas::text_width(const std::string& text, const TextStyle& style) {
  impl_->select(style);
  cairo_text_extents_t extents;
  cairo_text_extents(impl_->c, text.c_str(), &extents);
  return extents.x_advance;
}

void Canvas::text(const std::string& text, double x, double y, const TextStyle& style) {
  cairo_t* c = impl_->c;
  const double width = text_width(text, style);
  // Heights from a capital, so that texts with and without descenders stand on one line.
  cairo_text_extents_t capital;
  cairo_text_extents(c, "H", &capital);
  const auto part = [](Align a) { return a == Align::begin ? 0 : a == Align::middle ? 0.5 : 1; };
  cairo_save(c);
  cairo_translate(c, x, y);
  if (style.upwards) cairo_rotate(c, -M_PI / 2);
  cairo_move_to(c, -width * part(style.across), capital.height * (1 - part(style.down)));
  set_colour(c, style.colour);
  cairo_show_text(c, text.c_str());
  cairo_restore(c);
}

void Canvas::image(const Rect& rect, int64_t nx, int64_t ny, const std::vector<uint8_t>& rgb) {
  BORA_CHECK(nx >= 1 && ny >= 1 && static_cast<int64_t>(rgb.size()) == 3 * nx * ny,
             "Canvas::image: ", nx, " x ", ny, " cells want ", 3 * nx * ny, " bytes, got ",
             rgb.size());
  cairo_surface_t* cells =
      cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(nx), static_cast<int>(ny));
  unsigned char* data = cairo_image_surface_get_data(cells);
  const int stride = cairo_image_surface_get_stride(cells);
  for (int64_t y = 0; data != nullptr && y < ny; ++y)
    for (int64_t x = 0; x < nx; ++x) {
      const uint8_t* from = rgb.data() + 3 * (y * nx + x);
      const uint32_t pixel = uint32_t{from[0]} << 16 | uint32_t{from[1]} << 8 | from[2];
      std::copy_n(reinterpret_cast<const unsigned char*>(&pixel), 4, data + y * stride + 4 * x);
    }
  cairo_surface_mark_dirty(cells);
  cairo_t* c = impl_->c;
  cairo_save(c);
  cairo_translate(c, rect.x, rect.y);
  cairo_scale(c, rect.width / static_cast<double>(nx), rect.height / static_cast<double>(ny));
  cairo_set_source_surface(c, cells, 0, 0);
  cairo_pattern_set_filter(cairo_get_source(c), CAIRO_FILTER_NEAREST);
  cairo_rectangle(c, 0, 0, static_cast<double>(nx), static_cast<double>(ny));
  cairo_fill(c);
  cairo_restore(c);
  cairo_surface_destroy(cells);
  impl_->check("drawing an image");
}

void Canvas::clip(const Rect& rect) {
  cairo_rectangle(impl_->c, rect.x, rect.y, rect.width, rect.height);
  cairo_clip(impl_->c);
}
void Canvas::unclip() { cairo_reset_clip(impl_->c); }

void Canvas::save(const std::string& path) {
  impl_->check("drawing");
  cairo_surface_flush(impl_->surface);
  const int width = cairo_image_surface_get_width(impl_->surface);
  const int height = cairo_image_surface_get_height(impl_->surface);
  const int stride = cairo_image_surface_get_stride(impl_->surface);
  const unsigned char* data = cairo_image_surface_get_data(impl_->surface);
  BORA_CHECK(data != nullptr, "cairo: no picture for ", path);
  std::vector<uint8_t> rgb;
  rgb.reserve(static_cast<size_t>(width) * static_cast<size_t>(height) * 3);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      uint32_t pixel = 0;
      std::copy_n(data + y * stride + 4 * x, 4, reinterpret_cast<unsigned char*>(&pixel));
      for (const int shift : {16, 8, 0}) rgb.push_back(static_cast<uint8_t>(pixel >> shift));
    }
  // A point is 1/96 inch, as in CSS.
  const auto density = static_cast<int64_t>(std::lround(96 * impl_->scale / 0.0254));
  write_png(path, width, height, rgb, density);
}

}  // namespace bora::data
