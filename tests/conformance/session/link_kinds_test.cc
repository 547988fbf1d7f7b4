// Rows that depend on the link, over every kind of link: memory, shared memory, ZeroMQ. Adapters around a
// switch, with sessions between two of them.
#include <algorithm>

#include "tests/support/adapter_star.h"
#include "tests/support/requirement.h"
#include "tests/support/session_pair.h"

namespace weft::test {
using namespace session;
namespace {

class LinkKinds : public OverLinks {
 protected:
  [[nodiscard]] TestFabricConfig fabric_of(uint32_t nodes, uint32_t flit_payload_bytes = 0,
                                           uint32_t credits = 32) const {
    TestFabricConfig config = OverLinks::fabric_of(nodes, flit_payload_bytes, credits);
    config.switching.link.cut_through = true;
    return config;
  }
};
class PushCellLinks : public LinkKinds {};
class PushChanLinks : public LinkKinds {};
class SanXportLinks : public LinkKinds {};
class SanRmpLinks : public LinkKinds {};
class SanSemLinks : public LinkKinds {};
class SessionLinks : public LinkKinds {
 protected:
  /// Streams `frames` numbered frames each way at the same time to slow readers and checks them.
  /// @return the acknowledgement cells on the host's link; counted on links of whole cells only
  size_t both_ways(const SessionPairOptions& options, uint32_t frames, uint32_t frame_bytes);
};
INSTANTIATE_TEST_SUITE_P(Links, PushCellLinks, kEveryLink, link_name);
INSTANTIATE_TEST_SUITE_P(Links, PushChanLinks, kEveryLink, link_name);
INSTANTIATE_TEST_SUITE_P(Links, SanXportLinks, kEveryLink, link_name);
INSTANTIATE_TEST_SUITE_P(Links, SanRmpLinks, kEveryLink, link_name);
INSTANTIATE_TEST_SUITE_P(Links, SanSemLinks, kEveryLink, link_name);
INSTANTIATE_TEST_SUITE_P(Links, SessionLinks, kEveryLink, link_name);

/// The cells that one end sent on a link; on these links a flit is a whole cell.
std::vector<CellView> cells_of(const std::vector<TracedFlit>& flits, Opcode opcode) {
  std::vector<CellView> out;
  for (const TracedFlit& flit : flits) {
    CellView view;
    EXPECT_EQ(decode_cell(flit.payload, CrcCheck::kVerify, view), CellError::kNone);
    if (view.opcode == opcode) out.push_back(view);
  }
  return out;
}

TEST_P(PushCellLinks, PUSH_CELL_cells_cross_as_they_were_made) {
  covers("PUSH-CELL-01 PUSH-CELL-02 PUSH-CELL-07 PUSH-CELL-09 PUSH-CELL-10 PUSH-CELL-11 SAN-SW-01");
  AdapterStar star(fabric_of(2));
  const auto qps = star.connect({.idata_takes_recv_wqe = false});
  for (auto& trace : star.fabric.traces) trace->clear();
  star.side(0).fill(0, 600, 5);
  const adapter::MemoryRegion& target = star.side(1).region;
  const adapter::Sge sge = star.side(0).sge(0, 600);
  ASSERT_EQ(star.side(0).adapter->post_send(*qps[0], {.wr_id = 1,
                                                      .opcode = adapter::SendOpcode::kRdmaWriteWithImm,
                                                      .sges = {&sge, 1},
                                                      .imm = 0x07050100,
                                                      .remote_addr = target.addr + 64,
                                                      .rkey = target.rkey}),
            adapter::PostResult::kOk);
  star.run(50);
  EXPECT_EQ(star.side(1).bytes_at(64, 600), star.side(0).bytes_at(0, 600));
  ASSERT_EQ(star.side(1).completions.size(), 1U);
  EXPECT_EQ(star.side(1).completions[0].imm, 0x07050100U);
  const std::vector<TracedFlit> sent = star.fabric.traces[0]->data(kNode);
  const std::vector<TracedFlit> forwarded = star.fabric.traces[1]->data(kSwitch);
  const std::vector<CellView> cells = cells_of(sent, Opcode::kRdmaWrite);
  ASSERT_EQ(cells.size(), 3U);
  ASSERT_EQ(forwarded.size(), 3U);
  const std::array<size_t, 3> cell_bytes{304, 292, 128};  // LAY-CELL, without packet CRC
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(sent[i].payload.size(), cell_bytes[i]);
    EXPECT_EQ(sent[i].payload, forwarded[i].payload);
    EXPECT_EQ(cells[i].dlid, Lid(2));
    EXPECT_EQ(cells[i].slid, Lid(1));
    EXPECT_EQ(cells[i].dest_qpn, star.side(1).adapter->qpn(*qps[1]));
    EXPECT_EQ(cells[i].src_qpn, star.side(0).adapter->qpn(*qps[0]));
    EXPECT_EQ(cells[i].psn, Psn(100));
    EXPECT_EQ(cells[i].cell_number, i);
    EXPECT_EQ(cells[i].has(kCellVa), i == 0);
    EXPECT_EQ(cells[i].has(kCellIdata), i == 2);
  }
}

TEST_P(PushCellLinks, PUSH_CELL_03_one_cell_up_to_256_bytes) {
  covers("PUSH-CELL-03 PUSH-CELL-04");
  AdapterStar star(fabric_of(2));
  const auto qps = star.connect({});
  for (const uint32_t bytes : {1U, 255U, 256U, 257U, 512U, 513U}) {
    star.fabric.traces[0]->clear();
    star.side(0).fill(0, bytes, static_cast<uint8_t>(bytes));
    ASSERT_EQ(star.post_recv(1, *qps[1], bytes, {star.side(1).sge(0, 1024)}), adapter::PostResult::kOk);
    const adapter::Sge sge = star.side(0).sge(0, bytes);
    ASSERT_EQ(star.side(0).adapter->post_send(*qps[0], {.sges = {&sge, 1}}), adapter::PostResult::kOk);
    star.run(50);
    EXPECT_EQ(cells_of(star.fabric.traces[0]->data(kNode), Opcode::kSend).size(), (bytes + 255) / 256);
    ASSERT_FALSE(star.side(1).completions.empty());
    EXPECT_EQ(star.side(1).completions.back().byte_count, bytes);
    EXPECT_EQ(star.side(1).bytes_at(0, bytes), star.side(0).bytes_at(0, bytes));
  }
  EXPECT_EQ(star.side(1).completions.size(), 6U);
}

TEST_P(PushChanLinks, PUSH_CHAN_all_four_kinds_of_channel_carry_messages) {
  covers("PUSH-CHAN-01 PUSH-CHAN-02 PUSH-CHAN-03 PUSH-CHAN-04 PUSH-CHAN-05 PUSH-CHAN-06 SAN-XPORT-01");
  for (const adapter::QpType type :
       {adapter::QpType::kRc, adapter::QpType::kUc, adapter::QpType::kRd, adapter::QpType::kUd}) {
    AdapterStar star(fabric_of(2));
    const adapter::QpConfig config{.type = type};
    const auto qps = star.connect(config);
    const uint32_t bytes = adapter::is_connected(type) ? 600 : 200;
    for (int from = 0; from < 2; ++from) {
      const auto f = static_cast<size_t>(from);
      star.side(from).fill(0, bytes, static_cast<uint8_t>(7 + from));
      ASSERT_EQ(star.post_recv(1 - from, *qps[1 - f], 7, {star.side(1 - from).sge(4096, 1024)}),
                adapter::PostResult::kOk);
      const adapter::Destination dest{.lid = Lid(static_cast<uint16_t>(2 - from)),
                                      .qpn = star.side(1 - from).adapter->qpn(*qps[1 - f]),
                                      .qkey = AdapterSides::kQkey};
      const adapter::Sge sge = star.side(from).sge(0, bytes);
      ASSERT_EQ(star.side(from).adapter->post_send(*qps[f], {.wr_id = 1, .sges = {&sge, 1}, .dest = dest}),
                adapter::PostResult::kOk);
    }
    star.run(100);
    for (int at = 0; at < 2; ++at) {
      EXPECT_EQ(star.side(at).completions.size(), 2U) << "one sent, one received";
      for (const adapter::WorkCompletion& done : star.side(at).completions)
        EXPECT_EQ(done.status, adapter::WcStatus::kSuccess);
      EXPECT_EQ(star.side(at).bytes_at(4096, bytes), star.side(1 - at).bytes_at(0, bytes));
    }
    const bool acknowledged =
        star.side(1).adapter->counters(*qps[1]).get(adapter::QpCounter::kAcksSent) != 0 ||
        !cells_of(star.fabric.traces[1]->data(kNode), Opcode::kAck).empty();
    EXPECT_EQ(acknowledged, adapter::is_acknowledged(type));
    if (adapter::is_connected(type)) {
      for (const CellView& cell : cells_of(star.fabric.traces[0]->data(kNode), Opcode::kSend))
        EXPECT_EQ(cell.dest_qpn, star.side(1).adapter->qpn(*qps[1])) << "the bound queue pair";
    } else {
      const adapter::Sge sge = star.side(0).sge(0, bytes);
      EXPECT_EQ(star.side(0).adapter->post_send(*qps[0], {.wr_id = 2, .sges = {&sge, 1}}),
                adapter::PostResult::kNoDestination);
    }
  }
}

TEST_P(SanSemLinks, SAN_SEM_03_command_by_send_data_by_rdma_completion_by_send) {
  covers("SAN-SEM-03");
  AdapterStar star(fabric_of(2));
  const auto qps = star.connect({});
  PairSide& host = star.side(0);
  PairSide& unit = star.side(1);
  const auto send = [&](int from, uint32_t offset, uint32_t bytes) {
    const adapter::Sge sge = star.side(from).sge(offset, bytes);
    return star.side(from).adapter->post_send(*qps[static_cast<size_t>(from)], {.sges = {&sge, 1}});
  };
  // A disk write: the command names 1000 bytes of the host's memory by address and key.
  host.fill(4096, 1000, 6);
  store_be(host.memory.data(), host.region.addr + 4096);
  store_be(host.memory.data() + 8, host.region.rkey.value());
  ASSERT_EQ(star.post_recv(0, *qps[0], 70, {host.sge(512, 64)}), adapter::PostResult::kOk);
  ASSERT_EQ(star.post_recv(1, *qps[1], 71, {unit.sge(0, 64)}), adapter::PostResult::kOk);
  for (auto& trace : star.fabric.traces) trace->clear();
  ASSERT_EQ(send(0, 0, 12), adapter::PostResult::kOk);
  star.run(20);
  ASSERT_EQ(unit.completions.size(), 1U);
  // The unit fetches the data itself; the host's process takes no part.
  const adapter::Sge sink = unit.sge(8192, 1000);
  ASSERT_EQ(unit.adapter->post_send(*qps[1], {.wr_id = 2,
                                              .opcode = adapter::SendOpcode::kRdmaRead,
                                              .sges = {&sink, 1},
                                              .remote_addr = load_be<uint64_t>(unit.memory.data()),
                                              .rkey = Rkey(load_be<uint32_t>(unit.memory.data() + 8))}),
            adapter::PostResult::kOk);
  star.run(50);
  ASSERT_EQ(unit.completions.size(), 2U);
  EXPECT_EQ(unit.bytes_at(8192, 1000), host.bytes_at(4096, 1000));
  EXPECT_EQ(host.completions.size(), 1U) << "its own Send, nothing of the transfer";
  ASSERT_EQ(send(1, 0, 8), adapter::PostResult::kOk);
  star.run(20);
  ASSERT_EQ(host.completions.size(), 2U);
  EXPECT_EQ(host.completions[1].wr_id, 70U);
  // The cells on the host's link have this order.
  std::vector<Opcode> order;
  for (const TracedFlit& flit : star.fabric.traces[0]->flits) {
    if (flit.fields.kind != FlitKind::kData) continue;
    const Opcode opcode = cells_of({flit}, static_cast<Opcode>(flit.payload[13])).at(0).opcode;
    if (opcode != Opcode::kAck && (order.empty() || order.back() != opcode)) order.push_back(opcode);
  }
  EXPECT_EQ(order, (std::vector<Opcode>{Opcode::kSend, Opcode::kRdmaReadRequest, Opcode::kRdmaReadResponse,
                                        Opcode::kSend}));
}

/// Sends `count` messages of 700 bytes from side 0 to side 1, whose receive WQEs come late, and checks them.
void numbered_messages(AdapterStar& star, const std::array<adapter::QueuePair*, 2>& qps, uint64_t count) {
  PairSide& from = star.side(0);
  PairSide& to = star.side(1);
  uint64_t posted = 0;
  uint64_t received = 0;
  for (int turn = 0; turn < 40'000 && to.completions.size() < count; ++turn) {
    while (posted < count && posted < from.completions.size() + 16) {
      const auto slot = static_cast<uint32_t>(posted % 16) * 1024;
      from.fill(slot, 700, static_cast<uint8_t>(posted));
      const adapter::Sge sge = from.sge(slot, 700);
      ASSERT_EQ(from.adapter->post_send(*qps[0], {.wr_id = posted++, .sges = {&sge, 1}}),
                adapter::PostResult::kOk);
    }
    if (turn % 8 == 0 && received < count && received < to.completions.size() + 4) {
      ASSERT_EQ(star.post_recv(1, *qps[1], received, {to.sge(static_cast<uint32_t>(received) * 1024, 1024)}),
                adapter::PostResult::kOk);
      ++received;
    }
    star.run(1);
  }
  for (int turn = 0; turn < 5000 && from.completions.size() < count; ++turn) star.run(1);
  ASSERT_EQ(to.completions.size(), count);
  ASSERT_EQ(from.completions.size(), count);
  for (uint64_t i = 0; i < count; ++i) {
    EXPECT_EQ(from.completions[i].status, adapter::WcStatus::kSuccess);
    EXPECT_EQ(from.completions[i].wr_id, i);
    EXPECT_EQ(to.completions[i].wr_id, i);
    for (uint32_t at = 0; at < 700; ++at) {
      ASSERT_EQ(to.memory[i * 1024 + at], static_cast<std::byte>(i + at * 7 + (at >> 8))) << i << " " << at;
    }
  }
}

TEST_P(SanXportLinks, SAN_XPORT_04_loss_above_and_below_the_link_engine_stays_unseen) {
  covers("SAN-XPORT-03 SAN-XPORT-04 SAN-XPORT-08 SAN-XPORT-17");
  TestFabricConfig config = fabric_of(2);
  config.faults.corrupt_ppm = config.faults.drop_ppm = 5'000;
  AdapterStar star(config);
  fabric::CellFaults faults;
  faults.drop_ppm = 50'000;
  faults.duplicate_ppm = faults.reorder_ppm = 20'000;
  for (int at = 0; at < 2; ++at) star.set_cell_faults(at, faults);
  const auto qps = star.connect({});
  numbered_messages(star, qps, 100);
  EXPECT_GT(star.cell_fault_counts(1).dropped, 5U);
  EXPECT_GT(star.side(0).adapter->counters(*qps[0]).get(adapter::QpCounter::kCellsRepeated), 0U);
}

TEST_P(SanXportLinks, SAN_FLIT_04_damaged_flits_cost_no_end_to_end_retry) {
  covers("SAN-FLIT-04");
  TestFabricConfig config = fabric_of(2, kFlitPayloadBytesConformance);
  config.faults.corrupt_ppm = 10'000;
  AdapterStar star(config);
  const auto qps = star.connect({});
  PairSide& from = star.side(0);
  for (uint64_t i = 0; i < 60; ++i) {
    ASSERT_EQ(star.post_recv(1, *qps[1], i, {star.side(1).sge(static_cast<uint32_t>(i) * 1024, 1024)}),
              adapter::PostResult::kOk);
    const adapter::Sge sge = from.sge(0, 1000);
    ASSERT_EQ(from.adapter->post_send(*qps[0], {.wr_id = i, .sges = {&sge, 1}}), adapter::PostResult::kOk);
  }
  for (int turn = 0; turn < 20'000 && from.completions.size() < 60; ++turn) star.run(1);
  EXPECT_EQ(from.completions.size(), 60U);
  uint64_t damaged = 0;
  for (uint32_t link = 0; link < 2; ++link) {
    for (const uint32_t end : {kNode, kSwitch}) damaged += star.fabric.fault_counts(link, end).corrupted;
  }
  EXPECT_GT(damaged, 10U);
  for (int at = 0; at < 2; ++at) {
    const auto& counters = star.side(at).adapter->counters(*qps[static_cast<size_t>(at)]);
    for (const adapter::QpCounter c : {adapter::QpCounter::kCellsRepeated, adapter::QpCounter::kTimeouts,
                                       adapter::QpCounter::kDuplicateCells, adapter::QpCounter::kGapsSeen}) {
      EXPECT_EQ(counters.get(c), 0U) << CounterSet<adapter::QpCounter>::label(c);
    }
  }
}

TEST_P(SanXportLinks, SAN_FRAME_04_every_acknowledgement_is_one_flit_on_every_link) {
  covers("SAN-FRAME-04");
  AdapterStar star(fabric_of(2, kFlitPayloadBytesConformance));
  fabric::CellFaults faults;
  faults.drop_ppm = 100'000;  // so that acknowledgements carry selective blocks
  star.set_cell_faults(1, faults);
  const auto qps = star.connect({});
  numbered_messages(star, qps, 40);
  size_t acks = 0;
  for (uint32_t link = 0; link < 2; ++link) {
    for (const TracedFlit& flit : star.fabric.traces[link]->data(link == 0 ? kSwitch : kNode)) {
      // All cells of side 1 are acknowledgements.
      EXPECT_EQ(flit.fields.flags & (kFlitHead | kFlitTail), kFlitHead | kFlitTail);
      ++acks;
    }
  }
  EXPECT_GT(acks, 40U);
}

TEST_P(SanRmpLinks, SAN_RMP_08_three_remote_nodes_use_one_key_and_a_stranger_cannot) {
  covers("SAN-RMP-08");
  TestFabricConfig config = fabric_of(5);
  config.switching.ports = 5;
  AdapterStar star(config);
  PairSide& owner = star.side(0);
  adapter::MemoryTable& table = owner.adapter->memory();
  const Rkey key = table.windows.alloc_rkey(owner.pd).value();
  const uint64_t va = owner.region.addr;
  ASSERT_EQ(
      table.windows.bind_rkey(owner.pd, {key, owner.region.lkey, va, 4096, adapter::Access::kRemoteWrite}),
      adapter::AccessFault::kNone);
  const auto write = [&](int from, adapter::QueuePair& qp, uint32_t offset) {
    const adapter::Sge sge = star.side(from).sge(0, 64);
    return star.side(from).adapter->post_send(qp, {.wr_id = 1,
                                                   .opcode = adapter::SendOpcode::kRdmaWrite,
                                                   .sges = {&sge, 1},
                                                   .remote_addr = va + offset,
                                                   .rkey = key});
  };
  // Ten QPs of the owner's process with their other ends on three nodes, used at the same time.
  std::vector<std::array<adapter::QueuePair*, 2>> qps;
  for (int i = 0; i < 10; ++i) qps.push_back(star.connect({}, {}, 1 + i % 3, 0));
  for (int node = 1; node <= 4; ++node) star.side(node).fill(0, 64, static_cast<uint8_t>(node * 40));
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(write(1 + i % 3, *qps[static_cast<size_t>(i)][0], static_cast<uint32_t>(i) * 64),
              adapter::PostResult::kOk);
  }
  star.run(100);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(owner.bytes_at(static_cast<uint32_t>(i) * 64, 64), star.side(1 + i % 3).bytes_at(0, 64)) << i;
  }
  for (int node = 1; node <= 3; ++node) {
    EXPECT_EQ(star.side(node).completions.size(), node == 1 ? 4U : 3U);
    for (const adapter::WorkCompletion& done : star.side(node).completions)
      EXPECT_EQ(done.status, adapter::WcStatus::kSuccess);
  }
  // Node 4 knows the key, and number and PSN of an owner's QP that is bound to node 1.
  const adapter::QpConfig rc{.type = adapter::QpType::kRc};
  adapter::QueuePair* stranger = star.make_qp(4, rc);
  const adapter::QpAttr bound = owner.adapter->query_qp(*qps[0][1]);
  star.bring_up(4, *stranger, rc, owner.adapter->qpn(*qps[0][1]), Lid(1), Psn(101), bound.sq_psn);
  ASSERT_EQ(write(4, *stranger, 2048), adapter::PostResult::kOk);
  star.run(100);
  EXPECT_EQ(owner.bytes_at(2048, 64), std::vector<std::byte>(64));
  EXPECT_GE(owner.adapter->counters().get(adapter::AdapterCounter::kDropSource), 1U);
  EXPECT_TRUE(star.side(4).completions.empty());
  // The bound peer's connection is unharmed.
  ASSERT_EQ(write(1, *qps[0][0], 2048), adapter::PostResult::kOk);
  star.run(100);
  EXPECT_EQ(owner.bytes_at(2048, 64), star.side(1).bytes_at(0, 64));
}

