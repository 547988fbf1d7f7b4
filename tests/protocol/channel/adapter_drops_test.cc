// Why an adapter drops a cell, each reason under its own counter and under no other (decisions 5.9): one
// byte of a good cell is changed, or what the cell needs is missing at the receiver.
#include <gtest/gtest.h>

#include <optional>

#include "base/crc32c.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {
namespace {

using Reason = AdapterCounter;

class AdapterDrops : public ::testing::Test {
 protected:
  /// From now on side 0's cells have `value` at `offset`, under a right CRC.
  void spoil(size_t offset, int value) {
    pair.pipe.set_filter([=](int from, std::vector<std::byte>& bytes) {
      if (from != 0) return Verdict::kPass;
      bytes[offset] = static_cast<std::byte>(value);
      const size_t covered = bytes.size() - kCrcBytes;
      store_be(bytes.data() + covered, crc32c(std::span(bytes).first(covered)));
      return Verdict::kPass;
    });
  }
  void send(QueuePair& qp, const Destination& dest = {}) {
    const Sge sge = pair.side(0).sge(0, 64);
    ASSERT_EQ(pair.side(0).adapter->post_send(qp, {.wr_id = 1, .sges = {&sge, 1}, .dest = dest}),
              PostResult::kOk);
    pair.run(20);
  }
  void post_recv(QueuePair& qp, uint32_t bytes = 1024) {
    ASSERT_EQ(pair.post_recv(1, qp, 7, {pair.side(1).sge(0, bytes)}), PostResult::kOk);
  }
  QueuePair* datagram_qp(int index, QpType type) {
    QueuePair* qp = pair.make_qp(index, {.type = type});
    pair.bring_up(index, *qp, {.type = type}, Qpn(0), Lid(0), Psn(1), Psn(0));
    return qp;
  }
  /// Side 1 counted this reason once more, no other, and nothing arrived.
  void expect_dropped(Reason reason) {
    const auto& counters = pair.side(1).adapter->counters();
    for (uint8_t i = 0; i < static_cast<uint8_t>(Reason::kCount); ++i) {
      const auto counter = static_cast<Reason>(i);
      const std::string_view name = CounterSet<Reason>::label(counter);
      if (name.rfind("drop_", 0) != 0) continue;
      if (counter == reason) ++expected[i];
      EXPECT_EQ(counters.get(counter), expected[i]) << name;
    }
    EXPECT_TRUE(pair.side(1).completions.empty());
    EXPECT_TRUE(pair.side(1).memory == std::vector<std::byte>(kPairBufferBytes));
  }

  AdapterPair pair;
  std::array<uint64_t, static_cast<size_t>(Reason::kCount)> expected{};
};

TEST_F(AdapterDrops, a_byte_of_the_header_that_does_not_fit) {
  struct Case {
    size_t offset;
    int value;
    Reason reason;
  };
  const Case cases[] = {
      {5, 9, Reason::kDropOtherLid},                                     // destination LID
      {3, 7, Reason::kDropOtherLid},                                     // destination subnet
      {17, 0xEE, Reason::kDropNoQp},                                     // destination QPN
      {11, 9, Reason::kDropSource},                                      // source LID
      {22, 0xEE, Reason::kDropSource},                                   // source QPN
      {13, static_cast<int>(Opcode::kTerminate), Reason::kDropService},  // operation
  };
  pair.side(0).fill(0, 64, 3);
  for (const Case& one : cases) {
    auto qps = pair.connect({.type = QpType::kUc});
    post_recv(*qps[1]);
    spoil(one.offset, one.value);
    send(*qps[0]);
    expect_dropped(one.reason);
  }
}

TEST_F(AdapterDrops, what_the_receiver_lacks) {
  pair.side(0).fill(0, 64, 3);
  auto qps = pair.connect({.type = QpType::kUc});
  send(*qps[0]);
  expect_dropped(Reason::kDropNoRecvWqe);
  post_recv(*qps[1], 63);
  send(*qps[0]);
  expect_dropped(Reason::kDropLength);
  const Sge sge = pair.side(0).sge(0, 64);
  const SendRequest write{.wr_id = 2,
                          .opcode = SendOpcode::kRdmaWrite,
                          .sges = {&sge, 1},
                          .remote_addr = pair.side(1).region.addr,
                          .rkey = Rkey(pair.side(1).region.rkey.value() ^ 0x100)};
  ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], write), PostResult::kOk);
  pair.run(20);
  expect_dropped(Reason::kDropAccess);
  QueuePair* from = datagram_qp(0, QpType::kUd);
  QueuePair* to = datagram_qp(1, QpType::kUd);
  post_recv(*to);
  const Qpn qpn = pair.side(1).adapter->qpn(*to);
  send(*from, {.lid = Lid(2), .qpn = qpn, .qkey = AdapterPair::kQkey + 1});
  expect_dropped(Reason::kDropQkey);
  QpAttr reset;
  reset.state = QpState::kReset;
  ASSERT_EQ(pair.side(1).adapter->modify_qp(*to, reset, kQpAttrState), ModifyResult::kOk);
  send(*from, {.lid = Lid(2), .qpn = qpn, .qkey = AdapterPair::kQkey});
  expect_dropped(Reason::kDropQpState);
}

TEST(AdapterDropsLimits, a_remote_without_a_context_is_dropped) {
  AdapterLimits limits;
  limits.rd_contexts = 1;
  AdapterPair pair(256, limits);
  const QpConfig config{.type = QpType::kRd};
  QueuePair* from = pair.make_qp(0, config);
  QueuePair* to = pair.make_qp(1, config);
  pair.bring_up(0, *from, config, Qpn(0), Lid(0), Psn(1), Psn(0));
  pair.bring_up(1, *to, config, Qpn(0), Lid(0), Psn(1), Psn(0));
  std::optional<std::vector<std::byte>> first;
  pair.pipe.set_filter([&](int origin, std::vector<std::byte>& bytes) {
    if (origin == 0 && !first) first = bytes;
    return Verdict::kPass;
  });
  const Sge sge = pair.side(0).sge(0, 64);
  ASSERT_EQ(pair.post_recv(1, *to, 7, {pair.side(1).sge(0, 64)}), PostResult::kOk);
  ASSERT_EQ(
      pair.side(0).adapter->post_send(
          *from,
          {.wr_id = 1, .sges = {&sge, 1}, .dest = {.lid = Lid(2), .qpn = pair.side(1).adapter->qpn(*to)}}),
      PostResult::kOk);
  pair.run(20);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(pair.side(1).completions.size(), 1U);
  std::vector<std::byte> stranger = *first;
  stranger[11] = std::byte{9};  // source LID
  pair.pipe.inject(1, stranger);
  pair.run(5);
  EXPECT_EQ(pair.side(1).adapter->counters().get(Reason::kDropRdContext), 1U);
  EXPECT_EQ(pair.side(1).completions.size(), 1U);
}

TEST(AdapterEvents, those_nobody_takes_are_bounded_and_their_loss_is_counted) {
  AdapterPair pair;
  for (int i = 0; i < 1400; ++i) {
    pair.pipe.set_up(i % 2 != 0);
    pair.run(1);
  }
  const uint64_t lost = pair.side(0).adapter->counters().get(Reason::kEventsLost);
  EXPECT_GT(lost, 0U);
  uint64_t taken = 0;
  AsyncEvent event;
  while (pair.side(0).adapter->next_event(event)) ++taken;
  EXPECT_EQ(taken, 1024U);
}

}  // namespace
}  // namespace weft::test
