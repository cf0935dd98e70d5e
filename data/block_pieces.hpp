// SPDX-License-Identifier: Apache-2.0
// A block of an array in pieces, so that what is made of each needs little memory beside the whole.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "core/tensor.hpp"

namespace bora::data {

/// Calls use(begin, count) for boxes that fill the block [begin, begin + count), in C order.  Each
/// ends where a chunk of extents `chunk` does (empty: anywhere), so that none is unpacked twice,
/// and has at most `most` elements where a chunk has not more.  Nothing for a block without
/// elements.
void each_piece(
    std::span<const int64_t> begin, std::span<const int64_t> count, std::span<const int64_t> chunk,
    int64_t most,
    const std::function<void(std::span<const int64_t> begin, std::span<const int64_t> count)>& use);

/// Copies `piece` to where it begins in `whole`, at element `at` of each axis; one type, as many
/// axes.
void put_piece(const Tensor& piece, std::span<const int64_t> at, Tensor& whole);

}  // namespace bora::data
