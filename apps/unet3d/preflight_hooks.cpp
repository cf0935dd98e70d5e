// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/preflight_hooks.hpp"

#include <memory>

#include "apps/common/stop.hpp"
#include "core/log.hpp"

namespace bora::unet3d {

data::PreflightHooks preflight_hooks(const Collective& ranks) {
  data::PreflightHooks hooks;
  hooks.may_go_on = [] { apps::leave_if_told("looking into the files"); };
  if (ranks.rank() != 0) return hooks;
  hooks.outcome = [](const std::string& line) { log_info(line); };
  const auto told = std::make_shared<double>(0);
  hooks.progress = [told](int64_t done, int64_t of, double seconds) {
    if (done == of || seconds - *told < 5) return;
    *told = seconds;
    log_info("pre-flight: ", done, " of this rank's ", of, " cases after ",
             static_cast<int64_t>(seconds), " s");
  };
  return hooks;
}

}  // namespace bora::unet3d
