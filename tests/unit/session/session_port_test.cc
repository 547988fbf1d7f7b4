// QP1 of a port, shared by its sessions and its acceptor: who gets a message, and what strangers are told.
#include "session/session_port.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "adapter/adapter.h"
#include "base/clock.h"
#include "base/rng.h"
#include "tests/support/pipe_port.h"

namespace weft::session {
namespace {

using test::Pipe;

class SessionPortTest : public ::testing::Test {
 protected:
  SessionPortTest() : pipe(1024) {
    for (int i = 0; i < 2; ++i) {
      adapters[i] = std::make_unique<adapter::ChannelAdapter>(
          adapter::AdapterConfig{.guid = Guid(0x1001U + static_cast<unsigned>(i)),
                                 .number = static_cast<uint8_t>(i + 1)},
          random);
      adapters[i]->ports().attach(pipe.end(i));
    }
    ports = std::make_unique<SessionPorts>(*adapters[1]);
    peer = std::make_unique<management::MadQueuePair>(*adapters[0], uint8_t{1});
    EXPECT_TRUE(peer->open().ok());
    EXPECT_TRUE(port().open().ok());
    run();
  }
  SessionPort& port() { return ports->at(1); }
  void run() {
    for (int i = 0; i < 10; ++i) {
      for (const auto& adapter : adapters) adapter->poll(clock.now());
      clock.advance(std::chrono::microseconds(10));
    }
  }
  void say(const MadBytes& mad) {
    EXPECT_TRUE(peer->send(Lid(2), mad));
    run();
  }
  /// The messages of connection management that the peer has heard.
  std::vector<CmMad> heard() {
    run();
    std::vector<CmMad> out;
    management::MadDatagram got;
    while (peer->receive(got)) {
      CmMad mad;
      EXPECT_EQ(decode_cm(got.bytes, mad), MadError::kNone);
      out.push_back(mad);
    }
    return out;
  }

  ManualClock clock;
  SeededRandom random{3};
  Pipe pipe;
  std::unique_ptr<adapter::ChannelAdapter> adapters[2];
  std::unique_ptr<SessionPorts> ports;
  std::unique_ptr<management::MadQueuePair> peer;
};

MadBytes session_request() {
  return encode_session_mad({.kind = CmAttribute::kReq,
                             .nonce = 77,
                             .offer = {.channels = 1, .control = {.qpn = Qpn(9), .psn = Psn(1)}},
                             .labels = {.local_id = 5}});
}

TEST_F(SessionPortTest, a_port_is_made_once) {
  EXPECT_EQ(&ports->at(1), &ports->at(1));
  EXPECT_TRUE(port().open().ok()) << "an open port stays as it is";
  management::MadQueuePair second(*adapters[1], 1);
  EXPECT_FALSE(second.open().ok()) << "QP1 is taken";
}

TEST_F(SessionPortTest, each_mailbox_gets_the_messages_of_its_peer_and_the_acceptors_all) {
  SessionMailbox acceptor(port(), kLidNone);
  SessionMailbox ours(port(), Lid(1));
  SessionMailbox also_ours(port(), Lid(1));
  SessionMailbox of_another(port(), Lid(9));
  say(encode_session_mad({.kind = CmAttribute::kRtu, .nonce = 77}));
  SessionDatagram got;
  for (SessionMailbox* mailbox : {&acceptor, &ours, &also_ours}) {
    ASSERT_EQ(mailbox->receive(clock.now(), got), SessionReceive::kMessage);
    EXPECT_EQ(got.message.kind, CmAttribute::kRtu);
    EXPECT_EQ(got.message.nonce, 77U);
    EXPECT_EQ(got.lid, Lid(1));
    EXPECT_EQ(mailbox->receive(clock.now(), got), SessionReceive::kNone);
  }
  EXPECT_EQ(of_another.receive(clock.now(), got), SessionReceive::kNone);
}

TEST_F(SessionPortTest, a_mailbox_that_is_gone_gets_nothing) {
  auto first = std::make_unique<SessionMailbox>(port(), Lid(1));
  SessionMailbox second(port(), Lid(1));
  first.reset();
  say(encode_session_mad({.kind = CmAttribute::kRtu, .nonce = 77}));
  SessionDatagram got;
  EXPECT_EQ(second.receive(clock.now(), got), SessionReceive::kMessage);
}

/// As many as QP1 holds; each of them once, in order, also in the second round.
TEST_F(SessionPortTest, a_mailbox_holds_what_qp1_holds) {
  SessionMailbox collects(port(), Lid(1));
  SessionMailbox full(port(), Lid(1));
  SessionDatagram got;
  for (uint64_t round = 0; round < 2; ++round) {
    for (uint64_t i = 0; i < 70; ++i) {
      say(encode_session_mad({.kind = CmAttribute::kRtu, .nonce = round * 100 + i}));
      ASSERT_EQ(collects.receive(clock.now(), got), SessionReceive::kMessage);
    }
    for (uint64_t i = 0; i < 64; ++i) {
      ASSERT_EQ(full.receive(clock.now(), got), SessionReceive::kMessage);
      EXPECT_EQ(got.message.nonce, round * 100 + i);
    }
    EXPECT_EQ(full.receive(clock.now(), got), SessionReceive::kNone);
  }
}

TEST_F(SessionPortTest, another_service_is_refused_as_infiniband_refuses_it) {
  SessionMailbox acceptor(port(), kLidNone);
  SessionDatagram got;
  say(encode_cm({.transaction = 8, .body = CmReq{.local_id = 33, .service_id = 7, .qpn = 44}}));
  EXPECT_EQ(acceptor.receive(clock.now(), got), SessionReceive::kMalformed);
  const std::vector<CmMad> answers = heard();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0].transaction, 8U);
  const auto& rej = std::get<CmRej>(answers[0].body);
  EXPECT_EQ(rej.reason, kRejectInvalidService);
  EXPECT_EQ(rej.remote_id, 33U);
  say(session_request());
  EXPECT_EQ(acceptor.receive(clock.now(), got), SessionReceive::kMessage);
  EXPECT_TRUE(heard().empty()) << "the acceptor decides";
}

TEST_F(SessionPortTest, a_port_without_acceptor_has_no_service) {
  SessionMailbox session(port(), Lid(1));
  SessionDatagram got;
  say(session_request());
  static_cast<void>(session.receive(clock.now(), got));
  const std::vector<CmMad> answers = heard();
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(std::get<CmRej>(answers[0].body).reason, kRejectInvalidService);
}

TEST_F(SessionPortTest, what_the_port_knows_of_itself_is_in_the_request) {
  ASSERT_TRUE(port().send({.kind = CmAttribute::kReq,
                           .nonce = 77,
                           .offer = {.channels = 1, .control = {.qpn = Qpn(9), .psn = Psn(1)}}},
                          Lid(1), ServiceLevel()));
  const std::vector<CmMad> got = heard();
  ASSERT_EQ(got.size(), 1U);
  const auto& req = std::get<CmReq>(got[0].body);
  EXPECT_EQ(req.path.local_lid, 2);
  EXPECT_EQ(req.path.remote_lid, 1);
  EXPECT_NE(req.ca_guid, 0U);
}

}  // namespace
}  // namespace weft::session
