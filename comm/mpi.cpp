// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi.hpp"

#include "comm/flight_recorder.hpp"
#include "comm/fnv.hpp"
#include "comm/mpi_status.hpp"
#include "comm/rank_group.hpp"
#include "comm/watchdog.hpp"
#include "core/log.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>
#include <vector>

namespace bora {
namespace {

std::atomic<bool> g_broken{false};

ThreadLevel level_of(int provided) {
  if (provided >= MPI_THREAD_MULTIPLE) return ThreadLevel::multiple;
  if (provided >= MPI_THREAD_SERIALIZED) return ThreadLevel::serialized;
  if (provided >= MPI_THREAD_FUNNELED) return ThreadLevel::funneled;
  return ThreadLevel::single;
}

std::atomic<double> g_wait_limit_s{kDefaultWaitLimit_s};

/// Polls without eating the core until all requests are done (MPI_REQUEST_NULL); false when the
/// time is over first.
bool wait_bounded(std::vector<MPI_Request>& requests, double limit_s) {
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    bool all = true;
    for (MPI_Request& request : requests) {
      int done = 1;
      if (request != MPI_REQUEST_NULL) BORA_MPI(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
      all = all && done != 0;
    }
    if (all) return true;
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (waited.count() > limit_s) return false;
    std::this_thread::sleep_for(
        std::chrono::microseconds(waited.count() < 0.1 ? 100 : 2000));  // late peers: no hurry
  }
}

/// What each rank tells every other at the end.
struct Farewell {
  int32_t code = 0;
  int32_t broken = 0;
  uint64_t message = 0;  // its hash; 0: none
};

}  // namespace

std::string MpiStatus::text(Code code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS || length == 0)
    return detail::join("code ", code);
  return std::string(text, static_cast<size_t>(length));
}

bool mpi_broken() { return g_broken; }
void mark_mpi_broken() { g_broken = true; }
double mpi_wait_limit() { return g_wait_limit_s; }
void set_mpi_wait_limit(double seconds) { g_wait_limit_s = seconds; }

MpiGate mpi_gate() {
  static std::mutex mutex;
  return MpiGate(mutex);
}

struct MpiSession::Impl {
  int rank = 0, size = 1, local_rank = 0, local_size = 1;
  std::string host;
  ThreadLevel level = ThreadLevel::single;
  // Only for conclude(), so that the last meeting can never pair with anything else.
  MPI_Comm exit_comm = MPI_COMM_NULL;
  // Outlive a meeting that is given up: MPI may still write to them.
  Farewell farewell;
  std::vector<Farewell> farewells;    // by rank
  std::vector<MPI_Request> arrivals;  // by rank; null once it is here
  std::vector<MPI_Request> sends;
  int exceptions = 0;
};

MpiSession::MpiSession(int* argc, char*** argv) : impl_(std::make_unique<Impl>()) {
  impl_->exceptions = std::uncaught_exceptions();
  int initialized = 0;
  BORA_MPI(MPI_Initialized(&initialized));
  BORA_CHECK(!initialized, "MpiSession: MPI is running already; a process has one session");
  int provided = 0;
  {
    // Without ranks that never start it would not return.
    const WatchedStart start("MPI_Init");
    BORA_MPI(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided));
  }
  BORA_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  BORA_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &impl_->rank));
  BORA_MPI(MPI_Comm_size(MPI_COMM_WORLD, &impl_->size));
  const auto lookup = [](const char* name) { return std::getenv(name); };
  if (const std::string fault = detail::launcher_fault(impl_->size, lookup); !fault.empty()) {
    MPI_Finalize();  // a world of one: nobody to wait for
    throw UsageError(fault);
  }
  log_set_rank(impl_->rank, impl_->size);
  impl_->level = level_of(provided);
  if (impl_->level == ThreadLevel::single) {
    MPI_Finalize();
    BORA_FAIL(
        "MpiSession: MPI gives thread level single, wanted funneled at least; use an MPI "
        "library built with thread support");
  }
  char name[MPI_MAX_PROCESSOR_NAME] = {};
  int length = 0;
  BORA_MPI(MPI_Get_processor_name(name, &length));
  impl_->host.assign(name, static_cast<size_t>(length));
  MPI_Comm local = MPI_COMM_NULL;
  BORA_MPI(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, impl_->rank, MPI_INFO_NULL,
                               &local));
  BORA_MPI(MPI_Comm_rank(local, &impl_->local_rank));
  BORA_MPI(MPI_Comm_size(local, &impl_->local_size));
  BORA_MPI(MPI_Comm_free(&local));
  BORA_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &impl_->exit_comm));
  std::vector<char> names(static_cast<size_t>(impl_->size) * sizeof(name));
  BORA_MPI(MPI_Allgather(name, sizeof(name), MPI_CHAR, names.data(), sizeof(name), MPI_CHAR,
                         MPI_COMM_WORLD));
  std::vector<std::string> hosts;
  for (int r = 0; r < impl_->size; ++r)
    hosts.emplace_back(names.data() + static_cast<size_t>(r) * sizeof(name));
  RankGroup::set_world(std::move(hosts));
  Watchdog::instance().start(
      {.rank = impl_->rank, .size = impl_->size, .host = impl_->host, .end_all = [this](int code) {
         abort(code);
       }});
  if (impl_->size == 1 && !detail::has_launcher(lookup))
    log_info("one process, started without a launcher (mpirun -n <ranks> starts several)");
}

