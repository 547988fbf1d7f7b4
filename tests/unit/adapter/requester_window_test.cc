// What a requester may have in flight, in virtual time: a peer that is slow to answer, as one behind ZeroMQ
// is, must not idle the sender before the byte window is full; reads have a window of their own.
#include <gtest/gtest.h>

#include <map>

#include "adapter/limits.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

constexpr uint32_t kWriteBytes = 4096;
constexpr uint32_t kWrites = kByteWindow / kWriteBytes;

class RequesterWindow : public ::testing::Test {
 protected:
  AdapterPair pair{kWriteBytes};
  std::array<QueuePair*, 2> qps = pair.connect({.send_wqes = 2 * kWrites, .recv_wqes = 1});

  void post(uint32_t writes, uint32_t bytes = kWriteBytes) {
    for (uint32_t i = 0; i < writes; ++i) {
      const uint32_t at = i * kWriteBytes % kPairBufferBytes;
      const Sge sge = pair.side(0).sge(at, bytes);
      SendRequest request;
      request.opcode = SendOpcode::kRdmaWrite;
      request.sges = {&sge, 1};
      request.remote_addr = pair.side(1).region.addr + at;
      request.rkey = pair.side(1).region.rkey;
      ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], request), PostResult::kOk);
    }
  }
};

TEST_F(RequesterWindow, two_mebibytes_leave_without_an_acknowledgement_and_no_more) {
  post(kWrites + 10);
  for (int turn = 0; turn < 50; ++turn) pair.run_one(0);
  EXPECT_EQ(kByteWindow, uint64_t{2} << 20);
  EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kRdmaWrite).size(), kWrites);
  pair.run();
  EXPECT_EQ(pair.side(0).completions.size(), kWrites + 10);
}

/// A responder keeps so many packets apart, however short they are.
TEST_F(RequesterWindow, so_many_packets_leave_without_an_acknowledgement_and_no_more) {
  post(kPacketWindow + 100, 16);
  for (int turn = 0; turn < 50; ++turn) pair.run_one(0);
  EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kRdmaWrite).size(), kPacketWindow);
  pair.run();
  EXPECT_EQ(pair.side(0).completions.size(), kPacketWindow + 100);
}

TEST_F(RequesterWindow, one_turn_fills_a_burst) {
  post(kWrites);
  pair.run_one(0);
  EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kRdmaWrite).size(), kCellsPerQpTurn);
}

TEST_F(RequesterWindow, nothing_wakes_an_adapter_whose_work_is_done) {
  post(1);
  pair.run();
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  for (const int side : {0, 1}) EXPECT_EQ(pair.side(side).adapter->deadline(), kNever) << side;
}

class ReadWindow : public ::testing::Test {
 protected:
  PostResult post(QueuePair& qp, SendOpcode opcode, uint32_t flags = 0) {
    const Sge sge = pair.side(0).sge(0, 64);
    return pair.side(0).adapter->post_send(qp, {.opcode = opcode,
                                                .flags = flags,
                                                .sges = {&sge, 1},
                                                .remote_addr = pair.side(1).region.addr,
                                                .rkey = pair.side(1).region.rkey});
  }
  void hold_answers() {
    pair.pipe.set_filter(
        [](int from, std::vector<std::byte>&) { return from == 1 ? Verdict::kHold : Verdict::kPass; });
  }
  void let_answers_pass() {
    pair.pipe.set_filter(nullptr);
    pair.pipe.release_held();
  }

  AdapterPair pair;
};

TEST_F(ReadWindow, a_fenced_request_waits_until_the_reads_before_it_have_come_back) {
  for (const bool fenced : {true, false}) {
    const auto qps = pair.connect({});
    ASSERT_EQ(pair.post_recv(1, *qps[1], 1, {pair.side(1).sge(4096, 64)}), PostResult::kOk);
    pair.pipe.clear_trace();
    hold_answers();
    ASSERT_EQ(post(*qps[0], SendOpcode::kRdmaRead), PostResult::kOk);
    ASSERT_EQ(post(*qps[0], SendOpcode::kSend, fenced ? uint32_t{adapter::kSendFence} : 0U), PostResult::kOk);
    pair.run(20);
    EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kRdmaReadRequest).size(), 1U);
    EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kSend).size(), fenced ? 0U : 1U);
    let_answers_pass();
    pair.run(20);
    EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kSend).size(), 1U);
  }
  EXPECT_EQ(pair.side(0).completions.size(), 4U);
}

