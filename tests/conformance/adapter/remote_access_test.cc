// SAN-RMP, TPT-REMOTE-02 and TPT-LOCAL end to end: two adapters over a traced pipe. A refused access leaves
// memory unchanged, is answered by NAK code 3 and ends in an error CQE (C-23).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "adapter/counters.h"
#include "messages/transport_headers.h"
#include "tests/support/adapter_pair.h"
#include "tests/support/requirement.h"

namespace weft::test {
using namespace adapter;
namespace {

constexpr Access kReadAndWrite = Access::kRemoteRead | Access::kRemoteWrite;

class RemoteAccess : public ::testing::Test {
 protected:
  void SetUp() override { connect(); }

  void connect() {
    config_.idata_takes_recv_wqe = true;
    qps_ = pair_.connect(config_);
    pair_.side(0).completions.clear();
    pair_.side(1).completions.clear();
  }

  void post_write(uint64_t va, Rkey key, uint32_t bytes, SendOpcode opcode = SendOpcode::kRdmaWrite) {
    const Sge sge = pair_.side(0).sge(0, bytes);
    SendRequest request;
    request.wr_id = ++wr_id_;
    request.opcode = opcode;
    request.sges = {&sge, 1};
    request.remote_addr = va;
    request.rkey = key;
    ASSERT_EQ(pair_.side(0).adapter->post_send(*qps_[0], request), PostResult::kOk);
    pair_.run(60);
  }
  [[nodiscard]] WcStatus last_status() {
    return pair_.side(0).completions.empty() ? WcStatus::kGeneral : pair_.side(0).completions.back().status;
  }
  [[nodiscard]] size_t naks(AckCode code) {
    const auto cells = pair_.pipe.sent_by(1, Opcode::kNak);
    return static_cast<size_t>(std::count_if(
        cells.begin(), cells.end(), [code](const TracedCell* c) { return c->view.ack.code == code; }));
  }

  /// Makes a write that must be refused for `reason`: memory unchanged, NAK 3, error CQE, both QPs in error.
  void expect_refused(AccessFault reason, uint64_t va, Rkey key, uint32_t bytes,
                      SendOpcode opcode = SendOpcode::kRdmaWrite) {
    const uint64_t refused_before = pair_.side(1).adapter->access_faults().get(reason);
    pair_.side(0).fill(0, 4096, 0x31);
    const std::vector<std::byte> target = pair_.side(1).memory;
    const std::vector<std::byte> own = pair_.side(0).memory;
    const size_t naks_before = naks(AckCode::kRemoteAccess);
    post_write(va, key, bytes, opcode);
    EXPECT_EQ(pair_.side(1).memory, target) << "memory changed";
    EXPECT_EQ(pair_.side(0).memory, own);
    EXPECT_EQ(last_status(), WcStatus::kRemoteAccess);
    EXPECT_EQ(naks(AckCode::kRemoteAccess), naks_before + 1);
    EXPECT_EQ(pair_.side(1).adapter->access_faults().get(reason), refused_before + 1) << to_string(reason);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(pair_.side(i).adapter->query_qp(*qps_[static_cast<size_t>(i)]).state, QpState::kErr);
    }
    connect();
  }
  void expect_granted(uint64_t va, Rkey key, uint32_t bytes) {
    pair_.side(0).fill(0, bytes, static_cast<uint8_t>(++pattern_));
    post_write(va, key, bytes);
    EXPECT_EQ(last_status(), WcStatus::kSuccess);
    const auto offset = static_cast<uint32_t>(va - target().addr);
    EXPECT_EQ(pair_.side(1).bytes_at(offset, bytes), pair_.side(0).bytes_at(0, bytes));
  }
  [[nodiscard]] const MemoryRegion& target() { return pair_.side(1).region; }
  [[nodiscard]] MemoryTable& table() { return pair_.side(1).adapter->memory(); }
  Rkey bound_key(uint64_t offset, uint64_t length, Access access = kReadAndWrite) {
    const Rkey key = table().windows.alloc_rkey(pair_.side(1).pd).value();
    EXPECT_EQ(table().windows.bind_rkey(pair_.side(1).pd,
                                        {key, target().lkey, target().addr + offset, length, access}),
              AccessFault::kNone);
    return key;
  }

