// SPDX-License-Identifier: Apache-2.0
// Transforms of a training sample, as pure functions of a key.
#pragma once

#include <array>

#include "core/rng.hpp"
#include "data/dataset.hpp"
#include "data/transforms/config.hpp"

namespace bora::data {

/// What was drawn for the geometry of one sample.  In this order: zoom and rotation about the
/// centre, elastic warp (one interpolation for all three), mirrors, quarter turns (exact copies).
/// Along an axis on which the patch has one cell nothing is moved, and nothing turns about the
/// others: a slice stays a slice.
struct Geometry {
  std::array<bool, 3> flip{};              ///< along x, y, z
  std::array<int, 3> quarter_turns{};      ///< in the planes xy, xz, yz, 0 to 3: the first axis
                                           ///< goes to the second
  std::array<double, 3> rotation_deg{};    ///< about x, then y, then z
  double zoom = 1;                         ///< above 1: things become larger
  double elastic = 0;                      ///< largest displacement of a grid point in cells
  int64_t elastic_spacing = 16;            ///< cells between grid points
  RngKey elastic_key{};                    ///< of the displacements
  std::array<double, 3> spacing{1, 1, 1};  ///< sizes of a cell: rotations are of space, not cells
  bool needs_resampling() const;
  bool is_identity() const;
};

/// A pure function of (config, key), whatever else is switched on.  `spacing` are the sizes of a
/// cell along x, y, z (0: unknown; taken as cubes unless all three are known).
Geometry draw_geometry(const TransformConfig& config, const RngKey& key,
                       const std::array<double, 3>& spacing = {1, 1, 1});

/// Cells to read beyond the patch on each side along x, y, z, so that this geometry finds all its
/// cells; {0, 0, 0} if nothing is resampled.
Dims3 margin_for(const Geometry& geometry, const Dims3& patch);
/// The largest margin that any draw of the configuration asks for.
Dims3 margin_for(const TransformConfig& config, const Dims3& patch,
                 const std::array<double, 3>& spacing = {1, 1, 1});

/// Varies `sample`, whose box is a patch with `margin` more cells on each side, and leaves the
/// patch.  input (X, Y, Z, C) f32 is interpolated trilinearly; target f32 too; target u8, weight,
/// region and valid take the nearest cell, so that labels stay labels and a weight stays with its
/// label.  Cells from beyond the box become padding: input `padding`, target, weight, region and
/// valid 0.  sample.window becomes the patch's.  Labels of sides are swapped where their axis is
/// mirrored.  Throws Error for boxes that do not fit each other.
void apply_geometry(Sample& sample, const Geometry& geometry, const Dims3& margin,
                    const TransformConfig& config, double padding);

/// Noise, blur, brightness, contrast, low resolution, gamma inverted, gamma, in this order, on the
/// input's channels one by one; padding (valid = 0) keeps its values.  Everything else stays.  A
/// pure function of (config, key).
void apply_intensity(Sample& sample, const TransformConfig& config, const RngKey& key);

/// What a dataset calls, after reading the box of patch + 2 * margin_for(draw_geometry(...)):
/// geometry, then intensity.
void apply_transforms(Sample& sample, const Geometry& geometry, const Dims3& margin,
                      const TransformConfig& config, const RngKey& key, double padding);

}  // namespace bora::data
