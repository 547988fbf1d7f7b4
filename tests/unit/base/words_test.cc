// Text of others on its way to a terminal or a log.
#include "base/words.h"

#include <gtest/gtest.h>

#include "base/log.h"
#include "base/names.h"

namespace weft {
namespace {

using namespace std::string_literals;

TEST(Printable, what_could_steer_a_terminal_is_spelled_out) {
  EXPECT_EQ(printable("plain ä €"), "plain ä €");
  EXPECT_EQ(printable("a\x1b[2Jb\x7f"), "a\\x1b[2Jb\\x7f");
  EXPECT_EQ(printable("a\nb\tc\rd"), "a\\x0ab\\x09c\\x0dd");
  EXPECT_EQ(printable("a\nb\tc\rd", true), "a\nb\tc\\x0dd");
  EXPECT_EQ(printable("\xc2\x9b"s + "31m"), "\\xc2\\x9b31m") << "a control character of two bytes";
  EXPECT_EQ(printable("\0x"s), "\\x00x");
}

TEST(Printable, what_is_no_utf_8_is_spelled_out) {
  for (const std::string& bad :
       {"\xff"s, "\x80"s, "\xc0\xaf"s, "\xe0\x80\x80"s, "\xed\xa0\x80"s, "\xed\xb0\x80"s, "\xed\xbf\xbf"s,
        "\xf4\x90\x80\x80"s, "\xf5\x80\x80\x80"s, "\xe2\x82"s, "\xc3"s}) {
    EXPECT_EQ(utf8_bytes(bad), 0U);
    EXPECT_EQ(printable(bad).substr(0, 2), "\\x");
  }
  for (const std::string& good : {"a"s, "\xc2\x80"s, "\xe0\xa0\x80"s, "\xed\x9f\xbf"s, "\xee\x80\x80"s,
                                  "\xef\xbf\xbf"s, "\xf0\x90\x80\x80"s, "\xf4\x8f\xbf\xbf"s})
    EXPECT_EQ(utf8_bytes(good), good.size());
  EXPECT_EQ(utf8_bytes(""), 0U);
}

TEST(Printable, a_log_line_is_one_line) {
  const std::string line = log_line(LogLevel::kInfo, "peer \x1b[2Jsays\nERROR all is lost");
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
}

TEST(Names, hold_what_a_file_name_and_a_command_line_may) {
  EXPECT_EQ(name_fault("a-1_b.c", 7, "a node"), "");
  EXPECT_NE(name_fault("a-1_b.cd", 7, "a node"), "") << "one character more than may be";
  for (const char* bad : {"", "-a", ".a", "a b", "a/b", "a\n", "\x1b", "ä"})
    EXPECT_NE(name_fault(bad, 31, "a node"), "") << bad;
}

}  // namespace
}  // namespace weft
