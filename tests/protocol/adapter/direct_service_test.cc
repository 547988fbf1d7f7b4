// RC over a memory window: what a program sees is what RC over cells gives it, and no cell passes.
#include <gtest/gtest.h>

#include "adapter/transport/direct/direct_requester.h"
#include "fabric/window/window_words.h"
#include "messages/window_record.h"
#include "tests/support/direct_case.h"

namespace weft::test {
using namespace adapter;
namespace {

TEST_F(Direct, a_send_fills_the_receive_and_completes_on_both_sides) {
  connect();
  pair.side(0).fill(0, 3000, 1);
  receive(7, 100, 4000);
  send(3, 0, 3000);
  pair.run(20);
  const auto sent = pair.take_completions(0);
  const auto received = pair.take_completions(1);
  ASSERT_EQ(sent.size(), 1U);
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(sent[0].wr_id, 3U);
  EXPECT_EQ(sent[0].status, WcStatus::kSuccess);
  EXPECT_EQ(received[0].wr_id, 7U);
  EXPECT_EQ(received[0].byte_count, 3000U);
  EXPECT_EQ(received[0].opcode, WcOpcode::kRecv);
  EXPECT_EQ(pair.side(1).bytes_at(100, 3000), pair.side(0).bytes_at(0, 3000));
  EXPECT_EQ(pair.cells(0), 0U);
  EXPECT_EQ(pair.cells(1), 0U);
}

/// The parts of a turn that a caller in a hurry runs alone.
TEST_F(Direct, a_send_leaves_and_arrives_without_a_whole_turn) {
  connect();
  pair.run(20);
  pair.side(0).fill(0, 60, 1);
  receive(7, 100, 60);
  send(3, 0, 60);
  ASSERT_NE(pair.side(0).adapter->window_news(), WindowNews::kNoWindows);
  EXPECT_TRUE(pair.side(0).adapter->send_by_window(*qps[0], pair.clock.now()));
  EXPECT_NE(pair.side(1).bytes_at(100, 60), pair.side(0).bytes_at(0, 60));
  EXPECT_GT(pair.side(1).adapter->look_at_windows(pair.clock.now()), 0);
  EXPECT_EQ(pair.side(1).bytes_at(100, 60), pair.side(0).bytes_at(0, 60));
  pair.run(20);
  EXPECT_EQ(pair.take_completions(0).size(), 1U);
  EXPECT_EQ(pair.take_completions(1).size(), 1U);
}

/// What a poll looks at before it reads the clock.
TEST_F(Direct, a_window_calls_when_its_peer_has_written_or_something_is_under_way) {
  connect();
  pair.run(20);
  ChannelAdapter& near = *pair.side(0).adapter;
  ChannelAdapter& far = *pair.side(1).adapter;
  EXPECT_EQ(near.window_news(), WindowNews::kNone);
  EXPECT_EQ(far.window_news(), WindowNews::kNone);
  receive(7, 100, 60);
  send(3, 0, 60);
  EXPECT_TRUE(near.send_by_window(*qps[0], pair.clock.now()));
  EXPECT_EQ(near.window_news(), WindowNews::kNone) << "the record has arrived";
  EXPECT_EQ(far.window_news(), WindowNews::kSome);
  EXPECT_GT(far.look_at_windows(pair.clock.now()), 0);
  EXPECT_EQ(far.window_news(), WindowNews::kNone);
  pair.run(20);
  EXPECT_EQ(pair.take_completions(0).size(), 1U);
  pair.window->set_faults(0, {.late_ppm = 1'000'000, .late_min = 50us, .late_max = 60us});
  send(4, 0, 60);
  EXPECT_TRUE(near.send_by_window(*qps[0], pair.clock.now()));
  EXPECT_EQ(near.window_news(), WindowNews::kSome) << "the record is on its way";
  EXPECT_EQ(far.window_news(), WindowNews::kNone);
}

TEST_F(Direct, the_second_access_by_a_key_is_moved_by_the_device) {
  connect();
  pair.side(0).fill(0, 5000, 9);
  post(remote(SendOpcode::kRdmaWrite, 64), 0, 5000);
  pair.run(20);
  ASSERT_EQ(pair.take_completions(0).size(), 1U);
  EXPECT_EQ(pair.side(1).bytes_at(64, 5000), pair.side(0).bytes_at(0, 5000));
  EXPECT_EQ(pair.end(1).own().published(), 1U) << "the owner has shown the key";
  pair.side(0).fill(0, 5000, 77);
  post(remote(SendOpcode::kRdmaWrite, 128), 0, 5000);
  pair.run_one(0);
  pair.run_one(0);
  EXPECT_EQ(pair.side(1).bytes_at(128, 5000), pair.side(0).bytes_at(0, 5000))
      << "without a turn of the owner";
  pair.run(20);
  const auto done = pair.take_completions(0);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess);
  post(remote(SendOpcode::kRdmaRead, 128), 9000, 5000);
  pair.run(20);
  ASSERT_EQ(pair.take_completions(0).size(), 1U);
  EXPECT_EQ(pair.side(0).bytes_at(9000, 5000), pair.side(1).bytes_at(128, 5000));
}

TEST_F(Direct, an_access_of_no_bytes_waits_for_the_peer) {
  connect();
  pair.run(20);
  for (const SendOpcode opcode : {SendOpcode::kRdmaWrite, SendOpcode::kRdmaRead}) {
    post(remote(opcode, 0), 0, 0);
    for (int turn = 0; turn < 3; ++turn) pair.run_one(0);
    EXPECT_TRUE(pair.take_completions(0).empty()) << "it would end so without a peer, too";
    pair.run(20);
    const auto done = pair.take_completions(0);
    ASSERT_EQ(done.size(), 1U);
    EXPECT_EQ(done[0].status, WcStatus::kSuccess);
  }
}

TEST_F(Direct, a_write_with_immediate_data_takes_a_receive) {
  connect();
  for (int round = 0; round < 3; ++round) {
    receive(5, 0, 0);
    pair.side(0).fill(0, 700, static_cast<uint8_t>(round));
    SendRequest request = remote(SendOpcode::kRdmaWriteWithImm, 64);
    request.imm = 0xABCD;
    post(request, 0, 700);
    pair.run(30);
    const auto received = pair.take_completions(1);
    ASSERT_EQ(received.size(), 1U) << round;
    EXPECT_EQ(received[0].opcode, WcOpcode::kRecvRdmaWithImm);
    EXPECT_EQ(received[0].imm, 0xABCDU);
    EXPECT_EQ(received[0].byte_count, 700U);
    EXPECT_EQ(pair.side(1).bytes_at(64, 700), pair.side(0).bytes_at(0, 700));
    ASSERT_EQ(pair.take_completions(0).size(), 1U);
  }
}

TEST_F(Direct, atomic_operations_are_executed_by_the_owner) {
  QpAttr attr;
  connect({}, attr);
  attr.access = Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;
  ASSERT_EQ(pair.side(1).adapter->modify_qp(*qps[1], attr, kQpAttrAccess), ModifyResult::kOk);
  uint64_t word = 40;
  std::memcpy(pair.side(1).memory.data() + 64, &word, sizeof word);
  SendRequest add = remote(SendOpcode::kFetchAdd, 64);
  add.operand = 2;
  post(add, 0, 8);
  SendRequest swap = remote(SendOpcode::kCompareSwap, 64);
  swap.compare = 42;
  swap.operand = 99;
  post(swap, 8, 8);
  pair.run(20);
  ASSERT_EQ(pair.take_completions(0).size(), 2U);
  std::array<uint64_t, 2> old{};
  std::memcpy(old.data(), pair.side(0).memory.data(), sizeof old);
  EXPECT_EQ(old[0], 40U);
  EXPECT_EQ(old[1], 42U);
  std::memcpy(&word, pair.side(1).memory.data() + 64, sizeof word);
  EXPECT_EQ(word, 99U);
}

TEST_F(Direct, a_message_without_a_receive_comes_again) {
  QpAttr attr;
  attr.rnr_retry = 7;
  attr.min_rnr_timer = 100us;
  connect({}, attr);
  pair.side(0).fill(0, 900, 3);
  for (uint64_t i = 0; i < 3; ++i) send(i, 300 * static_cast<uint32_t>(i), 300);
  pair.run(20);
  EXPECT_TRUE(pair.take_completions(0).empty());
  EXPECT_GT(pair.side(0).adapter->counters(*qps[0]).get(QpCounter::kRnrNaksReceived), 0U);
  for (uint64_t i = 0; i < 3; ++i) receive(i, 4096 + 300 * static_cast<uint32_t>(i), 300);
  pair.run(100);
  ASSERT_EQ(pair.take_completions(0).size(), 3U);
  ASSERT_EQ(pair.take_completions(1).size(), 3U);
  EXPECT_EQ(pair.side(1).bytes_at(4096, 900), pair.side(0).bytes_at(0, 900));
}

TEST_F(Direct, rnr_retries_end) {
  QpAttr attr;
  attr.rnr_retry = 2;
  attr.min_rnr_timer = 100us;
  connect({}, attr);
  send(1, 0, 8);
  send(2, 0, 8);
  pair.run(200);
  const auto done = pair.take_completions(0);
  ASSERT_EQ(done.size(), 2U);
  EXPECT_EQ(done[0].status, WcStatus::kRnrRetryExceeded);
  EXPECT_EQ(done[1].status, WcStatus::kFlushed);
}

TEST_F(Direct, a_write_whose_immediate_data_find_no_receive_is_reported_as_a_write) {
  QpAttr attr;
  attr.rnr_retry = 7;
  attr.min_rnr_timer = 100us;
  connect({}, attr);
  post(remote(SendOpcode::kRdmaWriteWithImm, 64), 0, 8);
  pair.run(2000);
  std::vector<Failure> reports;
  for (Failure next; pair.side(1).adapter->next_failure(next);) reports.push_back(next);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].reason, Reason::kNoReceive);
  EXPECT_EQ(reports[0].work, FailedWork::kWrite);
}

