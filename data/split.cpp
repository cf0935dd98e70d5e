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

std::vector<int64_t> part_of(const Split& split, const std::string& name) {
  if (name == "training") return split.train;
  if (name == "validation") return split.validation;
  if (name == "test") return split.test;
  if (name != "all")
    throw UsageError("part '" + name + "' of the cases: wanted training, validation, test or all");
  std::vector<int64_t> all = split.train;
  all.insert(all.end(), split.validation.begin(), split.validation.end());
  all.insert(all.end(), split.test.begin(), split.test.end());
  std::sort(all.begin(), all.end());
  return all;
}

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
  std::vector<std::string> groups;
  for (int64_t i = 0; i < dataset.size(); ++i) groups.push_back(dataset.group(i));
  return make_split(names_of(dataset), groups, config);
}

bool is_part(const std::string& word) {
  return word.empty() || word == "training" || word == "validation" || word == "test";
}

Split make_split(const std::vector<std::string>& names, const std::vector<std::string>& groups,
                 const std::vector<std::string>& parts, const SplitConfig& config) {
  const size_t n = names.size();
  BORA_CHECK(groups.size() == n && parts.size() == n, "make_split: ", n, " names, ", groups.size(),
             " groups and ", parts.size(), " parts");
  const std::vector<std::string>& keys = config.by == "case" ? names : groups;
  Split split;
  std::map<std::string, size_t> fixed_groups;  // a case of each that has a part
  bool has_validation = false, has_test = false;
  for (size_t i = 0; i < n; ++i) {
    const std::string& part = parts[i];
    BORA_CHECK(is_part(part), "make_split: part '", part, "' of case '", names[i], "'");
    if (part.empty()) continue;
    fixed_groups.emplace(keys[i], i);
    has_validation = has_validation || part == "validation";
    has_test = has_test || part == "test";
    (part == "training" ? split.train
     : part == "test"   ? split.test
                        : split.validation)
        .push_back(static_cast<int64_t>(i));
    for (const auto& [key, list] : {std::pair{"validation_cases", &config.validation_cases},
                                    std::pair{"test_cases", &config.test_cases}})
      if (std::find(list->begin(), list->end(), names[i]) != list->end())
        refuse("case '" + names[i] + "' is in the " + part +
               " part by the manifest's column, and named in split." + key +
               ": wanted one of both");
  }
  std::vector<int64_t> open;
  std::vector<std::string> open_names, open_groups;
  for (size_t i = 0; i < n; ++i) {
    if (!parts[i].empty()) continue;
    if (const auto sister = fixed_groups.find(keys[i]); sister != fixed_groups.end())
      refuse("case '" + names[i] + "' has no part, but '" + names[sister->second] +
             "' of its group '" + groups[i] + "' is in the " + parts[sister->second] +
             " part: give each case of a group a part, or none");
    open.push_back(static_cast<int64_t>(i));
    open_names.push_back(names[i]);
    open_groups.push_back(groups[i]);
  }
  if (!open.empty()) {
    SplitConfig rest = config;
    if (has_validation) rest.validation = 0;
    if (has_test) rest.test = 0;
    const Split more = make_split(open_names, open_groups, rest);
    const auto take = [&](const std::vector<int64_t>& from, std::vector<int64_t>& to) {
      for (const int64_t i : from) to.push_back(open[static_cast<size_t>(i)]);
      std::sort(to.begin(), to.end());
    };
    take(more.train, split.train);
    take(more.validation, split.validation);
    take(more.test, split.test);
  }
  if (split.train.empty()) refuse("no case is left for training");
  return split;
}

}  // namespace bora::data
