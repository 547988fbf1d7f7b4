// Memory of windows that somebody else takes for an adapter: nothing is lost while it is on its way, and the
// adapter takes none itself. What refused calls say is put together by who reads it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "adapter/adapter_engine.h"
#include "adapter/queues/completion_queue.h"
#include "adapter/queues/shared_receives.h"
#include "adapter/supplies.h"
#include "tests/support/adapter_pair.h"
#include "tests/support/allocation_counter.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kSlab = 32;  // chunks that a pool begins with
uint64_t g_largest = 0;

void look(uint64_t bytes) {
  g_largest = std::max(g_largest, bytes);
}

class Supply : public ::testing::Test {
 protected:
  void connect(int count, AckMode mode = AckMode::kSelective) {
    for (int i = 0; i < count; ++i)
      qps.push_back(pair.connect({.send_wqes = 4, .recv_wqes = 1, .ack_mode = mode}));
    pair.run(2);
  }
  /// Each QP of side 0 writes so much.
  void write_all(uint32_t bytes) {
    for (const auto& [qp, peer] : qps) {
      const Sge sge = pair.side(0).sge(0, bytes);
      const SendRequest request{.opcode = SendOpcode::kRdmaWrite,
                                .sges = {&sge, 1},
                                .remote_addr = pair.side(1).region.addr,
                                .rkey = pair.side(1).region.rkey};
      ASSERT_EQ(pair.side(0).adapter->post_send(*qp, request), PostResult::kOk);
    }
  }
  /// From now on the test supplies this side.
  ChannelAdapter& take_over(int side) {
    supplied = side;
    pair.side(side).adapter->report_lack(lack);
    return *pair.side(side).adapter;
  }
  /// Turns of one side, which takes no chunks if it is supplied. The pipe takes a little for each cell.
  void turns(int side, int count) {
    g_largest = 0;
    watch_allocations(look);
    for (int i = 0; i < count; ++i) pair.run_one(side);
    watch_allocations(nullptr);
    const uint64_t most = side == supplied ? sizeof(TxPacket) * kChunkPackets * kSlab : UINT64_MAX;
    EXPECT_LT(g_largest, most);
  }
  void supply(int side) {
    ChannelAdapter& adapter = *pair.side(side).adapter;
    for (uint32_t kinds = adapter.lacks(); kinds != 0; kinds = adapter.lacks()) {
      Supplies supplies(kinds);
      adapter.supply(supplies);
    }
  }
  uint64_t received() { return pair.side(1).adapter->ports().total(AdapterPortCounter::kCellsReceived); }
  uint64_t drops() { return pair.side(1).adapter->counters().get(AdapterCounter::kDropWindow); }
  void expect_all_done() {
    pair.run(200, 1ms);
    const auto& done = pair.side(0).completions;
    EXPECT_EQ(done.size(), qps.size());
    EXPECT_TRUE(std::all_of(done.begin(), done.end(),
                            [](const WorkCompletion& wc) { return wc.status == WcStatus::kSuccess; }));
  }

  bool lack = false;
  int supplied = -1;
  std::vector<std::array<QueuePair*, 2>> qps;
  AdapterPair pair;
};

TEST_F(Supply, a_requester_without_memory_waits_for_it) {
  connect(100);
  take_over(0);
  write_all(8);
  turns(0, 10);
  const Ports& ports = pair.side(0).adapter->ports();
  EXPECT_EQ(ports.total(AdapterPortCounter::kCellsSent), kSlab);
  EXPECT_TRUE(lack);
  EXPECT_EQ(pair.side(0).adapter->deadline(), Instant::min()) << "it goes on as soon as there is some";
  EXPECT_TRUE(pair.side(0).completions.empty());
  for (int i = 0; i < 4; ++i) {
    supply(0);
    turns(0, 10);
  }
  EXPECT_EQ(ports.total(AdapterPortCounter::kCellsSent), qps.size());
  expect_all_done();
}

/// Whatever cells a port gives at a time, there is memory for all of them.
TEST_F(Supply, cells_wait_in_their_port_for_the_memory_of_windows) {
  connect(40);
  take_over(1);
  const uint64_t received_before = received();
  write_all(300);  // two cells each, the first one opens a packet
  turns(0, 10);
  turns(1, 10);
  EXPECT_EQ(received(), received_before);
  EXPECT_TRUE(lack);
  EXPECT_FALSE(pair.pipe.end(1).prepare_sleep());
  supply(1);
  turns(1, 10);
  EXPECT_EQ(received(), received_before + 2 * qps.size());
  EXPECT_EQ(drops(), 0U);
  expect_all_done();
}