TEST_F(Direct, a_wrong_key_ends_both_queue_pairs) {
  connect();
  receive(1, 0, 64);
  SendRequest request = remote(SendOpcode::kRdmaWrite, 0);
  request.rkey = Rkey(request.rkey.value() ^ 0x100);
  post(request, 0, 64);
  pair.run(20);
  const auto done = pair.take_completions(0);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, WcStatus::kRemoteAccess);
  EXPECT_EQ(pair.side(0).adapter->query_qp(*qps[0]).state, QpState::kErr);
  EXPECT_EQ(pair.side(1).adapter->query_qp(*qps[1]).state, QpState::kErr);
  const auto flushed = pair.take_completions(1);
  ASSERT_EQ(flushed.size(), 1U);
  EXPECT_EQ(flushed[0].status, WcStatus::kFlushed);
}

TEST_F(Direct, an_access_that_ends_outside_is_refused_before_anything_moves) {
  connect();
  post(remote(SendOpcode::kRdmaWrite, 0), 0, 64);
  pair.run(20);
  ASSERT_EQ(pair.take_completions(0).size(), 1U);
  const auto before = pair.side(1).bytes_at(kPairBufferBytes - 32, 32);
  pair.side(0).fill(0, 64, 200);
  post(remote(SendOpcode::kRdmaWrite, kPairBufferBytes - 32), 0, 64);
  pair.run(20);
  const auto done = pair.take_completions(0);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, WcStatus::kRemoteAccess);
  EXPECT_EQ(pair.side(1).bytes_at(kPairBufferBytes - 32, 32), before);
}

