// The connection manager's states, in virtual time over a network that may lose, double and reorder messages.
#include <array>
#include <string>

#include "tests/protocol/rdma_cm/connection_manager_fixture.h"

namespace weft::rdma_cm {
namespace {

TEST_F(ConnectionManagerTest, a_connection_is_made_and_ended) {
  establish();
  EXPECT_EQ(a.events, Events{CmEventKind::kReply});
  EXPECT_EQ(b.events, Events{CmEventKind::kEstablished});
  EXPECT_EQ(a.active->peer_qpn, 22U);
  EXPECT_EQ(b.passive->peer_qpn, 11U);
  ASSERT_TRUE(a.manager.disconnect(network.clock.now(), *a.active));
  network.run(100ms);
  EXPECT_EQ(a.active->state, CmState::kTimewait);
  EXPECT_EQ(b.passive->state, CmState::kTimewait);
  network.run(2s);
  EXPECT_EQ(a.events, (Events{CmEventKind::kReply, CmEventKind::kDisconnected, CmEventKind::kTimewaitExit}));
  EXPECT_EQ(b.events,
            (Events{CmEventKind::kEstablished, CmEventKind::kDisconnected, CmEventKind::kTimewaitExit}));
  EXPECT_EQ(a.count(CmCounter::kRepeats) + b.count(CmCounter::kRepeats), 0U);
  end();
}

TEST_F(ConnectionManagerTest, each_message_may_be_lost_once) {
  for (const CmAttribute kind : {CmAttribute::kReq, CmAttribute::kRep, CmAttribute::kRtu}) {
    SCOPED_TRACE(to_string(kind));
    network.lose_next = {kind};
    a.events.clear();
    b.events.clear();
    establish();
    EXPECT_TRUE(network.lose_next.empty());
    EXPECT_EQ(a.events, Events{CmEventKind::kReply});
    EXPECT_EQ(b.events, Events{CmEventKind::kEstablished});
    network.lose_next = {kind == CmAttribute::kRep ? CmAttribute::kDreq : CmAttribute::kDrep};
    ASSERT_TRUE(a.manager.disconnect(network.clock.now(), *a.active));
    network.run(1s);
    EXPECT_TRUE(network.lose_next.empty());
    EXPECT_EQ(a.told(CmEventKind::kDisconnected), 1);
    EXPECT_EQ(b.told(CmEventKind::kDisconnected), 1);
    end();
  }
  EXPECT_GE(a.count(CmCounter::kRepeats), 2U);
}

TEST_F(ConnectionManagerTest, without_a_listener_a_request_is_rejected) {
  b.listens = false;
  a.connect(b.lid());
  network.run(100ms);
  EXPECT_EQ(a.events, Events{CmEventKind::kRejected});
  EXPECT_EQ(std::get<CmRej>(a.last).reason, kRejectInvalidService);
  EXPECT_EQ(b.count(CmCounter::kNoListener), 1U);
  EXPECT_EQ(b.manager.connections(), 0U);
  end();
}

/// The peer may use the number of a refused request for its next request at once.
TEST_F(ConnectionManagerTest, a_request_that_was_refused_is_forgotten) {
  b.listens = b.answers = false;
  const auto ask = [&] {
    static_cast<void>(a.send(
        b.lid(), encode_cm({.transaction = 3, .body = CmReq{.local_id = 5, .service_id = 7, .qpn = 11}})));
    network.run(10ms);
  };
  ask();
  ask();
  EXPECT_EQ(b.count(CmCounter::kNoListener), 2U);
  b.listens = true;
  ask();
  EXPECT_EQ(b.requests, 1);
  ask();
  EXPECT_EQ(b.requests, 1) << "it waits for its answer";
}

TEST_F(ConnectionManagerTest, connections_are_limited) {
  for (size_t i = 0; i < ConnectionManager::kConnectionsMax; ++i) ASSERT_NE(a.connect(b.lid()), nullptr) << i;
  Connection* last = a.active;
  EXPECT_EQ(a.connect(b.lid()), nullptr);
  EXPECT_EQ(a.count(CmCounter::kFull), 1U);
  a.manager.destroy(network.clock.now(), *last);
  EXPECT_NE(a.connect(b.lid()), nullptr) << "one was given back";
}

/// A peer that dies before it has answered the disconnect is still noticed.
TEST_F(ConnectionManagerTest, the_peer_is_watched_until_it_has_answered_the_end) {
  establish();
  ASSERT_TRUE(a.manager.disconnect(network.clock.now(), *a.active));
  EXPECT_EQ(a.active->state, CmState::kDreqSent);
  EXPECT_EQ(a.watched[b.lid()], 1);
  network.run(1s);
  EXPECT_EQ(a.watched[b.lid()], 0);
  end();
}

TEST_F(ConnectionManagerTest, a_rejection_carries_data_and_is_repeated_when_lost) {
  b.answers = false;
  a.connect(b.lid());
  network.run(10ms);
  const std::array<std::byte, 3> why{std::byte{1}, std::byte{2}, std::byte{3}};
  network.lose_next = {CmAttribute::kRej};
  ASSERT_TRUE(b.manager.reject(network.clock.now(), *b.passive, kRejectConsumer, why));
  network.run(1s);
  EXPECT_EQ(a.events, Events{CmEventKind::kRejected});
  EXPECT_EQ(std::get<CmRej>(a.last).reason, kRejectConsumer);
  EXPECT_TRUE(std::equal(why.begin(), why.end(), std::get<CmRej>(a.last).private_data.begin()));
  EXPECT_EQ(b.count(CmCounter::kAnsweredAgain), 1U);
  end();
}

TEST_F(ConnectionManagerTest, an_endnode_that_is_not_there_is_unreachable) {
  a.connect(Lid(9));
  network.run(4s);
  EXPECT_TRUE(a.events.empty());
  network.run(6s);
  EXPECT_EQ(a.events, Events{CmEventKind::kUnreachable});
  EXPECT_EQ(a.count(CmCounter::kRepeats), 7U);
  EXPECT_EQ(a.count(CmCounter::kTimeouts), 1U);
  b.passive = nullptr;
  end();
}

TEST_F(ConnectionManagerTest, a_slow_user_asks_for_time) {
  b.answers = false;
  a.connect(b.lid());
  network.run(40s);
  EXPECT_TRUE(a.events.empty()) << "the peer's manager has sent an MRA";
  EXPECT_EQ(b.requests, 1);
  EXPECT_LE(b.count(CmCounter::kAnsweredAgain), 2U);
  b.answers = true;
  network.run(1s);
  EXPECT_EQ(a.active->state, CmState::kEstablished);
  EXPECT_EQ(b.passive->state, CmState::kEstablished);
  end();
}

TEST_F(ConnectionManagerTest, both_ends_disconnect_at_the_same_time) {
  establish();
  ASSERT_TRUE(a.manager.disconnect(network.clock.now(), *a.active));
  ASSERT_TRUE(b.manager.disconnect(network.clock.now(), *b.passive));
  network.run(100ms);
  EXPECT_EQ(a.told(CmEventKind::kDisconnected), 1);
  EXPECT_EQ(b.told(CmEventKind::kDisconnected), 1);
  EXPECT_EQ(a.active->state, CmState::kTimewait);
  EXPECT_EQ(b.passive->state, CmState::kTimewait);
  end();
}

TEST_F(ConnectionManagerTest, a_peer_that_has_gone_is_given_up) {
  establish();
  network.nodes.erase(b.lid().value());
  ASSERT_TRUE(a.manager.disconnect(network.clock.now(), *a.active));
  EXPECT_FALSE(a.manager.disconnect(network.clock.now(), *a.active)) << "it asks already";
  network.run(10s);
  EXPECT_EQ(a.told(CmEventKind::kUnanswered), 1);
  EXPECT_EQ(a.told(CmEventKind::kTimewaitExit), 1);
}

TEST_F(ConnectionManagerTest, a_destroyed_connection_tells_the_peer) {
  establish();
  a.manager.destroy(network.clock.now(), *a.active);
  a.active = nullptr;
  network.run(3s);
  EXPECT_EQ(b.told(CmEventKind::kDisconnected), 1);
  EXPECT_EQ(a.manager.connections(), 0U);
  EXPECT_EQ(a.events, Events{CmEventKind::kReply});
  end();
}

TEST_F(ConnectionManagerTest, a_destroyed_request_is_rejected) {
  b.answers = false;
  a.connect(b.lid());
  network.run(10ms);
  b.manager.destroy(network.clock.now(), *b.passive);
  b.passive = nullptr;
  network.run(10ms);
  EXPECT_EQ(a.events, Events{CmEventKind::kRejected});
  end();
}

TEST_F(ConnectionManagerTest, a_stranger_cannot_end_it) {
  establish();
  ManagerNode c{network, Lid(3)};
  const CmDreq forged{
      .local_id = b.passive->local_id, .remote_id = a.active->local_id, .qpn = a.active->own_qpn};
  static_cast<void>(c.send(a.lid(), encode_cm({.body = forged})));
  network.run(100ms);
  EXPECT_EQ(a.active->state, CmState::kEstablished);
  EXPECT_EQ(a.count(CmCounter::kWrongPeer), 1U);
  static_cast<void>(c.send(a.lid(), encode_cm({.body = CmRtu{.local_id = 1, .remote_id = 2}})));
  network.run(100ms);
  EXPECT_EQ(a.count(CmCounter::kUnknown), 1U);
  end();
}

/// As after a restart of the peer's program: its messages are about a connection of before.
TEST_F(ConnectionManagerTest, a_message_names_both_numbers_of_its_connection_and_a_goodbye_its_queue_pair) {
  establish();
  const uint32_t other = b.passive->local_id + 1;
  const uint32_t own = a.active->local_id;
  for (const CmBody& body :
       {CmBody(CmDreq{.local_id = other, .remote_id = own, .qpn = a.active->own_qpn}),
        CmBody(CmDreq{.local_id = other - 1, .remote_id = own, .qpn = a.active->own_qpn + 1}),
        CmBody(CmRej{.local_id = other, .remote_id = own})})
    static_cast<void>(b.send(a.lid(), encode_cm({.body = body})));
  network.run(100ms);
  EXPECT_EQ(a.active->state, CmState::kEstablished);
  EXPECT_EQ(a.count(CmCounter::kWrongPeer), 3U);
  end();
}

/// A disconnect of an unknown connection is granted, so that the peer need not repeat it.
TEST_F(ConnectionManagerTest, the_end_of_an_unknown_connection_is_granted) {
  static_cast<void>(b.send(a.lid(), encode_cm({.body = CmDreq{.local_id = 9, .remote_id = 10, .qpn = 11}})));
  network.run(100ms);
  EXPECT_EQ(a.count(CmCounter::kUnknown), 1U);
  EXPECT_EQ(b.count(CmCounter::kReceived), 1U) << "the DREP";
}

TEST_F(ConnectionManagerTest, a_datagram_service_is_asked_for) {
  network.lose_next = {CmAttribute::kSidrReq, CmAttribute::kSidrRep};
  a.ask_for_service(b.lid());
  network.run(1s);
  EXPECT_EQ(a.events, Events{CmEventKind::kSidrReply});
  EXPECT_EQ(std::get<CmSidrRep>(a.last).qpn, 77U);
  EXPECT_EQ(std::get<CmSidrRep>(a.last).status, kSidrValid);
  EXPECT_EQ(b.requests, 1);
  EXPECT_TRUE(b.events.empty());
  end();
  b.passive = nullptr;
  b.listens = false;
  a.ask_for_service(b.lid());
  network.run(1s);
  EXPECT_EQ(std::get<CmSidrRep>(a.last).status, kSidrNoService);
  end();
}

/// Under any behaviour of the network each connection is established once at both ends and ends once.
TEST_F(ConnectionManagerTest, any_network) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    test::MadNetwork wild(seed);
    wild.loss_ppm = 150'000;
    wild.double_ppm = 200'000;
    wild.disorder = 30ms;
    std::vector<std::unique_ptr<ManagerNode>> nodes;
    for (uint16_t lid = 1; lid <= 4; ++lid) nodes.push_back(std::make_unique<ManagerNode>(wild, Lid(lid)));
    for (auto& node : nodes) node->connect(Lid(static_cast<uint16_t>(node->lid().value() % 4 + 1)));
    wild.run(20s);
    for (auto& node : nodes) {
      EXPECT_EQ(node->told(CmEventKind::kReply), 1);
      EXPECT_EQ(node->told(CmEventKind::kEstablished), 1);
      EXPECT_EQ(node->requests, 1);
      EXPECT_TRUE(node->manager.disconnect(wild.clock.now(), *node->active));
    }
    wild.run(20s);
    for (auto& node : nodes) {
      EXPECT_EQ(node->told(CmEventKind::kDisconnected), 2);
      node->manager.destroy(wild.clock.now(), *node->active);
      node->manager.destroy(wild.clock.now(), *node->passive);
      EXPECT_EQ(node->manager.connections(), 0U);
    }
  }
}

