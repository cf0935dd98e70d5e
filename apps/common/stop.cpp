// SPDX-License-Identifier: Apache-2.0
#include "apps/common/stop.hpp"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <limits>

#include <unistd.h>

#include "core/profile.hpp"

namespace bora::apps {
namespace {

volatile std::sig_atomic_t g_signal = 0;
static_assert(sizeof(std::sig_atomic_t) >= sizeof(int));

// A launcher may pass a signal on that the scheduler has sent to the process as well: one that
// comes so soon after the first is the same request.
constexpr int64_t kSameRequest_ns = 1'000'000'000;

int64_t monotonic_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

volatile int64_t g_first_ns = 0;

// Only what a handler may do: a flag, the clock, and _exit.
extern "C" void on_stop_signal(int number) {
  const int64_t now = monotonic_ns();
  if (g_signal == 0) {
    g_first_ns = now;
    g_signal = number;
  } else if (now - g_first_ns > kSameRequest_ns) {
    ::_exit(128 + number);
  }
}

constexpr double kTalkEvery_s = 0.5;

}  // namespace

void catch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;  // reads and writes under way go on
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGTERM, SIGUSR1})
    BORA_CHECK(::sigaction(number, &action, nullptr) == 0, "cannot catch signal ", number);
  // Whoever starts the program may block them until here, so that none comes too early and ends it.
  sigset_t both;
  sigemptyset(&both);
  sigaddset(&both, SIGTERM);
  sigaddset(&both, SIGUSR1);
  ::pthread_sigmask(SIG_UNBLOCK, &both, nullptr);
}

int stop_signal() { return g_signal; }

StopWatcher::StopWatcher(Collective& ranks, double max_hours)
    : ranks_(ranks),
      end_s_(max_hours > 0 ? now_s() + 3600.0 * max_hours
                           : std::numeric_limits<double>::infinity()),
      last_talk_s_(now_s()) {}

StopWatcher::Reason StopWatcher::own_reason() const {
  if (stop_signal() != 0) return Reason::signal;
  return ranks_.rank() == 0 && now_s() >= end_s_ ? Reason::time : Reason::none;
}

bool StopWatcher::due(bool call) {
  called_ = false;
  if (stopping()) return true;
  if (ranks_.size() == 1) {
    called_ = call;
    reason_ = own_reason();
    return stopping();
  }
  if (++updates_ < interval_) return false;
  // Rank 0 says when to speak again, by the pace of its updates since the last time.
  double interval = 0;
  if (ranks_.rank() == 0) {
    const double seconds = std::max(now_s() - last_talk_s_, 1e-6);
    interval = std::clamp(kTalkEvery_s * static_cast<double>(updates_) / seconds, 1.0, 1000.0);
  }
  const double calls = ranks_.rank() == 0 && call ? 1 : 0;
  Tensor news = Tensor::from<double>(
      {3}, std::vector<double>{static_cast<double>(own_reason()), interval, calls});
  ranks_.all_reduce_async(news, ReduceOp::max, "stop request").wait();
  reason_ = static_cast<Reason>(static_cast<int>(news.data<double>()[0]));
  interval_ = static_cast<int64_t>(news.data<double>()[1]);
  called_ = news.data<double>()[2] > 0;
  updates_ = 0;
  last_talk_s_ = now_s();
  return stopping();
}

std::string StopWatcher::reason() const {
  switch (reason_) {
    case Reason::time:
      return "train.max_hours";
    case Reason::signal:
      return "a signal";
    case Reason::none:
      break;
  }
  return "";
}

}  // namespace bora::apps
