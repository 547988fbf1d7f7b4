// PUSH-CHAN: the two attributes of a channel, acknowledged and connected, and their effects.
#include <set>

#include "tests/support/adapter_pair.h"
#include "tests/support/requirement.h"

namespace weft::test {
using namespace adapter;
namespace {

class PushChan : public ::testing::Test {
 protected:
  QueuePair* datagram_qp(int index, QpType type) {
    const QpConfig config{.type = type};
    QueuePair* qp = pair.make_qp(index, config);
    pair.bring_up(index, *qp, config, Qpn(0), Lid(0), Psn(1), Psn(0));
    return qp;
  }
  PostResult send(QueuePair& qp, uint32_t bytes, const Destination& dest = {}) {
    const Sge sge = pair.side(0).sge(0, bytes);
    return pair.side(0).adapter->post_send(qp, {.wr_id = 1, .sges = {&sge, 1}, .dest = dest});
  }
  void hold_acknowledgements() {
    pair.pipe.set_filter(
        [](int from, std::vector<std::byte>&) { return from == 1 ? Verdict::kHold : Verdict::kPass; });
  }
  /// One QP at each side, bound to each other if the service is connected, and the destination of side 0's
  /// sends.
  struct Channel {
    std::array<QueuePair*, 2> qps{};
    Destination dest;
  };
  Channel open(QpType type) {
    if (is_connected(type)) return {.qps = pair.connect({.type = type}), .dest = {}};
    const std::array<QueuePair*, 2> qps{datagram_qp(0, type), datagram_qp(1, type)};
    return {.qps = qps,
            .dest = {.lid = Lid(2), .qpn = pair.side(1).adapter->qpn(*qps[1]), .qkey = AdapterPair::kQkey}};
  }

