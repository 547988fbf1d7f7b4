// Multicast groups: a message to a group reaches its members, on other nodes and on the sender's own, and no
// other QP.
#include "messages/multicast.h"

#include <algorithm>
#include <array>
#include <vector>

#include "tests/support/adapter_pair.h"
#include "tests/support/adapter_star.h"

namespace weft::test {
using namespace adapter;
namespace {

constexpr Lid kGroupLid{0xC003};

Gid group(uint8_t last) {
  Gid gid{};
  gid[0] = std::byte{0xFF};
  gid[15] = std::byte{last};
  return gid;
}

class Multicast : public ::testing::Test {
 protected:
  static TestFabricConfig three_nodes() {
    TestFabricConfig config;
    config.switching = small_switch(0, 8);
    config.nodes = 3;
    return config;
  }
  QueuePair* make_qp(int index, QpConfig config = {.type = QpType::kUd, .grh_space = true}) {
    QueuePair* qp = star.make_qp(index, config);
    star.bring_up(index, *qp, config, Qpn(0), Lid(1), Psn(1), Psn(1));
    EXPECT_EQ(star.post_recv(index, *qp, 1, {star.side(index).sge(4096, 512)}), PostResult::kOk);
    return qp;
  }
  ChannelAdapter& adapter(int index) { return *star.side(index).adapter; }
  void join(int index, QueuePair& qp, uint8_t gid = 1) {
    ASSERT_TRUE(adapter(index).attach_mcast(qp, group(gid), kGroupLid));
  }
  void send(int index, QueuePair& qp, uint8_t gid = 1) {
    post(index, qp, gid);
    star.run(20);
  }
  void post(int index, QueuePair& qp, uint8_t gid = 1) {
    PairSide& side = star.side(index);
    const AddressHandle ah =
        adapter(index)
            .make_ah(side.pd, {.dlid = kGroupLid, .is_global = true, .route = {.dgid = group(gid)}})
            .value();
    const Sge sge = side.sge(0, 100);
    ASSERT_EQ(
        adapter(index).post_send(
            qp, {.sges = {&sge, 1}, .dest = {.qpn = kQpnMulticast, .qkey = AdapterSides::kQkey}, .ah = &ah}),
        PostResult::kOk);
  }
  /// @return the QPs of a side that have received since the last call
  std::vector<Qpn> receivers(int index) {
    std::vector<Qpn> got;
    for (const WorkCompletion& one : star.side(index).completions) {
      if (one.opcode == WcOpcode::kRecv) got.push_back(one.qpn);
    }
    star.side(index).completions.clear();
    return got;
  }
  using Qpns = std::vector<Qpn>;

