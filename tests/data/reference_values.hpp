// SPDX-License-Identifier: Apache-2.0
// Values that other programs read from the files in tests/reference/data.
#pragma once

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace bora::data::test {

inline const std::string kReference = "tests/reference/data/";
inline const std::string kSample = "samples/urban-wind";

struct ReferenceValues {
  std::vector<std::string> dimensions;
  std::vector<int64_t> extents;
  std::vector<double> values;  ///< C order; NaN = missing
};

inline std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) out.push_back(part);
  return out;
}

inline ReferenceValues reference_values(const std::string& file, const std::string& variable) {
  std::ifstream in(kReference + "values.txt");
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> parts = parts_of(line, ' ');
    if (parts.size() < 4 || parts[0] != file || parts[1] != variable) continue;
    ReferenceValues out;
    out.dimensions = parts_of(parts[2], ',');
    for (const std::string& e : parts_of(parts[3], ',')) out.extents.push_back(std::stol(e));
    for (size_t i = 4; i < parts.size(); ++i)
      out.values.push_back(std::strtod(parts[i].c_str(), nullptr));
    return out;
  }
  BORA_FAIL("no reference for ", file, " ", variable);
}

}  // namespace bora::data::test
