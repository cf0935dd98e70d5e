// SPDX-License-Identifier: Apache-2.0
// Row 88: what a user lists, with the place of each mistake.
#include "data/case_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/atomic_file.hpp"
#include "tests/support/message_of.hpp"

namespace bora::data::test {
namespace {

using bora::testing::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(const std::string& text, const std::string& path = "cases.csv") {
  return message_of([&] { parse_case_table(text, path); });
}

std::vector<std::string> cells(const CaseTable& table, const std::string& column) {
  std::vector<std::string> out;
  for (const CaseRow& row : table.rows) out.push_back(table.cell(row, column));
  return out;
}

TEST(CaseTable, AListHasOneEntryALineWithoutCommentsAndBlankLines) {
  const CaseTable t =
      parse_case_table("# two cases\n\n  a b.nii \r\n\t\n#c\nd#1\r e", "/data/cases.txt");
  EXPECT_FALSE(t.is_manifest);
  EXPECT_THAT(cells(t, "case"), ElementsAre("a b.nii", "d#1", "e"));
  EXPECT_EQ(t.rows[0].line, 3);
  EXPECT_EQ(t.rows[1].line, 6);
  EXPECT_EQ(t.rows[2].line, 7);
  EXPECT_EQ(t.file(t.rows[0], "case"), "/data/a b.nii");
  EXPECT_EQ(t.place(t.rows[2]), "'/data/cases.txt', line 7");
}

TEST(CaseTable, AManifestHasColumnsByName) {
  const CaseTable t = parse_case_table("image,case\nx.nii,a\n\n/y.nii,b\n", "/d/Cases.CSV");
  EXPECT_TRUE(t.is_manifest);
  EXPECT_THAT(t.columns, ElementsAre("image", "case"));
  EXPECT_THAT(cells(t, "case"), ElementsAre("a", "b"));
  EXPECT_EQ(t.file(t.rows[0], "image"), "/d/x.nii");
  EXPECT_EQ(t.file(t.rows[1], "image"), "/y.nii");
  EXPECT_EQ(t.rows[1].line, 4);
  EXPECT_EQ(t.cell(t.rows[0], "label"), "");
  EXPECT_EQ(t.file(t.rows[0], "label"), "");
}

TEST(CaseTable, QuotedCellsHoldCommasQuotesAndLineEnds) {
  const CaseTable t = parse_case_table(
      "\xEF\xBB\xBF\"case\" , note\r\n\"a,1\",\"he said \"\"no\"\"\"\r\n\"two\r\nlines\", plain "
      "\r\nc,\"\"\r\n",
      "m.csv");
  EXPECT_THAT(t.columns, ElementsAre("case", "note"));
  EXPECT_THAT(cells(t, "case"), ElementsAre("a,1", "two\r\nlines", "c"));
  EXPECT_THAT(cells(t, "note"), ElementsAre("he said \"no\"", "plain", ""));
  EXPECT_EQ(t.rows[1].line, 3);
  EXPECT_EQ(t.rows[2].line, 5);  // the row before spans two lines
}

TEST(CaseTable, AllLineEndsReadTheSame) {
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    const CaseTable t = parse_case_table("case,part" + end + "a,test" + end + "b,", "m.csv");
    EXPECT_THAT(cells(t, "part"), ElementsAre("test", "")) << end.size();
    EXPECT_EQ(t.rows[1].line, 3);
  }
}

TEST(CaseTable, MistakesAreToldWithFileAndLine) {
  EXPECT_THAT(refusal("case,part\na,test\nb\n"),
              HasSubstr("'cases.csv', line 3: too few cells: 1, the header has 2 columns"));
  EXPECT_THAT(refusal("case,part\na,test,1\n"),
              HasSubstr("'cases.csv', line 2: too many cells: 3, the header has 2 columns"));
  EXPECT_THAT(refusal("case,image,case\na,b,c\n"),
              HasSubstr("'cases.csv', line 1: two columns are called 'case'"));
  EXPECT_THAT(refusal("case,,part\na,b,c\n"),
              HasSubstr("'cases.csv', line 1: column 2 of 3 has no name"));
  EXPECT_THAT(refusal("case\n\"a\nb\nc\n"),
              HasSubstr("'cases.csv', line 2: the quote before 'a b c ' is not closed"));
  EXPECT_THAT(refusal("case\na\nb\"c\n"),
              HasSubstr("'cases.csv', line 3: a quote inside the cell 'b\"'"));
  EXPECT_THAT(refusal("case\n\"a\"b\n"),
              HasSubstr("'cases.csv', line 2: text behind the closing quote of 'a'"));
  EXPECT_THAT(refusal("case;image\na;b\n"),
              HasSubstr("one column 'case;image': separate the columns by commas"));
  EXPECT_THAT(refusal(std::string("case\na\0b\n", 9)),
              HasSubstr("'cases.csv', line 2: a zero byte"));
  EXPECT_THAT(refusal("\xFF\xFE"
                      "c\0"),
              HasSubstr("'cases.csv' is UTF-16 text"));
}

TEST(CaseTable, AFileWithoutCasesIsRefused) {
  EXPECT_THAT(refusal(""), HasSubstr("'cases.csv' is empty"));
  EXPECT_THAT(refusal("\n \n"), HasSubstr("'cases.csv' is empty"));
  EXPECT_THAT(refusal("case,part\n\n"), HasSubstr("has a header row, but no case"));
  EXPECT_THAT(refusal("# none\n\n", "list.txt"), HasSubstr("'list.txt' lists no case"));
  EXPECT_THAT(message_of([] { read_case_table("/nowhere/l.txt"); }),
              HasSubstr("cannot open '/nowhere/l.txt': No such file"));
  EXPECT_THAT(message_of([] { read_case_table("/tmp"); }), HasSubstr("'/tmp' is a folder"));
}

TEST(CaseTable, NumbersAreReadWholeOrRefused) {
  const CaseTable t = parse_case_table("a,b,c\n1.5,-3,\n1x,2.0,nan\n", "m.csv");
  const CaseRow &good = t.rows[0], &bad = t.rows[1];
  EXPECT_EQ(t.number(good, "a", 0), 1.5);
  EXPECT_EQ(t.whole_number(good, "b", 0), -3);
  EXPECT_EQ(t.number(good, "c", 7), 7);
  EXPECT_EQ(t.whole_number(good, "not there", 7), 7);
  EXPECT_THAT(message_of([&] { t.number(bad, "a", 0); }),
              HasSubstr("'m.csv', line 3: column 'a' is '1x', wanted a number"));
  EXPECT_THAT(message_of([&] { t.whole_number(bad, "b", 0); }),
              HasSubstr("'m.csv', line 3: column 'b' is '2.0', wanted a whole number"));
  EXPECT_THAT(message_of([&] { t.number(bad, "c", 0); }), HasSubstr("column 'c' is 'nan'"));
}

TEST(CaseTable, UnknownAndMissingColumnsAreNamed) {
  const CaseTable t = parse_case_table("case,lable\na,b\n", "m.csv");
  EXPECT_THAT(message_of([&] {
                t.allow_columns({"case", "label"});
              }),
              HasSubstr("'m.csv' has a column 'lable' that means nothing here; there may be case, "
                        "label"));
  EXPECT_THAT(message_of([&] { t.require_columns({"image"}); }),
              HasSubstr("'m.csv' has no column 'image'; it has case, lable"));
}

}  // namespace
}  // namespace bora::data::test
