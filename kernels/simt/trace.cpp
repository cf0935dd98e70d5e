// SPDX-License-Identifier: Apache-2.0
#include "kernels/simt/trace.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace bora::simt {
namespace {

void merge(TraceClock& into, const TraceClock& from) {
  for (const auto& [stream, n] : from) into[stream] = std::max(into[stream], n);
}

}  // namespace

bool comes_before(const TracedWork& first, const TracedWork& then) {
  const auto done = then.before.find(first.stream);
  return done != then.before.end() && done->second >= first.number;
}

bool may_overlap(const TracedWork& a, const TracedWork& b) {
  return !comes_before(a, b) && !comes_before(b, a);
}

namespace detail {

void Trace::begin() {
  const std::lock_guard lock(mutex_);
  BORA_CHECK(!on_, "emulated device: it is being traced already");
  on_ = true;
  ++number_;
  streams_.clear();
  host_.clear();
  work_.clear();
}

std::vector<TracedWork> Trace::end() {
  const std::lock_guard lock(mutex_);
  BORA_CHECK(on_, "emulated device: the end of a trace that has not begun");
  on_ = false;
  return std::exchange(work_, {});
}

// Whatever is issued to a stream comes behind what the host has waited for.
TraceClock& Trace::clock_of(int64_t stream) {
  TraceClock& clock = streams_[stream];
  merge(clock, host_);
  return clock;
}

void Trace::issue(TracedWork work) {
  const std::lock_guard lock(mutex_);
  if (!on_) return;
  TraceClock& clock = clock_of(work.stream);
  work.before = clock;
  work.number = ++clock[work.stream];
  if (work.pageable) merge(host_, clock);  // such a copy holds the host up
  work_.push_back(std::move(work));
}

TracedEvent Trace::record(int64_t stream) {
  const std::lock_guard lock(mutex_);
  return on_ ? TracedEvent{number_, clock_of(stream)} : TracedEvent{};
}

void Trace::wait(int64_t stream, const TracedEvent& event) {
  const std::lock_guard lock(mutex_);
  if (is_of_this(event)) merge(clock_of(stream), event.done);
}

void Trace::host_waits(int64_t stream) {
  const std::lock_guard lock(mutex_);
  if (on_) merge(host_, clock_of(stream));
}

void Trace::host_waits(const TracedEvent& event) {
  const std::lock_guard lock(mutex_);
  if (is_of_this(event)) merge(host_, event.done);
}

}  // namespace detail

}  // namespace bora::simt