  AdapterPair pair_;
  QpConfig config_;
  std::array<QueuePair*, 2> qps_{};
  uint64_t wr_id_ = 0;
  uint32_t pattern_ = 7;
};
class TptRemoteRc : public RemoteAccess {};
class SanRmpRc : public RemoteAccess {};
class TptLocalRc : public RemoteAccess {};

TEST_F(TptRemoteRc, TPT_REMOTE_02a_no_such_key) {
  covers("TPT-REMOTE-02a");
  expect_granted(target().addr, target().rkey, 100);
  expect_refused(AccessFault::kNotValid, target().addr, Rkey(target().rkey.value() ^ 0x5500), 100);
  const Rkey unbound = table().windows.alloc_rkey(pair_.side(1).pd).value();
  expect_refused(AccessFault::kNotValid, target().addr, unbound, 100);
}

TEST_F(TptRemoteRc, TPT_REMOTE_02b_a_region_s_local_key) {
  covers("TPT-REMOTE-02b");
  expect_refused(AccessFault::kWrongType, target().addr, Rkey(target().lkey.value()), 100);
}

TEST_F(TptRemoteRc, TPT_REMOTE_02c_another_protection_domain) {
  covers("TPT-REMOTE-02c");
  const PdId other = pair_.side(1).adapter->alloc_pd().value();
  const auto region =
      table().regions.reg_mr(other, pair_.side(1).memory, Access::kLocalWrite | kReadAndWrite).value();
  expect_refused(AccessFault::kWrongPd, region.addr, region.rkey, 100);
}

TEST_F(TptRemoteRc, TPT_REMOTE_02d_an_old_instance) {
  covers("TPT-REMOTE-02d");
  const Rkey first = table().windows.alloc_rkey(pair_.side(1).pd).value();
  const BindRequest bind{first, target().lkey, target().addr, 4096, kReadAndWrite};
  Rkey now;
  ASSERT_EQ(table().windows.rebind_window(pair_.side(1).pd, bind, now), AccessFault::kNone);
  expect_granted(target().addr, now, 100);
  expect_refused(AccessFault::kWrongInstance, target().addr, first, 100);
}

TEST_F(TptRemoteRc, TPT_REMOTE_02e_outside_the_window) {
  covers("TPT-REMOTE-02e");
  const Rkey key = bound_key(1000, 200);
  expect_granted(target().addr + 1000, key, 200);
  expect_refused(AccessFault::kOutOfBounds, target().addr + 1000, key, 201);
  expect_refused(AccessFault::kOutOfBounds, target().addr + 999, key, 1);
  expect_refused(AccessFault::kOutOfBounds, target().addr + 1200, key, 1);
}

TEST_F(TptRemoteRc, TPT_REMOTE_02f_the_right_is_missing) {
  covers("TPT-REMOTE-02f");
  const Rkey reads = bound_key(0, 4096, Access::kRemoteRead);
  expect_refused(AccessFault::kRightMissing, target().addr, reads, 100);
  const Rkey writes = bound_key(0, 4096, Access::kRemoteWrite);
  expect_refused(AccessFault::kRightMissing, target().addr, writes, 100, SendOpcode::kRdmaRead);
}

TEST_F(TptRemoteRc, TPT_REMOTE_02e_a_write_of_many_packets_that_leaves_the_window_late_stops_there) {
  covers("TPT-REMOTE-02e");
  const Rkey key = bound_key(0, 20'000);
  pair_.side(0).fill(0, 40'000, 0x44);
  const std::vector<std::byte> beyond = pair_.side(1).bytes_at(20'000, 40'000);
  post_write(target().addr, key, 40'000);
  EXPECT_EQ(last_status(), WcStatus::kRemoteAccess);
  EXPECT_EQ(pair_.side(1).bytes_at(20'000, 40'000), beyond);
}

TEST_F(SanRmpRc, SAN_RMP_09_key_and_address_travel_in_a_message_and_come_back_in_the_operation) {
  covers("SAN-RMP-09");
  const Rkey key = bound_key(64, 20'000);
  const uint64_t va = target().addr + 64;
  // The owner advertises address and key by a Send.
  std::array<std::byte, 12> advertisement;
  store_be<uint64_t>(advertisement.data(), va);
  store_be<uint32_t>(advertisement.data() + 8, key.value());
  std::copy(advertisement.begin(), advertisement.end(), pair_.side(1).memory.begin());
  ASSERT_EQ(pair_.post_recv(0, *qps_[0], 1, {pair_.side(0).sge(8192, 64)}), PostResult::kOk);
  const Sge sge = pair_.side(1).sge(0, 12);
  SendRequest send;
  send.sges = {&sge, 1};
  ASSERT_EQ(pair_.side(1).adapter->post_send(*qps_[1], send), PostResult::kOk);
  pair_.run(40);
  const std::byte* got = pair_.side(0).memory.data() + 8192;
  // The peer uses them for each operation on that range, and each packet of an operation carries them.
  const auto advertised_va = load_be<uint64_t>(got);
  const Rkey advertised_key(load_be<uint32_t>(got + 8));
  const auto pairs_sent = [this] {
    std::vector<std::pair<uint64_t, Rkey>> out;
    for (const TracedCell* cell : pair_.pipe.sent_by(0, Opcode::kRdmaWrite))
      if (cell->view.has(kCellVa)) out.emplace_back(cell->view.va, cell->view.rkey);
    pair_.pipe.clear_trace();
    return out;
  };
  expect_granted(advertised_va, advertised_key, 100);
  EXPECT_EQ(pairs_sent(), (std::vector{std::pair{va, key}}));
  const uint32_t packet = 64 * 256;
  expect_granted(advertised_va + 5, advertised_key, packet + 100);
  EXPECT_EQ(pairs_sent(), (std::vector{std::pair{va + 5, key}, std::pair{va + 5 + packet, key}}));
  const Sge into = pair_.side(0).sge(0, 50);
  SendRequest read;
  read.opcode = SendOpcode::kRdmaRead;
  read.sges = {&into, 1};
  read.remote_addr = advertised_va + 9;
  read.rkey = advertised_key;
  ASSERT_EQ(pair_.side(0).adapter->post_send(*qps_[0], read), PostResult::kOk);
  pair_.run(60);
  EXPECT_EQ(last_status(), WcStatus::kSuccess);
  const auto reads = pair_.pipe.sent_by(0, Opcode::kRdmaReadRequest);
  ASSERT_EQ(reads.size(), 1U);
  ReadRequestWire request;
  ASSERT_EQ(reads[0]->view.payload.size(), sizeof request);
  std::memcpy(&request, reads[0]->view.payload.data(), sizeof request);
  EXPECT_EQ(request.source_address.get(), va + 9);
  EXPECT_EQ(request.source_key.get(), key.value());
}

TEST_F(SanRmpRc, SAN_RMP_10_refused_unless_key_and_range_are_what_is_bound) {
  covers("SAN-RMP-10 PUSH-RDMAW-02");
  const Rkey key = bound_key(0, 100);
  const Rkey other = bound_key(8192, 100);
  expect_refused(AccessFault::kNotValid, target().addr, Rkey(~key.value()), 100);
  expect_refused(AccessFault::kOutOfBounds, target().addr, other, 100);
  expect_refused(AccessFault::kOutOfBounds, target().addr + 4096, key, 100);
  expect_refused(AccessFault::kOutOfBounds, target().addr, key, 101);
  expect_granted(target().addr, key, 100);
}

TEST_F(SanRmpRc, SAN_RMP_12_one_shot_first_good_second_refused) {
  covers("SAN-RMP-12");
  const Rkey key = bound_key(0, 20'000, kReadAndWrite | Access::kOneShot);
  expect_granted(target().addr, key, 20'000);  // many packets of one operation
  expect_refused(AccessFault::kNotValid, target().addr, key, 100);
}

/// On each service and for any order of the packets, the one-shot key serves the first operation completely,
/// and
/// no other operation writes a byte.
TEST_F(SanRmpRc, SAN_RMP_12_one_shot_on_every_service_and_in_any_order) {
  covers("SAN-RMP-12");
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kRd}) {
    config_ = {.type = type, .idata_takes_recv_wqe = false, .packet_bytes = 512};
    qps_ = pair_.connect(config_);
    if (type == QpType::kRd) {
      QpAttr attr;
      attr.access = Access::kRemoteWrite;
      ASSERT_EQ(pair_.side(1).adapter->modify_qp(*qps_[1], attr, kQpAttrAccess), ModifyResult::kOk);
    }
    pair_.side(1).completions.clear();
    std::fill(pair_.side(1).memory.begin(), pair_.side(1).memory.end(), std::byte{0});
    const Rkey key = bound_key(0, 8192, Access::kRemoteWrite | Access::kOneShot);
    const uint32_t bytes = type == QpType::kRd ? 200 : 2000;
    pair_.side(0).fill(0, 2 * bytes, 0x21);
    // The cells of both writes arrive in reverse order if the service allows it.
    if (type == QpType::kRc) {
      pair_.pipe.set_filter(
          [](int from, std::vector<std::byte>&) { return from == 0 ? Verdict::kHold : Verdict::kPass; });
    }
    for (uint32_t i = 0; i < 2; ++i) {
      const Sge sge = pair_.side(0).sge(i * bytes, bytes);
      const Destination dest{
          .lid = Lid(2), .qpn = pair_.side(1).adapter->qpn(*qps_[1]), .qkey = AdapterPair::kQkey};
      ASSERT_EQ(pair_.side(0).adapter->post_send(*qps_[0], {.opcode = SendOpcode::kRdmaWriteWithImm,
                                                            .sges = {&sge, 1},
                                                            .imm = i,
                                                            .remote_addr = target().addr + i * bytes,
                                                            .rkey = key,
                                                            .dest = dest}),
                PostResult::kOk);
    }
    pair_.run(3);
    pair_.pipe.set_filter(nullptr);
    pair_.pipe.release_held(true);
    pair_.run(60);
    ASSERT_EQ(pair_.side(1).completions.size(), 1U) << static_cast<int>(type);
    EXPECT_EQ(pair_.side(1).completions[0].imm, 0U);
    EXPECT_EQ(pair_.side(1).completions[0].byte_count, bytes);
    EXPECT_EQ(pair_.side(1).bytes_at(0, bytes), pair_.side(0).bytes_at(0, bytes));
    EXPECT_EQ(pair_.side(1).bytes_at(bytes, bytes), std::vector<std::byte>(bytes));
    EXPECT_FALSE(table().query(key.value())->valid);
  }
}

/// Every service refuses inbound RDMA, also a request that repeats an old number.
TEST(SanNodeAdapter, SAN_NODE_04_an_endnode_without_inbound_rdma_refuses_it_on_every_way) {
  covers("SAN-NODE-04");
  AdapterLimits limits;
  limits.inbound_rdma = false;
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kRd}) {
    for (const SendOpcode opcode : {SendOpcode::kRdmaWrite, SendOpcode::kRdmaRead}) {
      if (opcode == SendOpcode::kRdmaRead && type != QpType::kRc) continue;
      AdapterPair pair(256, limits);
      const auto qps = pair.connect({.type = type});
      ChannelAdapter& near = *pair.side(0).adapter;
      ChannelAdapter& far = *pair.side(1).adapter;
      QpAttr attr;
      attr.access = kReadAndWrite;
      ASSERT_EQ(far.modify_qp(*qps[1], attr, kQpAttrAccess), ModifyResult::kOk);
      pair.side(0).fill(0, 64, 5);
      pair.side(1).fill(4096, 64, 9);
      const auto before = std::array{pair.side(0).memory, pair.side(1).memory};
      const Sge sge = pair.side(0).sge(0, 64);
      const Destination dest{.lid = Lid(2), .qpn = far.qpn(*qps[1]), .qkey = AdapterPair::kQkey};
      ASSERT_EQ(near.post_send(*qps[0], {.opcode = opcode,
                                         .sges = {&sge, 1},
                                         .remote_addr = pair.side(1).region.addr + 4096,
                                         .rkey = pair.side(1).region.rkey,
                                         .dest = dest}),
                PostResult::kOk);
      pair.run(30);
      const WcStatus told = type == QpType::kUc ? WcStatus::kSuccess : WcStatus::kRemoteInvalidRequest;
      ASSERT_EQ(pair.side(0).completions.size(), 1U);
      EXPECT_EQ(pair.side(0).completions[0].status, told);
      EXPECT_EQ(far.counters(*qps[1]).get(QpCounter::kAccessRefused), 1U);
      EXPECT_TRUE((std::array{pair.side(0).memory, pair.side(1).memory}) == before);
      EXPECT_TRUE(pair.pipe.sent_by(1, Opcode::kRdmaReadResponse).empty());
    }
  }
  // A read that carries the number of a request that was already executed.
  AdapterPair pair(256, limits);
  const auto qps = pair.connect({});
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(8192, 64)}), PostResult::kOk);
  const Sge sge = pair.side(0).sge(0, 64);
  ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.sges = {&sge, 1}}), PostResult::kOk);
  pair.run(20);
  ASSERT_EQ(pair.side(1).completions.size(), 1U);
  std::vector<std::byte> cell = pair.pipe.sent_by(0, Opcode::kSend).at(0)->bytes;
  cell.resize(kCellHeaderBytes + sizeof(ReadRequestWire) + kCrcBytes);
  cell[13] = std::byte{static_cast<uint8_t>(Opcode::kRdmaReadRequest)};
  store_be(cell.data() + 30, static_cast<uint16_t>(sizeof(ReadRequestWire)));
  ReadRequestWire request{};
  request.length.set(64);
  request.source_key.set(pair.side(1).region.rkey.value());
  request.source_address.set(pair.side(1).region.addr);
  std::memcpy(cell.data() + kCellHeaderBytes, &request, sizeof request);
  pair.pipe.inject(1, cell);
  pair.run(20);
  EXPECT_TRUE(pair.pipe.sent_by(1, Opcode::kRdmaReadResponse).empty());
  EXPECT_EQ(pair.side(1).adapter->counters(*qps[1]).get(QpCounter::kAccessRefused), 1U);
}

