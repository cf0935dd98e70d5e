// SPDX-License-Identifier: Apache-2.0
// A line that stays below the log on a terminal: the progress of a long work.
#pragma once

#include <string>

namespace bora {

/// Puts `text` below everything that is logged, in the place of the footer before; an empty one
/// removes it.  log_line() then writes above it, in one piece with it, whoever logs.  For a
/// terminal only, and shorter than it is wide: a wrapped line cannot be wiped.  Without line ends.
/// Thread-safe.
void log_set_footer(const std::string& text);

/// Whether stderr is a terminal that can have one: not with TERM=dumb or without TERM, nor where
/// NO_COLOR, set to anything, asks for plain text.  Reads the environment at each call.
bool log_can_have_footer();

}  // namespace bora
