// SPDX-License-Identifier: Apache-2.0
// Row 88 for volumes: settings that cannot be, and from values in files to classes.
#include "data/volumes_config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/label_map.hpp"
#include "tests/support/message_of.hpp"

namespace bora::data::test {
namespace {

using bora::testing::message_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(VolumesConfig, WhatCannotBeIsRefusedByItsKey) {
  const auto refusal = [](const auto& change) {
    VolumesConfig config;
    config.root = "/data";
    change(config);
    return message_of([&] { check_volumes_config(config); });
  };
  EXPECT_EQ(refusal([](VolumesConfig&) {}), "no error");
  EXPECT_THAT(refusal([](auto& c) { c.root = ""; }), HasSubstr("volumes.root is not set"));
  EXPECT_THAT(refusal([](auto& c) { c.classes = {"one"}; }),
              HasSubstr("volumes.classes has 1 name(s), wanted 2 to 254"));
  EXPECT_THAT(refusal([](auto& c) {
                c.classes = {"a", "b", "a"};
              }),
              HasSubstr("volumes.classes has the name 'a' twice"));
  EXPECT_THAT(refusal([](auto& c) { c.classes.assign(255, "x"); }),
              HasSubstr("volumes.classes has 255 name(s), wanted 2 to 254"));
  EXPECT_THAT(refusal([](auto& c) { c.image_suffix = ""; }),
              HasSubstr("volumes.image_suffix is empty: wanted the end of the names"));
  EXPECT_THAT(refusal([](auto& c) { c.label_suffix = ""; }),
              HasSubstr("volumes.label_suffix is empty"));
  EXPECT_THAT(refusal([](auto& c) { c.label_map = {"7"}; }),
              HasSubstr("volumes.label_map: '7' has no colon"));
  EXPECT_THAT(refusal([](auto& c) { c.label_map = {"x:1"}; }),
              HasSubstr("'x:1' has no whole number before the colon"));
  EXPECT_THAT(refusal([](auto& c) { c.label_map = {"9-3:1"}; }),
              HasSubstr("'9-3:1' is a range that ends before it begins"));
  EXPECT_THAT(refusal([](auto& c) { c.label_map = {"3:2"}; }),
              HasSubstr("'3:2' leads to class 2, but volumes.classes names 2"));
  EXPECT_THAT(refusal([](auto& c) { c.label_map = {"3:one"}; }), HasSubstr("neither a class"));
  EXPECT_THAT(refusal([](auto& c) {
                c.label_map = {"1-5:1", "5:0"};
              }),
              HasSubstr("'1-5' and '5' overlap"));
  EXPECT_THAT(refusal([](auto& c) { c.label_suffix = c.image_suffix, c.label_variable = "raw"; }),
              HasSubstr("image and label are the same variable 'raw'"));
  EXPECT_THAT(refusal([](auto& c) { c.normalisation = "percentile", c.percentiles = {5}; }),
              HasSubstr("volumes.percentiles has 1 numbers; wanted the lowest and the highest"));
  EXPECT_THAT(refusal([](auto& c) {
                c.normalisation = "percentile", c.percentiles = {99, 1};
              }),
              HasSubstr("volumes.percentiles has 2 numbers, the larger first"));
  EXPECT_THAT(refusal([](auto& c) { c.normalisation = "fixed"; }),
              AllOf(HasSubstr("wants volumes.fixed_mean and volumes.fixed_sigma"),
                    HasSubstr("they have 0 and 0")));
  EXPECT_THAT(refusal([](auto& c) {
                c.normalisation = "fixed", c.fixed_mean = {1, 2}, c.fixed_sigma = {1};
              }),
              HasSubstr("they have 2 and 1"));
  EXPECT_THAT(refusal([](auto& c) { c.order = "xyy"; }), HasSubstr("volumes.order is 'xyy'"));
}

TEST(LabelMap, ValuesGoToClassesOneByOneAndByRanges) {
  VolumesConfig config;
  config.classes = {"none", "left", "right"};
  const LabelMap plain(config);
  EXPECT_EQ(plain.class_of(2), 2);
  EXPECT_EQ(plain.class_of(3), LabelMap::kNone);
  EXPECT_EQ(plain.class_of(-1), LabelMap::kNone);
  config.label_map = {"1-999:1", "1000-:2", "-7:ignore", "-20--10:1"};
  const LabelMap map(config);
  for (const auto& [value, wanted] : std::vector<std::pair<int64_t, int>>{{0, 0},
                                                                          {1, 1},
                                                                          {999, 1},
                                                                          {1000, 2},
                                                                          {4000000000, 2},
                                                                          {-7, LabelMap::kIgnore},
                                                                          {-10, 1},
                                                                          {-20, 1},
                                                                          {-21, LabelMap::kNone},
                                                                          {-1, LabelMap::kNone}})
    EXPECT_EQ(map.class_of(value), wanted) << value;
  EXPECT_EQ(map.wanted(), "-20--10, -7, 0, 1-999, 1000-");
  config.label_map = {"0-5:2"};
  EXPECT_EQ(LabelMap(config).class_of(0), 2);
}

}  // namespace
}  // namespace bora::data::test
