// SPDX-License-Identifier: Apache-2.0
// Wind angles: out of file names, and as a direction.
#pragma once

#include <string>
#include <vector>

#include "data/name_pattern.hpp"

namespace bora::data {

/// Degrees, counter-clockwise from +x, towards which the wind blows, out of a name.  Patterns are
/// ECMAScript regular expressions with one group that holds the number; the first one that matches
/// counts.
class AnglePatterns {
 public:
  /// Throws UsageError for a pattern that does not parse or has not exactly one group.
  explicit AnglePatterns(const std::vector<std::string>& patterns);

  /// `15VF20`, `city_d45`, `city_deg180`, `270deg`.
  static std::vector<std::string> defaults();

  bool empty() const { return patterns_.empty(); }
  /// Throws Error naming the file and the patterns if none matches: never a silent 0.
  double parse(const std::string& name) const;

 private:
  std::vector<NamePattern> patterns_;
};

/// (cos, sin) of an angle in degrees, exact at multiples of 90, also beyond one turn.
struct Direction {
  double c = 1;
  double s = 0;
  static Direction of_degrees(double degrees);
};

/// The angle in [0, 360).
double wrap_degrees(double degrees);

}  // namespace bora::data
