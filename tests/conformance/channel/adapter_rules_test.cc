// Rows about the adapter as a whole: what costs a call to the agent, what an adapter leaves to the messaging
// layer, whose addresses a WQE names, what RD shares.
#include "tests/support/adapter_pair.h"
#include "tests/support/requirement.h"

namespace weft::test {
namespace {

class AdapterRules : public ::testing::Test {
 protected:
  ChannelAdapter& adapter(int index = 0) { return *pair.side(index).adapter; }
  uint64_t agent_calls(int index) { return adapter(index).counters().get(AdapterCounter::kAgentCalls); }
  PostResult send(QueuePair& qp, uint64_t wr_id, const Destination& dest = {}) {
    const Sge sge = pair.side(0).sge(0, 64);
    return adapter().post_send(qp, {.wr_id = wr_id, .sges = {&sge, 1}, .dest = dest});
  }
  QueuePair* rd_qp(int index) {
    const QpConfig config{.type = QpType::kRd};
    QueuePair* qp = pair.make_qp(index, config);
    pair.bring_up(index, *qp, config, Qpn(0), Lid(0), Psn(0), Psn(0));
    return qp;
  }

  AdapterPair pair;
};

TEST_F(AdapterRules, PUSH_WQ_07_set_up_goes_through_the_agent) {
  covers("PUSH-WQ-07");
  const auto counts = [&](auto call) {
    const uint64_t before = agent_calls(0);
    call();
    return agent_calls(0) == before + 1;
  };
  PdId pd;
  CompletionQueue* cq = nullptr;
  QueuePair* qp = nullptr;
  EXPECT_TRUE(counts([&] { pd = adapter().alloc_pd().value(); }));
  EXPECT_TRUE(counts([&] { cq = adapter().create_cq(8).value(); }));
  EXPECT_TRUE(counts([&] {
    QpConfig config{};
    config.pd = pd;
    config.send_cq = config.recv_cq = cq;
    qp = adapter().create_qp(config).value();
  }));
  EXPECT_TRUE(counts([&] {
    QpAttr attr;
    attr.state = QpState::kInit;
    EXPECT_EQ(adapter().modify_qp(*qp, attr, kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccess),
              ModifyResult::kOk);
  }));
  // Memory the adapter may use, from registration to its end, and the keys to it.
  MemoryRegion region;
  Rkey key;
  const std::span<std::byte> memory = std::span(pair.side(0).memory).first(64);
  EXPECT_TRUE(counts([&] { region = adapter().memory().reg_mr(pd, memory, Access::kLocalWrite).value(); }));
  EXPECT_TRUE(counts([&] { key = adapter().memory().alloc_rkey(pd).value(); }));
  EXPECT_TRUE(counts([&] { EXPECT_TRUE(adapter().memory().dealloc_rkey(key).ok()); }));
  EXPECT_TRUE(counts([&] { EXPECT_TRUE(adapter().memory().dereg_mr(region.lkey).ok()); }));
  EXPECT_TRUE(counts([&] { EXPECT_TRUE(adapter().destroy_qp(qp).ok()); }));
  EXPECT_TRUE(counts([&] { EXPECT_TRUE(adapter().destroy_cq(cq).ok()); }));
  EXPECT_TRUE(counts([&] { EXPECT_TRUE(adapter().dealloc_pd(pd).ok()); }));
}

/// Interrupts and error handling reach the agent as events of the adapter.
TEST_F(AdapterRules, PUSH_WQ_07_errors_and_notifications_come_from_the_agent) {
  covers("PUSH-WQ-07");
  auto qps = pair.connect({});
  AsyncEvent event;
  while (adapter(1).next_event(event)) continue;
  adapter(0).arm_cq(*pair.side(0).cq, CqNotify::kNext);
  EXPECT_FALSE(adapter(0).take_cq_notification(*pair.side(0).cq));
  const Sge sge = pair.side(0).sge(0, 64);
  ASSERT_EQ(adapter().post_send(*qps[0], {.wr_id = 1,
                                          .opcode = SendOpcode::kRdmaWrite,
                                          .sges = {&sge, 1},
                                          .remote_addr = pair.side(1).region.addr,
                                          .rkey = Rkey(pair.side(1).region.rkey.value() ^ 0x100)}),
            PostResult::kOk);
  pair.run(20);
  EXPECT_TRUE(adapter(0).take_cq_notification(*pair.side(0).cq));
  ASSERT_TRUE(adapter(1).next_event(event));
  EXPECT_EQ(event.kind, AsyncEventKind::kQpAccessError);
  EXPECT_EQ(event.qpn, adapter(1).qpn(*qps[1]));
}

TEST_F(AdapterRules, PUSH_WQ_09_transfers_do_not) {
  covers("PUSH-WQ-09 SAN-RMP-05");
  auto qps = pair.connect({});
  const uint64_t before[2] = {agent_calls(0), agent_calls(1)};
  uint64_t done = 0;
  for (uint64_t i = 0; i < 10'000; ++i) {
    ASSERT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(0, 64)}), PostResult::kOk);
    ASSERT_EQ(send(*qps[0], i), PostResult::kOk);
    if (i % 50 != 49) continue;
    pair.run(2);
    done += pair.side(0).completions.size();
    pair.side(0).completions.clear();
    pair.side(1).completions.clear();
    pair.pipe.clear_trace();
  }
  pair.run(20);
  done += pair.side(0).completions.size();
  EXPECT_EQ(done, 10'000U);
  EXPECT_EQ(agent_calls(0), before[0]);
  EXPECT_EQ(agent_calls(1), before[1]);
}

