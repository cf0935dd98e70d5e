// SPDX-License-Identifier: Apache-2.0
#include "comm/bucket_plan.hpp"

#include <algorithm>

namespace bora {

std::vector<Bucket> plan_buckets(const FlatLayout& layout, DType type, const BucketSizes& sizes) {
  BORA_CHECK(sizes.target >= 0 && sizes.first > 0 && sizes.last >= 0,
             "plan_buckets: sizes must be positive (or 0: target automatic, no tail), got target ",
             sizes.target, ", first ", sizes.first, ", last ", sizes.last, " bytes");
  const int n = static_cast<int>(layout.ranges().size());
  const int64_t item = size_of(type);
  const int64_t target =
      sizes.target > 0 ? sizes.target
                       : std::clamp(layout.size() * item / 8, int64_t{1} << 20, int64_t{25} << 20);
  const auto begin_of = [&](int i) { return i < n ? layout.range(i).offset : layout.size(); };
  // The tail: as many of the last ranges as stay below the limit, but never all of them.
  int tail = n;
  if (sizes.last > 0 && layout.size() * item >= sizes.first)
    while (tail > 1 && (layout.size() - begin_of(tail - 1)) * item <= sizes.last) --tail;
  std::vector<Bucket> buckets;
  int first = 0;
  for (int i = 0; i < n; ++i) {
    const int64_t begin = begin_of(first), end = begin_of(i + 1);
    const int64_t wanted = buckets.empty() ? std::min(sizes.first, target) : target;
    if ((end - begin) * item < wanted && i + 1 != n && i + 1 != tail) continue;
    buckets.push_back({begin, end, first, i + 1});
    first = i + 1;
  }
  return buckets;
}

}  // namespace bora
