// SPDX-License-Identifier: Apache-2.0
#include "data/split.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.hpp"

namespace bora::data {

namespace {

enum class Side { open, train, validation, test };

const char* name_of(Side side) {
  return side == Side::validation ? "validation" : side == Side::test ? "test" : "train";
}

[[noreturn]] void refuse(const std::string& text) { throw UsageError("split: " + text); }

/// How many of n groups a share takes.
int64_t count_of(double share, int64_t n) {
  return share > 0 ? std::max<int64_t>(1, std::llround(share * static_cast<double>(n))) : 0;
}

}  // namespace

Split make_split(const std::vector<std::string>& names, const std::vector<std::string>& groups_in,
                 const SplitConfig& config) {
  BORA_CHECK(names.size() == groups_in.size(), "make_split: ", names.size(), " names and ",
             groups_in.size(), " groups");
  if (names.empty()) refuse("there are no cases");
  const std::vector<std::string>& groups = config.by == "case" ? names : groups_in;

  std::map<std::string, Side> side_of_group;
  std::map<std::string, std::string> group_of_name;
  for (size_t i = 0; i < names.size(); ++i) {
    side_of_group.emplace(groups[i], Side::open);
    if (!group_of_name.emplace(names[i], groups[i]).second)
      refuse("case '" + names[i] + "' occurs twice");
  }

  // Explicit lists first.
  std::map<std::string, Side> side_of_name;
  const auto take = [&](const std::vector<std::string>& list, Side side) {
    for (const std::string& name : list) {
      const auto it = group_of_name.find(name);
      if (it == group_of_name.end())
        refuse("case '" + name + "' of the " + name_of(side) + " list is not among the data");
      if (!side_of_name.emplace(name, side).second) refuse("case '" + name + "' is listed twice");
      Side& of_group = side_of_group[it->second];
      if (of_group != Side::open && of_group != side)
        refuse("geometry '" + it->second + "' (case '" + name + "') is listed for " +
               name_of(of_group) + " and for " + name_of(side));
      of_group = side;
    }
  };
  take(config.validation_cases, Side::validation);
  take(config.test_cases, Side::test);
  // A listed case must not leave a sister in training.
  for (size_t i = 0; i < names.size(); ++i)
    if (side_of_group[groups[i]] != Side::open && !side_of_name.contains(names[i]))
      refuse("case '" + names[i] + "' has the geometry '" + groups[i] + "' of a listed " +
             name_of(side_of_group[groups[i]]) +
             " case, but is not listed itself; list it too, or split by = \"case\"");

  // The rest by lot, the smallest numbers first.
  std::vector<std::pair<uint64_t, std::string>> lots;
  for (const auto& [group, side] : side_of_group)
    if (side == Side::open) {
      const RngKey key{config.seed, rng_stream("split/" + group)};
      const uint64_t lot = (static_cast<uint64_t>(key.bits(0)) << 32) | key.bits(1);
      lots.emplace_back(lot, group);
    }
  std::sort(lots.begin(), lots.end());
  const int64_t n = static_cast<int64_t>(lots.size());
  const int64_t n_test = config.test_cases.empty() ? count_of(config.test, n) : 0;
  const int64_t n_validation = config.validation_cases.empty() ? count_of(config.validation, n) : 0;
  if (n_test + n_validation >= n)
    refuse("nothing is left for training: " + std::to_string(n) + " groups, " +
           std::to_string(n_validation) + " for validation, " + std::to_string(n_test) +
           " for test");
  for (int64_t i = 0; i < n; ++i)
    side_of_group[lots[static_cast<size_t>(i)].second] = i < n_test ? Side::test
                                                         : i < n_test + n_validation
                                                             ? Side::validation
                                                             : Side::train;
  Split split;
  for (size_t i = 0; i < names.size(); ++i) {
    const Side side = side_of_group[groups[i]];
    (side == Side::test         ? split.test
     : side == Side::validation ? split.validation
                                : split.train)
        .push_back(static_cast<int64_t>(i));
  }
  return split;
}

Split make_split(const Dataset& dataset, const SplitConfig& config) {
  std::vector<std::string> names, groups;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    names.push_back(dataset.name(i));
    groups.push_back(dataset.group(i));
  }
  return make_split(names, groups, config);
}

}  // namespace bora::data