/// Nodes 1 to 3 have no connection. Each got hold of the key, and node 0 has a datagram QP that allows RDMA.
TEST_P(SanRmpLinks, SAN_RMP_08_any_node_with_the_key_uses_it_by_a_datagram_qp_that_allows_rdma) {
  covers("SAN-RMP-08");
  TestFabricConfig config = fabric_of(4);
  config.switching.ports = 4;
  AdapterStar star(config);
  PairSide& owner = star.side(0);
  adapter::MemoryTable& table = owner.adapter->memory();
  const adapter::QpConfig rd{.type = adapter::QpType::kRd};
  const auto open = [&](int node) {
    adapter::QueuePair* qp = star.make_qp(node, rd);
    star.bring_up(node, *qp, rd, Qpn(), Lid(), Psn(), Psn());
    return qp;
  };
  adapter::QueuePair* const takes = open(0);
  adapter::QueuePair* const closed = open(0);
  ASSERT_EQ(owner.adapter->modify_qp(
                *takes, {.state = adapter::QpState::kRts, .access = adapter::Access::kRemoteWrite},
                adapter::kQpAttrState | adapter::kQpAttrAccess),
            adapter::ModifyResult::kOk);
  const Rkey key = table.windows.alloc_rkey(owner.pd).value();
  ASSERT_EQ(table.windows.bind_rkey(
                owner.pd, {key, owner.region.lkey, owner.region.addr, 4096, adapter::Access::kRemoteWrite}),
            adapter::AccessFault::kNone);
  const auto write = [&](int from, const adapter::QueuePair& to, Rkey with, uint32_t offset) {
    const adapter::Sge sge = star.side(from).sge(0, 64);
    EXPECT_EQ(star.side(from).adapter->post_send(
                  *open(from),
                  {.opcode = adapter::SendOpcode::kRdmaWrite,
                   .sges = {&sge, 1},
                   .remote_addr = owner.region.addr + offset,
                   .rkey = with,
                   .dest = {.lid = Lid(1), .qpn = owner.adapter->qpn(to), .qkey = AdapterSides::kQkey}}),
              adapter::PostResult::kOk);
  };
  const auto last_status = [&](int node) {
    const auto& done = star.side(node).completions;
    return done.empty() ? adapter::WcStatus::kGeneral : done.back().status;
  };
  for (int node = 1; node <= 3; ++node) {
    star.side(node).fill(0, 64, static_cast<uint8_t>(node * 40));
    write(node, *takes, key, static_cast<uint32_t>(node) * 64);
  }
  star.run(100);
  for (int node = 1; node <= 3; ++node) {
    EXPECT_EQ(last_status(node), adapter::WcStatus::kSuccess);
    EXPECT_EQ(owner.bytes_at(static_cast<uint32_t>(node) * 64, 64), star.side(node).bytes_at(0, 64));
  }
  // Without the key, and at a datagram QP that does not allow RDMA, nothing is written.
  const std::vector<std::byte> before = owner.memory;
  write(1, *takes, Rkey(key.value() ^ 0x10), 2048);
  write(2, *closed, key, 2048);
  star.run(100);
  EXPECT_EQ(last_status(1), adapter::WcStatus::kRemoteAccess);
  EXPECT_NE(last_status(2), adapter::WcStatus::kSuccess);
  EXPECT_EQ(star.side(2).completions.size(), 2U);
  EXPECT_TRUE(owner.memory == before);
}

