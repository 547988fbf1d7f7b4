// Cells built by hand, one at a time, to an RC QP: past, expected, future, beyond the window, malformed and
// forged, with the answers to them. The test is the peer; the pipe's other end has no adapter.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "adapter/limits.h"
#include "base/crc32c.h"
#include "messages/transport_headers.h"
#include "tests/support/built_cells.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

using ResponderProtocol = BuiltCells;

TEST_F(ResponderProtocol, expected_is_delivered_and_acknowledged) {
  post_recv(1);
  receive({.flags = kCellFirst | kCellLast | kCellAckWanted});
  ASSERT_EQ(completions().size(), 1U);
  EXPECT_EQ(completions()[0].byte_count, 16U);
  const auto sent = answers();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].opcode, Opcode::kAck);
  EXPECT_EQ(sent[0].dest_qpn, kPeer);
  EXPECT_EQ(sent[0].ack.psn, kFirst);
  EXPECT_EQ(sent[0].ack.cell_number, 0);
  EXPECT_EQ(sent[0].ack.messages_completed, 1U);
  EXPECT_TRUE(sent[0].payload.empty());
}

TEST_F(ResponderProtocol, past_is_acknowledged_again_and_not_delivered_again) {
  post_recv(1);
  post_recv(2);
  receive({});
  answers();
  receive({.fill = std::byte{0x11}});
  EXPECT_EQ(completions().size(), 1U);
  EXPECT_EQ(pair.side(0).memory[4096], std::byte{0x5A});
  const auto sent = answers();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].ack.psn, kFirst);
  EXPECT_EQ(counted(QpCounter::kDuplicateCells), 1U);
}

TEST_F(ResponderProtocol, future_is_held_reported_in_a_block_and_delivered_in_turn) {
  post_recv(1);
  post_recv(2);
  receive({.psn = 1, .fill = std::byte{0x11}});
  EXPECT_TRUE(completions().empty());
  const auto sent = answers();
  ASSERT_EQ(sent.size(), 1U);
  expect_block(sent[0], 1);
  receive({});
  ASSERT_EQ(completions().size(), 2U);
  EXPECT_EQ(pair.side(0).memory[4096], std::byte{0x5A});
  EXPECT_EQ(pair.side(0).memory[8192], std::byte{0x11});
}

/// A write carries its address: one that is complete before its turn is placed, and its sender need not
/// repeat it.
TEST_F(ResponderProtocol, a_write_before_its_turn_is_placed_and_reported_in_a_block) {
  const uint64_t to = pair.side(0).region.addr;
  receive(write(1, to + 64, pair.side(0).region.rkey));
  EXPECT_EQ(pair.side(0).memory[64], std::byte{0x5A});
  auto sent = answers();
  ASSERT_EQ(sent.size(), 1U);
  expect_block(sent[0], 1);
  receive(write(0, to, pair.side(0).region.rkey));
  sent = answers();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].ack.psn, kFirst.plus(1));
  EXPECT_TRUE(sent[0].payload.empty());
}

TEST_F(ResponderProtocol, beyond_the_window_is_answered_with_the_wanted_number) {
  receive({.psn = static_cast<int32_t>(kPacketWindow)});
  const auto sent = answers();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].ack.code, AckCode::kSequenceError);
  EXPECT_EQ(sent[0].ack.psn, kFirst);
  EXPECT_EQ(counted(QpCounter::kBeyondWindow), 1U);
  EXPECT_EQ(state(), QpState::kRts);
}

TEST_F(ResponderProtocol, no_receive_wqe_is_answered_with_not_ready_and_the_timer) {
  receive({.flags = kCellFirst | kCellLast | kCellAckWanted});
  auto sent = answers();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].ack.code, AckCode::kReceiverNotReady);
  EXPECT_EQ(sent[0].ack.psn, kFirst);
  EXPECT_EQ(sent[0].ack.cell_number, 7);  // 0.12 ms: the shortest code of at least 100 us
  post_recv(1);
  receive({});
  EXPECT_EQ(completions().size(), 1U);
}

