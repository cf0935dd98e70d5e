// SPDX-License-Identifier: Apache-2.0
// What the geometry of a sample is, and how much more than the patch it needs to see.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/error.hpp"
#include "data/transforms/coordinate_map.hpp"
#include "data/transforms/purpose_key.hpp"
#include "data/transforms/transforms.hpp"

namespace bora::data {
namespace {

constexpr std::array<const char*, 3> kPlanes{"xy", "xz", "yz"};

std::array<double, 3> known_spacing(const std::array<double, 3>& spacing) {
  for (const double s : spacing)
    if (!(s > 0)) return {1, 1, 1};
  return spacing;
}

double largest_angle(const TransformConfig& config, size_t axis) {
  if (config.rotation.empty()) return 0;
  return config.rotation.size() == 1 ? config.rotation[0] : config.rotation.at(axis);
}

/// Half of the patch from its centre, in cells, with what the warp may add.
Point reach_of(const Dims3& patch, double elastic) {
  Point half{};
  for (int axis = 0; axis < 3; ++axis)
    half[static_cast<size_t>(axis)] =
        patch[axis] == 1 ? 0 : 0.5 * static_cast<double>(patch[axis] - 1) + elastic;
  return half;
}

/// From how far the source is looked at to cells beyond the patch.
Dims3 cells_beyond(const Point& reach, const Dims3& patch) {
  const auto beyond = [&](int axis) {
    const double half = 0.5 * static_cast<double>(patch[axis] - 1);
    // Coordinates are f32: a rounding is no further cell.
    const double more = reach[static_cast<size_t>(axis)] - half - 1e-4;
    return more > 0 ? static_cast<int64_t>(std::ceil(more)) : int64_t{0};
  };
  return {beyond(0), beyond(1), beyond(2)};
}

void check_patch(const Dims3& patch) {
  BORA_CHECK(patch.d > 0 && patch.h > 0 && patch.w > 0, "margin_for: a patch of ", patch,
             ", wanted cells");
}

}  // namespace

bool Geometry::needs_resampling() const {
  return zoom != 1 || elastic > 0 || rotation_deg != std::array<double, 3>{};
}

bool Geometry::is_identity() const {
  return !needs_resampling() && flip == std::array<bool, 3>{} &&
         quarter_turns == std::array<int, 3>{};
}

Geometry draw_geometry(const TransformConfig& config, const RngKey& key,
                       const std::array<double, 3>& spacing) {
  Geometry g;
  g.spacing = known_spacing(spacing);
  const RngKey flips = purpose_key(key, "flip");
  const std::array<double, 3> shares{config.flip_x, config.flip_y, config.flip_z};
  for (size_t a = 0; a < 3; ++a) g.flip[a] = happens(flips, a, shares[a]);

  const RngKey turns = purpose_key(key, "quarter_turns");
  for (size_t plane = 0; plane < 3; ++plane) {
    const auto& wanted = config.quarter_turns;
    if (std::find(wanted.begin(), wanted.end(), kPlanes[plane]) == wanted.end()) continue;
    if (happens(turns, 2 * plane, config.quarter_turns_probability))
      g.quarter_turns[plane] = static_cast<int>(turns.bits(2 * plane + 1) >> 30);
  }

  const RngKey rotation = purpose_key(key, "rotation");
  if (!config.rotation.empty() && happens(rotation, 0, config.rotation_probability))
    for (size_t a = 0; a < 3; ++a) {
      const double largest = largest_angle(config, a);
      g.rotation_deg[a] = uniform(rotation, 1 + a, -largest, largest);
    }

  // Half as large is as likely as twice as large.
  const RngKey zoom = purpose_key(key, "zoom");
  if (!config.zoom.empty() && happens(zoom, 0, config.zoom_probability))
    g.zoom = std::exp(uniform(zoom, 1, std::log(config.zoom.at(0)), std::log(config.zoom.at(1))));

  const RngKey elastic = purpose_key(key, "elastic");
  g.elastic_spacing = config.elastic_spacing;
  if (config.elastic > 0 && happens(elastic, 0, config.elastic_probability)) {
    g.elastic = uniform(elastic, 1, 0, config.elastic);
    g.elastic_key = purpose_key(key, "elastic.points");
  }
  return g;
}

Dims3 margin_for(const Geometry& geometry, const Dims3& patch) {
  check_patch(patch);
  if (!geometry.needs_resampling()) return {};
  const Matrix3 m = source_matrix(geometry, patch);
  const Point half = reach_of(patch, geometry.elastic);
  Point reach{};
  for (size_t i = 0; i < 3; ++i)
    for (size_t j = 0; j < 3; ++j) reach[i] += std::abs(m[i][j]) * half[j];
  return cells_beyond(reach, patch);
}

Dims3 margin_for(const TransformConfig& config, const Dims3& patch,
                 const std::array<double, 3>& spacing) {
  check_patch(patch);
  const std::array<double, 3> size = known_spacing(spacing);
  Point reach = reach_of(patch, config.elastic);
  // A box turned by up to t reaches as far along its first axis as a cos t + b sin t at most, which
  // is largest at tan t = b / a.  The turns come one after another, about z first (source_matrix).
  for (int axis = 2; axis >= 0; --axis) {
    const int first = (axis + 1) % 3, second = (axis + 2) % 3;
    if (patch[first] == 1 || patch[second] == 1) continue;
    const double largest =
        largest_angle(config, static_cast<size_t>(axis)) * std::numbers::pi / 180;
    const auto a = static_cast<size_t>(first), b = static_cast<size_t>(second);
    const double ra = reach[a] * size[a], rb = reach[b] * size[b];
    const auto turned = [largest](double along, double across) {
      const double t = std::min(largest, std::atan2(across, along));
      return along * std::cos(t) + across * std::sin(t);
    };
    reach[a] = turned(ra, rb) / size[a];
    reach[b] = turned(rb, ra) / size[b];
  }
  if (!config.zoom.empty())
    for (double& r : reach) r = std::max(r, r / config.zoom.at(0));
  return cells_beyond(reach, patch);
}

}  // namespace bora::data
