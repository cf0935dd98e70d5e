// SPDX-License-Identifier: Apache-2.0
// Mutations of a file's bytes, as pure functions of a Philox key.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/rng.hpp"

namespace bora::fuzz {

/// One to eight changes of `input`: bits, bytes, integers of 1 to 8 bytes (values at the edges of
/// types, either byte order, steps of one), ranges cut out, doubled, zeroed or taken from `other`,
/// the end cut off.  At most `max_bytes` long.  The same key, the same result.
std::string mutate(const std::string& input, const std::string& other, const RngKey& key,
                   size_t max_bytes);

}  // namespace bora::fuzz