TEST_F(ResponderProtocol, forged_sources_do_nothing_not_even_a_nak) {
  post_recv(1);
  receive({.slid = Lid(3)});
  receive({.source = Qpn(5)});
  Built bad_key = write(0, 0, Rkey(1));
  bad_key.slid = Lid(3);
  receive(bad_key);
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(counted(AdapterCounter::kDropSource), 3U);
  EXPECT_EQ(state(), QpState::kRts);
}

TEST_F(ResponderProtocol, a_key_beyond_the_window_is_not_looked_at) {
  receive(write(static_cast<int32_t>(kPacketWindow) + 5, 0, Rkey(1)));
  EXPECT_EQ(state(), QpState::kRts);
  EXPECT_EQ(counted(QpCounter::kAccessRefused), 0U);
}

TEST_F(ResponderProtocol, a_bad_key_in_a_future_packet_is_answered_in_its_turn) {
  receive(write(1, pair.side(0).region.addr, Rkey(1)));
  EXPECT_EQ(state(), QpState::kRts);
  answers();
  receive(write(0, pair.side(0).region.addr, pair.side(0).region.rkey));
  EXPECT_EQ(state(), QpState::kErr);
  const auto sent = answers();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].ack.code, AckCode::kRemoteAccess);
  EXPECT_EQ(sent[0].ack.psn, kFirst.plus(1));  // this acknowledges everything before it
}

TEST_F(ResponderProtocol, cells_of_one_packet_that_contradict_each_other_end_the_connection) {
  post_recv(1);
  receive({.cell = 1, .flags = kCellLast, .bytes = 10});
  receive({.cell = 2, .flags = kCellLast, .bytes = 10});
  EXPECT_EQ(counted(QpCounter::kProtocolViolations), 1U);
  EXPECT_EQ(state(), QpState::kErr);
  const auto sent = answers();
  EXPECT_EQ(sent.back().ack.code, AckCode::kNotSupported);
}

TEST_F(ResponderProtocol, cells_of_one_packet_with_other_flags_of_the_message_end_the_connection) {
  post_recv(1);
  receive({.flags = kCellFirst, .flags2 = kCell2Solicited, .bytes = 256});
  receive({.cell = 1, .flags = kCellLast, .bytes = 10});
  EXPECT_EQ(counted(QpCounter::kProtocolViolations), 1U);
  EXPECT_EQ(state(), QpState::kErr);
}

TEST_F(ResponderProtocol, a_receive_posted_before_the_refusal_could_leave_makes_it_an_acknowledgement) {
  make({.idata_takes_recv_wqe = true});
  pair.pipe.set_room(0, 0);
  Built cell = write(0, pair.side(0).region.addr, pair.side(0).region.rkey);
  cell.flags |= kCellIdata;
  cell.parts.resize(kVaBytes + kIdataBytes);
  receive(cell);
  post_recv(1);
  pair.pipe.set_room(0, 100);
  pair.run_one(0);
  const auto sent = answers();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].ack.code, AckCode::kAck);
}

TEST_F(ResponderProtocol, a_message_that_goes_on_as_another_operation_ends_the_connection) {
  post_recv(1);
  receive({.flags2 = kCell2More});
  Built next = write(1, pair.side(0).region.addr, pair.side(0).region.rkey);
  next.flags2 = kCell2Continues;
  receive(next);
  EXPECT_EQ(counted(QpCounter::kProtocolViolations), 1U);
  EXPECT_EQ(state(), QpState::kErr);
}

TEST_F(ResponderProtocol, a_write_that_waited_for_a_receive_is_acknowledged_when_one_is_posted) {
  make({.idata_takes_recv_wqe = true});
  Built cell = write(0, pair.side(0).region.addr, pair.side(0).region.rkey);
  cell.flags |= kCellIdata;
  cell.parts.resize(kVaBytes + kIdataBytes);
  receive(cell);
  ASSERT_EQ(answers().size(), 1U) << "not ready";
  post_recv(1);
  pair.run_one(0);
  const auto sent = answers();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].ack.code, AckCode::kAck);
  EXPECT_EQ(sent[0].ack.psn, kFirst);
  EXPECT_EQ(completions().size(), 1U);
}

