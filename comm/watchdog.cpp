// SPDX-License-Identifier: Apache-2.0
#include "comm/watchdog.hpp"

#include "comm/operation.hpp"
#include "comm/rank_group.hpp"
#include "comm/status_board.hpp"
#include "core/host.hpp"
#include "core/log.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <optional>

namespace bora {
namespace {

constexpr std::chrono::milliseconds kLookEvery{500};
// The limit itself is kept by the thread that works on operations; this much later it must be
// stuck.
constexpr double kStuckMargin_s = 2.0;
constexpr std::chrono::seconds kWriteLimit{2};
// Looks at a dead neighbour, one a second, before it is clear that the launcher does not mind.
constexpr int kLaunchersTurn = 3;
// end_all may block; then the process ends alone.
constexpr double kEndAlone_s = 3.0;

// Only what a handler may do.
std::atomic<bool> g_record_asked{false};
static_assert(std::atomic<bool>::is_always_lock_free);
extern "C" void on_record_signal(int) { g_record_asked = true; }

void catch_record_signal() {
  struct sigaction old {};
  if (::sigaction(SIGUSR2, nullptr, &old) != 0 || (old.sa_flags & SA_SIGINFO) != 0 ||
      old.sa_handler != SIG_DFL)
    return;
  struct sigaction action {};
  action.sa_handler = on_record_signal;
  action.sa_flags = SA_RESTART;  // reads and writes under way go on
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGUSR2, &action, nullptr);
}

// Only launchers know more.
Watchdog::Options options_before_start() {
  Watchdog::Options options;
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"})
    if (const char* rank = std::getenv(name)) {
      options.rank = std::atoi(rank);
      break;
    }
  options.host = host_name();
  options.grace_s = 0;  // nobody else could end it
  return options;
}

double start_limit_s() {
  const char* text = std::getenv("BORA_START_TIMEOUT_S");
  if (text == nullptr) return 300.0;
  char* end = nullptr;
  const double limit = std::strtod(text, &end);
  if (end == text || *end != 0 || !(limit > 0))
    throw UsageError(detail::join("BORA_START_TIMEOUT_S='", text, "': wants a number of seconds"));
  return limit;
}

template <size_t n>
void put(char (&to)[n], const std::string& text) {
  std::strncpy(to, text.c_str(), n - 1);  // the rest is zero
}

}  // namespace

double PatientClock::elapsed_s() {
  const int64_t now = steady_now_ns();
  elapsed_s_ += std::min(static_cast<double>(now - last_ns_) * 1e-9, kMostPerCall_s);
  last_ns_ = now;
  return elapsed_s_;
}

/// A heartbeat, and for how long it has been silent while there was work.
struct Watchdog::Watched {
  std::weak_ptr<Heartbeat> heartbeat;
  int64_t last_ns = 0;
  double since_s = 0;  // by clock_
};

Watchdog::Watchdog() = default;

Watchdog& Watchdog::instance() {
  static auto* watchdog = new Watchdog;  // never destroyed: others may call until the very end
  return *watchdog;
}

void Watchdog::start(Options options) {
  const Lock lock(mutex_);
  options_ = std::move(options);
  FlightRecorder::instance().set_identity(options_.rank, options_.size, options_.host);
  if (running_) return;
  running_ = true;
  catch_record_signal();
  thread_ = std::thread([this] { run(); });
}

WatchedStart::WatchedStart(std::string_view call)
    : call_(call, (Watchdog::instance().start(options_before_start()), start_limit_s()),
            "start of all ranks") {}

void Watchdog::forget_end_all() {
  const Lock lock(mutex_);
  options_.end_all = nullptr;
}

void Watchdog::stop() {
  {
    const Lock lock(mutex_);
    if (!running_) return;
    running_ = false;
  }
  wake_.notify_all();
  thread_.join();
}

void Watchdog::watch(const std::shared_ptr<Heartbeat>& heartbeat) {
  const Lock lock(mutex_);
  std::erase_if(watched_, [](const Watched& w) { return w.heartbeat.expired(); });
  watched_.push_back({heartbeat});
}

