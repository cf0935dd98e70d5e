// SPDX-License-Identifier: Apache-2.0
// Cells without a value, which `missing = mask` leaves out: told, so that a wrong fill value or
// valid range that takes half of the data does not pass for a choice.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bora::data {

/// Of one case, as the pre-flight found it; cells = 0: its values were not looked at.
struct MissingCells {
  int64_t missing = 0;
  int64_t cells = 0;  ///< that would count: of wind the open ones
};

struct NamedMissing {
  std::string name;
  MissingCells cells;
};

/// One line: how many cells lack a value, in how many cases, the case that lacks most, and the key
/// that leaves them out; empty if none does.
std::string missing_line(const std::vector<NamedMissing>& cases, const std::string& key);

/// Logs it: as a warning where a case lacks half of its cells or more.
void tell_missing(const std::vector<NamedMissing>& cases, const std::string& key);

}  // namespace bora::data
