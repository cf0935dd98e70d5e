// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them.
#pragma once

#include <iomanip>
#include <sstream>
#include <string>

namespace bora::apps {

/// With so many digits after the point.
inline std::string fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

/// With four significant digits.
inline std::string brief(double value) {
  std::ostringstream out;
  out << std::setprecision(4) << value;
  return out.str();
}

/// With six, as C++ prints by itself; 0 without a sign.
inline std::string six_digits(double value) {
  std::ostringstream out;
  out << std::setprecision(6) << value + 0.0;
  return out.str();
}

}  // namespace bora::apps