TEST_F(SanRmpRc, SAN_RMP_06_after_unbind_remote_access_is_refused) {
  covers("SAN-RMP-06");
  const Rkey key = bound_key(0, 100);
  expect_granted(target().addr, key, 100);
  ASSERT_EQ(table().windows.bind_rkey(pair_.side(1).pd, {key, {}, 0, 0, Access::kNone}), AccessFault::kNone);
  expect_refused(AccessFault::kNotValid, target().addr, key, 100);
}

TEST_F(TptLocalRc, TPT_LOCAL_01_segments_are_validated_when_the_wqe_is_processed) {
  covers("TPT-LOCAL-01");
  PairSide& side = pair_.side(0);
  std::array<Sge, 3> segments{side.sge(0, 10), side.sge(20, 10), side.sge(40, 10)};
  const auto post = [&](uint64_t wr_id, std::span<const Sge> sges, SendOpcode opcode = SendOpcode::kSend) {
    SendRequest request;
    request.wr_id = wr_id;
    request.opcode = opcode;
    request.sges = sges;
    request.bind = {side.adapter->memory().windows.alloc_rkey(side.pd).value(), side.region.lkey,
                    side.region.addr, 64, kReadAndWrite};
    return side.adapter->post_send(*qps_[0], request);
  };
  // An operation on data takes several segments; a bind takes none (C-34).
  ASSERT_EQ(pair_.post_recv(1, *qps_[1], 7, {pair_.side(1).sge(0, 64)}), PostResult::kOk);
  EXPECT_EQ(post(1, segments), PostResult::kOk);
  EXPECT_EQ(post(2, {}, SendOpcode::kBindWindow), PostResult::kOk);
  EXPECT_EQ(post(3, segments, SendOpcode::kBindWindow), PostResult::kBadSges);
  EXPECT_EQ(post(3, {}), PostResult::kBadSges);
  pair_.run(20);
  ASSERT_EQ(side.completions.size(), 2U);
  for (const WorkCompletion& done : side.completions) EXPECT_EQ(done.status, WcStatus::kSuccess);
  // The post accepts a request with a bad segment; the fault is reported by the completion of that WQE.
  for (Sge& bad : segments) {
    const Sge good = std::exchange(bad, Sge{bad.addr, bad.length, Lkey(0x1234)});
    ASSERT_EQ(post(5, segments), PostResult::kOk);
    EXPECT_TRUE(side.adapter->cqs().query(*side.cq).fill == 0);
    pair_.run(20);
    EXPECT_EQ(side.completions.back().wr_id, 5U);
    EXPECT_EQ(last_status(), WcStatus::kLocalProtection);
    bad = good;
    connect();
  }
  // The check is made at processing time: this segment's region ends between the post and the processing.
  const auto ending = side.adapter->memory()
                          .regions.reg_mr(side.pd, side.memory, Access::kLocalWrite, {.base_addr = 4096})
                          .value();
  const Sge gone{ending.addr, 64, ending.lkey};
  SendRequest request;
  request.wr_id = 6;
  request.sges = {&gone, 1};
  ASSERT_EQ(side.adapter->post(*qps_[0], request), PostResult::kOk);
  ASSERT_TRUE(side.adapter->memory().regions.dereg_mr(ending.lkey).ok());
  side.adapter->ring_send(*qps_[0]);
  pair_.run(20);
  ASSERT_EQ(side.completions.size(), 1U);
  EXPECT_EQ(last_status(), WcStatus::kLocalProtection);
}

