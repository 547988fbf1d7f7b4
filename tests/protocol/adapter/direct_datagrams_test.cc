// UD over a memory window: what a program sees is what UD over cells gives it, and no cell passes once the
// window is up. docs/window.md, "UD over a window".
#include "adapter/transport/direct/direct_datagrams.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "adapter/queues/shared_receives.h"
#include "messages/multicast.h"
#include "messages/window_record.h"
#include "tests/support/direct_datagram_case.h"

namespace weft::test {
using namespace adapter;
using fabric::WindowFaults;
namespace {

TEST_F(DirectDatagram, the_first_one_asks_for_a_window_and_the_switch_serves_until_it_is_up) {
  for (uint32_t i = 0; i < 3; ++i) post_recv(300, i);
  send(100);
  send(100);
  pair.run(3);
  EXPECT_EQ(pair.cells(0), 2U);
  EXPECT_EQ(received().size(), 2U);
  EXPECT_EQ(paths(0).claims, 1) << "one question for both";
  EXPECT_EQ(nic(0).way_of(*qps[0]), QpWay::kSwitch);
  pair.arrive_at(1);
  pair.run(10);
  send(100);
  pair.run(3);
  EXPECT_EQ(pair.cells(0), 2U);
  EXPECT_EQ(received().size(), 1U);
  EXPECT_EQ(pair.side(1).bytes_at(kReceivesAt + 2 * kApart + kGrhBytes, 100), pair.side(0).bytes_at(0, 100));
  EXPECT_EQ(nic(0).way_of(*qps[0]), QpWay::kWindow);
  EXPECT_EQ(nic(1).way_of(*qps[1]), QpWay::kSwitch) << "it has sent nothing";
  EXPECT_EQ(pair.take_completions(0).size(), 3U);
}

TEST_F(DirectDatagram, completions_and_bytes_are_those_of_a_datagram_by_the_switch) {
  const AhAttr to{.dlid = Lid(2),
                  .sl = ServiceLevel(3),
                  .is_global = true,
                  .route = {.dgid = gid_of(1), .flow_label = 0xABCDE, .traffic_class = 0x5C, .hop_limit = 7}};
  const SendRequest request{
      .wr_id = 9, .opcode = SendOpcode::kSendWithImm, .flags = kSendSolicited | kSendSignaled, .imm = 0xCAFE};
  const auto pass = [&](uint32_t place) {
    settle();
    post_recv(300, place);
    send(200, to, request);
    pair.run(3);
    return received();
  };
  const auto by_switch = pass(0);
  pair.arrive_at(1);
  pair.run(10);
  const auto by_window = pass(1);
  EXPECT_EQ(cells(), 0U);
  ASSERT_EQ(by_switch.size(), 1U);
  ASSERT_EQ(by_window.size(), 1U);
  const WorkCompletion& one = by_switch[0];
  const WorkCompletion& other = by_window[0];
  EXPECT_EQ(other.flags, kWcWithImm | kWcSolicited | kWcGrh);
  EXPECT_EQ(other.src_lid, Lid(1));
  EXPECT_EQ(other.src_qpn, nic(0).qpn(*qps[0]));
  EXPECT_EQ(other.sl, ServiceLevel(3));
  EXPECT_EQ(other.imm, 0xCAFEU);
  EXPECT_EQ(other.byte_count, kGrhBytes + 200);
  EXPECT_TRUE(one.flags == other.flags && one.src_lid == other.src_lid && one.src_qpn == other.src_qpn &&
              one.sl == other.sl && one.imm == other.imm && one.byte_count == other.byte_count &&
              one.opcode == other.opcode && one.pkey_index == other.pkey_index);
  EXPECT_EQ(pair.side(1).bytes_at(kReceivesAt, kGrhBytes + 200),
            pair.side(1).bytes_at(kReceivesAt + kApart, kGrhBytes + 200));
  const auto sent = pair.take_completions(0);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].status, WcStatus::kSuccess);
}

