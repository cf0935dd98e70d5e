// SPDX-License-Identifier: Apache-2.0
#include "apps/common/same_settings.hpp"

#include <sstream>

#include "comm/same_text.hpp"
#include "core/error.hpp"

namespace bora::apps {

std::string first_difference(const std::string& text, const std::string& of_rank_0) {
  std::istringstream here(text), there(of_rank_0);
  std::string section;
  for (;;) {
    std::string mine, other;
    const bool more = static_cast<bool>(std::getline(here, mine));
    const bool others = static_cast<bool>(std::getline(there, other));
    if (!more && !others) return "nothing";
    if (mine != other || more != others)
      return detail::join(section, "'", more ? mine : "(none)", "', on rank 0 '",
                          others ? other : "(none)", "'");
    if (mine.starts_with("[")) section = mine + " ";
  }
}

void require_same_settings(Collective& ranks, const std::string& text) {
  const std::vector<std::string> texts = texts_if_different(ranks, text, "settings");
  for (size_t r = 1; r < texts.size(); ++r)
    if (texts[r] != texts[0])
      throw UsageError(detail::join("rank ", r, " was started with other settings than rank 0: ",
                                    first_difference(texts[r], texts[0]),
                                    "; all ranks must have the same"));
}

}  // namespace bora::apps
