// A port is an object: what the subnet calls it, and how it sends, may change while its link is up.
#include "adapter/port.h"

#include <gtest/gtest.h>

#include <array>

#include "messages/cell.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

class PortTest : public ::testing::Test {
 protected:
  ChannelAdapter& at(int index) { return *pair.side(index).adapter; }
  /// UD QPs: datagrams name their LID one by one.
  void make_datagram_qps() {
    for (size_t i = 0; i < 2; ++i) {
      const QpConfig config{.type = QpType::kUd};
      qps[i] = pair.make_qp(static_cast<int>(i), config);
      pair.bring_up(static_cast<int>(i), *qps[i], config, Qpn(0), Lid(1), Psn(0), Psn(0));
    }
    for (uint64_t i = 0; i < 8; ++i) (void)pair.post_recv(1, *qps[1], i, {pair.side(1).sge(0, 256)});
  }
  PostResult send_to(Lid lid, ServiceLevel sl = {}) {
    const Sge sge = pair.side(0).sge(0, 100);
    const Destination dest{.lid = lid, .qpn = at(1).qpn(*qps[1]), .qkey = AdapterSides::kQkey, .sl = sl};
    return at(0).post_send(*qps[0], {.sges = {&sge, 1}, .dest = dest});
  }
  size_t received() { return pair.side(1).completions.size(); }
  uint64_t not_mine() { return at(1).counters().get(AdapterCounter::kDropOtherLid); }
  bool heard(AsyncEventKind kind) {
    bool found = false;
    AsyncEvent event;
    while (at(1).next_event(event)) found |= event.kind == kind;
    return found;
  }

  AdapterPair pair;
  std::array<QueuePair*, 2> qps{};
};

TEST_F(PortTest, takes_what_comes_to_its_lids_and_sends_under_the_first) {
  make_datagram_qps();
  (void)heard(AsyncEventKind::kLidChange);
  ASSERT_TRUE(at(1).ports().set_lid(1, Lid(8), 2));
  EXPECT_TRUE(heard(AsyncEventKind::kLidChange));
  for (const Lid lid : {Lid(8), Lid(11)}) ASSERT_EQ(send_to(lid), PostResult::kOk);
  pair.run(5);
  EXPECT_EQ(received(), 2U);
  for (const Lid lid : {Lid(2), Lid(7), Lid(12)}) ASSERT_EQ(send_to(lid), PostResult::kOk);
  pair.run(5);
  EXPECT_EQ(received(), 2U);
  EXPECT_EQ(not_mine(), 3U);
  const Sge sge = pair.side(1).sge(0, 10);
  const Destination dest{.lid = Lid(1), .qpn = at(0).qpn(*qps[0]), .qkey = AdapterSides::kQkey};
  ASSERT_EQ(at(1).post_send(*qps[1], {.sges = {&sge, 1}, .dest = dest}), PostResult::kOk);
  pair.run(5);
  const auto sent = pair.pipe.sent_by(1, Opcode::kUdSend);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0]->view.slid, Lid(8));
  EXPECT_EQ(at(1).ports().info(1)->lid, Lid(8));
}

TEST_F(PortTest, connected_qps_go_on_under_the_new_lid) {
  const auto [near, far] = pair.connect({});
  ASSERT_EQ(pair.post_recv(1, *far, 1, {pair.side(1).sge(0, 256)}), PostResult::kOk);
  ASSERT_TRUE(at(0).ports().set_lid(1, Lid(5), 0));
  pair.run(2);
  const Sge sge = pair.side(0).sge(0, 100);
  ASSERT_EQ(at(0).post_send(*near, {.sges = {&sge, 1}}), PostResult::kOk);
  pair.run_one(0);
  const auto sent = pair.pipe.sent_by(0, Opcode::kSend);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0]->view.slid, Lid(5));
}

TEST_F(PortTest, sends_and_takes_when_it_is_active_only) {
  make_datagram_qps();
  ASSERT_TRUE(at(0).ports().set_state(1, PortState::kArmed));
  EXPECT_FALSE(at(0).ports().up(1));
  ASSERT_EQ(send_to(Lid(2)), PostResult::kOk);
  pair.run(5);
  EXPECT_TRUE(pair.pipe.sent_by(0).empty());
  ASSERT_TRUE(at(0).ports().set_state(1, PortState::kActive));
  pair.run(5);
  EXPECT_EQ(received(), 1U);
  ASSERT_TRUE(at(1).ports().set_state(1, PortState::kInit));
  ASSERT_EQ(send_to(Lid(2)), PostResult::kOk);
  pair.run(5);
  EXPECT_EQ(received(), 1U);
  EXPECT_EQ(at(1).counters().get(AdapterCounter::kDropPortInactive), 1U);
  EXPECT_EQ(not_mine(), 0U);
  EXPECT_FALSE(at(1).ports().set_state(1, PortState::kDown));
}

TEST_F(PortTest, has_a_lane_for_each_service_level) {
  make_datagram_qps();
  ServiceLanes lanes = lanes_in_turn(at(0).ports().info(1)->lanes);
  ASSERT_GE(at(0).ports().info(1)->lanes, 2U);
  EXPECT_EQ(lanes[0], VirtualLane(0));
  EXPECT_EQ(lanes[1], VirtualLane(1));
  ASSERT_EQ(send_to(Lid(2), ServiceLevel(1)), PostResult::kOk);
  pair.run(5);
  lanes[1] = VirtualLane(0);
  ASSERT_TRUE(at(0).ports().set_service_lanes(1, lanes));
  ASSERT_EQ(send_to(Lid(2), ServiceLevel(1)), PostResult::kOk);
  pair.run(5);
  const auto sent = pair.pipe.sent_by(0, Opcode::kUdSend);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0]->view.vl, VirtualLane(1));
  EXPECT_EQ(sent[1]->view.vl, VirtualLane(0));
  const auto first_beyond = static_cast<uint8_t>(at(0).ports().info(1)->lanes);
  for (const uint8_t beyond : {first_beyond, uint8_t{15}}) {
    lanes[3] = VirtualLane(beyond);
    EXPECT_FALSE(at(0).ports().set_service_lanes(1, lanes)) << int{beyond};
  }
  lanes[3] = VirtualLane(static_cast<uint8_t>(first_beyond - 1));
  EXPECT_TRUE(at(0).ports().set_service_lanes(1, lanes));
}

TEST_F(PortTest, refuses_what_is_no_lid) {
  EXPECT_FALSE(at(0).ports().set_lid(2, Lid(8), 0)) << "no such port";
  EXPECT_FALSE(at(0).ports().set_lid(1, Lid(0), 0));
  EXPECT_FALSE(at(0).ports().set_lid(1, Lid(0xC000), 0));
  EXPECT_FALSE(at(0).ports().set_lid(1, Lid(10), 2)) << "its low bits are not free";
  EXPECT_FALSE(at(0).ports().set_lid(1, Lid(0x100), 8));
  EXPECT_TRUE(at(0).ports().set_lid(1, Lid(0x100), 7));
}

}  // namespace
}  // namespace weft::test
