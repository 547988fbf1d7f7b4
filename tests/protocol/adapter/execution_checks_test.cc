// A permission may end between the arrival of data and the packet's turn: a one-shot key was used, a window
// was
// unbound, invalidated or bound elsewhere, a right was withdrawn. A request repeated under an old number is
// checked like the first time. All of it on every service.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "adapter/bring_up.h"
#include "adapter/limits.h"
#include "messages/transport_headers.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

constexpr Access kReadWrite = Access::kRemoteRead | Access::kRemoteWrite;

class ExecutionChecks : public ::testing::Test {
 public:
  ChannelAdapter& adapter(int index = 0) { return *pair.side(index).adapter; }
  MemoryTable& table() { return adapter(1).memory(); }
  /// Binds a window over `bytes` of side 1's buffer.
  Rkey bound_key(uint64_t bytes, Access access, uint64_t offset = 0) {
    PairSide& far = pair.side(1);
    const Rkey key = table().windows.alloc_rkey(far.pd).value();
    EXPECT_EQ(
        table().windows.bind_rkey(far.pd, {key, far.region.lkey, far.region.addr + offset, bytes, access}),
        AccessFault::kNone);
    return key;
  }
  void write(QueuePair& qp, uint32_t offset, uint32_t bytes, Rkey key, uint64_t va = 0) {
    pair.side(0).fill(offset, bytes, static_cast<uint8_t>(offset + 1));
    const Sge sge = pair.side(0).sge(offset, bytes);
    ASSERT_EQ(adapter().post_send(qp, {.wr_id = offset,
                                       .opcode = SendOpcode::kRdmaWriteWithImm,
                                       .sges = {&sge, 1},
                                       .imm = offset,
                                       .remote_addr = va != 0 ? va : pair.side(1).region.addr + offset,
                                       .rkey = key}),
              PostResult::kOk);
  }
  void send(QueuePair& qp, SendOpcode opcode = SendOpcode::kSend, Rkey key = {}) {
    const Sge sge = pair.side(0).sge(0, 16);
    ASSERT_EQ(adapter().post_send(qp, {.wr_id = 777, .opcode = opcode, .sges = {&sge, 1}, .rkey = key}),
              PostResult::kOk);
  }
  void withdraw_rights(QueuePair& qp, Access left) {
    QpAttr attr;
    attr.access = left;
    ASSERT_EQ(adapter(1).modify_qp(qp, attr, kQpAttrAccess), ModifyResult::kOk);
  }
  /// Holds those cells of side 0 for which `which` is true; it gets their number from 0.
  void hold(std::function<bool(int)> which) {
    pair.pipe.set_filter([count = 0, which = std::move(which)](int from, std::vector<std::byte>&) mutable {
      return from == 0 && which(count++) ? Verdict::kHold : Verdict::kPass;
    });
  }
  void release(bool reversed = false) {
    pair.pipe.set_filter(nullptr);
    pair.pipe.release_held(reversed);
    pair.run(50);
  }
  /// The immediate data of the writes that side 1 has completions for.
  [[nodiscard]] std::vector<uint32_t> indicated() {
    std::vector<uint32_t> out;
    for (const WorkCompletion& done : pair.side(1).completions) {
      if (done.opcode == WcOpcode::kRdataIndicate) out.push_back(done.imm);
    }
    return out;
  }
  [[nodiscard]] WcStatus status_of(uint64_t wr_id) {
    for (const WorkCompletion& done : pair.side(0).completions) {
      if (done.wr_id == wr_id) return done.status;
    }
    return WcStatus::kGeneral;
  }

  static constexpr QpConfig kPush{.idata_takes_recv_wqe = false};
  AdapterPair pair;
};

