// SPDX-License-Identifier: Apache-2.0
// Whatever is wrong with a file, the Error says which file it is.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace bora::fuzz {

/// Runs `body`; true if it went through.  Catches Error and nothing else; one that does not name
/// `file` (a path, or its beginning where it may be either of a pair) is a fault.
template <class Body>
bool try_to(const std::string& file, Body&& body) {
  try {
    body();
    return true;
  } catch (const Error& e) {
    if (std::string_view(e.what()).find(file) != std::string_view::npos) return false;
    std::fprintf(stderr, "an error that does not name its file: %s\n", e.what());
    std::abort();
  }
}

}  // namespace bora::fuzz
