// SPDX-License-Identifier: Apache-2.0
// MpiSession: starts and ends MPI, knows who and where this rank is, and how a run ends.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace bora {

/// Time limit of waiting for other ranks unless one is given, seconds.
inline constexpr double kDefaultWaitLimit_s = 600.0;

/// What MPI allows threads to do.
enum class ThreadLevel { single, funneled, serialized, multiple };

/// MPI between construction and destruction; one a process.  Asks for `multiple` and takes at least
/// `funneled`.  Communicators must be destroyed before it.
class MpiSession {
 public:
  /// Starts MPI (which may take arguments of its own out of argv).  Throws UsageError when the
  /// launcher belongs to another MPI, so that each process believes to be alone; Error when MPI is
  /// running already or gives no usable thread level.
  MpiSession(int* argc, char*** argv);
  /// Finalises MPI; if an exception is on its way or an operation was given up, ends all ranks
  /// instead, since finalising would wait for ever.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const;
  int size() const;
  /// Among the ranks that share this host's memory: by MPI, not by environment variables.
  int local_rank() const;
  int local_size() const;
  const std::string& host() const;
  ThreadLevel thread_level() const;
  /// The MPI library in its own words, one line.
  static std::string library();

  /// Ends all ranks of the world with this exit code.
  [[noreturn]] void abort(int code) const;

  /// The end of a run: meets the other ranks and returns the exit code for all, the largest.  A
  /// rank that failed (code != 0) waits `grace_s` for the others; if they do not come (they wait in
  /// a collective for this rank) it prints `message` and ends all ranks by MPI_Abort.  A rank that
  /// is done (code 0) waits as long as operations do: the time limit given to a communicator last
  /// (600 s without one); then it names the ranks it has not heard of and ends all with code 1.  If
  /// all come, each distinct message is printed once, by its lowest rank.
  int conclude(int code, const std::string& message, double grace_s = 2.0);

 private:
  /// Tells every rank how this one ended; whether all did so within the limit.
  bool meet_at_the_end(double limit_s);
  [[noreturn]] void abort_for_absent(double limit_s, double grace_s) const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The main() of a program of many ranks: starts MPI, runs body, ends all ranks with one exit code.
/// An exception that escapes body on one rank is printed with rank and host and ends every rank,
/// within seconds: 2 for UsageError, else 1.
int run_ranks(int argc, char** argv, const std::function<int(MpiSession&)>& body);

namespace detail {

/// Looks a variable up; nullptr when not set.
using EnvironmentLookup = std::function<const char*(const char*)>;

/// What is wrong when MPI counts `world_size` ranks under these launcher variables; empty when
/// nothing is.  SLURM_NTASKS alone, as in a batch script without srun, is no launcher.
std::string launcher_fault(int world_size, const EnvironmentLookup& lookup);
/// Whether any launcher's variables are there.
bool has_launcher(const EnvironmentLookup& lookup);

}  // namespace detail
}  // namespace bora
