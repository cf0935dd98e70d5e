// SPDX-License-Identifier: Apache-2.0
// What files say reaches logs and terminals without what these would obey.
#include "core/printable.hpp"

#include <gtest/gtest.h>

#include "core/log.hpp"
#include "core/log_warnings.hpp"

namespace bora {
namespace {

TEST(Printable, KeepsTextOfAnyLanguage) {
  const std::string text = "wind (m s⁻¹)\tüber 北京 🙂\nnext";
  EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, EscapesWhatTerminalsObey) {
  EXPECT_EQ(printable("a\x1b[2Jb\rc\x7f"), "a\\x1b[2Jb\\x0dc\\x7f");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m");                    // the one-character form of ESC [
  EXPECT_EQ(printable("\xc2\xa0"), "\xc2\xa0");  // the first one behind these
}

// RFC 3629, sections 3 and 4: the ends of each row of the table, and what lies beside them.
TEST(Printable, EscapesWhatIsNoUtf8) {
  for (const char* good : {"\xc2\xa1", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
                           "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(utf8_bytes(good, 0), std::string(good).size());
    EXPECT_EQ(printable(good), good);
  }
  for (const char* bad :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80", "\xff", "\xc3", "\xe2\x82",
        "\xf0\x9f\x99", "\xc3(", "\xe2\x28\xa1"})
    EXPECT_EQ(utf8_bytes(bad, 0), 0U) << printable(bad);
  EXPECT_EQ(printable("Z\xfcrich"), "Z\\xfcrich");  // Latin-1
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");   // cut off
}

TEST(Printable, ALineIsOneLineAndCut) {
  EXPECT_EQ(printable_line("a\nb\tc", 100), "a\\nb\\tc");
  EXPECT_EQ(printable_line("abcdef", 6), "abcdef");
  EXPECT_EQ(printable_line("abcdefg", 6), "abcdef... (7 bytes)");
  EXPECT_EQ(printable_line("äöü", 3), "äö... (6 bytes)");  // never in a character
}

TEST(Printable, LogsAreWritable) {
  ::testing::internal::CaptureStderr();
  log_warn("no variable '\x1b]0;x\x07', it has 'a\xff'\n  second line");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "warn: no variable '\\x1b]0;x\\x07', it has 'a\\xff'\n  second line\n");
  log_take_warnings();
}

}  // namespace
}  // namespace bora
