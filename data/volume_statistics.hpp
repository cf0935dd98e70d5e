// SPDX-License-Identifier: Apache-2.0
// Statistics of one volume, channel by channel: moments, percentiles, the smallest value.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/normalise.hpp"
#include "data/volume_cases.hpp"

namespace bora::data {

struct StatisticsOptions {
  bool nonzero = false;             ///< cells that are 0 are not counted
  std::vector<double> percentiles;  ///< none, or two in [0, 100], the lower first
  std::string name = "the volume";  ///< for messages
};

/// Of the cells of one channel that count; NaN never does.
struct ChannelStatistics {
  Moments moments;
  double minimum = 0;        ///< of all values, zeros too; 0 where there is none
  double low = 0, high = 0;  ///< the percentiles
  Moments clipped;           ///< of the values clipped to [low, high], where there are percentiles
};

/// Reads the box of a volume in slabs, more than once if it is larger than one and has percentiles;
/// `read` gives (X, Y, Z, C) f32.  Percentiles are exact, between two values by a straight line
/// (numpy's default), and take no memory of their own beyond 3 MiB a channel.  The result does not
/// depend on threads; sums are merged slab by slab in f64.  Throws Error naming the volume where
/// values that were counted are not among those that are read once more: its file has changed.
std::vector<ChannelStatistics> volume_statistics(const Box& box, int64_t channels,
                                                 const std::function<Tensor(const Box&)>& read,
                                                 const StatisticsOptions& options,
                                                 int64_t slab_values);

}  // namespace bora::data