TEST_F(ExecutionChecks, a_one_shot_key_serves_the_first_operation_in_turn_whatever_came_first) {
  const auto qps = pair.connect(kPush);
  const Rkey key = bound_key(4096, Access::kRemoteWrite | Access::kOneShot);
  hold([](int) { return true; });
  for (uint32_t i = 0; i < 8; ++i) write(*qps[0], i * 64, 64, key);
  pair.run(3);
  release(true);
  EXPECT_EQ(indicated(), (std::vector<uint32_t>{0}));
  EXPECT_EQ(pair.side(1).bytes_at(0, 64), pair.side(0).bytes_at(0, 64));
  EXPECT_EQ(pair.side(1).bytes_at(64, 448), std::vector<std::byte>(448)) << "nor was anything else written";
  EXPECT_EQ(status_of(0), WcStatus::kSuccess);
  EXPECT_EQ(status_of(64), WcStatus::kRemoteAccess);
}

TEST_F(ExecutionChecks, a_one_shot_key_serves_a_message_whose_packets_come_in_any_order) {
  QpConfig config = kPush;
  config.packet_bytes = 512;
  const auto qps = pair.connect(config);
  const Rkey key = bound_key(4096, Access::kRemoteWrite | Access::kOneShot);
  hold([](int) { return true; });
  write(*qps[0], 0, 2000, key);
  pair.run(3);
  release(true);
  EXPECT_EQ(indicated().size(), 1U);
  EXPECT_EQ(status_of(0), WcStatus::kSuccess);
  EXPECT_EQ(pair.side(1).bytes_at(0, 2000), pair.side(0).bytes_at(0, 2000));
  EXPECT_FALSE(table().query(key.value())->valid);
}

TEST_F(ExecutionChecks, a_one_shot_key_serves_one_of_two_queue_pairs) {
  const auto first = pair.connect(kPush);
  const auto second = pair.connect(kPush);
  const Rkey key = bound_key(4096, Access::kRemoteWrite | Access::kOneShot);
  hold([](int cell) { return cell == 1; });  // the first write's last cell
  write(*first[0], 1024, 512, key);
  pair.run(3);
  write(*second[0], 2048, 64, key);
  pair.run(3);
  EXPECT_EQ(indicated(), (std::vector<uint32_t>{2048}));
  release();
  EXPECT_EQ(indicated(), (std::vector<uint32_t>{2048}));
  EXPECT_EQ(status_of(1024), WcStatus::kRemoteAccess);
  EXPECT_EQ(pair.side(1).bytes_at(1024 + 256, 256), std::vector<std::byte>(256));
}

