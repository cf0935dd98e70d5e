// SPDX-License-Identifier: Apache-2.0
// The settings of the transforms that vary training samples, and what is refused at the start.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "core/config.hpp"
#include "core/shape.hpp"

namespace bora::data {

/// Each transform is off until it has a strength; its probability is the share of the samples that
/// it is drawn for.  Strengths and shares named as usual are those of Isensee et al., "nnU-Net",
/// Nature Methods 2021, supplement, section 4.
struct TransformConfig {
  double flip_x = 0;
  double flip_y = 0;
  double flip_z = 0;
  std::vector<std::string> quarter_turns;
  double quarter_turns_probability = 1;
  std::vector<double> rotation;
  double rotation_probability = 0.2;
  std::vector<double> zoom;
  double zoom_probability = 0.2;
  double elastic = 0;
  int64_t elastic_spacing = 16;
  double elastic_probability = 0.2;
  std::vector<double> noise;
  double noise_probability = 0.1;
  std::vector<double> blur;
  double blur_probability = 0.2;
  std::vector<double> brightness;
  double brightness_probability = 0.15;
  std::vector<double> contrast;
  double contrast_probability = 0.15;
  std::vector<double> low_resolution;
  double low_resolution_probability = 0.25;
  std::string low_resolution_axes = "all";
  std::vector<double> gamma;
  double gamma_probability = 0.3;
  double gamma_inverted_probability = 0.1;
  bool gamma_keeps_moments = true;
  std::string sides = "none";
  std::vector<std::string> swap_labels;

  static constexpr auto fields() {
    using C = TransformConfig;
    return std::tuple{
        field("flip_x", &C::flip_x, "share of the training samples whose x is mirrored; 0 = off",
              between(0, 1)),
        field("flip_y", &C::flip_y, "the same for y", between(0, 1)),
        field("flip_z", &C::flip_z, "the same for z", between(0, 1)),
        field(
            "quarter_turns", &C::quarter_turns,
            "planes in which samples are turned by 0, 90, 180 or 270 degrees, each equally often; "
            "an odd turn wants as many cells along both axes",
            one_of("xy", "xz", "yz")),
        field("quarter_turns_probability", &C::quarter_turns_probability,
              "share of the samples that draw a turn", between(0, 1)),
        field("rotation", &C::rotation,
              "largest angle in degrees about x, y and z, or one for all; empty: off",
              between(0, 45)),
        field("rotation_probability", &C::rotation_probability, "share of the samples",
              between(0, 1)),
        field("zoom", &C::zoom,
              "lowest and highest factor, above 1 larger; usual 0.7,1.4; empty: off",
              between(0.25, 4)),
        field("zoom_probability", &C::zoom_probability, "share of the samples", between(0, 1)),
        field("elastic", &C::elastic,
              "largest displacement, in cells, of the points of a coarse grid between which the "
              "warp is smooth; below a sixth of elastic_spacing, so that nothing folds; 0 = off",
              at_least(0)),
        field("elastic_spacing", &C::elastic_spacing, "cells between the points of that grid",
              between(2, 1024)),
        field("elastic_probability", &C::elastic_probability, "share of the samples",
              between(0, 1)),
        field("noise", &C::noise,
              "lowest and highest standard deviation of added normal noise, in units of the "
              "normalised image; usual 0,0.3; empty: off",
              between(0, 100)),
        field("noise_probability", &C::noise_probability, "share of the samples", between(0, 1)),
        field("blur", &C::blur,
              "lowest and highest sigma of a Gaussian blur in cells; usual 0.5,1; empty: off",
              between(0, 16)),
        field("blur_probability", &C::blur_probability, "share of the samples", between(0, 1)),
        field("brightness", &C::brightness,
              "lowest and highest number added to the image, in units of the normalised image; "
              "empty: off",
              between(-100, 100)),
        field("brightness_probability", &C::brightness_probability, "share of the samples",
              between(0, 1)),
        field("contrast", &C::contrast,
              "lowest and highest factor on the distance from the mean, cut at the range that the "
              "image had; usual 0.75,1.25; empty: off",
              between(0, 100)),
        field("contrast_probability", &C::contrast_probability, "share of the samples",
              between(0, 1)),
        field("low_resolution", &C::low_resolution,
              "lowest and highest share of the cells along an axis to which the image is brought "
              "down, and up again; usual 0.5,1; empty: off",
              between(0.05, 1)),
        field("low_resolution_probability", &C::low_resolution_probability, "share of the samples",
              between(0, 1)),
        field("low_resolution_axes", &C::low_resolution_axes,
              "all: along all axes alike; one: along one, drawn (thick slices)",
              one_of("all", "one")),
        field("gamma", &C::gamma,
              "lowest and highest exponent on the image brought to 0 to 1; usual 0.7,1.5; empty: "
              "off",
              between(0.1, 10)),
        field("gamma_probability", &C::gamma_probability, "share of the samples", between(0, 1)),
        field("gamma_inverted_probability", &C::gamma_inverted_probability,
              "share of the samples that get gamma on the inverted image, before the other",
              between(0, 1)),
        field("gamma_keeps_moments", &C::gamma_keeps_moments,
              "bring mean and standard deviation back to what they were before gamma"),
        field("sides", &C::sides,
              "axis along which labels name sides (left and right): what would make them false is "
              "refused",
              one_of("none", "x", "y", "z")),
        field("swap_labels", &C::swap_labels,
              "pairs of labels that change places where the axis of `sides` is mirrored: 1:2"),
    };
  }
};

/// What the samples are, for check_transforms.
struct TransformUse {
  enum class Input { image, building_mask };
  Input input = Input::image;
  Dims3 patch{0, 0, 0};   ///< cells of a sample along x, y, z; 0: unknown, as large as the case
  int64_t n_classes = 0;  ///< labels are below it; 0: unknown, or no labels
  std::string prefix = "volumes.transforms";  ///< of the keys, for messages
};

/// Throws UsageError naming the key, what it has, and why it cannot be: a list of another length
/// than it must have, a range upside down, a warp that could fold, odd quarter turns of a patch
/// that is not square, mirrors and turns that make labels of sides false, labels to swap that are
/// no labels, and anything at all for building masks (their mirrors, turns and noise are those of
/// AugmentConfig).
void check_transforms(const TransformConfig& config, const TransformUse& use);

}  // namespace bora::data
