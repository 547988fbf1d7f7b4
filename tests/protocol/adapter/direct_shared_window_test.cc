// One window that RC and UD share: the keys of RC queue pairs that have ended, and the room in the FIFO.
// docs/window.md, "UD over a window".
#include <gtest/gtest.h>

#include <algorithm>

#include "adapter/transport/direct/direct_datagrams.h"
#include "tests/support/direct_datagram_case.h"

namespace weft::test {
using namespace adapter;
namespace {

class DirectShared : public DirectDatagram {
 protected:
  DirectShared() { attr.max_rd_atomic = attr.max_dest_rd_atomic = 4; }
  [[nodiscard]] std::array<QueuePair*, 2> connect() { return pair.connect({}, attr); }
  /// Side 1's queue pair belongs to another protection domain than its region.
  [[nodiscard]] std::array<QueuePair*, 2> connect_elsewhere() {
    const PdId own = std::exchange(pair.side(1).pd, nic(1).alloc_pd().value());
    const auto out = connect();
    pair.side(1).pd = own;
    return out;
  }
  [[nodiscard]] WcStatus write(QueuePair& qp) {
    const MemoryRegion& region = pair.side(1).region;
    const SendRequest request{
        .opcode = SendOpcode::kRdmaWrite, .remote_addr = region.addr + 1024, .rkey = region.rkey};
    EXPECT_EQ(pair.post_send(0, qp, request, {pair.side(0).sge(0, 64)}), PostResult::kOk);
    pair.run(30);
    const auto done = pair.take_completions(0);
    EXPECT_EQ(done.size(), 1U);
    return done.empty() ? WcStatus::kFlushed : done.front().status;
  }
  void expect_nothing_written() { EXPECT_EQ(pair.side(1).bytes_at(1024, 64), std::vector<std::byte>(64)); }
  /// The peer's table shows the region's key.
  void show_key(QueuePair& qp) {
    for (int i = 0; i < 3; ++i) ASSERT_EQ(write(qp), WcStatus::kSuccess);
    std::fill_n(pair.side(1).memory.begin() + 1024, 64, std::byte{0});
  }
  /// Both sides use the window by UD, so it stays when no RC queue pair is left.
  void open_both_ways() {
    open_window();
    const AddressHandle ah = nic(1).make_ah(pair.side(1).pd, {.dlid = Lid(1)}).value();
    const Sge sge = pair.side(1).sge(0, 8);
    const SendRequest back{
        .sges = {&sge, 1}, .dest = {.qpn = nic(0).qpn(*qps[0]), .qkey = AdapterSides::kQkey}, .ah = &ah};
    ASSERT_EQ(nic(1).post_send(*qps[1], back), PostResult::kOk);
  }
  void end(const std::array<QueuePair*, 2>& both) {
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(nic(i).destroy_qp(both[static_cast<size_t>(i)]));
    pair.run(5);
  }
  /// A long Send fills side 0's FIFO, and goes on when there is room.
  void begin_long_send() {
    open_window();
    const auto rc = connect();
    pair.run(20);
    settle();
    constexpr uint32_t kLong = 64 * 1024;
    ASSERT_EQ(pair.post_recv(1, *rc[1], 1, {pair.side(1).sge(64 * 1024, kLong)}), PostResult::kOk);
    ASSERT_EQ(pair.post_send(0, *rc[0], {.wr_id = 1}, {pair.side(0).sge(64 * 1024, kLong)}), PostResult::kOk);
    pair.run_one(0);
  }
  [[nodiscard]] uint32_t datagrams_received() {
    const Qpn own = nic(1).qpn(*qps[1]);
    const auto& all = pair.side(1).completions;
    return static_cast<uint32_t>(std::count_if(all.begin(), all.end(), [&](const WorkCompletion& entry) {
      return entry.qpn == own && entry.opcode == WcOpcode::kRecv;
    }));
  }
  /// Side 1 takes what is there at every `every`th turn of side 0, which is each 5 ms.
  void run_slowly(int turns, int every) {
    for (int turn = 0; turn < turns; ++turn) {
      pair.run_one(0);
      if (turn % every == 0) pair.run_one(1);
      pair.clock.advance(5ms);
    }
  }
  QpAttr attr;
};

TEST_F(DirectShared, a_key_of_another_domain_stays_closed_beside_a_queue_pair_that_may_use_it) {
  const auto first = connect();
  pair.run(20);
  show_key(*first[0]);
  const auto other = connect_elsewhere();
  pair.run(20);
  EXPECT_EQ(write(*other[0]), WcStatus::kRemoteAccess);
  expect_nothing_written();
}

TEST_F(DirectShared,
       a_key_that_was_shown_to_queue_pairs_that_have_ended_is_closed_to_those_of_another_domain) {
  open_both_ways();
  const auto first = connect();
  pair.run(20);
  settle();
  show_key(*first[0]);
  end(first);
  const auto other = connect_elsewhere();
  pair.run(20);
  ASSERT_EQ(nic(0).way_of(*other[0]), QpWay::kWindow);
  EXPECT_EQ(write(*other[0]), WcStatus::kRemoteAccess);
  expect_nothing_written();
  const auto same = connect_elsewhere();
  pair.run(20);
  EXPECT_EQ(nic(0).way_of(*same[0]), QpWay::kWindow);
}

TEST_F(DirectShared, keys_are_shown_again_when_queue_pairs_of_two_domains_have_ended) {
  open_both_ways();
  const auto first = connect();
  const auto other = connect_elsewhere();
  pair.run(20);
  settle();
  end(first);
  end(other);
  const auto alone = connect();
  pair.run(20);
  ASSERT_EQ(nic(0).way_of(*alone[0]), QpWay::kWindow);
  const size_t before = pair.end(1).own().published();
  show_key(*alone[0]);
  EXPECT_GT(pair.end(1).own().published(), before);
}

TEST_F(DirectShared, a_datagram_gets_its_share_of_the_room_beside_a_long_send) {
  begin_long_send();
  post_recv(300);
  send(100);
  for (int turn = 0; turn < 8 && datagrams_received() == 0; ++turn) pair.run(1);
  EXPECT_EQ(datagrams_received(), 1U);
  EXPECT_TRUE(pair.take_completions(0).size() <= 1) << "the long Send is still under way";
}

/// It waits for 30 ms, and 25 ms without a taken record are the limit.
TEST_F(DirectShared, no_datagram_is_dropped_while_the_peer_takes_records) {
  begin_long_send();
  for (uint32_t i = 0; i < 3; ++i) {  // the second one finds that the long Send is first
    post_recv(300, i);
    send(100);
    for (int round = 0; round < 4 && datagrams_received() == i; ++round) run_slowly(5, 5);
    EXPECT_EQ(datagrams_received(), i + 1);
  }
  EXPECT_EQ(dropped(0, AdapterCounter::kDropFifoFull), 0U);
}

TEST_F(DirectShared, a_queue_pair_with_many_datagrams_leaves_room_to_one_with_few) {
  open_window();
  QueuePair* const many = qps[0];
  QueuePair* const few = make_qp(0);
  pair.run(2);
  qps[0] = few;
  send(4);  // asks for its way
  pair.run(3);
  settle();
  qps[0] = many;
  for (int i = 0; i < 48; ++i) send(100);
  pair.run_one(0);
  qps[0] = few;
  post_recv(300);
  const CounterSet<QpCounter>& counters = nic(0).counters(*few);
  const uint64_t before = counters.get(QpCounter::kCellsSent);
  send(100);
  for (int turn = 0; turn < 3; ++turn) pair.run(1);
  EXPECT_EQ(counters.get(QpCounter::kCellsSent), before + 1);
  EXPECT_LT(nic(0).counters(*many).get(QpCounter::kCellsSent), 49U) << "many still wait";
}

TEST_F(DirectShared, one_that_finds_no_room_at_once_is_given_up_in_time) {
  open_window();
  for (uint64_t i = 0; i < kSlots; ++i) send(8);
  for (int turn = 0; turn < 5; ++turn) pair.run_one(0);  // the window rests
  send(8);
  pair.run_one(0);
  EXPECT_LE(nic(0).deadline(), pair.clock.now() + kDatagramWaitMax);
}

TEST_F(DirectShared, beyond_the_lids_that_are_kept_a_datagram_leaves_by_the_port_at_once) {
  open_window();
  for (uint32_t i = 1; i < kDatagramLidsMax; ++i) {
    send(8, {.dlid = Lid(static_cast<uint16_t>(2 + i))});
    pair.run(1);
  }
  (void)nic(0).send_by_window(*qps[0], pair.clock.now());
  send(8);
  EXPECT_TRUE(nic(0).send_by_window(*qps[0], pair.clock.now()));
  send(8, {.dlid = Lid(0x4000)});
  EXPECT_FALSE(nic(0).send_by_window(*qps[0], pair.clock.now())) << "the rest of a turn is wanted";
}

TEST_F(DirectShared, what_has_come_is_taken_before_the_window_is_given_back) {
  open_window();
  const auto rc = connect();
  pair.run(20);
  settle();
  post_recv(300);
  send(100);
  pair.run_one(0);
  ASSERT_TRUE(nic(1).destroy_qp(rc[1]));  // the only one of side 1 that uses the window
  pair.run(3);
  EXPECT_EQ(datagrams_received(), 1U);
  EXPECT_EQ(paths(1).claims, 0);
}

}  // namespace
}  // namespace weft::test
