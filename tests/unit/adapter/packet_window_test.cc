// Memory of packets in flight: what a QP holds when nothing is under way, that it comes and goes without
// allocation, and that no peer can make an adapter take more of it than it may.
#include "adapter/queues/packet_window.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "adapter/adapter_engine.h"
#include "adapter/queues/completion_queue.h"
#include "adapter/queues/shared_receives.h"
#include "tests/support/adapter_pair.h"
#include "tests/support/allocation_counter.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

TEST(PacketWindow, has_memory_for_the_chunks_in_use_and_no_others) {
  ChunkPool<TxPacket> pool(64);
  PacketWindow<TxPacket> window;
  EXPECT_EQ(window.find(5), nullptr);
  constexpr uint64_t kAhead = 100;  // packets in flight
  for (uint64_t number = 0; number < 5000; ++number) {
    const uint64_t base = number < kAhead ? 0 : number - kAhead;
    ASSERT_TRUE(window.open(pool, number, base));
    window.at(number).offset = static_cast<uint32_t>(number);
    if (number >= kAhead) {
      ASSERT_EQ(window.at(base).offset, base);
      window.pass(pool, base + 1, number - base);
    }
    ASSERT_LE(pool.out(), kAhead / kChunkPackets + 2);
  }
  window.rest(pool);
  EXPECT_EQ(pool.out(), 0U);
  EXPECT_EQ(window.find(4999), nullptr);
}

/// A full window that begins in the middle of a chunk has its end in the same one.
TEST(PacketWindow, keeps_the_newest_packets_that_stand_where_the_oldest_stood) {
  ChunkPool<TxPacket> pool(64);
  PacketWindow<TxPacket> window;
  constexpr uint64_t kFirst = 8;
  for (uint64_t number = kFirst; number < kFirst + kPacketWindow; ++number) {
    ASSERT_TRUE(window.open(pool, number, kFirst));
    window.at(number).offset = static_cast<uint32_t>(number);
  }
  EXPECT_EQ(pool.out(), kPacketWindow / kChunkPackets);
  for (uint64_t base = kFirst; base < kFirst + kPacketWindow; ++base) {
    ASSERT_EQ(window.at(base).offset, base);
    window.pass(pool, base + 1, kFirst + kPacketWindow - base - 1);
  }
  window.rest(pool);
  EXPECT_EQ(pool.out(), 0U);
}

TEST(PacketWindow, always_has_the_chunk_of_its_oldest_packet_and_of_others_as_many_as_all_may) {
  ChunkPool<TxPacket> pool(2);
  std::array<PacketWindow<TxPacket>, 3> windows;
  EXPECT_TRUE(windows[0].open(pool, 40, 0));
  EXPECT_TRUE(windows[0].open(pool, 80, 0));
  EXPECT_FALSE(windows[0].open(pool, 120, 0));
  EXPECT_FALSE(windows[1].open(pool, 40, 0));
  for (auto& window : windows) EXPECT_TRUE(window.open(pool, 0, 0));
  // What was ahead has become the oldest: another may be ahead now.
  for (uint64_t base = 1; base <= 40; ++base) windows[0].pass(pool, base, 81 - base);
  EXPECT_TRUE(windows[1].open(pool, 40, 0));
  EXPECT_FALSE(windows[1].open(pool, 80, 0));
  windows[0].clear(pool);
  EXPECT_TRUE(windows[1].open(pool, 80, 0));
}

TEST(WindowBits, finds_the_next_over_the_end_of_the_ring) {
  WindowBits bits;
  const Psn base(Psn::kMask - 20);
  for (const uint32_t at : {3U, 70U, 71U, 500U}) bits.set(base.plus(at));
  EXPECT_EQ(bits.next(base, 0, kPacketWindow), 3U);
  EXPECT_EQ(bits.next(base, 4, kPacketWindow), 70U);
  EXPECT_EQ(bits.next(base, 72, kPacketWindow), 500U);
  EXPECT_EQ(bits.next(base, 4, 60), 60U);
  EXPECT_EQ(bits.next(base, 501, kPacketWindow), kPacketWindow);
  bits.clear(base.plus(70));
  EXPECT_EQ(bits.next(base, 4, kPacketWindow), 71U);
}

class QpMemory : public ::testing::Test {
 protected:
  static AdapterLimits no_inline() {
    AdapterLimits limits;
    limits.inline_bytes = 0;
    return limits;
  }
  /// Bytes that a QP in RTS has taken beside its queues, which hold one WQE each.
  uint64_t idle_bytes(const QpConfig& config) {
    const uint64_t before = allocated_bytes();
    QueuePair* qp = pair.make_qp(0, config);
    pair.bring_up(0, *qp, config, Qpn(77), Lid(2), Psn(1), Psn(2));
    return allocated_bytes() - before - sizeof(SendWqe) - sizeof(RecvWqe) - 2 * sizeof(Sge);
  }
  void send(QueuePair& qp, uint32_t bytes) {
    const Sge sge = pair.side(0).sge(0, bytes);
    const SendRequest request{.opcode = SendOpcode::kRdmaWrite,
                              .sges = {&sge, 1},
                              .remote_addr = pair.side(1).region.addr,
                              .rkey = pair.side(1).region.rkey};
    ASSERT_EQ(pair.side(0).adapter->post_send(qp, request), PostResult::kOk);
  }
  AdapterPair pair{256, no_inline()};
};

