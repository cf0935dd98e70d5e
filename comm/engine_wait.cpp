// SPDX-License-Identifier: Apache-2.0
// Waiting for other ranks, with a limit and without eating the cores of those that compute.
#include "comm/engine.hpp"

#include "comm/watchdog.hpp"

#include <algorithm>
#include <thread>

namespace bora {
namespace {

constexpr int kNoteTag = 2;

// Looks before the first nap.  Peers are mostly near, and a look costs less than a nap.
constexpr int kLooks = 16;
// An operation that the caller waits for: looks in a row (10 us), then the core is offered to
// others between looks, until the peer is late.
constexpr int kEagerLooks = 2000;
constexpr double kLate_s = 2e-3;
// The clock is read once in so many looks.
constexpr int kLooksPerClock = 32;
// And the transport is called once in so many looks at shared memory.
constexpr int kProgressLooks = 256;

// Measured on shared cores: a thread that tests and sleeps 50 us costs the computing threads
// least; one that sits in MPI_Wait takes a core.  A late peer deserves longer naps.
std::chrono::microseconds nap(double waited_s) {
  return std::chrono::microseconds(waited_s < 0.05 ? 50 : waited_s < 1.0 ? 200 : 1000);
}

}  // namespace

struct Engine::Patience {
  Engine& engine;
  const Operation& op;
  const bool arriving;
  const double limit = engine.timeout_s_;
  PatientClock clock{};
  // Between two looks at the notes: rarely, and never so late that an answer would miss the limit.
  const double look_every = std::min(0.1, limit / 20);
  double next_look = look_every;
  bool asked = false, late = false;
  int looks = 0;

  /// After a look in vain.  `culprit()` says whom the data phase waits for.
  template <class Culprit>
  void pause(Culprit&& culprit) {
    ++looks;
    if (op.eager && engine.enough_cores_ && looks < kEagerLooks) return;
    const bool yields = !late && (op.eager || looks < kLooks);
    if (yields && looks % kLooksPerClock != 0) return std::this_thread::yield();
    engine.heartbeat_->beat();
    const double waited = clock.elapsed_s();
    if (engine.give_up_)
      BORA_FAIL(op.describe(), ": given up on rank ", engine.rank_, " after another error");
    if (arriving && waited > next_look) notes(waited);
    if (wait_is_over(waited, limit)) engine.time_is_over(op, arriving, waited, culprit());
    late = waited > kLate_s;
    if (yields && !late) return std::this_thread::yield();
    engine.transport_->rest(nap(waited));
  }

 private:
  void notes(double waited) {
    next_look = waited + look_every;
    engine.read_notes(op);
    if (engine.one_host_ || asked || waited <= limit / 2) return;
    asked = true;
    for (int r = 0; r < engine.size_; ++r)
      if (r != engine.rank_) engine.send_note(r, {op.sequence, 1, 0});
  }
};

void Engine::wait_requests(const Operation& op, bool arriving) {
  wait_for(op, requests_, arriving);
}

void Engine::wait_for(const Operation& op, std::span<Request> requests, bool arriving) {
  Patience patience{*this, op, arriving};
  while (!transport_->test(requests))
    patience.pause([] { return std::string("a rank or the network has failed"); });
  heartbeat_->beat();
}

void Engine::wait_window(const Operation& op, SharedWindow::Mark mark, uint64_t value,
                         bool arriving, bool leader_only) {
  const auto reached = [&](int i) { return window_->mark(i, mark) >= value; };
  const int n = leader_only ? 1 : window_->size();
  int behind = 0;  // all before it have reached the mark
  const auto all = [&] {
    while (behind < n && reached(behind)) ++behind;
    return behind == n;
  };
  if (all()) return;
  Patience patience{*this, op, arriving};
  while (!all()) {
    patience.pause([&] {
      std::string ranks;
      for (int i = 0; i < n; ++i)
        if (!reached(i))
          ranks +=
              detail::join(ranks.empty() ? "" : ", ", hosts_->members()[static_cast<size_t>(i)]);
      return "waiting for rank(s) " + ranks + " of this host";
    });
    // Messages of other ranks that this one has a part in go on only while it calls.
    if (patience.looks % kProgressLooks == 0) transport_->progress();
  }
}

std::string Engine::last_heard_of(const Operation& op, const std::vector<int>& ranks) const {
  constexpr size_t kMost = 4;
  std::string text;
  for (size_t i = 0; i < std::min(ranks.size(), kMost); ++i) {
    const int r = ranks[i];
    text += "; " + op.who(r);
    const int world_rank = op.group ? op.group->world_rank(r) : r;
    const Record& record = records_[static_cast<size_t>(r)];
    if (record.sequence != 0 && record.sequence < op.sequence)
      text += ", took part last in " + record.describe();
    if (const std::string now = Watchdog::instance().describe(world_rank); !now.empty())
      text += ", " + now;
  }
  if (ranks.size() > kMost) text += detail::join("; and ", ranks.size() - kMost, " more");
  return text;
}

void Engine::time_is_over(const Operation& op, bool arriving, double waited_s,
                          const std::string& culprit) {
  std::vector<int> missing;
  for (int r = 0; r < size_; ++r) {
    const bool here = one_host_ ? window_->mark(r, SharedWindow::arrived) >= op.sequence
                                : waits_in_[static_cast<size_t>(r)] == op.sequence;
    if (r != rank_ && !here) missing.push_back(r);
  }
  std::string message =
      detail::join(op.describe(), ": time is over on rank ", rank_, " of ", size_, ", host ", host_,
                   ", after ", std::max(waited_s, 0.0), " s (limit ", timeout_s_.load(), " s); ");
  if (!arriving) {
    message += "all ranks had arrived, but the data did not: " + culprit;
  } else if (missing.empty()) {
    message += "all other ranks say that they wait in it too: the network has failed";
  } else {
    message += "not heard of in this operation: rank(s) " + rank_list(missing);
    message += last_heard_of(op, missing);
  }
  throw Error(message);
}

void Engine::send_note(int to, const Note& note) {
  auto& [kept, request] = sent_notes_.emplace_back(note, Request{});
  request = transport_->send(&kept, sizeof(Note), to, kNoteTag);
}

void Engine::read_notes(const Operation& op) {
  while (!sent_notes_.empty() && transport_->test({&sent_notes_.front().second, 1}))
    sent_notes_.pop_front();
  for (;;) {
    Note note;
    const int from = transport_->take(&note, sizeof(Note), kNoteTag);
    if (from < 0) return;
    uint64_t& latest = waits_in_[static_cast<size_t>(from)];
    latest = std::max(latest, note.sequence);
    if (note.wants_answer && note.sequence == op.sequence) send_note(from, {op.sequence, 0, 0});
  }
}

}  // namespace bora
