// SPDX-License-Identifier: Apache-2.0
#include "comm/status_board.hpp"

#include "comm/flight_recorder.hpp"
#include "core/error.hpp"
#include "core/host.hpp"

#include <cstdio>
#include <iomanip>

namespace bora {
namespace {

// A rank that is alive writes twice a second, also on a busy machine within this time.
constexpr double kSilent_s = 3.0;

double seconds(int64_t from, int64_t to) { return static_cast<double>(to - from) * 1e-9; }

std::string rounded(double s) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1) << s << " s";
  return out.str();
}

}  // namespace

struct StatusBoard::Place {
  std::atomic<uint64_t> asked;  // others count it up
  SeqLocked<RankStatus> status;
};

StatusBoard::StatusBoard(std::function<char*(int)> place, std::vector<int> world_ranks, int index)
    : place_(std::move(place)), world_ranks_(std::move(world_ranks)), index_(index) {
  static_assert(sizeof(Place) <= kBytes);
  BORA_CHECK(index_ >= 0 && index_ < static_cast<int>(world_ranks_.size()), "StatusBoard: rank ",
             index_, " of ", world_ranks_.size());
}

StatusBoard::Place& StatusBoard::place(int i) const { return *reinterpret_cast<Place*>(place_(i)); }

void StatusBoard::write(const RankStatus& status) {
  Place& mine = place(index_);
  const uint64_t leave_with = mine.status.lock();
  mine.status.store(status);
  mine.status.unlock(leave_with);
}

bool StatusBoard::read(int world_rank, RankStatus& status) const {
  for (size_t i = 0; i < world_ranks_.size(); ++i)
    if (world_ranks_[i] == world_rank)
      return place(static_cast<int>(i)).status.read(status) && status.written_ns != 0;
  return false;
}

void StatusBoard::ask_for_records() {
  for (int i = 0; i < static_cast<int>(world_ranks_.size()); ++i)
    if (i != index_) ++place(i).asked;
}

bool StatusBoard::was_asked() {
  const uint64_t now = place(index_).asked;
  return std::exchange(asked_, now) != now;
}

bool StatusBoard::others_are_busy(std::string* who) const {
  const int64_t now = steady_now_ns();
  for (const int r : world_ranks_) {
    RankStatus status;
    if (r == world_ranks_[static_cast<size_t>(index_)] || !read(r, status)) continue;
    if (status.section_end_ns <= now || seconds(status.written_ns, now) > kSilent_s) continue;
    if (who != nullptr) *who = detail::join("rank ", r, " is busy with '", status.section, "'");
    return true;
  }
  return false;
}

int StatusBoard::dead_neighbour() {
  const auto n = static_cast<int>(world_ranks_.size());
  if (n < 2) return -1;
  const int next = world_ranks_[static_cast<size_t>((index_ + 1) % n)];
  RankStatus status;
  if (!read(next, status) || status.ended) return -1;
  const bool lives = process_born(status.process) == status.process_born;
  if (lives) neighbour_seen_ = true;
  return neighbour_seen_ && !lives ? next : -1;
}

std::string StatusBoard::describe(int world_rank) const {
  RankStatus s;
  if (!read(world_rank, s)) return {};
  const int64_t now = steady_now_ns();
  std::string text = detail::join("process ", s.process, ": ");
  // Said before it fell silent: at the end of a run it only waits.
  if (s.ended)
    return text + "has left its communicator (done, or failed), and waits at the end of the run";
  if (const double silent = seconds(s.written_ns, now); silent > kSilent_s)
    return text + detail::join("has not run for ", rounded(silent), " (stopped, or dead)");
  if (s.section_end_ns != 0)
    text += detail::join("in '", s.section, "' for ", rounded(seconds(s.section_begin_ns, now)),
                         now > s.section_end_ns ? " (longer than announced); " : "; ");
  if (s.operation[0] == 0) return text + "no operation yet";
  const std::string since = rounded(seconds(s.since_ns, now));
  if (s.under_way) return text + detail::join("for ", since, " in ", s.operation);
  return text + detail::join("last operation ", s.operation, ", ended ", since,
                             " ago; since then in its own code");
}

}  // namespace bora