TEST_F(QpMemory, of_an_idle_qp_is_small_for_every_service) {
  QpConfig small{.send_wqes = 1, .recv_wqes = 1, .sges = 1};
  small.type = QpType::kRc;
  EXPECT_LE(idle_bytes(small), kIdleRcQpBytesMax);
  small.ack_mode = AckMode::kStrict;
  EXPECT_LE(idle_bytes(small), kIdleRcQpBytesMax);
  small.ack_mode = AckMode::kSelective;
  for (const QpType type : {QpType::kUd, QpType::kUc, QpType::kRd}) {
    small.type = type;
    EXPECT_LE(idle_bytes(small), kIdleUdQpBytesMax) << static_cast<int>(type);
  }
}

TEST_F(QpMemory, of_single_acknowledgements_is_held_only_while_they_wait) {
  const auto qps = pair.connect({.send_wqes = 4, .recv_wqes = 1, .ack_mode = AckMode::kStrict});
  const Engine& far = *qps[1]->owner;
  pair.run(2);
  send(*qps[0], 256 * 40);
  pair.run_one(0);
  qps[1]->rx.strict_acks.push({Psn(7), 3});
  EXPECT_EQ(far.strict_acks.out(), 1U);
  EXPECT_EQ(qps[1]->rx.strict_acks.front().psn(), Psn(7));
  EXPECT_EQ(qps[1]->rx.strict_acks.front().cell(), 3U);
  qps[1]->rx.strict_acks.pop();
  EXPECT_EQ(far.strict_acks.out(), 0U);
  pair.run(10);
  EXPECT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_GE(qps[1]->counters.get(QpCounter::kAcksSent), 40U);
  EXPECT_EQ(far.strict_acks.out(), 0U);
  for (uint16_t cell = 0; cell < kStrictAcksMax; ++cell)
    EXPECT_TRUE(qps[1]->rx.strict_acks.push({Psn(9), cell}));
  EXPECT_FALSE(qps[1]->rx.strict_acks.push({Psn(9), 1}));
  ASSERT_TRUE(pair.side(1).adapter->destroy_qp(qps[1]).ok());
  EXPECT_EQ(far.strict_acks.out(), 0U);
}

/// What is large is taken and given back by whoever wants it, who need not be the adapter's owner then.
TEST_F(QpMemory, of_queues_is_taken_before_their_place_in_the_adapter) {
  constexpr uint64_t kSmall = 1024;
  ChannelAdapter& adapter = *pair.side(0).adapter;
  const QpConfig config{.pd = pair.side(0).pd,
                        .send_cq = pair.side(0).cq,
                        .recv_cq = pair.side(0).cq,
                        .send_wqes = 4096,
                        .recv_wqes = 4096};
  weft::adapter::QpMemory qp_memory = std::move(adapter.make_qp(config)).value();
  const SrqConfig srq_config{.pd = pair.side(0).pd, .wqes = 4096};
  SrqMemory srq_memory = std::move(adapter.srqs().make(srq_config)).value();
  auto cq_memory = std::make_unique<CompletionQueue>(4096);

  const uint64_t before = allocated_bytes();
  QueuePair* qp = adapter.create_qp(std::move(qp_memory)).value();
  SharedReceiveQueue* srq = adapter.srqs().create(std::move(srq_memory)).value();
  CompletionQueue* cq = adapter.cqs().create(std::move(cq_memory)).value();
  EXPECT_LE(allocated_bytes() - before, kSmall);
  EXPECT_EQ(cq->depth(), 4096U);

  ASSERT_TRUE(adapter.destroy_qp(qp, &qp_memory).ok());
  ASSERT_TRUE(adapter.srqs().destroy(srq, &srq_memory).ok());
  ASSERT_TRUE(adapter.cqs().destroy(cq, &cq_memory).ok());
  EXPECT_EQ(qp_memory.get(), qp);
  EXPECT_EQ(srq_memory.get(), srq);
  EXPECT_EQ(cq_memory.get(), cq);
}

TEST_F(QpMemory, that_finds_no_place_is_given_back) {
  ChannelAdapter& adapter = *pair.side(0).adapter;
  QpConfig config{.pd = PdId(999), .send_cq = pair.side(0).cq, .recv_cq = pair.side(0).cq};
  EXPECT_FALSE(adapter.create_qp(std::move(adapter.make_qp(config)).value()).ok());
  config.pd = pair.side(0).pd;
  config.send_wqes = 0;
  EXPECT_FALSE(adapter.create_qp(config).ok());
}

