// SAN-XPORT: the services under loss, duplication and late receivers.
#include <numeric>

#include "base/endian.h"
#include "tests/support/adapter_pair.h"
#include "tests/support/adapter_star.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/requirement.h"

namespace weft::test {
using namespace adapter;
namespace {

class SanXport : public ::testing::Test {
 protected:
  ChannelAdapter& adapter(int index = 0) { return *pair.side(index).adapter; }
  void post(QueuePair& qp, uint32_t offset, uint32_t bytes, uint64_t wr_id, const Destination& dest = {}) {
    const Sge sge = pair.side(0).sge(offset, bytes);
    ASSERT_EQ(adapter().post_send(qp, {.wr_id = wr_id, .sges = {&sge, 1}, .dest = dest}), PostResult::kOk);
  }
  void expect_all_good(int index, size_t count) {
    ASSERT_EQ(pair.side(index).completions.size(), count);
    for (const auto& completion : pair.side(index).completions)
      EXPECT_EQ(completion.status, WcStatus::kSuccess);
  }

  QueuePair* rd_qp(int index) {
    const QpConfig config{.type = QpType::kRd};
    QueuePair* qp = pair.make_qp(index, config);
    pair.bring_up(index, *qp, config, Qpn(0), Lid(0), Psn(0), Psn(0));
    return qp;
  }