TEST_F(DirectDatagram, what_a_receiver_drops_by_the_switch_it_drops_here) {
  open_window();
  const auto expect = [&](AdapterCounter counter, uint32_t bytes, const char* what) {
    const uint64_t before = dropped(1, counter);
    send(bytes);
    pair.run(3);
    EXPECT_EQ(dropped(1, counter), before + 1) << what;
    EXPECT_TRUE(received().empty()) << what;
  };
  expect(AdapterCounter::kDropNoRecvWqe, 8, "no receive request");
  post_recv(kGrhBytes + 7);
  expect(AdapterCounter::kDropLength, 8, "a receive request without room for the global header");
  qkey = AdapterSides::kQkey + 1;
  expect(AdapterCounter::kDropQkey, 7, "another Q_Key");
  qkey = AdapterSides::kQkey;
  to_qpn = Qpn(0x777);
  expect(AdapterCounter::kDropNoQp, 7, "no such QP");
  to_qpn = Qpn();
  const std::array<uint16_t, 1> other{0x8123};
  ASSERT_TRUE(nic(1).ports().set_pkeys(1, other));
  expect(AdapterCounter::kDropPkey, 7, "another partition");
  EXPECT_EQ(cells(), 0U);
  EXPECT_EQ(pair.take_completions(0).size(), 5U) << "the sender hears nothing";
  const std::array<uint16_t, 1> common{kPkeyDefault};
  ASSERT_TRUE(nic(1).ports().set_pkeys(1, common));
  send(7);
  pair.run(3);
  EXPECT_EQ(received().size(), 1U) << "the receive request is still there";
}

TEST_F(DirectDatagram, a_shared_receive_queue_serves_it) {
  SharedReceiveQueue* srq = nic(1).srqs().create({.pd = pair.side(1).pd, .wqes = 4, .sges = 1}).value();
  const QpConfig config{.type = QpType::kUd, .srq = srq, .grh_space = true};
  qps[1] = pair.make_qp(1, config);
  pair.bring_up(1, *qps[1], config, Qpn(0), Lid(1), Psn(1), Psn(1));
  open_window();
  const Sge sge = pair.side(1).sge(kReceivesAt, 300);
  ASSERT_EQ(nic(1).srqs().post_recv(*srq, {.wr_id = 3, .sges = {&sge, 1}}), PostResult::kOk);
  send(8);
  pair.run(3);
  const auto got = received();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].wr_id, 3U);
  EXPECT_EQ(cells(), 0U);
}

TEST_F(DirectDatagram, what_is_for_more_than_one_peer_or_for_management_goes_by_the_port) {
  open_window();
  Gid group = gid_of(1);  // also where the group's Gid has the bytes of this subnet
  group[0] = std::byte{0xFF};
  Gid elsewhere = make_gid(SubnetId(77), Guid(5));
  const std::vector<std::pair<AhAttr, const char*>> cases{
      {{.dlid = Lid(0xC001), .is_global = true, .route = {.dgid = group}}, "a group"},
      {{.dlid = Lid(2), .is_global = true, .route = {.dgid = elsewhere}}, "another subnet"},
      {{.dlid = Lid(1)}, "this adapter"}};
  uint64_t expected = 0;
  for (const auto& [to, what] : cases) {
    send(8, to);
    pair.run(3);
    EXPECT_EQ(cells(), ++expected) << what;
  }
  EXPECT_EQ(nic(0).way_of(*qps[0]), QpWay::kWindow) << "to LIDs that are no group";
  send(8, {.dlid = Lid(3)});
  pair.run(3);
  EXPECT_EQ(cells(), ++expected) << "another LID";
  EXPECT_EQ(nic(0).way_of(*qps[0]), QpWay::kBoth);
  to_qpn = kQpnGsi;
  send(8);
  pair.run(3);
  EXPECT_EQ(cells(), ++expected) << "to QP1";
  qps[0] = make_qp(0, kQpnGsi);
  to_qpn = Qpn();
  send(8);
  pair.run(3);
  EXPECT_EQ(cells(), ++expected) << "from QP1";
}

TEST_F(DirectDatagram, a_full_fifo_makes_it_wait_in_order) {
  open_window();
  constexpr uint32_t kMany = 2 * kSlots;
  for (uint32_t i = 0; i < kMany; ++i) {
    post_recv(300, i);
    send(8, {.dlid = Lid(2)}, {.opcode = SendOpcode::kSendWithImm, .flags = kSendSignaled, .imm = i});
  }
  for (int turn = 0; turn < 20; ++turn) {  // the peer stands still
    pair.run_one(0);
    pair.clock.advance(100us);
  }
  EXPECT_EQ(pair.side(0).completions.size(), kSlots);
  const uint64_t claims = pair.pipe.claims(0);
  pair.run_one(0);
  EXPECT_EQ(pair.pipe.claims(0), claims) << "the port has nothing to do with it";
  pair.run(20, 100us);
  const auto got = received();
  ASSERT_EQ(got.size(), kMany);
  for (uint32_t i = 0; i < kMany; ++i) EXPECT_EQ(got[i].imm, i);
  EXPECT_EQ(pair.take_completions(0).size(), kMany);
  EXPECT_EQ(cells(), 0U);
  EXPECT_EQ(dropped(0, AdapterCounter::kDropFifoFull), 0U);
}

