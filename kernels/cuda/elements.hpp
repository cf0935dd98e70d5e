// SPDX-License-Identifier: Apache-2.0
// Inner header of kernels/cuda: the element functions of a Backend, as kernels.
#pragma once

#include "core/dtype.hpp"
#include "core/stream.hpp"

namespace bora::kernels::cuda {

/// dst[i] = value.
void fill_elements(Stream stream, void* dst, DType type, double value, int64_t n);
/// dst[i] = src[i], converted as Backend::cast says: the bits are those of the CPU's.
void cast_elements(Stream stream, void* dst, DType dst_type, const void* src, DType src_type,
                   int64_t n);
/// dst[i] += src[i]; floating types but f64.
void accumulate_elements(Stream stream, void* dst, DType dst_type, const void* src, DType src_type,
                         int64_t n);

}  // namespace bora::kernels::cuda