  AdapterPair pair;
};

TEST_F(SanXport, SAN_XPORT_02_a_second_connect_is_refused) {
  covers("SAN-XPORT-02");
  const QpConfig config{.type = QpType::kRc};
  auto qps = pair.connect(config);
  const Qpn second = adapter(1).qpn(*pair.connect(config)[1]);
  for (const QpState state : {QpState::kInit, QpState::kRtr, QpState::kRts, QpState::kSqd}) {
    EXPECT_NE(
        adapter().modify_qp(*qps[0], {.state = state, .dest_qpn = second}, kQpAttrState | kQpAttrDestQpn),
        ModifyResult::kOk)
        << to_string(state);
  }
  EXPECT_EQ(adapter().query_qp(*qps[0]).state, QpState::kRts);
  EXPECT_EQ(adapter().query_qp(*qps[0]).dest_qpn, adapter(1).qpn(*qps[1]));
  EXPECT_EQ(adapter().query_qp(*qps[0]).dlid, Lid(2));
}

/// The peer's node has a second QP with a receive posted and a second process with memory of its own; a third
/// node has both too. Only the connected QP's receive and process are reached.
TEST(SanXportStar, SAN_XPORT_02_messages_and_data_of_rc_are_at_its_one_peer_alone) {
  covers("SAN-XPORT-02");
  TestFabricConfig three;
  three.switching = small_switch();
  three.nodes = 3;
  AdapterStar star(three);
  PairSide& near = star.side(0);
  PairSide& peer = star.side(1);
  PairSide& third = star.side(2);
  const auto qps = star.connect({});
  const auto beside = star.connect({});
  const auto other = star.connect({}, {}, 0, 2);
  near.fill(0, 600, 5);
  peer.fill(8192, 600, 6);
  third.fill(8192, 600, 7);
  ASSERT_EQ(star.post_recv(1, *beside[1], 71, {peer.sge(1024, 1024)}), PostResult::kOk);
  ASSERT_EQ(star.post_recv(1, *qps[1], 72, {peer.sge(2048, 1024)}), PostResult::kOk);
  ASSERT_EQ(star.post_recv(2, *other[1], 73, {third.sge(2048, 1024)}), PostResult::kOk);
  const std::vector<std::byte> third_before = third.memory;
  std::vector<std::byte> expected = peer.memory;
  const Sge data = near.sge(0, 600);
  const Sge sink = near.sge(4096, 600);
  // A destination in the request has no meaning on RC.
  const Destination elsewhere{
      .lid = Lid(3), .qpn = third.adapter->qpn(*other[1]), .qkey = AdapterSides::kQkey};
  ASSERT_EQ(near.adapter->post_send(*qps[0], {.sges = {&data, 1}, .dest = elsewhere}), PostResult::kOk);
  for (const SendOpcode opcode : {SendOpcode::kRdmaWrite, SendOpcode::kRdmaRead}) {
    const bool reads = opcode == SendOpcode::kRdmaRead;
    ASSERT_EQ(near.adapter->post_send(*qps[0], {.opcode = opcode,
                                                .sges = {reads ? &sink : &data, 1},
                                                .remote_addr = peer.region.addr + (reads ? 8192U : 16384U),
                                                .rkey = peer.region.rkey,
                                                .dest = elsewhere}),
              PostResult::kOk);
  }
  star.run();
  ASSERT_EQ(near.completions.size(), 3U);
  for (const WorkCompletion& done : near.completions) EXPECT_EQ(done.status, WcStatus::kSuccess);
  ASSERT_EQ(peer.completions.size(), 1U);
  EXPECT_EQ(peer.completions[0].wr_id, 72U) << "the receive of the connected QP";
  std::memcpy(&expected[2048], near.memory.data(), 600);
  std::memcpy(&expected[16384], near.memory.data(), 600);
  EXPECT_TRUE(peer.memory == expected) << "there, and nowhere else";
  EXPECT_EQ(near.bytes_at(4096, 600), peer.bytes_at(8192, 600));
  EXPECT_TRUE(third.completions.empty());
  EXPECT_TRUE(third.memory == third_before);

  // The address space is that of the connected QP's process. A key of another process of that node, or of the
  // third node, opens nothing.
  const PdId process = peer.adapter->alloc_pd().value();
  const MemoryRegion of_process =
      peer.adapter->memory()
          .regions.reg_mr(process, peer.memory, Access::kLocalWrite | Access::kRemoteWrite)
          .value();
  expected = peer.memory;
  for (const MemoryRegion& region : {of_process, third.region}) {
    const auto fresh = star.connect({});
    ASSERT_EQ(near.adapter->post_send(*fresh[0], {.opcode = SendOpcode::kRdmaWrite,
                                                  .sges = {&data, 1},
                                                  .remote_addr = region.addr,
                                                  .rkey = region.rkey}),
              PostResult::kOk);
    star.run();
    EXPECT_EQ(near.completions.back().status, WcStatus::kRemoteAccess);
  }
  EXPECT_TRUE(peer.memory == expected);
  EXPECT_TRUE(third.memory == third_before);
}

TEST_F(SanXport, SAN_XPORT_03_a_lost_cell_is_repeated_under_its_number) {
  covers("SAN-XPORT-03 SAN-XPORT-08");
  for (const uint16_t lost : {uint16_t{0}, uint16_t{1}, uint16_t{2}, uint16_t{3}}) {
    auto qps = pair.connect({.type = QpType::kRc});
    pair.side(0).completions.clear();
    pair.side(1).completions.clear();
    pair.pipe.clear_trace();
    pair.side(0).fill(0, 1000, static_cast<uint8_t>(lost));
    bool dropped = false;
    pair.pipe.set_filter([&](int from, std::vector<std::byte>& bytes) {
      if (from != 0 || dropped || load_be<uint16_t>(bytes.data() + 28) != lost) return Verdict::kPass;
      dropped = true;
      return Verdict::kDrop;
    });
    ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 1024)}), PostResult::kOk);
    post(*qps[0], 0, 1000, 1);
    pair.run(20'000);
    ASSERT_TRUE(dropped);
    expect_all_good(0, 1);
    expect_all_good(1, 1);
    EXPECT_EQ(pair.side(1).bytes_at(0, 1000), pair.side(0).bytes_at(0, 1000));
    // The pipe records cells that passed: the dropped cell appears once, with its original numbers.
    size_t seen = 0;
    for (const TracedCell* cell : pair.pipe.sent_by(0, Opcode::kSend)) {
      EXPECT_EQ(cell->view.psn, Psn(100));
      seen += cell->view.cell_number == lost ? 1 : 0;
    }
    EXPECT_GE(seen, 1U);
  }
}

