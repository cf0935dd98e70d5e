// SPDX-License-Identifier: Apache-2.0
// What this process has warned of, for a report of its run.
#pragma once

#include <string>
#include <vector>

namespace bora {

/// The lines of level warn and error that were logged since the last call, without prefixes, oldest
/// first; the first 100, and of more a last line that says how many.  Lines that the level drops
/// are not among them.  Thread-safe.
std::vector<std::string> log_take_warnings();

}  // namespace bora
