// SPDX-License-Identifier: Apache-2.0
// The fastest of several plans, by measurement.
#pragma once

#include <cmath>
#include <functional>
#include <vector>

#include "core/stream.hpp"

namespace bora::kernels::cudnn {

/// How many plans are measured.
inline constexpr size_t kTunedPlans = 8;

/// Index of the smallest time, unless the first is within 3 % of it: cuDNN's own order stands where
/// measuring again might turn the result.  Throws Error if there is none.
size_t tuned_choice(const std::vector<double>& times);

/// Milliseconds of run() on the device: 3 runs to warm up, then the median of 5, with the second
/// level cache emptied before each.  A run that is more than twice as slow as `best` after the
/// first is not worth that: its one time is given.  Waits for the device.
double time_on_device(Stream stream, const std::function<void()>& run, double best = HUGE_VAL);

}  // namespace bora::kernels::cudnn
