// SPDX-License-Identifier: Apache-2.0
// CacheConfig: where the arrays of a data set's files are kept once they were read.
#pragma once

#include <string>
#include <tuple>

#include "core/config.hpp"

namespace bora::data {

/// data/volume_cache.hpp says what each kind does, docs/data/caches.md which to take.
struct CacheConfig {
  std::string kind = "none";
  double limit_gib = 4;
  std::string folder = {};
  int64_t chunks_mib = 64;
  /// No setting: of a dry run, which leaves no trace.  With "disk" nothing is made, kept or removed
  /// in `folder`, which need not be there.
  bool only_looks = false;
  /// No setting: the table's name in messages.
  std::string key = "cache";

  static constexpr auto fields() {
    using C = CacheConfig;
    return std::tuple{
        field("kind", &C::kind,
              "where training keeps what it has read: none; ram: each rank for itself; shared: "
              "one copy for the ranks of a host, in /dev/shm; disk: files in a local folder",
              one_of("none", "ram", "shared", "disk")),
        field("limit_gib", &C::limit_gib,
              "most GiB that it may hold: ram: each rank; shared: each host; disk: the folder, "
              "whoever wrote there; what does not fit is read from its file each time",
              positive),
        field("folder", &C::folder,
              "disk: a folder on this host's own disk, for this and later runs"),
        field(
            "chunks_mib", &C::chunks_mib,
            "with any kind: MiB of unpacked chunks of HDF5 and NetCDF files that a rank keeps from "
            "one read to the next; 0: none",
            between(0, 1 << 20))};
  }
};

}  // namespace bora::data
