// SPDX-License-Identifier: Apache-2.0
// BucketPlan: which parts of the gradient buffer are reduced together.
#pragma once

#include "core/flat_buffer.hpp"

#include <cstdint>
#include <vector>

namespace bora {

/// Elements [begin, end) of the buffer, which hold ranges [first_range, last_range) of its layout.
struct Bucket {
  int64_t begin = 0, end = 0;
  int first_range = 0, last_range = 0;
  friend bool operator==(const Bucket&, const Bucket&) = default;
};

/// Sizes in bytes.  A bucket is closed when it has reached its size, so it may be larger by one
/// range: ranges are never cut.
struct BucketSizes {
  /// 0: an eighth of the buffer, at least 1 and at most 25 MiB: large enough that latency does not
  /// count, and never so large that the deep levels of a small U-Net wait for one another.
  int64_t target = 0;
  int64_t first = int64_t{1} << 20;  ///< small: the first reduction starts early
  /// If not 0, the last ranges that together stay within this are a bucket of their own: a short
  /// tail after backward has ended.  1 MiB ends the bucket before it where the first two levels of
  /// a U-Net of base 32 begin (194,400 parameters), whose gradients come last, after the longest
  /// computation.
  int64_t last = int64_t{1} << 20;
};

/// Buckets that tile [0, layout.size()) in order, padding included; each holds one range at least.
/// A buffer below the size of the first bucket is one bucket: there latency is all that counts.
/// No buckets for an empty layout.  A pure function: equal on all ranks for equal arguments.
std::vector<Bucket> plan_buckets(const FlatLayout& layout, DType type, const BucketSizes& sizes);

}  // namespace bora
