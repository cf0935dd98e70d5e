// SPDX-License-Identifier: Apache-2.0
// spawn_ranks: ranks started from inside a program.
#pragma once

#include "comm/session.hpp"

#include <functional>

namespace bora {

/// Runs `body` on n ranks, each a new process of this host (they speak by TCP and shared memory),
/// and returns when all have ended well.  What body throws on a rank is thrown here with the rank
/// in front, as the type it was (UsageError or Error); so is the end of a rank by a signal.  The
/// first to fail counts; the others are ended.  Must be called while the process has one thread and
/// no session: a process with more cannot be copied safely.  Error if it has, or if n < 1.
void spawn_ranks(int n, const std::function<void(Session&)>& body);

}  // namespace bora