void Watchdog::add_board(std::shared_ptr<StatusBoard> board) {
  const Lock lock(mutex_);
  boards_.push_back(std::move(board));
  publish();
}

void Watchdog::drop_board(const std::shared_ptr<StatusBoard>& board, bool left_well) {
  const Lock lock(mutex_);
  RankStatus last = status();
  last.ended = left_well;
  board->write(last);
  std::erase(boards_, board);
}

void Watchdog::run() {
  Lock lock(mutex_);
  while (running_) {
    look(lock);
    if (running_) wake_.wait_for(lock, kLookEvery);
  }
}

void Watchdog::look(Lock& lock) {
  clock_.elapsed_s();
  publish();
  write_asked_records(lock);
  if (stage_ == 0) {
    look_for_stuck();
    if (++looks_ % 2 == 0) look_at_neighbour();
  }
  act(lock);
}

void Watchdog::publish() {
  if (boards_.empty()) return;
  const RankStatus now = status();
  for (const auto& board : boards_) board->write(now);
}

RankStatus Watchdog::status() const {
  RankStatus status;
  static const int64_t born = process_born(::getpid());
  status.written_ns = steady_now_ns();
  status.process = ::getpid();
  status.process_born = born;
  if (const Section* now = section()) {
    status.section_begin_ns = now->begin_ns;
    status.section_end_ns = now->end_ns;
    put(status.section, now->name);
  }
  // What is under way is more telling than what came after it.
  std::optional<FlightEntry> shown;
  for (const FlightEntry& e : FlightRecorder::instance().entries())
    if (!shown || !shown->under_way()) shown = e;
  if (shown) {
    status.under_way = shown->under_way();
    status.since_ns =
        std::max({shown->queued_ns, shown->arrived_ns, shown->moving_ns, shown->ended_ns});
    put(status.operation, shown->describe());
  }
  return status;
}

void Watchdog::look_for_stuck() {
  const double now_s = clock_.elapsed_s();
  for (Watched& w : watched_) {
    const std::shared_ptr<Heartbeat> heartbeat = w.heartbeat.lock();
    const int64_t last = heartbeat && heartbeat->busy > 0 ? heartbeat->last_ns.load() : 0;
    if (last == 0 || last != w.last_ns) {
      w.last_ns = last;
      w.since_s = now_s;
      continue;
    }
    const double silent = now_s - w.since_s;
    if (over(silent, heartbeat->limit_s + kStuckMargin_s))
      return trouble(detail::join("the thread that works on operations has been stuck inside one "
                                  "for ",
                                  static_cast<int64_t>(silent), " s"),
                     /*verdict=*/true);
  }
  // Of those with a limit of their own the oldest counts, from when it became that.
  uint64_t oldest = 0;
  for (const FlightEntry& e : FlightRecorder::instance().entries()) {
    if (e.limit_s <= 0 || !e.under_way()) continue;
    oldest = e.id;
    if (oldest != oldest_call_) call_since_s_ = now_s;
    if (const double waited = now_s - call_since_s_; over(waited, e.limit_s))
      trouble(detail::join(e.describe(), ": not back after ", static_cast<int64_t>(waited),
                           " s (limit ", e.limit_s, " s)"),
              /*verdict=*/true);
    break;
  }
  oldest_call_ = oldest;
}

void Watchdog::look_at_neighbour() {
  if (board() == nullptr) return;
  const int dead = board()->dead_neighbour();
  n_dead_ = dead >= 0 ? n_dead_ + 1 : 0;
  if (n_dead_ >= kLaunchersTurn)
    trouble(detail::join(RankGroup::world()->who(dead), " has died, and nobody has ended this run"),
            /*verdict=*/true);
}

void Watchdog::trouble(const std::string& what, bool verdict) {
  if (stage_ != 0) return;
  stage_ = 1;
  trouble_ = what;
  trouble_at_s_ = clock_.elapsed_s();
  if (verdict) verdict_ = what;
  wake_.notify_all();
}

