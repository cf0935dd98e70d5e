// SPDX-License-Identifier: Apache-2.0
#include "comm/session.hpp"

#include "comm/rank_group.hpp"
#include "comm/run_state.hpp"
#include "comm/runtime.hpp"
#include "comm/watchdog.hpp"
#include "core/crash_note.hpp"
#include "core/error.hpp"
#include "core/fnv.hpp"
#include "core/log.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>
#include <vector>

namespace bora {
namespace {

std::atomic<bool> g_broken{false};
std::atomic<double> g_wait_limit_s{kDefaultWaitLimit_s};

/// What each rank tells every other at the end.
struct Farewell {
  int32_t code = 0;
  int32_t broken = 0;
  uint64_t message = 0;  // its hash; 0: none
};

std::unique_ptr<Runtime> start(int* argc, char*** argv) {
  const auto lookup = [](const char* name) { return std::getenv(name); };
  const char* transport = lookup("BORA_TRANSPORT");
  const bool forced = transport != nullptr && *transport != '\0';
  const bool by_mpi = detail::has_mpi_launcher(lookup, mpi_speaks_pmi());
  const auto place = by_mpi && !forced ? std::nullopt : detail::launch_place(lookup);
  if (!by_mpi && place) {
    if (place->rank == 0 && place->told_by.starts_with("SLURM"))
      log_info("srun has started ", place->size, " ranks without a protocol of this MPI: they ",
               "speak by TCP (srun --mpi=list shows what there is; BORA_TRANSPORT=mpi tries MPI)");
    return start_tcp(*place);
  }
  if (!by_mpi && forced)
    throw UsageError(
        "BORA_TRANSPORT=tcp, but neither RANK and WORLD_SIZE nor srun's variables are there");
  std::unique_ptr<Runtime> mpi;
  try {
    mpi = start_mpi(argc, argv);
  } catch (const UsageError& e) {
    // The launcher's MPI is not this one: its variables may still tell where this rank stands.
    const auto other = forced ? std::nullopt : detail::launch_place(lookup);
    if (!other) throw;
    if (other->rank == 0) log_warn(e.what(), ". Going on by TCP, as ", other->told_by, " say");
    return start_tcp(*other);
  }
  if (mpi->world()->size() > 1) return mpi;
  if (place && place->size > 1) {
    mpi->finish();
    throw UsageError(detail::join("BORA_TRANSPORT=mpi, but to MPI each of the ", place->size,
                                  " processes is alone (world size 1), where ", place->told_by,
                                  " say otherwise"));
  }
  if (!detail::has_launcher(lookup))
    log_info("one process, started without a launcher (mpirun -n <ranks> starts several)");
  return mpi;
}

}  // namespace

bool run_broken() { return g_broken; }
void mark_run_broken() { g_broken = true; }
double wait_limit() { return g_wait_limit_s; }
void set_wait_limit(double seconds) { g_wait_limit_s = seconds; }

struct Session::Impl {
  std::unique_ptr<Runtime> runtime;
  int rank = 0, size = 1, local_rank = 0, local_size = 1;
  int exceptions = std::uncaught_exceptions();
  // Only for conclude(), so that the last meeting can never pair with anything else.
  std::unique_ptr<Transport> last;
  // Outlive a meeting that is given up: messages may still be under way.
  Farewell farewell;
  std::vector<Farewell> farewells;  // by rank
  std::vector<Request> arrivals;    // by rank; done once it is here
  std::vector<Request> sends;
  std::string loss;  // what the transport said when it lost a rank
};

Session::Session(int* argc, char*** argv) : impl_(std::make_unique<Impl>()) {
  impl_->runtime = start(argc, argv);
  open();
}

Session::Session(const LaunchPlace& place) : impl_(std::make_unique<Impl>()) {
  impl_->runtime = start_tcp(place);
  open();
}

void Session::open() {
  Impl& s = *impl_;
  Transport& world = *s.runtime->world();
  s.rank = world.rank();
  s.size = world.size();
  log_set_rank(s.rank, s.size);
  tell_crashes(s.rank, s.size);  // MPI has its handlers by now, they come after ours
  const std::vector<int> lowest = world.lowest_on_host();
  const auto me = lowest.begin() + s.rank;
  s.local_rank = static_cast<int>(std::count(lowest.begin(), me, *me));
  s.local_size = static_cast<int>(std::count(lowest.begin(), lowest.end(), *me));
  s.last = world.split(0, s.rank);
  struct Name {
    char text[128] = {};
  } name;
  host().copy(name.text, sizeof(name.text) - 1);
  std::vector<std::string> hosts;
  for (const Name& one : all_gather(world, name, "hosts")) hosts.emplace_back(one.text);
  RankGroup::set_world(std::move(hosts));
  Watchdog::instance().start(
      {.rank = s.rank, .size = s.size, .host = host(), .end_all = [this](int code) {
         abort(code);
       }});
}

Session::~Session() {
  if (run_broken() || std::uncaught_exceptions() > impl_->exceptions) {
    log_error("host ", host(), ": this rank ends by an error; ending all ranks");
    abort(1);
  }
  impl_->last.reset();
  Watchdog::instance().forget_end_all();  // MPI_Abort is not allowed after MPI_Finalize
  {
    const WatchedCall call("finish", 60.0, "end of the run");
    impl_->runtime->finish();
  }
  Watchdog::instance().stop();
}

int Session::rank() const { return impl_->rank; }
int Session::size() const { return impl_->size; }
int Session::local_rank() const { return impl_->local_rank; }
int Session::local_size() const { return impl_->local_size; }
const std::string& Session::host() const { return impl_->runtime->host(); }
ThreadLevel Session::thread_level() const { return impl_->runtime->thread_level(); }
std::string Session::library() { return mpi_library(); }
const char* Session::transport_name() const { return world()->name(); }
const std::shared_ptr<Transport>& Session::world() const { return impl_->runtime->world(); }

void Session::abort(int code) const {
  std::fflush(nullptr);
  impl_->runtime->abort(code);
  std::_Exit(code);  // the compiler does not know that it has ended
}

// Polls without eating the core; false when the time is over or a rank lost before all have come.
bool Session::meet_at_the_end(double limit_s) {
  Impl& s = *impl_;
  const auto n = static_cast<size_t>(s.size);
  s.farewells.assign(n, {});
  s.farewells[static_cast<size_t>(s.rank)] = s.farewell;
  s.arrivals.assign(n, {});
  s.sends.assign(n, {});
  constexpr int kTag = 0;
  try {
    for (int r = 0; r < s.size; ++r) {
      if (r == s.rank) continue;
      const auto i = static_cast<size_t>(r);
      s.arrivals[i] = s.last->receive(&s.farewells[i], sizeof(Farewell), r, kTag);
      s.sends[i] = s.last->send(&s.farewell, sizeof(Farewell), r, kTag);
    }
    const auto start = std::chrono::steady_clock::now();
    for (;;) {
      bool all = true;
      // A small message leaves at once, so what is waited for is the arrivals.
      for (std::vector<Request>* requests : {&s.arrivals, &s.sends})
        for (Request& request : *requests) all = s.last->test({&request, 1}) && all;
      if (all) return true;
      const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
      if (waited.count() > limit_s) return false;
      s.last->rest(std::chrono::microseconds(waited.count() < 0.1 ? 100 : 2000));  // no hurry
    }
  } catch (const Error& e) {
    s.loss = e.what();
    return false;
  }
}

void Session::abort_for_absent(double limit_s, double grace_s) const {
  const Impl& s = *impl_;
  std::string absent;
  bool speaks = true;  // the lowest rank that is here
  for (int r = 0; r < s.size; ++r) {
    if (r == s.rank) continue;
    if (s.arrivals[static_cast<size_t>(r)].id != 0) {
      absent += (absent.empty() ? "" : ", ") + std::to_string(r);
    } else if (r < s.rank) {
      speaks = false;
    }
  }
  // It ends the others as well; should it not, each ends by itself.
  if (!speaks && s.loss.empty())
    std::this_thread::sleep_for(std::chrono::duration<double>(grace_s));
  if (s.loss.empty()) {
    log_error("host ", host(), ": this rank is done, but ", limit_s,
              " s later (the time limit) still nothing is heard of rank(s) ",
              absent.empty() ? "?" : absent, ": busy or stuck; ending all ranks");
  } else {
    log_error("host ", host(), ": this rank is done, but ", s.loss, "; ending all ranks");
  }
  abort(1);
}

int Session::conclude(int code, const std::string& message, double grace_s) {
  Impl& s = *impl_;
  const auto say = [&] {
    if (!message.empty()) log_error(s.size > 1 ? "host " + host() + ": " : "", message);
  };
  std::fflush(nullptr);  // mpirun kills the others as soon as the first exits with a failure
  if (s.size == 1) {
    say();
    if (run_broken()) abort(code != 0 ? code : 1);
    return code;
  }
  s.farewell = {code, run_broken() ? 1 : 0, message.empty() ? 0 : fnv1a(message)};
  const double limit_s = code != 0 ? grace_s : wait_limit();
  if (!meet_at_the_end(limit_s)) {
    if (code == 0) abort_for_absent(limit_s, grace_s);
    say();
    abort(code);
  }
  int result = 0;
  bool broken = false, first = true;
  for (int r = 0; r < s.size; ++r) {
    const Farewell& f = s.farewells[static_cast<size_t>(r)];
    result = std::max(result, static_cast<int>(f.code));
    broken = broken || f.broken != 0;
    if (r < s.rank && f.message == s.farewell.message) first = false;
  }
  if (broken && result == 0) result = 1;
  if (result == 0) return 0;
  // Everybody is here: say each message once, and leave without an abort's noise.
  if (first) say();
  if (broken) {
    // Somebody cannot finish in peace, so nobody does; but not before everybody has spoken.
    all_gather(*s.last, code, "the end of the run");
    abort(result);
  }
  return result;
}

namespace {

int run(const std::function<std::unique_ptr<Session>()>& start,
        const std::function<int(Session&)>& body) {
  // A file over the limit of `ulimit -f` is then a write that fails and says so, as on a full disk,
  // and not the end of this rank without a word.
  std::signal(SIGXFSZ, SIG_IGN);
  std::unique_ptr<Session> session;
  int code = 0;
  std::string message;
  try {
    session = start();
  } catch (const UsageError& e) {
    log_error(e.what());
    return 2;
  } catch (const std::exception& e) {
    log_error(e.what());
    return 1;
  }
  try {
    code = body(*session);
  } catch (const UsageError& e) {
    code = 2;
    message = e.what();
  } catch (const std::exception& e) {
    code = 1;
    message = e.what();
  } catch (...) {
    code = 1;
    message = "an exception of unknown type";
  }
  try {
    return session->conclude(code, message);
  } catch (const std::exception& e) {
    log_error(message.empty() ? "" : message + "; then: ", e.what());
    session->abort(code != 0 ? code : 1);
  }
}

}  // namespace

int run_ranks(int argc, char** argv, const std::function<int(Session&)>& body) {
  return run([&] { return std::make_unique<Session>(&argc, &argv); }, body);
}

int run_ranks(const LaunchPlace& place, const std::function<int(Session&)>& body) {
  return run([&] { return std::make_unique<Session>(place); }, body);
}

}  // namespace bora
