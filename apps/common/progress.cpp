// SPDX-License-Identifier: Apache-2.0
#include "apps/common/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "core/log.hpp"
#include "core/profile.hpp"

namespace bora::apps {

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto s = static_cast<long>(std::lround(seconds));
  char text[48];
  if (s >= 3600) {
    std::snprintf(text, sizeof text, "%ld h %02ld min", s / 3600, s % 3600 / 60);
  } else if (s >= 60) {
    std::snprintf(text, sizeof text, "%ld min %02ld s", s / 60, s % 60);
  } else {
    std::snprintf(text, sizeof text, "%ld s", s);
  }
  return text;
}

Progress::Progress(bool enabled, double plain_every_s)
    : enabled_(enabled),
      terminal_(::isatty(STDERR_FILENO) != 0),
      plain_every_s_(plain_every_s),
      start_s_(now_s()) {}

Progress::~Progress() { wipe(); }

void Progress::wipe() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

void Progress::update(double fraction, const std::string& text) {
  if (!enabled_) return;
  const double now = now_s();
  if (now - last_s_ < (terminal_ ? 0.1 : plain_every_s_)) return;
  last_s_ = now;
  const double spent = now - start_s_;
  const double left = fraction > 0 ? spent * (1 - fraction) / fraction : -1;
  const std::string tail = text + (left >= 0 ? "  " + duration_text(left) + " left" : "");
  if (!terminal_) {
    log_info(tail);
    return;
  }
  constexpr int kWidth = 20;
  const int full = std::clamp(static_cast<int>(fraction * kWidth), 0, kWidth);
  const std::string bar = std::string(static_cast<size_t>(full), '=') +
                          std::string(static_cast<size_t>(kWidth - full), ' ');
  std::fprintf(stderr, "\r\033[K[%s] %3d %%  %s", bar.c_str(), static_cast<int>(100 * fraction),
               tail.c_str());
  std::fflush(stderr);
  drawn_ = true;
}

void Progress::line(const std::string& text) {
  if (!enabled_) return;
  wipe();
  log_info(text);
}

}  // namespace bora::apps