size_t SessionLinks::both_ways(const SessionPairOptions& options, uint32_t frames, uint32_t frame_bytes) {
  SessionPair pair(options);
  std::array<uint32_t, 2> sent{};
  std::array<std::vector<uint32_t>, 2> got;
  for (int turn = 0; turn < 20'000 && (got[0].size() < frames || got[1].size() < frames); ++turn) {
    for (int from = 0; from < 2; ++from) {
      auto& next = sent[static_cast<size_t>(from)];
      for (int burst = 0; burst < 4 && next < frames && pair.send(from, next, frame_bytes); ++burst) ++next;
    }
    pair.turn();
    // A slow reader: one frame every fourth turn.
    for (int at = 0; at < 2 && turn % 4 == 0; ++at) {
      const auto some = pair.receive(at, 1);
      auto& all = got[static_cast<size_t>(at)];
      all.insert(all.end(), some.begin(), some.end());
    }
    pair.expect_conserved();
  }
  for (const auto& all : got) {
    EXPECT_EQ(all.size(), frames);
    for (uint32_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i);
  }
  EXPECT_EQ(pair.host().state(), SessionState::kOpen);
  EXPECT_EQ(pair.host().incarnation(), 1U);
  EXPECT_EQ(pair.fabric->drops(), 0U);
  size_t acknowledgements = 0;
  for (const uint32_t end : {kNode, kSwitch}) {
    if (options.fabric->switching.link.flit_payload_bytes != 0) break;
    acknowledgements += cells_of(pair.fabric->traces[0]->data(end), Opcode::kAck).size();
  }
  return acknowledgements;
}

