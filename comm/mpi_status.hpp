// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: MPI itself, its status codes as errors, and the process-wide "broken" flag.
#pragma once

#include "core/status.hpp"

#include <mpi.h>

#include <mutex>
#include <string>

namespace bora {

/// Traits for check<>: MPI's error handler is set to return, so every call's code must be checked.
struct MpiStatus {
  using Code = int;
  static constexpr const char* name = "MPI";
  static bool ok(Code code) { return code == MPI_SUCCESS; }
  static std::string text(Code code);
};

/// Throws Error with MPI's own text unless the call succeeds.
#define BORA_MPI(expr) ::bora::check<::bora::MpiStatus>((expr), #expr)
/// For destructors: logs instead of throwing.
#define BORA_MPI_WARN(expr) ::bora::check_warn<::bora::MpiStatus>((expr), #expr)

/// True once an operation was given up with messages still under way.  MPI cannot be finalised then
/// (it would wait for them); the session ends by MPI_Abort.  MPI is one a process, and so is this
/// flag.
bool mpi_broken();
void mark_mpi_broken();

/// Longest wait for the other ranks at the end of the run, seconds: the time limit that a
/// communicator was given last, as make_communicator and set_timeout note it here.
double mpi_wait_limit();
void set_mpi_wait_limit(double seconds);

/// Lets the communication threads of a process into MPI one at a time.  MPI allows them together,
/// but Open MPI's shared-memory transport takes two of its locks in both orders (ThreadSanitizer
/// shows it), which two threads could turn into a deadlock.  Held for single non-blocking calls
/// only.
using MpiGate = std::unique_lock<std::mutex>;
MpiGate mpi_gate();

}  // namespace bora