TEST_F(ResponderProtocol, a_short_cell_in_the_middle_is_dropped) {
  post_recv(1);
  receive({.flags = kCellFirst, .bytes = 100});
  EXPECT_EQ(counted(AdapterCounter::kDropSegment), 1U);
  EXPECT_TRUE(answers().empty());
}

TEST_F(ResponderProtocol, a_message_longer_than_its_wqe_completes_it_with_a_length_error) {
  post_recv(1, 8);
  receive({});
  ASSERT_EQ(completions().size(), 1U);
  EXPECT_EQ(completions()[0].status, WcStatus::kLocalLength);
  EXPECT_EQ(answers().back().ack.code, AckCode::kNotSupported);
  EXPECT_EQ(pair.side(0).memory[4096], std::byte{0});
}

TEST_F(ResponderProtocol, a_write_without_its_first_cell_waits_in_the_stash) {
  const uint64_t va = pair.side(0).region.addr;
  receive(
      {.opcode = Opcode::kRdmaWrite, .cell = 1, .flags = kCellLast, .bytes = 10, .fill = std::byte{0x22}});
  EXPECT_EQ(counted(QpCounter::kCellsStashed), 1U);
  EXPECT_EQ(pair.side(0).memory[256], std::byte{0});
  Built first = write(0, va, pair.side(0).region.rkey, 256);
  first.flags = kCellFirst | kCellVa;
  receive(first);
  EXPECT_EQ(pair.side(0).memory[0], std::byte{0x5A});
  EXPECT_EQ(pair.side(0).memory[256], std::byte{0x22});
  EXPECT_EQ(pair.side(0).memory[266], std::byte{0});
}

TEST_F(ResponderProtocol, a_full_stash_drops_and_does_not_acknowledge) {
  const uint32_t room = pair.side(0).adapter->limits().stash_cells_per_qp;
  for (uint32_t i = 0; i <= room; ++i) {
    receive({.opcode = Opcode::kRdmaWrite,
             .psn = static_cast<int32_t>(i),
             .cell = 1,
             .flags = kCellLast,
             .bytes = 10});
  }
  EXPECT_EQ(counted(QpCounter::kCellsStashed), room);
  EXPECT_EQ(counted(AdapterCounter::kStashFull), 1U);
  for (const CellView& cell : answers()) {
    for (size_t at = 0; at < cell.payload.size(); at += 16) {
      EXPECT_NE(Psn(load_be<uint32_t>(cell.payload.data() + at)), kFirst.plus(room));
    }
  }
}

TEST_F(ResponderProtocol, sixteen_cells_are_acknowledged_together_and_fewer_after_fifty_microseconds) {
  for (uint64_t i = 0; i < 20; ++i) post_recv(i, 64);
  for (int32_t i = 0; i < 15; ++i) pair.pipe.inject(0, build({.psn = i}));
  pair.run_one(0);
  EXPECT_TRUE(answers().empty());
  pair.pipe.inject(0, build({.psn = 15}));
  pair.run_one(0);
  auto sent = answers();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].ack.psn, kFirst.plus(15));
  receive({.psn = 16});
  EXPECT_TRUE(answers().empty());
  pair.clock.advance(kAckDelay);
  pair.run_one(0);
  EXPECT_EQ(answers().size(), 1U);
}

/// Two ends write to each other in turn: each message carries an acknowledgement of the one before, so no
/// timer
/// has to send one.
TEST_F(ResponderProtocol, the_first_message_after_a_pause_takes_an_acknowledgement_along) {
  post_recv(1);
  receive({});
  ASSERT_TRUE(answers().empty());
  post_send();
  pair.side(0).adapter->send_posted();
  const auto sent = answers();
  ASSERT_EQ(sent.size(), 2U) << "in the caller's own turn";
  EXPECT_EQ(sent[0].opcode, Opcode::kAck);
  EXPECT_EQ(sent[0].ack.psn, kFirst);
  EXPECT_EQ(sent[1].opcode, Opcode::kSend);
  pair.clock.advance(kAckDelay);
  pair.run_one(0);
  EXPECT_TRUE(answers().empty()) << "it has been said";
}

