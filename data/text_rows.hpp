// SPDX-License-Identifier: Apache-2.0
// Rows of text with tabs between their fields: how ranks tell each other what they found.
#pragma once

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace bora::data {

/// The text without newlines and tabs, fit to be a field of a row.
inline std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::replace(text.begin(), text.end(), '\t', ' ');
  return text;
}

/// The parts of a text between separators; an empty text has none, and an empty last one is left
/// out.
inline std::vector<std::string> cut(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

}  // namespace bora::data
