// SPDX-License-Identifier: Apache-2.0
#include "data/preflight_work.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/crash_note.hpp"
#include "core/error.hpp"

namespace bora::data::detail {

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

struct Place {
  bool busy = false;
  size_t piece = 0;
  Clock::time_point begin;
};

struct State {
  Work work;
  std::mutex mutex;
  std::condition_variable changed;
  size_t next = 0, done = 0;
  int running = 0;
  bool stop = false;
  std::vector<Place> places;
  size_t failed_piece = 0;
  std::exception_ptr failure;
};

void run(State& s, size_t thread) {
  std::unique_lock lock(s.mutex);
  while (!s.stop && s.next < s.work.n) {
    const size_t piece = s.next++;
    s.places[thread] = {true, piece, Clock::now()};
    lock.unlock();
    std::exception_ptr failure;
    try {
      const std::string files = s.work.name ? s.work.name(piece) : std::string();
      const CrashNote note(files);
      s.work.body(piece);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    s.places[thread].busy = false;
    ++s.done;
    if (failure) {
      if (!s.failure || piece < s.failed_piece) {
        s.failure = failure;
        s.failed_piece = piece;
      }
      s.stop = true;
    }
  }
  --s.running;
  s.changed.notify_all();
}

/// The pieces that take longer than allowed; those begun first first.
std::string silent(const State& s) {
  std::vector<Place> late;
  for (const Place& p : s.places)
    if (p.busy && since(p.begin) > s.work.allowed_s(p.piece)) late.push_back(p);
  std::sort(late.begin(), late.end(),
            [](const Place& a, const Place& b) { return a.begin < b.begin; });
  std::string text;
  for (const Place& p : late) text += (text.empty() ? "" : "; ") + s.work.name(p.piece);
  return text;
}

}  // namespace

void work_through(const Work& work) {
  if (work.n == 0) return;
  const auto state = std::make_shared<State>();
  State& s = *state;
  s.work = work;
  const size_t wanted = std::min(work.n, static_cast<size_t>(std::max(1, work.n_threads)));
  s.places.resize(wanted);
  std::vector<std::thread> threads;
  std::unique_lock lock(s.mutex);
  try {
    for (size_t i = 0; i < wanted; ++i) {
      threads.emplace_back([state, i] { run(*state, i); });
      ++s.running;
    }
  } catch (const std::system_error& e) {  // fewer will do
    if (threads.empty()) BORA_FAIL("no thread to look into the ", work.what, ": ", e.what());
  }
  const auto leave = [&](bool wait) {
    s.stop = true;
    lock.unlock();
    for (std::thread& t : threads)
      if (wait)
        t.join();
      else
        t.detach();
  };
  const Clock::time_point begin = Clock::now();
  double told = 0;
  while (s.running > 0) {
    s.changed.wait_for(lock, std::chrono::milliseconds(100));
    const std::string late = silent(s);
    if (!late.empty()) {
      leave(false);
      BORA_FAIL("no answer for a long time from the file system, looking into ", late,
                ": it hangs, or is slower than 4 MiB/s");
    }
    const size_t done = s.done;
    lock.unlock();  // a hook may take its time
    try {
      if (work.hooks.may_go_on) work.hooks.may_go_on();
      if (work.hooks.progress && since(begin) - told >= 1 && done < work.n) {
        told = since(begin);
        work.hooks.progress(static_cast<int64_t>(done), static_cast<int64_t>(work.n), told);
      }
    } catch (...) {
      lock.lock();
      s.stop = true;
      // A moment for the pieces that are under way; one that hangs keeps nobody from leaving.
      leave(s.changed.wait_for(lock, std::chrono::seconds(1), [&] { return s.running == 0; }));
      throw;
    }
    lock.lock();
  }
  leave(true);
  if (s.failure) std::rethrow_exception(s.failure);
  if (work.hooks.progress)
    work.hooks.progress(static_cast<int64_t>(s.done), static_cast<int64_t>(work.n), since(begin));
}

void read_bounded(const std::string& doing, const PreflightItem& item, int64_t bytes,
                  std::function<void()> body, const ReadBound& bound) {
  constexpr double kSlowRate = 4 << 20;  // as in the pre-flight
  std::string text = "case '" + item.name + "'";
  for (const std::string& file : item.files)
    if (!file.empty()) text += " '" + file + "'";
  PreflightHooks hooks;
  hooks.may_go_on = bound.may_go_on;
  work_through({.n = 1,
                .n_threads = 1,
                .what = doing + " " + text,
                .allowed_s = [limit = bound.silence_s + static_cast<double>(bytes) /
                                                            kSlowRate](size_t) { return limit; },
                .name = [text](size_t) { return text; },
                .body = [body = std::move(body)](size_t) { body(); },
                .hooks = std::move(hooks)});
}

}  // namespace bora::data::detail