/// In a stream of both directions it does not: there one acknowledgement covers sixteen cells.
TEST_F(ResponderProtocol, a_message_behind_others_under_way_takes_no_acknowledgement_along) {
  post_send();
  pair.run_one(0);
  post_recv(1);
  receive({});
  answers();
  post_send();
  pair.side(0).adapter->send_posted();
  pair.run_one(0);
  const auto sent = answers();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].opcode, Opcode::kSend);
}

TEST_F(ResponderProtocol, an_acknowledgement_of_what_was_never_sent_changes_nothing) {
  std::vector<std::byte> body(kAckBodyBytes);
  store_be(body.data(), Psn(50).value());
  receive({.opcode = Opcode::kAck, .parts = body, .bytes = 0});
  EXPECT_EQ(counted(QpCounter::kProtocolViolations), 1U);
  EXPECT_EQ(state(), QpState::kRts);
}

TEST_F(ResponderProtocol, an_acknowledgement_of_a_cell_no_packet_has_changes_nothing) {
  const Sge sge = pair.side(0).sge(0, 16);
  ASSERT_EQ(pair.side(0).adapter->post_send(*qp, {.sges = {&sge, 1}}), PostResult::kOk);
  pair.run_one(0);
  std::vector<std::byte> body(kAckBodyBytes);
  store_be(body.data(), Psn(1).value());
  store_be(body.data() + 4, uint16_t{kCellsPerPacketMax});
  receive({.opcode = Opcode::kAck, .parts = body, .bytes = 0});
  EXPECT_EQ(counted(QpCounter::kProtocolViolations), 1U);
  EXPECT_TRUE(completions().empty());
}

TEST_F(ResponderProtocol, a_packet_whose_sum_is_never_right_is_given_up) {
  const Sge sge = pair.side(0).sge(0, 16);
  ASSERT_EQ(pair.side(0).adapter->post_send(*qp, {.sges = {&sge, 1}}), PostResult::kOk);
  std::vector<std::byte> body(kAckBodyBytes);
  store_be(body.data(), Psn(1).value());
  body[6] = std::byte{static_cast<uint8_t>(AckCode::kPacketCrc)};
  const uint32_t retries = pair.side(0).adapter->query_qp(*qp).retry_count;
  ASSERT_NE(retries, 0U);
  for (uint32_t naks = 0; naks <= retries; ++naks) {
    pair.run(5, 1ms);
    ASSERT_TRUE(completions().empty()) << naks;
    receive({.opcode = Opcode::kNak, .parts = body, .bytes = 0});
  }
  ASSERT_EQ(completions().size(), 1U);
  EXPECT_EQ(completions()[0].status, WcStatus::kRetryExceeded);
}

TEST_F(ResponderProtocol, a_read_response_that_does_not_fit_the_request_fails_it) {
  const std::array<Built, 2> wrong{
      {{.opcode = Opcode::kRdmaReadResponse, .psn = 17, .cell = 1, .flags = kCellLast, .bytes = 50},
       {.opcode = Opcode::kRdmaReadResponse, .psn = 17, .cell = 2, .flags = kCellLast, .bytes = 256}}};
  for (const Built& response : wrong) {
    make({});
    const Sge sge = pair.side(0).sge(0, 300);
    ASSERT_EQ(
        pair.side(0).adapter->post_send(
            *qp, {.opcode = SendOpcode::kRdmaRead, .sges = {&sge, 1}, .remote_addr = 4096, .rkey = Rkey(5)}),
        PostResult::kOk);
    pair.run_one(0);
    receive(response);
    ASSERT_FALSE(completions().empty());
    EXPECT_EQ(completions().back().status, WcStatus::kBadResponse) << response.cell;
    EXPECT_EQ(counted(QpCounter::kProtocolViolations), 1U);
    EXPECT_EQ(state(), QpState::kErr);
  }
}

