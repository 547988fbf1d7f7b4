// Reasons that connection management gives to people: for a refused command, and for a request that it turns
// away.
#include <array>
#include <cerrno>
#include <string_view>

#include "tests/protocol/rdma_cm/commands_fixture.h"

namespace weft::rdma_cm {
namespace {

class CommandsExplained : public CommandsTest {
 protected:
  static bool says(const Node& node, std::string_view words) {
    return node.commands.why().find(words) != std::string_view::npos;
  }
  [[nodiscard]] IpAddress at(uint16_t port) {
    IpAddress address = b.own(4);
    address.port = port;
    return address;
  }
  /// a asks b for a connection at a port. @return why b has turned it away
  CmFailure refusal_at(uint16_t port) {
    client = a.create(0xA0);
    EXPECT_EQ(a.resolve(client, at(port)), 0);
    network.run(500ms);
    EXPECT_EQ(a.route(client), 0);
    EXPECT_EQ(a.connect(client, 0x111), 0);
    network.run(10ms);
    EXPECT_FALSE(b.explained.empty());
    return b.explained.empty() ? CmFailure{} : b.explained.back();
  }
};

TEST_F(CommandsExplained, a_step_that_comes_too_early_names_the_step_before) {
  client = a.create(0xA0);
  EXPECT_EQ(a.disconnect(client), EINVAL);
  EXPECT_TRUE(says(a, "the id has no connection"));
  EXPECT_EQ(a.route(client), EINVAL);
  EXPECT_TRUE(says(a, "rdma_resolve_addr and RDMA_CM_EVENT_ADDR_RESOLVED come first"));
  ASSERT_EQ(a.resolve(client, at(5000)), 0);
  EXPECT_EQ(a.route(client), EINVAL);
  EXPECT_TRUE(says(a, "wait for RDMA_CM_EVENT_ADDR_RESOLVED"));
  EXPECT_EQ(a.resolve(client, at(5000)), EINVAL);
  EXPECT_TRUE(says(a, "make another id for each peer"));
  EXPECT_EQ(a.listen(client), EINVAL);
  EXPECT_TRUE(says(a, "listen with another id"));
  EXPECT_EQ(a.bind(client, at(5000)), EINVAL);
  EXPECT_TRUE(says(a, "rdma_bind_addr comes once"));
  EXPECT_EQ(a.listen(client + 1), ENOENT);
  EXPECT_TRUE(says(a, "no such id at this event channel"));
}

TEST_F(CommandsExplained, an_answer_goes_to_the_identifier_of_the_event_and_names_a_pair) {
  prepare();
  ASSERT_EQ(a.connect(client, 0), 0);
  EXPECT_TRUE(says(a, "call rdma_create_qp before rdma_connect"));
  network.run(10ms);
  server = b.event().id;
  EXPECT_EQ(b.accept(listener, 0xB1, Node::param(0x222)), EINVAL);
  EXPECT_TRUE(says(b, "pass the id of the event, event->id"));
  EXPECT_EQ(b.reject(listener, {}), EINVAL);
  EXPECT_TRUE(says(b, "pass the id of the event, event->id"));
  ASSERT_EQ(b.accept(server, 0xB1, Node::param(0)), 0);
  EXPECT_TRUE(says(b, "call rdma_create_qp before rdma_accept"));
  EXPECT_EQ(b.accept(server, 0xB1, Node::param(0x222)), EINVAL);
  EXPECT_TRUE(says(b, "the connection no longer waits for an answer"));
}

TEST_F(CommandsExplained, a_command_that_succeeds_says_nothing) {
  establish();
  EXPECT_TRUE(a.commands.why().empty());
  EXPECT_TRUE(b.commands.why().empty());
}

TEST_F(CommandsExplained, an_identifier_that_was_destroyed_names_its_events) {
  prepare();
  EXPECT_EQ(a.commands.destroyed().uid, 0U);
  EXPECT_EQ(a.destroy(client), 2U);
  EXPECT_EQ(a.commands.destroyed().uid, 0xA0U);
  EXPECT_EQ(a.commands.destroyed().events, 2U);
  static_cast<void>(a.create(0xA1));
  EXPECT_EQ(a.commands.destroyed().uid, 0U) << "of the last command only";
}

TEST_F(CommandsExplained, a_port_that_is_not_there_or_not_listened_at) {
  EXPECT_EQ(refusal_at(5000).turned_away, TurnedAway::kNobody);
  listener = b.create(0xB0);
  ASSERT_EQ(b.bind(listener, at(5000)), 0);
  const CmFailure failure = refusal_at(5000);
  EXPECT_EQ(failure.turned_away, TurnedAway::kNotListening);
  EXPECT_EQ(failure.address, at(5000));
  EXPECT_EQ(failure.peer, a.lid());
}

TEST_F(CommandsExplained, a_listener_at_another_address_or_port) {
  listener = b.create(0xB0);
  IpAddress other = make_ipv4(0xC0A80001, 5000);
  ASSERT_EQ(b.bind(listener, other), 0);
  ASSERT_EQ(b.listen(listener), 0);
  CmFailure failure = refusal_at(5000);
  EXPECT_EQ(failure.turned_away, TurnedAway::kOtherAddress);
  EXPECT_EQ(failure.listener, other);
  failure = refusal_at(0x8813);  // 5000 is 0x1388
  EXPECT_EQ(failure.turned_away, TurnedAway::kSwappedPort);
  EXPECT_EQ(failure.listener.port, 5000);
}

TEST_F(CommandsExplained, a_listener_of_another_port_space_and_one_that_is_full) {
  listener = b.create(0xB0, RDMA_PS_UDP);
  ASSERT_EQ(b.bind(listener, at(5000)), 0);
  ASSERT_EQ(b.listen(listener), 0);
  EXPECT_EQ(refusal_at(5000).turned_away, TurnedAway::kOtherService);
  const uint32_t full = b.create(0xB1);
  ASSERT_EQ(b.bind(full, at(5000)), 0);
  ASSERT_EQ(b.listen(full, 1), 0);
  b.explained.clear();
  const uint32_t first = a.create(0xA1);
  ASSERT_EQ(a.resolve(first, at(5000)), 0);
  network.run(500ms);
  ASSERT_EQ(a.route(first), 0);
  ASSERT_EQ(a.connect(first, 0x111), 0);
  network.run(10ms);
  EXPECT_TRUE(b.explained.empty()) << "the first request fits";
  EXPECT_EQ(refusal_at(5000).turned_away, TurnedAway::kBacklogFull);
}

/// A UC request that an RC listener accepted would leave two queue pairs that do not understand each other.
TEST_F(CommandsExplained, a_listener_takes_requests_for_its_own_type_of_queue_pair) {
  struct Types {
    uint8_t listens;
    uint8_t asks;
    bool taken;
  };
  constexpr std::array kTypes{Types{IBV_QPT_RC, IBV_QPT_RC, true},  Types{IBV_QPT_UC, IBV_QPT_UC, true},
                              Types{IBV_QPT_RC, IBV_QPT_UC, false}, Types{IBV_QPT_UC, IBV_QPT_RC, false},
                              Types{IBV_QPT_RC, IBV_QPT_UD, false}, Types{IBV_QPT_UD, IBV_QPT_RC, false},
                              Types{0, IBV_QPT_UC, true},           Types{0, IBV_QPT_RC, true}};
  uint16_t port = 5000;
  for (const Types& one : kTypes) {
    SCOPED_TRACE(::testing::Message() << int{one.listens} << " asked by " << int{one.asks});
    listener = b.create(0xB0, RDMA_PS_IB, one.listens);
    ASSERT_EQ(b.bind(listener, at(++port)), 0);
    ASSERT_EQ(b.listen(listener), 0);
    b.explained.clear();
    client = a.create(0xA0, RDMA_PS_IB, one.asks);
    ASSERT_EQ(a.resolve(client, at(port)), 0);
    network.run(10ms);
    ASSERT_EQ(a.event().event, number(CmEvent::kAddressResolved));
    ASSERT_EQ(a.route(client), 0);
    ASSERT_EQ(a.event().event, number(CmEvent::kRouteResolved));
    ASSERT_EQ(a.connect(client, 0x111), 0);
    network.run(10ms);
    EXPECT_EQ(b.event().event, one.taken ? number(CmEvent::kConnectRequest) : ~0U);
    ASSERT_EQ(b.explained.size(), one.taken ? 0U : 1U);
    if (one.taken) continue;
    EXPECT_EQ(b.explained.back().turned_away, TurnedAway::kOtherQpType);
    const rdma_ucm_event_resp refused = a.event();
    EXPECT_EQ(refused.event, number(one.asks == IBV_QPT_UD ? CmEvent::kUnreachable : CmEvent::kRejected));
    EXPECT_EQ(refused.status, one.asks == IBV_QPT_UD ? uint32_t{kSidrRefused} : kRejectConsumer);
  }
}

}  // namespace
}  // namespace weft::rdma_cm
