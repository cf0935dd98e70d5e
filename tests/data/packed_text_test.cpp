// SPDX-License-Identifier: Apache-2.0
// Texts that ranks send each other: any bytes come through, what is broken is told.
#include "data/packed_text.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "data/volume_list.hpp"
#include "tests/support/message_of.hpp"

namespace bora::data {
namespace {

using bora::testing::message_of;
using ::testing::HasSubstr;

TEST(PackedText, AnyBytesComeThrough) {
  const std::vector<std::string> texts{
      "", "a", "12:3", "tab\tand\nline", std::string("zero\0byte", 9), ":", "\xff\xfe"};
  TextPacker out;
  for (const std::string& text : texts) out.add(text);
  out.add("42");
  TextUnpacker in(out.text(), "texts");
  for (const std::string& text : texts) {
    EXPECT_FALSE(in.done());
    EXPECT_EQ(in.next(), text);
  }
  EXPECT_EQ(in.next_number(), 42U);
  EXPECT_TRUE(in.done());
  EXPECT_TRUE(TextUnpacker("", "nothing").done());
}

TEST(PackedText, NumbersComeThroughToTheBit) {
  const double doubles[] = {0.0, -0.0, 0.1, -1e300, 5e-324, INFINITY, -INFINITY, NAN};
  const int64_t wholes[] = {0, -1, INT64_MAX, INT64_MIN};
  TextPacker out;
  for (const double v : doubles) out.add(v);
  for (const int64_t v : wholes) out.add(v);
  TextUnpacker in(out.text(), "numbers");
  for (const double v : doubles) {
    const double back = in.next_double();
    if (std::isnan(v))
      EXPECT_TRUE(std::isnan(back));
    else
      EXPECT_EQ(std::bit_cast<uint64_t>(back), std::bit_cast<uint64_t>(v));
  }
  for (const int64_t v : wholes) EXPECT_EQ(in.next_number<int64_t>(), v);
  EXPECT_TRUE(in.done());
  for (const char* no_number : {"1:x", "0:", "3:1 2"})
    EXPECT_THAT(message_of([&] { TextUnpacker(no_number, "numbers").next_double(); }),
                HasSubstr("is no number"))
        << no_number;
}

TEST(PackedText, ABrokenTextIsToldByWhatItIs) {
  for (const char* broken :
       {"3", "3:ab", ":ab", "x:ab", "-1:a", "99999999999999999999999:a", "3ab"})
    EXPECT_THAT(message_of([&] { TextUnpacker(broken, "list of names").next(); }),
                HasSubstr("list of names: the text of a rank breaks off"))
        << broken;
  for (const char* no_number : {"1:x", "2:-1", "2:1x", "0:"})
    EXPECT_THAT(message_of([&] { TextUnpacker(no_number, "counts").next_number(); }),
                HasSubstr("is no number"))
        << no_number;
}

// Names of files may hold anything but '/' and a zero byte.
TEST(PackedText, AListOfVolumesComesThrough) {
  ListedVolumes volumes;
  ListedVolume v;
  v.of.name = "case\twith\nall";
  v.of.group = "g";
  v.of.image = {"/data/a\nb.h5", "raw", "xyz"};
  v.of.sample_weight = 0.1;
  v.box = "0:4,:,:";
  volumes.cases.push_back(v);
  volumes.problems = {"one\ntwo", ""};
  const ListedVolumes back = unpack_volumes(pack_volumes(volumes));
  ASSERT_EQ(back.cases.size(), 1U);
  EXPECT_EQ(back.cases[0].of.name, v.of.name);
  EXPECT_EQ(back.cases[0].of.group, "g");
  EXPECT_EQ(back.cases[0].of.image.path, v.of.image.path);
  EXPECT_EQ(back.cases[0].of.image.order, "xyz");
  EXPECT_EQ(back.cases[0].of.sample_weight, 0.1);
  EXPECT_EQ(back.cases[0].box, v.box);
  EXPECT_EQ(back.problems, volumes.problems);
}

}  // namespace
}  // namespace bora::data
