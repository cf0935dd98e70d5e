// SPDX-License-Identifier: Apache-2.0
// What an Error says.
#pragma once

#include <string>

#include "core/error.hpp"

namespace bora::testing {

/// The text of the Error that body throws, "no error" if it throws none.
template <class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace bora::testing