TEST_F(Direct, a_message_longer_than_its_receive_ends_both) {
  connect();
  receive(1, 0, 100);
  send(2, 0, 101);
  pair.run(20);
  const auto done = pair.take_completions(0);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, WcStatus::kRemoteInvalidRequest);
  const auto received = pair.take_completions(1);
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].status, WcStatus::kLocalLength);
}

TEST_F(Direct, requests_take_effect_in_the_order_of_posting) {
  connect();
  post(remote(SendOpcode::kRdmaWrite, 0), 0, 8);
  pair.run(20);
  (void)pair.take_completions(0);
  for (int i = 0; i < 8; ++i) receive(static_cast<uint64_t>(i), 8192 + 64 * static_cast<uint32_t>(i), 64);
  pair.side(0).fill(0, 4096, 50);
  for (uint32_t i = 0; i < 8; ++i) {
    post(remote(SendOpcode::kRdmaWrite, 64 * i), 64 * i, 64);
    send(i, 64 * i, 64);
  }
  pair.run(200);
  EXPECT_EQ(pair.take_completions(0).size(), 16U);
  const auto received = pair.take_completions(1);
  ASSERT_EQ(received.size(), 8U);
  for (uint64_t i = 0; i < 8; ++i) EXPECT_EQ(received[i].wr_id, i);
  EXPECT_EQ(pair.side(1).bytes_at(0, 512), pair.side(0).bytes_at(0, 512));
  EXPECT_EQ(pair.side(1).bytes_at(8192, 512), pair.side(0).bytes_at(0, 512));
}

