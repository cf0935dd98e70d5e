// SPDX-License-Identifier: Apache-2.0
#include "core/crash_note.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>

namespace bora {
namespace {

// Plain pointers, made without a constructor: a handler may look at them.
thread_local constinit const char* t_reading = nullptr;

struct Fatal {
  int number;
  const char* name;
};
constexpr std::array<Fatal, 5> kFatal{{{SIGSEGV, "SIGSEGV"},
                                       {SIGBUS, "SIGBUS"},
                                       {SIGFPE, "SIGFPE"},
                                       {SIGILL, "SIGILL"},
                                       {SIGABRT, "SIGABRT"}}};
struct sigaction g_before[kFatal.size()];
std::atomic<int> g_rank{0}, g_size{1};
std::atomic<bool> g_installed{false};
std::atomic<bool> g_told{false};

/// A line built and written with what a handler may call: memcpy and write.
class Line {
 public:
  void add(const char* text) {
    const size_t n = std::min(std::strlen(text), sizeof(text_) - n_);
    std::memcpy(text_ + n_, text, n);
    n_ += n;
  }
  void add(int number) {
    char digits[12];
    size_t at = sizeof(digits) - 1;
    digits[at] = '\0';
    do digits[--at] = static_cast<char>('0' + number % 10);
    while ((number /= 10) > 0);
    add(digits + at);
  }
  void write() const {
    for (size_t done = 0; done < n_;) {
      const ssize_t n = ::write(STDERR_FILENO, text_ + done, n_ - done);
      if (n <= 0) return;
      done += static_cast<size_t>(n);
    }
  }

 private:
  char text_[6000];  // a path has 4096 letters at most
  size_t n_ = 0;
};

void tell(const Fatal& fatal) {
  if (t_reading == nullptr || g_told.exchange(true)) return;
  Line line;
  if (g_size > 1) {
    line.add("[");
    line.add(g_rank);
    line.add("/");
    line.add(g_size);
    line.add("] ");
  }
  line.add("error: this process crashed (");
  line.add(fatal.name);
  line.add(") while it read ");
  line.add(t_reading);
  line.add(
      ". The file is probably damaged in a way that its library does not notice: write it "
      "anew from its source, or leave it out; unet3d data check looks at all files\n");
  line.write();
}

// What was there before gets the signal when this one has returned: the instruction at fault is run
// again, with all that a backtrace wants to know of it; a signal that was sent is sent again.
extern "C" void on_fatal_signal(int number, siginfo_t* info, void*) {
  const int code = errno;
  for (size_t i = 0; i < kFatal.size(); ++i) {
    if (kFatal[i].number != number) continue;
    tell(kFatal[i]);
    ::sigaction(number, &g_before[i], nullptr);
    if (info->si_code <= 0) ::raise(number);
  }
  errno = code;
}

}  // namespace

CrashNote::CrashNote(const std::string& path) noexcept : before_(t_reading) {
  if (!path.empty()) t_reading = path.c_str();
  std::atomic_signal_fence(std::memory_order_seq_cst);  // before what may crash
}

CrashNote::~CrashNote() {
  std::atomic_signal_fence(std::memory_order_seq_cst);
  t_reading = before_;
}

void tell_crashes(int rank, int size) {
  g_rank = rank;
  g_size = size;
  if (g_installed.exchange(true)) return;
  struct sigaction action {};
  action.sa_sigaction = on_fatal_signal;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kFatal.size(); ++i)
    if (::sigaction(kFatal[i].number, nullptr, &g_before[i]) == 0)
      ::sigaction(kFatal[i].number, &action, nullptr);
}

}  // namespace bora
