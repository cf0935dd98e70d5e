// SPDX-License-Identifier: Apache-2.0
// One template that turns the status codes of C libraries into errors.
#pragma once

#include <source_location>
#include <string>

#include "core/error.hpp"
#include "core/log.hpp"

namespace bora {

/// A library describes itself by a traits struct beside its wrapper:
///   struct MpiStatus { using Code = int; static bool ok(Code); static std::string text(Code);
///   static constexpr const char* name; };
/// check<MpiStatus>(code, "MPI_Barrier(comm)") throws Error "MPI: MPI_Barrier(comm) failed: <text>
/// [file:line]".
template <class Lib>
void check(typename Lib::Code code, const char* expression,
           std::source_location where = std::source_location::current()) {
  if (!Lib::ok(code)) [[unlikely]]
    detail::throw_error(detail::join(Lib::name, ": ", expression, " failed: ", Lib::text(code)),
                        where);
}

/// The twin for destructors: logs a warning, never throws.
template <class Lib>
void check_warn(typename Lib::Code code, const char* expression) noexcept {
  if (!Lib::ok(code)) [[unlikely]] {
    try {
      log_warn(Lib::name, ": ", expression, " failed: ", Lib::text(code));
    } catch (...) {  // nothing more can be done in a destructor
    }
  }
}

}  // namespace bora
