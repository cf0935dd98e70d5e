// SPDX-License-Identifier: Apache-2.0
#include "data/hdf5_narrow.hpp"

#include <hdf5.h>

#include <cstdint>
#include <limits>

namespace bora::data::hdf5::detail {

bool is_native_double(const Dataset& dataset) {
  const Id type(BORA_HDF5(H5Dget_type(dataset.id())));
  return BORA_HDF5(H5Tequal(type.get(), H5T_NATIVE_DOUBLE)) > 0;
}

Tensor narrowed(const Tensor& values) {
  Tensor out = Tensor::empty(values.shape(), DType::f32);
  constexpr double kMost = std::numeric_limits<float>::max();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const double* in = values.data<double>();
  float* to = out.data<float>();
  for (int64_t i = 0; i < values.numel(); ++i)
    to[i] = in[i] > kMost ? kInfinity : in[i] < -kMost ? -kInfinity : static_cast<float>(in[i]);
  return out;
}

}  // namespace bora::data::hdf5::detail
