// SPDX-License-Identifier: Apache-2.0
// Pooling by 2x2x2 and trilinear interpolation up to twice the extent, 8 channels (16 bytes) a
// thread.  Each returns false, having done nothing, where packs do not fit (channels not a multiple
// of a pack, addresses, 2^31 packs or more, other ratios): the caller then goes element by element,
// with the same result.  Arguments are checked by the functions of the same name in kernels/.
//
// Bytes, with A = the large side: max-pool forward reads A, writes A / 8 and the winners; backward
// reads A / 8 and the winners, writes A (adding also reads A); trilinear by 2 reads A / 8, writes
// A; backward reads A (each number by up to 8 threads, from the caches but for the first), writes A
// / 8.
#pragma once

#include "core/tensor.hpp"
#include "kernels/gradient_mode.hpp"

namespace bora::kernels::cuda {

bool max_pool2_forward(Stream stream, const Tensor& x, Tensor& y, Tensor& winner);
bool max_pool2_backward(Stream stream, const Tensor& dy, const Tensor& winner, GradientMode mode,
                        Tensor& dx);
bool upsample_trilinear_forward(Stream stream, const Tensor& x, Tensor& y);
bool upsample_trilinear_backward(Stream stream, const Tensor& dy, Tensor& dx);

}  // namespace bora::kernels::cuda
