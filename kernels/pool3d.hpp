// SPDX-License-Identifier: Apache-2.0
// Max and average pooling over windows of a volume batch (N, D, H, W, C).
#pragma once

#include "core/tensor.hpp"
#include "kernels/gradient_mode.hpp"

namespace bora::kernels {

struct Pool3d {
  Dims3 kernel = Dims3::all(2), stride = Dims3::all(2), padding = Dims3::all(0);
};

/// The extents of the result, (in + 2 padding - kernel) / stride + 1 rounded down.  Throws Error if
/// the kernel or stride is below 1, the padding above half of the kernel, or a window larger than
/// the padded input.
Dims3 pooled_size(Dims3 in, const Pool3d& pool);

/// y = maximum over the window's cells inside x; winner (u8, shape of y) = the place of the first
/// largest one, (kd * KH + kh) * KW + kw.  A NaN wins over all, the first one.  At most 255 cells.
void max_pool3d_forward(Stream stream, const Pool3d& pool, const Tensor& x, Tensor& y,
                        Tensor& winner);
/// dx = (or +=) sum of dy over the windows that its cell won.  Gathers.
void max_pool3d_backward(Stream stream, const Pool3d& pool, const Tensor& dy, const Tensor& winner,
                         GradientMode mode, Tensor& dx);
/// y = mean over the window's cells inside x.
void avg_pool3d_forward(Stream stream, const Pool3d& pool, const Tensor& x, Tensor& y);
/// dx = sum of dy / (cells counted) over the windows that hold its cell.  Gathers.
void avg_pool3d_backward(Stream stream, const Pool3d& pool, const Tensor& dy, Tensor& dx);

}  // namespace bora::kernels
