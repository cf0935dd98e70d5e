// SPDX-License-Identifier: Apache-2.0
#include "apps/unet3d/pulse.hpp"

#include <exception>
#include <vector>

namespace bora::unet3d {

/// How many ranks are at work; throws Stopped, where this one is, if another has failed.
double Pulse::n_active(bool active) {
  if (ranks_.size() == 1 || broken_) return 0;
  broken_ = true;  // unless this returns
  const std::vector<double> sums = ranks_.all_reduce(
      std::vector<double>{active ? 1.0 : 0.0, failed_ ? 1.0 : 0.0}, ReduceOp::sum, "pulse");
  broken_ = false;
  if (active && sums[1] > 0) throw Stopped{};
  return sums[0];
}

void Pulse::beat() { n_active(true); }

void Pulse::rest() {
  while (n_active(false) > 0) {
  }
}

void work_apart(Collective& ranks, std::string_view what, const std::function<void(Pulse&)>& body) {
  Pulse pulse(ranks);
  ranks.agree(what, [&] {
    std::exception_ptr failure;
    try {
      body(pulse);
    } catch (const Pulse::Stopped&) {
    } catch (...) {
      failure = std::current_exception();
      pulse.fail();
    }
    pulse.rest();
    if (failure) std::rethrow_exception(failure);
  });
}

}  // namespace bora::unet3d
