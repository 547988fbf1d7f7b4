// weft-sim --traffic verbs: its summary as text and as one JSON object.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "sim/verbs/command.h"

namespace weft::test {
namespace {

std::string printed_by(const sim::verbs::CommandOptions& options) {
  testing::internal::CaptureStdout();
  const int code = sim::verbs::run_command(options);
  std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(code, 0) << text;
  return text;
}

TEST(VerbsCommand, the_summary_is_text_or_one_json_object) {
  const std::string text = printed_by({.from = 4, .seeds = 1});
  EXPECT_NE(text.find("1 seeds, 0 failed\n"), std::string::npos) << text;

  const std::string json = printed_by({.from = 4, .seeds = 1, .json = true});
  EXPECT_EQ(json.find(R"({"seeds":1,"from":4,"failed":0,"cpu_ms_p50":)"), 0U) << json;
  EXPECT_NE(json.find(R"("counts":{")"), std::string::npos) << json;
  EXPECT_EQ(std::count(json.begin(), json.end(), '\n'), 1) << json;
  EXPECT_EQ(json.substr(json.size() - 3), "}}\n");
}

}  // namespace
}  // namespace weft::test
