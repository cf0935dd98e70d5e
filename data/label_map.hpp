// SPDX-License-Identifier: Apache-2.0
// LabelMap: from the values in a label file to classes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "data/volumes_config.hpp"

namespace bora::data {

class LabelMap {
 public:
  static constexpr int kNone = -1;    ///< no class: an error
  static constexpr int kIgnore = -2;  ///< the cell does not count

  /// Of config.label_map and config.classes.  Throws UsageError naming the entry that does not
  /// parse, has no such class or overlaps another.
  explicit LabelMap(const VolumesConfig& config);

  /// A class number, kNone or kIgnore.
  int class_of(int64_t value) const {
    const uint64_t at = static_cast<uint64_t>(value) - static_cast<uint64_t>(kTableBegin);
    return at < table_.size() ? table_[at] : search(value);
  }
  /// What values there may be, for messages: "0 to 2", "0, 1-999, 1000-".
  std::string wanted() const;

 private:
  static constexpr int64_t kTableBegin = -1024;
  struct Range {
    int64_t first, last;
    int to;
    std::string text;
  };
  int search(int64_t value) const;

  bool is_identity_ = false;
  std::vector<Range> ranges_;  // ascending
  std::vector<int16_t> table_;
};

}  // namespace bora::data