TEST_F(DirectDatagram, a_peer_that_stands_still_costs_those_that_wait_too_long) {
  open_window();
  constexpr uint32_t kMany = 2 * kSlots;
  for (uint32_t i = 0; i < kMany; ++i) send(8);
  const auto stand_still = [&](Duration time) {
    for (const Instant until = pair.clock.now() + time; pair.clock.now() < until; pair.clock.advance(1ms))
      pair.run_one(0);
  };
  stand_still(kDatagramWaitMax - 2ms);
  EXPECT_EQ(dropped(0, AdapterCounter::kDropFifoFull), 0U);
  EXPECT_EQ(pair.take_completions(0).size(), kSlots);
  stand_still(5ms);
  EXPECT_EQ(dropped(0, AdapterCounter::kDropFifoFull), kSlots);
  EXPECT_EQ(pair.take_completions(0).size(), kSlots) << "as if they had left";
  send(8);
  pair.run_one(0);
  EXPECT_EQ(dropped(0, AdapterCounter::kDropFifoFull), kSlots + 1U) << "no further one waits";
  pair.run(10);  // the peer goes on
  send(8);
  pair.run(3);
  EXPECT_EQ(dropped(0, AdapterCounter::kDropFifoFull), kSlots + 1U);
  EXPECT_EQ(dropped(1, AdapterCounter::kDropNoRecvWqe), kSlots + 2U) << "the very first one, too";
  for (uint32_t i = 0; i < kSlots + 1; ++i) send(8);
  pair.run_one(0);
  EXPECT_EQ(dropped(0, AdapterCounter::kDropFifoFull), kSlots + 1U) << "it waits as long as at first";
  EXPECT_EQ(cells(), 0U);
}

TEST_F(DirectDatagram, a_queue_pair_that_ends_while_it_waits_is_forgotten) {
  open_window();
  for (uint32_t i = 0; i < 2 * kSlots; ++i) send(8);
  for (int turn = 0; turn < 3; ++turn) pair.run_one(0);
  QueuePair* other = make_qp(0);
  std::swap(qps[0], other);
  send(8);
  pair.run_one(0);
  ASSERT_TRUE(nic(0).destroy_qp(other));
  pair.run(10);
  EXPECT_EQ(dropped(1, AdapterCounter::kDropNoRecvWqe), 1U + kSlots + 1U);
  EXPECT_EQ(paths(0).claims, 1) << "for the other one";
}

TEST_F(DirectDatagram, a_cut_window_loses_them) {
  open_window();
  set({.kind = FaultKind::kCut, .lasts = 10ms});
  send(8);
  pair.run(3);
  EXPECT_EQ(pair.take_completions(0).size(), 1U);
  EXPECT_EQ(dropped(0, AdapterCounter::kDropFifoFull), 1U);
  pair.run(20, 1ms);
  post_recv(300);
  send(8);
  pair.run(5);
  EXPECT_EQ(received().size(), 1U) << "the cut has ended";
  EXPECT_EQ(cells(), 0U);
}

TEST_F(DirectDatagram, failed_dma_loses_them) {
  open_window();
  set({.kind = FaultKind::kFailDma, .limit = 1});
  post_recv(300);
  send(8);
  pair.run(5);
  EXPECT_TRUE(received().empty());
  EXPECT_EQ(dropped(0, AdapterCounter::kDropDma), 1U);
  send(8);
  pair.run(5);
  EXPECT_EQ(received().size(), 1U);
  const auto sent = pair.take_completions(0);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].status, WcStatus::kSuccess);
}

TEST_F(DirectDatagram, a_window_that_ends_leaves_the_switch_and_a_later_one_is_asked_for) {
  open_window();
  pair.window->kill(1);
  pair.joins = false;
  pair.run(3);
  EXPECT_EQ(paths(0).claims, 0);
  post_recv(300);
  post_recv(300, 1);
  send(8);
  pair.run(3);
  EXPECT_EQ(received().size(), 1U);
  EXPECT_EQ(cells(), 1U);
  EXPECT_EQ(paths(0).claims, 0) << "not at once";
  pair.run(11, 100ms);
  send(8);
  pair.run(3);
  EXPECT_EQ(received().size(), 1U);
  EXPECT_EQ(paths(0).claims, 1);
}

