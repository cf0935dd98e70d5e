// SPDX-License-Identifier: Apache-2.0
// The settings of task = "segmentation" beside those of its volumes (data/volumes_config.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "core/config.hpp"

namespace bora::unet3d {

struct SegmentationConfig {
  double dice_weight = 1;
  double cross_entropy_weight = 1;
  double smooth = 1e-5;
  bool include_background = false;
  std::string empty_class = "skip";
  std::string best = "dice";
  std::vector<double> overlap = {0.5};

  static constexpr auto fields() {
    using C = SegmentationConfig;
    return std::tuple{
        field("dice_weight", &C::dice_weight, "of 1 - soft Dice in the loss", at_least(0)),
        field("cross_entropy_weight", &C::cross_entropy_weight, "of the cross-entropy in the loss",
              at_least(0)),
        field("smooth", &C::smooth,
              "added to numerator and denominator of the soft Dice, in cells; a class that a "
              "sample and its prediction lack has 1 by it",
              positive),
        field("include_background", &C::include_background,
              "class 0 counts in the soft Dice of the loss, too"),
        field("empty_class", &C::empty_class,
              "the Dice of a class that neither the truth nor the prediction of a case has: skip "
              "(it has none, and no mean counts it), one or zero; where only one of both has it, "
              "it is 0 (docs/segmentation.md)",
              one_of("skip", "one", "zero")),
        field("best", &C::best,
              "what makes best.h5 and early stopping: the mean Dice of the validation, or its loss",
              one_of("dice", "loss")),
        field("overlap", &C::overlap,
              "of neighbouring windows in a validation, share of volumes.patch: one number, or one "
              "for each axis",
              between(0, 0.95))};
  }
};

}  // namespace bora::unet3d
