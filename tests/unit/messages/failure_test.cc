// The words for failures: each code once, each with a text and a cure, and what a page shows comes back.
#include "messages/failure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace weft::test {
namespace {

TEST(FailureTexts, codes_stand_in_order_and_each_has_words_and_a_cure) {
  uint32_t before = 0;
  for (const ReasonRule& rule : reason_rules()) {
    const auto code = static_cast<uint32_t>(rule.reason);
    EXPECT_GT(code, before);
    EXPECT_FALSE(rule.text.empty());
    EXPECT_FALSE(rule.cure.empty());
    EXPECT_EQ(find_reason(code), &rule);
    before = code;
  }
  EXPECT_EQ(find_reason(0), nullptr);
  EXPECT_EQ(find_reason(0x10000), nullptr);
}

TEST(FailureTexts, a_request_says_what_was_asked_of_whom) {
  const std::string text = describe({.reason = Reason::kLocalOutOfBounds,
                                     .work = FailedWork::kWrite,
                                     .status = 4,
                                     .completes_wr = true,
                                     .peer_lid = 3,
                                     .qpn = 0x11,
                                     .peer_qpn = 0x22,
                                     .wr_id = 7,
                                     .key = 0x1234,
                                     .address = 0x1000,
                                     .bytes = 64,
                                     .expected = 0x1020,
                                     .extent = 16});
  EXPECT_EQ(text,
            "QP 0x11: RDMA write wr_id 0x7 to LID 3 QP 0x22: local protection error, vendor_err 0x105: the "
            "segment is "
            "not within its memory region (lkey 0x1234, 64 bytes at 0x1000; the region has 16 bytes at "
            "0x1020); check "
            "sge.addr and sge.length against what was registered");
}

/// A program that forgets to set the key is told that it is zero.
TEST(FailureTexts, a_local_key_of_zero_is_shown_and_another_subject_has_no_key) {
  const Failure unset{
      .reason = Reason::kLocalKeyUnknown, .work = FailedWork::kSend, .address = 0x10, .bytes = 8};
  EXPECT_NE(describe(unset).find("(lkey 0x0, 8 bytes at 0x10); take mr->lkey"), std::string::npos);
  const Failure without{.reason = Reason::kPeerRefusesRequest, .work = FailedWork::kSend, .bytes = 8};
  EXPECT_EQ(describe(without).find("key 0x"), std::string::npos) << describe(without);
}

TEST(FailureTexts, a_refusal_says_whose_message_and_which_receive) {
  const std::string text = describe({.reason = Reason::kReceiveTooShort,
                                     .work = FailedWork::kSend,
                                     .status = 1,
                                     .by_peer = true,
                                     .completes_wr = true,
                                     .peer_lid = 3,
                                     .qpn = 0x11,
                                     .peer_qpn = 0x22,
                                     .wr_id = 7,
                                     .bytes = 64,
                                     .expected = 63});
  EXPECT_EQ(
      text,
      "QP 0x11 refuses send of LID 3 QP 0x22, receive wr_id 0x7: local length error, vendor_err 0x707: the "
      "message is longer than the receive request (message of 64 bytes or more, receive of 63); post "
      "receives "
      "as long as the longest message; datagrams need 40 bytes more");
}

TEST(FailureTexts, one_line_whatever_the_numbers_are) {
  for (uint32_t code = 0; code < 0xA00; ++code) {
    const std::string text = describe(
        {.reason = static_cast<Reason>(code), .work = FailedWork::kCount, .status = 99, .expected = ~0ULL});
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 0) << text;
  }
}

TEST(FailureTexts, a_page_keeps_all_of_a_failure) {
  const Failure failure{.reason = Reason::kWrongPeer,
                        .work = FailedWork::kAtomic,
                        .status = 10,
                        .by_peer = true,
                        .completes_wr = true,
                        .peer_lid = 3,
                        .qpn = 4,
                        .peer_qpn = 5,
                        .wr_id = 6,
                        .key = 7,
                        .address = 8,
                        .bytes = 9,
                        .expected = 10,
                        .extent = 11};
  const FailureGauges gauges = gauges_of(failure, 12);
  EXPECT_EQ(gauges[0], 12U);
  const Failure again = failure_of(gauges);
  EXPECT_EQ(gauges_of(again, 12), gauges);
  EXPECT_EQ(describe(again), describe(failure));
}

}  // namespace
}  // namespace weft::test