TEST_F(Direct, a_flood_of_messages_waits_for_room) {
  connect({.send_wqes = 256, .recv_wqes = 256});
  pair.side(0).fill(0, 60'000, 5);
  for (uint32_t i = 0; i < 200; ++i) receive(i, 300 * i, 300);
  for (uint32_t i = 0; i < 200; ++i) send(i, 300 * i, 300);
  pair.run(300);
  EXPECT_EQ(pair.take_completions(0).size(), 200U);
  EXPECT_EQ(pair.take_completions(1).size(), 200U);
  EXPECT_EQ(pair.side(1).bytes_at(0, 60'000), pair.side(0).bytes_at(0, 60'000));
}

TEST_F(Direct, a_side_without_the_way_makes_both_use_cells) {
  pair.paths[1]->offered = false;
  pair.paths[0]->refused = true;
  connect();
  receive(1, 64, 64);
  send(2, 0, 64);
  pair.run(50);
  EXPECT_EQ(pair.take_completions(0).size(), 1U);
  EXPECT_EQ(pair.take_completions(1).size(), 1U);
  EXPECT_GT(pair.cells(0), 0U);
  EXPECT_EQ(pair.paths[0]->claims, 0);
}

/// Its peer wants each cell acknowledged, and so uses the switch. `last`: no other QP holds the window.
TEST_F(Direct, a_queue_pair_whose_peer_uses_the_switch_does_so_too) {
  for (const bool last : {false, true}) {
    DirectPair world;
    const auto held = world.connect({});
    world.run(20);
    QpConfig strict;
    strict.ack_mode = AckMode::kStrict;
    const std::array<QueuePair*, 2> mixed{world.make_qp(0, {}), world.make_qp(1, strict)};
    world.bring_up(0, *mixed[0], {}, world.side(1).adapter->qpn(*mixed[1]), Lid(2), Psn(1), Psn(2));
    if (last) {
      world.run_one(0);  // it asks
      ASSERT_TRUE(world.side(0).adapter->destroy_qp(held[0]));
    }
    world.bring_up(1, *mixed[1], strict, world.side(0).adapter->qpn(*mixed[0]), Lid(1), Psn(2), Psn(1));
    ASSERT_EQ(world.post_recv(0, *mixed[0], 5, {world.side(0).sge(0, 64)}), PostResult::kOk);
    ASSERT_EQ(world.post_send(1, *mixed[1], {}, {world.side(1).sge(0, 64)}), PostResult::kOk);
    world.run(60);
    EXPECT_EQ(world.side(0).completions.size(), 1U) << last;
    EXPECT_GT(world.cells(1), 0U) << last;
    EXPECT_EQ(world.paths[0]->claims, last ? 0 : 1);
  }
}

/// Only side 0 wants windows for this pair of queue pairs.
TEST_F(Direct, a_window_that_a_peer_opened_tells_it_to_use_the_switch) {
  pair.joins = false;
  QpConfig strict;
  strict.ack_mode = AckMode::kStrict;
  const std::array<QueuePair*, 2> mixed{pair.make_qp(0, {}), pair.make_qp(1, strict)};
  pair.bring_up(1, *mixed[1], strict, pair.side(0).adapter->qpn(*mixed[0]), Lid(1), Psn(2), Psn(1));
  pair.bring_up(0, *mixed[0], {}, pair.side(1).adapter->qpn(*mixed[1]), Lid(2), Psn(1), Psn(2));
  EXPECT_EQ(pair.side(0).adapter->way_of(*mixed[0]), QpWay::kWindow);
  pair.arrive_at(1);
  ASSERT_EQ(pair.post_recv(1, *mixed[1], 5, {pair.side(1).sge(0, 64)}), PostResult::kOk);
  ASSERT_EQ(pair.post_send(0, *mixed[0], {}, {pair.side(0).sge(0, 64)}), PostResult::kOk);
  pair.run(60);
  EXPECT_EQ(pair.take_completions(0).size(), 1U);
  EXPECT_EQ(pair.take_completions(1).size(), 1U);
  EXPECT_EQ(pair.side(0).adapter->way_of(*mixed[0]), QpWay::kSwitch);
  EXPECT_GT(pair.cells(0), 0U);
  EXPECT_EQ(pair.paths[0]->claims, 0);
  EXPECT_EQ(pair.paths[1]->claims, 1);
  pair.window->kill(0);
  pair.run(5);
  EXPECT_EQ(pair.paths[1]->claims, 0) << "it ends with the peer's";
}

TEST_F(Direct, a_window_that_a_peer_opened_serves_queue_pairs_to_come) {
  pair.joins = false;
  const std::array<QueuePair*, 2> both{pair.make_qp(0, {}), pair.make_qp(1, {})};
  pair.bring_up(0, *both[0], {}, pair.side(1).adapter->qpn(*both[1]), Lid(2), Psn(1), Psn(2));
  pair.arrive_at(1);
  ASSERT_EQ(pair.post_send(0, *both[0], {}, {pair.side(0).sge(0, 64)}), PostResult::kOk);
  pair.run(20);
  EXPECT_EQ(pair.paths[1]->claims, 1);
  pair.bring_up(1, *both[1], {}, pair.side(0).adapter->qpn(*both[0]), Lid(1), Psn(2), Psn(1));
  ASSERT_EQ(pair.post_recv(1, *both[1], 5, {pair.side(1).sge(0, 64)}), PostResult::kOk);
  pair.run(60);
  EXPECT_EQ(pair.take_completions(1).size(), 1U);
  EXPECT_EQ(pair.side(1).adapter->way_of(*both[1]), QpWay::kWindow);
  EXPECT_EQ(pair.cells(0), 0U);
}

TEST_F(Direct, a_queue_pair_asks_again_until_its_peer_has_come_up) {
  for (const AckMode mode : {AckMode::kSelective, AckMode::kStrict}) {
    DirectPair world;
    (void)world.connect({});
    world.run(20);
    QpConfig late;
    late.ack_mode = mode;
    const std::array<QueuePair*, 2> pairs{world.make_qp(0, {}), world.make_qp(1, late)};
    world.bring_up(0, *pairs[0], {}, world.side(1).adapter->qpn(*pairs[1]), Lid(2), Psn(1), Psn(2));
    ASSERT_EQ(world.post_send(0, *pairs[0], {}, {world.side(0).sge(0, 64)}), PostResult::kOk);
    world.run(50, 1ms);
    world.bring_up(1, *pairs[1], late, world.side(0).adapter->qpn(*pairs[0]), Lid(1), Psn(2), Psn(1));
    ASSERT_EQ(world.post_recv(1, *pairs[1], 5, {world.side(1).sge(0, 64)}), PostResult::kOk);
    world.run(60, 1ms);
    EXPECT_EQ(world.side(1).completions.size(), 1U);
    EXPECT_EQ(world.side(0).completions.size(), 1U);
    EXPECT_EQ(world.cells(0) != 0, mode == AckMode::kStrict);
  }
}

TEST_F(Direct, a_region_ends_only_when_no_peer_moves_its_data) {
  connect();
  post(remote(SendOpcode::kRdmaWrite, 0), 0, 64);
  pair.run(20);
  ASSERT_EQ(pair.end(1).own().published(), 1U);
  MemoryTable& table = pair.side(1).adapter->memory();
  ASSERT_TRUE(table.regions.dereg_mr(pair.side(1).region.lkey));
  EXPECT_EQ(pair.end(1).own().published(), 0U);
  (void)pair.take_completions(0);
  post(remote(SendOpcode::kRdmaWrite, 0), 0, 64);
  pair.run(20);
  const auto done = pair.take_completions(0);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, WcStatus::kRemoteAccess);
}