TEST_F(ExecutionChecks, a_write_whose_permission_has_ended_before_its_turn_is_refused) {
  struct End {
    const char* name;
    WcStatus status;
    void (*end)(ExecutionChecks& at, QueuePair& qp, Rkey key);
  };
  const std::array<End, 5> ends{{
      {"unbound", WcStatus::kRemoteAccess,
       [](ExecutionChecks& at, QueuePair&, Rkey key) {
         ASSERT_EQ(at.table().windows.unbind_rkey(at.pair.side(1).pd, key), AccessFault::kNone);
       }},
      {"invalidated", WcStatus::kRemoteAccess,
       [](ExecutionChecks& at, QueuePair&, Rkey key) {
         ASSERT_EQ(at.table().windows.invalidate(at.pair.side(1).pd, key), AccessFault::kNone);
       }},
      {"bound to other memory", WcStatus::kRemoteAccess,
       [](ExecutionChecks& at, QueuePair&, Rkey key) {
         const PairSide& far = at.pair.side(1);
         ASSERT_EQ(at.table().windows.unbind_rkey(far.pd, key), AccessFault::kNone);
         ASSERT_EQ(at.table().windows.bind_rkey(far.pd, {key, far.region.lkey, far.region.addr + 8192, 4096,
                                                         Access::kRemoteWrite | Access::kZeroBased}),
                   AccessFault::kNone);
       }},
      {"a new instance", WcStatus::kRemoteAccess,
       [](ExecutionChecks& at, QueuePair&, Rkey key) {
         const PairSide& far = at.pair.side(1);
         Rkey now;
         ASSERT_EQ(at.table().windows.rebind_window(far.pd,
                                                    {key, far.region.lkey, far.region.addr, 4096,
                                                     Access::kRemoteWrite | Access::kZeroBased},
                                                    now),
                   AccessFault::kNone);
       }},
      {"the right of the QP", WcStatus::kRemoteInvalidRequest,
       [](ExecutionChecks& at, QueuePair& qp, Rkey) { at.withdraw_rights(qp, Access::kRemoteRead); }},
  }};
  for (const End& one : ends) {
    const auto qps = pair.connect(kPush);
    pair.side(0).completions.clear();
    ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(16384, 64)}), PostResult::kOk);
    const Rkey key = bound_key(4096, Access::kRemoteWrite | Access::kZeroBased);
    const uint64_t refused_before = adapter(1).counters().get(AdapterCounter::kDropAccess);
    hold([](int cell) { return cell != 1; });  // repetitions are held too
    send(*qps[0]);
    write(*qps[0], 64, 64, key, 64);
    pair.run(3);
    ASSERT_EQ(pair.side(1).bytes_at(64, 64), pair.side(0).bytes_at(64, 64)) << "placed out of turn";
    one.end(*this, *qps[1], key);
    release();
    EXPECT_EQ(indicated().size(), 0U) << one.name;
    EXPECT_EQ(status_of(777), WcStatus::kSuccess) << one.name;
    EXPECT_EQ(status_of(64), one.status) << one.name;
    EXPECT_EQ(adapter(1).query_qp(*qps[1]).state, QpState::kErr) << one.name;
    EXPECT_EQ(adapter(1).counters(*qps[1]).get(QpCounter::kAccessRefused), 1U) << one.name;
    EXPECT_EQ(adapter(1).counters().get(AdapterCounter::kDropAccess), refused_before + 1) << one.name;
  }
}

/// The permission ends in the same stream: a Send before the write invalidates the key.
TEST_F(ExecutionChecks, a_write_behind_the_send_that_invalidates_its_key_is_refused) {
  const auto qps = pair.connect(kPush);
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(16384, 64)}), PostResult::kOk);
  const Rkey key = bound_key(4096, Access::kRemoteWrite);
  hold([](int cell) { return cell != 1; });  // repetitions are held too
  send(*qps[0], SendOpcode::kSendWithInvalidate, key);
  write(*qps[0], 64, 64, key);
  pair.run(3);
  release();
  EXPECT_TRUE(indicated().empty());
  EXPECT_EQ(status_of(777), WcStatus::kSuccess);
  EXPECT_EQ(status_of(64), WcStatus::kRemoteAccess);
}

// ---- unacknowledged services --------------------

