// Keys that the arriving NIC does not know, beyond the rows of MIG: limits, order, other services, and peers
// that guess. tests/conformance/adapter/key_migration_test.cc has the rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <utility>

#include "adapter/limits.h"
#include "tests/support/nic_pair.h"

namespace weft::test {
using namespace adapter;
using node::KeyCounter;
namespace {

using namespace std::chrono_literals;

class KeyQuestionsTest : public ::testing::Test {
 protected:
  /// Writes from the start of near's memory to far's region, or to memory under another key, and waits.
  void write(QueuePair& qp, uint32_t offset, uint32_t bytes) {
    write(qp, pair.far.region.rkey, pair.far.region.addr + offset, bytes);
  }
  void write(QueuePair& qp, Rkey key, uint64_t va, uint32_t bytes, uint32_t flags = kSendSignaled) {
    ASSERT_EQ(pair.write(qp, key, va, bytes, flags), PostResult::kOk);
    pair.run();
  }
  /// Posts a write of 64 bytes to the start of far's memory between two reliable datagram QPs.
  PostResult post_rd(const std::array<QueuePair*, 2>& qps, SendOpcode opcode, Rkey key) {
    const Sge from = pair.near.sge(0, 64);
    return pair.near.adapter->post_send(
        *qps[0],
        {.opcode = opcode,
         .sges = {&from, 1},
         .remote_addr = pair.far.region.addr,
         .rkey = key,
         .dest = {.lid = NicPair::lid(1, 1), .qpn = pair.far.adapter->qpn(*qps[1]), .qkey = 0x1234}});
  }

