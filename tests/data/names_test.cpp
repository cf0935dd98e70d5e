// SPDX-License-Identifier: Apache-2.0
// Rows 98 (angles), 102 (split).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "data/angle.hpp"
#include "data/split.hpp"
#include "tests/data/pipeline_support.hpp"

namespace bora::data::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Angle, TheFourFormsOfNames) {
  const AnglePatterns patterns(AnglePatterns::defaults());
  EXPECT_EQ(patterns.parse("15VF20"), 15);
  EXPECT_EQ(patterns.parse("0VF5"), 0);
  EXPECT_EQ(patterns.parse("345VF20"), 345);
  EXPECT_EQ(patterns.parse("22.5VF20"), 22.5);
  EXPECT_EQ(patterns.parse("city_d45"), 45);
  EXPECT_EQ(patterns.parse("city_d45_run2"), 45);
  EXPECT_EQ(patterns.parse("city_deg180"), 180);
  EXPECT_EQ(patterns.parse("270deg"), 270);
  EXPECT_EQ(patterns.parse("city_270deg_a"), 270);
  EXPECT_EQ(patterns.parse("city_d-30"), -30);
}

TEST(Angle, NoMatchIsAnErrorThatNamesTheFile) {
  const AnglePatterns patterns(AnglePatterns::defaults());
  for (const char* name :
       {"city", "VF20", "city_depth5", "d45", "city_d45m", "a15VF20", "15vf20", ""})
    EXPECT_THAT(message_of([&] { patterns.parse(name); }),
                AllOf(HasSubstr("'" + std::string(name) + "'"), HasSubstr("no wind angle"),
                      HasSubstr("VF")));
  const AnglePatterns own({"angle=(.*)"});
  EXPECT_EQ(own.parse("angle=7"), 7);
  EXPECT_THAT(message_of([&] { own.parse("angle=north"); }), HasSubstr("'north'"));
  EXPECT_THAT(message_of([&] { own.parse("angle="); }), HasSubstr("not a number"));
}

TEST(Angle, BadPatternsAreUsageErrors) {
  EXPECT_THAT(message_of<UsageError>([] { AnglePatterns p({"_d("}); }), HasSubstr("'_d('"));
  EXPECT_THAT(message_of<UsageError>([] { AnglePatterns p({"_d[0-9]+"}); }), HasSubstr("0 groups"));
  EXPECT_THAT(message_of<UsageError>([] { AnglePatterns p({"(a)(b)"}); }), HasSubstr("2 groups"));
}

TEST(Angle, DirectionsAreExactAtQuarters) {
  const auto at = [](double degrees) {
    const Direction d = Direction::of_degrees(degrees);
    return std::pair{d.c, d.s};
  };
  for (double turn : {-720.0, -360.0, 0.0, 360.0, 3600.0}) {
    EXPECT_EQ(at(turn + 0), (std::pair{1.0, 0.0}));
    EXPECT_EQ(at(turn + 90), (std::pair{0.0, 1.0}));
    EXPECT_EQ(at(turn + 180), (std::pair{-1.0, 0.0}));
    EXPECT_EQ(at(turn + 270), (std::pair{0.0, -1.0}));
  }
  for (double degrees = -400; degrees < 800; degrees += 7.25) {
    const double r = degrees * M_PI / 180;
    EXPECT_NEAR(at(degrees).first, std::cos(r), 4e-15);
    EXPECT_NEAR(at(degrees).second, std::sin(r), 4e-15);
  }
}

/// n layouts, each at 1 to 3 angles.
void make_cases(int n, std::vector<std::string>& names, std::vector<std::string>& groups) {
  for (int layout = 0; layout < n; ++layout)
    for (int angle = 0; angle <= layout % 3; ++angle) {
      names.push_back(bora::detail::join(15 * angle, "VF", layout));
      groups.push_back(std::to_string(layout));
    }
}

std::vector<std::string> pick(const std::vector<std::string>& from,
                              const std::vector<int64_t>& at) {
  std::vector<std::string> out;
  for (int64_t i : at) out.push_back(from[static_cast<size_t>(i)]);
  std::sort(out.begin(), out.end());
  return out;
}

TEST(Split, AGeometryIsNeverOnTwoSides) {
  std::vector<std::string> names, groups;
  make_cases(40, names, groups);
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{99}, ~uint64_t{0}}) {
    SplitConfig config;
    config.seed = seed;
    config.validation = 0.2;
    config.test = 0.1;
    const Split s = make_split(names, groups, config);
    EXPECT_EQ(s.train.size() + s.validation.size() + s.test.size(), names.size());
    const auto v = pick(groups, s.validation), t = pick(groups, s.test), r = pick(groups, s.train);
    const std::set<std::string> vs(v.begin(), v.end()), ts(t.begin(), t.end()),
        rs(r.begin(), r.end());
    EXPECT_EQ(vs.size(), 8u);
    EXPECT_EQ(ts.size(), 4u);
    EXPECT_EQ(rs.size(), 28u);
    std::set<std::string> all = vs;
    all.insert(ts.begin(), ts.end());
    all.insert(rs.begin(), rs.end());
    EXPECT_EQ(all.size(), 40u);
  }
}