/// The old PSN is larger than the expected one, which has wrapped.
TEST_F(ResponderProtocol, a_send_of_before_the_wrap_is_not_executed_again_after_it) {
  for (uint64_t i = 0; i < 17; ++i) post_recv(i, 64);
  for (int32_t i = 0; i < 16; ++i) receive({.psn = i});
  ASSERT_EQ(completions().size(), 16U);
  ASSERT_EQ(kFirst.plus(16), Psn(0));
  for (const int32_t old : {15, 3}) receive({.psn = old, .fill = std::byte{0x11}});
  EXPECT_EQ(completions().size(), 16U);
  EXPECT_EQ(counted(QpCounter::kDuplicateCells), 2U);
  EXPECT_EQ(counted(QpCounter::kBeyondWindow), 0U);
  EXPECT_EQ(pair.side(0).memory[16 * 4096], std::byte{0}) << "nothing of it was stored";
  receive({.psn = 16});
  EXPECT_EQ(completions().size(), 17U);
}

TEST_F(ResponderProtocol, a_repeated_write_is_not_placed_again) {
  const MemoryRegion& region = pair.side(0).region;
  receive(write(0, region.addr, region.rkey));
  ASSERT_EQ(pair.side(0).memory[0], std::byte{0x5A});
  pair.side(0).memory[0] = std::byte{0x77};  // the owner has consumed the data and reuses the memory
  answers();
  Built again = write(0, region.addr, region.rkey);
  again.fill = std::byte{0x11};
  receive(again);
  EXPECT_EQ(pair.side(0).memory[0], std::byte{0x77});
  EXPECT_EQ(pair.side(0).memory[1], std::byte{0x5A});
  EXPECT_EQ(counted(QpCounter::kDuplicateCells), 1U);
  const auto sent = answers();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].ack.code, AckCode::kAck);
}

/// The same before the packet is complete: the owner may read and change what has arrived.
TEST_F(ResponderProtocol, a_repeated_cell_of_an_unfinished_write_is_not_placed_again) {
  const MemoryRegion& region = pair.side(0).region;
  Built first = write(0, region.addr, region.rkey, 256);
  first.flags = kCellFirst | kCellVa;
  receive(first);
  ASSERT_EQ(pair.side(0).memory[0], std::byte{0x5A});
  pair.side(0).memory[0] = std::byte{0x77};
  first.fill = std::byte{0x11};
  receive(first);
  EXPECT_EQ(pair.side(0).memory[0], std::byte{0x77});
  EXPECT_EQ(pair.side(0).memory[1], std::byte{0x5A});
  EXPECT_EQ(counted(QpCounter::kDuplicateCells), 1U);
  receive({.opcode = Opcode::kRdmaWrite, .cell = 1, .flags = kCellLast | kCellAckWanted, .bytes = 10});
  EXPECT_EQ(pair.side(0).memory[265], std::byte{0x5A});
  EXPECT_EQ(answers().back().ack.code, AckCode::kAck);
}

/// A good key is not sufficient: the QP must grant the operation.
TEST_F(ResponderProtocol, an_operation_that_the_queue_pair_does_not_grant_is_refused) {
  QpAttr attr;
  attr.access = Access::kRemoteRead;
  ASSERT_EQ(pair.side(0).adapter->modify_qp(*qp, attr, kQpAttrAccess), ModifyResult::kOk);
  receive(write(0, pair.side(0).region.addr, pair.side(0).region.rkey));
  EXPECT_EQ(answers().back().ack.code, AckCode::kNotSupported);
  EXPECT_EQ(counted(QpCounter::kAccessRefused), 1U);
  EXPECT_EQ(pair.side(0).memory[0], std::byte{0});
  EXPECT_EQ(state(), QpState::kErr);
}

