// SPDX-License-Identifier: Apache-2.0
// CrashNote: what a thread reads, for the last words of a program that crashes in it.
#pragma once

#include <string>

namespace bora {

/// While it lives, a fatal signal in this thread is told with `path`: the file, perhaps with what
/// is read of it.  Scopes nest; the innermost one is told.  Costs two stores.  `path` is not copied
/// and must outlive the scope; an empty one changes nothing.
class CrashNote {
 public:
  explicit CrashNote(const std::string& path) noexcept;
  ~CrashNote();
  CrashNote(const CrashNote&) = delete;
  CrashNote& operator=(const CrashNote&) = delete;

 private:
  const char* before_;
};

/// From now on SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT in a thread that reads (CrashNote) first
/// write one line to stderr: rank, signal, file, advice.  Then what was installed before goes on as
/// if nothing had been: the handlers of an MPI (so to be called after its start), of a sanitizer,
/// or the signal's default, the end of the process.  Once a process; later calls set the rank only.
void tell_crashes(int rank, int size);

}  // namespace bora