/// Side 0 is in the middle of a use: its DMA may still write into memory of side 1.
TEST_F(Direct, a_window_and_its_regions_stay_while_the_peer_moves_data) {
  connect();
  post(remote(SendOpcode::kRdmaWrite, 0), 0, 64);
  pair.run(20);
  fabric::OwnWindow& own = pair.end(1).own();
  ASSERT_EQ(own.published(), 1U);
  MemoryTable& table = pair.side(1).adapter->memory();
  const Lkey lkey = pair.side(1).region.lkey;
  std::byte* const use = own.fifo().data() + kFifoTableUseAt;
  fabric::store_window_word(use, own.generation());
  ASSERT_TRUE(pair.side(1).adapter->destroy_qp(qps[1]));
  pair.run(20);
  EXPECT_EQ(pair.paths[1]->claims, 1);
  const Refusable<> refused = table.regions.dereg_mr(lkey);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().reason(), Reason::kAgain);
  const Refusable<MemoryRegion> changed = table.regions.rereg_mr(lkey, {.access = Access::kLocalWrite});
  ASSERT_FALSE(changed);
  EXPECT_EQ(changed.error().reason(), Reason::kAgain);
  EXPECT_LE(pair.side(1).adapter->deadline(), pair.clock.now() + 1ms);
  fabric::store_window_word(use, 0);
  EXPECT_TRUE(table.regions.dereg_mr(lkey));
  pair.run(120);
  EXPECT_EQ(pair.paths[1]->claims, 0);
}