TEST_P(SessionLinks, PUSH_CTRL_sessions_of_every_mode_move_frames_both_ways) {
  covers("PUSH-CHAN-06 PUSH-CTRL-03");
  for (const TransferMode mode :
       {TransferMode::kRdma, TransferMode::kSendReceive, TransferMode::kSendDataOnly}) {
    for (const MessageEncoding encoding : {MessageEncoding::kCapnp, MessageEncoding::kBytes}) {
      SessionPairOptions options;
      options.mode(mode, encoding);
      options.fabric = fabric_of(2);
      options.fabric->switching.link.cell_payload_bytes = 1024;
      const size_t acknowledgements = both_ways(options, 40, 900);
      EXPECT_EQ(acknowledgements == 0, mode == TransferMode::kSendReceive);
    }
  }
}

TEST_P(SessionLinks, PUSH_WQ_10_nothing_is_lost_with_one_credit_and_four_elements) {
  covers("PUSH-WQ-10 SAN-FLIT-06");
  for (const uint32_t flit_payload : {0U, kFlitPayloadBytesConformance}) {
    SessionPairOptions options;
    options.pools({{2048, 4}});
    options.fabric = fabric_of(2, flit_payload, 1);
    both_ways(options, 60, 1200);
  }
}

}  // namespace
}  // namespace weft::test
