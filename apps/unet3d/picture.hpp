// SPDX-License-Identifier: Apache-2.0
// The picture of a prediction beside its truth.
#pragma once

#include <string>

#include "data/wind_dataset.hpp"

namespace bora::unet3d {

/// Draws truth, prediction and error on a horizontal slice at `height` metres and on a vertical one
/// along x through the tallest building.  `field` (X, Y, Z) f32 in m/s as from predict_field; the
/// sample has its truth.  Writes a PNG.
void draw_prediction(const std::string& path, const data::WindConfig& config,
                     const data::WindCase& files, const data::Sample& sample, const Tensor& field,
                     double height);

}  // namespace bora::unet3d
