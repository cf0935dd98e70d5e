// SPDX-License-Identifier: Apache-2.0
#include "data/class_figure.hpp"

#include <algorithm>
#include <cmath>

#include "data/canvas.hpp"

namespace bora::data {
namespace {

constexpr Rgb kInk{38, 38, 38}, kFaint{110, 110, 110};
constexpr Rgb kFound{214, 96, 20}, kMissed{30, 96, 200}, kOther{150, 40, 150};

// The page, in points.
constexpr double kPanelWidth = 210, kLeft = 46, kRight = 18, kTop = 22, kTitle = 24, kSubtitle = 20,
                 kHeading = 28, kCaption = 22, kBelowPanel = 30, kPanelGap = 16, kKeyLine = 18,
                 kFooter = 10;

/// Far apart for neighbours in number: turns of the golden angle round the hues.
Rgb class_colour(size_t k) {
  const double hue = 0.4 + 2.39996322972865332 * static_cast<double>(k);
  return from_oklab(0.68, 0.15 * std::cos(hue), 0.15 * std::sin(hue));
}

Rgb mix(Rgb a, Rgb b, double share) {
  const auto one = [&](uint8_t x, uint8_t y) {
    return static_cast<uint8_t>(std::lround(x * (1 - share) + y * share));
  };
  return {one(a.r, b.r), one(a.g, b.g), one(a.b, b.b)};
}

void check(const ClassSlice& s, size_t n_classes) {
  const auto n = static_cast<size_t>(s.nu * s.nv);
  BORA_CHECK(s.nu >= 1 && s.nv >= 1 && s.image.size() == n && s.truth.size() == n &&
                 s.prediction.size() == n && s.counts.size() == n,
             "draw_classes: slice '", s.label, "' of ", s.nu, " x ", s.nv, " cells has ",
             s.image.size(), " of image, ", s.truth.size(), " of truth, ", s.prediction.size(),
             " of prediction, ", s.counts.size(), " of mask");
  BORA_CHECK(s.u_step > 0 && s.v_step > 0, "draw_classes: slice '", s.label, "' has cells of ",
             s.u_step, " x ", s.v_step);
  for (const std::vector<uint8_t>* classes : {&s.truth, &s.prediction})
    for (size_t i = 0; i < n; ++i)
      BORA_CHECK((*classes)[i] < n_classes || s.counts[i] == 0, "draw_classes: slice '", s.label,
                 "' has class ", static_cast<int>((*classes)[i]), ", there are names for ",
                 n_classes);
}

std::vector<Rgb> greys(const ClassSlice& s) {
  std::vector<float> sorted;
  for (const float v : s.image)
    if (std::isfinite(v)) sorted.push_back(v);
  std::sort(sorted.begin(), sorted.end());
  const auto at = [&](double share) {
    return sorted.empty()
               ? 0.0
               : double{
                     sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))]};
  };
  double low = at(0.01), high = at(0.99);
  if (!(high > low)) low = at(0), high = std::max(at(1), low + 1);
  std::vector<Rgb> out;
  for (const float v : s.image) {
    const double t = std::isfinite(v) ? std::clamp((v - low) / (high - low), 0.0, 1.0) : 0.0;
    const auto g = static_cast<uint8_t>(std::lround(235 * t + 10));
    out.push_back({g, g, g});
  }
  return out;
}

std::vector<Rgb> coloured(const ClassSlice& s, const std::vector<Rgb>& grey,
                          const std::vector<uint8_t>& classes) {
  std::vector<Rgb> out = grey;
  for (size_t i = 0; i < out.size(); ++i)
    if (s.counts[i] != 0 && classes[i] != 0) out[i] = mix(grey[i], class_colour(classes[i]), 0.6);
  return out;
}

