// SPDX-License-Identifier: Apache-2.0
#include "apps/common/progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/log.hpp"
#include "core/log_footer.hpp"
#include "core/profile.hpp"

namespace bora::apps {
namespace {

constexpr double kRedraw_s = 0.1;

/// Characters of UTF-8: bytes that begin one.
size_t width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string cut_to(const std::string& text, size_t characters) {
  size_t bytes = 0;
  for (size_t n = 0; bytes < text.size(); ++bytes)
    if ((text[bytes] & 0xc0) != 0x80 && ++n > characters) break;
  return text.substr(0, bytes);
}

}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto s = static_cast<long>(std::lround(seconds));
  char text[48];
  if (s >= 86400) {
    std::snprintf(text, sizeof text, "%ld d %02ld h", s / 86400, s % 86400 / 3600);
  } else if (s >= 3600) {
    std::snprintf(text, sizeof text, "%ld h %02ld min", s / 3600, s % 3600 / 60);
  } else if (s >= 60) {
    std::snprintf(text, sizeof text, "%ld min %02ld s", s / 60, s % 60);
  } else {
    std::snprintf(text, sizeof text, "%ld s", s);
  }
  return text;
}

std::string live_line(double fraction, const std::vector<std::string>& parts, int columns) {
  const auto room = static_cast<size_t>(std::max(columns - 1, 0));
  fraction = std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0;
  char percent[8];
  std::snprintf(percent, sizeof percent, "%3d %%", static_cast<int>(100 * fraction));
  std::string line;
  // Of one width while the words change; none where it would take the words' place.
  constexpr int kLeastForBar = 60, kShare = 5;
  if (columns >= kLeastForBar) {
    const auto cells = static_cast<size_t>(std::min(columns / kShare, 30));
    const auto full = static_cast<size_t>(fraction * static_cast<double>(cells));
    line = "[" + std::string(full, '=') + std::string(cells - full, ' ') + "] ";
  }
  line += percent;
  for (const std::string& part : parts) {
    if (width(line) + 2 + width(part) > room) break;
    line += "  " + part;
  }
  return cut_to(line, room);
}

double plain_interval_s(double passed_s) { return std::clamp(passed_s / 10, 10.0, 600.0); }

int live_columns() {
  if (!log_can_have_footer()) return 0;
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

Progress::Progress(bool enabled, Clock clock)
    : enabled_(enabled && log_level() <= LogLevel::info),
      terminal_(live_columns() > 0),
      clock_(clock ? std::move(clock) : Clock(&now_s)),
      begin_s_(clock_()) {}

Progress::~Progress() { clear(); }

bool Progress::due() const {
  if (!enabled_) return false;
  const double now = clock_();
  return now - last_s_ >= (terminal_ ? kRedraw_s : plain_interval_s(now - begin_s_));
}

void Progress::update(double fraction, const std::vector<std::string>& parts) {
  if (!enabled_) return;
  if (!parts.empty()) parts_ = parts;
  const double now = clock_();
  if (first_s_ < 0) {
    first_s_ = now;
    first_fraction_ = fraction;
  }
  if (parts_.empty() || !due()) return;
  last_s_ = now;
  std::vector<std::string> told = parts_;
  if (fraction > first_fraction_) {
    const double left = (now - first_s_) * (1 - fraction) / (fraction - first_fraction_);
    told.insert(told.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(told.size(), 2)),
                duration_text(left) + " left");
  }
  if (terminal_) {
    log_set_footer(live_line(fraction, told, live_columns()));
    return;
  }
  std::string text;
  for (const std::string& part : told) text += (text.empty() ? "" : "  ") + part;
  log_info(text);
}

void Progress::line(const std::string& text) {
  if (enabled_) log_info(text);
}

void Progress::clear() {
  if (terminal_ && enabled_) log_set_footer("");
}

}  // namespace bora::apps