  AdapterStar star{three_nodes()};
};

TEST_F(Multicast, members_receive_on_every_node_and_no_other_qp_does) {
  QueuePair* sender = make_qp(0);
  QueuePair* at_home = make_qp(0);
  QueuePair* first = make_qp(1);
  QueuePair* second = make_qp(1);
  QueuePair* stranger = make_qp(1);
  QueuePair* far = make_qp(2);
  join(0, *at_home);
  join(1, *first);
  join(1, *second);
  join(2, *far);
  join(1, *stranger, 2);  // another group with the same LID
  star.side(0).fill(0, 100, 9);
  send(0, *sender);
  EXPECT_EQ(receivers(0), (Qpns{adapter(0).qpn(*at_home)}));
  EXPECT_EQ(receivers(1), (Qpns{adapter(1).qpn(*first), adapter(1).qpn(*second)}));
  const std::vector<WorkCompletion> at_far = star.side(2).completions;
  ASSERT_EQ(receivers(2), (Qpns{adapter(2).qpn(*far)}));
  EXPECT_EQ(at_far[0].byte_count, kGrhBytes + 100);
  EXPECT_NE(at_far[0].flags & adapter::kWcGrh, 0);
  EXPECT_EQ(at_far[0].src_lid, Lid(1));
  EXPECT_EQ(at_far[0].src_qpn, adapter(0).qpn(*sender));
  EXPECT_EQ(star.side(2).bytes_at(4096 + kGrhBytes, 100), star.side(0).bytes_at(0, 100));
  star.fabric.expect_conserved();
}

TEST_F(Multicast, a_member_that_left_receives_no_more) {
  QueuePair* sender = make_qp(0);
  QueuePair* member = make_qp(1);
  join(1, *member);
  join(1, *member);  // joining twice has no effect
  EXPECT_FALSE(adapter(1).destroy_qp(member));
  send(0, *sender);
  EXPECT_EQ(receivers(1).size(), 1U);
  ASSERT_EQ(star.post_recv(1, *member, 1, {star.side(1).sge(4096, 512)}), PostResult::kOk);
  ASSERT_TRUE(adapter(1).detach_mcast(*member, group(1), kGroupLid));
  EXPECT_FALSE(adapter(1).detach_mcast(*member, group(1), kGroupLid));
  const uint64_t before = adapter(1).counters().get(AdapterCounter::kDropMulticast);
  send(0, *sender);
  EXPECT_TRUE(receivers(1).empty());
  EXPECT_EQ(adapter(1).counters().get(AdapterCounter::kDropMulticast), before + 1);
  EXPECT_TRUE(adapter(1).destroy_qp(member));
}

TEST_F(Multicast, each_member_judges_the_qkey_and_its_own_receives) {
  QueuePair* sender = make_qp(0);
  QueuePair* other_key = make_qp(1);
  QueuePair* dry = make_qp(1);
  QueuePair* member = make_qp(1);
  for (QueuePair* qp : {other_key, dry, member}) join(1, *qp);
  QpAttr attr;
  attr.qkey = AdapterSides::kQkey + 1;
  ASSERT_EQ(adapter(1).modify_qp(*other_key, attr, adapter::kQpAttrQkey), ModifyResult::kOk);
  send(0, *sender);
  EXPECT_EQ(receivers(1), (Qpns{adapter(1).qpn(*dry), adapter(1).qpn(*member)}));
  EXPECT_EQ(adapter(1).counters().get(AdapterCounter::kDropQkey), 1U);
  ASSERT_EQ(star.post_recv(1, *member, 1, {star.side(1).sge(4096, 512)}), PostResult::kOk);
  send(0, *sender);
  EXPECT_EQ(receivers(1), (Qpns{adapter(1).qpn(*member)}));
  EXPECT_EQ(adapter(1).counters().get(AdapterCounter::kDropNoRecvWqe), 1U);
}

TEST_F(Multicast, a_burst_reaches_members_of_the_sending_port_too) {
  QueuePair* member = make_qp(0, {.type = QpType::kUd, .recv_wqes = 256, .grh_space = true});
  join(0, *member);
  constexpr uint32_t kMessages = 100;  // more than a loopback holds
  std::vector<QueuePair*> senders{make_qp(0), make_qp(0)};
  for (uint32_t i = 1; i < 2 * kMessages; ++i) {
    ASSERT_EQ(star.post_recv(0, *member, i, {star.side(0).sge(4096, 512)}), PostResult::kOk);
  }
  for (uint32_t i = 0; i < kMessages; ++i) {
    for (QueuePair* sender : senders) post(0, *sender);
  }
  star.run(200);
  EXPECT_EQ(receivers(0).size(), 2 * kMessages);
  EXPECT_EQ(adapter(0).counters().get(AdapterCounter::kDropMulticast), 0U);
  // Each datagram left through the port, and a copy went to the local member.
  EXPECT_EQ(adapter(0).ports().total(AdapterPortCounter::kCellsLooped), 2 * kMessages);
  EXPECT_EQ(adapter(0).ports().total(AdapterPortCounter::kCellsSent), 4 * kMessages);
  EXPECT_EQ(adapter(0).ports().total(AdapterPortCounter::kBytesSent),
            2 * adapter(0).ports().total(AdapterPortCounter::kBytesLooped));
}

/// The lane takes more cells in a turn than a loopback holds: a datagram without room there waits.
TEST(MulticastAtHome, a_datagram_leaves_with_its_copy) {
  AdapterPair pair;
  PairSide& side = pair.side(0);
  constexpr uint32_t kMessages = 100;
  const QpConfig config{.type = QpType::kUd, .recv_wqes = 2 * kMessages, .grh_space = true};
  const auto make = [&] {
    QueuePair* qp = pair.make_qp(0, config);
    pair.bring_up(0, *qp, config, Qpn(0), Lid(1), Psn(1), Psn(1));
    return qp;
  };
  QueuePair* member = make();
  const std::array<QueuePair*, 2> senders{make(), make()};
  ASSERT_TRUE(side.adapter->attach_mcast(*member, group(1), kGroupLid));
  for (uint32_t i = 0; i < 2 * kMessages; ++i)
    ASSERT_EQ(pair.post_recv(0, *member, i, {side.sge(4096, 512)}), PostResult::kOk);
  const AddressHandle ah =
      side.adapter->make_ah(side.pd, {.dlid = kGroupLid, .is_global = true, .route = {.dgid = group(1)}})
          .value();
  const Sge sge = side.sge(0, 100);
  const Destination dest{.qpn = kQpnMulticast, .qkey = AdapterSides::kQkey};
  for (uint32_t i = 0; i < kMessages; ++i) {
    for (QueuePair* sender : senders)
      ASSERT_EQ(side.adapter->post_send(*sender, {.sges = {&sge, 1}, .dest = dest, .ah = &ah}),
                PostResult::kOk);
  }
  pair.run(200);
  const auto& done = side.completions;
  EXPECT_EQ(
      std::count_if(done.begin(), done.end(), [](const auto& one) { return one.opcode == WcOpcode::kRecv; }),
      2 * kMessages);
}

TEST_F(Multicast, a_sender_without_members_at_its_port_hears_nothing_of_its_own) {
  QueuePair* sender = make_qp(0);
  send(0, *sender);
  EXPECT_EQ(adapter(0).counters().get(AdapterCounter::kDropMulticast), 0U);
  EXPECT_EQ(adapter(1).counters().get(AdapterCounter::kDropMulticast), 1U);
}

TEST_F(Multicast, what_is_no_membership_is_refused) {
  QueuePair* qp = make_qp(0);
  QueuePair* rc = star.make_qp(0, {});
  Gid unicast{};
  unicast[0] = std::byte{0xFD};
  EXPECT_FALSE(adapter(0).attach_mcast(*rc, group(1), kGroupLid));
  EXPECT_FALSE(adapter(0).attach_mcast(*qp, unicast, kGroupLid));
  EXPECT_FALSE(adapter(0).attach_mcast(*qp, group(1), Lid(0xBFFF)));
  EXPECT_FALSE(adapter(0).attach_mcast(*qp, group(1), Lid(0xFFFF)));
  EXPECT_FALSE(adapter(1).attach_mcast(*qp, group(1), kGroupLid));
  const PdId pd = star.side(0).pd;
  EXPECT_FALSE(adapter(0).make_ah(pd, {.dlid = kGroupLid, .is_global = true, .route = {.dgid = unicast}}));
  // The limit bounds the number of memberships.
  AdapterLimits limits;
  limits.multicast_members = 2;
  SeededRandom random(5);
  Pipe link(256, Lid(1), Lid(2));
  ChannelAdapter small({.limits = limits}, random);
  small.ports().attach(link.end(0));
  const PdId own = small.alloc_pd().value();
  CompletionQueue* cq = small.cqs().create(4).value();
  QueuePair* member = small.create_qp({.type = QpType::kUd, .pd = own, .send_cq = cq, .recv_cq = cq}).value();
  EXPECT_TRUE(small.attach_mcast(*member, group(1), kGroupLid));
  EXPECT_TRUE(small.attach_mcast(*member, group(2), kGroupLid));
  EXPECT_FALSE(small.attach_mcast(*member, group(3), kGroupLid));
  ASSERT_TRUE(small.detach_mcast(*member, group(2), kGroupLid));
  EXPECT_TRUE(small.attach_mcast(*member, group(3), kGroupLid));
  // A member stays until it has left all groups; others keep their memberships.
  QueuePair* other = small.create_qp({.type = QpType::kUd, .pd = own, .send_cq = cq, .recv_cq = cq}).value();
  EXPECT_EQ(reason_of(small.attach_mcast(*other, group(3), kGroupLid)), Reason::kTableFull);
  small.leave_groups_and_protocols(*other);
  EXPECT_EQ(reason_of(small.destroy_qp(member)), Reason::kBusy);
  small.leave_groups_and_protocols(*member);
  EXPECT_TRUE(small.destroy_qp(member));
  EXPECT_TRUE(small.attach_mcast(*other, group(3), kGroupLid));
  EXPECT_TRUE(small.attach_mcast(*other, group(4), kGroupLid));
}

}  // namespace
}  // namespace weft::test
