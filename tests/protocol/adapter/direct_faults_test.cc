// Faults on demand of memory windows: what a cut, a delay and failed DMA do to the queue pairs of both sides.
// docs/faults.md, "Memory windows".
#include <gtest/gtest.h>

#include "adapter/transport/direct/direct_requester.h"
#include "tests/support/direct_pair.h"

namespace weft::test {
using namespace adapter;
using fabric::WindowFaults;
namespace {

/// Retries of 10 ms, three in all: a peer that is cut off is given up after 30 ms.
class DirectFaults : public ::testing::Test {
 protected:
  DirectFaults() {
    QpAttr attr;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
    attr.ack_timeout = 10ms;
    attr.retry_count = 2;
    qps = pair.connect({}, attr);
    post(0, remote(SendOpcode::kRdmaWrite, 0), 8);  // shows the key
    post(0, remote(SendOpcode::kRdmaWrite, 0), 8);
    pair.run(20);
    EXPECT_EQ(pair.take_completions(0).size(), 2U);
  }
  SendRequest remote(SendOpcode opcode, uint64_t offset, int from = 0) {
    const PairSide& owner = pair.side(1 - from);
    return {.opcode = opcode, .remote_addr = owner.region.addr + offset, .rkey = owner.region.rkey};
  }
  void post(int from, const SendRequest& request, uint32_t bytes) {
    ASSERT_EQ(pair.post_send(from, *qps[static_cast<size_t>(from)], request, {pair.side(from).sge(0, bytes)}),
              PostResult::kOk);
  }
  void set(const FaultRule& rule) {
    const Result<uint32_t> set = faults.add(rule, pair.clock.now());
    ASSERT_TRUE(set.ok()) << set.error().text;
    ASSERT_TRUE(pair.end(0).strike(faults));
    pair.run(3);
  }
  void receive(int at, uint64_t wr_id, uint32_t offset) {
    ASSERT_EQ(pair.post_recv(at, *qps[static_cast<size_t>(at)], wr_id, {pair.side(at).sge(offset, 64)}),
              PostResult::kOk);
  }
  [[nodiscard]] std::vector<WcStatus> statuses(int index) {
    std::vector<WcStatus> out;
    for (const WorkCompletion& one : pair.take_completions(index)) out.push_back(one.status);
    return out;
  }

