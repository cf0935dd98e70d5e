// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: MPI itself, its status codes as errors, and the process-wide "broken" flag.
#pragma once

#include "comm/run_state.hpp"
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

/// Lets the communication threads of a process into MPI one at a time.  MPI allows them together,
/// but Open MPI's shared-memory transport takes two of its locks in both orders (ThreadSanitizer
/// shows it), which two threads could turn into a deadlock.  Held for single non-blocking calls
/// only.
using MpiGate = std::unique_lock<std::mutex>;
MpiGate mpi_gate();

}  // namespace bora
