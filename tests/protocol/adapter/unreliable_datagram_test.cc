// Unreliable datagrams as verbs define them: address handles, the global header and its room, Q_Keys.
#include <algorithm>
#include <cstring>

#include "tests/support/adapter_pair.h"
#include "tests/support/adapter_star.h"

namespace weft::test {
using namespace adapter;
namespace {

constexpr uint32_t kAt = 4096;  // offset of side 1's receives

class UnreliableDatagram : public ::testing::Test {
 protected:
  UnreliableDatagram() {
    for (int i = 0; i < 2; ++i) qps[static_cast<size_t>(i)] = make_qp(i, true);
    pair.run(1);
    pair.side(0).fill(0, 1024, 17);
  }
  QueuePair* make_qp(int index, bool grh_space) {
    const QpConfig config{.type = QpType::kUd, .grh_space = grh_space};
    QueuePair* qp = pair.make_qp(index, config);
    pair.bring_up(index, *qp, config, Qpn(0), Lid(1), Psn(1), Psn(1));
    return qp;
  }
  ChannelAdapter& adapter(int index = 0) { return *pair.side(index).adapter; }
  [[nodiscard]] AddressHandle handle(const AhAttr& attr) {
    return adapter().make_ah(pair.side(0).pd, attr).value();
  }
  PostResult send(const AddressHandle& ah, uint32_t bytes, uint32_t qkey = AdapterSides::kQkey) {
    const Sge sge = pair.side(0).sge(0, bytes);
    return adapter().post_send(
        *qps[0], {.sges = {&sge, 1}, .dest = {.qpn = adapter(1).qpn(*qps[1]), .qkey = qkey}, .ah = &ah});
  }
  void post_recv(uint32_t bytes) {
    ASSERT_EQ(pair.post_recv(1, *qps[1], 5, {pair.side(1).sge(kAt, bytes)}), PostResult::kOk);
  }
  [[nodiscard]] std::vector<WorkCompletion>& received() { return pair.side(1).completions; }
  [[nodiscard]] static Gid gid_of(const ChannelAdapter& of) {
    const fabric::CellPortInfo& info = *of.ports().info(1);
    return make_gid(info.subnet, info.guid);
  }