TEST_F(Supply, without_memory_to_be_had_cells_are_dropped_and_counted) {
  connect(40);
  take_over(1);
  write_all(300);
  pair.pipe.set_filter([cells = 0](int from, std::vector<std::byte>&) mutable {
    return from == 0 && ++cells % 2 == 0 ? Verdict::kDrop : Verdict::kPass;  // packets stay open
  });
  turns(0, 10);
  pair.side(1).adapter->go_without();
  turns(1, 10);
  EXPECT_EQ(drops(), qps.size() - kSlab);
  EXPECT_TRUE(lack) << "it is asked for again";
  pair.pipe.set_filter({});
  supply(1);
  expect_all_done();
}

TEST_F(Supply, a_requester_goes_without_as_at_a_limit) {
  connect(40);
  take_over(0).go_without();
  write_all(8);
  turns(0, 10);
  const auto& done = pair.side(0).completions;
  ASSERT_EQ(done.size(), qps.size() - kSlab);
  EXPECT_TRUE(std::all_of(done.begin(), done.end(),
                          [](const WorkCompletion& wc) { return wc.status == WcStatus::kLocalQpOperation; }));
  EXPECT_TRUE(lack);
}

/// Each strict QP may owe its first single acknowledgement within one turn.
TEST_F(Supply, of_single_acknowledgements_is_for_as_many_qps_as_there_are) {
  connect(30, AckMode::kStrict);
  ChannelAdapter& adapter = take_over(1);
  EXPECT_NE(adapter.lacks() & kSupplyStrictAcks, 0U);
  Supplies packets(kSupplyRxPackets);
  adapter.supply(packets);
  const uint64_t received_before = received();
  write_all(8);
  turns(0, 10);
  turns(1, 10);
  EXPECT_EQ(received(), received_before);
  supply(1);
  EXPECT_EQ(adapter.lacks(), 0U);
  turns(1, 10);
  EXPECT_EQ(received(), received_before + qps.size());
  expect_all_done();
  for (const auto& [qp, peer] : qps) EXPECT_TRUE(adapter.destroy_qp(peer).ok());
  EXPECT_EQ(qps.front()[0]->owner->strict_qps, qps.size());
  EXPECT_EQ(pair.side(1).adapter->lacks(), 0U);
}

TEST_F(Supply, is_the_adapters_own_where_nobody_asks) {
  connect(100);
  write_all(300);
  expect_all_done();
  EXPECT_EQ(drops(), 0U);
}

TEST_F(Supply, refused_calls_take_no_memory_and_say_why) {
  ChannelAdapter& adapter = *pair.side(0).adapter;
  CompletionQueue& cq = *pair.side(0).cq;
  SharedReceiveQueue& srq = *adapter.srqs().create({.pd = pair.side(0).pd, .wqes = 8}).value();
  const uint64_t before = allocations();
  const Refusable<CompletionQueue*> none = adapter.cqs().create(0);
  const Refusable<> deep = adapter.cqs().resize(cq, 1U << 30);
  const Refusable<> pkeys = adapter.ports().set_pkeys(1, {});
  const Refusable<> limit = adapter.srqs().modify(srq, {.limit = 9}, kSrqLimit);
  const Refusable<QueuePair*> qp = adapter.create_qp(QpConfig{.pd = PdId(1)});
  const Refusable<MemoryRegion> region = adapter.memory().regions.rereg_mr(Lkey(77), {});
  EXPECT_EQ(allocations(), before);
  EXPECT_EQ(none.error().text(), "create_cq: 0 entries; 1 to 65536 are possible");
  EXPECT_EQ(deep.error().text(), "resize_cq: 1073741824 entries; 1 to 65536 are possible");
  EXPECT_EQ(pkeys.error().text(), "set_pkeys: a port has 1 to 16 partitions");
  EXPECT_EQ(limit.error().text(), "modify_srq: limit 9 is above the 8 WQEs of the queue");
  EXPECT_EQ(qp.error().text(), "create_qp: needs a CQ for each queue");
  EXPECT_EQ(region.error().text(), "rereg_mr: not the LKey of a region");
}

}  // namespace
}  // namespace weft::test