TEST_F(AdapterRules, PUSH_WQ_10_the_adapter_alone_does_not_manage_buffers) {
  // An unacknowledged channel without receive WQEs drops what a fast producer sends; the adapter says so.
  // That nothing is lost with pools and their credits is shown with the messaging layer.
  covers("PUSH-WQ-10");
  auto qps = pair.connect({.type = QpType::kUc});
  ASSERT_EQ(pair.post_recv(1, *qps[1], 1, {pair.side(1).sge(0, 64)}), PostResult::kOk);
  for (uint64_t i = 0; i < 5; ++i) ASSERT_EQ(send(*qps[0], i), PostResult::kOk);
  pair.run(5);
  EXPECT_EQ(pair.side(0).completions.size(), 5U);
  EXPECT_EQ(pair.side(1).completions.size(), 1U);
  EXPECT_EQ(adapter(1).counters().get(AdapterCounter::kDropNoRecvWqe), 4U);
  EXPECT_EQ(adapter(1).missed_packets(*qps[1]), 4U);
}

TEST_F(AdapterRules, SAN_WQE_08_addresses_belong_to_the_owner_of_the_queue_pair) {
  covers("SAN-WQE-08");
  // Both sides register different memory under the same numbers.
  constexpr uint64_t kBase = 0x10000;
  const Access all = Access::kLocalWrite | Access::kRemoteWrite;
  MemoryRegion regions[2];
  for (int i = 0; i < 2; ++i) {
    regions[i] =
        adapter(i)
            .memory()
            .reg_mr(pair.side(i).pd, std::span(pair.side(i).memory).first(4096), all, {.base_addr = kBase})
            .value();
  }
  auto qps = pair.connect({});
  pair.side(0).fill(0, 300, 1);
  const Sge sge{.addr = kBase, .length = 300, .lkey = regions[0].lkey};
  ASSERT_EQ(adapter().post_send(*qps[0], {.wr_id = 1,
                                          .opcode = SendOpcode::kRdmaWrite,
                                          .sges = {&sge, 1},
                                          .remote_addr = kBase + 1000,
                                          .rkey = regions[1].rkey}),
            PostResult::kOk);
  pair.run(5);
  EXPECT_EQ(pair.side(1).bytes_at(1000, 300), pair.side(0).bytes_at(0, 300));
  EXPECT_EQ(pair.side(0).bytes_at(1000, 300), std::vector<std::byte>(300));
}

TEST_F(AdapterRules, SAN_XPORT_12_queue_pairs_share_the_numbers_of_a_context) {
  covers("SAN-XPORT-12");
  QueuePair* from[2] = {rd_qp(0), rd_qp(0)};
  QueuePair* to[2] = {rd_qp(1), rd_qp(1)};
  for (int i = 0; i < 2; ++i) {
    for (int n = 0; n < 3; ++n) {
      ASSERT_EQ(pair.post_recv(1, *to[i], 7, {pair.side(1).sge(0, 64)}), PostResult::kOk);
      ASSERT_EQ(send(*from[i], 1, {.lid = Lid(2), .qpn = adapter(1).qpn(*to[i])}), PostResult::kOk);
    }
  }
  pair.run(50);
  EXPECT_EQ(pair.side(0).completions.size(), 6U);
  EXPECT_EQ(pair.side(1).completions.size(), 6U);
  const auto cells = pair.pipe.sent_by(0, Opcode::kSend);
  ASSERT_EQ(cells.size(), 6U);
  bool both = false;
  for (size_t i = 1; i < cells.size(); ++i) {
    EXPECT_EQ(cells[i]->view.psn, cells[i - 1]->view.psn.plus(1));
    both |= cells[i]->view.src_qpn != cells[i - 1]->view.src_qpn;
  }
  EXPECT_TRUE(both);
}

TEST(AdapterRulesLimits, SAN_XPORT_12_no_context_left_refuses_a_new_peer) {
  covers("SAN-XPORT-12");
  AdapterLimits limits;
  limits.rd_contexts = 1;
  AdapterPair pair(256, limits);
  const QpConfig config{.type = QpType::kRd};
  QueuePair* qp = pair.make_qp(0, config);
  QueuePair* peer = pair.make_qp(1, config);
  pair.bring_up(0, *qp, config, Qpn(0), Lid(0), Psn(0), Psn(0));
  pair.bring_up(1, *peer, config, Qpn(0), Lid(0), Psn(0), Psn(0));
  ASSERT_EQ(pair.post_recv(1, *peer, 7, {pair.side(1).sge(0, 64)}), PostResult::kOk);
  const Sge sge = pair.side(0).sge(0, 64);
  for (const Lid lid : {Lid(2), Lid(3)}) {
    const Destination dest{.lid = lid, .qpn = pair.side(1).adapter->qpn(*peer)};
    ASSERT_EQ(pair.side(0).adapter->post_send(*qp, {.wr_id = lid.value(), .sges = {&sge, 1}, .dest = dest}),
              PostResult::kOk);
    pair.run(20);
  }
  ASSERT_EQ(pair.side(0).completions.size(), 2U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(pair.side(0).completions[1].status, WcStatus::kLocalEecOperation);
}

}  // namespace
}  // namespace weft::test