TEST_F(ExecutionChecks, uc_a_one_shot_key_lives_for_one_whole_message) {
  QpConfig config = kPush;
  config.type = QpType::kUc;
  const auto qps = pair.connect(config);
  const Rkey key = bound_key(65'536, Access::kRemoteWrite | Access::kOneShot);
  write(*qps[0], 0, 40'000, key);
  pair.run(50);
  EXPECT_EQ(indicated().size(), 1U);
  EXPECT_EQ(adapter(1).missed_packets(*qps[1]), 0U);
  EXPECT_EQ(pair.side(1).bytes_at(0, 40'000), pair.side(0).bytes_at(0, 40'000));
  write(*qps[0], 40'000, 64, key);
  pair.run(50);
  EXPECT_EQ(indicated().size(), 1U);
  EXPECT_EQ(adapter(1).missed_packets(*qps[1]), 1U);
  EXPECT_EQ(pair.side(1).bytes_at(40'000, 64), std::vector<std::byte>(64));
}

TEST_F(ExecutionChecks, uc_a_message_whose_permission_ends_in_the_middle_is_missed) {
  QpConfig config = kPush;
  config.type = QpType::kUc;
  for (const bool by_key : {true, false}) {
    const auto qps = pair.connect(config);
    const Rkey key = bound_key(4096, Access::kRemoteWrite);
    hold([](int cell) { return cell != 0; });
    write(*qps[0], 0, 512, key);
    pair.run(3);
    if (by_key) {
      ASSERT_EQ(table().windows.unbind_rkey(pair.side(1).pd, key), AccessFault::kNone);
    } else {
      withdraw_rights(*qps[1], Access::kRemoteRead);
    }
    release();
    EXPECT_TRUE(indicated().empty()) << by_key;
    EXPECT_EQ(adapter(1).missed_packets(*qps[1]), 1U) << by_key;
    EXPECT_EQ(adapter(1).counters(*qps[1]).get(QpCounter::kAccessRefused), 1U) << by_key;
  }
}

/// The receiver enforces the limit of a message too, so no completion reports less than was written.
TEST(ExecutionLimits, a_message_longer_than_the_limit_is_refused) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    AdapterPair pair;
    AdapterLimits limits;
    limits.message_bytes_max = 1000;
    Pipe other(256, Lid(7), Lid(8));
    SeededRandom random(3);
    // Side 1 is built by hand, with a limit that side 0 does not know.
    ChannelAdapter strict({.guid = Guid(5), .limits = limits}, random);
    strict.ports().attach(other.end(1));
    ChannelAdapter lenient({.guid = Guid(6)}, random);
    lenient.ports().attach(other.end(0));
    std::array<ChannelAdapter*, 2> ends{&lenient, &strict};
    std::array<std::vector<std::byte>, 2> memory{std::vector<std::byte>(4096), std::vector<std::byte>(4096)};
    std::array<CompletionQueue*, 2> cqs{};
    std::array<QueuePair*, 2> qps{};
    std::array<MemoryRegion, 2> regions;
    for (size_t i = 0; i < 2; ++i) {
      ends[i]->poll(pair.clock.now());
      const PdId pd = ends[i]->alloc_pd().value();
      cqs[i] = ends[i]->cqs().create(16).value();
      regions[i] =
          ends[i]->memory().regions.reg_mr(pd, memory[i], Access::kLocalWrite | Access::kRemoteWrite).value();
      QpConfig config{.type = type, .pd = pd, .send_cq = cqs[i], .recv_cq = cqs[i]};
      config.idata_takes_recv_wqe = false;
      config.packet_bytes = 512;
      qps[i] = ends[i]->create_qp(config).value();
    }
    for (size_t i = 0; i < 2; ++i) {
      QpAttr attr;
      attr.access = Access::kRemoteWrite;
      attr.dlid = i == 0 ? Lid(8) : Lid(7);
      attr.dest_qpn = ends[1 - i]->qpn(*qps[1 - i]);
      ASSERT_EQ(bring_up(*ends[i], *qps[i], attr), ModifyResult::kOk);
    }
    for (const uint32_t bytes : {1000U, 1001U}) {
      const Sge sge{regions[0].addr, bytes, regions[0].lkey};
      ASSERT_EQ(lenient.post_send(*qps[0], {.opcode = SendOpcode::kRdmaWriteWithImm,
                                            .sges = {&sge, 1},
                                            .remote_addr = regions[1].addr,
                                            .rkey = regions[1].rkey}),
                PostResult::kOk);
      for (int turn = 0; turn < 50; ++turn) {
        for (ChannelAdapter* end : ends) end->poll(pair.clock.now());
        pair.clock.advance(10us);
      }
      std::array<WorkCompletion, 4> got;
      const uint32_t count = strict.cqs().poll(*cqs[1], got);
      EXPECT_EQ(count, bytes == 1000 ? 1U : 0U);
      if (count == 1) {
        EXPECT_EQ(got[0].byte_count, bytes);
      }
      EXPECT_EQ(strict.counters().get(AdapterCounter::kDropLength), bytes == 1000 ? 0U : 1U);
    }
  }
}

// ---- RDMA read --------------------

class RepeatedReads : public ExecutionChecks {
 protected:
  /// A read request built by hand, from the bound peer.
  void request(const std::array<QueuePair*, 2>& qps, Psn psn, uint64_t va, uint32_t bytes, Rkey key) {
    std::vector<std::byte> cell(kCellHeaderBytes + sizeof(ReadRequestWire) + kCrcBytes);
    const CellTemplate fixed = make_cell_template({.dest_subnet = SubnetId(1),
                                                   .src_subnet = SubnetId(1),
                                                   .dlid = Lid(2),
                                                   .slid = Lid(1),
                                                   .vl = VirtualLane(0),
                                                   .sl = ServiceLevel(0),
                                                   .dest_qpn = adapter(1).qpn(*qps[1]),
                                                   .src_qpn = adapter(0).qpn(*qps[0])});
    (void)compose_cell_header(cell.data(), fixed,
                              {.opcode = Opcode::kRdmaReadRequest,
                               .flags = kCellFirst | kCellLast,
                               .psn = psn,
                               .payload_bytes = sizeof(ReadRequestWire)});
    ReadRequestWire wire{};
    wire.length.set(bytes);
    wire.source_key.set(key.value());
    wire.source_address.set(va);
    std::memcpy(cell.data() + kCellHeaderBytes, &wire, sizeof wire);
    pair.pipe.clear_trace();
    pair.pipe.inject(1, cell);
    pair.run(20);
  }
  void request(const std::array<QueuePair*, 2>& qps, Psn psn, uint32_t bytes = 1024) {
    request(qps, psn, pair.side(1).region.addr, bytes, pair.side(1).region.rkey);
  }
  [[nodiscard]] size_t responses() { return pair.pipe.sent_by(1, Opcode::kRdmaReadResponse).size(); }
  uint64_t counted(QueuePair& qp, QpCounter counter) { return adapter(1).counters(qp).get(counter); }
  void read(QueuePair& qp, uint32_t bytes, Rkey key, uint64_t wr_id = 5) {
    const Sge sge = pair.side(0).sge(0, bytes);
    ASSERT_EQ(adapter().post_send(qp, {.wr_id = wr_id,
                                       .opcode = SendOpcode::kRdmaRead,
                                       .sges = {&sge, 1},
                                       .remote_addr = pair.side(1).region.addr,
                                       .rkey = key}),
              PostResult::kOk);
  }
};

TEST_F(RepeatedReads, an_old_number_needs_the_right_of_the_queue_pair) {
  const auto qps = pair.connect({});
  request(qps, Psn(100));
  ASSERT_EQ(responses(), 4U);
  request(qps, Psn(100));
  EXPECT_EQ(responses(), 4U) << "what was executed is served again";
  withdraw_rights(*qps[1], Access::kRemoteWrite);
  request(qps, Psn(100));
  EXPECT_EQ(responses(), 0U);
  EXPECT_EQ(counted(*qps[1], QpCounter::kAccessRefused), 1U);
  EXPECT_EQ(adapter(1).query_qp(*qps[1]).state, QpState::kRts) << "a late copy ends nothing";
}

TEST_F(RepeatedReads, an_old_number_that_was_never_a_read_reads_nothing) {
  const auto qps = pair.connect({});
  request(qps, Psn(99));  // before the first request
  EXPECT_EQ(responses(), 0U);
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(8192, 64)}), PostResult::kOk);
  send(*qps[0]);
  pair.run(20);
  request(qps, Psn(100));  // the number of a Send
  EXPECT_EQ(responses(), 0U);
  EXPECT_EQ(counted(*qps[1], QpCounter::kReadsNotRepeated), 2U);
}