  WindowFaults faults;  // outlives the windows
  DirectPair pair;
  std::array<QueuePair*, 2> qps{};
};
using Statuses = std::vector<WcStatus>;

/// Nothing is written behind a slot that has no room for an atomic operation: the address sanitizer looks.
TEST(DirectSlots, too_small_for_a_record_cost_the_peer_its_requests) {
  DirectPair small({.own = {.slots = 4, .slot_bytes = kFifoSlotBytesMin, .table_entries = 4}});
  QpAttr attr;
  attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
  attr.ack_timeout = 10ms;
  attr.retry_count = 2;
  const auto both = small.connect({}, attr);
  const MemoryRegion& far = small.side(1).region;
  const SendRequest add{.opcode = SendOpcode::kFetchAdd, .remote_addr = far.addr, .rkey = far.rkey};
  ASSERT_EQ(small.post_send(0, *both[0], add, {small.side(0).sge(0, 8)}), PostResult::kOk);
  small.run(60, 1ms);
  const auto done = small.take_completions(0);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, WcStatus::kRetryExceeded);
  EXPECT_EQ(small.end(0).accesses_under_way(), 0U);
}

TEST_F(DirectFaults, what_a_short_cut_holds_up_arrives_once_after_it) {
  set({.kind = FaultKind::kCut, .lasts = 10ms});
  receive(1, 7, 4096);
  constexpr uint32_t kLong = kDirectFollowBytes + 64;  // a shorter write would not wait for the Send
  pair.side(0).fill(0, kLong, 5);
  post(0, {.wr_id = 1}, 64);
  post(0, remote(SendOpcode::kRdmaWrite, 512), kLong);
  pair.run(90, 100us);
  EXPECT_TRUE(statuses(0).empty() && statuses(1).empty()) << "nothing passes";
  pair.run(30, 100us);
  EXPECT_EQ(statuses(0), (Statuses{WcStatus::kSuccess, WcStatus::kSuccess}));
  EXPECT_EQ(statuses(1), Statuses{WcStatus::kSuccess});
  EXPECT_EQ(pair.side(1).bytes_at(512, kLong), pair.side(0).bytes_at(0, kLong));
  EXPECT_EQ(faults.rules()[0].struck, 1U) << "the write waited for the Send and was not held";
}

TEST_F(DirectFaults, a_long_cut_costs_the_retries_and_what_was_held_never_moves) {
  set({.kind = FaultKind::kCut});
  const auto before = pair.side(1).bytes_at(512, 64);
  pair.side(0).fill(0, 64, 99);
  post(0, remote(SendOpcode::kRdmaWrite, 512), 64);
  post(0, remote(SendOpcode::kRdmaWrite, 512), 64);
  pair.run(29, 1ms);
  EXPECT_TRUE(statuses(0).empty());
  pair.run(5, 1ms);
  EXPECT_EQ(statuses(0), (Statuses{WcStatus::kRetryExceeded, WcStatus::kFlushed}));
  EXPECT_TRUE(faults.remove(1));
  pair.run(20, 1ms);
  EXPECT_EQ(pair.side(1).bytes_at(512, 64), before);
}

TEST_F(DirectFaults, a_send_into_a_cut_costs_the_retries_not_a_minute) {
  set({.kind = FaultKind::kCut});
  receive(1, 7, 4096);
  post(0, {.wr_id = 1}, 64);
  pair.run(35, 1ms);
  EXPECT_EQ(statuses(0), Statuses{WcStatus::kRetryExceeded});
  EXPECT_TRUE(statuses(1).empty());
}

TEST_F(DirectFaults, a_cut_in_the_middle_counts_silence_from_its_beginning) {
  post(0, {.wr_id = 1}, 64);  // without a receive: it comes again and again
  pair.run(1);
  set({.kind = FaultKind::kCut, .lasts = 20ms});
  pair.run(18, 1ms);
  EXPECT_TRUE(statuses(0).empty());
}

TEST_F(DirectFaults, a_cut_holds_for_both_directions_unless_it_names_one) {
  for (const FaultDirection direction : {FaultDirection::kBoth, FaultDirection::kFrom}) {
    set({.kind = FaultKind::kCut, .direction = direction, .lasts = 10ms});
    const auto before = pair.side(0).bytes_at(512, 8);
    pair.side(1).fill(0, 8, static_cast<uint8_t>(60 + 10 * static_cast<int>(direction)));
    post(1, remote(SendOpcode::kRdmaWrite, 512, 1), 8);
    pair.run(5, 1ms);
    const bool passed = pair.side(0).bytes_at(512, 8) != before;
    EXPECT_EQ(passed, direction == FaultDirection::kFrom);
    pair.run(20, 1ms);
    EXPECT_EQ(pair.side(0).bytes_at(512, 8), pair.side(1).bytes_at(0, 8));
    EXPECT_EQ(statuses(1), Statuses{WcStatus::kSuccess});
    (void)faults.remove(0);
    pair.run(3);
  }
}

TEST_F(DirectFaults, a_flap_lets_data_pass_in_its_first_time_alone) {
  set({.kind = FaultKind::kFlap, .up = 5ms, .down = 5ms});
  pair.run(6, 1ms);
  post(0, remote(SendOpcode::kRdmaWrite, 512), 8);
  pair.run(2, 1ms);
  EXPECT_TRUE(statuses(0).empty());
  pair.run(5, 1ms);
  EXPECT_EQ(statuses(0), Statuses{WcStatus::kSuccess});
}

TEST_F(DirectFaults, a_delay_holds_each_message_once_and_keeps_the_order) {
  set({.kind = FaultKind::kDelay, .delay_min = 1ms, .delay_max = 3ms});
  for (uint64_t i = 0; i < 5; ++i) receive(1, i, 4096 + 64 * static_cast<uint32_t>(i));
  for (uint64_t i = 0; i < 5; ++i) post(0, {.wr_id = i}, 64);
  pair.run(9, 100us);
  EXPECT_TRUE(pair.take_completions(1).empty());
  EXPECT_LE(pair.side(0).adapter->deadline(), pair.clock.now() + 3ms) << "the process wakes for it";
  pair.run(30, 100us);
  const auto got = pair.take_completions(1);
  ASSERT_EQ(got.size(), 5U);
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(got[i].wr_id, i);
  EXPECT_EQ(faults.rules()[0].struck, 5U);
  const Instant start = pair.clock.now();
  (void)pair.take_completions(0);
  post(0, remote(SendOpcode::kRdmaRead, 0), 64);
  for (int i = 0; i < 100 && pair.side(0).completions.empty(); ++i) pair.run(1, 100us);
  EXPECT_GE(pair.clock.now() - start, Duration(1ms));
  EXPECT_LE(pair.clock.now() - start, Duration(4ms));
}

TEST_F(DirectFaults, failed_dma_is_the_failure_of_a_send) {
  set({.kind = FaultKind::kFailDma, .limit = 1});
  receive(1, 7, 4096);
  post(0, {.wr_id = 1}, 64);
  pair.run(20);
  EXPECT_EQ(statuses(0), Statuses{WcStatus::kRetryExceeded});
  EXPECT_EQ(pair.side(0).adapter->query_qp(*qps[0]).state, QpState::kErr);
  std::vector<Failure> reports;
  for (Failure next; pair.side(0).adapter->next_failure(next);) reports.push_back(next);
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0].reason, Reason::kWindowFailed);
}

