// SPDX-License-Identifier: Apache-2.0
// Runs the threads of a grid on the OS thread that calls.  Blocks run one after the other.  A
// thread runs until it ends or waits at a barrier or for lanes of its warp; then the next one of
// the schedule goes on.  Threads that never wait need no stack of their own: one fiber runs them
// all.
#pragma once

#include <functional>

#include "kernels/simt/simt.hpp"
#include "kernels/simt/static_shared.hpp"

namespace bora::simt::detail {

/// A launch as it was asked for.
struct Launch {
  const char* what;
  dim3 grid, block;
  size_t shared_bytes;  ///< dynamic
  const StaticShared* static_shared;
};

/// Throws Error where a device would refuse the launch (limits of compute capability 9.0).
void check_launch(const Launch& launch);

/// thread_body() for each thread of the grid, in the order of `schedule`.  Errors: see launch().
void run_grid(const Launch& launch, const std::function<void()>& thread_body, Schedule schedule);

}  // namespace bora::simt::detail
