#include "tools/fault/fault_words.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.h"

namespace weft::test {
using namespace tools;
using namespace std::chrono_literals;
namespace {

std::string refusal(const FaultOrder& order) {
  return check_order(order).error().text;
}

FaultOrder order_of(const char* kind, const char* value = "") {
  FaultOrder order;
  order.kind = kind;
  order.value = value;
  return order;
}

TEST(FaultWords, rates_are_bits_or_cells) {
  EXPECT_EQ(parse_bit_rate("10Gbit"), 10'000'000'000U);
  EXPECT_EQ(parse_bit_rate("500Mbit/s"), 500'000'000U);
  EXPECT_EQ(parse_bit_rate("1.5 gbit"), 1'500'000'000U);
  EXPECT_EQ(parse_bit_rate("64kbps"), 64'000U);
  EXPECT_EQ(parse_bit_rate("9bit"), 9U);
  for (const char* wrong : {"", "10", "Gbit", "0Gbit", "-1Gbit", "10Gbyte", "10GB", "0.1bit", "1e30Tbit"})
    EXPECT_FALSE(parse_bit_rate(wrong)) << wrong;
  EXPECT_EQ(format_bit_rate(10'000'000'000), "10 Gbit/s");
  EXPECT_EQ(format_bit_rate(1'500'000), "1.5 Mbit/s");
  EXPECT_EQ(format_bit_rate(9), "9 bit/s");
  EXPECT_EQ(format_bit_rate(999), "999 bit/s");
  EXPECT_EQ(format_bit_rate(1'000), "1 kbit/s");
  EXPECT_EQ(format_bit_rate(1'000'000'000), "1 Gbit/s");
  EXPECT_EQ(format_bit_rate(1'000'000'000'000'000), "1000 Tbit/s");
  Result<FaultRule> bits = fault_rule(order_of("rate", "10Gbit"));
  ASSERT_TRUE(bits.ok());
  EXPECT_EQ(bits->bits_per_second, 10'000'000'000U);
  EXPECT_EQ(bits->cells_per_second, 0U);
  EXPECT_EQ(describe_fault(*bits), "rate 10 Gbit/s, both ways, seed 0");
  Result<FaultRule> cells = fault_rule(order_of("rate", "1000"));
  ASSERT_TRUE(cells.ok());
  EXPECT_EQ(cells->bits_per_second, 0U);
  EXPECT_EQ(cells->cells_per_second, 1000U);
}

TEST(FaultWords, a_chance_may_stand_where_a_value_does) {
  for (const char* kind : {"drop", "corrupt", "duplicate", "reorder"}) {
    Result<FaultRule> rule = fault_rule(order_of(kind, "2.5%"));
    ASSERT_TRUE(rule.ok()) << kind;
    EXPECT_EQ(rule->chance_ppm, 25'000U);
  }
  FaultOrder twice = order_of("drop", "1%");
  twice.chance = "2%";
  EXPECT_NE(refusal(twice).find("one chance"), std::string::npos);
  EXPECT_NE(refusal(order_of("cut", "1%")).find("no value"), std::string::npos);
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
  Result<FaultRule> rule = fault_rule(order);
  ASSERT_TRUE(rule.ok()) << rule.error().text;
  EXPECT_EQ(rule->delay_min, Duration(1ms));
  EXPECT_EQ(rule->delay_max, Duration(5ms));
  EXPECT_EQ(rule->chance_ppm, 100'000U);
  EXPECT_EQ(rule->lanes, 0b1001U);
  EXPECT_EQ(rule->opcode, 2);
  EXPECT_EQ(rule->lasts, Duration(3s));
  EXPECT_EQ(describe_fault(*rule),
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
  std::ofstream(path)
      << "fabric = \"x\"\n[[switch]]\nname = \"s1\"\n[[fault]]\ntarget = \"s1\"\nkind = \"cut\"\n";
  script = read_fault_script(path);
  ASSERT_TRUE(script.ok()) << "a topology file: " << script.error().text;
  EXPECT_EQ(script->size(), 1U);
  std::ofstream(path) << "[[fault]]\ntarget = \"h1\"\nkind = \"cut\"\nchanse = \"1%\"\n";
  script = read_fault_script(path);
  ASSERT_FALSE(script.ok());
  EXPECT_NE(script.error().text.find(":4:"), std::string::npos) << script.error().text;
}

}  // namespace
}  // namespace weft::test
