// Computers with several NICs: queue pairs whose program sets no alternate path find their other ways by
// themselves (adapter/transport/ways.h, docs/key_migration.md). Pipe i joins NIC i of both computers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "adapter/limits.h"
#include "messages/transport_headers.h"
#include "tests/support/nic_pair.h"

namespace weft::test {
using namespace adapter;
using node::KeyCounter;
namespace {

using namespace std::chrono_literals;

using Qps = std::array<QueuePair*, 2>;

WaysKind kind_of(const TracedCell& cell) {
  return static_cast<WaysKind>(cell.view.payload[offsetof(WaysWire, kind)]);
}

/// The number of NICs of both computers.
class WaysTest : public ::testing::TestWithParam<size_t> {
 protected:
  WaysTest() { pair.sets_alternates = false; }

  void cut(size_t pipe) {
    pair.pipes[pipe]->set_filter([](int, std::vector<std::byte>&) { return Verdict::kDrop; });
  }
  void heal(size_t pipe) { pair.pipes[pipe]->set_filter({}); }
  [[nodiscard]] uint8_t port(size_t end, const Qps& qps) {
    return pair.end(end).adapter->query_qp(*qps[end]).port;
  }
  /// Writes of 8 bytes to the first `writes` places of far, each with its number.
  void write_all(const Qps& qps, uint32_t writes) {
    for (uint32_t i = 0; i < writes; ++i) {
      const size_t before = pair.near.done.size();
      pair.near.fill(0, 8, static_cast<int>(i + 1));
      ASSERT_EQ(pair.write(*qps[0], 8 * i, 8), PostResult::kOk);
      for (int turn = 0; turn < 40'000 && pair.near.done.size() == before; ++turn) pair.run(1);
      ASSERT_EQ(pair.near.last_status(), WcStatus::kSuccess);
      ASSERT_EQ(pair.far.at(8 * i), std::byte(i + 1));
    }
  }

  NicPair pair{GetParam()};
};

TEST_P(WaysTest, a_queue_pair_goes_to_another_way_when_the_peer_is_silent) {
  const Qps qps = pair.connect();
  write_all(qps, 3);
  pair.near.events.clear();
  cut(0);
  const Instant begin = pair.clock.now();
  write_all(qps, 5);
  EXPECT_LT(pair.clock.now() - begin, kRetransmitMin + kWayPatience + 1ms) << "one timeout, and a round trip";
  EXPECT_NE(port(0, qps), 1);
  EXPECT_EQ(port(0, qps), port(1, qps)) << "the peer has followed";
  EXPECT_EQ(pair.near.count(AdapterCounter::kWaysTaken), 1U);
  EXPECT_EQ(pair.far.count(AdapterCounter::kWaysFollowed), 1U);
  EXPECT_EQ(pair.far.count(KeyCounter::kQuestions), 1U) << "the key has moved with it";
  EXPECT_TRUE(pair.near.events.empty()) << "the program sees nothing";
}

TEST_P(WaysTest, and_back_when_the_second_way_is_cut) {
  const Qps qps = pair.connect();
  for (int time = 0; time < 6; ++time) {
    write_all(qps, 3);
    const uint8_t used = port(0, qps);
    cut(used - 1U);
    write_all(qps, 6);
    EXPECT_NE(port(0, qps), used);
    EXPECT_EQ(port(0, qps), port(1, qps));
    heal(used - 1U);
  }
  EXPECT_EQ(pair.near.count(AdapterCounter::kWaysTaken), 6U);
}

TEST_P(WaysTest, a_lost_link_is_left_at_once) {
  const Qps qps = pair.connect();
  pair.pipes[0]->set_up(false);
  const Instant begin = pair.clock.now();
  write_all(qps, 3);
  EXPECT_LT(pair.clock.now() - begin, 1ms) << "no timeout";
  EXPECT_NE(port(1, qps), 1);
}

/// A peer without anything in flight has no timeout, but sees its own port.
TEST_P(WaysTest, an_end_that_only_answers_leaves_a_lost_link_too) {
  const Qps qps = pair.connect();
  cut(0);
  pair.run(2'000);
  EXPECT_EQ(port(0, qps), 1) << "nothing to send, nothing to miss";
  pair.pipes[0]->set_up(false);
  pair.run(20);
  EXPECT_NE(port(0, qps), 1);
  EXPECT_EQ(port(0, qps), port(1, qps));
}

/// As the server of ib_write_bw, which never sends.
TEST_P(WaysTest, a_peer_in_rtr_follows_and_leaves_a_lost_link) {
  pair.last_state = QpState::kRtr;
  const Qps qps = pair.connect();
  write_all(qps, 3);
  cut(0);
  write_all(qps, 5);
  const uint8_t second = port(1, qps);
  EXPECT_NE(second, 1);
  EXPECT_EQ(port(0, qps), second);
  heal(0);
  pair.pipes[second - 1U]->set_up(false);
  write_all(qps, 5);
  EXPECT_NE(port(1, qps), second);
  EXPECT_EQ(port(0, qps), port(1, qps));
}

TEST_P(WaysTest, a_late_peer_is_not_left) {
  const Qps qps = pair.connect();
  write_all(qps, 3);
  ASSERT_EQ(pair.write(*qps[0], 0, 8), PostResult::kOk);
  for (int turn = 0; turn < 3'000; ++turn, pair.clock.advance(10us)) pair.run_one(pair.near);
  EXPECT_EQ(pair.near.count(AdapterCounter::kWaySearches), 1U);
  pair.run(300);
  EXPECT_EQ(port(0, qps), 1);
  EXPECT_EQ(pair.near.last_status(), WcStatus::kSuccess);
  EXPECT_EQ(pair.near.count(AdapterCounter::kWaysTaken), 0U);
}

TEST_P(WaysTest, reads_and_sends_of_both_ends_go_on) {
  const Qps qps = pair.connect();
  pair.far.fill(512, 8, 0x55);
  cut(0);
  for (uint32_t i = 0; i < 8; ++i) {
    ASSERT_EQ(pair.read(*qps[0], pair.far.region.rkey, pair.far.region.addr + 512, 1024 + 8 * i, 8),
              PostResult::kOk);
    const Sge into = pair.near.sge(2048 + 64 * i, 64);
    ASSERT_EQ(pair.near.adapter->post_recv(*qps[0], {.wr_id = 100 + i, .sges = {&into, 1}}), PostResult::kOk);
    pair.far.fill(64 * i, 64, static_cast<int>(i));
    const Sge from = pair.far.sge(64 * i, 64);
    ASSERT_EQ(pair.far.adapter->post_send(*qps[1], {.wr_id = i, .sges = {&from, 1}}), PostResult::kOk);
  }
  pair.run(4'000);
  ASSERT_EQ(pair.near.done.size(), 16U);
  ASSERT_EQ(pair.far.done.size(), 8U);
  for (const WorkCompletion& entry : pair.near.done) EXPECT_EQ(entry.status, WcStatus::kSuccess);
  for (uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(pair.near.at(1024 + 8 * i), std::byte{0x55});
    EXPECT_EQ(pair.near.at(2048 + 64 * i), std::byte(i)) << "in order, each once";
  }
  EXPECT_EQ(port(0, qps), port(1, qps));
}

TEST_P(WaysTest, a_lost_order_to_follow_is_repeated) {
  const Qps qps = pair.connect();
  int lost = 0;
  for (size_t pipe = 1; pipe < GetParam(); ++pipe) {
    pair.pipes[pipe]->set_filter([&](int, std::vector<std::byte>& bytes) {
      CellView view;
      if (decode_cell(bytes, CrcCheck::kAlreadyVerified, view) != CellError::kNone) return Verdict::kPass;
      const bool use = view.opcode == Opcode::kWays &&
                       view.payload[offsetof(WaysWire, kind)] == static_cast<std::byte>(WaysKind::kUse);
      return use && lost++ == 0 ? Verdict::kDrop : Verdict::kPass;
    });
  }
  cut(0);
  write_all(qps, 3);
  for (size_t pipe = 0; pipe < GetParam(); ++pipe) heal(pipe);
  EXPECT_GE(lost, 2);
  EXPECT_EQ(port(0, qps), port(1, qps));
}

TEST_P(WaysTest, with_no_way_left_it_fails_by_its_retries) {
  const Qps qps = pair.connect();
  for (size_t pipe = 0; pipe < GetParam(); ++pipe) cut(pipe);
  ASSERT_EQ(pair.write(*qps[0], 0, 8), PostResult::kOk);
  pair.run(8'000, 1ms);
  EXPECT_EQ(pair.near.last_status(), WcStatus::kRetryExceeded);
}

TEST_P(WaysTest, an_alternate_path_of_the_program_is_left_to_it) {
  pair.sets_alternates = true;
  const Qps qps = pair.connect();
  cut(0);
  ASSERT_EQ(pair.write(*qps[0], 0, 8), PostResult::kOk);
  pair.run(8'000, 1ms);
  EXPECT_EQ(pair.near.last_status(), WcStatus::kSuccess);
  EXPECT_EQ(pair.near.count(AdapterCounter::kWaySearches), 0U);
  for (const auto& pipe : pair.pipes) {
    EXPECT_TRUE(pipe->sent_by(0, Opcode::kWays).empty());
    EXPECT_TRUE(pipe->sent_by(1, Opcode::kWays).empty());
  }
}

TEST_P(WaysTest, a_connection_asks_once) {
  const Qps qps = pair.connect();
  write_all(qps, 8);
  pair.run(5'000, 1ms);
  for (int end = 0; end < 2; ++end) {
    const auto cells = pair.pipes[0]->sent_by(end, Opcode::kWays);
    ASSERT_LE(cells.size(), 3U);
    EXPECT_EQ(kind_of(*cells[0]), WaysKind::kAsk);
  }
  EXPECT_EQ(pair.near.count(AdapterCounter::kWaySearches), 0U);
}

/// Another connection may begin in SQD. Its peer, perhaps another one, has not moved yet.
TEST_P(WaysTest, a_path_that_the_program_sets_anew_has_no_moves_behind_it) {
  const Qps qps = pair.connect();
  cut(0);
  write_all(qps, 3);
  heal(0);
  ASSERT_EQ(pair.near.count(AdapterCounter::kWaysTaken), 1U);
  ChannelAdapter& near = *pair.near.adapter;
  QpAttr attr = near.query_qp(*qps[0]);
  attr.state = QpState::kSqd;
  ASSERT_EQ(near.modify_qp(*qps[0], attr, kQpAttrState), ModifyResult::kOk);
  pair.run(5);
  ASSERT_EQ(near.modify_qp(*qps[0], attr, kQpAttrState | kQpAttrAddress), ModifyResult::kOk);
  ASSERT_EQ(near.modify_qp(*qps[0], {.state = QpState::kRts}, kQpAttrState), ModifyResult::kOk);
  pair.run(5);
  const auto cells = pair.pipes[port(0, qps) - 1U]->sent_by(0, Opcode::kWays);
  const auto ask = std::find_if(cells.rbegin(), cells.rend(),
                                [](const TracedCell* cell) { return kind_of(*cell) == WaysKind::kAsk; });
  ASSERT_NE(ask, cells.rend());
  EXPECT_EQ(load_be<uint16_t>(&(*ask)->view.payload[offsetof(WaysWire, moves)]), 0U);
}

/// A third node knows numbers and PSN of the connection, but its LID is not the peer's. Nor does another
/// queue pair of the peer's node move anything, or one of another partition.
TEST_P(WaysTest, an_order_of_a_stranger_moves_nothing) {
  const Qps qps = pair.connect();
  const auto answers = pair.pipes[0]->sent_by(0, Opcode::kWays);
  ASSERT_FALSE(answers.empty());
  std::vector<std::byte> forged = answers.back()->bytes;
  WaysWire* const wire = reinterpret_cast<WaysWire*>(&forged[kCellHeaderBytes + kAckBodyBytes]);
  wire->kind = static_cast<uint8_t>(WaysKind::kUse);
  wire->moves = Be16(9);
  store_be(&forged[4], NicPair::lid(1, 1).value());  // to the second NIC of far
  store_be(&forged[10], uint16_t{77});               // from a LID that is not near's
  pair.pipes[1]->inject(1, forged);
  pair.run(20);
  EXPECT_EQ(port(1, qps), 1);
  EXPECT_EQ(pair.far.count(AdapterCounter::kDropOtherLid), 1U);
  store_be(&forged[10], NicPair::lid(1, 0).value());
  for (const size_t at : {offsetof(CellHeader, src_qpn) + 3, offsetof(CellHeader, dest_qpn)}) {
    forged[at] ^= std::byte{1};
    pair.pipes[1]->inject(1, forged);
    pair.run(20);
    EXPECT_EQ(port(1, qps), 1) << at;
    forged[at] ^= std::byte{1};
  }
  pair.pipes[1]->inject(1, forged);
  pair.run(20);
  EXPECT_EQ(port(1, qps), 2) << "near's own order is followed";
}

TEST_P(WaysTest, a_hundred_transfers_finish_when_the_cable_is_pulled) {
  std::vector<Qps> all;
  for (int i = 0; i < 100; ++i) all.push_back(pair.connect());
  pair.near.fill(0, 16, 0x3C);
  for (uint32_t i = 0; i < 100; ++i) {
    const Rkey key = pair.bound_key(0, 512 * i, 16);
    ASSERT_EQ(pair.write(*all[i][0], key, pair.far.region.addr + 512 * i, 16), PostResult::kOk);
  }
  pair.pipes[0]->set_up(false);
  pair.run(400);
  ASSERT_EQ(pair.near.done.size(), 100U);
  for (uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(pair.near.done[i].status, WcStatus::kSuccess);
    EXPECT_EQ(pair.far.at(512 * i), std::byte{0x3C});
  }
  EXPECT_LE(pair.far.count(KeyCounter::kQuestions), 100U) << "one for each key";
}

/// Links are cut and healed at random and lose cells, and one always works: every message of both ends
/// arrives once and in order.
TEST_P(WaysTest, no_byte_is_lost_or_doubled_whatever_is_cut) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    NicPair at{GetParam()};
    at.sets_alternates = false;
    SeededRandom random(seed);
    const Qps qps = at.connect();
    std::vector<bool> is_cut(GetParam());
    for (size_t pipe = 0; pipe < GetParam(); ++pipe) {
      at.pipes[pipe]->set_filter([&, pipe](int, std::vector<std::byte>&) {
        return is_cut[pipe] || random.below(50) == 0 ? Verdict::kDrop : Verdict::kPass;
      });
    }
    for (uint32_t i = 0; i < 20; ++i) {
      const uint64_t works = random.below(GetParam());
      for (size_t pipe = 0; pipe < GetParam(); ++pipe) is_cut[pipe] = pipe != works && random.below(2) == 0;
      at.near.fill(0, 2000, static_cast<int>(i + 1));
      ASSERT_EQ(at.write(*qps[0], 2000 * (i % 2), 2000), PostResult::kOk);
      const Sge into = at.near.sge(8192 + 64 * i, 64);
      ASSERT_EQ(at.near.adapter->post_recv(*qps[0], {.wr_id = 1000 + i, .sges = {&into, 1}}),
                PostResult::kOk);
      at.far.fill(8192, 64, static_cast<int>(i + 1));
      const Sge from = at.far.sge(8192, 64);
      ASSERT_EQ(at.far.adapter->post_send(*qps[1], {.wr_id = i, .sges = {&from, 1}}), PostResult::kOk);
      for (int turn = 0; turn < 100'000 && (at.near.done.size() < 2 || at.far.done.empty()); ++turn)
        at.run(1);
      ASSERT_EQ(at.near.done.size(), 2U) << "seed " << seed << ", message " << i;
      ASSERT_EQ(at.far.done.size(), 1U) << "seed " << seed << ", message " << i;
      for (const WorkCompletion& entry : at.near.done) ASSERT_EQ(entry.status, WcStatus::kSuccess) << seed;
      ASSERT_EQ(at.far.last_status(), WcStatus::kSuccess) << seed;
      ASSERT_EQ(at.far.at(2000 * (i % 2) + 1999), std::byte(i + 1)) << seed;
      ASSERT_EQ(at.near.at(8192 + 64 * i + 63), std::byte(i + 1)) << seed;
      at.near.done.clear();
      at.far.done.clear();
    }
    for (const auto& pipe : at.pipes) pipe->set_filter({});
  }
}

INSTANTIATE_TEST_SUITE_P(Nics, WaysTest, ::testing::Values(2, 3, 4));

}  // namespace
}  // namespace weft::test
