// SPDX-License-Identifier: Apache-2.0
// Random numbers of one purpose out of a sample's key: switching one transform on or off does not
// change what the others draw.
#pragma once

#include <string>
#include <string_view>

#include "core/rng.hpp"

namespace bora::data {

inline RngKey purpose_key(const RngKey& key, std::string_view purpose) {
  return {key.seed, rng_stream("transform." + std::string(purpose), key.stream)};
}

inline double uniform(const RngKey& key, uint64_t i, double low, double high) {
  return low + (high - low) * static_cast<double>(key.uniform(i));
}

/// True in this share of all keys; always for 1, never for 0.
inline bool happens(const RngKey& key, uint64_t i, double share) {
  return static_cast<double>(key.uniform(i)) < share;
}

}  // namespace bora::data