MpiSession::~MpiSession() {
  if (mpi_broken() || std::uncaught_exceptions() > impl_->exceptions) {
    log_error("host ", impl_->host, ": this rank ends by an error; ending all ranks");
    abort(1);
  }
  BORA_MPI_WARN(MPI_Comm_free(&impl_->exit_comm));
  Watchdog::instance().forget_end_all();  // MPI_Abort is not allowed after MPI_Finalize
  {
    const WatchedCall call("MPI_Finalize", 60.0);
    BORA_MPI_WARN(MPI_Finalize());
  }
  Watchdog::instance().stop();
}

int MpiSession::rank() const { return impl_->rank; }
int MpiSession::size() const { return impl_->size; }
int MpiSession::local_rank() const { return impl_->local_rank; }
int MpiSession::local_size() const { return impl_->local_size; }
const std::string& MpiSession::host() const { return impl_->host; }
ThreadLevel MpiSession::thread_level() const { return impl_->level; }
std::string MpiSession::library() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  BORA_MPI(MPI_Get_library_version(text, &length));
  const std::string all(text, static_cast<size_t>(length));
  return all.substr(0, all.find_first_of("\n,"));
}

void MpiSession::abort(int code) const {
  std::fflush(nullptr);
  MPI_Abort(MPI_COMM_WORLD, code);
  std::_Exit(code);  // MPI_Abort may return on a broken installation
}

bool MpiSession::meet_at_the_end(double limit_s) {
  Impl& s = *impl_;
  const auto n = static_cast<size_t>(s.size);
  s.farewells.assign(n, {});
  s.farewells[static_cast<size_t>(s.rank)] = s.farewell;
  s.arrivals.assign(n, MPI_REQUEST_NULL);
  s.sends.assign(n, MPI_REQUEST_NULL);
  constexpr int kBytes = sizeof(Farewell);
  for (int r = 0; r < s.size; ++r) {
    if (r == s.rank) continue;
    const auto i = static_cast<size_t>(r);
    BORA_MPI(MPI_Irecv(&s.farewells[i], kBytes, MPI_BYTE, r, 0, s.exit_comm, &s.arrivals[i]));
    BORA_MPI(MPI_Isend(&s.farewell, kBytes, MPI_BYTE, r, 0, s.exit_comm, &s.sends[i]));
  }
  // A small message leaves at once, so what is waited for is the arrivals.
  return wait_bounded(s.arrivals, limit_s) && wait_bounded(s.sends, limit_s);
}

void MpiSession::abort_for_absent(double limit_s, double grace_s) const {
  const Impl& s = *impl_;
  std::string absent;
  bool speaks = true;  // the lowest rank that is here
  for (int r = 0; r < s.size; ++r) {
    if (r == s.rank) continue;
    if (s.arrivals[static_cast<size_t>(r)] != MPI_REQUEST_NULL) {
      absent += (absent.empty() ? "" : ", ") + std::to_string(r);
    } else if (r < s.rank) {
      speaks = false;
    }
  }
  // It ends the others as well; should it not, each ends by itself.
  if (!speaks) std::this_thread::sleep_for(std::chrono::duration<double>(grace_s));
  log_error("host ", s.host, ": this rank is done, but ", limit_s,
            " s later (the time limit) still nothing is heard of rank(s) ",
            absent.empty() ? "?" : absent, ": busy or stuck; ending all ranks");
  abort(1);
}

int MpiSession::conclude(int code, const std::string& message, double grace_s) {
  Impl& s = *impl_;
  const auto say = [&] {
    if (!message.empty()) log_error(s.size > 1 ? "host " + s.host + ": " : "", message);
  };
  std::fflush(nullptr);  // mpirun kills the others as soon as the first exits with a failure
  if (s.size == 1) {
    say();
    if (mpi_broken()) abort(code != 0 ? code : 1);
    return code;
  }
  s.farewell = {code, mpi_broken() ? 1 : 0, message.empty() ? 0 : fnv1a(message)};
  const double limit_s = code != 0 ? grace_s : mpi_wait_limit();
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
  // Everybody is here: say each message once, and leave without MPI_Abort's noise.
  if (first) say();
  if (broken) {
    // Somebody cannot finalise, so nobody does; but not before everybody has spoken.
    BORA_MPI(MPI_Barrier(s.exit_comm));
    abort(result);
  }
  return result;
}

int run_ranks(int argc, char** argv, const std::function<int(MpiSession&)>& body) {
  std::unique_ptr<MpiSession> session;
  int code = 0;
  std::string message;
  try {
    session = std::make_unique<MpiSession>(&argc, &argv);
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

}  // namespace bora
