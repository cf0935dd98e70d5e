// SPDX-License-Identifier: Apache-2.0
#include "data/missing_cells.hpp"

#include <cstdio>

#include "core/error.hpp"
#include "core/log.hpp"

namespace bora::data {
namespace {

double share(const MissingCells& c) {
  return c.cells == 0 ? 0 : static_cast<double>(c.missing) / static_cast<double>(c.cells);
}

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g %%", 100 * share);
  return text;
}

/// The case that lacks the largest share of its cells; nullptr where none lacks any.
const NamedMissing* worst_of(const std::vector<NamedMissing>& cases) {
  const NamedMissing* worst = nullptr;
  for (const NamedMissing& c : cases)
    if (c.cells.missing > 0 && (worst == nullptr || share(c.cells) > share(worst->cells)))
      worst = &c;
  return worst;
}

}  // namespace

std::string missing_line(const std::vector<NamedMissing>& cases, const std::string& key) {
  const NamedMissing* worst = worst_of(cases);
  if (worst == nullptr) return {};
  MissingCells all;
  int64_t n_looked = 0, n_lacking = 0;
  for (const NamedMissing& c : cases) {
    all.missing += c.cells.missing;
    all.cells += c.cells.cells;
    n_looked += c.cells.cells > 0;
    n_lacking += c.cells.missing > 0;
  }
  return bora::detail::join(key, " = mask: ", all.missing, " of ", all.cells, " cells (",
                            percent(share(all)), ") have no value and are left out, in ", n_lacking,
                            " of ", n_looked, n_looked == 1 ? " case" : " cases", "; most in '",
                            worst->name, "', ", percent(share(worst->cells)));
}

void tell_missing(const std::vector<NamedMissing>& cases, const std::string& key) {
  const NamedMissing* worst = worst_of(cases);
  if (worst == nullptr) return;
  if (share(worst->cells) < 0.5)
    log_info(missing_line(cases, key));
  else
    log_warn(missing_line(cases, key),
             ". Is a fill value or valid range of the files another one than it should be?");
}

}  // namespace bora::data
