// Which endnode may claim an IP address, with a stranger that answers every question.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "rdma_cm/address_resolver.h"
#include "rdma_cm/node_addresses.h"
#include "tests/support/mad_network.h"

namespace weft::rdma_cm {
namespace {

constexpr uint16_t kPort = 7471;
constexpr Lid kStranger(2);  // is asked first and answers first

IpAddress address_of(const MadAddress& question) {
  return {.family = question.family, .ip = question.ip};
}

/// An endnode with addresses; it listens at all of them if `listens`.
struct AddressOwnerNode final : test::MadNode, AddressUser {
  AddressOwnerNode(test::MadNetwork& network, Lid lid, uint64_t on_host)
      : MadNode(network, lid),
        host(on_host),
        random(lid.value()),
        resolver(Guid(lid.value()), random, *this, *this, on_host) {}
  void on_endnode(Instant now, Lid from, const EndnodeMad& mad) override { resolver.receive(now, from, mad); }
  void poll(Instant now) override { resolver.poll(now); }
  Owns owns(const MadAddress& question) noexcept override {
    const IpAddress address = address_of(question);
    const bool local = address.is_loopback() && question.host == host;
    for (const IpAddress& one : has) {
      if (!local && !one.same_ip(address)) continue;
      return listens ? Owns::kListens : Owns::kYes;
    }
    return Owns::kNo;
  }
  bool held_elsewhere(const MadAddress& /*question*/) noexcept override { return false; }
  void on_resolved(uint64_t question, uint32_t /*handle*/, Lid lid, Guid /*guid*/) noexcept override {
    found[question] = lid;
  }

  uint64_t host;
  SeededRandom random;
  AddressResolver resolver;
  std::vector<IpAddress> has;
  bool listens = true;
  std::map<uint64_t, Lid> found;
};

/// Claims to listen at every address, and uses marks that were given to others.
struct Stranger final : test::MadNode {
  using MadNode::MadNode;
  void on_endnode(Instant /*now*/, Lid from, const EndnodeMad& mad) override {
    if (const auto* has = std::get_if<Has>(&mad.body)) stolen = has->address.host;
    const auto* asked = std::get_if<WhoHas>(&mad.body);
    if (asked == nullptr) return;
    question = *asked;
    Has answer{.address = asked->address};
    answer.address.owns = static_cast<uint8_t>(Owns::kListens);
    answer.address.guid = 0xBAD;
    if (stolen != 0) answer.address.host = stolen;
    static_cast<void>(send(from, encode_endnode({.transaction = mad.transaction, .body = answer})));
  }
  void poll(Instant /*now*/) override {}

  WhoHas question;
  uint64_t stolen = 0;
};

class AddressOwner : public ::testing::Test {
 protected:
  /// @return the endnode that `asker` finds at the address; kLidNone: none; nothing: no result after the
  ///   time limit
  std::optional<Lid> ask(const IpAddress& address) {
    const MadAddress question{
        .host = asker.host, .ip = address.ip, .family = address.family, .port_space = 0x106, .port = kPort};
    const uint64_t number = asker.resolver.ask(network.clock.now(), question, asker.lid(), 2s, 0);
    network.run(2100ms);
    const auto found = asker.found.find(number);
    return found != asker.found.end() ? std::optional(found->second) : std::nullopt;
  }
  uint64_t not_owner() { return asker.resolver.counters().get(AddressCounter::kNotOwner); }

  test::MadNetwork network;
  AddressOwnerNode asker{network, Lid(3), 1111};
  Stranger stranger{network, kStranger};
  const IpAddress far = make_ipv4(0xC0A80001);  // 192.168.0.1
};

TEST_F(AddressOwner, a_loopback_address_is_an_endnode_of_the_askers_host) {
  EXPECT_EQ(ask(loopback(4)), kLidNone);
  EXPECT_EQ(ask(loopback(6)), kLidNone);
  EXPECT_GE(not_owner(), 2U);
  AddressOwnerNode neighbour{network, Lid(4), 1111};
  neighbour.has = {far};
  AddressOwnerNode elsewhere{network, Lid(5), 2222};
  elsewhere.has = {far};
  EXPECT_EQ(ask(loopback(4)), Lid(4));
}

/// A mark is valid for one asker and one process: a mark that a stranger gets by asking does not help it.
TEST_F(AddressOwner, a_mark_of_another_asker_is_none) {
  AddressOwnerNode neighbour{network, Lid(4), 1111};
  neighbour.has = {far};
  static_cast<void>(ask(far));
  WhoHas question = stranger.question;
  question.address.ip = far.ip;
  static_cast<void>(stranger.send(Lid(4), encode_endnode({.body = question})));
  network.run(10ms);
  ASSERT_NE(stranger.stolen, 0U);
  network.nodes.erase(4);
  EXPECT_EQ(ask(loopback(4)), kLidNone);
}

TEST_F(AddressOwner, the_fixed_address_of_a_lid_is_that_lids) {
  for (const IpAddress& address : {ipv4_of(Lid(5)), ipv6_of(Lid(5))}) EXPECT_EQ(ask(address), kLidNone);
  EXPECT_EQ(ask(ipv4_of(kStranger)), kStranger);
  AddressOwnerNode rightful{network, Lid(5), 2222};
  rightful.has = {ipv4_of(Lid(5)), ipv6_of(Lid(5))};
  for (const IpAddress& address : rightful.has) EXPECT_EQ(ask(address), Lid(5));
}

TEST_F(AddressOwner, an_address_of_the_askers_own_host_is_not_elsewhere) {
  asker.has = {far};
  asker.listens = false;
  EXPECT_EQ(ask(far), asker.lid());
  AddressOwnerNode neighbour{network, Lid(4), 1111};
  neighbour.has = {far};
  EXPECT_EQ(ask(far), Lid(4)) << "another endnode of this host, which listens";
}

TEST_F(AddressOwner, the_host_that_had_an_address_keeps_it_while_it_answers) {
  network.nodes.erase(kStranger.value());
  auto owner = std::make_unique<AddressOwnerNode>(network, Lid(5), 2222);
  AddressOwnerNode beside{network, Lid(6), 2222};  // on the same host
  owner->has = beside.has = {far};
  beside.listens = false;
  ASSERT_EQ(ask(far), Lid(5));
  network.nodes[kStranger.value()] = &stranger;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(ask(far), Lid(5));
  owner->listens = false;
  beside.listens = true;
  EXPECT_EQ(ask(far), Lid(6)) << "the host has it, not one endnode of it";
  network.nodes.erase(5);
  network.nodes.erase(6);
  EXPECT_EQ(ask(far), kStranger) << "no other endnode answers: the address may have moved";
}

}  // namespace
}  // namespace weft::rdma_cm
