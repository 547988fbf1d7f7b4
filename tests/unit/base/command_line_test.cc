// Options: right use fills the variables, wrong use is one line and exit code 2.
#include "base/command_line.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace weft {
namespace {

struct Options {
  bool verbose = false;
  std::string name = "none";
  uint32_t lid = 7;
  uint64_t guid = 0;
  std::vector<std::string> nodes;
  std::vector<std::string> words;
};

std::optional<int> parse(Options& out, const std::vector<std::string>& arguments) {
  CommandLine line("prog", "prog [options] FILE", "Does things.");
  line.flag("verbose,v", out.verbose, "says more");
  line.text("name", "NAME", out.name, "a name");
  line.number("lid", "N", out.lid, 1, 100, "a number");
  line.hex("guid", "HEX", out.guid, "a name in hex");
  line.texts("node", "N", out.nodes, "repeatable");
  line.words("FILE", out.words, 1, 2);
  return line.parse(arguments);
}

TEST(CommandLine, fills_what_is_given_and_keeps_the_rest) {
  Options got;
  EXPECT_FALSE(parse(got, {"-v", "--guid", "0xff", "--node", "a", "--node=b", "file"}).has_value());
  EXPECT_TRUE(got.verbose);
  EXPECT_EQ(got.name, "none");
  EXPECT_EQ(got.lid, 7U);
  EXPECT_EQ(got.guid, 255U);
  EXPECT_EQ(got.nodes, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(got.words, (std::vector<std::string>{"file"}));
}

TEST(CommandLine, words_after_the_double_dash_are_left_alone) {
  Options got;
  EXPECT_FALSE(parse(got, {"file", "--", "--lid"}).has_value());
  EXPECT_EQ(got.words, (std::vector<std::string>{"file", "--lid"}));
}

TEST(CommandLine, wrong_use_is_told_in_one_line) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> table{
      {{"--nonsense", "f"}, "prog: unknown option '--nonsense'; see prog --help\n"},
      {{"--nmae", "f"}, "prog: unknown option '--nmae'; did you mean '--name'? see prog --help\n"},
      {{"--lid", "-1", "f"}, ""},
      {{"--lid", "101", "f"},
       "prog: option --lid needs a whole number from 1 to 100, not '101'; see prog --help\n"},
      {{"--guid", "xyz", "f"},
       "prog: option --guid needs a hexadecimal number, not 'xyz'; see prog --help\n"},
      {{"--name", "a", "--name", "b", "f"}, "prog: option --name stands twice; see prog --help\n"},
      {{}, "prog: FILE is missing; usage: prog [options] FILE; see prog --help\n"},
      {{"a", "b", "c"}, "prog: unexpected 'c'; usage: prog [options] FILE; see prog --help\n"},
  };
  for (const auto& [arguments, answer] : table) {
    Options got;
    ::testing::internal::CaptureStderr();
    const std::optional<int> code = parse(got, arguments);
    const std::string text = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(code, 2) << text;
    if (!answer.empty()) {
      EXPECT_EQ(text, answer);
    }
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  }
}

TEST(CommandLine, help_and_version_end_well) {
  Options got;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(parse(got, {"--help"}), 0);
  EXPECT_EQ(parse(got, {"--version"}), 0);
  const std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_NE(text.find("--lid N"), std::string::npos);
  EXPECT_NE(text.find("prog 0.1.0"), std::string::npos);
}

TEST(CommandLine, file_fills_in_what_the_line_leaves_out) {
  const std::string path = (std::filesystem::temp_directory_path() / "weft-command-line-test.conf").string();
  std::ofstream(path) << "lid = 9\nname = file\nverbose = true\n";
  Options got;
  EXPECT_FALSE(parse(got, {"--config", path, "--name", "line", "f"}).has_value());
  EXPECT_EQ(got.lid, 9U);
  EXPECT_EQ(got.name, "line");
  EXPECT_TRUE(got.verbose);
  std::ofstream(path) << "nonsense = 9\n";
  EXPECT_EQ(parse(got, {"--config", path, "f"}), 2);
  std::filesystem::remove(path);
  EXPECT_EQ(parse(got, {"--config", path, "f"}), 2);
}

TEST(CommandLine, a_file_of_options_that_is_none_is_told_in_one_line) {
  for (const auto& [path, why] : {std::pair{"/", "it is a directory, not a file"},
                                  {"/dev/null", "it is a device, not a file"},
                                  {"/nonexistent", "No such file or directory"}}) {
    Options got;
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(parse(got, {"--config", path, "f"}), 2);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(),
              fmt::format("prog: option --config: cannot read {}: {}; see prog --help\n", path, why));
  }
}

}  // namespace
}  // namespace weft