/// One operation is one range under one key; a packet outside that range would be a second operation.
TEST_F(ResponderProtocol, packets_of_a_write_go_on_where_the_last_one_ended_under_the_same_key) {
  const MemoryRegion& region = pair.side(0).region;
  MemoryTable& table = pair.side(0).adapter->memory();
  const Rkey other = table.windows.alloc_rkey(pair.side(0).pd).value();
  ASSERT_EQ(
      table.windows.bind_rkey(pair.side(0).pd, {other, region.lkey, region.addr, 4096, Access::kRemoteWrite}),
      AccessFault::kNone);
  struct Second {
    uint64_t va;
    Rkey key;
    QpState state;
  };
  const std::array<Second, 4> seconds{{{region.addr + 16, region.rkey, QpState::kRts},
                                       {region.addr + 17, region.rkey, QpState::kErr},
                                       {region.addr, region.rkey, QpState::kErr},
                                       {region.addr + 16, other, QpState::kErr}}};
  for (const Second& second : seconds) {
    make({.idata_takes_recv_wqe = false});
    pair.side(0).completions.clear();
    Built begin = write(0, region.addr, region.rkey);
    begin.flags2 = kCell2More;
    receive(begin);
    Built end = write(1, second.va, second.key);
    end.flags |= kCellIdata;
    end.flags2 = kCell2Continues;
    end.parts.resize(kVaBytes + kIdataBytes);
    receive(end);
    const bool good = second.state == QpState::kRts;
    EXPECT_EQ(state(), second.state);
    EXPECT_EQ(counted(QpCounter::kProtocolViolations), good ? 0U : 1U);
    size_t indicated = 0;
    for (const WorkCompletion& done : completions()) indicated += done.opcode == WcOpcode::kRdataIndicate;
    EXPECT_EQ(indicated, good ? 1U : 0U);
  }
}

TEST_F(ResponderProtocol, operations_the_service_does_not_have_are_refused) {
  receive({.opcode = Opcode::kTerminate, .bytes = 24});
  EXPECT_EQ(answers().back().ack.code, AckCode::kNotSupported);
  EXPECT_EQ(state(), QpState::kErr);
}

TEST_F(ResponderProtocol, every_cell_gets_its_own_ack_in_strict_mode) {
  make({.ack_mode = AckMode::kStrict});
  post_recv(1);
  receive({.cell = 2, .flags = kCellLast, .bytes = 10});
  receive({.cell = 1, .flags = 0, .bytes = 256});
  receive({.cell = 0, .flags = kCellFirst, .bytes = 256});
  std::vector<uint16_t> cells;
  for (const CellView& cell : answers()) {
    EXPECT_EQ(cell.ack.psn, kFirst);
    cells.push_back(cell.ack.cell_number);
  }
  EXPECT_EQ(cells, (std::vector<uint16_t>{2, 1, 0}));
  EXPECT_EQ(completions().size(), 1U);
}

/// The refusal leaves alone: the ACKs of the cells before it had not left. It tells that they were executed.
TEST(StrictAcks, a_refusal_acknowledges_what_was_executed_before_it) {
  AdapterPair pair;
  const auto qps = pair.connect({.ack_mode = AckMode::kStrict});
  const Sge from = pair.side(0).sge(0, 64);
  for (uint64_t i = 0; i < 3; ++i) {
    const uint64_t beyond = i == 1 ? kPairBufferBytes : 0;
    ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.wr_id = i,
                                                        .opcode = SendOpcode::kRdmaWrite,
                                                        .sges = {&from, 1},
                                                        .remote_addr = pair.side(1).region.addr + beyond,
                                                        .rkey = pair.side(1).region.rkey}),
              PostResult::kOk);
  }
  pair.run(10);
  std::vector<WcStatus> ends;
  for (const WorkCompletion& done : pair.side(0).completions) ends.push_back(done.status);
  EXPECT_EQ(ends, (std::vector{WcStatus::kSuccess, WcStatus::kRemoteAccess, WcStatus::kFlushed}));
}