TEST(Split, IsAFunctionOfNamesAndSeedNotOfTheirOrder) {
  std::vector<std::string> names, groups;
  make_cases(20, names, groups);
  SplitConfig config;
  const Split a = make_split(names, groups, config);
  EXPECT_EQ(a.validation, make_split(names, groups, config).validation);
  std::vector<std::string> names2(names.rbegin(), names.rend()),
      groups2(groups.rbegin(), groups.rend());
  EXPECT_EQ(pick(names, a.validation),
            pick(names2, make_split(names2, groups2, config).validation));
  config.seed = 1;
  const Split b = make_split(names, groups, config);
  EXPECT_NE(a.validation, b.validation);
  EXPECT_FALSE(b.validation.empty());
  // Fixed values: the split must be the same on all machines and in later versions.
  std::vector<std::string> twelve;
  for (int i = 0; i < 12; ++i) twelve.push_back(bora::detail::join("0VF", i));
  config.validation = 0.25;
  config.test = 0.1;
  config.seed = 0;
  EXPECT_THAT(make_split(twelve, twelve, config).validation, ElementsAre(1, 2, 11));
  EXPECT_THAT(make_split(twelve, twelve, config).test, ElementsAre(10));
  config.seed = 1;
  EXPECT_THAT(make_split(twelve, twelve, config).validation, ElementsAre(5, 6, 9));
}

TEST(Split, ByCaseAndByLists) {
  std::vector<std::string> names, groups;
  make_cases(9, names, groups);
  SplitConfig config;
  config.by = "case";
  config.validation = 0.5;
  EXPECT_EQ(make_split(names, groups, config).validation.size(), names.size() / 2);

  SplitConfig lists;
  lists.validation_cases = {"0VF2", "15VF2", "30VF2"};
  lists.test_cases = {"0VF0"};
  const Split s = make_split(names, groups, lists);
  EXPECT_THAT(pick(names, s.validation), ElementsAre("0VF2", "15VF2", "30VF2"));
  EXPECT_THAT(pick(names, s.test), ElementsAre("0VF0"));
  EXPECT_EQ(s.train.size(), names.size() - 4);

  SplitConfig none;
  none.validation = 0;
  EXPECT_THAT(make_split(names, groups, none).validation, IsEmpty());
}

TEST(Split, AShareAboveNothingTakesAGroupAtLeast) {
  SplitConfig config;
  config.validation = config.test = 0.01;  // 0.03 of a group
  const Split s = make_split({"a", "b", "c"}, {"1", "2", "3"}, config);
  EXPECT_EQ(s.validation.size(), 1u);
  EXPECT_EQ(s.test.size(), 1u);
  EXPECT_EQ(s.train.size(), 1u);
}

TEST(Split, PartsHaveNames) {
  const Split split{.train = {1, 4}, .validation = {3}, .test = {0, 2}};
  EXPECT_THAT(part_of(split, "training"), ElementsAre(1, 4));
  EXPECT_THAT(part_of(split, "validation"), ElementsAre(3));
  EXPECT_THAT(part_of(split, "test"), ElementsAre(0, 2));
  EXPECT_THAT(part_of(split, "all"), ElementsAre(0, 1, 2, 3, 4));
  for (const char* name : {"", "train", "Test"})
    EXPECT_THAT(message_of<UsageError>([&] { part_of(split, name); }),
                HasSubstr("part '" + std::string(name) +
                          "' of the cases: wanted training, validation, test or all"));
}

TEST(Split, WhatCannotBeIsAUsageError) {
  std::vector<std::string> names, groups;
  make_cases(9, names, groups);
  const auto refusal = [&](SplitConfig config) {
    return message_of<UsageError>([&] { make_split(names, groups, config); });
  };
  SplitConfig c;
  c.validation_cases = {"0VF99"};
  EXPECT_THAT(refusal(c), HasSubstr("'0VF99' of the validation list is not among the data"));
  c.validation_cases = {"0VF0", "0VF0"};
  EXPECT_THAT(refusal(c), HasSubstr("listed twice"));
  c.validation_cases = {"0VF2"};
  EXPECT_THAT(refusal(c), AllOf(HasSubstr("geometry '2'"), HasSubstr("15VF2")));
  c.validation_cases = {"0VF1"};
  c.test_cases = {"15VF1"};
  EXPECT_THAT(refusal(c),
              AllOf(HasSubstr("geometry '1'"), HasSubstr("validation"), HasSubstr("test")));
  SplitConfig all;
  all.validation = 0.6;
  all.test = 0.4;
  EXPECT_THAT(refusal(all), HasSubstr("nothing is left for training"));
  EXPECT_THAT(message_of<UsageError>([&] { make_split({}, {}, {}); }), HasSubstr("no cases"));
  EXPECT_THAT(message_of<UsageError>([&] {
                make_split({"a", "a"}, {"1", "1"}, {});
              }),
              HasSubstr("'a' occurs twice"));
}

}  // namespace
}  // namespace bora::data::test
