// SPDX-License-Identifier: Apache-2.0
// Pooling of a target within its region: what losses at coarser levels compare with.
#pragma once

#include "core/tensor.hpp"

namespace bora::kernels {

/// The extents of a volume whose blocks of `block` cells become one: rounded down, so that cells
/// behind the last whole block belong to none.  Throws Error if a block is larger than the volume.
Dims3 blocks_of(Dims3 volume, Dims3 block);

/// For each block of `block` cells, with the cells of it that are in the region:
///   pooled = mean of the target over those cells (0 if there are none),
///   pooled_region = 1 if at least half of the block's cells are in the region, else 0.
/// target (N, D, H, W, K) f32 (f64 on the CPU, for tests); region (N, D, H, W) u8, 1 = counts, or
/// undefined: all cells; pooled (N, D', H', W', K) of target's type and pooled_region (N, D', H',
/// W') u8, with D', H', W' of blocks_of().  Values outside the region are never read into a sum.
/// Sums in f64, in memory order: the same bits always.
void masked_mean_pool(Stream stream, Dims3 block, const Tensor& target, const Tensor& region,
                      Tensor& pooled, Tensor& pooled_region);

}  // namespace bora::kernels