TEST_F(TptLocalRc, TPT_LOCAL_02_each_violated_check_gives_an_error_completion_and_sends_nothing) {
  covers("TPT-LOCAL-02a TPT-LOCAL-02b TPT-LOCAL-02c TPT-LOCAL-02d TPT-LOCAL-02e TPT-LOCAL-02f");
  PairSide& side = pair_.side(0);
  MemoryTable& memory = side.adapter->memory();
  const PdId other = side.adapter->alloc_pd().value();
  const auto foreign = memory.regions.reg_mr(other, side.memory, Access::kLocalWrite).value();
  const auto unreadable =
      memory.regions.reg_mr(side.pd, side.memory, Access::kNoLocalRead | Access::kLocalWrite).value();
  const Lkey old = memory.regions.reg_mr(side.pd, side.memory, Access::kLocalWrite).value().lkey;
  // A freed entry is used again only after all others: register until the old key's entry has a new key.
  ASSERT_TRUE(memory.regions.dereg_mr(old).ok());
  for (uint32_t i = 0; i < side.adapter->limits().keys; ++i) {
    const auto next = memory.regions.reg_mr(side.pd, side.memory, Access::kLocalWrite).value();
    std::byte* at = nullptr;
    const Sge probe{next.addr, 1, old};
    if (memory.checks.check_local(side.pd, probe, AccessKind::kLocalRead, at) == AccessFault::kWrongInstance)
      break;
    ASSERT_TRUE(memory.regions.dereg_mr(next.lkey).ok());
  }
  const std::array<std::pair<AccessFault, Sge>, 6> bad{
      {{AccessFault::kNotValid, {side.region.addr, 64, Lkey(side.region.lkey.value() ^ 0x770)}},
       {AccessFault::kWrongType, {side.region.addr, 64, Lkey(side.region.rkey.value())}},
       {AccessFault::kWrongPd, {foreign.addr, 64, foreign.lkey}},
       {AccessFault::kWrongInstance, {side.region.addr, 64, old}},
       {AccessFault::kOutOfBounds, {side.region.addr + side.region.length - 63, 64, side.region.lkey}},
       {AccessFault::kRightMissing, {unreadable.addr, 64, unreadable.lkey}}}};
  for (const auto& [reason, sge] : bad) {
    for (const SendOpcode opcode : {SendOpcode::kSend, SendOpcode::kRdmaWrite}) {
      const size_t cells_before = pair_.pipe.sent_by(0).size();
      const uint64_t refused_before = side.adapter->access_faults().get(reason);
      SendRequest request;
      request.opcode = opcode;
      request.sges = {&sge, 1};
      request.remote_addr = target().addr;
      request.rkey = target().rkey;
      ASSERT_EQ(side.adapter->post_send(*qps_[0], request), PostResult::kOk);
      pair_.run(20);
      EXPECT_EQ(last_status(), WcStatus::kLocalProtection) << to_string(reason);
      EXPECT_EQ(pair_.pipe.sent_by(0).size(), cells_before) << to_string(reason);
      EXPECT_EQ(side.adapter->access_faults().get(reason), refused_before + 1) << to_string(reason);
      connect();
    }
  }
}