TEST_F(ConnectionManagerTest, a_connection_ends_with_the_process_of_its_peer) {
  establish();
  EXPECT_EQ(a.watched[b.lid()], 1);
  EXPECT_EQ(b.watched[a.lid()], 1);
  network.nodes.erase(1);
  b.manager.peer_has_gone(network.clock.now(), Lid(3));
  EXPECT_EQ(b.told(CmEventKind::kDisconnected), 0) << "another peer has gone";
  b.manager.peer_has_gone(network.clock.now(), a.lid());
  EXPECT_EQ(b.told(CmEventKind::kDisconnected), 1);
  EXPECT_EQ(b.watched[a.lid()], 0);
  EXPECT_EQ(b.dead_qps, std::vector<uint32_t>{22});
  network.run(2s);
  EXPECT_EQ(b.told(CmEventKind::kTimewaitExit), 1);
  EXPECT_EQ(b.count(CmCounter::kRepeats), 0U) << "a peer that has gone gets no DREQ";
  EXPECT_EQ(b.count(CmCounter::kPeersGone), 1U);
  b.manager.destroy(network.clock.now(), *b.passive);
  EXPECT_EQ(b.manager.connections(), 0U);
}

TEST_F(ConnectionManagerTest, a_new_process_with_the_lid_has_none_of_the_old_connections) {
  establish();
  Connection* const old = b.passive;
  b.manager.peer_is(network.clock.now(), a.lid(), 5);
  b.manager.peer_is(network.clock.now(), a.lid(), 5);
  EXPECT_EQ(old->state, CmState::kEstablished);
  establish();
  ASSERT_NE(b.passive, old);
  b.manager.peer_is(network.clock.now(), a.lid(), 6);
  EXPECT_EQ(old->state, CmState::kTimewait);
  EXPECT_EQ(b.passive->state, CmState::kEstablished) << "its peer's process was not known yet";
  b.manager.peer_is(network.clock.now(), a.lid(), 7);
  EXPECT_EQ(b.passive->state, CmState::kTimewait);
}

}  // namespace
}  // namespace weft::rdma_cm