/// A region that could not end stays a region: its key is shown to the peer again when the peer uses it.
TEST_F(Direct, a_key_that_was_withdrawn_in_vain_is_shown_again) {
  connect();
  post(remote(SendOpcode::kRdmaWrite, 0), 0, 64);
  pair.run(20);
  fabric::OwnWindow& own = pair.end(1).own();
  ASSERT_EQ(own.published(), 1U);
  std::byte* const use = own.fifo().data() + kFifoTableUseAt;
  const uint64_t used = own.generation();
  fabric::store_window_word(use, used);
  ASSERT_FALSE(pair.side(1).adapter->memory().regions.dereg_mr(pair.side(1).region.lkey));
  EXPECT_EQ(own.published(), 0U);
  (void)pair.take_completions(0);
  post(remote(SendOpcode::kRdmaWrite, 0), 0, 64);
  for (int turn = 0; turn < 20; ++turn) {
    pair.run_one(0);
    fabric::store_window_word(use, used);  // side 0 itself knows of no use
    pair.run_one(1);
    pair.clock.advance(10us);
  }
  EXPECT_EQ(pair.take_completions(0).size(), 1U);
  EXPECT_EQ(own.published(), 0U) << "the peer may still move data by the entry that was withdrawn";
  fabric::store_window_word(use, 0);
  for (int i = 0; i < 2; ++i) {
    (void)pair.take_completions(0);
    post(remote(SendOpcode::kRdmaWrite, 0), 0, 64);
    pair.run(20);
    const auto done = pair.take_completions(0);
    ASSERT_EQ(done.size(), 1U);
    EXPECT_EQ(done[0].status, WcStatus::kSuccess);
    EXPECT_EQ(own.published(), 1U);
  }
}

TEST_F(Direct, a_write_behind_a_send_waits_for_its_receive) {
  QpAttr attr;
  attr.rnr_retry = 7;
  attr.min_rnr_timer = 100us;
  connect({}, attr);
  post(remote(SendOpcode::kRdmaWrite, 64), 0, 8);
  pair.run(20);
  (void)pair.take_completions(0);
  constexpr uint32_t kLong = kDirectFollowBytes + 64;
  for (const uint32_t bytes : {64U, 2000U, kLong}) {
    pair.side(0).fill(0, bytes, static_cast<uint8_t>(bytes));
    const auto before = pair.side(1).bytes_at(64, bytes);
    send(1, 0, 64);
    post(remote(SendOpcode::kRdmaWrite, 64), 0, bytes);
    pair.run(30);
    EXPECT_EQ(pair.side(1).bytes_at(64, bytes), before) << "the Send before it has no receive yet";
    receive(1, 2 * kLong, 64);
    pair.run(60);
    EXPECT_EQ(pair.take_completions(0).size(), 2U);
    EXPECT_EQ(pair.side(1).bytes_at(64, bytes), pair.side(0).bytes_at(0, bytes));
  }
}

TEST_F(Direct, a_record_of_the_former_life_is_dropped) {
  connect();
  pair.run(20);
  const uint32_t to = pair.side(0).adapter->qpn(*qps[0]).value();
  const uint32_t from = pair.side(1).adapter->qpn(*qps[1]).value();
  const auto gone =
      encode_window_record({.kind = WindowRecordKind::kGone, .sender_life = 1, .receiver_life = 99});
  ASSERT_EQ(pair.end(1).send(to, from, gone, 0), fabric::FifoPost::kOk);
  pair.end(1).flush();
  pair.run(2);
  receive(1, 0, 64);
  send(2, 0, 64);
  pair.run(20);
  EXPECT_EQ(pair.take_completions(0).size(), 1U);
}