TEST_F(RepeatedReads, a_repeated_read_must_name_the_same_range_and_key) {
  const auto qps = pair.connect({});
  const uint64_t va = pair.side(1).region.addr;
  const Rkey key = bound_key(4096, kReadWrite);
  request(qps, Psn(100), va, 512, key);
  ASSERT_EQ(responses(), 2U);
  request(qps, Psn(100), va + 1, 512, key);
  EXPECT_EQ(responses(), 0U);
  request(qps, Psn(100), va, 1024, key);
  EXPECT_EQ(responses(), 0U);
  request(qps, Psn(100), va, 512, pair.side(1).region.rkey);
  EXPECT_EQ(responses(), 0U);
  EXPECT_EQ(counted(*qps[1], QpCounter::kReadsNotRepeated), 3U);
  request(qps, Psn(100), va, 512, key);
  EXPECT_EQ(responses(), 2U);
  ASSERT_EQ(table().windows.unbind_rkey(pair.side(1).pd, key), AccessFault::kNone);
  request(qps, Psn(100), va, 512, key);
  EXPECT_EQ(responses(), 0U) << "the key is checked like the first time";
}

TEST_F(RepeatedReads, only_the_newest_reads_are_repeated) {
  const auto qps = pair.connect({});
  for (uint32_t i = 0; i <= kReadsPerQp; ++i) request(qps, Psn(100 + i), 256);
  ASSERT_EQ(responses(), 1U);
  request(qps, Psn(101), 256);
  EXPECT_EQ(responses(), 1U) << "as old as one that can be in flight";
  request(qps, Psn(100), 256);
  EXPECT_EQ(responses(), 0U);
}

