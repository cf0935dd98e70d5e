// SPDX-License-Identifier: Apache-2.0
// Copies that change places: channels joined and cut, volumes padded and cropped.  Any element
// type; all tensors of a call share it and the device.
#pragma once

#include <vector>

#include "core/tensor.hpp"

namespace bora::kernels {

/// Joins parts along the last axis; the leading extents are equal, y has the sum of the last ones.
void concat_channels(Stream stream, const std::vector<Tensor>& parts, Tensor& y);
/// y = channels [begin, begin + y's last extent) of x.
void slice_channels(Stream stream, int64_t begin, const Tensor& x, Tensor& y);
/// dx = dy in channels [begin, begin + dy's last extent), 0 elsewhere.  Adjoint of slice_channels.
void slice_channels_backward(Stream stream, int64_t begin, const Tensor& dy, Tensor& dx);

/// y[n, d, h, w] = x[n, d - before.d, ...] where that is a cell of x, else `value`.  Volume
/// batches; members of `before` may be negative (which crops).
void pad(Stream stream, Dims3 before, double value, const Tensor& x, Tensor& y);
/// y[n, d, h, w] = x[n, d + offset.d, ...]; the box lies inside x.
void crop(Stream stream, Dims3 offset, const Tensor& x, Tensor& y);

}  // namespace bora::kernels
