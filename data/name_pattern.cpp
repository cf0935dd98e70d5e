// SPDX-License-Identifier: Apache-2.0
#include "data/name_pattern.hpp"

// g++ 12 takes a union in its own <regex> for uninitialised when sanitizers are on.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#include <regex>

#include "core/error.hpp"

namespace bora::data {

struct NamePattern::Compiled {
  std::regex regex;
};

NamePattern::NamePattern(const std::string& what, const std::string& pattern) : text_(pattern) {
  Compiled compiled;
  try {
    compiled.regex = std::regex(pattern, std::regex::ECMAScript);
  } catch (const std::regex_error& e) {
    throw UsageError(
        bora::detail::join(what, " '", pattern, "' is not a regular expression: ", e.what()));
  }
  if (compiled.regex.mark_count() != 1)
    throw UsageError(bora::detail::join(what, " '", pattern, "' has ", compiled.regex.mark_count(),
                                        " groups, wanted one, around the part to find"));
  compiled_ = std::make_shared<const Compiled>(std::move(compiled));
}

std::optional<std::string> NamePattern::find(const std::string& name) const {
  std::smatch match;
  if (!std::regex_search(name, match, compiled_->regex)) return std::nullopt;
  return match[1].str();
}

}  // namespace bora::data
