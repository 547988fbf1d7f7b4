// The search for the endnode of an IP address, in virtual time.
#include "rdma_cm/address_resolver.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/endian.h"
#include "tests/support/mad_network.h"

namespace weft::rdma_cm {
namespace {

constexpr uint64_t kAskersHost = 0x1234;

struct ResolverNode final : test::MadNode, AddressUser {
  ResolverNode(test::MadNetwork& network, Lid lid)
      : MadNode(network, lid),
        random(lid.value()),
        resolver(Guid(lid.value()), random, *this, *this, kAskersHost) {}
  void on_endnode(Instant now, Lid from, const EndnodeMad& mad) override { resolver.receive(now, from, mad); }
  void poll(Instant now) override { resolver.poll(now); }
  Owns owns(const MadAddress& question) noexcept override {
    if (!ips.contains(question.ip[15])) return Owns::kNo;
    if (ports.contains(question.port)) return Owns::kListens;
    return bound.contains(question.port) ? Owns::kBound : Owns::kYes;
  }
  bool held_elsewhere(const MadAddress& question) noexcept override { return held.contains(question.port); }
  void on_resolved(uint64_t question, uint32_t /*handle*/, Lid lid, Guid guid) noexcept override {
    found[question] = {lid, guid};
  }

  SeededRandom random;
  AddressResolver resolver;
  std::set<std::byte> ips;
  std::set<uint16_t> ports;  // a program listens there
  std::set<uint16_t> bound;
  std::set<uint16_t> held;  // by another endnode of the host
  std::map<uint64_t, std::pair<Lid, Guid>> found;
};

class AddressResolverTest : public ::testing::Test {
 protected:
  uint64_t ask(uint8_t ip, uint16_t port, Duration limit = 2s) {
    MadAddress address{.family = 4, .port = port};
    address.ip[15] = std::byte{ip};
    return a.resolver.ask(network.clock.now(), address, a.lid(), limit, 0);
  }
  test::MadNetwork network;
  ResolverNode a{network, Lid(1)};
  ResolverNode b{network, Lid(2)};
  ResolverNode c{network, Lid(3)};
};

TEST_F(AddressResolverTest, the_owner_answers) {
  b.ips = {std::byte{7}};
  const uint64_t question = ask(7, 80);
  network.run(400ms);
  EXPECT_EQ(a.found.at(question), std::pair(Lid(2), Guid(2)));
  EXPECT_GE(c.resolver.counters().get(AddressCounter::kNotOurs), 1U);
}

TEST_F(AddressResolverTest, of_several_owners_the_one_that_listens) {
  for (ResolverNode* node : {&a, &b, &c}) node->ips = {std::byte{7}};
  c.ports = {80};
  const uint64_t question = ask(7, 80);
  network.run(400ms);
  EXPECT_EQ(a.found.at(question).first, Lid(3));
  a.ports = {80};
  const uint64_t own = ask(7, 80);
  network.run(1ms);
  EXPECT_EQ(a.found.at(own), std::pair(Lid(1), Guid(1)));
  a.ports.clear();
  b.bound = {81};
  const uint64_t held = ask(7, 81);
  network.run(400ms);
  EXPECT_EQ(a.found.at(held).first, Lid(2)) << "a datagram socket does not listen";
  b.bound.clear();
  const uint64_t nobody = ask(7, 81);
  network.run(400ms);
  EXPECT_EQ(a.found.at(nobody).first, Lid(1)) << "our own, if no endnode listens";
}

/// One that listens may still answer, but not beyond the time that the program gives.
TEST_F(AddressResolverTest, an_answer_does_not_make_the_time_limit_longer) {
  b.ips = {std::byte{7}};
  const uint64_t question = ask(7, 80, 100ms);
  network.run(95ms);
  EXPECT_FALSE(a.found.contains(question));
  network.run(10ms);
  ASSERT_TRUE(a.found.contains(question));
  EXPECT_EQ(a.found.at(question).first, Lid(2));
}

/// After a restart of the switch the asker may join before the endnode that listens.
TEST_F(AddressResolverTest, one_that_holds_the_port_is_waited_for) {
  for (ResolverNode* node : {&a, &b}) node->ips = {std::byte{7}};
  b.ports = {80};
  a.held = {80, 81, 82};
  network.nodes.erase(2);
  const uint64_t question = ask(7, 80);
  network.run(1s);
  EXPECT_TRUE(a.found.empty());
  network.nodes[2] = &b;
  network.run(100ms);
  EXPECT_EQ(a.found.at(question), std::pair(Lid(2), Guid(2)));

  const uint64_t silent = ask(7, 81);
  network.run(1900ms);
  EXPECT_FALSE(a.found.contains(silent));
  network.run(200ms);
  EXPECT_EQ(a.found.at(silent).first, kLidNone) << "it has not answered; those that have are not meant";
  EXPECT_EQ(a.resolver.counters().get(AddressCounter::kTimeouts), 1U);

  b.bound = {82};
  const uint64_t bound = ask(7, 82);
  network.run(400ms);
  EXPECT_EQ(a.found.at(bound).first, Lid(2)) << "the one that holds it, though it does not listen";

  const uint64_t gone = ask(7, 81);
  network.run(800ms);
  EXPECT_FALSE(a.found.contains(gone));
  a.held.clear();
  network.run(400ms);
  EXPECT_EQ(a.found.at(gone).first, Lid(1)) << "no endnode holds it any more";
}

TEST_F(AddressResolverTest, an_unknown_address_times_out) {
  const uint64_t question = ask(9, 80);
  network.run(1s);
  EXPECT_TRUE(a.found.empty());
  network.run(2s);
  EXPECT_EQ(a.found.at(question).first, kLidNone);
  EXPECT_EQ(a.resolver.counters().get(AddressCounter::kTimeouts), 1U);
  EXPECT_EQ(a.resolver.deadline(), kNever);
}

/// None of ours answers so.
TEST_F(AddressResolverTest, an_answer_that_its_sender_has_not_the_address_is_none) {
  const uint64_t question = ask(9, 80);
  Has answer{.address = {.family = 4, .port = 80}};
  answer.address.guid = 2;
  answer.address.owns = static_cast<uint8_t>(Owns::kNo);
  a.resolver.receive(network.clock.now(), Lid(2), {.transaction = question, .body = answer});
  network.run(3s);
  EXPECT_EQ(a.found.at(question).first, kLidNone);
}

/// The owners of addresses are remembered, but not without end: who asks for very many begins anew.
TEST_F(AddressResolverTest, of_very_many_addresses_the_owners_are_forgotten) {
  const auto answered = [&](uint32_t ip, uint64_t host) {
    MadAddress address{.family = 4, .port = 80};
    store_be(&address.ip[12], ip);
    const uint64_t question = a.resolver.ask(network.clock.now(), address, a.lid(), 2s, 0);
    EXPECT_NE(question, 0U);
    address.host = host;
    address.owns = static_cast<uint8_t>(Owns::kListens);
    a.resolver.receive(network.clock.now(), Lid(2),
                       {.transaction = question, .body = Has{.address = address}});
    return a.found.contains(question);
  };
  ASSERT_TRUE(answered(7, 0xA));
  EXPECT_FALSE(answered(7, 0xB)) << "the one of before may still answer";
  EXPECT_TRUE(answered(7, 0xA));
  for (uint32_t i = 0; i < AddressResolver::kQuestionsMax; ++i) ASSERT_TRUE(answered(1000 + i, 0xA)) << i;
  EXPECT_TRUE(answered(7, 0xB));
}

TEST_F(AddressResolverTest, questions_and_answers_are_lost_and_doubled) {
  network.loss_ppm = 300'000;
  network.double_ppm = 300'000;
  network.disorder = 5ms;
  b.ips = {std::byte{7}};
  b.ports = {80};
  for (int i = 0; i < 50; ++i) {
    const uint64_t question = ask(7, 80);
    network.run(2s);
    ASSERT_EQ(a.found.at(question).first, Lid(2));
  }
  EXPECT_GT(a.resolver.counters().get(AddressCounter::kUnexpected), 0U);
}

/// A switch passes a limited number of datagrams to QP1, of which the endnode's connections need a share.
TEST_F(AddressResolverTest, many_questions_are_asked_less_often_and_none_is_forgotten) {
  std::vector<uint64_t> questions;
  for (int i = 0; i < 500; ++i) questions.push_back(ask(7, 80, 10s));
  const auto sent = [&] { return c.resolver.counters().get(AddressCounter::kNotOurs); };
  network.run(1s);
  EXPECT_LE(sent(), AddressResolver::kFloodsPerSecond + AddressResolver::kFloodBurst);
  const uint64_t before = sent();
  network.run(2s);
  EXPECT_LE(sent() - before, 2 * AddressResolver::kFloodsPerSecond + AddressResolver::kFloodBurst);
  EXPECT_GE(sent() - before, AddressResolver::kFloodsPerSecond) << "they are asked";
  EXPECT_GT(a.resolver.counters().get(AddressCounter::kPaced), 0U);
  b.ips = {std::byte{7}};
  network.run(6s);
  for (const uint64_t question : questions) EXPECT_EQ(a.found.count(question), 1U);
}

/// The asker has the address, too, and must not take itself before it has asked the others.
TEST_F(AddressResolverTest, many_questions_for_an_address_of_the_own_host_find_the_listener) {
  for (ResolverNode* node : {&a, &b, &c}) node->ips = {std::byte{7}};
  c.ports = {80};
  std::vector<uint64_t> questions;
  for (int i = 0; i < 400; ++i) questions.push_back(ask(7, 80, 10s));
  network.run(9s);
  for (const uint64_t question : questions) ASSERT_EQ(a.found.at(question).first, Lid(3));
}

/// All answers are sent by the port that also sends what belongs to connections.
TEST_F(AddressResolverTest, who_asks_very_often_uses_up_neither_the_port_nor_the_answers_of_others) {
  b.ips = {std::byte{7}};
  b.ports = {80};
  const auto answered = [&] { return b.resolver.counters().get(AddressCounter::kAnswered); };
  MadAddress asked{.family = 4, .port = 80};
  asked.ip[15] = std::byte{7};
  const auto flood = [&](Lid from) {
    b.resolver.receive(network.clock.now(), from, {.transaction = 1, .body = WhoHas{.address = asked}});
  };
  for (int ms = 0; ms < 1000; ++ms, network.run(1ms)) {
    for (int i = 0; i < 10; ++i) flood(Lid(9));
  }
  EXPECT_LE(answered(), AnswerRate::kToOnePerSecond + AnswerRate::kToOneBurst);
  EXPECT_GE(answered(), AnswerRate::kToOnePerSecond);
  EXPECT_GT(b.resolver.counters().get(AddressCounter::kOverRate), 0U);
  const uint64_t question = ask(7, 80);
  network.run(400ms);
  EXPECT_EQ(a.found.at(question).first, Lid(2)) << "another endnode is answered";

  const uint64_t before = answered();
  for (int ms = 0; ms < 1000; ++ms, network.run(1ms)) {
    for (uint16_t i = 0; i < 10; ++i) flood(Lid(static_cast<uint16_t>(20 + i)));
  }
  EXPECT_LE(answered() - before, AnswerRate::kPerSecond + AnswerRate::kBurst) << "whoever asks";

  // Each endnode of a host has the address, and only one of them listens.
  b.ports.clear();
  const uint64_t without = answered();
  for (int ms = 0; ms < 1000; ++ms, network.run(1ms)) {
    for (uint16_t i = 0; i < 10; ++i) flood(Lid(static_cast<uint16_t>(20 + i)));
  }
  EXPECT_LE(answered() - without, AnswerRate::kOfAddressPerSecond + AnswerRate::kOfAddressBurst);
  b.ports = {80};
  const uint64_t by_address = answered();
  flood(Lid(40));
  EXPECT_EQ(answered(), by_address + 1) << "they leave the others their share";
}

TEST_F(AddressResolverTest, a_question_may_be_forgotten) {
  b.ips = {std::byte{7}};
  a.resolver.forget(ask(7, 80));
  network.run(400ms);
  EXPECT_TRUE(a.found.empty());
  EXPECT_EQ(a.resolver.counters().get(AddressCounter::kUnexpected), 1U);
}

}  // namespace
}  // namespace weft::rdma_cm
