// SPDX-License-Identifier: Apache-2.0
// Announced long work, and what it means for those who wait.
#include "comm/flight_recorder.hpp"
#include "comm/status_board.hpp"
#include "comm/watchdog.hpp"
#include "core/error.hpp"

#include <algorithm>

namespace bora {

LongSection::LongSection(std::string name, double limit_s)
    : id_(Watchdog::instance().enter(std::move(name), limit_s)) {}
LongSection::~LongSection() { Watchdog::instance().leave(id_); }

uint64_t Watchdog::enter(std::string name, double limit_s) {
  BORA_CHECK(limit_s > 0 && limit_s < 1e8, "LongSection '", name, "': the limit is ", limit_s,
             " s, wants more than 0 and less than some years");
  const Lock lock(mutex_);
  const int64_t now = steady_now_ns();
  sections_.push_back(
      {++n_sections_, std::move(name), now, now + static_cast<int64_t>(limit_s * 1e9), limit_s});
  publish();
  return n_sections_;
}

void Watchdog::leave(uint64_t id) {
  const Lock lock(mutex_);
  std::erase_if(sections_, [&](const Section& s) { return s.id == id; });
  publish();
}

const Watchdog::Section* Watchdog::section() const {
  const Section* longest = nullptr;
  const int64_t now = steady_now_ns();
  for (const Section& s : sections_)
    if (s.end_ns > now && (longest == nullptr || s.end_ns > longest->end_ns)) longest = &s;
  return longest;
}

bool Watchdog::over(double waited_s, double limit_s) const {
  if (waited_s <= limit_s) return false;
  if (const Section* own = section(); own != nullptr && waited_s <= own->limit_s) return false;
  return board() == nullptr || !board()->others_are_busy();
}

bool wait_is_over(double waited_s, double limit_s) {
  if (waited_s <= limit_s) return false;
  Watchdog& watchdog = Watchdog::instance();
  const Watchdog::Lock lock(watchdog.mutex_);
  return watchdog.over(waited_s, limit_s);
}

}  // namespace bora
