// Rows about the adapter as a whole: calls that go to the agent, tasks that an adapter leaves to the
// messaging
// layer, and the meaning of a WQE's addresses.
#include "tests/support/adapter_pair.h"
#include "tests/support/requirement.h"
#include "tests/support/scripted_host.h"
#include "tests/support/session_pair.h"

namespace weft::test {
using namespace session;
namespace {

class AdapterRules : public ::testing::Test {
 protected:
  adapter::ChannelAdapter& adapter(int index = 0) { return *pair.side(index).adapter; }
  uint64_t agent_calls(int index) {
    return adapter(index).counters().get(adapter::AdapterCounter::kAgentCalls);
  }
  adapter::PostResult send(adapter::QueuePair& qp, uint64_t wr_id, const adapter::Destination& dest = {}) {
    const adapter::Sge sge = pair.side(0).sge(0, 64);
    return adapter().post_send(qp, {.wr_id = wr_id, .sges = {&sge, 1}, .dest = dest});
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
  adapter::PdId pd;
  adapter::CompletionQueue* cq = nullptr;
  adapter::QueuePair* qp = nullptr;
  EXPECT_TRUE(counts([&] { pd = adapter().alloc_pd().value(); }));
  EXPECT_TRUE(counts([&] { cq = adapter().cqs().create(8).value(); }));
  EXPECT_TRUE(counts([&] {
    adapter::QpConfig config{};
    config.pd = pd;
    config.send_cq = config.recv_cq = cq;
    qp = adapter().create_qp(config).value();
  }));
  EXPECT_TRUE(counts([&] {
    adapter::QpAttr attr;
    attr.state = adapter::QpState::kInit;
    EXPECT_EQ(adapter().modify_qp(*qp, attr,
                                  adapter::kQpAttrState | adapter::kQpAttrPkeyIndex | adapter::kQpAttrPort |
                                      adapter::kQpAttrAccess),
              adapter::ModifyResult::kOk);
  }));
  // Registering memory and windows, and ending them. To ask for the table is no such call.
  EXPECT_FALSE(counts([&] { static_cast<void>(adapter().memory()); }));
  adapter::MemoryRegion region;
  Rkey key;
  const std::span<std::byte> memory = std::span(pair.side(0).memory).first(64);
  EXPECT_TRUE(counts(
      [&] { region = adapter().memory().regions.reg_mr(pd, memory, adapter::Access::kLocalWrite).value(); }));
  EXPECT_TRUE(counts([&] {
    const adapter::RegionChange change{.access = adapter::Access::kLocalWrite | adapter::Access::kRemoteRead};
    region = adapter().memory().regions.rereg_mr(region.lkey, change).value();
  }));
  EXPECT_TRUE(counts([&] { key = adapter().memory().windows.alloc_rkey(pd).value(); }));
  EXPECT_TRUE(counts([&] { EXPECT_TRUE(adapter().memory().windows.dealloc_rkey(key).ok()); }));
  EXPECT_TRUE(counts([&] { EXPECT_TRUE(adapter().memory().regions.dereg_mr(region.lkey).ok()); }));
  EXPECT_TRUE(counts([&] { EXPECT_TRUE(adapter().destroy_qp(qp).ok()); }));
  EXPECT_TRUE(counts([&] { EXPECT_TRUE(adapter().cqs().destroy(cq).ok()); }));
  EXPECT_TRUE(counts([&] { EXPECT_TRUE(adapter().dealloc_pd(pd).ok()); }));
}

/// Interrupts and errors are reported by the agent as events of the adapter.
TEST_F(AdapterRules, PUSH_WQ_07_errors_and_notifications_come_from_the_agent) {
  covers("PUSH-WQ-07");
  auto qps = pair.connect({});
  adapter::AsyncEvent event;
  while (adapter(1).next_event(event)) continue;
  adapter(0).cqs().arm(*pair.side(0).cq, adapter::CqNotify::kNext);
  EXPECT_FALSE(adapter(0).cqs().take_notification(*pair.side(0).cq));
  const adapter::Sge sge = pair.side(0).sge(0, 64);
  ASSERT_EQ(adapter().post_send(*qps[0], {.wr_id = 1,
                                          .opcode = adapter::SendOpcode::kRdmaWrite,
                                          .sges = {&sge, 1},
                                          .remote_addr = pair.side(1).region.addr,
                                          .rkey = Rkey(pair.side(1).region.rkey.value() ^ 0x100)}),
            adapter::PostResult::kOk);
  pair.run(20);
  EXPECT_TRUE(adapter(0).cqs().take_notification(*pair.side(0).cq));
  ASSERT_TRUE(adapter(1).next_event(event));
  EXPECT_EQ(event.kind, adapter::AsyncEventKind::kQpAccessError);
  EXPECT_EQ(event.qpn, adapter(1).qpn(*qps[1]));
}

TEST_F(AdapterRules, PUSH_WQ_07_transfers_do_not) {
  covers("PUSH-WQ-07");
  auto qps = pair.connect({});
  const uint64_t before[2] = {agent_calls(0), agent_calls(1)};
  uint64_t done = 0;
  for (uint64_t i = 0; i < 10'000; ++i) {
    ASSERT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(0, 64)}), adapter::PostResult::kOk);
    ASSERT_EQ(send(*qps[0], i), adapter::PostResult::kOk);
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
  // An unacknowledged channel without receive WQEs drops a fast producer's messages, and the adapter counts
  // them.
  // The messaging layer's tests show that pools and credits avoid the loss.
  covers("PUSH-WQ-10");
  auto qps = pair.connect({.type = adapter::QpType::kUc});
  ASSERT_EQ(pair.post_recv(1, *qps[1], 1, {pair.side(1).sge(0, 64)}), adapter::PostResult::kOk);
  for (uint64_t i = 0; i < 5; ++i) ASSERT_EQ(send(*qps[0], i), adapter::PostResult::kOk);
  pair.run(5);
  EXPECT_EQ(pair.side(0).completions.size(), 5U);
  EXPECT_EQ(pair.side(1).completions.size(), 1U);
  EXPECT_EQ(adapter(1).counters().get(adapter::AdapterCounter::kDropNoRecvWqe), 4U);
  EXPECT_EQ(adapter(1).missed_packets(*qps[1]), 4U);
}

TEST(AdapterRulesLimits, SAN_NODE_04_an_endnode_may_do_without_inbound_rdma) {
  covers("SAN-NODE-04");
  adapter::AdapterLimits limits;
  limits.queue_pairs = 16;
  limits.inbound_rdma = false;
  AdapterPair pair(256, limits);
  // The adapter reports its limits.
  EXPECT_EQ(pair.side(1).adapter->limits().queue_pairs, 16U);
  EXPECT_FALSE(pair.side(1).adapter->limits().inbound_rdma);
  for (const adapter::SendOpcode opcode : {adapter::SendOpcode::kRdmaWrite, adapter::SendOpcode::kRdmaRead}) {
    const auto qps = pair.connect({});
    const std::vector<std::byte> before = pair.side(1).memory;
    pair.side(0).fill(0, 64, 5);
    pair.side(0).completions.clear();
    const adapter::Sge sge = pair.side(0).sge(0, 64);
    ASSERT_EQ(pair.side(0).adapter->post_send(*qps[0], {.opcode = opcode,
                                                        .sges = {&sge, 1},
                                                        .remote_addr = pair.side(1).region.addr,
                                                        .rkey = pair.side(1).region.rkey}),
              adapter::PostResult::kOk);
    pair.run(20);
    ASSERT_EQ(pair.side(0).completions.size(), 1U);
    EXPECT_EQ(pair.side(0).completions[0].status, adapter::WcStatus::kRemoteInvalidRequest);
    EXPECT_TRUE(pair.side(1).memory == before);
  }
}

TEST_F(AdapterRules, SAN_WQE_08_addresses_belong_to_the_owner_of_the_queue_pair) {
  covers("SAN-WQE-08");
  // Both sides register different memory under the same numbers.
  constexpr uint64_t kBase = 0x10000;
  const adapter::Access all = adapter::Access::kLocalWrite | adapter::Access::kRemoteWrite;
  adapter::MemoryRegion regions[2];
  for (int i = 0; i < 2; ++i) {
    regions[i] =
        adapter(i)
            .memory()
            .regions
            .reg_mr(pair.side(i).pd, std::span(pair.side(i).memory).first(4096), all, {.base_addr = kBase})
            .value();
  }
  auto qps = pair.connect({});
  pair.side(0).fill(0, 300, 1);
  const adapter::Sge sge{.addr = kBase, .length = 300, .lkey = regions[0].lkey};
  ASSERT_EQ(adapter().post_send(*qps[0], {.wr_id = 1,
                                          .opcode = adapter::SendOpcode::kRdmaWrite,
                                          .sges = {&sge, 1},
                                          .remote_addr = kBase + 1000,
                                          .rkey = regions[1].rkey}),
            adapter::PostResult::kOk);
  pair.run(5);
  EXPECT_EQ(pair.side(1).bytes_at(1000, 300), pair.side(0).bytes_at(0, 300));
  EXPECT_EQ(pair.side(0).bytes_at(1000, 300), std::vector<std::byte>(300));
}

TEST(AdapterRulesSession, PUSH_WQ_10_the_messaging_layer_adds_flow_control) {
  covers("PUSH-WQ-10");
  SessionPairOptions options;
  options.pools({{2048, 4}});
  SessionPair pair(options);
  pair.run_until_open();
  // A fast producer against a consumer that takes a frame now and then: frames wait, none is lost or refused.
  std::vector<uint32_t> got;
  uint32_t sent = 0;
  bool was_held = false;
  for (int turn = 0; turn < 20'000 && got.size() < 200; ++turn) {
    while (sent < 200 && pair.send(0, sent, 1000)) ++sent;
    was_held |= sent < 200;
    pair.turn();
    if (turn % 10 == 0) {
      const auto some = pair.receive(1, 1);
      got.insert(got.end(), some.begin(), some.end());
    }
  }
  EXPECT_TRUE(was_held);
  ASSERT_EQ(got.size(), 200U);
  for (uint32_t i = 0; i < 200; ++i) EXPECT_EQ(got[i], i);
}

/// C-16: a unit without inbound RDMA refuses the mode that needs it and works in the other modes.
TEST(AdapterRulesLimits, SAN_NODE_04_a_unit_without_inbound_rdma_refuses_the_mode) {
  covers("SAN-NODE-04");
  SeededRandom random(9);
  adapter::AdapterConfig config{.guid = Guid(0x1002), .number = 2};
  config.limits.inbound_rdma = false;
  const AcceptorConfig unit = SessionPairOptions().unit;
  ScriptedHost host(unit);
  host.acceptor.reset();
  host.ports.reset();
  host.adapters[1] = std::make_unique<adapter::ChannelAdapter>(config, random);
  host.adapters[1]->ports().attach(host.pipe.end(1));
  host.ports = std::make_unique<session::SessionPorts>(*host.adapters[1]);
  host.acceptor = std::make_unique<SessionAcceptor>(unit, *host.ports, random);
  host.run(2);
  EXPECT_FALSE(host.connect());
  EXPECT_EQ(host.refusal, SessionRefusal::kMode);
  EXPECT_EQ(host.acceptor->counters().get(AcceptorCounter::kRefusedMode), 1U);
  host.offer.mode = static_cast<uint8_t>(TransferMode::kSendReceive);
  host.reopen();
  ++host.nonce;
  EXPECT_TRUE(host.connect());
}

}  // namespace
}  // namespace weft::test
