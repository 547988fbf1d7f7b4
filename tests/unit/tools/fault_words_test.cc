#include "tools/fault_words.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.h"

namespace weft::test {
using namespace tools;
using namespace std::chrono_literals;
namespace {

std::string refusal(const FaultOrder& order) {
  const Result<control::FaultWish> wish = fault_wish(order);
  return wish.ok() ? "" : wish.error().text;
}

FaultOrder order_of(const char* kind, const char* value = "") {
  FaultOrder order;
  order.kind = kind;
  order.value = value;
  return order;
}

TEST(FaultWords, times_need_a_unit_and_are_read_whole) {
  EXPECT_EQ(parse_time_span("250us"), Duration(250us));
  EXPECT_EQ(parse_time_span("1.5s"), Duration(1500ms));
  EXPECT_EQ(parse_time_span("2m"), Duration(2min));
  for (const char* wrong : {"", "5", "s", "-1s", "5sec", "1 s", "1e30s", "nans"})
    EXPECT_FALSE(parse_time_span(wrong)) << wrong;
  EXPECT_EQ(format_time_span(1500us), "1.5ms");
}

TEST(FaultWords, chances_are_percents) {
  EXPECT_EQ(parse_percent("1%"), 10'000U);
  EXPECT_EQ(parse_percent("0.01%"), 100U);
  EXPECT_EQ(parse_percent("100%"), 1'000'000U);
  for (const char* wrong : {"", "1", "0%", "101%", "-1%", "%", "1%%", "0.00001%"})
    EXPECT_FALSE(parse_percent(wrong)) << wrong;
}

TEST(FaultWords, an_order_becomes_a_rule) {
  FaultOrder order = order_of("delay", "1ms..5ms");
  order.chance = "10%";
  order.direction = "to";
  order.lanes = {"0", "3"};
  order.opcode = "rdma-write";
  order.every = 2;
  order.limit = 9;
  order.lasts = "3s";
  order.seed = 7;
  Result<control::FaultWish> wish = fault_wish(order);
  ASSERT_TRUE(wish.ok()) << wish.error().text;
  EXPECT_EQ(wish->delay_min_ns, 1'000'000U);
  EXPECT_EQ(wish->delay_max_ns, 5'000'000U);
  EXPECT_EQ(wish->chance_ppm, 100'000U);
  EXPECT_EQ(wish->lanes, 0b1001U);
  EXPECT_EQ(wish->opcode, 2);
  EXPECT_EQ(wish->lasts_ns, 3'000'000'000U);
  EXPECT_EQ(describe_fault(*wish),
            "delay 1ms..5ms 10%, every 2 cells, rdma-write only, lanes 0x9, cells to the node, at most 9 "
            "times, for 3s, "
            "seed 7");
}

TEST(FaultWords, what_is_wrong_is_said_with_what_is_right) {
  EXPECT_NE(refusal(order_of("dorp")).find("did you mean 'drop'"), std::string::npos);
  for (const auto& [kind, value] : std::vector<std::pair<const char*, const char*>>{{"delay", ""},
                                                                                    {"delay", "5"},
                                                                                    {"delay", "5ms..1ms"},
                                                                                    {"rate", "0"},
                                                                                    {"rate", "many"},
                                                                                    {"flap", "1s"},
                                                                                    {"drop", "3"}})
    EXPECT_NE(refusal(order_of(kind, value)), "") << kind << " " << value;
  FaultOrder order = order_of("drop");
  order.lanes = {"16"};
  EXPECT_NE(refusal(order).find("0..15"), std::string::npos);
  order.lanes.clear();
  order.opcode = "sned";
  EXPECT_NE(refusal(order).find("did you mean 'send'"), std::string::npos);
}

TEST(FaultWords, a_script_is_read_in_the_order_of_its_times) {
  const TempDir dir;
  const std::string path = dir.path() + "/faults.toml";
  std::ofstream(path) << "[[fault]]\nat = \"2s\"\ntarget = \"h1\"\nkind = \"cut\"\nfor = \"1s\"\n"
                         "[[fault]]\ntarget = \"s1:2\"\nkind = \"drop\"\nchance = \"1%\"\nseed = 4\n";
  Result<std::vector<FaultOrder>> script = read_fault_script(path);
  ASSERT_TRUE(script.ok()) << script.error().text;
  ASSERT_EQ(script->size(), 2U);
  EXPECT_EQ((*script)[0].target, "s1:2");
  EXPECT_EQ((*script)[0].seed, 4U);
  EXPECT_EQ((*script)[1].at, Duration(2s));
  std::ofstream(path) << "[[fault]]\ntarget = \"h1\"\nkind = \"cut\"\nchanse = \"1%\"\n";
  script = read_fault_script(path);
  ASSERT_FALSE(script.ok());
  EXPECT_NE(script.error().text.find(":4:"), std::string::npos) << script.error().text;
}

}  // namespace
}  // namespace weft::test
