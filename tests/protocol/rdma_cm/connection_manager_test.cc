// The communication manager's states, in virtual time over a network that may lose, double and reorder.
#include "rdma_cm/connection_manager.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/mad_network.h"

namespace weft::rdma_cm {
namespace {

/// An endnode whose user notes what it is told and answers when the test, or `answers`, says so.
struct Node final : test::MadNode, CmUser {
  Node(test::MadNetwork& network, Lid lid)
      : MadNode(network, lid), random(lid.value()), manager(random, *this, *this), clock(network.clock) {}

  void receive(Instant now, Lid from, const CmMad& mad) override {
    manager.receive(now, from, mad);
    act(now);
  }
  void poll(Instant now) override {
    manager.poll(now);
    act(now);
  }
  /// What a program does when it has read the events.
  void act(Instant now) {
    if (!answers) return;
    for (Connection* c : std::exchange(asked, {})) {
      const bool done =
          c->datagrams ? manager.answer(now, *c, {.qpn = 77}) : manager.accept(now, *c, {.qpn = 22});
      EXPECT_TRUE(done);
    }
    for (Connection* c : std::exchange(replied, {})) EXPECT_TRUE(manager.establish(now, *c));
    for (Connection* c : std::exchange(left, {})) {
      if (c->state == CmState::kDreqReceived) {
        EXPECT_TRUE(manager.disconnect(now, *c));
      }
    }
  }
  bool on_request(Connection& connection, const CmMad& mad) noexcept override {
    if (!listens) return false;
    connection.user = this;
    passive = &connection;
    last = mad;
    ++requests;
    asked.push_back(&connection);
    return true;
  }
  void on_event(Connection& connection, CmEventKind kind, const CmMad& mad) noexcept override {
    events.push_back(kind);
    last = mad;
    if (kind == CmEventKind::kReply) replied.push_back(&connection);
    if (kind == CmEventKind::kDisconnected) left.push_back(&connection);
  }
  void on_watch(Lid peer, bool wanted) noexcept override { watched[peer] += wanted ? 1 : -1; }
  void on_dead_qp(uint32_t qpn) noexcept override { dead_qps.push_back(qpn); }
  Connection* connect(Lid to, MadKind kind = MadKind::kReq) {
    active = manager.request(clock.now(), to, {.kind = kind, .service_id = 7, .qpn = 11}, this);
    return active;
  }
  uint64_t count(CmCounter counter) { return manager.counters().get(counter); }
  long told(CmEventKind kind) const { return std::count(events.begin(), events.end(), kind); }

  SeededRandom random;
  ConnectionManager manager;
  ManualClock& clock;
  bool listens = true;
  bool answers = true;
  int requests = 0;
  CmMad last;
  std::map<Lid, int> watched;
  std::vector<uint32_t> dead_qps;
  Connection* active = nullptr;
  Connection* passive = nullptr;
  std::vector<CmEventKind> events;
  std::vector<Connection*> asked;
  std::vector<Connection*> replied;
  std::vector<Connection*> left;
};

class ConnectionManagerTest : public ::testing::Test {
 protected:
  void establish() {
    a.connect(b.lid());
    network.run(5s);
    ASSERT_EQ(a.active->state, CmState::kEstablished);
    ASSERT_EQ(b.passive->state, CmState::kEstablished);
  }
  /// Both ends destroy, and nothing stays behind.
  void end() {
    if (a.active != nullptr) a.manager.destroy(network.clock.now(), *a.active);
    network.run(3s);
    if (b.passive != nullptr) b.manager.destroy(network.clock.now(), *b.passive);
    network.run(30s);
    EXPECT_EQ(a.manager.connections(), 0U);
    EXPECT_EQ(b.manager.connections(), 0U);
    EXPECT_EQ(network.malformed, 0);
    EXPECT_EQ(a.watched[b.lid()] + b.watched[a.lid()], 0);
  }
  using Events = std::vector<CmEventKind>;

