// SPDX-License-Identifier: Apache-2.0
// Host: what this machine is called, and which of its processes live.
#pragma once

#include <cstdint>
#include <string>

namespace bora {

/// This host's name; "host" where the system does not say.
std::string host_name();

/// Another one after each start of the kernel; empty where the system does not say.
std::string boot_id();

/// When a process of this host began, in the kernel's ticks since its start: with the number it
/// names a process for good.  0 if it is gone, has ended (a zombie), or /proc does not show it.
int64_t process_born(int64_t pid);

/// Whether a process of this host is gone, or has ended and only its parent has not asked yet how
/// (a zombie).  False for one that /proc hides.
bool process_ended(int64_t pid);

}  // namespace bora
