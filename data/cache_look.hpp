// SPDX-License-Identifier: Apache-2.0
// A cache on a disk that is only looked at: for what may leave nothing behind (a dry run).
#pragma once

#include "data/cache_config.hpp"

namespace bora::data {

/// A kind beside those that settings name: as "disk", but nothing is made, kept or removed in
/// cache.folder, which need not be there.
inline constexpr const char* kDiskLookedAt = "disk, only looked at,";

/// Makes "disk" that kind; others have no trace to leave.
inline void only_look(CacheConfig& config) {
  if (config.kind == "disk") config.kind = kDiskLookedAt;
}

}  // namespace bora::data