TEST_F(RepeatedReads, a_right_withdrawn_in_the_middle_of_a_read_stops_the_rest) {
  const auto qps = pair.connect({});
  pair.pipe.set_room(1, 2);
  request(qps, Psn(100), 2048);
  ASSERT_EQ(responses(), 2U);
  withdraw_rights(*qps[1], Access::kRemoteWrite);
  pair.pipe.set_room(1, UINT32_MAX);
  pair.run(20);
  EXPECT_EQ(responses(), 2U);
  EXPECT_EQ(counted(*qps[1], QpCounter::kAccessRefused), 1U);
}

TEST_F(RepeatedReads, a_read_under_way_goes_on_by_the_rights_that_its_region_has_now) {
  for (const bool allowed : {true, false}) {
    const auto qps = pair.connect({});
    PairSide& far = pair.side(1);
    const MemoryRegion region =
        table()
            .regions.reg_mr(far.pd, far.memory, Access::kLocalWrite | kReadWrite, {.one_key = true})
            .value();
    pair.pipe.set_room(1, 2);
    request(qps, Psn(100), region.addr, 2048, region.rkey);
    ASSERT_EQ(responses(), 2U);
    const Access now = Access::kLocalWrite | (allowed ? kReadWrite : Access::kRemoteWrite);
    ASSERT_TRUE(table().regions.rereg_mr(region.lkey, {.access = now}).ok());
    pair.pipe.set_room(1, UINT32_MAX);
    pair.run(20);
    EXPECT_EQ(responses(), allowed ? 8U : 2U);
  }
}