std::vector<Rgb> differences(const ClassSlice& s, const std::vector<Rgb>& grey) {
  std::vector<Rgb> out = grey;
  for (size_t i = 0; i < out.size(); ++i)
    if (s.counts[i] != 0 && s.truth[i] != s.prediction[i])
      out[i] = s.truth[i] == 0 ? kFound : s.prediction[i] == 0 ? kMissed : kOther;
  return out;
}

void draw_panel(Canvas& page, const Rect& at, const ClassSlice& s, const std::vector<Rgb>& cells) {
  std::vector<uint8_t> rgb;
  rgb.reserve(cells.size() * 3);
  for (int64_t v = s.nv - 1; v >= 0; --v)  // rows of a picture start at the top
    for (int64_t u = 0; u < s.nu; ++u) {
      const Rgb c = cells[static_cast<size_t>(u * s.nv + v)];
      rgb.insert(rgb.end(), {c.r, c.g, c.b});
    }
  page.image(at, s.nu, s.nv, rgb);
  page.outline(at, kInk, 0.8);
}

/// Coloured squares with names, in lines across the page; returns the y below them.
double draw_key(Canvas& page, double y, double width,
                const std::vector<std::pair<Rgb, std::string>>& entries) {
  double x = kLeft;
  for (const auto& [colour, name] : entries) {
    const double need = 18 + page.text_width(name, {.size = 11}) + 18;
    if (x > kLeft && x + need > width - kRight) x = kLeft, y += kKeyLine;
    page.fill(Rect{x, y, 12, 10}, colour);
    page.text(name, x + 18, y + 5, {.size = 11, .down = Align::middle});
    x += need;
  }
  return y + kKeyLine;
}

}  // namespace

void draw_classes(const std::string& path, const ClassFigure& figure) {
  BORA_CHECK(!figure.slices.empty(), "draw_classes: '", figure.title, "' has no slices");
  for (const ClassSlice& s : figure.slices) check(s, figure.classes.size());
  const double width = kLeft + 4 * kPanelWidth + 3 * kPanelGap + kRight;
  constexpr size_t kNamed = 24;  // more would be told apart by nobody
  std::vector<std::pair<Rgb, std::string>> key;
  for (size_t k = 1; k < std::min(figure.classes.size(), kNamed); ++k)
    key.emplace_back(class_colour(k), figure.classes[k]);
  if (figure.classes.size() > kNamed)
    key.emplace_back(kFaint, std::to_string(figure.classes.size() - kNamed) + " more");
  key.insert(key.end(), {{kFound, "found, not in the truth"}, {kMissed, "missed"}});
  if (figure.classes.size() > 2) key.emplace_back(kOther, "another class");

  double y = kTop + kTitle + (figure.subtitle.empty() ? 0 : kSubtitle) + kHeading;
  const double heading = y - 6;
  std::vector<std::pair<double, double>> rows;  // top, height
  for (const ClassSlice& s : figure.slices) {
    y += kCaption;
    const double aspect = std::clamp(
        static_cast<double>(s.nv) * s.v_step / (static_cast<double>(s.nu) * s.u_step), 0.25, 2.5);
    rows.emplace_back(y, kPanelWidth * aspect);
    y += rows.back().second + kBelowPanel;
  }
  const double lines = std::ceil(static_cast<double>(key.size()) / 4);
  Canvas page(width, y + lines * kKeyLine + kFooter);
  page.text(figure.title, kLeft, kTop, {.size = 17, .down = Align::begin, .bold = true});
  if (!figure.subtitle.empty())
    page.text(figure.subtitle, kLeft, kTop + kTitle,
              {.size = 12, .colour = kFaint, .down = Align::begin});
  static constexpr const char* kColumns[] = {"Image", "Truth", "Prediction", "Difference"};
  for (size_t column = 0; column < 4; ++column) {
    const double x = kLeft + static_cast<double>(column) * (kPanelWidth + kPanelGap);
    page.text(kColumns[column], x + kPanelWidth / 2, heading,
              {.size = 14, .across = Align::middle, .bold = true});
    for (size_t i = 0; i < rows.size(); ++i) {
      const ClassSlice& s = figure.slices[i];
      const Rect at{x, rows[i].first, kPanelWidth, rows[i].second};
      const std::vector<Rgb> grey = greys(s);
      draw_panel(page, at, s,
                 column == 0   ? grey
                 : column == 1 ? coloured(s, grey, s.truth)
                 : column == 2 ? coloured(s, grey, s.prediction)
                               : differences(s, grey));
      page.text(s.u_label, at.x + at.width / 2, at.bottom() + 8,
                {.size = 11, .across = Align::middle, .down = Align::begin});
      if (column > 0) continue;
      page.text(s.label, at.x, at.y - 7, {.size = 12});
      page.text(s.v_label, at.x - 10, at.y + at.height / 2,
                {.size = 11, .across = Align::middle, .down = Align::end, .upwards = true});
    }
  }
  draw_key(page, y, width, key);
  page.save(path);
}