  AdapterPair pair;
};

TEST_F(PushChan, PUSH_CHAN_01_four_combinations) {
  covers("PUSH-CHAN-01 SAN-XPORT-01 SAN-QP-04");
  std::set<std::pair<bool, bool>> combinations;
  for (const QpType type : {QpType::kRc, QpType::kUc, QpType::kRd, QpType::kUd}) {
    QueuePair* qp = pair.make_qp(0, {.type = type});
    ASSERT_NE(qp, nullptr);
    EXPECT_EQ(pair.side(0).adapter->query_qp(*qp).state, QpState::kReset);
    const QpType queried = pair.side(0).adapter->config(*qp).type;
    EXPECT_EQ(queried, type);
    combinations.emplace(is_acknowledged(queried), is_connected(queried));
    // The channel behaves as its attributes say: an ACK comes back, or none.
    pair.side(1).completions.clear();
    pair.pipe.clear_trace();
    const Channel channel = open(type);
    ASSERT_EQ(pair.post_recv(1, *channel.qps[1], 7, {pair.side(1).sge(0, 1024)}), PostResult::kOk);
    ASSERT_EQ(send(*channel.qps[0], 10, channel.dest), PostResult::kOk);
    pair.run(20);
    EXPECT_EQ(pair.side(1).completions.size(), 1U);
    EXPECT_EQ(pair.pipe.sent_by(1, Opcode::kAck).empty(), !is_acknowledged(queried));
  }
  EXPECT_EQ(combinations.size(), 4U);
}

TEST_F(PushChan, PUSH_CHAN_02_acknowledged_completes_on_the_acknowledgement) {
  covers("PUSH-CHAN-02");
  for (const QpType type : {QpType::kRc, QpType::kRd}) {
    const Channel channel = open(type);
    for (PairSide& side : pair.sides) side.completions.clear();
    ASSERT_EQ(pair.post_recv(1, *channel.qps[1], 7, {pair.side(1).sge(0, 4096)}), PostResult::kOk);
    hold_acknowledgements();
    ASSERT_EQ(send(*channel.qps[0], 100, channel.dest), PostResult::kOk);
    pair.run(20);
    EXPECT_EQ(pair.side(1).completions.size(), 1U);
    EXPECT_TRUE(pair.side(0).completions.empty());
    pair.pipe.set_filter(nullptr);
    pair.pipe.release_held();
    pair.run();
    ASSERT_EQ(pair.side(0).completions.size(), 1U);
    EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kSuccess);
  }
}

TEST_F(PushChan, PUSH_CHAN_03_unacknowledged_completes_when_sent) {
  covers("PUSH-CHAN-03");
  for (const QpType type : {QpType::kUc, QpType::kUd}) {
    const Channel channel = open(type);
    pair.pipe.clear_trace();
    const uint32_t cells = is_connected(type) ? 3 : 1;
    ASSERT_EQ(send(*channel.qps[0], is_connected(type) ? 600 : 200, channel.dest), PostResult::kOk);
    // Without room for a cell on the wire there is no completion.
    pair.pipe.set_room(0, 0);
    std::array<WorkCompletion, 4> got;
    for (int i = 0; i < 10; ++i) pair.side(0).adapter->poll(pair.clock.now());
    EXPECT_EQ(pair.side(0).adapter->cqs().poll(*pair.side(0).cq, got), 0U);
    pair.pipe.set_room(0, UINT32_MAX);
    // The receiver is stalled: the test does not poll it, and it has no receive WQE.
    for (int i = 0; i < 10; ++i) pair.side(0).adapter->poll(pair.clock.now());
    ASSERT_EQ(pair.side(0).adapter->cqs().poll(*pair.side(0).cq, got), 1U);
    EXPECT_EQ(got[0].status, WcStatus::kSuccess);
    pair.run();
    EXPECT_EQ(pair.pipe.sent_by(0).size(), cells);
    EXPECT_TRUE(pair.pipe.sent_by(1).empty());
    // There is no acknowledgement either when a receive WQE takes the data.
    ASSERT_EQ(pair.post_recv(1, *channel.qps[1], 7, {pair.side(1).sge(0, 1024)}), PostResult::kOk);
    ASSERT_EQ(send(*channel.qps[0], 200, channel.dest), PostResult::kOk);
    pair.run();
    EXPECT_FALSE(pair.side(1).completions.empty());
    EXPECT_TRUE(pair.pipe.sent_by(1).empty());
  }
}

TEST_F(PushChan, PUSH_CHAN_04_connected_sends_to_the_bound_qp) {
  covers("PUSH-CHAN-04");
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    auto qps = pair.connect({.type = type});
    auto others = pair.connect({.type = type});
    const Qpn bound = pair.side(1).adapter->qpn(*qps[1]);
    pair.side(1).completions.clear();
    for (QueuePair* qp : {qps[1], others[1]}) {
      ASSERT_EQ(pair.post_recv(1, *qp, 7, {pair.side(1).sge(0, 4096)}), PostResult::kOk);
    }
    pair.pipe.clear_trace();
    // A connected channel ignores the destination of a descriptor; here it names another LID and QP.
    const Destination elsewhere{.lid = Lid(9), .qpn = pair.side(1).adapter->qpn(*others[1])};
    ASSERT_EQ(send(*qps[0], 600, elsewhere), PostResult::kOk);
    pair.run();
    const auto cells = pair.pipe.sent_by(0, Opcode::kSend);
    ASSERT_EQ(cells.size(), 3U);
    for (const TracedCell* cell : cells) {
      EXPECT_EQ(cell->view.dest_qpn, bound);
      EXPECT_EQ(cell->view.dlid, Lid(2));
    }
    ASSERT_EQ(pair.side(1).completions.size(), 1U);
    EXPECT_EQ(pair.side(1).completions[0].qpn, bound);
  }
}

TEST_F(PushChan, PUSH_CHAN_05_unconnected_names_its_destination) {
  covers("PUSH-CHAN-05");
  for (const QpType type : {QpType::kUd, QpType::kRd}) {
    pair.side(1).completions.clear();
    QueuePair* from = datagram_qp(0, type);
    EXPECT_EQ(send(*from, 10), PostResult::kNoDestination);
    std::vector<QueuePair*> peers;
    for (int i = 0; i < 3; ++i) {
      peers.push_back(datagram_qp(1, type));
      ASSERT_EQ(pair.post_recv(1, *peers.back(), static_cast<uint64_t>(i), {pair.side(1).sge(0, 1024)}),
                PostResult::kOk);
    }
    for (QueuePair* peer : peers) {
      const Destination dest{
          .lid = Lid(2), .qpn = pair.side(1).adapter->qpn(*peer), .qkey = AdapterPair::kQkey};
      ASSERT_EQ(send(*from, 10, dest), PostResult::kOk);
    }
    pair.run();
    EXPECT_EQ(pair.side(1).completions.size(), 3U) << "type " << static_cast<int>(type);
    for (const WorkCompletion& completion : pair.side(1).completions) {
      EXPECT_EQ(completion.status, WcStatus::kSuccess);
      EXPECT_EQ(completion.src_lid, Lid(1));
      EXPECT_EQ(completion.src_qpn, pair.side(0).adapter->qpn(*from));
    }
    std::set<uint32_t> reached;
    for (const WorkCompletion& completion : pair.side(1).completions) reached.insert(completion.qpn.value());
    EXPECT_EQ(reached.size(), 3U) << "each at the WQP its descriptor named";
  }
}

