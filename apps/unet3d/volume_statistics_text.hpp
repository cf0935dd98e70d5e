// SPDX-License-Identifier: Apache-2.0
// The statistics of images as text, for a file of weights.
#pragma once

#include <functional>
#include <string>

#include "data/safetensors.hpp"
#include "data/volume_normalise.hpp"

namespace bora::unet3d {

/// Sets <prefix>normalisation.n, .mean and .m2: a number for each channel, with spaces between; of
/// normalisation=global alone, the others learn nothing.
void statistics_to_texts(const data::VolumeNormaliser& images, const std::string& prefix,
                         data::TextMap& texts);
/// The inverse; `text_of` gives the text of "normalisation.n", ....  Throws Error for text that is
/// no list of numbers.
void statistics_from_texts(data::VolumeNormaliser& images,
                           const std::function<std::string(const std::string& key)>& text_of);

}  // namespace bora::unet3d
