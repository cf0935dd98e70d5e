// SPDX-License-Identifier: Apache-2.0
// JSON lines and CSV.  Feature row 147 (machine-readable log).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "data/csv.hpp"
#include "data/jsonl.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/data/small_disk.hpp"

namespace bora::data {
namespace {

using test::message_of;
using test::read_file;
using test::SmallDisk;
using test::TempFolder;
using test::write_file;
using testing::AllOf;
using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Jsonl, WritesOneObjectPerLineInTheGivenOrder) {
  EXPECT_EQ(json_line({{"update", 12}, {"loss", 0.1}, {"best", true}, {"split", "valid"}}),
            R"({"update":12,"loss":0.1,"best":true,"split":"valid"})");
  EXPECT_EQ(json_line({{"big", std::numeric_limits<int64_t>::max()}}),
            R"({"big":9223372036854775807})");
  EXPECT_EQ(json_line({{"text", "a \"b\"\n\x01"}}), R"({"text":"a \"b\"\n\u0001"})");
  EXPECT_EQ(json_line({{"list", std::vector<double>{1.5, kNan}}}), R"({"list":[1.5,"nan"]})");
  EXPECT_EQ(json_line({}), "{}");
  EXPECT_THAT(message_of([] { json_line({{"a", 1}, {"a", 2}}); }), HasSubstr("'a'"));
}

TEST(Jsonl, WritesNanAndInfinityAsText) {
  EXPECT_EQ(json_line({{"a", kNan}, {"b", kInf}, {"c", -kInf}}),
            R"({"a":"nan","b":"inf","c":"-inf"})");
}

TEST(Jsonl, DoublesReadBackAsTheSameValue) {
  for (const double x : {0.1, 1.0 / 3, 1e-310, 123456789.123456789, 5e-324, 1.0}) {
    const std::string line = json_line({{"x", x}});
    EXPECT_EQ(std::strtod(line.c_str() + 5, nullptr), x) << line;
  }
}

TEST(Jsonl, LinesAreThereAtOnceAndAppendGoesOn) {
  const TempFolder folder;
  const std::string path = folder.file("m.jsonl");
  JsonlWriter writer(path, OpenMode::replace);
  writer.write({{"update", 1}});
  EXPECT_EQ(read_file(path), "{\"update\":1}\n");
  JsonlWriter(path, OpenMode::append).write({{"update", 2}});
  EXPECT_EQ(read_file(path), "{\"update\":1}\n{\"update\":2}\n");
  write_file(path, "{\"update\":1}\n{\"upd");  // killed while writing
  JsonlWriter(path, OpenMode::append).write({{"update", 2}});
  EXPECT_EQ(read_file(path), "{\"update\":1}\n{\"update\":2}\n");
  JsonlWriter(path, OpenMode::replace).write({{"update", 3}});
  EXPECT_EQ(read_file(path), "{\"update\":3}\n");
  EXPECT_THAT(message_of([&] { JsonlWriter(folder.file("no/m"), OpenMode::append); }),
              HasSubstr("no/m"));
}

TEST(Jsonl, TruncatesWhatALaterResumeWouldRepeat) {
  const TempFolder folder;
  const std::string path = folder.file("m.jsonl");
  EXPECT_EQ(truncate_after(path, "update", 3), 0);  // no file yet
  const std::string head = "{\"config\":1}\n{\"update\":1}\n{\"update\":2}\n{\"epoch\":0}\n";
  const std::string tail = "{\"update\":3}\n{\"update\":2}\n{\"upda";
  write_file(path, head + tail);
  EXPECT_EQ(truncate_after(path, "update", 2), 3);
  EXPECT_EQ(read_file(path), head);
  EXPECT_EQ(truncate_after(path, "update", 2), 0);
  write_file(path, head + "{\"upda");
  EXPECT_EQ(truncate_after(path, "update", 9), 1);
  EXPECT_EQ(read_file(path), head);
}

// What a power failure makes of a log must not keep a run from being resumed (feature 145).
TEST(Jsonl, RemovesBrokenLinesForAResume) {
  const TempFolder folder;
  const std::string path = folder.file("m.jsonl");
  const std::string first = "{\"update\":1}\n", second = "{\"update\":2}\n";
  write_file(path, first + std::string(8, '\0') + "\n" + second + "7\n" + "{\"update\":3}\n");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(truncate_after(path, "update", 2), 3);
  const std::string said = ::testing::internal::GetCapturedStderr();
  for (const char* line : {":2", ":4"})
    EXPECT_THAT(said, HasSubstr(path + line +
                                ": not a JSON object (a host or a disk has failed?): removed"));
  EXPECT_EQ(read_file(path), first + second);
  EXPECT_EQ(truncate_after(path, "update", 2), 0);
}

