// SPDX-License-Identifier: Apache-2.0
// Split: which cases train, validate and test.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "core/config.hpp"
#include "data/dataset.hpp"

namespace bora::data {

struct SplitConfig {
  uint64_t seed = 0;
  double validation = 0.15;
  double test = 0.0;
  std::string by = "geometry";
  std::vector<std::string> validation_cases;
  std::vector<std::string> test_cases;

  static constexpr auto fields() {
    return std::tuple{
        field("seed", &SplitConfig::seed, "seed of the split; 0 is a seed like any other"),
        field("validation", &SplitConfig::validation,
              "share of the groups (layouts) for validation", between(0, 1)),
        field("test", &SplitConfig::test, "share of the groups for the test set", between(0, 1)),
        field("by", &SplitConfig::by,
              "what stays together: all cases of one geometry, or each case by itself",
              one_of("geometry", "case")),
        field("validation_cases", &SplitConfig::validation_cases,
              "names of the validation cases instead of a share"),
        field("test_cases", &SplitConfig::test_cases, "names of the test cases instead of a share"),
    };
  }
};

/// Indices of cases, each list ascending.
struct Split {
  std::vector<int64_t> train;
  std::vector<int64_t> validation;
  std::vector<int64_t> test;
};

/// Those of one part: "training", "validation", "test", or "all" of them, ascending.  Throws
/// UsageError for another name.
std::vector<int64_t> part_of(const Split& split, const std::string& name);

/// Splits cases by groups: all cases of a group come to the same side.  Each group gets a Philox
/// number from (seed, its name); the lowest numbers go to test, the next to validation.  So the
/// result is a pure function of the names and the configuration: the same on all ranks and machines
/// and for any order of the files, and a new case moves few others.  A share above 0 takes
/// round(share * groups), at least one.  Explicit lists take precedence over shares.
/// Throws UsageError if a listed case is unknown, is listed twice, or has a group on two sides, or
/// if nothing would be left for training.
Split make_split(const std::vector<std::string>& names, const std::vector<std::string>& groups,
                 const SplitConfig& config);
Split make_split(const Dataset& dataset, const SplitConfig& config);

/// The same where a manifest has said of some cases where they go: `parts` holds "training",
/// "validation", "test", or nothing for a case that is split by its group.  A share
/// (split.validation, split.test) of a side that is filled so takes no further cases.  Throws
/// UsageError as above, for a group of which only some cases have a part, and where a listed case
/// has a part.
Split make_split(const std::vector<std::string>& names, const std::vector<std::string>& groups,
                 const std::vector<std::string>& parts, const SplitConfig& config);
/// Whether a cell of a manifest's column `part` is one of the words above.
bool is_part(const std::string& word);

}  // namespace bora::data
