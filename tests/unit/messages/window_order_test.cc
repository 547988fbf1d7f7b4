#include "messages/window_order.h"

#include <gtest/gtest.h>

namespace weft::test {
namespace {

using namespace std::chrono_literals;

FaultRule full_rule() {
  return {.kind = FaultKind::kDelay,
          .direction = FaultDirection::kFrom,
          .lanes = 0x12345678,
          .opcode = 9,
          .chance_ppm = 77,
          .every = 5,
          .limit = 1ULL << 40,
          .lasts = 10s,
          .delay_min = 1ms,
          .delay_max = 2ms,
          .up = 3ms,
          .down = 4ms,
          .seed = 1ULL << 50};
}

TEST(WindowOrders, every_field_comes_back) {
  const auto bytes = encode_window_order({.action = WindowOrderAction::kAdd, .id = 6, .rule = full_rule()});
  EXPECT_EQ(load_be<uint32_t>(bytes.data()), 0x57464C54U);
  EXPECT_EQ(bytes[6], std::byte{1});
  EXPECT_EQ(load_be<uint32_t>(bytes.data() + 8), 6U);
  EXPECT_EQ(load_be<uint64_t>(bytes.data() + 40), 1'000'000U);
  const std::optional<WindowOrder> got = decode_window_order(bytes);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->action, WindowOrderAction::kAdd);
  EXPECT_EQ(got->id, 6U);
  EXPECT_EQ(got->rule, full_rule());
}

TEST(WindowOrders, a_wrong_packet_is_no_order) {
  const auto good = encode_window_order({.action = WindowOrderAction::kList});
  EXPECT_FALSE(decode_window_order(std::span(good).first(87)));
  for (const size_t at : {0U, 5U, 6U, 7U, 12U, 14U, 32U, 40U, 48U, 56U, 64U, 84U}) {
    auto bytes = good;
    bytes[at] = std::byte{0x7F};
    EXPECT_FALSE(decode_window_order(bytes)) << at;
  }
}

TEST(WindowOrders, replies_come_back_with_their_rules_or_their_refusal) {
  WindowOrderReply reply{
      .rules = {{3, full_rule(), 100, 40, 5s}, {4, {.kind = FaultKind::kFailDma}, 1, 0, {}}}};
  std::optional<WindowOrderReply> got = decode_window_order_reply(encode_window_order_reply(reply));
  ASSERT_TRUE(got);
  EXPECT_TRUE(got->error.empty());
  ASSERT_EQ(got->rules.size(), 2U);
  EXPECT_EQ(got->rules[0].id, 3U);
  EXPECT_EQ(got->rules[0].rule, full_rule());
  EXPECT_EQ(got->rules[0].matched, 100U);
  EXPECT_EQ(got->rules[0].struck, 40U);
  EXPECT_EQ(got->rules[0].left, 5s);
  EXPECT_EQ(got->rules[1].rule.kind, FaultKind::kFailDma);
  got = decode_window_order_reply(encode_window_order_reply({.error = std::string(1000, 'x'), .rules = {}}));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->error, std::string(kWindowOrderTextMax, 'x'));
}

TEST(WindowOrders, a_wrong_reply_is_none) {
  const auto good = encode_window_order_reply({.error = "no", .rules = {{1, full_rule(), 0, 0, {}}}});
  for (size_t bytes = 0; bytes < good.size(); ++bytes)
    EXPECT_FALSE(decode_window_order_reply(std::span(good).first(bytes))) << bytes;
  const size_t left = good.size() - 8;  // the time that the last rule still lasts
  for (const size_t at : {size_t{0}, size_t{5}, size_t{6}, size_t{8}, size_t{10}, size_t{15}, left}) {
    auto bytes = good;
    bytes[at] = std::byte{0x7F};
    EXPECT_FALSE(decode_window_order_reply(bytes)) << at;
  }
}

}  // namespace
}  // namespace weft::test
