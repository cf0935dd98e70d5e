// SPDX-License-Identifier: Apache-2.0
#include "data/synthetic.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/error.hpp"
#include "core/rng.hpp"
#include "data/angle.hpp"
#include "data/netcdf.hpp"

namespace bora::data {

namespace {

Tensor centres(int64_t n, double spacing) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((static_cast<double>(i) + 0.5) * spacing);
  return Tensor::from(Shape{n}, values);
}

void write_field(const std::string& path, const std::string& variable, const std::string& units,
                 const Tensor& values, const SyntheticWindOptions& o, int layout, int angle) {
  NetcdfWriter out(path);
  out.coordinate("x", centres(o.grid.d, o.spacing_m)).set_attribute("units", "m");
  out.coordinate("y", centres(o.grid.h, o.spacing_m)).set_attribute("units", "m");
  out.coordinate("z", centres(o.grid.w, o.spacing_m)).set_attribute("units", "m");
  hdf5::Storage storage;
  storage.deflate = 4;
  storage.shuffle = true;
  out.variable(variable, {"x", "y", "z"}, values, storage).set_attribute("units", units);
  out.root().set_attribute("Conventions", "CF-1.8");
  out.root().set_attribute("title", "Synthetic wind of a known formula, not a simulation");
  out.root().set_attribute("layout_id", layout);
  out.root().set_attribute("wind_angle_deg", angle);
  out.close();
}

}  // namespace

std::vector<SyntheticBuilding> synthetic_layout(const SyntheticWindOptions& o, int layout,
                                                int angle) {
  const RngKey key{o.seed, rng_stream("synthetic layout", static_cast<uint64_t>(layout))};
  const double x = 0.5 * static_cast<double>(o.grid.d) * o.spacing_m;
  const double y = 0.5 * static_cast<double>(o.grid.h) * o.spacing_m;
  const double z = static_cast<double>(o.grid.w) * o.spacing_m;
  const Direction turn = Direction::of_degrees(angle);
  const auto between = [&](double low, double high, uint64_t i) {
    return low + (high - low) * static_cast<double>(key.uniform(i));
  };
  std::vector<SyntheticBuilding> buildings(static_cast<size_t>(2 + key.below(4, 0)));
  for (size_t b = 0; b < buildings.size(); ++b) {
    const uint64_t i = 8 * (b + 1);
    const double dx = between(-0.6, 0.6, i) * x, dy = between(-0.6, 0.6, i + 1) * y;
    buildings[b].x = x + turn.c * dx - turn.s * dy;
    buildings[b].y = y + turn.s * dx + turn.c * dy;
    buildings[b].half_x = between(0.08, 0.2, i + 2) * x;
    buildings[b].half_y = between(0.08, 0.2, i + 3) * y;
    buildings[b].height = between(0.15, 0.6, i + 4) * z;
  }
  return buildings;
}

bool synthetic_open(const std::vector<SyntheticBuilding>& buildings, double x, double y, double z) {
  return std::none_of(buildings.begin(), buildings.end(), [&](const SyntheticBuilding& b) {
    return std::abs(x - b.x) <= b.half_x && std::abs(y - b.y) <= b.half_y && z <= b.height;
  });
}

double synthetic_wind(const std::vector<SyntheticBuilding>& buildings, double x, double y,
                      double z) {
  if (!synthetic_open(buildings, x, y, z)) return 0;
  constexpr double kFriction = 0.444, kRoughness = 0.1, kKarman = 0.4;
  double speed = kFriction / kKarman * std::log((z + kRoughness) / kRoughness);
  for (const SyntheticBuilding& b : buildings) {
    const double behind = x - (b.x - b.half_x);
    if (behind < 0) continue;
    const double across = (y - b.y) / b.half_y, up = z / b.height;
    speed *= 1 - 0.6 * std::exp(-behind / (4 * b.height) - across * across - up * up);
  }
  return speed;
}

std::vector<std::string> write_synthetic_wind(const std::string& root,
                                              const SyntheticWindOptions& o) {
  if (o.n_layouts < 1 || o.angles.empty() || o.grid.d < 1 || o.grid.h < 1 || o.grid.w < 1 ||
      !(o.spacing_m > 0))
    throw UsageError(
        "synthetic wind: wanted at least one layout, angle and cell, and a spacing above 0");
  namespace fs = std::filesystem;
  const fs::path wind_folder = fs::path(root) / "wind_speed_filled";
  const fs::path mask_folder = fs::path(root) / "mask_buildings";
  fs::create_directories(wind_folder);
  fs::create_directories(mask_folder);
  std::vector<std::string> names;
  for (int layout = 1; layout <= o.n_layouts; ++layout)
    for (int angle : o.angles) {
      const std::vector<SyntheticBuilding> buildings = synthetic_layout(o, layout, angle);
      const Shape shape{o.grid.d, o.grid.h, o.grid.w};
      Tensor wind = Tensor::empty(shape, DType::f32), mask = Tensor::empty(shape, DType::f32);
      int64_t i = 0;
      for (int64_t x = 0; x < o.grid.d; ++x)
        for (int64_t y = 0; y < o.grid.h; ++y)
          for (int64_t z = 0; z < o.grid.w; ++z, ++i) {
            const auto at = [&](int64_t k) { return (static_cast<double>(k) + 0.5) * o.spacing_m; };
            mask.data<float>()[i] = synthetic_open(buildings, at(x), at(y), at(z)) ? 1.0f : -1.0f;
            wind.data<float>()[i] =
                static_cast<float>(synthetic_wind(buildings, at(x), at(y), at(z)));
          }
      const std::string name = bora::detail::join(angle, "VF", layout);
      write_field((wind_folder / (name + "_ws_filled.nc")).string(), "wind_speed", "m s-1", wind, o,
                  layout, angle);
      write_field((mask_folder / (name + "_ws_building_mask.nc")).string(), "building_mask", "1",
                  mask, o, layout, angle);
      names.push_back(name);
    }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace bora::data
