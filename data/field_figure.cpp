// SPDX-License-Identifier: Apache-2.0
#include "data/field_figure.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.hpp"
#include "data/canvas.hpp"
#include "data/figure.hpp"

namespace bora::data {

namespace {

constexpr double kPanel = 260, kGap = 50, kLeft = 50, kTop = 90, kBelow = 60;
constexpr Rgb kInk{38, 38, 38}, kFaint{110, 110, 110};

struct Plane {
  const char *u, *v;  // names of the axes to the right and upwards
  int iu, iv, fixed;
};
constexpr Plane kPlanes[] = {{"x", "y", 0, 1, 2}, {"x", "z", 0, 2, 1}, {"y", "z", 1, 2, 0}};

}  // namespace

void draw_field(const std::string& path, const FieldFigure& figure) {
  const Tensor& t = figure.values;
  BORA_CHECK(t.defined() && t.rank() == 3 && t.dtype() == DType::f32 && t.numel() > 0,
             "draw_field: '", figure.title, "' has no values (X, Y, Z) f32");
  std::array<double, 3> length{};
  for (size_t i = 0; i < 3; ++i)
    length[i] = static_cast<double>(t.size(static_cast<int>(i))) *
                (figure.spacing[i] > 0 ? figure.spacing[i] : 1);
  double tallest = 0;
  std::array<double, 3> heights{};
  for (size_t p = 0; p < 3; ++p) {
    const Plane& plane = kPlanes[p];
    // True proportions, unless the panel would be a stripe.
    heights[p] = kPanel * std::clamp(length[static_cast<size_t>(plane.iv)] /
                                         length[static_cast<size_t>(plane.iu)],
                                     0.25, 1.6);
    tallest = std::max(tallest, heights[p]);
  }
  Canvas page(kLeft + 3 * (kPanel + kGap) + 110, kTop + tallest + kBelow);
  page.text(figure.title, kLeft, 22, {.size = 17, .down = Align::begin, .bold = true});
  page.text(figure.subtitle, kLeft, 46, {.size = 12, .colour = kFaint, .down = Align::begin});
  const double span = figure.high > figure.low ? figure.high - figure.low : 1;
  const auto shade = [&](double value) {
    return colour(ColourMap::sequential, std::isnan(value) ? value : (value - figure.low) / span);
  };
  const float* values = t.data<float>();
  for (size_t p = 0; p < 3; ++p) {
    const Plane& plane = kPlanes[p];
    const int64_t nu = t.size(plane.iu), nv = t.size(plane.iv);
    std::array<int64_t, 3> at{};
    at[static_cast<size_t>(plane.fixed)] = t.size(plane.fixed) / 2;
    std::vector<uint8_t> rgb;
    for (int64_t v = nv - 1; v >= 0; --v)  // rows of a picture start at the top
      for (int64_t u = 0; u < nu; ++u) {
        at[static_cast<size_t>(plane.iu)] = u;
        at[static_cast<size_t>(plane.iv)] = v;
        const Rgb c = shade(values[(at[0] * t.size(1) + at[1]) * t.size(2) + at[2]]);
        rgb.insert(rgb.end(), {c.r, c.g, c.b});
      }
    const Rect rect{kLeft + static_cast<double>(p) * (kPanel + kGap), kTop, kPanel, heights[p]};
    page.image(rect, nu, nv, rgb);
    page.outline(rect, kInk, 0.8);
    const char* names[] = {"x", "y", "z"};
    page.text(bora::detail::join(names[plane.fixed], " = ", t.size(plane.fixed) / 2), rect.x,
              rect.y - 8);
    page.text(bora::detail::join(plane.u, ", ", nu, " cells"), rect.x + kPanel / 2,
              rect.bottom() + 8, {.size = 11, .across = Align::middle, .down = Align::begin});
    page.text(bora::detail::join(plane.v, ", ", nv, " cells"), rect.x - 8, rect.y + rect.height / 2,
              {.size = 11, .across = Align::middle, .down = Align::end, .upwards = true});
  }
  constexpr int kSteps = 256;
  std::vector<uint8_t> rgb;
  for (int i = kSteps - 1; i >= 0; --i) {
    const Rgb c = colour(ColourMap::sequential, (i + 0.5) / kSteps);
    rgb.insert(rgb.end(), {c.r, c.g, c.b});
  }
  const Rect bar{kLeft + 3 * (kPanel + kGap) - 20, kTop, 14, tallest};
  page.image(bar, 1, kSteps, rgb);
  page.outline(bar, kInk, 0.8);
  const std::vector<double> ticks = detail::ticks(figure.low, figure.low + span, 5);
  const std::vector<std::string> texts = detail::tick_texts(ticks);
  for (size_t i = 0; i < ticks.size(); ++i)
    page.text(texts[i], bar.right() + 6, bar.bottom() - bar.height * (ticks[i] - figure.low) / span,
              {.size = 11, .down = Align::middle});
  page.text(figure.quantity, bar.x, bar.bottom() + 8, {.size = 11, .down = Align::begin});
  page.save(path);
}

}  // namespace bora::data