TEST_F(SanXport, SAN_XPORT_08_a_suppressed_ack_makes_the_cell_come_again) {
  covers("SAN-XPORT-08");
  auto qps = pair.connect({.type = QpType::kRc});
  int suppressed = 0;
  pair.pipe.set_filter([&](int from, std::vector<std::byte>&) {
    return from == 1 && suppressed++ == 0 ? Verdict::kDrop : Verdict::kPass;
  });
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 1024)}), PostResult::kOk);
  post(*qps[0], 0, 100, 1);
  pair.run(20'000);
  EXPECT_GE(pair.pipe.sent_by(0, Opcode::kSend).size(), 2U);
  expect_all_good(0, 1);
  expect_all_good(1, 1);  // delivered once
}

TEST_F(SanXport, SAN_XPORT_04_loss_and_late_receivers_stay_unseen) {
  covers("SAN-XPORT-04");
  auto qps = pair.connect({.type = QpType::kRc, .send_wqes = 64, .recv_wqes = 64});
  SeededRandom random(4);
  pair.pipe.set_filter([&](int, std::vector<std::byte>&) {
    if (random.chance_ppm(50'000)) return Verdict::kDrop;
    return random.chance_ppm(20'000) ? Verdict::kTwice : Verdict::kPass;
  });
  uint64_t posted = 0;
  uint64_t received = 0;
  constexpr uint64_t kMessages = 400;
  while (pair.side(1).completions.size() < kMessages &&
         pair.clock.now() < Instant(std::chrono::seconds(60))) {
    while (posted < kMessages && posted < pair.side(0).completions.size() + 32) {
      pair.side(0).fill(static_cast<uint32_t>(posted % 32) * 1024, 700, static_cast<uint8_t>(posted));
      post(*qps[0], static_cast<uint32_t>(posted % 32) * 1024, 700, posted);
      ++posted;
    }
    pair.run(20);  // the receive WQE is posted late on purpose
    while (received < kMessages && received < pair.side(1).completions.size() + 3) {
      ASSERT_EQ(pair.post_recv(1, *qps[1], received,
                               {pair.side(1).sge(static_cast<uint32_t>(received) * 1024, 1024)}),
                PostResult::kOk);
      ++received;
    }
  }
  pair.run(20'000);
  expect_all_good(0, kMessages);
  expect_all_good(1, kMessages);
  for (uint64_t i = 0; i < kMessages; ++i) {
    EXPECT_EQ(pair.side(1).completions[i].wr_id, i);
    EXPECT_EQ(pair.side(1).completions[i].byte_count, 700U);
    EXPECT_EQ(pair.side(1).memory[i * 1024], static_cast<std::byte>(i)) << i;
    EXPECT_EQ(pair.side(1).memory[i * 1024 + 699], static_cast<std::byte>(i + 699 * 7 + (699 >> 8))) << i;
  }
}

TEST_F(SanXport, SAN_XPORT_06_acknowledged_before_the_consumer_looks) {
  covers("SAN-XPORT-06");
  auto qps = pair.connect({.type = QpType::kRc});
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 1024)}), PostResult::kOk);
  post(*qps[0], 0, 100, 1);
  for (int i = 0; i < 50; ++i) {  // side 1's consumer never polls its CQ
    adapter(0).poll(pair.clock.now());
    adapter(1).poll(pair.clock.now());
    pair.clock.advance(std::chrono::microseconds(10));
  }
  EXPECT_FALSE(pair.pipe.sent_by(1, Opcode::kAck).empty());
}

TEST_F(SanXport, SAN_XPORT_07_one_ack_per_cell_in_strict_mode) {
  covers("SAN-XPORT-07");
  auto qps = pair.connect({.type = QpType::kRc, .ack_mode = AckMode::kStrict});
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 4096)}), PostResult::kOk);
  post(*qps[0], 0, 2000, 1);
  pair.run();
  const auto requests = pair.pipe.sent_by(0, Opcode::kSend);
  const auto acks = pair.pipe.sent_by(1, Opcode::kAck);
  ASSERT_EQ(requests.size(), 8U);
  ASSERT_EQ(acks.size(), 8U);
  for (size_t i = 0; i < acks.size(); ++i) EXPECT_EQ(acks[i]->view.ack.cell_number, i);
}