TEST_F(TptLocalRc, TPT_LOCAL_02f_a_receive_needs_local_write) {
  covers("TPT-LOCAL-02f");
  PairSide& owner = pair_.side(1);
  const auto read_only =
      owner.adapter->memory().regions.reg_mr(owner.pd, owner.memory, Access::kNone).value();
  ASSERT_EQ(pair_.post_recv(1, *qps_[1], 9, {Sge{read_only.addr, 4096, read_only.lkey}}), PostResult::kOk);
  const std::vector<std::byte> before = owner.memory;
  pair_.side(0).fill(0, 64, 3);
  const Sge sge = pair_.side(0).sge(0, 64);
  SendRequest request;
  request.sges = {&sge, 1};
  ASSERT_EQ(pair_.side(0).adapter->post_send(*qps_[0], request), PostResult::kOk);
  pair_.run(40);
  EXPECT_EQ(owner.memory, before);
  ASSERT_FALSE(owner.completions.empty());
  EXPECT_EQ(owner.completions.front().status, WcStatus::kLocalProtection);
  EXPECT_EQ(owner.adapter->access_faults().get(AccessFault::kRightMissing), 1U);
  EXPECT_EQ(last_status(), WcStatus::kRemoteOperation);
}

TEST_F(TptLocalRc, TPT_LOCAL_02g_a_bind_request_needs_window_binding) {
  covers("TPT-LOCAL-02g SAN-RMP-05");
  PairSide& side = pair_.side(0);
  MemoryTable& memory = side.adapter->memory();
  const auto closed = memory.regions.reg_mr(side.pd, side.memory, Access::kLocalWrite).value();
  const Rkey key = memory.windows.alloc_rkey(side.pd).value();
  const uint64_t agent_calls = side.adapter->counters().get(AdapterCounter::kAgentCalls);
  SendRequest bind;
  bind.opcode = SendOpcode::kBindWindow;
  bind.bind = {key, side.region.lkey, side.region.addr, 64, kReadAndWrite | Access::kOneShot};
  ASSERT_EQ(side.adapter->post_send(*qps_[0], bind), PostResult::kOk);
  pair_.run(20);
  EXPECT_EQ(last_status(), WcStatus::kSuccess);
  EXPECT_EQ(side.adapter->counters().get(AdapterCounter::kAgentCalls), agent_calls)
      << "no kernel agent in a bind";
  EXPECT_TRUE(memory.query(key.value())->one_touch_enabled);
  SendRequest unbind;
  unbind.opcode = SendOpcode::kUnbindWindow;
  unbind.bind.window = key;
  ASSERT_EQ(side.adapter->post_send(*qps_[0], unbind), PostResult::kOk);
  pair_.run(20);
  EXPECT_EQ(last_status(), WcStatus::kSuccess);
  EXPECT_FALSE(memory.query(key.value()).has_value());
  EXPECT_EQ(side.adapter->counters().get(AdapterCounter::kAgentCalls), agent_calls) << "nor in its end";
  const Rkey second = memory.windows.alloc_rkey(side.pd).value();
  bind.bind = {second, closed.lkey, closed.addr, 64, kReadAndWrite};
  ASSERT_EQ(side.adapter->post_send(*qps_[0], bind), PostResult::kOk);
  pair_.run(20);
  EXPECT_EQ(last_status(), WcStatus::kMwBind);
  EXPECT_FALSE(memory.query(second.value())->valid);
}

