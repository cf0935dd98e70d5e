// SPDX-License-Identifier: Apache-2.0
// Which schedule launches use.
#include <charconv>
#include <cstdlib>
#include <mutex>

#include "core/error.hpp"
#include "kernels/simt/emulator.hpp"

namespace bora::simt {
namespace {

std::mutex g_mutex;

Schedule& current() {
  static Schedule instance = [] {
    const char* text = std::getenv("BORA_EMULATOR_SCHEDULE");
    return text == nullptr ? Schedule{} : schedule_from(text);
  }();
  return instance;
}

}  // namespace

Schedule schedule_from(const std::string& text) {
  if (text == "forward") return {ScheduleKind::forward};
  if (text == "backward") return {ScheduleKind::backward};
  if (text == "shuffled") return {ScheduleKind::shuffled};
  const std::string prefix = "shuffled:";
  if (text.starts_with(prefix)) {
    Schedule s{ScheduleKind::shuffled};
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + prefix.size(), end, s.seed);
    if (error == std::errc() && at == end) return s;
  }
  throw UsageError("BORA_EMULATOR_SCHEDULE is '" + text +
                   "', wanted forward, backward, shuffled or shuffled:<seed>");
}

Schedule schedule() {
  const std::lock_guard lock(g_mutex);
  return current();
}

void set_schedule(Schedule s) {
  const std::lock_guard lock(g_mutex);
  current() = s;
}

}  // namespace bora::simt
