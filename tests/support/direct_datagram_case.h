// tests/support/direct_datagram_case.h -- the fixture of tests of UD over a memory window: a UD queue pair on
// each side.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "messages/window_record.h"
#include "tests/support/direct_pair.h"

namespace weft::test {

class DirectDatagram : public ::testing::Test {
 protected:
  static constexpr uint32_t kReceivesAt = 4096;  // offset of side 1's receives
  static constexpr uint32_t kApart = 512;
  /// A slot holds the largest cell of the pipe: 256 bytes of payload and what stands around them.
  static constexpr uint32_t kSlotBytes = 512;
  static constexpr uint64_t kSlots = 16;

  explicit DirectDatagram(uint32_t slot_bytes = kSlotBytes)
      : pair({.own = {.slots = kSlots, .slot_bytes = slot_bytes, .table_entries = 16}}) {
    for (int i = 0; i < 2; ++i) qps[static_cast<size_t>(i)] = make_qp(i);
    pair.run(1);
    pair.side(0).fill(0, 1024, 17);
  }
  adapter::QueuePair* make_qp(int index, Qpn number = adapter::kQpnAny) {
    const adapter::QpConfig config{.type = adapter::QpType::kUd, .grh_space = true, .wanted_qpn = number};
    adapter::QueuePair* qp = pair.make_qp(index, config);
    pair.bring_up(index, *qp, config, Qpn(0), Lid(1), Psn(1), Psn(1));
    return qp;
  }
  adapter::ChannelAdapter& nic(int index) { return *pair.side(index).adapter; }
  [[nodiscard]] uint64_t dropped(int index, adapter::AdapterCounter counter) {
    return nic(index).counters().get(counter);
  }
  [[nodiscard]] TestPaths& paths(size_t index) { return *pair.paths[index]; }
  [[nodiscard]] Gid gid_of(int index) {
    const fabric::CellPortInfo& info = *nic(index).ports().info(1);
    return make_gid(info.subnet, info.guid);
  }

  void send(uint32_t bytes, const adapter::AhAttr& to = {.dlid = Lid(2)}, adapter::SendRequest request = {}) {
    const adapter::AddressHandle ah = nic(0).make_ah(pair.side(0).pd, to).value();
    const adapter::Sge sge = pair.side(0).sge(0, bytes);
    request.sges = {&sge, 1};
    request.dest = {.qpn = to_qpn != Qpn() ? to_qpn : nic(1).qpn(*qps[1]), .qkey = qkey};
    request.ah = &ah;
    ASSERT_EQ(nic(0).post_send(*qps[0], request), adapter::PostResult::kOk);
  }
  void post_recv(uint32_t bytes, uint32_t place = 0) {
    ASSERT_EQ(pair.post_recv(1, *qps[1], place, {pair.side(1).sge(kReceivesAt + place * kApart, bytes)}),
              adapter::PostResult::kOk);
  }
  /// The first datagram, which asks for the window, goes by the port. Then the window comes up.
  void open_window() {
    send(4);
    pair.run(3);
    ASSERT_EQ(paths(0).claims, 1);
    pair.arrive_at(1);
    pair.run(10);
    ASSERT_EQ(pair.end(0).state(), fabric::WindowState::kUp);
    settle();
  }
  /// Forgets what has happened so far.
  void settle() {
    for (PairSide& side : pair.sides) side.completions.clear();
    cells_before = pair.cells(0);
  }
  [[nodiscard]] uint64_t cells() { return pair.cells(0) - cells_before; }
  [[nodiscard]] std::vector<adapter::WorkCompletion> received() { return pair.take_completions(1); }
  void set(const FaultRule& rule) {
    ASSERT_TRUE(faults.add(rule, pair.clock.now()).ok());
    ASSERT_TRUE(pair.end(0).strike(faults));
    pair.run(3);
  }
  /// A record with this cell, as a peer may write it.
  void put(const std::vector<std::byte>& cell, Qpn to) {
    std::vector<std::byte> record(kDatagramRecordBytes);
    std::ranges::copy(encode_datagram_record(), record.begin());
    record.insert(record.end(), cell.begin(), cell.end());
    ASSERT_EQ(pair.end(0).send(to.value(), 7, record, 0), fabric::FifoPost::kOk);
    pair.end(0).flush();
    pair.run(3);
  }
  /// The cell of a datagram to `to`, as one has left by the port.
  [[nodiscard]] std::vector<std::byte> a_cell() {
    paths(0).offered = false;
    pair.pipe.clear_trace();
    send(8);
    pair.run(3);
    paths(0).offered = true;
    return pair.pipe.sent_by(0).front()->bytes;
  }

  fabric::WindowFaults faults;  // outlives the windows
  DirectPair pair;
  std::array<adapter::QueuePair*, 2> qps{};
  Qpn to_qpn{};  // of the destination; none: that of qps[1]
  uint32_t qkey = AdapterSides::kQkey;
  uint64_t cells_before = 0;
};

}  // namespace weft::test