TEST_F(PushChan, PUSH_CHAN_06_both_ways_at_once_and_not_after_disconnect) {
  covers("PUSH-CHAN-06");
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    auto qps = pair.connect({.type = type});
    for (int i = 0; i < 2; ++i) {
      pair.side(i).completions.clear();
      pair.side(i).fill(0, 500, static_cast<uint8_t>(i + 1));
      ASSERT_EQ(pair.post_recv(i, *qps[static_cast<size_t>(i)], 7, {pair.side(i).sge(4096, 4096)}),
                PostResult::kOk);
    }
    for (int i = 0; i < 2; ++i) {
      const Sge sge = pair.side(i).sge(0, 500);
      ASSERT_EQ(
          pair.side(i).adapter->post_send(*qps[static_cast<size_t>(i)], {.wr_id = 1, .sges = {&sge, 1}}),
          PostResult::kOk);
    }
    pair.run();
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(pair.side(i).completions.size(), 2U);
      for (const WorkCompletion& completion : pair.side(i).completions)
        EXPECT_EQ(completion.status, WcStatus::kSuccess);
      EXPECT_EQ(pair.side(i).bytes_at(4096, 500), pair.side(1 - i).bytes_at(0, 500));
    }
    // After a reset of one end, that end cannot send and receives no more messages.
    QpAttr reset;
    reset.state = QpState::kReset;
    ASSERT_EQ(pair.side(0).adapter->modify_qp(*qps[0], reset, adapter::kQpAttrState), ModifyResult::kOk);
    EXPECT_EQ(send(*qps[0], 10), PostResult::kBadState);
    const Sge sge = pair.side(1).sge(0, 500);
    ASSERT_EQ(pair.side(1).adapter->post_send(*qps[1], {.wr_id = 2, .sges = {&sge, 1}}), PostResult::kOk);
    pair.run(20);
    EXPECT_EQ(pair.side(0).completions.size(), 2U);
    EXPECT_GE(pair.side(0).adapter->counters().get(AdapterCounter::kDropQpState), 1U);
    ASSERT_TRUE(pair.side(1).adapter->destroy_qp(qps[1]).ok());
  }
}

TEST_F(PushChan, PUSH_CHAN_07_a_foreign_source_is_dropped) {
  covers("PUSH-CHAN-07");
  auto qps = pair.connect({.type = QpType::kRc});
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 4096)}), PostResult::kOk);
  const Qpn own = pair.side(0).adapter->qpn(*qps[0]);
  const std::array<std::pair<Lid, Qpn>, 2> forged{{{Lid(3), own}, {Lid(1), Qpn(own.value() ^ 1)}}};
  uint64_t dropped = 0;
  for (const auto& [lid, qpn] : forged) {
    std::vector<std::byte> cell(kCellHeaderBytes + 16 + kCrcBytes, std::byte{0x77});
    const CellTemplate fixed = make_cell_template({.dest_subnet = SubnetId(1),
                                                   .src_subnet = SubnetId(1),
                                                   .dlid = Lid(2),
                                                   .slid = lid,
                                                   .vl = VirtualLane(0),
                                                   .sl = ServiceLevel(0),
                                                   .dest_qpn = pair.side(1).adapter->qpn(*qps[1]),
                                                   .src_qpn = qpn});
    (void)compose_cell_header(
        cell.data(), fixed,
        {.opcode = Opcode::kSend, .flags = kCellFirst | kCellLast, .psn = Psn(100), .payload_bytes = 16});
    pair.pipe.inject(1, cell);
    pair.run(20);
    EXPECT_EQ(pair.side(1).adapter->counters().get(AdapterCounter::kDropSource), ++dropped);
  }
  EXPECT_TRUE(pair.side(1).completions.empty());
  EXPECT_TRUE(pair.side(1).memory == std::vector<std::byte>(kPairBufferBytes));
  EXPECT_TRUE(pair.pipe.sent_by(1).empty());
  // The connection to the real peer still works.
  ASSERT_EQ(send(*qps[0], 16), PostResult::kOk);
  pair.run();
  ASSERT_EQ(pair.side(1).completions.size(), 1U);
  EXPECT_EQ(pair.side(1).completions[0].status, WcStatus::kSuccess);
}

}  // namespace
}  // namespace weft::test