/// The QP has two retries.
TEST_F(DirectFaults, a_write_moves_again_as_often_as_the_queue_pair_says) {
  set({.kind = FaultKind::kFailDma, .limit = 2});
  pair.side(0).fill(0, 64, 5);
  post(0, remote(SendOpcode::kRdmaWrite, 512), 64);
  pair.run(20);
  EXPECT_EQ(statuses(0), Statuses{WcStatus::kSuccess});
  EXPECT_EQ(pair.side(1).bytes_at(512, 64), pair.side(0).bytes_at(0, 64));
  EXPECT_EQ(faults.rules()[0].struck, 2U);
  (void)faults.remove(0);
  set({.kind = FaultKind::kFailDma, .limit = 3});
  post(0, remote(SendOpcode::kRdmaWrite, 512), 64);
  pair.run(20);
  EXPECT_EQ(statuses(0), Statuses{WcStatus::kRetryExceeded});
}

TEST_F(DirectFaults, an_acknowledgement_whose_dma_fails_is_sent_again) {
  ASSERT_TRUE(faults.add({.kind = FaultKind::kFailDma, .limit = 1}, pair.clock.now()).ok());
  ASSERT_TRUE(pair.end(1).strike(faults));
  receive(1, 7, 4096);
  post(0, {.wr_id = 1}, 64);
  pair.run(20);
  EXPECT_EQ(faults.rules()[0].struck, 1U);
  EXPECT_EQ(statuses(0), Statuses{WcStatus::kSuccess});
}

TEST_F(DirectFaults, a_response_whose_dma_fails_ends_both_queue_pairs) {
  FaultRule rule{.kind = FaultKind::kFailDma, .limit = 1};
  ASSERT_TRUE(faults.add(rule, pair.clock.now()).ok());
  ASSERT_TRUE(pair.end(1).strike(faults));
  SendRequest add = remote(SendOpcode::kFetchAdd, 64);
  QpAttr attr;
  attr.access = Access::kRemoteWrite | Access::kRemoteRead | Access::kRemoteAtomic;
  ASSERT_EQ(pair.side(1).adapter->modify_qp(*qps[1], attr, kQpAttrAccess), ModifyResult::kOk);
  pair.run(5);
  (void)faults.remove(0);
  ASSERT_TRUE(faults.add(rule, pair.clock.now()).ok());
  post(0, add, 8);
  pair.run(60, 1ms);
  EXPECT_EQ(pair.side(1).adapter->query_qp(*qps[1]).state, QpState::kErr);
  EXPECT_EQ(statuses(0), Statuses{WcStatus::kRetryExceeded});
}

/// Without the news a request waits as long as a peer may stand still.
TEST_F(DirectFaults, the_end_of_a_queue_pair_is_told_though_its_dma_fails_late) {
  (void)pair.connect({}, {});  // the window stays
  pair.run(20);
  ASSERT_TRUE(faults.add({.kind = FaultKind::kFailDma, .limit = 2}, pair.clock.now()).ok());
  const FaultRule late{.kind = FaultKind::kDelay, .delay_min = 100us, .delay_max = 100us};
  ASSERT_TRUE(faults.add(late, pair.clock.now()).ok());
  ASSERT_TRUE(pair.end(1).strike(faults));
  ASSERT_TRUE(pair.side(1).adapter->destroy_qp(qps[1]));
  pair.run(10, 1ms);
  EXPECT_EQ(faults.rules()[0].struck, 2U);
  post(0, {.wr_id = 1}, 64);
  pair.run(60, 1ms);
  EXPECT_EQ(statuses(0), Statuses{WcStatus::kRetryExceeded});
}

