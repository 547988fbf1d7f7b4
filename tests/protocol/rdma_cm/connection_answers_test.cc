// What the connection manager answers to messages that a test builds by hand.
#include <utility>

#include "tests/protocol/rdma_cm/connection_manager_fixture.h"

namespace weft::rdma_cm {
namespace {

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
