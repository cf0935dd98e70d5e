// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/error.hpp"
#include "kernels/cudnn/tuning.hpp"

namespace bora::kernels::cudnn {

size_t tuned_choice(const std::vector<double>& times) {
  BORA_CHECK(!times.empty(), "tuned_choice: no times");
  const auto best = std::min_element(times.begin(), times.end());
  constexpr double kWorthChanging = 1.03;
  if (times.front() <= kWorthChanging * *best) return 0;
  return static_cast<size_t>(best - times.begin());
}

}  // namespace bora::kernels::cudnn