/// A request of its own has ended it, and it is still there. Without the news its peer's request waits as
/// long as a peer may stand still.
TEST_F(DirectFaults, the_failure_of_a_queue_pair_is_told_though_its_dma_fails) {
  ASSERT_TRUE(faults.add({.kind = FaultKind::kFailDma, .limit = 1}, pair.clock.now()).ok());
  ASSERT_TRUE(pair.end(1).strike(faults));
  Sge wrong = pair.side(1).sge(0, 8);
  wrong.lkey = Lkey(77);
  ASSERT_EQ(pair.post_send(1, *qps[1], {}, {wrong}), PostResult::kOk);
  pair.run(20);
  ASSERT_EQ(statuses(1), Statuses{WcStatus::kLocalProtection});
  EXPECT_EQ(faults.rules()[0].struck, 1U);
  post(0, {.wr_id = 1}, 64);
  pair.run(60, 1ms);
  EXPECT_EQ(statuses(0), Statuses{WcStatus::kRetryExceeded});
}

/// Its cookie names it by its place: the one that arrives must not count for the other.
TEST_F(DirectFaults, of_two_queue_pairs_that_end_together_the_one_whose_dma_fails_is_told_again) {
  const auto others = pair.connect({}, {});
  QpAttr attr;
  attr.ack_timeout = 10ms;
  attr.retry_count = 2;
  const auto watched = pair.connect({}, attr);
  pair.run(20);
  ASSERT_TRUE(faults.add({.kind = FaultKind::kFailDma, .every = 2, .limit = 1}, pair.clock.now()).ok());
  ASSERT_TRUE(pair.end(1).strike(faults));
  ASSERT_TRUE(pair.side(1).adapter->destroy_qp(qps[1]));
  ASSERT_TRUE(pair.side(1).adapter->destroy_qp(watched[1]));
  pair.run(20);
  EXPECT_EQ(faults.rules()[0].struck, 1U);
  for (QueuePair* qp : {qps[0], watched[0]})
    ASSERT_EQ(pair.post_send(0, *qp, {}, {pair.side(0).sge(0, 8)}), PostResult::kOk);
  pair.run(60, 1ms);
  EXPECT_EQ(statuses(0), (Statuses{WcStatus::kRetryExceeded, WcStatus::kRetryExceeded}));
  EXPECT_EQ(pair.side(0).adapter->query_qp(*others[0]).state, QpState::kRts);
}

TEST_F(DirectFaults, a_write_whose_dma_fails_is_tried_as_often_as_the_retries_say) {
  set({.kind = FaultKind::kFailDma, .limit = 2});
  post(0, remote(SendOpcode::kRdmaWrite, 512), 8);
  pair.run(20);
  EXPECT_EQ(statuses(0), Statuses{WcStatus::kSuccess}) << "the third attempt is good";
  EXPECT_EQ(faults.rules()[0].struck, 2U);
  set({.kind = FaultKind::kFailDma});
  const auto before = pair.side(1).bytes_at(512, 8);
  pair.side(0).fill(0, 8, 77);
  post(0, remote(SendOpcode::kRdmaWrite, 512), 8);
  pair.run(20);
  EXPECT_EQ(statuses(0), Statuses{WcStatus::kRetryExceeded});
  EXPECT_EQ(pair.side(1).bytes_at(512, 8), before);
}

/// The peer waits for a flag, and then reads the data that were posted before it.
TEST_F(DirectFaults, a_write_whose_dma_fails_is_not_overtaken) {
  set({.kind = FaultKind::kFailDma, .limit = 1});
  pair.side(0).fill(0, 8, 1);
  pair.side(0).fill(8, 8, 2);
  const auto write = [&](uint64_t to, uint32_t from) {
    ASSERT_EQ(pair.post_send(0, *qps[0], remote(SendOpcode::kRdmaWrite, to), {pair.side(0).sge(from, 8)}),
              PostResult::kOk);
  };
  const auto no_flag = pair.side(1).bytes_at(1024, 8);
  write(512, 0);   // fails at first
  write(1024, 8);  // the flag
  write(512, 8);   // the place of the first one again
  for (int turn = 0; turn < 20; ++turn) {
    pair.run(1);
    if (pair.side(1).bytes_at(1024, 8) == no_flag) continue;
    EXPECT_NE(pair.side(1).bytes_at(512, 1)[0], no_flag[0]) << turn;
  }
  EXPECT_EQ(faults.rules()[0].struck, 1U);
  EXPECT_EQ(statuses(0), Statuses(3, WcStatus::kSuccess));
  EXPECT_EQ(pair.side(1).bytes_at(512, 8), pair.side(0).bytes_at(8, 8)) << "that of the last write";
}