void Watchdog::write_asked_records(Lock& lock) {
  const bool by_signal = g_record_asked.exchange(false);
  // Whoever has failed as well has written its record already.
  const bool by_rank = board() != nullptr && board()->was_asked() && stage_ == 0;
  if (!by_signal && !by_rank) return;
  const std::string others = report();
  lock.unlock();
  write_record(by_signal ? "asked for by SIGUSR2" : "another rank of this host gives up", others,
               /*say=*/by_signal);
  lock.lock();
}

void Watchdog::act(Lock& lock) {
  if (stage_ == 1 && !verdict_.empty() && !said_) {
    said_ = true;
    const std::string text = detail::join("host ", options_.host, ": ", verdict_), more = report();
    if (board() != nullptr) board()->ask_for_records();
    lock.unlock();
    const std::string where = write_record(text, more, false);
    log_error(text, where);
    lock.lock();
  }
  const double for_s = clock_.elapsed_s() - trouble_at_s_;
  if (stage_ == 1 && for_s >= options_.grace_s && section() == nullptr) {
    stage_ = 2;
    log_error("host ", options_.host, ": ", trouble_, "; this rank has not ended by itself within ",
              options_.grace_s, " s after that (", what_it_does(), "); ending all ranks");
    std::fflush(stdout);
    if (options_.end_all) std::thread(options_.end_all, 1).detach();
  }
  if (stage_ == 2 && for_s >= options_.grace_s + (options_.end_all ? kEndAlone_s : 0.0))
    std::_Exit(1);  // the launcher sees it
}

// A file system may hang, and be the reason for all this: it must not keep the run from ending.
std::string Watchdog::write_record(const std::string& reason, const std::string& more, bool say) {
  auto& recorder = FlightRecorder::instance();
  const bool has_folder = !recorder.folder().empty();
  if (!has_folder && say) log_info("\n", recorder.text(reason, more));
  if (!has_folder) return "; set BORA_FLIGHT_RECORD_DIR to a folder to have flight records written";
  std::packaged_task<std::string()> task(
      [&recorder, reason, more] { return recorder.write(reason, more); });
  std::future<std::string> path = task.get_future();
  std::thread(std::move(task)).detach();
  if (path.wait_for(kWriteLimit) != std::future_status::ready)
    return detail::join("; writing the flight record to ", recorder.folder(), " hangs");
  const std::string written = path.get();
  if (written.empty()) return {};
  if (say) log_info("flight record written to ", written);
  return detail::join("; flight records: ", recorder.folder(), "/flight-<rank>.txt");
}

std::string Watchdog::operation_failed(const std::string& message, bool for_good) {
  Lock lock(mutex_);
  if (!running_) return {};
  if (for_good) trouble(message, /*verdict=*/false);
  if (board() != nullptr && for_good) board()->ask_for_records();
  const std::string more = report();
  lock.unlock();
  return write_record(message, more, false);
}

std::string Watchdog::verdict() {
  const Lock lock(mutex_);
  return verdict_;
}

std::string Watchdog::describe(int world_rank) {
  const Lock lock(mutex_);
  return board() != nullptr ? board()->describe(world_rank) : std::string();
}

std::string Watchdog::what_it_does() const {
  if (const Section* now = section()) return detail::join("in '", now->name, "'");
  const auto latest = FlightRecorder::instance().latest();
  return latest
             ? detail::join("latest operation: ", latest->describe(), ", ", name_of(latest->state))
             : "no operation yet";
}

std::string Watchdog::report() const {
  if (board() == nullptr) return {};
  std::string text = "ranks of this host, as they were within the last half second:\n";
  for (const int r : board()->world_ranks())
    if (const std::string what = board()->describe(r); !what.empty())
      text += detail::join("  rank ", r, ": ", what, "\n");
  return text;
}

}  // namespace bora
