// SPDX-License-Identifier: Apache-2.0
// Session: starts and ends the ranks of a run, knows who and where this one is, and how a run ends.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace bora {

class Transport;
struct LaunchPlace;

/// Time limit of waiting for other ranks unless one is given, seconds.
inline constexpr double kDefaultWaitLimit_s = 600.0;

/// What threads may do with MPI; TCP allows them everything.
enum class ThreadLevel { single, funneled, serialized, multiple };

/// The ranks of a run between construction and destruction; one a process.  Communicators must be
/// destroyed before it.  Who started the process decides how ranks speak to each other:
/// MPI's launcher (mpirun, or srun with a protocol of MPI's): MPI;
/// RANK, WORLD_SIZE, MASTER_ADDR and so on, or srun without such a protocol: TCP;
/// nobody: there is one rank.
class Session {
 public:
  /// MPI may take arguments of its own out of argv.  It is asked for threads of level `multiple`,
  /// and must give at least `funneled`.  Throws UsageError when variables are missing or wrong, or
  /// the launcher belongs to another MPI, so that each process believes to be alone; Error when
  /// ranks stay away, a port is taken, MPI is running already or gives no usable thread level.
  Session(int* argc, char*** argv);
  /// By TCP, at the place given.
  explicit Session(const LaunchPlace& place);
  /// Ends the ranks' connection (MPI_Finalize); if an exception is on its way or an operation was
  /// given up, ends all ranks instead, since finalising would wait for ever.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const;
  int size() const;
  /// Among the ranks that share this host's memory: as found out, not by environment variables.
  int local_rank() const;
  int local_size() const;
  const std::string& host() const;
  ThreadLevel thread_level() const;
  /// The MPI library in its own words, one line.
  static std::string library();

  /// Ends all ranks of the world with this exit code.
  [[noreturn]] void abort(int code) const;
  /// "MPI", "TCP": how the ranks speak to each other.
  const char* transport_name() const;
  /// All ranks; for the inside of comm.
  const std::shared_ptr<Transport>& world() const;

  /// The end of a run: meets the other ranks and returns the exit code for all, the largest.  A
  /// rank that failed (code != 0) waits `grace_s` for the others; if they do not come (they wait in
  /// a collective for this rank) it prints `message` and ends all ranks.  A rank that
  /// is done (code 0) waits as long as operations do: the time limit given to a communicator last
  /// (600 s without one); then it names the ranks it has not heard of and ends all with code 1.  If
  /// all come, each distinct message is printed once, by its lowest rank.
  int conclude(int code, const std::string& message, double grace_s = 2.0);

 private:
  void open();
  /// Tells every rank how this one ended; whether all did so within the limit.
  bool meet_at_the_end(double limit_s);
  [[noreturn]] void abort_for_absent(double limit_s, double grace_s) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The main() of a program of many ranks: starts a session, runs body, ends all ranks with one exit
/// code. An exception that escapes body on one rank is printed with rank and host and ends every
/// rank, within seconds: 2 for UsageError, else 1.
int run_ranks(int argc, char** argv, const std::function<int(Session&)>& body);
/// The same at a place given.
int run_ranks(const LaunchPlace& place, const std::function<int(Session&)>& body);

}  // namespace bora