  NicPair pair{2};
};

TEST_F(KeyQuestionsTest, a_storm_of_guessed_keys_costs_a_bounded_number_of_questions) {
  const auto qps = pair.connect({.type = QpType::kUc}, 1);
  pair.move(qps);
  const std::vector<std::byte> before = pair.far.memory;
  pair.near.fill(0, 8, 0x61);
  const uint32_t number = uint32_t{NicPair::kNumbers[0]} << 28;
  uint32_t guess = 0;
  for (const uint32_t second : {1U, 2U}) {
    const Instant begin = pair.clock.now();
    for (int turn = 0; turn < 400; ++turn) {
      for (int i = 0; i < 10; ++i)
        ASSERT_EQ(pair.write(*qps[0], Rkey(number | (++guess * 7919 & 0xFFF'FFFF)), pair.far.region.addr, 8),
                  PostResult::kOk);
      pair.run(2, 1us);
    }
    ASSERT_LT(pair.clock.now() - begin, 1s);
    EXPECT_EQ(pair.far.count(AdapterCounter::kKeyQuestions), second * (kKeyGuessesPerSecond + 1));
    EXPECT_EQ(pair.far.count(KeyCounter::kQuestions), second * (kKeyGuessesPerSecond + 1));
    EXPECT_GT(pair.far.count(AdapterCounter::kKeyQuestionsLimited), 0U);
    if (second == 1) pair.clock.advance(1s);
  }
  EXPECT_EQ(pair.far.memory, before);
  const auto honest = pair.connect({}, 1);
  pair.move(honest);
  write(*honest[0], 128, 8);
  EXPECT_EQ(pair.far.at(128), std::byte{0x61}) << "other queue pairs have questions left";
  pair.clock.advance(1s);
  write(*qps[0], pair.bound_key(0, 0, 4096), pair.far.region.addr + 64, 8);
  EXPECT_EQ(pair.far.at(64), std::byte{0x61}) << "the next second has questions of its own";
}

/// Many connections with one guess each.
TEST_F(KeyQuestionsTest, all_connections_together_have_a_bounded_number_of_questions) {
  const uint32_t number = uint32_t{NicPair::kNumbers[0]} << 28;
  const Instant begin = pair.clock.now();
  for (uint32_t i = 0; i < kKeyQuestionsPerSecond + 20; ++i) {
    const auto qps = pair.connect({.type = QpType::kRd, .send_wqes = 1, .recv_wqes = 1}, 1, 1);
    ASSERT_EQ(post_rd(qps, SendOpcode::kRdmaWrite, Rkey(number | (i * 7919 + 5))), PostResult::kOk);
    pair.run(4, 1us);
  }
  ASSERT_LT(pair.clock.now() - begin, 1s);
  EXPECT_EQ(pair.far.count(AdapterCounter::kKeyQuestions), kKeyQuestionsPerSecond);
  EXPECT_GT(pair.far.count(AdapterCounter::kKeyQuestionsLimited), 0U);
}

TEST_F(KeyQuestionsTest, a_key_of_another_domain_is_refused_at_the_second_nic) {
  const auto qps = pair.connect({}, 1);
  pair.move(qps);
  const PdId other = pair.far.adapter->alloc_pd().value();
  const MemoryRegion foreign =
      pair.list(pair.far, 0).regions.reg_mr(other, pair.far.memory, NicPair::kAll).value();
  const std::vector<std::byte> before = pair.far.memory;
  pair.near.fill(0, 64, 0x62);
  write(*qps[0], foreign.rkey, foreign.addr, 64);
  EXPECT_EQ(pair.near.last_status(), WcStatus::kRemoteAccess);
  EXPECT_EQ(pair.far.adapter->access_faults().get(AccessFault::kWrongPd), 1U);
  EXPECT_EQ(pair.far.memory, before);
}

TEST_F(KeyQuestionsTest, a_key_that_ended_is_refused_at_the_second_nic_before_and_after_its_hand_over) {
  for (const bool handed_over : {false, true}) {
    const auto qps = pair.connect({}, 1);
    pair.move(qps);
    const MemoryRegion region =
        pair.list(pair.far, 0).regions.reg_mr(pair.far.pd, pair.far.memory, NicPair::kAll).value();
    pair.near.fill(0, 64, 0x63);
    if (handed_over) {
      write(*qps[0], region.rkey, region.addr, 64);
      ASSERT_TRUE(pair.list(pair.far, 1).has_key(region.rkey.value()));
    }
    ASSERT_TRUE(pair.list(pair.far, 0).regions.dereg_mr(region.lkey).ok());
    EXPECT_FALSE(pair.list(pair.far, 1).has_key(region.rkey.value()));
    const std::vector<std::byte> before = pair.far.memory;
    pair.near.fill(0, 64, 0x64);
    write(*qps[0], region.rkey, region.addr, 64);
    EXPECT_EQ(pair.near.last_status(), WcStatus::kRemoteAccess);
    EXPECT_EQ(pair.far.memory, before);
  }
  EXPECT_EQ(pair.far.count(AdapterCounter::kKeysWithdrawn), 1U);
  EXPECT_EQ(pair.far.count(AdapterCounter::kKeyCellsDiscarded), 2U);
}

/// O-35: the question was asked before the end, and is answered after it.
TEST_F(KeyQuestionsTest, a_key_that_ends_while_its_question_waits_is_not_handed_over) {
  const auto qps = pair.connect({}, 1);
  pair.move(qps);
  const Rkey key = pair.bound_key(0, 0, 4096);
  pair.far.component_runs = false;
  pair.near.fill(0, 64, 0x65);
  ASSERT_EQ(pair.write(*qps[0], key, pair.far.region.addr, 64), PostResult::kOk);
  pair.run(20);
  ASSERT_EQ(pair.far.count(KeyCounter::kQuestions), 1U);
  ASSERT_EQ(pair.list(pair.far, 0).windows.unbind_rkey(pair.far.pd, key), AccessFault::kNone);
  pair.far.component_runs = true;
  pair.run();
  EXPECT_EQ(pair.near.last_status(), WcStatus::kRemoteAccess);
  EXPECT_EQ(pair.far.at(0), std::byte{0});
  EXPECT_EQ(pair.far.count(KeyCounter::kHandedOver), 0U);
}

TEST_F(KeyQuestionsTest, rights_that_change_under_the_same_key_change_at_every_nic) {
  const auto qps = pair.connect({}, 1);
  pair.move(qps);
  const MemoryRegion region =
      pair.list(pair.far, 0)
          .regions.reg_mr(pair.far.pd, pair.far.memory, NicPair::kAll, {.one_key = true})
          .value();
  pair.near.fill(0, 64, 0x66);
  write(*qps[0], region.rkey, region.addr, 64);
  EXPECT_EQ(pair.near.last_status(), WcStatus::kSuccess);
  const MemoryRegion changed =
      pair.list(pair.far, 0)
          .regions.rereg_mr(region.lkey, {.access = Access::kLocalWrite | Access::kRemoteRead})
          .value();
  ASSERT_EQ(changed.rkey, region.rkey);
  write(*qps[0], region.rkey, region.addr + 64, 64);
  EXPECT_EQ(pair.near.last_status(), WcStatus::kRemoteAccess);
  EXPECT_EQ(pair.far.at(64), std::byte{0});
}

/// The second NIC's list has a copy of the region, which lasts only as long as the key at the first NIC.
TEST_F(KeyQuestionsTest, a_window_is_bound_to_no_region_of_another_nic) {
  const auto qps = pair.connect({}, 1);
  pair.move(qps);
  const MemoryRegion region =
      pair.list(pair.far, 0)
          .regions.reg_mr(pair.far.pd, pair.far.memory, NicPair::kAll, {.one_key = true})
          .value();
  write(*qps[0], region.rkey, region.addr, 64);
  MemoryTable& second = pair.list(pair.far, 1);
  ASSERT_TRUE(second.has_key(region.lkey.value()));
  const Rkey window = second.windows.alloc_rkey(pair.far.pd).value();
  EXPECT_EQ(second.windows.bind_rkey(pair.far.pd, {.window = window,
                                                   .region = region.lkey,
                                                   .addr = region.addr,
                                                   .length = 64,
                                                   .access = Access::kRemoteWrite}),
            AccessFault::kNotValid);
}

TEST_F(KeyQuestionsTest, two_queue_pairs_share_a_question) {
  const auto first = pair.connect({}, 1);
  const auto second = pair.connect({}, 1);
  pair.move(first);
  pair.move(second);
  pair.near.fill(0, 64, 0x67);
  ASSERT_EQ(pair.write(*first[0], 0, 64), PostResult::kOk);
  write(*second[0], 64, 64);
  EXPECT_EQ(pair.near.done.size(), 2U);
  EXPECT_EQ(pair.far.at(0), std::byte{0x67});
  EXPECT_EQ(pair.far.at(64), std::byte{0x67});
  EXPECT_EQ(pair.far.count(KeyCounter::kQuestions), 1U);
  EXPECT_GT(pair.far.adapter->deadline(), pair.clock.now()) << "no question is left that keeps it awake";
}

TEST_F(KeyQuestionsTest, a_component_that_does_not_answer_costs_the_packet_and_not_the_connection) {
  const auto qps = pair.connect({}, 1);
  pair.move(qps);
  pair.far.component_runs = false;
  pair.near.fill(0, 64, 0x68);
  ASSERT_EQ(pair.write(*qps[0], 0, 64), PostResult::kOk);
  pair.run(4);
  pair.clock.advance(kKeyAnswerTime);
  pair.run_one(pair.far);
  EXPECT_EQ(pair.far.count(AdapterCounter::kKeyUnanswered), 1U);
  pair.far.component_runs = true;
  pair.run(200, 1ms);
  EXPECT_EQ(pair.near.last_status(), WcStatus::kSuccess) << "the peer repeats the packet";
  EXPECT_EQ(pair.far.at(0), std::byte{0x68});
}

TEST_F(KeyQuestionsTest, what_finds_no_room_behind_a_packet_that_waits_is_sent_again) {
  const auto qps = pair.connect({.send_wqes = 1024}, 1);
  pair.move(qps);
  pair.far.component_runs = false;
  pair.near.fill(0, 64, 0x69);
  for (uint32_t i = 0; i < 600; ++i) ASSERT_EQ(pair.write(*qps[0], i * 64, 64), PostResult::kOk);
  pair.run(20);
  EXPECT_EQ(pair.far.count(AdapterCounter::kKeyCellsHeld), kKeyCellsPerQp);
  EXPECT_GT(pair.far.count(AdapterCounter::kKeyHoldFull), 0U);
  pair.far.component_runs = true;
  pair.run(500, 100us);
  EXPECT_EQ(pair.near.done.size(), 600U);
  EXPECT_EQ(std::count(pair.far.memory.begin(), pair.far.memory.end(), std::byte{0x69}), 600 * 64);
  EXPECT_EQ(pair.far.count(KeyCounter::kQuestions), 1U);
}

TEST_F(KeyQuestionsTest, a_queue_pair_that_is_reset_or_destroyed_forgets_what_waits) {
  for (const bool destroyed : {false, true}) {
    const auto qps = pair.connect({}, 1);
    pair.move(qps);
    const Rkey key = pair.bound_key(0, 0, 4096);
    pair.far.component_runs = false;
    pair.near.fill(0, 64, 0x6A);
    ASSERT_EQ(pair.write(*qps[0], key, pair.far.region.addr, 64), PostResult::kOk);
    pair.run(4);
    if (destroyed) {
      ASSERT_TRUE(pair.far.adapter->destroy_qp(qps[1]).ok());
    } else {
      ASSERT_EQ(pair.far.adapter->modify_qp(*qps[1], {.state = QpState::kReset}, kQpAttrState),
                ModifyResult::kOk);
    }
    pair.far.component_runs = true;
    pair.run();
    EXPECT_EQ(pair.far.at(0), std::byte{0});
    EXPECT_EQ(pair.far.adapter->deadline(), kNever);
  }
}

/// Each round leaves a QP's share of cells behind. More rounds than the store has room for need the room of
/// the earlier ones.
TEST_F(KeyQuestionsTest, a_queue_pair_that_is_reset_gives_the_room_of_its_cells_back) {
  pair.far.component_runs = false;
  for (uint32_t round = 0; round <= kKeyCellsMax / kKeyCellsPerQp; ++round) {
    const auto qps = pair.connect({.send_wqes = kKeyCellsPerQp}, 1);
    pair.move(qps);
    for (uint32_t i = 0; i < kKeyCellsPerQp; ++i) ASSERT_EQ(pair.write(*qps[0], 0, 8), PostResult::kOk);
    pair.run(20, 1us);
    EXPECT_EQ(pair.far.count(AdapterCounter::kKeyCellsHeld), (round + 1) * kKeyCellsPerQp);
    for (const size_t end : {size_t{0}, size_t{1}})
      ASSERT_TRUE(pair.end(end).adapter->destroy_qp(qps[end]).ok());
  }
  EXPECT_EQ(pair.far.count(AdapterCounter::kKeyHoldFull), 0U);
}

/// A Send loses its cell, and the write after it is placed ahead of its turn by the first NIC. The Send comes
/// again by the second NIC, which does not know the key of the write.
TEST_F(KeyQuestionsTest, a_write_that_was_placed_ahead_of_its_turn_needs_no_second_list) {
  const auto qps = pair.connect({}, 1);
  const Sge into = pair.far.sge(16384, 64);
  for (const uint64_t wr_id : {7U, 8U})
    ASSERT_EQ(pair.far.adapter->post_recv(*qps[1], {.wr_id = wr_id, .sges = {&into, 1}}), PostResult::kOk);
  int cells = 0;
  pair.pipes[0]->set_filter([&](int from, std::vector<std::byte>&) {
    return from == 1 || cells++ == 0 ? Verdict::kDrop : Verdict::kPass;
  });
  pair.near.fill(0, 64, 0x73);
  const Sge data = pair.near.sge(0, 64);
  ASSERT_EQ(pair.near.adapter->post_send(*qps[0], {.sges = {&data, 1}}), PostResult::kOk);
  ASSERT_EQ(pair.near.adapter->post_send(*qps[0], {.opcode = SendOpcode::kRdmaWriteWithImm,
                                                   .sges = {&data, 1},
                                                   .imm = 0xABCD,
                                                   .remote_addr = pair.far.region.addr,
                                                   .rkey = pair.far.region.rkey}),
            PostResult::kOk);
  pair.run(2, 1us);
  ASSERT_EQ(pair.far.at(0), std::byte{0x73}) << "placed";
  ASSERT_TRUE(pair.far.done.empty()) << "ahead of its turn";
  pair.pipes[1]->set_filter([](int from, std::vector<std::byte>& cell) {  // the Send alone comes again
    return from == 0 && static_cast<Opcode>(cell[13]) != Opcode::kSend ? Verdict::kDrop : Verdict::kPass;
  });
  pair.move(qps);
  pair.run(200, 1ms);
  ASSERT_EQ(pair.far.done.size(), 2U);
  EXPECT_EQ(pair.far.done[1].imm, 0xABCDU) << "executed with the Send";
  EXPECT_EQ(pair.near.done.size(), 2U);
  EXPECT_EQ(pair.far.count(AdapterCounter::kKeyQuestions), 0U);
}

/// The range of the last write was learned from the list of the first NIC.
TEST_F(KeyQuestionsTest, a_queue_pair_that_moves_does_not_use_the_range_that_it_has_learned) {
  const auto qps = pair.connect({}, 1);
  pair.near.fill(0, 64, 0x74);
  for (int i = 0; i < 3; ++i) {
    write(*qps[0], 0, 64);
  }
  pair.move(qps);
  pair.far.component_runs = false;
  pair.near.fill(0, 64, 0x75);
  ASSERT_EQ(pair.write(*qps[0], 0, 64), PostResult::kOk);
  pair.run(20);
  EXPECT_EQ(pair.far.count(AdapterCounter::kKeyQuestions), 1U);
  EXPECT_EQ(pair.far.at(0), std::byte{0x74}) << "the list of the second NIC does not have the key";
  pair.far.component_runs = true;
  pair.run();
  EXPECT_EQ(pair.far.at(0), std::byte{0x75});
}

TEST_F(KeyQuestionsTest, an_unacknowledged_write_waits_and_what_follows_keeps_its_order) {
  const auto qps = pair.connect({.type = QpType::kUc}, 1);
  pair.move(qps);
  pair.far.component_runs = false;
  const Sge into = pair.far.sge(16384, 64);
  ASSERT_EQ(pair.far.adapter->post_recv(*qps[1], {.wr_id = 7, .sges = {&into, 1}}), PostResult::kOk);
  pair.near.fill(0, 1000, 0x6B);
  ASSERT_EQ(pair.write(*qps[0], 0, 1000), PostResult::kOk);  // four cells
  const Sge data = pair.near.sge(0, 64);
  ASSERT_EQ(pair.near.adapter->post_send(*qps[0], {.sges = {&data, 1}}), PostResult::kOk);
  pair.run(20);
  EXPECT_TRUE(pair.far.done.empty()) << "the Send does not overtake the write";
  pair.far.component_runs = true;
  pair.run(20);
  ASSERT_EQ(pair.far.done.size(), 1U);
  EXPECT_EQ(pair.far.done[0].wr_id, 7U);
  EXPECT_EQ(pair.far.at(999), std::byte{0x6B});
  EXPECT_EQ(pair.far.at(16384), std::byte{0x6B});
  EXPECT_EQ(pair.far.adapter->missed_packets(*qps[1]), 0U);
}

TEST_F(KeyQuestionsTest, an_unacknowledged_queue_pair_goes_on_after_an_invalid_key) {
  const auto qps = pair.connect({.type = QpType::kUc}, 1);
  pair.move(qps);
  pair.near.fill(0, 600, 0x6C);
  ASSERT_EQ(pair.write(*qps[0], Rkey(pair.far.region.rkey.value() ^ 0x333), pair.far.region.addr, 600),
            PostResult::kOk);
  write(*qps[0], 4096, 600);
  EXPECT_EQ(pair.far.at(0), std::byte{0});
  EXPECT_EQ(pair.far.at(4096), std::byte{0x6C});
  EXPECT_EQ(pair.far.count(AdapterCounter::kDropAccess), 1U);
  EXPECT_EQ(pair.far.count(AdapterCounter::kKeysInvalid), 1U);
  EXPECT_EQ(pair.far.count(AdapterCounter::kKeysHandedOver), 1U);
}

/// Only a cell that has waited is taken without a look at its number, because it was looked at before.
TEST_F(KeyQuestionsTest, an_unacknowledged_queue_pair_that_has_waited_still_counts_what_is_lost) {
  const auto qps = pair.connect({.type = QpType::kUc}, 1);
  pair.move(qps);
  pair.near.fill(0, 64, 0x6B);
  write(*qps[0], 0, 64);
  ASSERT_EQ(pair.far.count(AdapterCounter::kKeyQuestions), 1U);
  ASSERT_EQ(pair.far.at(0), std::byte{0x6B});
  pair.pipes[1]->set_filter([](int, std::vector<std::byte>&) { return Verdict::kDrop; });
  write(*qps[0], 64, 64);
  pair.pipes[1]->set_filter(nullptr);
  write(*qps[0], 128, 64);
  EXPECT_EQ(pair.far.at(128), std::byte{0x6B});
  EXPECT_EQ(pair.far.adapter->missed_packets(*qps[1]), 1U);
}

TEST_F(KeyQuestionsTest, a_reliable_datagram_waits_and_is_executed_once) {
  const auto qps = pair.connect({.type = QpType::kRd}, 1, 1);
  const Sge into = pair.far.sge(16384, 64);
  for (int i = 0; i < 2; ++i)
    ASSERT_EQ(pair.far.adapter->post_recv(*qps[1], {.sges = {&into, 1}}), PostResult::kOk);
  pair.near.fill(0, 64, 0x6D);
  ASSERT_EQ(post_rd(qps, SendOpcode::kRdmaWriteWithImm, pair.far.region.rkey), PostResult::kOk);
  pair.run(200, 1ms);
  EXPECT_EQ(pair.near.last_status(), WcStatus::kSuccess);
  EXPECT_EQ(pair.far.done.size(), 1U);
  EXPECT_EQ(pair.far.at(0), std::byte{0x6D});
  EXPECT_EQ(pair.far.count(KeyCounter::kQuestions), 1U);
  ASSERT_EQ(post_rd(qps, SendOpcode::kRdmaWriteWithImm, Rkey(pair.far.region.rkey.value() ^ 0x333)),
            PostResult::kOk);
  pair.run(200, 1ms);
  EXPECT_EQ(pair.near.last_status(), WcStatus::kRemoteAccess);
}

TEST_F(KeyQuestionsTest, an_atomic_operation_waits_and_is_executed_once) {
  const auto qps = pair.connect({}, 1);
  pair.move(qps);
  const Sge into = pair.near.sge(64, 8);
  ASSERT_EQ(pair.near.adapter->post_send(*qps[0], {.opcode = SendOpcode::kFetchAdd,
                                                   .sges = {&into, 1},
                                                   .remote_addr = pair.far.region.addr,
                                                   .rkey = pair.far.region.rkey,
                                                   .operand = 5}),
            PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.near.last_status(), WcStatus::kSuccess);
  uint64_t value = 0;
  std::memcpy(&value, pair.far.memory.data(), sizeof value);
  EXPECT_EQ(value, 5U);
  EXPECT_EQ(pair.far.count(KeyCounter::kHandedOver), 1U);
  EXPECT_EQ(pair.near.count(KeyCounter::kHandedOver), 1U) << "the key of the memory for the old value";
}

/// The program has ended both regions of the list while the request was under way. The response asked for one
/// key after the other without an end, until the retries were used up.
TEST_F(KeyQuestionsTest, a_response_into_memory_of_two_ended_keys_fails_at_once) {
  for (const SendOpcode opcode : {SendOpcode::kRdmaRead, SendOpcode::kFetchAdd}) {
    const auto qps = pair.connect({}, 1);
    pair.move(qps);
    std::array<MemoryRegion, 2> regions;
    std::array<Sge, 2> into;
    for (size_t i = 0; i < 2; ++i) {
      regions[i] =
          pair.list(pair.near, 0).regions.reg_mr(pair.near.pd, pair.near.memory, NicPair::kAll).value();
      into[i] = {regions[i].addr + 64 + 4 * i, 4, regions[i].lkey};
    }
    const uint64_t before = pair.near.count(KeyCounter::kQuestions);
    ASSERT_EQ(pair.near.adapter->post_send(*qps[0], {.opcode = opcode,
                                                     .sges = into,
                                                     .remote_addr = pair.far.region.addr,
                                                     .rkey = pair.far.region.rkey,
                                                     .operand = 5}),
              PostResult::kOk);
    pair.run_one(pair.near);  // the request leaves
    for (const MemoryRegion& region : regions)
      ASSERT_TRUE(pair.list(pair.near, 0).regions.dereg_mr(region.lkey).ok());
    pair.run();
    EXPECT_EQ(pair.near.last_status(), WcStatus::kLocalProtection);
    EXPECT_EQ(pair.near.count(KeyCounter::kQuestions), before + 1) << "no question for the second";
    EXPECT_EQ(pair.near.at(64), std::byte{0});
    pair.near.done.clear();
  }
}

/// The first cells of a packet come by one NIC and the rest by the other.
TEST_F(KeyQuestionsTest, a_packet_that_arrives_by_two_nics_is_one_packet) {
  const auto qps = pair.connect({}, 1);
  int passed = 0;
  pair.pipes[0]->set_filter([&](int from, std::vector<std::byte>&) {
    return from == 1 || passed++ >= 3 ? Verdict::kDrop : Verdict::kPass;
  });
  pair.near.fill(0, 4000, 0x6E);
  ASSERT_EQ(pair.write(*qps[0], 0, 4000), PostResult::kOk);
  pair.run(2);
  EXPECT_EQ(pair.far.at(767), std::byte{0x6E});
  EXPECT_EQ(pair.far.at(768), std::byte{0});
  pair.move(qps);
  pair.run(200, 100us);
  EXPECT_EQ(pair.near.last_status(), WcStatus::kSuccess);
  EXPECT_EQ(std::count(pair.far.memory.begin(), pair.far.memory.end(), std::byte{0x6E}), 4000);
  EXPECT_EQ(pair.far.count(KeyCounter::kQuestions), 1U);
}

TEST_F(KeyQuestionsTest, a_queue_pair_that_comes_back_finds_its_key_without_a_question) {
  const auto qps = pair.connect({}, 1);
  pair.move(qps);
  pair.near.fill(0, 64, 0x6F);
  write(*qps[0], 0, 64);
  pair.rearm(qps, 0);
  pair.move(qps);
  write(*qps[0], 64, 64);
  EXPECT_EQ(pair.near.last_status(), WcStatus::kSuccess);
  EXPECT_EQ(pair.far.at(64), std::byte{0x6F});
  EXPECT_EQ(pair.far.count(KeyCounter::kQuestions), 1U);
}

TEST_F(KeyQuestionsTest, work_requests_name_keys_of_any_nic) {
  const auto qps = pair.connect({}, 1);
  const MemoryRegion region =
      pair.list(pair.near, 1).regions.reg_mr(pair.near.pd, pair.near.memory, NicPair::kAll).value();
  pair.near.fill(0, 64, 0x70);
  const Sge from{region.addr, 64, region.lkey};
  ASSERT_EQ(pair.near.adapter->post_send(*qps[0], {.opcode = SendOpcode::kRdmaWrite,
                                                   .sges = {&from, 1},
                                                   .remote_addr = pair.far.region.addr,
                                                   .rkey = pair.far.region.rkey}),
            PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.near.last_status(), WcStatus::kSuccess);
  EXPECT_EQ(pair.far.at(0), std::byte{0x70});
  EXPECT_EQ(pair.near.count(KeyCounter::kQuestions), 0U);
}

TEST_F(KeyQuestionsTest, a_domain_can_be_freed_when_its_keys_have_ended_everywhere) {
  const auto qps = pair.connect({}, 1);
  pair.move(qps);
  const PdId pd = pair.far.adapter->alloc_pd().value();
  const MemoryRegion foreign =
      pair.list(pair.far, 0).regions.reg_mr(pd, pair.far.memory, NicPair::kAll).value();
  write(*qps[0], foreign.rkey, foreign.addr, 64);
  EXPECT_FALSE(pair.list(pair.far, 1).pd_unused(pd));
  EXPECT_FALSE(pair.far.adapter->dealloc_pd(pd).ok());
  ASSERT_TRUE(pair.list(pair.far, 0).regions.dereg_mr(foreign.lkey).ok());
  EXPECT_TRUE(pair.far.adapter->dealloc_pd(pd).ok());
}

TEST_F(KeyQuestionsTest, the_bit_that_ends_the_target_is_for_acknowledged_writes) {
  const auto rc = pair.connect();
  const auto uc = pair.connect({.type = QpType::kUc});
  const Sge from = pair.near.sge(0, 8);
  EXPECT_EQ(pair.write(*uc[0], pair.far.region.rkey, pair.far.region.addr, 8, kSendInvalidateTarget),
            PostResult::kBadOpcode);
  EXPECT_EQ(pair.near.adapter->post_send(*rc[0], {.flags = kSendInvalidateTarget, .sges = {&from, 1}}),
            PostResult::kBadOpcode);
  EXPECT_EQ(pair.write(*rc[0], pair.far.region.rkey, pair.far.region.addr, 8,
                       kSendSignaled | kSendInvalidateTarget),
            PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.near.last_status(), WcStatus::kRemoteAccess) << "other peers may hold a region's own key";
}

TEST_F(KeyQuestionsTest, immediate_data_comes_with_the_bit) {
  const auto qps = pair.connect();
  const Rkey key = pair.bound_key(0, 0, 4096);
  const Sge into = pair.far.sge(16384, 64);
  ASSERT_EQ(pair.far.adapter->post_recv(*qps[1], {.sges = {&into, 1}}), PostResult::kOk);
  const Sge from = pair.near.sge(0, 8);
  ASSERT_EQ(pair.near.adapter->post_send(*qps[0], {.opcode = SendOpcode::kRdmaWriteWithImm,
                                                   .flags = kSendSignaled | kSendInvalidateTarget,
                                                   .sges = {&from, 1},
                                                   .imm = 0xABCD,
                                                   .remote_addr = pair.far.region.addr,
                                                   .rkey = key}),
            PostResult::kOk);
  pair.run();
  ASSERT_EQ(pair.far.done.size(), 1U);
  EXPECT_EQ(pair.far.done[0].imm, 0xABCDU);
  EXPECT_EQ(pair.far.done[0].flags & kWcWithImm, kWcWithImm);
  EXPECT_FALSE(pair.list(pair.far, 0).query(key.value())->valid);
}

/// One NIC needs no component.
TEST(KeysWithoutComponent, an_unknown_key_is_invalid) {
  SeededRandom random(3);
  const ChannelAdapter one({.number = 4}, random);
  MemoryTable table(16, 4, random);
  EXPECT_FALSE(table.has_key(0x1000'0001));
  EXPECT_FALSE(table.hand_out(0x1000'0001).has_value());
  EXPECT_FALSE(table.disown(0x1000'0001));
}

}  // namespace
}  // namespace weft::test
