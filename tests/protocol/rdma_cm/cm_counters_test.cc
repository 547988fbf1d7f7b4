// The counters of connection management: each question, repetition and command that succeeded, and what the
// port refused to send.
#include <gtest/gtest.h>

#include "tests/protocol/rdma_cm/commands_fixture.h"

namespace weft::rdma_cm {
namespace {

/// An endnode whose port sends nothing while `refuses` is set, and counts what it has sent.
struct CountingNode final : Node {
  using Node::Node;
  bool send(Lid to, const MadBytes& mad) noexcept override {
    if (refuses) return false;
    ++sent;
    return Node::send(to, mad);
  }
  bool flood(const MadBytes& mad) noexcept override {
    if (refuses) return false;
    ++floods;
    return Node::flood(mad);
  }
  /// A question for the IPv4 address of an endnode that may not exist.
  uint64_t ask(uint16_t lid) {
    const IpAddress address = make_ipv4(0x0A000000U + lid);
    MadAddress asked{.family = 4, .port = 80};
    asked.ip = address.ip;
    return endnode.resolver().ask(clock.now(), asked, this->lid(), 1s, 0);
  }
  [[nodiscard]] uint64_t count(AddressCounter counter) { return endnode.resolver().counters().get(counter); }
  [[nodiscard]] uint64_t count(PeerCounter counter) { return endnode.watch().counters().get(counter); }
  [[nodiscard]] uint64_t count(CmCounter counter) { return endnode.manager().counters().get(counter); }
  [[nodiscard]] uint64_t count(CommandCounter counter) { return commands.counters().get(counter); }

  bool refuses = false;
  uint64_t sent = 0;
  uint64_t floods = 0;
};

class CmCounters : public ::testing::Test {
 protected:
  test::MadNetwork network;
  CountingNode a{network, Lid(1)};
  CountingNode b{network, Lid(2)};
};

TEST_F(CmCounters, each_question_for_an_address_and_each_repetition_is_counted) {
  ASSERT_NE(a.ask(9), 0U);
  network.run(10ms);
  EXPECT_EQ(a.count(AddressCounter::kAsked), 1U);
  EXPECT_EQ(a.count(AddressCounter::kRepeats), 0U);
  network.run(2s);
  EXPECT_GT(a.floods, 10U);
  EXPECT_EQ(a.count(AddressCounter::kRepeats), a.floods - 1);
  EXPECT_EQ(a.count(AddressCounter::kAsked), 1U);
}

TEST_F(CmCounters, a_question_beyond_the_limit_is_counted) {
  for (size_t i = 0; i < AddressResolver::kQuestionsMax; ++i) ASSERT_NE(a.ask(9), 0U) << i;
  EXPECT_EQ(a.count(AddressCounter::kFull), 0U);
  EXPECT_EQ(a.ask(9), 0U);
  EXPECT_EQ(a.count(AddressCounter::kFull), 1U);
}

TEST_F(CmCounters, questions_and_answers_that_the_port_refuses_are_counted) {
  a.refuses = true;
  ASSERT_NE(a.ask(2), 0U);
  EXPECT_EQ(a.count(AddressCounter::kSendRefused), 1U);
  ASSERT_TRUE(a.endnode.watch().begin(b.lid()));
  network.run(10ms);
  EXPECT_EQ(a.count(PeerCounter::kSendRefused), 1U);
  EXPECT_EQ(a.count(PeerCounter::kAsked), 0U);
  a.refuses = false;
  b.refuses = true;
  network.run(700ms);
  EXPECT_GT(b.count(AddressCounter::kSendRefused), 0U);
  EXPECT_EQ(b.count(AddressCounter::kAnswered), 0U);
  EXPECT_EQ(b.count(PeerCounter::kSendRefused), a.count(PeerCounter::kAsked));
  EXPECT_EQ(b.count(PeerCounter::kAnswered), 0U);
}

TEST_F(CmCounters, messages_of_connections_are_counted_as_sent_or_refused) {
  const uint64_t before = a.sent;
  ASSERT_NE(
      a.endnode.manager().request(network.clock.now(), b.lid(), CmReq{.service_id = 7, .qpn = 11}, nullptr),
      nullptr);
  EXPECT_EQ(a.sent, before + 1);
  EXPECT_EQ(a.count(CmCounter::kSent), 1U);
  EXPECT_EQ(a.count(CmCounter::kSendRefused), 0U);
  a.refuses = true;
  ASSERT_NE(
      a.endnode.manager().request(network.clock.now(), b.lid(), CmReq{.service_id = 7, .qpn = 11}, nullptr),
      nullptr);
  EXPECT_EQ(a.count(CmCounter::kSent), 1U);
  EXPECT_EQ(a.count(CmCounter::kSendRefused), 1U);
}

TEST_F(CmCounters, a_datagram_that_is_no_message_is_counted) {
  MadBytes bytes = encode_cm({.transaction = 3, .body = CmRtu{.local_id = 5, .remote_id = 6}});
  a.endnode.receive(network.clock.now(), b.lid(), std::span(bytes).first(bytes.size() - 1));
  EXPECT_EQ(a.count(CmCounter::kMalformed), 1U);
  a.endnode.receive(network.clock.now(), b.lid(), bytes);
  EXPECT_EQ(a.count(CmCounter::kMalformed), 1U);
  EXPECT_EQ(a.count(CmCounter::kUnknown), 1U);
}

TEST_F(CmCounters, commands_are_counted_as_done_or_refused) {
  const uint32_t id = a.create(1);
  EXPECT_EQ(a.count(CommandCounter::kDone), 1U);
  EXPECT_EQ(a.count(CommandCounter::kRefused), 0U);
  EXPECT_EQ(a.route(id), EINVAL);
  EXPECT_EQ(a.event().event, ~0U);  // a look for an event is neither
  EXPECT_EQ(a.count(CommandCounter::kDone), 1U);
  EXPECT_EQ(a.count(CommandCounter::kRefused), 1U);
  EXPECT_EQ(a.count(CommandCounter::kEvents), 0U);
}

}  // namespace
}  // namespace weft::rdma_cm