  test::MadNetwork network;
  Node a{network, Lid(1)};
  Node b{network, Lid(2)};
};

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
  for (const MadKind kind : {MadKind::kReq, MadKind::kRep, MadKind::kRtu}) {
    SCOPED_TRACE(to_string(kind));
    network.lose_next = {kind};
    a.events.clear();
    b.events.clear();
    establish();
    EXPECT_TRUE(network.lose_next.empty());
    EXPECT_EQ(a.events, Events{CmEventKind::kReply});
    EXPECT_EQ(b.events, Events{CmEventKind::kEstablished});
    network.lose_next = {kind == MadKind::kRep ? MadKind::kDreq : MadKind::kDrep};
    ASSERT_TRUE(a.manager.disconnect(network.clock.now(), *a.active));
    network.run(1s);
    EXPECT_TRUE(network.lose_next.empty());
    EXPECT_EQ(a.told(CmEventKind::kDisconnected), 1);
    EXPECT_EQ(b.told(CmEventKind::kDisconnected), 1);
    end();
  }
  EXPECT_GE(a.count(CmCounter::kRepeats), 2U);
}

TEST_F(ConnectionManagerTest, nobody_listens) {
  b.listens = false;
  a.connect(b.lid());
  network.run(100ms);
  EXPECT_EQ(a.events, Events{CmEventKind::kRejected});
  EXPECT_EQ(a.last.reason, kRejectInvalidService);
  EXPECT_EQ(b.count(CmCounter::kNoListener), 1U);
  EXPECT_EQ(b.manager.connections(), 0U);
  end();
}

TEST_F(ConnectionManagerTest, a_rejection_carries_data_and_is_repeated_when_lost) {
  b.answers = false;
  a.connect(b.lid());
  network.run(10ms);
  const std::array<std::byte, 3> why{std::byte{1}, std::byte{2}, std::byte{3}};
  network.lose_next = {MadKind::kRej};
  ASSERT_TRUE(b.manager.reject(network.clock.now(), *b.passive, kRejectConsumer, why));
  network.run(1s);
  EXPECT_EQ(a.events, Events{CmEventKind::kRejected});
  EXPECT_EQ(a.last.reason, kRejectConsumer);
  EXPECT_TRUE(std::equal(why.begin(), why.end(), a.last.private_data.begin()));
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
  EXPECT_TRUE(a.events.empty()) << "the peer's manager has answered that somebody is thinking";
  EXPECT_EQ(b.requests, 1);
  EXPECT_LE(b.count(CmCounter::kAnsweredAgain), 2U);
  b.answers = true;
  network.run(1s);
  EXPECT_EQ(a.active->state, CmState::kEstablished);
  EXPECT_EQ(b.passive->state, CmState::kEstablished);
  end();
}

TEST_F(ConnectionManagerTest, both_end_it_at_once) {
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
  Node c{network, Lid(3)};
  const CmMad forged{.kind = MadKind::kDreq,
                     .local_id = b.passive->local_id,
                     .remote_id = a.active->local_id,
                     .qpn = a.active->own_qpn};
  static_cast<void>(c.send(a.lid(), encode_mad(forged)));
  network.run(100ms);
  EXPECT_EQ(a.active->state, CmState::kEstablished);
  EXPECT_EQ(a.count(CmCounter::kWrongPeer), 1U);
  static_cast<void>(c.send(a.lid(), encode_mad({.kind = MadKind::kRtu, .local_id = 1, .remote_id = 2})));
  network.run(100ms);
  EXPECT_EQ(a.count(CmCounter::kUnknown), 1U);
  end();
}

/// Whoever asks for the end of what is not there need not ask again.
TEST_F(ConnectionManagerTest, the_end_of_an_unknown_connection_is_granted) {
  static_cast<void>(
      b.send(a.lid(), encode_mad({.kind = MadKind::kDreq, .local_id = 9, .remote_id = 10, .qpn = 11})));
  network.run(100ms);
  EXPECT_EQ(a.count(CmCounter::kUnknown), 1U);
  EXPECT_EQ(b.count(CmCounter::kReceived), 1U) << "the DREP";
}

TEST_F(ConnectionManagerTest, a_datagram_service_is_asked_for) {
  network.lose_next = {MadKind::kSidrReq, MadKind::kSidrRep};
  a.connect(b.lid(), MadKind::kSidrReq);
  network.run(1s);
  EXPECT_EQ(a.events, Events{CmEventKind::kSidrReply});
  EXPECT_EQ(a.last.qpn, 77U);
  EXPECT_EQ(a.last.status, kSidrValid);
  EXPECT_EQ(b.requests, 1);
  EXPECT_TRUE(b.events.empty());
  end();
  b.passive = nullptr;
  b.listens = false;
  a.connect(b.lid(), MadKind::kSidrReq);
  network.run(1s);
  EXPECT_EQ(a.last.status, kSidrNoService);
  end();
}

/// Whatever the network does: every connection comes about once at both ends, and ends once.
TEST_F(ConnectionManagerTest, any_network) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    test::MadNetwork wild(seed);
    wild.loss_ppm = 150'000;
    wild.double_ppm = 200'000;
    wild.disorder = 30ms;
    std::vector<std::unique_ptr<Node>> nodes;
    for (uint16_t lid = 1; lid <= 4; ++lid) nodes.push_back(std::make_unique<Node>(wild, Lid(lid)));
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
  EXPECT_EQ(b.told(CmEventKind::kDisconnected), 0) << "that was somebody else";
  b.manager.peer_has_gone(network.clock.now(), a.lid());
  EXPECT_EQ(b.told(CmEventKind::kDisconnected), 1);
  EXPECT_EQ(b.watched[a.lid()], 0);
  EXPECT_EQ(b.dead_qps, std::vector<uint32_t>{22});
  network.run(2s);
  EXPECT_EQ(b.told(CmEventKind::kTimewaitExit), 1);
  EXPECT_EQ(b.count(CmCounter::kRepeats), 0U) << "nobody is left to say goodbye to";
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
  EXPECT_EQ(b.passive->state, CmState::kEstablished) << "nobody knew yet whose it was";
  b.manager.peer_is(network.clock.now(), a.lid(), 7);
  EXPECT_EQ(b.passive->state, CmState::kTimewait);
}

TEST_F(ConnectionManagerTest, who_asks_for_patience_may_not_end_meanwhile) {
  b.answers = false;
  a.connect(b.lid());
  network.run(3s);
  ASSERT_EQ(a.active->state, CmState::kReqSent);
  ASSERT_EQ(a.watched[b.lid()], 1) << "an MRA came";
  a.manager.peer_has_gone(network.clock.now(), b.lid());
  EXPECT_EQ(a.told(CmEventKind::kUnreachable), 1);
  EXPECT_EQ(a.active->state, CmState::kClosed);
}

}  // namespace
}  // namespace weft::rdma_cm
