// The connection manager's states, in virtual time over a network that may lose, double and reorder messages.
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

/// An endnode whose user records its events, and answers when the test says so, or at once if `answers`.
struct ManagerNode final : test::MadNode, CmUser {
  ManagerNode(test::MadNetwork& network, Lid lid)
      : MadNode(network, lid), random(lid.value()), manager(random, *this, *this), clock(network.clock) {}

  void on_cm(Instant now, Lid from, const CmMad& mad) override {
    manager.receive(now, from, mad);
    act(now);
  }
  void poll(Instant now) override {
    manager.poll(now);
    act(now);
  }
  /// What a program does after it has read the events.
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
  uint64_t transaction_of(CmAttribute /*request*/, uint32_t /*local_id*/) noexcept override {
    return random.next();
  }
  RequestAnswer on_request(Connection& connection, const CmReq& req) noexcept override {
    return take(connection, req);
  }
  RequestAnswer on_sidr_request(Connection& connection, const CmSidrReq& req) noexcept override {
    return take(connection, req);
  }
  RequestAnswer take(Connection& connection, const CmBody& request) {
    if (!listens) return RequestAnswer::kNoListener;
    connection.user = this;
    passive = &connection;
    last = request;
    ++requests;
    asked.push_back(&connection);
    return RequestAnswer::kTaken;
  }
  void on_event(Connection& connection, CmEventKind kind, const CmBody& message) noexcept override {
    events.push_back(kind);
    last = message;
    if (kind == CmEventKind::kReply) replied.push_back(&connection);
    if (kind == CmEventKind::kDisconnected) left.push_back(&connection);
  }
  bool on_watch(Lid peer, bool wanted) noexcept override {
    watched[peer] += wanted ? 1 : -1;
    return true;
  }
  void on_dead_qp(uint32_t qpn) noexcept override { dead_qps.push_back(qpn); }
  Connection* connect(Lid to) {
    active = manager.request(clock.now(), to, CmReq{.service_id = 7, .qpn = 11}, this);
    return active;
  }
  Connection* ask_for_service(Lid to) {
    active = manager.request(clock.now(), to, CmSidrReq{.service_id = 7}, this);
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
  CmBody last;
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
  /// Both ends destroy their connection, and no state remains.
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
  ManagerNode a{network, Lid(1)};
  ManagerNode b{network, Lid(2)};
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

/// An endnode whose messages the test builds by hand.
struct Wire final : test::MadNode {
  using MadNode::MadNode;
  void on_cm(Instant /*now*/, Lid /*from*/, const CmMad& mad) override { got.push_back(mad); }
  void poll(Instant /*now*/) override {}
  void say(Lid to, const CmMad& mad) { static_cast<void>(send(to, encode_cm(mad))); }
  /// @return the last message, which must be of this kind
  template <class Message>
  Message heard() const {
    const auto* message = got.empty() ? nullptr : std::get_if<Message>(&got.back().body);
    EXPECT_NE(message, nullptr);
    return message != nullptr ? *message : Message{};
  }

  std::vector<CmMad> got;
};

/// The asker tells a repetition from a new question by the transaction, so an answer carries the question's.
TEST_F(ConnectionManagerTest, each_goodbye_is_answered_under_its_own_transaction) {
  Wire c{network, Lid(3)};
  c.say(a.lid(), {.transaction = 1, .body = CmReq{.local_id = 33, .service_id = 7, .qpn = 44}});
  network.run(10ms);
  const uint32_t theirs = c.heard<CmRep>().local_id;
  c.say(a.lid(), {.transaction = 1, .body = CmRtu{.local_id = 33, .remote_id = theirs}});
  network.run(10ms);
  ASSERT_EQ(a.passive->state, CmState::kEstablished);
  ASSERT_TRUE(a.manager.disconnect(network.clock.now(), *a.passive));
  network.run(10ms);
  static_cast<void>(c.heard<CmDreq>());
  for (const uint64_t transaction : {71U, 72U}) {  // while it asks itself, and in timewait
    c.say(a.lid(), {.transaction = transaction,
                    .body = CmDreq{.local_id = 33, .remote_id = theirs, .qpn = a.passive->own_qpn}});
    network.run(10ms);
    static_cast<void>(c.heard<CmDrep>());
    EXPECT_EQ(c.got.back().transaction, transaction);
    EXPECT_EQ(a.passive->state, CmState::kTimewait);
  }
}

TEST_F(ConnectionManagerTest, a_rejection_says_which_message_it_is_about) {
  Wire c{network, Lid(3)};
  a.answers = false;
  const auto reject = [&](Connection& connection) {
    EXPECT_TRUE(a.manager.reject(network.clock.now(), connection, 5, {}));
    network.run(10ms);
    EXPECT_EQ(c.heard<CmRej>().reason, 5U);
    return c.heard<CmRej>().about;
  };
  const auto request = [&](uint32_t id) {
    c.say(a.lid(), {.transaction = 1, .body = CmReq{.local_id = id, .service_id = 7, .qpn = 44}});
    network.run(10ms);
  };
  request(33);
  EXPECT_EQ(reject(*a.passive), kAboutReq);
  request(34);
  ASSERT_TRUE(a.manager.accept(network.clock.now(), *a.passive, {.qpn = 22}));
  EXPECT_EQ(reject(*a.passive), kAboutNone);
  a.connect(c.lid());
  network.run(10ms);
  c.say(a.lid(), {.transaction = c.got.back().transaction,
                  .body = CmRep{.local_id = 35, .remote_id = c.heard<CmReq>().local_id, .qpn = 45}});
  network.run(10ms);
  ASSERT_EQ(a.active->state, CmState::kRepReceived);
  EXPECT_EQ(reject(*a.active), kAboutRep);
}

TEST_F(ConnectionManagerTest, after_the_peers_data_nothing_waits_for_its_last_word) {
  a.answers = false;  // so no RTU follows
  a.connect(b.lid());
  network.run(10ms);
  ASSERT_EQ(b.passive->state, CmState::kRepSent);
  ASSERT_TRUE(b.manager.peer_is_there(*b.passive));
  EXPECT_EQ(b.passive->state, CmState::kEstablished);
  EXPECT_EQ(b.watched[a.lid()], 1);
  EXPECT_EQ(b.manager.deadline(), kNever);
  EXPECT_FALSE(b.manager.peer_is_there(*b.passive)) << "once";
  network.run(20s);
  EXPECT_TRUE(b.events.empty());
  EXPECT_EQ(b.passive->state, CmState::kEstablished);
}

TEST_F(ConnectionManagerTest, a_request_that_is_given_up_is_not_watched_any_more) {
  b.answers = false;
  a.connect(b.lid());
  network.run(3s);
  ASSERT_EQ(a.watched[b.lid()], 1) << "an MRA came";
  a.manager.destroy(network.clock.now(), *a.active);
  EXPECT_EQ(a.watched[b.lid()], 0);
  EXPECT_EQ(a.manager.connections(), 0U);
  EXPECT_EQ(a.manager.deadline(), kNever);
}

/// A message can ask for up to 2.4 hours.
TEST_F(ConnectionManagerTest, a_peer_is_not_granted_more_time_than_we_would_ask_for) {
  Wire c{network, Lid(3)};
  a.connect(c.lid());
  network.run(10ms);
  const CmMad request = c.got.back();
  const Instant asked = network.clock.now();
  c.say(a.lid(), {.transaction = request.transaction,
                  .body = CmMra{.local_id = 33,
                                .remote_id = c.heard<CmReq>().local_id,
                                .about = kAboutReq,
                                .service_timeout = 31}});
  network.run(10ms);
  const CmTimes times;
  EXPECT_GE(a.manager.deadline(), asked + times.patience + times.response);
  EXPECT_LE(a.manager.deadline(), asked + times.patience + 1s);
}

/// Otherwise one unrequested MRA a minute would keep a program in rdma_connect() for ever.
TEST_F(ConnectionManagerTest, a_peer_that_keeps_asking_for_time_is_given_up_all_the_same) {
  Wire c{network, Lid(3)};
  a.connect(c.lid());
  network.run(10ms);
  const CmMad wait{
      .transaction = c.got.back().transaction,
      .body = CmMra{
          .local_id = 33, .remote_id = c.heard<CmReq>().local_id, .about = kAboutReq, .service_timeout = 31}};
  const CmTimes times;
  const Instant first = network.clock.now();
  c.say(a.lid(), wait);
  network.run(10ms);
  const Instant deadline = a.manager.deadline();
  EXPECT_GE(deadline, first + times.patience);
  c.say(a.lid(), wait);
  network.run(10ms);
  EXPECT_EQ(a.manager.deadline(), deadline) << "the second about the same message";
  EXPECT_EQ(a.count(CmCounter::kWrongState), 1U);
  while (a.events.empty() && network.clock.now() < first + 20min) {
    c.say(a.lid(), wait);
    network.run(100ms);
  }
  EXPECT_EQ(a.events, Events{CmEventKind::kUnreachable});
  EXPECT_GT(network.clock.now(), first + 8 * times.patience) << "each repeat was waited for";
  EXPECT_LT(network.clock.now(), first + 8 * times.patience + 30s);
}

TEST_F(ConnectionManagerTest, a_reply_that_comes_again_is_answered_again) {
  network.lose_next = {CmAttribute::kRtu};
  establish();
  EXPECT_EQ(a.count(CmCounter::kAnsweredAgain), 1U);
  EXPECT_EQ(a.count(CmCounter::kWrongState), 0U);
  end();
}

TEST_F(ConnectionManagerTest, a_question_for_a_datagram_service_is_forgotten_when_its_user_has_gone) {
  b.answers = false;
  a.ask_for_service(b.lid());
  network.run(10ms);
  ASSERT_NE(b.passive, nullptr);
  b.manager.destroy(network.clock.now(), *std::exchange(b.passive, nullptr));
  network.run(10ms);
  EXPECT_EQ(a.events, Events{CmEventKind::kSidrReply});
  EXPECT_EQ(b.manager.connections(), 1U) << "it answers once more if the question comes again";
  network.run(10s);
  EXPECT_EQ(b.manager.connections(), 0U);
  end();
}

TEST_F(ConnectionManagerTest, the_end_of_a_peer_that_sent_an_mra_is_noticed) {
  b.answers = false;
  a.connect(b.lid());
  network.run(3s);
  ASSERT_EQ(a.active->state, CmState::kReqSent);
  ASSERT_EQ(a.watched[b.lid()], 1) << "an MRA came";
  a.manager.peer_has_gone(network.clock.now(), b.lid());
  EXPECT_EQ(a.told(CmEventKind::kUnreachable), 1);
  EXPECT_EQ(a.active->state, CmState::kClosed);
}

/// The program still holds an identifier whose connection is over. Its peer would repeat its message for
/// seconds otherwise.
TEST_F(ConnectionManagerTest, a_connection_that_is_over_answers_like_an_unknown_one) {
  Wire c{network, Lid(3)};
  a.connect(c.lid());
  network.run(10ms);
  const CmReq req = c.heard<CmReq>();
  c.say(a.lid(), {.body = CmRej{.remote_id = req.local_id, .about = kAboutReq, .reason = kRejectConsumer}});
  c.say(a.lid(), {.transaction = 5, .body = CmRep{.local_id = 33, .remote_id = req.local_id, .qpn = 22}});
  network.run(10ms);
  EXPECT_EQ(c.heard<CmRej>().reason, kRejectInvalidId);
  EXPECT_EQ(c.heard<CmRej>().remote_id, 33U);
  c.say(a.lid(), {.transaction = 6, .body = CmDreq{.local_id = 33, .remote_id = req.local_id, .qpn = 11}});
  network.run(10ms);
  EXPECT_EQ(c.heard<CmDrep>().remote_id, 33U);
  EXPECT_EQ(c.got.back().transaction, 6U);
  EXPECT_EQ(a.events, Events{CmEventKind::kRejected});
}

/// The first answer was lost, and the connection is over when the request comes again.
TEST_F(ConnectionManagerTest, a_request_of_a_connection_that_is_over_is_rejected) {
  Wire c{network, Lid(3)};
  a.answers = false;
  const CmMad request{.transaction = 8, .body = CmReq{.local_id = 33, .service_id = 7, .qpn = 22}};
  c.say(a.lid(), request);
  network.run(10ms);
  ASSERT_TRUE(a.manager.reject(network.clock.now(), *a.passive, kRejectConsumer, {}));
  network.run(30s);
  c.got.clear();
  c.say(a.lid(), request);
  network.run(10ms);
  EXPECT_EQ(c.heard<CmRej>().reason, kRejectStaleConnection);
  EXPECT_EQ(c.heard<CmRej>().remote_id, 33U);
  EXPECT_EQ(a.requests, 1);
}

}  // namespace
}  // namespace weft::rdma_cm
