// SPDX-License-Identifier: Apache-2.0
// NamePattern: a regular expression with one group that picks a part of a file's name.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace bora::data {

class NamePattern {
 public:
  /// ECMAScript.  Throws UsageError, beginning with `what`, for a pattern that does not parse or
  /// has not exactly one group.
  NamePattern(const std::string& what, const std::string& pattern);

  /// What the group matched, at the first place in `name` where the pattern fits; nothing if it
  /// fits nowhere.
  std::optional<std::string> find(const std::string& name) const;
  const std::string& text() const { return text_; }

 private:
  struct Compiled;
  std::string text_;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace bora::data
