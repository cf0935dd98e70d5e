// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: the ways in which the ranks of a run are started and ended.
#pragma once

#include "comm/launcher.hpp"
#include "comm/session.hpp"
#include "comm/transport.hpp"

namespace bora {

/// The ranks of a run between start and end; one a process.
class Runtime {
 public:
  virtual ~Runtime() = default;
  /// All ranks of the run.
  virtual const std::shared_ptr<Transport>& world() const = 0;
  virtual const std::string& host() const = 0;
  virtual ThreadLevel thread_level() const = 0;
  /// After all ranks have met at the end, and all transports of others are gone.
  virtual void finish() = 0;
  /// Ends all ranks with this exit code.
  [[noreturn]] virtual void abort(int code) const = 0;
};

/// Starts MPI.  Errors: see Session.
std::unique_ptr<Runtime> start_mpi(int* argc, char*** argv);
/// Joins the other ranks by TCP.  Errors: see Session.
std::unique_ptr<Runtime> start_tcp(const LaunchPlace& place);
/// Whether this MPI surely understands srun --mpi=pmi2.  Open MPI may have been built without, and
/// would end the process at its start.
bool mpi_speaks_pmi();
/// The MPI library in its own words, one line.
std::string mpi_library();

}  // namespace bora
