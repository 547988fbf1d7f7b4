// What it costs to hear of a peer: it must not grow with the connections that others have.
#include <memory>
#include <vector>

#include "tests/protocol/rdma_cm/commands_fixture.h"

namespace weft::rdma_cm {
namespace {

/// `b` serves many endnodes with one connection each, and one endnode with many connections.
class PeerCost : public CommandsTest {
 protected:
  static constexpr uint16_t kPeers = 40;
  void SetUp() override {
    listener = b.create(0xB0);
    address_ = b.own(4);
    address_.port = 5000;
    ASSERT_EQ(b.bind(listener, address_), 0);
    ASSERT_EQ(b.listen(listener, 1000), 0);
  }
  void connect(Node& from) {
    const uint32_t id = from.create(0xA0);
    EXPECT_EQ(from.resolve(id, address_), 0);
    network.run(10ms);
    EXPECT_EQ(from.event().event, number(CmEvent::kAddressResolved));
    EXPECT_EQ(from.route(id), 0);
    EXPECT_EQ(from.event().event, number(CmEvent::kRouteResolved));
    EXPECT_EQ(from.connect(id, 0x111), 0);
    network.run(10ms);
    const rdma_ucm_event_resp request = b.event();
    EXPECT_EQ(request.event, number(CmEvent::kConnectRequest));
    EXPECT_EQ(b.accept(request.id, 0xB1, Node::param(0x222)), 0);
    network.run(10ms);
    EXPECT_EQ(from.event().event, number(CmEvent::kConnectResponse));
    EXPECT_EQ(from.accept(id, 0, {}), 0);
    network.run(10ms);
    EXPECT_EQ(b.event().event, number(CmEvent::kEstablished));
  }
  /// Lets the watch hear of every peer. @return connections that `b` looked at
  uint64_t looks(Duration time = 2s) {
    const uint64_t before = b.endnode.manager().counters().get(CmCounter::kPeerLooks);
    network.run(time);
    return b.endnode.manager().counters().get(CmCounter::kPeerLooks) - before;
  }
  IpAddress address_;
};

TEST_F(PeerCost, of_many_endnodes_each_costs_a_look_at_its_own_connections) {
  std::vector<std::unique_ptr<Node>> peers;
  for (uint16_t i = 0; i < kPeers; ++i) {
    peers.push_back(std::make_unique<Node>(network, Lid(static_cast<uint16_t>(100 + i))));
    connect(*peers.back());
    EXPECT_LE(looks(), 2U);
  }
  EXPECT_GE(b.endnode.manager().counters().get(CmCounter::kPeerLooks), kPeers) << "each was heard of";
  EXPECT_EQ(looks(10s), 0U) << "nothing is new";

  network.nodes.erase(100);
  b.knows_of[100] = Presence::kEnded;
  EXPECT_EQ(looks(3s), 1U) << "the connection of the one that has ended";
  EXPECT_EQ(b.event().event, number(CmEvent::kDisconnected));
  EXPECT_EQ(b.event().event, number(CmEvent::kTimewaitExit));
  EXPECT_EQ(b.event().event, ~0U) << "the others are there";
}

TEST_F(PeerCost, of_many_connections_of_one_endnode_only_the_new_ones_are_looked_at) {
  for (uint16_t i = 0; i < kPeers; ++i) {
    connect(a);
    EXPECT_LE(looks(), 2U) << "the new one, and one that shows that the rest is known";
  }
  network.nodes.erase(1);
  b.knows_of[1] = Presence::kEnded;
  EXPECT_EQ(looks(), kPeers) << "each ends";
  int ended = 0;
  for (rdma_ucm_event_resp event = b.event(); event.event != ~0U; event = b.event())
    ended += event.event == number(CmEvent::kDisconnected) ? 1 : 0;
  EXPECT_EQ(ended, kPeers);
  EXPECT_EQ(b.endnode.watch().deadline(), kNever);
}

}  // namespace
}  // namespace weft::rdma_cm
