// SPDX-License-Identifier: Apache-2.0
// The picture of a prediction beside its truth.
#pragma once

#include <string>
#include <vector>

#include "data/figure.hpp"
#include "data/wind_dataset.hpp"

namespace bora::unet3d {

/// Truth, prediction and error on a horizontal slice at `height` metres and on a vertical one along
/// x through the tallest building.  `field` (X, Y, Z) f32 in m/s, for the cells of the sample,
/// which has its truth.
data::SliceFigure prediction_figure(const data::WindConfig& config, const data::WindCase& files,
                                    const data::Sample& sample, const Tensor& field, double height);

/// Gives all figures one scale for the fields and one for the errors: the widest that any of them
/// would have.
void share_scales(std::vector<data::SliceFigure>& figures);

/// Draws one such figure.  Writes a PNG.
void draw_prediction(const std::string& path, const data::WindConfig& config,
                     const data::WindCase& files, const data::Sample& sample, const Tensor& field,
                     double height);

}  // namespace bora::unet3d
