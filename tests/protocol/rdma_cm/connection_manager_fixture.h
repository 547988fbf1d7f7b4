// tests/protocol/rdma_cm/connection_manager_fixture.h -- two endnodes with connection managers in virtual
// time, over a network that may lose, double and reorder messages.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "rdma_cm/connection_manager.h"
#include "tests/support/mad_network.h"

namespace weft::rdma_cm {

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

}  // namespace weft::rdma_cm