/// Chunks in use while a message of 200 packets is under way, and afterwards.
TEST_F(QpMemory, of_packets_is_held_only_while_they_are_under_way) {
  const auto qps = pair.connect({.send_wqes = 4, .recv_wqes = 1, .packet_bytes = 256});
  const Engine& near = *qps[0]->owner;
  const Engine& far = *qps[1]->owner;
  pair.pipe.set_filter([](int from, std::vector<std::byte>&) {
    return from == 1 ? Verdict::kHold : Verdict::kPass;  // acknowledgements
  });
  send(*qps[0], 256 * 200);
  pair.run(10);
  EXPECT_GE(near.tx_chunks.out(), 200 / kChunkPackets);
  EXPECT_EQ(far.rx_chunks.out(), 0U) << "all has come in order, is executed and acknowledged";
  pair.pipe.set_filter({});
  pair.pipe.release_held();
  pair.run(10);
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(near.tx_chunks.out(), 0U);
}

TEST_F(QpMemory, of_packets_that_came_too_early_goes_when_the_missing_one_has_come) {
  const auto qps = pair.connect({.send_wqes = 4, .recv_wqes = 1, .packet_bytes = 256});
  const Engine& far = *qps[1]->owner;
  bool lost = false;
  pair.pipe.set_filter([&](int from, std::vector<std::byte>&) {
    return from == 0 && !std::exchange(lost, true) ? Verdict::kHold : Verdict::kPass;
  });
  send(*qps[0], 256 * 100);
  pair.run_one(0);
  pair.run_one(1);
  EXPECT_GE(far.rx_chunks.out(), 60 / kChunkPackets);
  pair.run(100);
  EXPECT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(far.rx_chunks.out(), 0U);
}

TEST_F(QpMemory, of_packets_goes_with_an_error_and_with_the_qp) {
  const auto qps = pair.connect({.send_wqes = 4, .recv_wqes = 1, .packet_bytes = 256});
  const auto others = pair.connect({.send_wqes = 4, .recv_wqes = 1, .packet_bytes = 256});
  const Engine& near = *qps[0]->owner;
  pair.pipe.set_filter([](int, std::vector<std::byte>&) { return Verdict::kDrop; });
  send(*qps[0], 256 * 40);
  send(*others[0], 256 * 40);
  pair.run(2);
  EXPECT_GT(near.tx_chunks.out(), 40 / kChunkPackets);
  ASSERT_EQ(pair.side(0).adapter->modify_qp(*qps[0], {.state = QpState::kErr}, kQpAttrState),
            ModifyResult::kOk);
  EXPECT_LE(near.tx_chunks.out(), 40 / kChunkPackets + 1);
  ASSERT_TRUE(pair.side(0).adapter->destroy_qp(others[0]).ok());
  EXPECT_EQ(near.tx_chunks.out(), 0U);
}

/// Peers send nothing but what comes too early, on many QPs: the memory for it ends, with nothing said about
/// what was dropped, and what is expected goes on.
TEST(QpMemoryOfManyPeers, is_bounded_and_nobody_waits_for_another) {
  AdapterLimits limits;
  limits.window_chunks = 8;
  AdapterPair pair(256, limits);
  std::array<std::array<QueuePair*, 2>, 20> qps;
  for (auto& both : qps) both = pair.connect({.send_wqes = 64, .recv_wqes = 1, .packet_bytes = 256});
  bool lose = true;  // the first 20 packets of each message
  pair.pipe.set_filter([&](int from, std::vector<std::byte>& bytes) {
    CellView cell;
    EXPECT_EQ(decode_cell(bytes, CrcCheck::kAlreadyVerified, cell), CellError::kNone);
    return lose && from == 0 && cell.psn.distance_from(Psn(100)) < 20 ? Verdict::kDrop : Verdict::kPass;
  });
  for (const auto& both : qps) {
    const Sge sge = pair.side(0).sge(0, 256 * 64);
    ASSERT_EQ(pair.side(0).adapter->post_send(*both[0], {.opcode = SendOpcode::kRdmaWrite,
                                                         .sges = {&sge, 1},
                                                         .remote_addr = pair.side(1).region.addr,
                                                         .rkey = pair.side(1).region.rkey}),
              PostResult::kOk);
  }
  pair.run(50);
  const Engine& far = *qps[0][1]->owner;
  EXPECT_LE(far.rx_chunks.out(), 8U + qps.size());
  EXPECT_GT(pair.side(1).adapter->counters().get(AdapterCounter::kDropWindow), 0U);
  lose = false;
  for (int i = 0; i < 200 && pair.side(0).completions.size() < qps.size(); ++i) pair.run(10, 1ms);
  EXPECT_EQ(pair.side(0).completions.size(), qps.size());
  EXPECT_EQ(far.rx_chunks.out(), 0U);
}

}  // namespace
}  // namespace weft::test