TEST_F(SanXport, SAN_FRAME_04_an_ack_fits_one_conformance_flit) {
  covers("SAN-FRAME-04");
  auto qps = pair.connect({.type = QpType::kRc});
  SeededRandom random(9);
  pair.pipe.set_filter([&](int from, std::vector<std::byte>&) {
    return from == 0 && random.chance_ppm(200'000) ? Verdict::kDrop : Verdict::kPass;
  });
  for (uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(0, 8192)}), PostResult::kOk);
    post(*qps[0], 0, 6000, i);
  }
  pair.run(50'000);
  expect_all_good(1, 20);
  for (const TracedCell* cell : pair.pipe.sent_by(1)) EXPECT_LE(cell->bytes.size(), 96U);
}

TEST_F(SanXport, SAN_XPORT_11_rd_repairs_losses_to_each_of_many_nodes) {
  covers("SAN-XPORT-11");
  const QpConfig config{.type = QpType::kRd};
  QueuePair* from = pair.make_qp(0, config);
  pair.bring_up(0, *from, config, Qpn(0), Lid(0), Psn(1), Psn(0));
  std::vector<QueuePair*> peers;
  SeededRandom random(5);
  pair.pipe.set_filter([&](int, std::vector<std::byte>&) {
    return random.chance_ppm(50'000) ? Verdict::kDrop : Verdict::kPass;
  });
  for (int i = 0; i < 3; ++i) {
    peers.push_back(pair.make_qp(1, config));
    pair.bring_up(1, *peers.back(), config, Qpn(0), Lid(0), Psn(1), Psn(0));
    for (uint64_t m = 0; m < 10; ++m) {
      ASSERT_EQ(pair.post_recv(1, *peers.back(), m, {pair.side(1).sge(0, 256)}), PostResult::kOk);
    }
  }
  for (uint64_t m = 0; m < 10; ++m) {
    for (QueuePair* peer : peers) {
      post(*from, 0, 200, m, {.lid = Lid(2), .qpn = adapter(1).qpn(*peer), .qkey = AdapterPair::kQkey});
    }
    pair.run(2000);
  }
  pair.run(50'000);
  expect_all_good(0, 30);
  expect_all_good(1, 30);
}

TEST_F(SanXport, SAN_XPORT_12_queue_pairs_share_the_numbers_of_a_context) {
  covers("SAN-XPORT-12 PUSH-CELL-10");
  QueuePair* from[2] = {rd_qp(0), rd_qp(0)};
  QueuePair* to[2] = {rd_qp(1), rd_qp(1)};
  for (int i = 0; i < 2; ++i) {
    for (int n = 0; n < 3; ++n) {
      ASSERT_EQ(pair.post_recv(1, *to[i], 7, {pair.side(1).sge(0, 64)}), PostResult::kOk);
      post(*from[i], 0, 64, 1, {.lid = Lid(2), .qpn = adapter(1).qpn(*to[i]), .qkey = AdapterPair::kQkey});
    }
  }
  pair.run(50);
  EXPECT_EQ(pair.side(0).completions.size(), 6U);
  EXPECT_EQ(pair.side(1).completions.size(), 6U);
  const auto cells = pair.pipe.sent_by(0, Opcode::kRdSend);
  ASSERT_EQ(cells.size(), 6U);
  bool both = false;
  for (size_t i = 1; i < cells.size(); ++i) {
    EXPECT_EQ(cells[i]->view.psn, cells[i - 1]->view.psn.plus(1));
    EXPECT_EQ(cells[i]->view.cell_number, 0U) << "each packet is one cell";
    both |= cells[i]->view.src_qpn != cells[i - 1]->view.src_qpn;
  }
  EXPECT_TRUE(both);
}

TEST(SanXportLimits, SAN_XPORT_12_no_context_left_refuses_a_new_peer) {
  covers("SAN-XPORT-12");
  AdapterLimits limits;
  limits.rd_contexts = 1;
  AdapterPair pair(256, limits);
  const QpConfig config{.type = QpType::kRd};
  QueuePair* qp = pair.make_qp(0, config);
  QueuePair* peer = pair.make_qp(1, config);
  pair.bring_up(0, *qp, config, Qpn(0), Lid(0), Psn(0), Psn(0));
  pair.bring_up(1, *peer, config, Qpn(0), Lid(0), Psn(0), Psn(0));
  ASSERT_EQ(pair.post_recv(1, *peer, 7, {pair.side(1).sge(0, 64)}), PostResult::kOk);
  const Sge sge = pair.side(0).sge(0, 64);
  for (const Lid lid : {Lid(2), Lid(3)}) {
    const Destination dest{.lid = lid, .qpn = pair.side(1).adapter->qpn(*peer), .qkey = AdapterPair::kQkey};
    ASSERT_EQ(pair.side(0).adapter->post_send(*qp, {.wr_id = lid.value(), .sges = {&sge, 1}, .dest = dest}),
              PostResult::kOk);
    pair.run(20);
  }
  ASSERT_EQ(pair.side(0).completions.size(), 2U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(pair.side(0).completions[1].status, WcStatus::kLocalEecOperation);
}

TEST_F(SanXport, SAN_XPORT_14_ud_neither_repeats_nor_reports) {
  covers("SAN-XPORT-14");
  const QpConfig config{.type = QpType::kUd};
  QueuePair* from = pair.make_qp(0, config);
  QueuePair* to = pair.make_qp(1, config);
  pair.bring_up(0, *from, config, Qpn(0), Lid(0), Psn(1), Psn(0));
  pair.bring_up(1, *to, config, Qpn(0), Lid(0), Psn(1), Psn(0));
  std::array<int, 2> sent{};
  pair.pipe.set_filter([&sent](int side, std::vector<std::byte>&) {
    ++sent[static_cast<size_t>(side)];
    return Verdict::kDrop;
  });
  ASSERT_EQ(pair.post_recv(1, *to, 7, {pair.side(1).sge(0, 256)}), PostResult::kOk);
  post(*from, 0, 100, 1, {.lid = Lid(2), .qpn = adapter(1).qpn(*to), .qkey = AdapterPair::kQkey});
  pair.run(50'000);
  expect_all_good(0, 1);
  EXPECT_TRUE(pair.side(1).completions.empty());
  EXPECT_EQ(sent[0], 1) << "lost, and not sent again";
  EXPECT_EQ(sent[1], 0) << "the receiver sends no report";
}

/// The catalogue (section 2) maps TPT's transports: TCP and SCTP are RC, UDP is UD.
TEST_F(SanXport, TPT_XPORT_01_rc_is_tied_to_one_peer_and_ud_is_connectionless_and_low_in_state) {
  covers("TPT-XPORT-01");
  const auto qps = pair.connect({.type = QpType::kRc});
  const auto others = pair.connect({.type = QpType::kRc});
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 64)}), PostResult::kOk);
  // Redirect a cell of one queue pair to another queue pair that is bound to its neighbour.
  std::vector<std::byte> misled;
  pair.pipe.set_filter([&](int from, std::vector<std::byte>& bytes) {
    if (from == 0) misled = bytes;
    return from == 0 ? Verdict::kDrop : Verdict::kPass;
  });
  post(*others[0], 0, 32, 1);
  pair.run(1);
  pair.pipe.set_filter({});
  ASSERT_FALSE(misled.empty());
  const uint32_t beside = load_be<uint32_t>(misled.data() + 16) & 0xFF00'0000U;
  store_be(misled.data() + 16, beside | adapter(1).qpn(*qps[1]).value());
  pair.pipe.inject(1, misled);
  pair.run(1);
  EXPECT_EQ(adapter(1).counters().get(AdapterCounter::kDropSource), 1U);
  EXPECT_TRUE(pair.side(1).completions.empty());
  post(*qps[0], 0, 32, 2);
  pair.run(20);
  expect_all_good(0, 1);
  expect_all_good(1, 1);

  // UD: no connection, any number of peers, no state for any of them, no report of a loss.
  const auto bytes_for = [&](QpType type) {
    const QpConfig config{.type = type, .send_wqes = 1, .recv_wqes = 1, .sges = 1};
    const uint64_t before = allocated_bytes();
    QueuePair* qp = pair.make_qp(0, config);
    pair.bring_up(0, *qp, config, Qpn(77), Lid(2), Psn(1), Psn(2));
    return std::pair(qp, allocated_bytes() - before);
  };
  const auto [ud, ud_bytes] = bytes_for(QpType::kUd);
  EXPECT_LT(ud_bytes, bytes_for(QpType::kRc).second);
  pair.side(0).completions.clear();
  pair.pipe.clear_trace();
  for (uint16_t lid = 10; lid < 60; ++lid) {
    post(*ud, 0, 32, lid, {.lid = Lid(lid), .qpn = Qpn(0x222), .qkey = AdapterPair::kQkey});
    adapter().poll(pair.clock.now());
    std::array<WorkCompletion, 2> got;
    ASSERT_EQ(adapter().cqs().poll(*pair.side(0).cq, got), 1U);
    EXPECT_EQ(got[0].status, WcStatus::kSuccess) << "sent, whatever becomes of it";
  }
  EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kUdSend).size(), 50U);

  // Management software uses UD: only a UD queue pair can have the management number.
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kRd, QpType::kUd}) {
    const QpConfig config{.type = type,
                          .pd = pair.side(0).pd,
                          .send_cq = pair.side(0).cq,
                          .recv_cq = pair.side(0).cq,
                          .wanted_qpn = kQpnGsi};
    EXPECT_EQ(adapter().create_qp(config).ok(), type == QpType::kUd);
  }
}

