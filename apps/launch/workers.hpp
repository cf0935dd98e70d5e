// SPDX-License-Identifier: Apache-2.0
// The processes that bora_launch starts, watches and stops.
#pragma once

#include <sys/types.h>

#include <vector>

#include "apps/launch/options.hpp"

namespace bora::launch {

/// Starts the workers, passes signals on to them, and returns when all have ended: 0, or the code
/// of the first that failed (128 + number for a signal).  When one fails the others get a moment to
/// end by themselves, then SIGTERM, then SIGKILL.  Nothing that they have started is left.
class Workers {
 public:
  explicit Workers(const Options& options);
  int run();

 private:
  struct Worker {
    pid_t pid = -1;  // also its process group; -1: ended
    pid_t group = -1;
  };
  void start(int local);
  [[noreturn]] void become_worker(int local);
  void reap();
  void kill_all(int signal);
  int n_running() const;

  const Options& options_;
  int listener_ = -1;
  int port_ = 0;
  std::string token_;
  std::vector<Worker> workers_;
  int code_ = 0;
};

}  // namespace bora::launch