TEST_F(RepeatedReads, a_one_shot_key_serves_one_read_of_many_packets) {
  QpAttr attr;
  attr.max_rd_atomic = 4;
  const auto qps = pair.connect({}, attr);
  pair.side(1).fill(0, 20'000, 3);
  const Rkey key = bound_key(20'000, Access::kRemoteRead | Access::kOneShot);
  read(*qps[0], 20'000, key);  // five packets
  pair.run(100);
  EXPECT_EQ(status_of(5), WcStatus::kSuccess);
  EXPECT_EQ(pair.side(0).bytes_at(0, 20'000), pair.side(1).bytes_at(0, 20'000));
  read(*qps[0], 64, key, 6);
  pair.run(100);
  EXPECT_EQ(status_of(6), WcStatus::kRemoteAccess);
}

/// The key is used up when its read is executed; the rest of the response still belongs to that operation.
TEST_F(RepeatedReads, a_one_shot_read_under_way_is_the_only_one_and_ends_with_its_binding) {
  for (const bool unbound : {false, true}) {
    QpAttr attr;
    attr.ack_timeout = 8ms;
    attr.retry_count = 1;
    const auto qps = pair.connect({}, attr);
    const auto others = pair.connect({});
    const Rkey key = bound_key(4096, Access::kRemoteRead | Access::kOneShot);
    pair.pipe.set_room(1, 2);
    read(*qps[0], 2048, key, 5);
    pair.run(3);
    read(*others[0], 64, key, 6);
    pair.run(3);
    if (unbound) {
      ASSERT_EQ(table().windows.unbind_rkey(pair.side(1).pd, key), AccessFault::kNone);
    }
    pair.pipe.set_room(1, UINT32_MAX);
    pair.run(100, 1ms);
    EXPECT_EQ(status_of(6), WcStatus::kRemoteAccess);
    EXPECT_EQ(status_of(5), unbound ? WcStatus::kRetryExceeded : WcStatus::kSuccess);
    pair.side(0).completions.clear();
  }
}

/// Requests that no honest peer sends: it divides a longer read.
class LongReads : public RepeatedReads {
 protected:
  void expect_refused() {
    const auto qps = pair.connect({});
    request(qps, Psn(100), kReadCellsMax * 256 + 1);
    EXPECT_EQ(responses(), 0U);
    Failure why;
    ASSERT_TRUE(adapter(1).next_failure(why));
    EXPECT_EQ(why.reason, Reason::kUnsupported);
  }
};

TEST_F(LongReads, of_more_cells_than_a_request_may_ask_for_are_refused) {
  const auto qps = pair.connect({});
  request(qps, Psn(100), kReadCellsMax * 256);
  EXPECT_EQ(responses(), kReadCellsMax);
  expect_refused();
}

TEST_F(LongReads, are_not_called_misaligned_because_an_atomic_was) {
  const auto qps = pair.connect({});
  withdraw_rights(*qps[1], Access::kRemoteAtomic);
  const Sge sge = pair.side(0).sge(0, 8);
  const Access all = Access::kLocalWrite | Access::kRemoteAtomic;
  const MemoryRegion region = table().regions.reg_mr(pair.side(1).pd, pair.side(1).memory, all).value();
  ASSERT_EQ(adapter().post_send(*qps[0], {.opcode = SendOpcode::kFetchAdd,
                                          .sges = {&sge, 1},
                                          .remote_addr = region.addr + 4,
                                          .rkey = region.rkey}),
            PostResult::kOk);
  pair.run(20);
  Failure why;
  ASSERT_TRUE(adapter(1).next_failure(why));
  EXPECT_EQ(why.reason, Reason::kMisaligned);
  expect_refused();
}

TEST(RepeatedReadLimits, an_old_number_needs_inbound_rdma) {
  AdapterLimits limits;
  limits.inbound_rdma = false;
  AdapterPair pair(256, limits);
  const auto qps = pair.connect({});
  const Sge sge = pair.side(0).sge(0, 64);
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(8192, 64)}), PostResult::kOk);
  ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.sges = {&sge, 1}}), PostResult::kOk);
  pair.run(20);
  // The number of that Send again, now in a read request.
  std::vector<std::byte> cell = pair.pipe.sent_by(0, Opcode::kSend).at(0)->bytes;
  cell.resize(kCellHeaderBytes + sizeof(ReadRequestWire) + kCrcBytes);
  cell[13] = std::byte{static_cast<uint8_t>(Opcode::kRdmaReadRequest)};
  store_be(cell.data() + 30, static_cast<uint16_t>(sizeof(ReadRequestWire)));
  ReadRequestWire wire{};
  wire.length.set(64);
  wire.source_key.set(pair.side(1).region.rkey.value());
  wire.source_address.set(pair.side(1).region.addr);
  std::memcpy(cell.data() + kCellHeaderBytes, &wire, sizeof wire);
  pair.pipe.inject(1, cell);
  pair.run(20);
  EXPECT_TRUE(pair.pipe.sent_by(1, Opcode::kRdmaReadResponse).empty());
  EXPECT_EQ(pair.side(1).adapter->counters(*qps[1]).get(QpCounter::kAccessRefused), 1U);
}

}  // namespace
}  // namespace weft::test