// A full disk takes a part of a line: it goes again, and what is written later is a line of its
// own.
TEST(Jsonl, AFullDiskLeavesWholeLines) {
  const TempFolder folder;
  const std::string path = folder.file("m.jsonl");
  JsonlWriter log(path, OpenMode::replace);
  log.write({{"update", int64_t{1}}});
  {
    const SmallDisk full(20);
    EXPECT_THAT(message_of([&] {
                  log.write({{"text", std::string(100, 'x')}});
                }),
                AllOf(HasSubstr("m.jsonl"), HasSubstr("File too large")));
    EXPECT_EQ(read_file(path), "{\"update\":1}\n");
  }
  log.write({{"update", int64_t{2}}});
  EXPECT_EQ(read_file(path), "{\"update\":1}\n{\"update\":2}\n");
}

TEST(Jsonl, ReadsWhatItWrote) {
  const TempFolder folder;
  const std::string path = folder.file("m.jsonl");
  const JsonRecord record = {{"text", "a \"b\"\n"},
                             {"n", int64_t{7}},
                             {"x", 0.1},
                             {"yes", true},
                             {"list", std::vector<double>{1, 2.5}}};
  JsonlWriter(path, OpenMode::replace).write(record);
  write_file(path, read_file(path) + "{\"second\":1}\n{\"unfin");
  const std::vector<JsonRecord> back = read_json_lines(path);
  ASSERT_EQ(back.size(), 2U);
  EXPECT_EQ(json_line(back[0]), json_line(record));
  EXPECT_EQ(back[1].at(0).first, "second");
  const auto told = [&](const std::string& bad) {
    write_file(path, "{\"a\":1}\n" + bad + "\n");
    return message_of([&] { read_json_lines(path); });
  };
  for (const char* bad : {"garbage", "[1]"})
    EXPECT_THAT(told(bad), HasSubstr(path + ":2: not a JSON object")) << bad;
  const auto wanted = [&](const std::string& found) {
    return HasSubstr(path + ":2, key 'a': wanted true, false, a number, a text or a list of " +
                     "numbers, found " + found);
  };
  EXPECT_THAT(told("{\"a\":null}"), wanted("null"));
  EXPECT_THAT(told("{\"a\":{}}"), wanted("object"));
  EXPECT_THAT(told("{\"a\":[1,\"x\"]}"), wanted("array"));
  EXPECT_THAT(message_of([&] { read_json_lines(folder.file("none")); }), HasSubstr("none"));
}

TEST(Csv, QuotesWhatNeedsIt) {
  EXPECT_EQ(CsvCell("plain").text(), "plain");
  EXPECT_EQ(CsvCell("a,b").text(), "\"a,b\"");
  EXPECT_EQ(CsvCell("say \"x\"").text(), "\"say \"\"x\"\"\"");
  EXPECT_EQ(CsvCell("two\nlines").text(), "\"two\nlines\"");
  EXPECT_EQ(CsvCell(" padded").text(), "\" padded\"");
  EXPECT_EQ(CsvCell("").text(), "");
  EXPECT_EQ(CsvCell(0.1).text(), "0.1");
  EXPECT_EQ(CsvCell(1e300).text(), "1e+300");
  EXPECT_EQ(CsvCell(kNan).text(), "nan");
  EXPECT_EQ(CsvCell(-kInf).text(), "-inf");
  EXPECT_EQ(CsvCell(-3).text(), "-3");
}

TEST(Csv, WritesTheWholeTableOrNothing) {
  const TempFolder folder;
  const std::string path = folder.file("e.csv");
  {
    CsvWriter never(path, {"a"});
    never.row({1});
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  CsvWriter csv(path, {"case", "rel_l2"});
  csv.row({"A,1", 0.25});
  csv.row({"B", 1});
  EXPECT_EQ(csv.n_rows(), 2);
  csv.close();
  EXPECT_EQ(read_file(path), "case,rel_l2\n\"A,1\",0.25\nB,1\n");
  EXPECT_THAT(message_of([&] { csv.row({"C"}); }), HasSubstr("has 2 columns, row 3 has 1 cells"));
  EXPECT_THROW(CsvWriter(path, {}), Error);
  EXPECT_THROW(CsvWriter(path, {"a", "a"}), Error);
}

}  // namespace
}  // namespace bora::data