TEST_F(TptLocalRc, TPT_LOCAL_03_a_bad_receive_segment_stores_nothing) {
  covers("TPT-LOCAL-03");
  PairSide& owner = pair_.side(1);
  // The good segment before the bad one also stays unchanged.
  ASSERT_EQ(pair_.post_recv(1, *qps_[1], 7, {owner.sge(0, 128), Sge{owner.region.addr, 512, Lkey(0x99)}}),
            PostResult::kOk);
  const std::vector<std::byte> before = owner.memory;
  pair_.side(0).fill(0, 512, 1);
  const Sge sge = pair_.side(0).sge(0, 512);
  SendRequest request;
  request.sges = {&sge, 1};
  ASSERT_EQ(pair_.side(0).adapter->post_send(*qps_[0], request), PostResult::kOk);
  pair_.run(40);
  EXPECT_TRUE(owner.memory == before);
  ASSERT_FALSE(owner.completions.empty());
  EXPECT_EQ(owner.completions.front().wr_id, 7U);
  EXPECT_EQ(owner.completions.front().status, WcStatus::kLocalProtection);
  EXPECT_EQ(owner.adapter->access_faults().get(AccessFault::kNotValid), 1U);
}

TEST_F(TptLocalRc, TPT_LOCAL_03_one_bad_segment_and_nothing_is_transferred) {
  covers("TPT-LOCAL-03");
  PairSide& side = pair_.side(0);
  ASSERT_EQ(pair_.post_recv(1, *qps_[1], 9, {pair_.side(1).sge(0, 4096)}), PostResult::kOk);
  const std::vector<std::byte> before = pair_.side(1).memory;
  const std::array<Sge, 3> mixed{side.sge(0, 600), Sge{side.region.addr, 64, Lkey(0x99)},
                                 side.sge(1000, 600)};
  const size_t cells_before = pair_.pipe.sent_by(0).size();
  SendRequest request;
  request.sges = mixed;
  ASSERT_EQ(side.adapter->post_send(*qps_[0], request), PostResult::kOk);
  pair_.run(40);
  EXPECT_EQ(last_status(), WcStatus::kLocalProtection);
  EXPECT_EQ(pair_.pipe.sent_by(0).size(), cells_before);
  EXPECT_EQ(pair_.side(1).memory, before);
  // With good segments the request is carried out, and a CQE reports it.
  connect();
  ASSERT_EQ(pair_.post_recv(1, *qps_[1], 10, {pair_.side(1).sge(0, 4096)}), PostResult::kOk);
  const std::array<Sge, 2> good{side.sge(0, 600), side.sge(1000, 600)};
  request.sges = good;
  ASSERT_EQ(side.adapter->post_send(*qps_[0], request), PostResult::kOk);
  pair_.run(40);
  EXPECT_EQ(last_status(), WcStatus::kSuccess);
}

}  // namespace
}  // namespace weft::test