TEST_F(ReadWindow, no_more_reads_are_under_way_than_the_peer_was_said_to_keep) {
  QpAttr attr;
  attr.max_rd_atomic = 2;
  const auto qps = pair.connect({}, attr);
  hold_answers();
  for (int i = 0; i < 5; ++i) ASSERT_EQ(post(*qps[0], SendOpcode::kRdmaRead), PostResult::kOk);
  pair.run(20);
  EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kRdmaReadRequest).size(), 2U);
  let_answers_pass();
  pair.run(50);
  EXPECT_EQ(pair.side(0).completions.size(), 5U);
}

TEST_F(ReadWindow, a_queue_pair_that_may_not_read_says_so) {
  QpAttr attr;
  attr.max_rd_atomic = 0;
  const auto qps = pair.connect({}, attr);
  ASSERT_EQ(post(*qps[0], SendOpcode::kRdmaRead), PostResult::kOk);
  pair.run(20);
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kLocalQpOperation);
  EXPECT_TRUE(pair.pipe.sent_by(0).empty());
}

TEST_F(ReadWindow, no_more_reads_are_kept_than_the_responder_said) {
  QpAttr attr;
  attr.max_dest_rd_atomic = 2;
  const auto qps = pair.connect({}, attr);
  pair.pipe.set_room(1, 0);  // no response leaves: what is kept stays
  for (int i = 0; i < 5; ++i) ASSERT_EQ(post(*qps[0], SendOpcode::kRdmaRead), PostResult::kOk);
  pair.run(5);
  EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kRdmaReadRequest).size(), 5U);
  EXPECT_EQ(pair.side(1).adapter->counters(*qps[1]).get(QpCounter::kReadsBeyondLimit), 3U);
  pair.pipe.set_filter(
      [](int from, std::vector<std::byte>&) { return from == 0 ? Verdict::kDrop : Verdict::kPass; });
  pair.pipe.set_room(1, UINT32_MAX);
  pair.run(5);
  EXPECT_EQ(pair.pipe.sent_by(1, Opcode::kRdmaReadResponse).size(), 2U);
  pair.pipe.set_filter(nullptr);
  pair.run(3000);
  EXPECT_EQ(pair.side(0).completions.size(), 5U) << "those that were not kept come again";
}

TEST_F(ReadWindow, a_responder_that_keeps_no_reads_refuses_them) {
  QpAttr attr;
  attr.max_dest_rd_atomic = 0;
  const auto qps = pair.connect({}, attr);
  ASSERT_EQ(post(*qps[0], SendOpcode::kRdmaRead), PostResult::kOk);
  pair.run(20);
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kRemoteInvalidRequest);
}

/// The path MTU bounds a packet, also below the size of a cell.
TEST(PathMtu, bounds_every_packet_also_below_a_cell) {
  for (const uint32_t mtu : {300U, 1000U, 4096U, 9000U}) {
    AdapterPair pair(4096);
    QpAttr attr;
    attr.path_mtu_bytes = mtu;
    for (const QpType type : {QpType::kRc, QpType::kUc}) {
      const auto qps = pair.connect({.type = type}, attr);
      pair.side(0).fill(0, 10'000, 3);
      pair.pipe.clear_trace();
      ASSERT_EQ(pair.post_recv(1, *qps[1], 1, {pair.side(1).sge(0, 10'000)}), PostResult::kOk);
      const Sge sge = pair.side(0).sge(0, 10'000);
      ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.sges = {&sge, 1}}), PostResult::kOk);
      pair.run(50);
      std::map<uint32_t, size_t> packets;
      for (const TracedCell* cell : pair.pipe.sent_by(0, Opcode::kSend))
        packets[cell->view.psn.value()] += cell->view.payload.size();
      EXPECT_GE(packets.size(), (10'000 + mtu - 1) / mtu);
      for (const auto& [psn, bytes] : packets) EXPECT_LE(bytes, mtu);
      EXPECT_EQ(pair.side(1).bytes_at(0, 10'000), pair.side(0).bytes_at(0, 10'000)) << mtu;
      pair.side(1).fill(0, 10'000, 99);
    }
  }
}

}  // namespace
}  // namespace weft::test
