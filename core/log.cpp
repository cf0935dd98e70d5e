// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace bora {
namespace {

constexpr const char* kNames[] = {"debug", "info", "warn", "error", "off"};

LogLevel level_from_environment() {
  const char* text = std::getenv("BORA_LOG");
  if (text == nullptr || *text == '\0') return LogLevel::info;
  for (int i = 0; i < 5; ++i)
    if (std::strcmp(text, kNames[i]) == 0) return static_cast<LogLevel>(i);
  std::string line = std::string("bora: BORA_LOG=") + text +
                     " is unknown (debug, info, warn, error, off); using info\n";
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return LogLevel::info;
  return LogLevel::info;
}

std::atomic<LogLevel>& level() {
  static std::atomic<LogLevel> value{level_from_environment()};
  return value;
}

std::atomic<int> g_rank{0};
std::atomic<int> g_size{1};

}  // namespace

void log_set_rank(int rank, int size) {
  g_rank = rank;
  g_size = size;
}

void log_set_level(LogLevel value) { level() = value; }
LogLevel log_level() { return level(); }

void log_line(LogLevel at, const std::string& text) {
  std::string line;
  if (g_size > 1) line += detail::join("[", g_rank.load(), "/", g_size.load(), "] ");
  if (at != LogLevel::info) line += detail::join(kNames[static_cast<int>(at)], ": ");
  line += text;
  line += '\n';
  size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = ::write(STDERR_FILENO, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;  // a signal handler ran; the line is still wanted
    if (n <= 0) return;                     // stderr is gone: there is nobody left to tell
    done += static_cast<size_t>(n);
  }
}

}  // namespace bora