TEST_F(DirectDatagram, a_window_that_ends_while_they_wait_leaves_the_switch) {
  open_window();
  for (uint32_t i = 0; i < kSlots + 3; ++i) send(8);
  for (int turn = 0; turn < 3; ++turn) pair.run_one(0);
  EXPECT_EQ(pair.take_completions(0).size(), kSlots);
  pair.window->kill(1);
  pair.run(5);
  EXPECT_EQ(pair.take_completions(0).size(), 3U);
  EXPECT_EQ(cells(), 3U);
}

TEST_F(DirectDatagram, a_refused_window_is_asked_for_again_after_a_second) {
  paths(0).refused = true;
  int asked = 0;
  for (int i = 0; i < 20; ++i) {
    send(8);
    pair.run_one(0);
    asked += paths(0).claims;
    pair.run(1, 150ms);
    EXPECT_EQ(paths(0).claims, 0);
  }
  EXPECT_EQ(pair.cells(0), 20U);
  EXPECT_LE(asked, 3);
  EXPECT_GE(asked, 2);
}

TEST_F(DirectDatagram, a_lid_without_a_window_is_asked_for_again_after_a_second) {
  paths(0).offered = false;
  send(8);
  pair.run(1);
  paths(0).offered = true;
  send(8);
  pair.run(1, 1100ms);
  EXPECT_EQ(paths(0).claims, 0);
  send(8);
  pair.run(1);
  EXPECT_EQ(paths(0).claims, 1);
}

/// The helper thread finds out that no program listens there: after the claim.
TEST_F(DirectDatagram, a_window_that_is_always_refused_is_asked_for_less_and_less_often) {
  paths(0).refused = true;
  for (int i = 0; i < 70; ++i) {
    send(8);
    pair.run(3);
    pair.clock.advance(1s);
  }
  EXPECT_EQ(paths(0).asked, 7);
  EXPECT_EQ(paths(0).claims, 0);
}

/// At 0, 1, 3, 7, 15, 31 and 63 s.
TEST_F(DirectDatagram, a_lid_without_a_window_is_asked_for_less_and_less_often) {
  paths(0).offered = false;
  for (int i = 0; i < 70; ++i) {
    send(8);
    pair.run(1, 1s);
  }
  EXPECT_EQ(paths(0).asked, 7);
}

TEST_F(DirectDatagram, the_window_ends_with_the_last_queue_pair_that_uses_it) {
  open_window();
  QueuePair* const second = make_qp(0);
  QueuePair* const first = std::exchange(qps[0], second);
  send(8);
  pair.run(3);
  EXPECT_EQ(cells(), 0U) << "the window serves all";
  const auto rc = pair.connect({});
  pair.run(5);
  EXPECT_EQ(nic(0).way_of(*rc[0]), QpWay::kWindow);
  QpAttr attr;
  attr.state = QpState::kReset;
  ASSERT_EQ(nic(0).modify_qp(*first, attr, kQpAttrState), ModifyResult::kOk);
  ASSERT_TRUE(nic(0).destroy_qp(second));
  pair.run(5);
  EXPECT_EQ(paths(0).claims, 1) << "RC uses it";
  QueuePair* const third = qps[0] = make_qp(0);
  send(8);
  pair.run(3);
  ASSERT_TRUE(nic(0).destroy_qp(rc[0]));
  pair.run(5);
  EXPECT_EQ(paths(0).claims, 1) << "UD uses it";
  ASSERT_TRUE(nic(0).destroy_qp(third));
  pair.run(1);
  EXPECT_EQ(paths(0).claims, 0);
}

TEST_F(DirectDatagram, another_lid_of_the_sender_takes_it_to_the_switch) {
  open_window();
  ASSERT_TRUE(nic(0).ports().set_lid(1, Lid(9), 0));
  post_recv(300);
  send(8);
  pair.run(3);
  EXPECT_EQ(cells(), 1U);
  EXPECT_EQ(received().size(), 1U);
}