TEST_F(Direct, a_peer_that_fails_with_requests_under_way_costs_the_retries) {
  QpAttr attr;
  attr.rnr_retry = 7;
  attr.min_rnr_timer = 1ms;
  connect({}, attr);
  pair.run(20);
  send(1, 0, 8);  // without a receive
  pair.run(5);
  post_wrong_key(1);
  pair.run(60, 1ms);
  EXPECT_EQ(pair.side(1).adapter->query_qp(*qps[1]).state, QpState::kErr);
  expect_given_up();
}

/// Its failure completes with the answer to an earlier request, and no request of ours is under way then.
TEST_F(Direct, a_peer_that_has_failed_behind_an_answer_says_so) {
  connect();
  ASSERT_EQ(pair.post_recv(0, *qps[0], 1, {pair.side(0).sge(0, 64)}), PostResult::kOk);
  ASSERT_EQ(pair.post_send(1, *qps[1], {}, {pair.side(1).sge(0, 64)}), PostResult::kOk);
  post_wrong_key(1);
  pair.run(20);
  static_cast<void>(pair.take_completions(0));
  send(4, 0, 8);
  pair.run(60, 1ms);
  expect_given_up();  // after the retries, and not after the minute of a peer that stands still
}

/// Any record in any order: it costs the QP that the peer names, and no other.
TEST_F(Direct, a_peer_that_lies_costs_its_own_queue_pair) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    DirectPair world;
    QpAttr attr;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
    const auto attacked = world.connect({}, attr);
    const auto other = world.connect({}, attr);
    world.run(10);
    for (uint64_t i = 0; i < 8; ++i)
      ASSERT_EQ(world.post_recv(0, *attacked[0], i, {world.side(0).sge(512, 64)}), PostResult::kOk);
    SeededRandom random(seed);
    const uint32_t to = world.side(0).adapter->qpn(*attacked[0]).value();
    const uint32_t from = world.side(1).adapter->qpn(*attacked[1]).value();
    for (int i = 0; i < 400; ++i) {
      if (world.side(0).adapter->query_qp(*attacked[0]).state == QpState::kRts && random.below(4) == 0) {
        (void)world.post_send(0, *attacked[0], remote(SendOpcode::kRdmaRead, 0), {});
        (void)world.post_send(0, *attacked[0], {}, {world.side(0).sge(0, 300)});
      }
      WindowRecord lie{.kind = static_cast<WindowRecordKind>(1 + random.below(14)),
                       .flags = static_cast<uint8_t>(random.below(32)),
                       .code = static_cast<uint8_t>(random.below(10)),
                       .timer = static_cast<uint8_t>(random.below(256)),
                       .number = static_cast<uint32_t>(random.below(6)),
                       .acknowledged = static_cast<uint32_t>(random.below(8)),
                       .address = world.side(0).region.addr + random.below(1U << 21),
                       .key = world.side(0).region.rkey.value() ^ (random.below(3) == 0 ? 1U : 0U),
                       .total = static_cast<uint32_t>(random.below(300)),
                       .offset = static_cast<uint32_t>(random.below(40)),
                       .sender_life = 1,
                       .receiver_life = static_cast<uint32_t>(random.below(2))};
      if (random.below(2) == 0) lie.offset = 0;
      const auto header = encode_window_record(lie);
      std::vector<std::byte> bytes(header.begin(), header.end());
      bytes.resize(bytes.size() + random.below(3) * 8 + random.below(100));
      (void)world.end(1).send(to, from, bytes, 0);
      world.end(1).flush();
      world.run(1);
    }
    world.side(0).completions.clear();
    world.side(1).completions.clear();
    ASSERT_EQ(world.post_recv(1, *other[1], 9, {world.side(1).sge(0, 64)}), PostResult::kOk);
    ASSERT_EQ(world.post_send(0, *other[0], {.wr_id = 77}, {world.side(0).sge(0, 64)}), PostResult::kOk);
    world.run(50);
    const auto& done = world.side(0).completions;
    EXPECT_TRUE(std::any_of(done.begin(), done.end(), [](const WorkCompletion& entry) {
      return entry.wr_id == 77 && entry.status == WcStatus::kSuccess;
    })) << seed;
  }
}

TEST_F(Direct, the_window_ends_with_its_last_queue_pair) {
  connect();
  EXPECT_EQ(pair.paths[0]->claims, 1);
  ASSERT_TRUE(pair.side(0).adapter->destroy_qp(qps[0]));
  pair.run(1);
  EXPECT_EQ(pair.paths[0]->claims, 0);
}

}  // namespace
}  // namespace weft::test
