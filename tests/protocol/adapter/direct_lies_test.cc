// A peer that describes one message in different ways in its records (docs/window.md, "Trust"). Side 0 lies:
// the test writes records of its queue pair by hand.
#include "adapter/queues/shared_receives.h"
#include "messages/window_record.h"
#include "tests/support/direct_case.h"

namespace weft::test {
using namespace adapter;
namespace {

class DirectLies : public Direct {
 protected:
  void begin() {
    connect();
    pair.run(20);
    ++life;
  }
  void tell(WindowRecord record, uint32_t bytes) {
    record.sender_life = record.receiver_life = life;
    const auto header = encode_window_record(record);
    std::vector<std::byte> slot(header.begin(), header.end());
    slot.resize(header.size() + bytes, std::byte{0x5A});
    ASSERT_EQ(pair.end(0).send(number(1), number(0), slot, 0), fabric::FifoPost::kOk);
    pair.end(0).flush();
    pair.run(2);
  }
  [[nodiscard]] uint32_t number(int side) {
    return pair.side(side).adapter->qpn(*qps[static_cast<size_t>(side)]).value();
  }
  /// A write into the buffer of side 1.
  [[nodiscard]] WindowRecord write(uint32_t total) {
    return {.kind = WindowRecordKind::kWrite,
            .address = pair.side(1).region.addr,
            .key = pair.side(1).region.rkey.value(),
            .total = total};
  }
  [[nodiscard]] QpState state() { return pair.side(1).adapter->query_qp(*qps[1]).state; }
  void expect_violation(const char* lie) {
    EXPECT_EQ(state(), QpState::kErr) << lie;
    EXPECT_EQ(pair.side(1).adapter->counters(*qps[1]).get(QpCounter::kProtocolViolations), 1U) << lie;
  }

  uint32_t life = 0;  // of `qps`: the number of connections of both sides so far
};

/// The receive of 64 bytes would complete with 4 GB.
TEST_F(DirectLies, about_the_length_in_the_last_record_end_the_queue_pair) {
  begin();
  receive(1, 0, 64);
  tell({.kind = WindowRecordKind::kSend, .total = 64}, 32);
  tell({.kind = WindowRecordKind::kImmediate, .total = UINT32_MAX, .offset = 32}, 0);
  expect_violation("a Send that ends as immediate data");
  const auto done = pair.take_completions(1);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, WcStatus::kFlushed);
  EXPECT_EQ(done[0].wr_id, 1U);
}

/// Such completions would take no receive request, and no number of them would be too many.
TEST_F(DirectLies, about_immediate_data_in_the_last_record_give_no_completion) {
  begin();
  WindowRecord part = write(2);
  tell(part, 1);
  part.offset = 1;
  part.flags = kRecordLast | kRecordImmediate;
  tell(part, 1);
  expect_violation("immediate data that the first record does not name");
  EXPECT_TRUE(pair.take_completions(1).empty());
}

TEST_F(DirectLies, in_each_field_of_a_later_record_are_seen) {
  const auto lie = [this](const char* name, auto change) {
    pair.side(1).completions.clear();
    begin();
    WindowRecord part = write(3);
    tell(part, 1);
    part.offset = 1;
    change(part);
    tell(part, 1);
    expect_violation(name);
  };
  lie("kind", [](WindowRecord& part) { part.kind = WindowRecordKind::kSend; });
  lie("flags", [](WindowRecord& part) { part.flags = kRecordSolicited; });
  lie("length", [](WindowRecord& part) { part.total = 4; });
  lie("address", [](WindowRecord& part) { ++part.address; });
  lie("key", [](WindowRecord& part) { part.key ^= 1; });
  lie("start", [](WindowRecord& part) {
    part.offset = 0;
    part.total = 4;
  });
}

/// The other queue pairs of the shared receive queue would get nothing any more.
TEST_F(DirectLies, about_the_kind_of_a_message_hold_no_shared_receive) {
  SharedReceiveQueue* const srq = pair.side(1).adapter->srqs().create({.pd = pair.side(1).pd}).value();
  qps = {pair.make_qp(0, {}), pair.make_qp(1, {.srq = srq})};
  for (int i = 0; i < 2; ++i) {
    const Qpn peer = pair.side(1 - i).adapter->qpn(*qps[static_cast<size_t>(1 - i)]);
    pair.bring_up(i, *qps[static_cast<size_t>(i)], {}, peer, Lid(static_cast<uint16_t>(2 - i)), Psn(1),
                  Psn(1));
  }
  pair.run(20);
  ++life;
  const Sge room = pair.side(1).sge(0, 64);
  ASSERT_EQ(pair.side(1).adapter->srqs().post_recv(*srq, {.wr_id = 5, .sges = {&room, 1}}), PostResult::kOk);
  tell({.kind = WindowRecordKind::kSend, .total = 64}, 32);
  tell({.kind = WindowRecordKind::kRead}, 0);
  expect_violation("a read with the number of a Send");
  const auto done = pair.take_completions(1);
  ASSERT_EQ(done.size(), 1U) << "the receive is not lost";
  EXPECT_EQ(done[0].wr_id, 5U);
  EXPECT_EQ(done[0].status, WcStatus::kFlushed);
}

/// An honest peer that hears an RNR NAK twice does so.
TEST_F(DirectLies, are_not_what_a_message_is_that_begins_again) {
  begin();
  const WindowRecord first{.kind = WindowRecordKind::kSend, .total = 64};
  tell(first, 32);
  receive(1, 0, 64);
  receive(2, 0, 64);
  for (int time = 0; time < 2; ++time) tell(first, 32);
  tell({.kind = WindowRecordKind::kSend, .flags = kRecordLast, .total = 64, .offset = 32}, 32);
  EXPECT_EQ(state(), QpState::kRts);
  const auto done = pair.take_completions(1);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess);
  EXPECT_EQ(done[0].wr_id, 1U);
  EXPECT_EQ(done[0].byte_count, 64U);
  tell({.kind = WindowRecordKind::kSend, .flags = kRecordLast, .number = 1, .total = 8}, 8);
  EXPECT_EQ(pair.take_completions(1).size(), 1U) << "it has taken one receive";
}

}  // namespace
}  // namespace weft::test