TEST_F(DirectFaults, rules_strike_every_nth_with_a_chance_and_end) {
  set({.kind = FaultKind::kDelay, .every = 3, .lasts = 5ms, .delay_min = 100us, .delay_max = 100us});
  for (int i = 0; i < 9; ++i) post(0, remote(SendOpcode::kRdmaWrite, 512), 8);
  pair.run(30, 100us);
  EXPECT_EQ(statuses(0).size(), 9U);
  EXPECT_EQ(faults.rules()[0].matched, 9U);
  EXPECT_EQ(faults.rules()[0].struck, 3U);
  pair.run(60, 100us);
  post(0, remote(SendOpcode::kRdmaWrite, 512), 8);
  pair.run(3);
  EXPECT_EQ(faults.rules()[0].matched, 9U) << "it has ended";
}

TEST_F(DirectFaults, a_queue_pair_that_ends_leaves_nothing_held) {
  set({.kind = FaultKind::kCut});
  const auto before = pair.side(1).bytes_at(512, 8);
  pair.side(0).fill(0, 8, 33);
  post(0, remote(SendOpcode::kRdmaWrite, 512), 8);
  pair.run(5);
  ASSERT_TRUE(pair.side(0).adapter->destroy_qp(qps[0]));
  (void)faults.remove(0);
  pair.run(50);
  EXPECT_EQ(pair.side(1).bytes_at(512, 8), before);
}

TEST(WindowFaultRules, what_means_nothing_for_a_window_is_refused) {
  for (const FaultKind kind :
       {FaultKind::kDrop, FaultKind::kCorrupt, FaultKind::kDuplicate, FaultKind::kReorder, FaultKind::kRate})
    EXPECT_FALSE(WindowFaults::check({.kind = kind})) << to_string(kind);
  EXPECT_FALSE(WindowFaults::check({.kind = FaultKind::kCut, .lanes = 3}));
  EXPECT_FALSE(WindowFaults::check({.kind = FaultKind::kCut, .opcode = 1}));
  EXPECT_FALSE(WindowFaults::check({.kind = FaultKind::kCut, .direction = FaultDirection::kTo}));
  EXPECT_FALSE(WindowFaults::check({.kind = FaultKind::kCut, .chance_ppm = 1000}));
  EXPECT_FALSE(WindowFaults::check({.kind = FaultKind::kDelay}));
  EXPECT_FALSE(WindowFaults::check({.kind = FaultKind::kFlap}));
  EXPECT_FALSE(WindowFaults::check({.kind = FaultKind::kFailDma, .every = 0}));
  EXPECT_TRUE(WindowFaults::check({.kind = FaultKind::kCut, .direction = FaultDirection::kFrom}).ok());
  EXPECT_TRUE(WindowFaults::check({.kind = FaultKind::kFailDma, .chance_ppm = 5}).ok());
  WindowFaults faults;
  for (size_t i = 0; i < fabric::kWindowFaultsMax; ++i)
    EXPECT_TRUE(faults.add({.kind = FaultKind::kCut}, Instant(1s)).ok());
  EXPECT_FALSE(faults.add({.kind = FaultKind::kCut}, Instant(1s)).ok());
  EXPECT_FALSE(faults.remove(99));
  EXPECT_TRUE(faults.remove(3));
}

TEST(WindowFaultRules, a_fault_that_lasts_ends_at_its_end) {
  WindowFaults faults;
  const Instant begun(1s);
  ASSERT_TRUE(faults.add({.kind = FaultKind::kCut, .lasts = 10ms}, begun).ok());
  EXPECT_EQ(faults.next_change(begun), begun + 10ms);
  EXPECT_TRUE(faults.cuts(begun + 10ms - 1ns));
  EXPECT_FALSE(faults.cuts(begun + 10ms));
  EXPECT_EQ(faults.next_change(begun + 10ms), kNever);
}

TEST(WindowFaultRules, a_flap_names_each_of_its_turns_and_its_end) {
  WindowFaults faults;
  const Instant begun(1s);
  ASSERT_TRUE(faults.add({.kind = FaultKind::kFlap, .lasts = 35ms, .up = 10ms, .down = 10ms}, begun).ok());
  for (const Duration turn : {0ms, 10ms, 20ms}) {
    EXPECT_EQ(faults.next_change(begun + turn), begun + turn + 10ms);
    EXPECT_EQ(faults.cuts(begun + turn), turn == 10ms);
  }
  EXPECT_EQ(faults.next_change(begun + 30ms), begun + 35ms) << "in the middle of a turn";
  EXPECT_TRUE(faults.cuts(begun + 35ms - 1ns));
  EXPECT_FALSE(faults.cuts(begun + 35ms));
  EXPECT_EQ(faults.next_change(begun + 35ms), kNever);
}

}  // namespace
}  // namespace weft::test
