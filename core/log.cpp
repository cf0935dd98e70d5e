// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "core/log_footer.hpp"
#include "core/log_warnings.hpp"
#include "core/printable.hpp"

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

// The footer and the write that it goes out with are one thing; without a footer the lock only
// orders writes that are whole anyway.
std::mutex g_mutex;
// Never destroyed: destructors of static objects may log.
std::string& footer() {
  static auto& text = *new std::string;
  return text;
}

// Set on ranks whose stderr is the terminal on which rank 0 may have a footer: their lines wipe it,
// and it comes back when rank 0 draws it the next time.
std::atomic<bool> g_others_footer{false};

// What log_take_warnings() gives; under the same lock.
struct Warnings {
  std::vector<std::string> lines;
  int64_t more = 0;
};
Warnings& warnings() {
  static auto& kept = *new Warnings;
  return kept;
}
constexpr size_t kMostWarnings = 100;

constexpr const char* kWipe = "\r\033[K";  // back to the line's begin, and erase to its end

void write_whole(const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;  // a signal handler ran; the text is still wanted
    if (n <= 0) return;                     // stderr is gone: there is nobody left to tell
    done += static_cast<size_t>(n);
  }
}

}  // namespace

void log_set_rank(int rank, int size) {
  g_rank = rank;
  g_size = size;
  g_others_footer = rank > 0 && log_can_have_footer();
}

void log_set_level(LogLevel value) { level() = value; }
LogLevel log_level() { return level(); }

void log_line(LogLevel at, const std::string& text) {
  std::string line;
  if (g_size > 1) line += detail::join("[", g_rank.load(), "/", g_size.load(), "] ");
  if (at != LogLevel::info) line += detail::join(kNames[static_cast<int>(at)], ": ");
  line += printable(text);
  line += '\n';
  const std::lock_guard lock(g_mutex);
  if (at >= LogLevel::warn) {
    if (warnings().lines.size() < kMostWarnings)
      warnings().lines.push_back(text);
    else
      ++warnings().more;
  }
  write_whole(footer().empty() && !g_others_footer ? line : kWipe + line + footer());
}

std::vector<std::string> log_take_warnings() {
  const std::lock_guard lock(g_mutex);
  std::vector<std::string> taken = std::exchange(warnings().lines, {});
  if (const int64_t more = std::exchange(warnings().more, 0); more > 0)
    taken.push_back(detail::join("and ", more, " more warnings: see the log"));
  return taken;
}

bool log_can_have_footer() {
  const auto value = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text == nullptr ? "" : text);
  };
  return ::isatty(STDERR_FILENO) != 0 && !value("TERM").empty() && value("TERM") != "dumb" &&
         value("NO_COLOR").empty();
}

void log_set_footer(const std::string& text) {
  const std::lock_guard lock(g_mutex);
  if (text.empty() && footer().empty()) return;
  footer() = text;
  write_whole(kWipe + text);
}

}  // namespace bora