  AdapterPair pair;
  std::array<QueuePair*, 2> qps{};
};

TEST_F(UnreliableDatagram, a_global_header_stands_before_the_data) {
  const AddressHandle ah = handle(
      {.dlid = Lid(2),
       .sl = ServiceLevel(3),
       .is_global = true,
       .route = {.dgid = gid_of(adapter(1)), .flow_label = 0xABCDE, .traffic_class = 0x5C, .hop_limit = 7}});
  post_recv(kGrhBytes + 200);
  ASSERT_EQ(send(ah, 200), PostResult::kOk);
  pair.run(5);
  ASSERT_EQ(received().size(), 1U);
  const WorkCompletion& got = received()[0];
  EXPECT_EQ(got.byte_count, kGrhBytes + 200);
  EXPECT_EQ(got.flags, adapter::kWcGrh);
  EXPECT_EQ(got.src_lid, Lid(1));
  EXPECT_EQ(got.src_qpn, adapter().qpn(*qps[0]));
  EXPECT_EQ(got.sl, ServiceLevel(3));
  GlobalHeaderWire header;
  std::memcpy(&header, &pair.side(1).memory[kAt], sizeof header);
  EXPECT_EQ(header.version_class_flow.get(), 0x65CABCDEU);
  EXPECT_EQ(header.next_header, kGlobalNextHeader);
  EXPECT_EQ(header.hop_limit, 7);
  EXPECT_EQ(header.source, gid_of(adapter()));
  EXPECT_EQ(header.destination, gid_of(adapter(1)));
  EXPECT_EQ(pair.side(1).bytes_at(kAt + kGrhBytes, 200), pair.side(0).bytes_at(0, 200));
  // The way back, from the completion and the header.
  const AhAttr back = ah_attr_from(got, 1, {&pair.side(1).memory[kAt], kGrhBytes});
  EXPECT_EQ(back.dlid, Lid(1));
  EXPECT_EQ(back.sl, ServiceLevel(3));
  EXPECT_TRUE(back.is_global);
  EXPECT_EQ(back.route.dgid, gid_of(adapter()));
  EXPECT_EQ(back.route.flow_label, 0xABCDEU);
  EXPECT_EQ(back.route.traffic_class, 0x5C);
}

TEST_F(UnreliableDatagram, without_a_header_its_room_stays_as_it_was) {
  std::fill_n(pair.side(1).memory.begin() + kAt, kGrhBytes, std::byte{0xEE});
  // The header's room is a segment of its own, for programs that read the header alone.
  ASSERT_EQ(pair.post_recv(1, *qps[1], 5, {pair.side(1).sge(kAt, kGrhBytes), pair.side(1).sge(0, 100)}),
            PostResult::kOk);
  ASSERT_EQ(send(handle({.dlid = Lid(2)}), 100), PostResult::kOk);
  pair.run(5);
  ASSERT_EQ(received().size(), 1U);
  EXPECT_EQ(received()[0].byte_count, kGrhBytes + 100);
  EXPECT_EQ(received()[0].flags, 0);
  EXPECT_EQ(pair.side(1).bytes_at(kAt, kGrhBytes), std::vector<std::byte>(kGrhBytes, std::byte{0xEE}));
  EXPECT_EQ(pair.side(1).bytes_at(0, 100), pair.side(0).bytes_at(0, 100));
  EXPECT_FALSE(ah_attr_from(received()[0], 1, pair.side(1).bytes_at(kAt, kGrhBytes)).is_global);
}

TEST_F(UnreliableDatagram, a_receive_has_to_hold_header_and_data) {
  const std::vector<std::byte> before = pair.side(1).memory;
  const AddressHandle ah = handle({.dlid = Lid(2), .is_global = true, .route = {.dgid = gid_of(adapter(1))}});
  post_recv(kGrhBytes + 99);
  ASSERT_EQ(send(ah, 100), PostResult::kOk);
  pair.run(5);
  EXPECT_TRUE(received().empty());
  EXPECT_EQ(adapter(1).counters().get(AdapterCounter::kDropLength), 1U);
  EXPECT_EQ(pair.side(1).memory, before);
  ASSERT_EQ(send(ah, 99), PostResult::kOk);  // the receive is still there
  pair.run(5);
  EXPECT_EQ(received().size(), 1U);
}

TEST_F(UnreliableDatagram, a_queue_pair_without_the_room_gets_the_data_alone) {
  qps[1] = make_qp(1, false);
  post_recv(100);
  ASSERT_EQ(send(handle({.dlid = Lid(2), .is_global = true, .route = {.dgid = gid_of(adapter(1))}}), 100),
            PostResult::kOk);
  pair.run(5);
  ASSERT_EQ(received().size(), 1U);
  EXPECT_EQ(received()[0].byte_count, 100U);
  EXPECT_EQ(received()[0].flags, 0);
  EXPECT_EQ(pair.side(1).bytes_at(kAt, 100), pair.side(0).bytes_at(0, 100));
  EXPECT_FALSE(adapter().create_qp(
      {.pd = pair.side(0).pd, .send_cq = pair.side(0).cq, .recv_cq = pair.side(0).cq, .grh_space = true}))
      << "only UD has it";
}

TEST_F(UnreliableDatagram, the_top_bit_of_a_qkey_means_the_queue_pairs_own) {
  const AddressHandle ah = handle({.dlid = Lid(2)});
  post_recv(200);
  ASSERT_EQ(send(ah, 10, kQkeyOfQp | 0x5555), PostResult::kOk);
  pair.run(5);
  EXPECT_EQ(received().size(), 1U);
  post_recv(200);
  QpAttr attr;
  attr.qkey = AdapterSides::kQkey + 1;
  ASSERT_EQ(adapter().modify_qp(*qps[0], attr, adapter::kQpAttrQkey), ModifyResult::kOk);
  ASSERT_EQ(send(ah, 10, kQkeyOfQp), PostResult::kOk);
  pair.run(5);
  EXPECT_EQ(received().size(), 1U);
  EXPECT_EQ(adapter(1).counters().get(AdapterCounter::kDropQkey), 1U);
}

TEST_F(UnreliableDatagram, handles_are_checked_when_made_and_copied_when_posted) {
  const PdId pd = pair.side(0).pd;
  EXPECT_FALSE(adapter().make_ah(PdId(77), {.dlid = Lid(2)}));
  EXPECT_FALSE(adapter().make_ah(pd, {.dlid = Lid(0)}));
  EXPECT_FALSE(adapter().make_ah(pd, {.dlid = Lid(0xFFFF)}));
  EXPECT_FALSE(adapter().make_ah(pd, {.dlid = Lid(2), .sl = ServiceLevel(16)}));
  EXPECT_FALSE(adapter().make_ah(pd, {.dlid = Lid(2), .port = 2}));
  EXPECT_FALSE(adapter().make_ah(pd, {.dlid = Lid(2), .is_global = true, .route = {.flow_label = 1U << 20}}));
  const PdId other = adapter().alloc_pd().value();
  EXPECT_EQ(send(adapter().make_ah(other, {.dlid = Lid(2)}).value(), 10), PostResult::kNoDestination);
  post_recv(200);
  {
    AddressHandle short_lived = handle({.dlid = Lid(2)});
    ASSERT_EQ(send(short_lived, 10), PostResult::kOk);
    short_lived.attr.dlid = Lid(9);
  }
  pair.run(5);
  EXPECT_EQ(received().size(), 1U);
}

/// Lane 0 is full of datagrams to a node that takes none. Those of service level 3 have a lane of their own.
TEST(UnreliableDatagrams, wait_for_credit_of_the_lane_they_leave_by) {
  TestFabricConfig config;
  config.switching = small_switch(0, 8);
  config.nodes = 3;
  AdapterStar star(config);
  const auto make = [&](int index) {
    const QpConfig ud{.type = QpType::kUd};
    QueuePair* qp = star.make_qp(index, ud);
    star.bring_up(index, *qp, ud, Qpn(0), Lid(1), Psn(1), Psn(1));
    return qp;
  };
  QueuePair* stopped = make(0);
  QueuePair* sender = make(0);
  QueuePair* receiver = make(2);
  const Destination nobody{.lid = Lid(2), .qpn = Qpn(99), .qkey = AdapterSides::kQkey};
  Destination dest{.lid = Lid(3), .qpn = star.side(2).adapter->qpn(*receiver), .qkey = AdapterSides::kQkey};
  dest.sl = ServiceLevel(3);
  const Sge sge = star.side(0).sge(0, 64);
  constexpr uint64_t kDatagrams = 40;
  for (uint64_t i = 0; i < kDatagrams; ++i) {
    ASSERT_EQ(star.post_recv(2, *receiver, i, {star.side(2).sge(0, 64)}), PostResult::kOk);
    for (const auto& [qp, to] : {std::pair(stopped, nobody), std::pair(sender, dest)})
      ASSERT_EQ(star.side(0).adapter->post_send(*qp, {.sges = {&sge, 1}, .dest = to}), PostResult::kOk);
  }
  for (int turn = 0; turn < 200; ++turn) {
    for (const int side : {0, 2}) star.run_one(side);
    star.fabric.step();
  }
  EXPECT_EQ(star.side(2).completions.size(), kDatagrams);
}

}  // namespace
}  // namespace weft::test
