// SPDX-License-Identifier: Apache-2.0
#include "data/angle.hpp"

#include <cmath>
#include <cstdlib>
#include <numbers>
#include <optional>

#include "core/error.hpp"

namespace bora::data {

AnglePatterns::AnglePatterns(const std::vector<std::string>& patterns) {
  for (const std::string& text : patterns) patterns_.emplace_back("angle pattern", text);
}

std::vector<std::string> AnglePatterns::defaults() {
  return {R"(^(-?[0-9]+(?:\.[0-9]+)?)VF)", R"(_d(-?[0-9]+(?:\.[0-9]+)?)(?![0-9A-Za-z.]))",
          R"(_deg(-?[0-9]+(?:\.[0-9]+)?)(?![0-9A-Za-z.]))",
          R"((?:^|_)(-?[0-9]+(?:\.[0-9]+)?)deg(?![0-9A-Za-z]))"};
}

double AnglePatterns::parse(const std::string& name) const {
  for (const NamePattern& pattern : patterns_) {
    const std::optional<std::string> number = pattern.find(name);
    if (!number) continue;
    char* end = nullptr;
    const double degrees = std::strtod(number->c_str(), &end);
    BORA_CHECK(!number->empty() && *end == '\0' && std::isfinite(degrees), "'", name,
               "': pattern '", pattern.text(), "' found '", *number,
               "', which is not a number of degrees");
    return degrees;
  }
  std::string list;
  for (const NamePattern& pattern : patterns_) list += (list.empty() ? "" : "  ") + pattern.text();
  BORA_FAIL(
      "'", name,
      "': no wind angle in the name; data.files.angle_patterns says where it stands (an empty "
      "list: names have none, for networks without data.angle_channels); tried: ",
      list);
}

double wrap_degrees(double degrees) {
  const double wrapped = std::fmod(degrees, 360.0);
  return wrapped < 0 ? wrapped + 360.0 : wrapped + 0.0;
}

Direction Direction::of_degrees(double degrees) {
  // Within the quadrant by exact arithmetic, so that quarter turns give exactly 0 and +-1.
  const double wrapped = wrap_degrees(degrees);
  const int quadrant = static_cast<int>(wrapped / 90.0) % 4;
  const double rest = wrapped - 90.0 * quadrant;
  const double radians = rest * (std::numbers::pi / 180.0);
  const double c = rest == 0 ? 1.0 : std::cos(radians);
  const double s = rest == 0 ? 0.0 : std::sin(radians);
  switch (quadrant) {
    case 0:
      return {c, s};
    case 1:
      return {0.0 - s, c};
    case 2:
      return {0.0 - c, 0.0 - s};
    default:
      return {s, 0.0 - c};
  }
}

}  // namespace bora::data