/// The parts of a turn that a caller in a hurry runs alone.
TEST_F(DirectDatagram, it_leaves_and_arrives_without_a_whole_turn) {
  post_recv(300);
  send(8);
  EXPECT_FALSE(nic(0).send_by_window(*qps[0], pair.clock.now())) << "it needs a turn";
  open_window();
  send(8);
  EXPECT_FALSE(nic(0).send_by_window(*qps[0], pair.clock.now())) << "the last one took the port";
  pair.run(1);
  settle();
  post_recv(300);
  send(8);
  EXPECT_TRUE(nic(0).send_by_window(*qps[0], pair.clock.now()));
  EXPECT_NE(nic(1).window_news(), WindowNews::kNone);
  EXPECT_GT(nic(1).look_at_windows(pair.clock.now()), 0);
  EXPECT_EQ(cells(), 0U);
  send(8, {.dlid = Lid(3)});
  EXPECT_FALSE(nic(0).send_by_window(*qps[0], pair.clock.now())) << "the port has to be flushed";
  pair.run(1);
  EXPECT_EQ(received().size(), 1U);
}

TEST_F(DirectDatagram, a_peer_that_writes_what_it_likes_is_refused) {
  const std::vector<std::byte> cell = a_cell();
  pair.run(11, 100ms);
  open_window();
  const auto expect = [&](AdapterCounter counter, const std::vector<std::byte>& what, Qpn to, int line) {
    const uint64_t before = dropped(1, counter);
    put(what, to);
    EXPECT_EQ(dropped(1, counter), before + 1) << line;
    EXPECT_TRUE(received().empty()) << line;
  };
  const auto changed = [&](size_t at, uint8_t value) {
    std::vector<std::byte> out = cell;
    out[at] = std::byte{value};
    return out;
  };
  const auto for_qp = [&](Qpn qpn) {
    std::vector<std::byte> out = cell;
    out[17] = static_cast<std::byte>(qpn.value() >> 16);
    out[18] = static_cast<std::byte>(qpn.value() >> 8);
    out[19] = static_cast<std::byte>(qpn.value());
    return out;
  };
  const Qpn own = nic(1).qpn(*qps[1]);
  post_recv(300);
  expect(AdapterCounter::kDropSource, changed(11, 3), own, __LINE__);
  expect(AdapterCounter::kDropOtherLid, changed(5, 3), own, __LINE__);
  expect(AdapterCounter::kDropService, for_qp(kQpnGsi), own, __LINE__);
  expect(AdapterCounter::kDropService, for_qp(kQpnSmi), own, __LINE__);
  expect(AdapterCounter::kDropService, changed(3, 9), own, __LINE__);  // to another subnet
  expect(AdapterCounter::kDropService, changed(9, 9), own, __LINE__);  // from another subnet
  expect(AdapterCounter::kDropNoQp, for_qp(Qpn(0x777777)), own, __LINE__);
  const auto rc = pair.connect({});
  pair.run(5);
  expect(AdapterCounter::kDropService, for_qp(nic(1).qpn(*rc[1])), own, __LINE__);
  EXPECT_EQ(nic(1).way_of(*rc[1]), QpWay::kWindow);
  put(changed(12, 9), own);  // another version
  EXPECT_EQ(nic(1).bad_cells().get(CellError::kVersion), 1U);
  put({cell.begin(), cell.end() - 1}, own);
  EXPECT_EQ(nic(1).bad_cells().get(CellError::kLength), 1U);
  EXPECT_TRUE(received().empty());
  put(cell, own);
  EXPECT_EQ(received().size(), 1U) << "and what is right arrives";
}

TEST_F(DirectDatagram, a_peer_that_does_not_take_them_gets_them_by_the_switch) {
  send(4);
  pair.run(3);
  pair.arrive_at(1);
  pair.run(10);
  fabric::DmaDevice& peer = pair.end(1).device();
  peer.set_scratchpad(fabric::kScratchpadDatagrams, 0);
  settle();
  send(8);
  pair.run(3);
  EXPECT_EQ(cells(), 1U);
  peer.set_scratchpad(fabric::kScratchpadDatagrams, 1);
  send(8);
  pair.run(3);
  EXPECT_EQ(cells(), 1U);
}

class SmallSlots : public DirectDatagram {
 protected:
  SmallSlots() : DirectDatagram(256) {}
};

TEST_F(SmallSlots, a_peer_whose_slots_are_too_small_for_a_cell_gets_all_by_the_switch) {
  open_window();
  post_recv(300);
  send(8);
  pair.run(3);
  EXPECT_EQ(cells(), 1U);
  EXPECT_EQ(received().size(), 1U);
  EXPECT_EQ(nic(0).way_of(*qps[0]), QpWay::kSwitch);
}

}  // namespace
}  // namespace weft::test
