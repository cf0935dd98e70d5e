// SPDX-License-Identifier: Apache-2.0
// Log: levels, rank prefix, one sink (stderr).
#pragma once

#include <string>

#include "core/error.hpp"

namespace bora {

enum class LogLevel { debug, info, warn, error, off };

/// Who speaks: lines begin with "[rank/size] " once this is set with size > 1.  Set once, right
/// after the start.
void log_set_rank(int rank, int size);

/// Lines below the level are dropped.  The environment variable BORA_LOG
/// (debug|info|warn|error|off) sets the first value; an unknown value is reported and ignored.
/// Default info.
void log_set_level(LogLevel level);
LogLevel log_level();

/// Writes one whole line with a single write, so that lines of several ranks or threads never mix
/// inside a line.
void log_line(LogLevel level, const std::string& text);

template <class... Parts>
void log_at(LogLevel level, const Parts&... parts) {
  if (level >= log_level()) log_line(level, detail::join(parts...));
}
template <class... Parts>
void log_debug(const Parts&... parts) {
  log_at(LogLevel::debug, parts...);
}
template <class... Parts>
void log_info(const Parts&... parts) {
  log_at(LogLevel::info, parts...);
}
template <class... Parts>
void log_warn(const Parts&... parts) {
  log_at(LogLevel::warn, parts...);
}
template <class... Parts>
void log_error(const Parts&... parts) {
  log_at(LogLevel::error, parts...);
}

}  // namespace bora