/// The program posts receives until it sees that the QP is in ERR.
TEST_F(ResponderProtocol, a_receive_posted_in_error_leaves_the_refusal_that_waits_for_credit) {
  pair.pipe.set_room(0, 0);
  receive(write(0, pair.side(0).region.addr + kPairBufferBytes, pair.side(0).region.rkey));
  ASSERT_EQ(state(), QpState::kErr);
  post_recv(1);
  pair.pipe.set_room(0, 2);
  pair.run(2);
  ASSERT_EQ(completions().size(), 1U);
  EXPECT_EQ(completions()[0].status, WcStatus::kFlushed);
  const auto sent = answers();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].ack.code, AckCode::kRemoteAccess);
}

TEST_F(ResponderProtocol, a_cell_whose_own_ack_finds_no_place_is_dropped_and_counted) {
  make({.ack_mode = AckMode::kStrict});
  pair.pipe.set_room(0, 0);  // no acknowledgement can leave
  Built one_more = write(0, pair.side(0).region.addr, pair.side(0).region.rkey, 1);
  for (; one_more.psn < static_cast<int32_t>(kStrictAcksMax); ++one_more.psn) receive(one_more);
  one_more.fill = std::byte{0xA5};
  receive(one_more);
  EXPECT_NE(pair.side(0).memory[0], one_more.fill);
  pair.pipe.set_room(0, 2 * kStrictAcksMax);
  for (int turn = 0; turn < 10; ++turn) pair.run_one(0);
  EXPECT_EQ(answers().size(), kStrictAcksMax);
  receive(one_more);
  EXPECT_EQ(counted(QpCounter::kStrictAcksFull), 1U);
  EXPECT_EQ(pair.side(0).memory[0], one_more.fill);
}

TEST_F(ResponderProtocol, cells_that_waited_for_their_place_are_given_up_at_reset) {
  const auto fill_the_stash = [this] {
    for (uint16_t i = 1; i <= AdapterLimits{}.stash_cells_per_qp; ++i)
      receive({.opcode = Opcode::kRdmaWrite, .cell = i, .flags = 0, .bytes = 256});
  };
  for (int life = 0; life < 2; ++life) {
    fill_the_stash();
    EXPECT_EQ(counted(AdapterCounter::kStashFull), 0U) << life;
    QpAttr reset;
    reset.state = QpState::kReset;
    ASSERT_EQ(pair.side(0).adapter->modify_qp(*qp, reset, adapter::kQpAttrState), ModifyResult::kOk);
    pair.bring_up(0, *qp, {}, kPeer, Lid(2), Psn(1), kFirst);
  }
}

TEST_F(ResponderProtocol, a_gap_that_two_acknowledgements_name_is_repaired_once) {
  for (int i = 0; i < 2; ++i) post_send();
  const auto sent_first = [this] {
    const auto cells = pair.pipe.sent_by(0, Opcode::kSend);
    return std::count_if(cells.begin(), cells.end(),
                         [](const auto* cell) { return cell->view.psn == Psn(1); });
  };
  pair.run_one(0);
  receive_block(2);
  EXPECT_EQ(sent_first(), 2) << "the second has arrived, the first has not";
  receive_block(2);
  EXPECT_EQ(sent_first(), 2) << "its repetition is on the way";
  pair.run(1, 1ms);
  receive_block(2);
  EXPECT_EQ(sent_first(), 3);
}

TEST_F(ResponderProtocol, a_packet_that_arrives_ever_again_and_is_never_executed_is_given_up) {
  post_send();
  pair.run_one(0);
  const Duration all_retries = 8 * QpAttr().ack_timeout;
  for (Duration passed{}; passed < 2 * all_retries && completions().empty(); passed += 1ms) {
    receive_block(1);
    pair.run(1, 1ms);
  }
  ASSERT_EQ(completions().size(), 1U);
  EXPECT_EQ(completions()[0].status, WcStatus::kRetryExceeded);
}

}  // namespace
}  // namespace weft::test