std::vector<ClassSlice> telling_slices(const ClassVolume& volume) {
  const Shape s = volume.truth.shape();
  BORA_CHECK(s.rank() == 3 && s.numel() > 0 && volume.prediction.shape() == s &&
                 volume.counts.shape() == s && volume.image.rank() == 4 &&
                 volume.image.numel() == s.numel() * volume.image.size(3),
             "telling_slices: truth ", s, ", prediction ", volume.prediction.shape(), ", counts ",
             volume.counts.shape(), ", image ", volume.image.shape());
  const int64_t strides[3] = {s[1] * s[2], s[2], 1}, channels = volume.image.size(3);
  const uint8_t* truth = volume.truth.data<uint8_t>();
  const uint8_t* prediction = volume.prediction.data<uint8_t>();
  const uint8_t* counts = volume.counts.data<uint8_t>();
  std::array<std::vector<int64_t>, 3> marked;
  for (int a = 0; a < 3; ++a) marked[static_cast<size_t>(a)].resize(static_cast<size_t>(s[a]));
  for (int64_t i = 0; i < s.numel(); ++i)
    if (counts[i] != 0 && (truth[i] != 0 || prediction[i] != 0))
      for (int a = 0; a < 3; ++a)
        ++marked[static_cast<size_t>(a)][static_cast<size_t>(i / strides[a] % s[a])];
  static constexpr const char* kNames[3] = {"x", "y", "z"};
  const bool known = volume.spacing[0] > 0 && volume.spacing[1] > 0 && volume.spacing[2] > 0;
  std::vector<ClassSlice> out;
  for (const auto& [normal, u, v] :
       {std::array{2, 0, 1}, std::array{1, 0, 2}, std::array{0, 1, 2}}) {
    const std::vector<int64_t>& most = marked[static_cast<size_t>(normal)];
    const auto best = std::max_element(most.begin(), most.end());
    const int64_t at = *best > 0 ? best - most.begin() : s[normal] / 2;
    ClassSlice slice;
    slice.label = bora::detail::join(kNames[normal], " = ", at);
    slice.nu = s[u];
    slice.nv = s[v];
    if (known) {
      slice.u_step = volume.spacing[static_cast<size_t>(u)];
      slice.v_step = volume.spacing[static_cast<size_t>(v)];
    }
    slice.u_label = bora::detail::join(kNames[u], ": ", s[u], " cells");
    slice.v_label = bora::detail::join(kNames[v], ": ", s[v], " cells");
    for (int64_t i = 0; i < slice.nu; ++i)
      for (int64_t j = 0; j < slice.nv; ++j) {
        const int64_t cell = at * strides[normal] + i * strides[u] + j * strides[v];
        slice.image.push_back(volume.image.data<float>()[cell * channels]);
        slice.truth.push_back(truth[cell]);
        slice.prediction.push_back(prediction[cell]);
        slice.counts.push_back(counts[cell]);
      }
    out.push_back(std::move(slice));
  }
  return out;
}

}  // namespace bora::data
