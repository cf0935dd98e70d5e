// SPDX-License-Identifier: Apache-2.0
#include "data/wind_cells.hpp"

#include <algorithm>
#include <cmath>

#include "core/error.hpp"
#include "data/beyond_range.hpp"
#include "data/wind_files.hpp"

namespace bora::data {

namespace {

Dims3 position(int64_t i, const Tensor& t) {
  return {i / (t.size(1) * t.size(2)), i / t.size(2) % t.size(1), i % t.size(2)};
}

/// "cell (x, y, z)" of the file's grid.
std::string place_of(int64_t i, const Tensor& block, const Window& window) {
  const Dims3 p = position(i, block), first = window.first_in_grid();
  return bora::detail::join("cell (", first.d + p.d, ", ", first.h + p.h, ", ", first.w + p.w, ")");
}

/// Cell i of a block of a file as f64, read anew: f32 is infinite beyond its range.
double value_again(const WindFilesConfig& f, const std::string& path, const std::string& variable,
                   int64_t i, const Tensor& block, const Window& window) {
  const Dims3 p = position(i, block), first = window.first_in_grid();
  return open_wind_file(f, path)
      .read(variable, f.axes, {{first.d + p.d, 1}, {first.h + p.h, 1}, {first.w + p.w, 1}},
            DType::f64)
      .data<double>()[0];
}

}  // namespace

Window kept_window(const WindConfig& config, const Dims3& grid) {
  const int64_t levels = config.shape.w == 0 ? grid.w : std::min(grid.w, config.shape.w);
  return centred_window(grid, {grid.d, grid.h, levels});
}

std::vector<Range> ranges_of(const Window& window) {
  const Dims3 begin = window.first_in_grid(), n = window.overlap();
  return {{begin.d, n.d}, {begin.h, n.h}, {begin.w, n.w}};
}

Tensor open_cells(const Tensor& mask, const WindFilesConfig& f, const std::string& path,
                  const Window& window) {
  Tensor open = Tensor::empty(mask.shape(), DType::u8);
  const float* m = mask.data<float>();
  uint8_t* o = open.data<uint8_t>();
  const float building = static_cast<float>(f.mask_building);
  const float free = static_cast<float>(f.mask_open);
  int64_t n_bad = 0, first_bad = -1;
  for (int64_t i = 0; i < mask.numel(); ++i) {
    o[i] = m[i] == free ? 1 : 0;
    if (m[i] != free && m[i] != building && n_bad++ == 0) first_bad = i;
  }
  if (n_bad == 0) return open;
  double first = double{m[first_bad]};
  if (std::isinf(first)) first = value_again(f, path, f.mask_variable, first_bad, mask, window);
  BORA_FAIL("'", path, "', variable '", f.mask_variable, "': ", n_bad, " of ", mask.numel(),
            " values are neither ", f.mask_building, " (building) nor ", f.mask_open,
            " (open); the first is ", first, " at ", place_of(first_bad, mask, window));
}

int64_t settle_wind(Tensor& wind, Tensor& open, const WindConfig& config, const std::string& path,
                    const Window& window) {
  const WindFilesConfig& f = config.files;
  float* w = wind.data<float>();
  uint8_t* o = open.data<uint8_t>();
  int64_t n_missing = 0, first_missing = -1, n_infinite = 0, first_infinite = -1, n_clipped = 0;
  int64_t n_outside = 0, first_outside = -1;
  float outside = 0;
  const bool clips = !config.clip.empty(), judges = !f.range.empty();
  const float low = clips ? static_cast<float>(config.clip[0]) : 0;
  const float high = clips ? static_cast<float>(config.clip[1]) : 0;
  const float least = judges ? static_cast<float>(f.range[0]) : 0;
  const float most = judges ? static_cast<float>(f.range[1]) : 0;
  for (int64_t i = 0; i < wind.numel(); ++i) {
    if (std::isnan(w[i])) {
      w[i] = 0;
      if (o[i] == 0) continue;
      o[i] = 2;
      if (n_missing++ == 0) first_missing = i;
    } else if (std::isinf(w[i])) {
      if (n_infinite++ == 0) first_infinite = i;
    } else if (judges && (w[i] < least || w[i] > most)) {
      if (n_outside++ == 0) first_outside = i, outside = w[i];
    }
    if (clips && (w[i] < low || w[i] > high)) {
      w[i] = w[i] < low ? low : high;
      n_clipped += o[i] == 1;
    }
  }
  const auto count = [&](int64_t n) {
    return bora::detail::join("'", path, "', variable '", f.wind_variable, "': ", n, " of ",
                              wind.numel(), " values are ");
  };
  if (n_infinite > 0) {
    const double first = value_again(f, path, f.wind_variable, first_infinite, wind, window);
    BORA_CHECK(!is_beyond_f32(first), count(n_infinite), kBeyondF32, ", the first is ", first,
               " at ", place_of(first_infinite, wind, window));
    BORA_FAIL(count(n_infinite), "infinite, the first at ", place_of(first_infinite, wind, window));
  }
  BORA_CHECK(n_outside == 0, count(n_outside), "outside data.files.range = [", f.range[0], ", ",
             f.range[1], "] m/s, the first is ", outside, " at ",
             place_of(first_outside, wind, window));
  BORA_CHECK(n_missing == 0 || f.missing == "mask", count(n_missing),
             "missing (NaN or fill value) in open cells, the first at ",
             place_of(first_missing, wind, window),
             "; data.files.missing = \"mask\" leaves such cells out of the region");
  return n_clipped;
}

}  // namespace bora::data
