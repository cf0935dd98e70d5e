// SPDX-License-Identifier: Apache-2.0
// "1 case", "2 cases": numbers of things in messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace bora {

/// The number and the noun, with an s unless it is 1.
inline std::string counted(int64_t n, std::string_view noun) {
  return std::to_string(n) + ' ' + std::string(noun) + (n == 1 ? "" : "s");
}

}  // namespace bora
