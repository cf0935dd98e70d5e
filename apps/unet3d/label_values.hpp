// SPDX-License-Identifier: Apache-2.0
// LabelValues: from classes back to the values that label files have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "data/volumes_config.hpp"

namespace bora::unet3d {

struct LabelValues {
  std::vector<int64_t> of_class;  ///< empty: the classes are the values
  DType type = DType::u8;         ///< u8, or i32 where a value does not fit
  std::string text;               ///< what is written instead of classes, or why not; may be empty

  /// (...) u8 classes to values of the type.
  Tensor restore(const Tensor& classes) const;
};

/// Without volumes.label_map the values are the classes.  With one, each class gets the value that
/// is mapped to it, if every class but 0 has exactly one; where several values became one class
/// nobody can tell them apart again, and class numbers are written, which `text` says.
LabelValues label_values(const data::VolumesConfig& config);

}  // namespace bora::unet3d
