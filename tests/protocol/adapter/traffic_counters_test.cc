// The counters of queue pairs and ports that tell of traffic, each compared with what crossed the wire.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

class TrafficCounters : public ::testing::Test {
 protected:
  ChannelAdapter& adapter(int index) { return *pair.side(index).adapter; }
  uint64_t counted(int index, QpCounter counter) {
    return adapter(index).counters(*qps[static_cast<size_t>(index)]).get(counter);
  }
  uint64_t counted(int index, AdapterPortCounter counter) { return adapter(index).ports().total(counter); }
  void connect(const QpConfig& config, const QpAttr& attr = {}) { qps = pair.connect(config, attr); }
  void send(uint32_t bytes) {
    const Sge sge = pair.side(0).sge(0, bytes);
    const Destination dest{.lid = Lid(2), .qpn = adapter(1).qpn(*qps[1]), .qkey = AdapterSides::kQkey};
    ASSERT_EQ(adapter(0).post_send(*qps[0], {.sges = {&sge, 1}, .dest = dest}), PostResult::kOk);
    pair.run(30);
  }
  void receive() { ASSERT_EQ(pair.post_recv(1, *qps[1], 1, {pair.side(1).sge(0, 4096)}), PostResult::kOk); }
  /// The acknowledgements and refusals that side 1 has sent.
  [[nodiscard]] size_t answers() const {
    return pair.pipe.sent_by(1, Opcode::kAck).size() + pair.pipe.sent_by(1, Opcode::kNak).size();
  }

  AdapterPair pair;
  std::array<QueuePair*, 2> qps{};
};

TEST_F(TrafficCounters, messages_and_their_bytes_are_counted_at_both_ends) {
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kUd, QpType::kRd}) {
    connect({.type = type});
    for (const uint32_t bytes : {0U, 100U, 256U}) {
      receive();
      send(bytes);
    }
    EXPECT_EQ(counted(0, QpCounter::kMessagesSent), 3U) << int(type);
    EXPECT_EQ(counted(0, QpCounter::kBytesSent), 356U) << int(type);
    EXPECT_EQ(counted(1, QpCounter::kMessagesReceived), 3U) << int(type);
    EXPECT_EQ(counted(1, QpCounter::kBytesReceived), 356U) << int(type);
  }
}

TEST_F(TrafficCounters, a_message_that_failed_is_not_counted_as_sent) {
  connect({}, {.ack_timeout = 1ms, .retry_count = 0});
  pair.pipe.set_filter([](int, std::vector<std::byte>&) { return Verdict::kDrop; });
  send(100);
  pair.run(100, 1ms);
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(counted(0, QpCounter::kMessagesSent), 0U);
  EXPECT_EQ(counted(0, QpCounter::kBytesSent), 0U);
}

TEST_F(TrafficCounters, acknowledgements_are_counted_at_both_ends) {
  for (const AckMode mode : {AckMode::kSelective, AckMode::kStrict}) {
    pair.pipe.clear_trace();
    connect({.ack_mode = mode});
    for (int i = 0; i < 3; ++i) {
      receive();
      send(1000);
    }
    EXPECT_GE(answers(), 3U);
    EXPECT_EQ(counted(1, QpCounter::kAcksSent), answers()) << int(mode);
    EXPECT_EQ(counted(0, QpCounter::kAcksReceived), answers()) << int(mode);
    EXPECT_EQ(counted(0, QpCounter::kNaksReceived), 0U) << int(mode);
  }
}

TEST_F(TrafficCounters, a_refusal_is_counted_at_both_ends_and_tells_how_many_messages_were_executed) {
  connect({}, {.rnr_retry = 0});
  for (int i = 0; i < 2; ++i) {
    receive();
    send(64);
  }
  pair.pipe.clear_trace();
  send(64);
  ASSERT_EQ(answers(), 1U);
  EXPECT_EQ(pair.pipe.sent_by(1).back()->view.ack.messages_completed, 2U);
  EXPECT_EQ(counted(1, QpCounter::kRnrNaksSent), 1U);
  EXPECT_EQ(counted(0, QpCounter::kRnrNaksReceived), 1U);
  EXPECT_EQ(counted(0, QpCounter::kNaksReceived), 1U);
}

/// The receiver knows a later number than the sender's next one, as after a restart of the sender.
TEST_F(TrafficCounters, a_refused_number_of_a_reliable_datagram_counts_as_a_refusal) {
  connect({.type = QpType::kRd});
  receive();
  send(64);
  const TracedCell first = *pair.pipe.sent_by(0, Opcode::kRdSend).front();
  std::vector<std::byte> later = first.bytes;
  store_be(later.data() + 24, first.view.psn.plus(100).value());
  receive();
  pair.pipe.inject(1, later);
  pair.run(5);
  EXPECT_EQ(counted(0, QpCounter::kNaksReceived), 0U);
  receive();
  send(64);
  EXPECT_EQ(counted(0, QpCounter::kNaksReceived), 1U);
  EXPECT_EQ(counted(0, QpCounter::kMessagesSent), 2U);
}

TEST_F(TrafficCounters, a_turn_that_finds_no_credit_is_counted) {
  connect({});
  receive();
  pair.pipe.set_room(0, 0);
  send(64);
  EXPECT_EQ(counted(0, QpCounter::kCreditStalls), 1U);
  pair.pipe.set_room(0, 100);
  send(0);
  EXPECT_EQ(counted(0, QpCounter::kCreditStalls), 1U);
}

TEST_F(TrafficCounters, cells_of_another_partition_are_counted_at_their_port) {
  const std::array<uint16_t, 2> table{kPkeyDefault, 0x8005};
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(adapter(i).ports().set_pkeys(1, table));
  connect({.type = QpType::kUc});
  const std::array<uint16_t, 1> other{0x8006};
  ASSERT_TRUE(adapter(1).ports().set_pkeys(1, other));
  receive();
  for (int i = 0; i < 2; ++i) send(64);
  EXPECT_EQ(counted(1, AdapterPortCounter::kOtherPartition), 2U);
  EXPECT_EQ(counted(0, AdapterPortCounter::kOtherPartition), 0U);
}

TEST_F(TrafficCounters, a_port_that_expires_is_counted_once) {
  connect({});
  pair.run(2);
  for (uint64_t life = 1; life <= 2; ++life) {
    pair.pipe.set_up(false);
    pair.run(30, 1s);
    EXPECT_EQ(counted(0, AdapterPortCounter::kExpired), life);
    EXPECT_EQ(counted(0, AdapterPortCounter::kDowns), life);
    pair.pipe.set_up(true);
    pair.run(2);
  }
}

}  // namespace
}  // namespace weft::test