/// UD needs no end-to-end context: it reaches any number of nodes on an adapter without contexts.
TEST(SanXportLimits, SAN_XPORT_14_ud_needs_no_context) {
  covers("SAN-XPORT-14");
  AdapterLimits limits;
  limits.rd_contexts = 0;
  AdapterPair pair(256, limits);
  const QpConfig config{.type = QpType::kUd};
  QueuePair* qp = pair.make_qp(0, config);
  pair.bring_up(0, *qp, config, Qpn(0), Lid(0), Psn(1), Psn(0));
  const Sge sge = pair.side(0).sge(0, 64);
  for (uint16_t lid = 2; lid < 102; ++lid) {
    const Destination dest{.lid = Lid(lid), .qpn = Qpn(0x222), .qkey = AdapterPair::kQkey};
    ASSERT_EQ(pair.side(0).adapter->post_send(*qp, {.sges = {&sge, 1}, .dest = dest}), PostResult::kOk);
    pair.run(1);
  }
  EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kUdSend).size(), 100U);
  EXPECT_EQ(pair.side(0).completions.size(), 100U);
  EXPECT_EQ(pair.side(0).adapter->counters().get(AdapterCounter::kDropRdContext), 0U);
}

TEST_F(SanXport, SAN_XPORT_09_receiver_not_ready_is_refused_and_retried) {
  covers("SAN-XPORT-09");
  auto qps = pair.connect({.type = QpType::kRc});
  post(*qps[0], 0, 600, 1);
  pair.run(100);
  const auto naks = pair.pipe.sent_by(1, Opcode::kNak);
  ASSERT_FALSE(naks.empty());
  EXPECT_EQ(naks[0]->view.ack.code, AckCode::kReceiverNotReady);
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 1024)}), PostResult::kOk);
  pair.run(20'000);
  expect_all_good(0, 1);
  expect_all_good(1, 1);
}

}  // namespace
}  // namespace weft::test
