// Rows that need an adapter and its agent, or an adapter and its protection table, together: PUSH-WQ-07, 09
// and 10, TPT-LOCAL-01 and 03, SAN-RMP-08.
#include "tests/support/adapter_pair.h"
#include "tests/support/requirement.h"
#include "tests/support/session_pair.h"

namespace weft::test {
namespace {

class AgentPath : public ::testing::Test {
 protected:
  ChannelAdapter& adapter(int index = 0) { return *pair.side(index).adapter; }
  uint64_t agent_calls(int index = 0) { return adapter(index).counters().get(AdapterCounter::kAgentCalls); }
  PostResult send(QueuePair& qp, std::span<const Sge> sges, uint64_t wr_id = 1) {
    return adapter().post_send(qp, {.wr_id = wr_id, .sges = sges});
  }

  AdapterPair pair;
};

TEST_F(AgentPath, PUSH_WQ_07_set_up_is_the_agents_work_and_transfers_are_not) {
  covers("PUSH-WQ-07 PUSH-WQ-09");
  const uint64_t before = agent_calls();
  auto qps = pair.connect({.type = QpType::kRc});
  const uint64_t after_set_up = agent_calls();
  EXPECT_GE(after_set_up, before + 4);  // create_qp and three moves
  const Sge sge = pair.side(0).sge(0, 64);
  for (uint64_t i = 0; i < 10'000; ++i) {
    ASSERT_EQ(pair.post_recv(1, *qps[1], i, {pair.side(1).sge(0, 64)}), PostResult::kOk);
    ASSERT_EQ(send(*qps[0], {&sge, 1}, i), PostResult::kOk);
    pair.run(2);
  }
  pair.run();
  EXPECT_EQ(pair.side(0).completions.size(), 10'000U);
  EXPECT_EQ(agent_calls(), after_set_up);
  ASSERT_TRUE(adapter().destroy_qp(qps[0]).ok());
  EXPECT_GT(agent_calls(), after_set_up);
}

TEST_F(AgentPath, TPT_LOCAL_01_segments_are_checked_when_the_wqe_is_reached) {
  covers("TPT-LOCAL-01");
  auto qps = pair.connect({.type = QpType::kRc, .sges = 4});
  std::vector<Sge> three{pair.side(0).sge(0, 10), pair.side(0).sge(20, 10), pair.side(0).sge(40, 10)};
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 64)}), PostResult::kOk);
  ASSERT_EQ(send(*qps[0], three), PostResult::kOk);
  pair.run();
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kSuccess);
  // A bad segment passes the post; the fault shows when the adapter gets to the WQE.
  three[2].lkey = Lkey(three[2].lkey.value() ^ 0x00010000U);
  ASSERT_EQ(send(*qps[0], three, 2), PostResult::kOk);
  pair.run();
  ASSERT_EQ(pair.side(0).completions.size(), 2U);
  EXPECT_EQ(pair.side(0).completions[1].wr_id, 2U);
  EXPECT_EQ(pair.side(0).completions[1].status, WcStatus::kLocalProtection);
}

TEST_F(AgentPath, TPT_LOCAL_03_one_bad_segment_and_nothing_is_transferred) {
  covers("TPT-LOCAL-03");
  auto qps = pair.connect({.type = QpType::kRc, .sges = 4});
  pair.side(0).fill(0, 2048, 1);
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 4096)}), PostResult::kOk);
  // Good, good, bad: the good ones alone would fill two cells.
  const std::vector<Sge> mixed{
      pair.side(0).sge(0, 256), pair.side(0).sge(256, 256),
      Sge{pair.side(0).region.addr + kPairBufferBytes - 10, 256, pair.side(0).region.lkey}};
  ASSERT_EQ(send(*qps[0], mixed), PostResult::kOk);
  pair.run();
  EXPECT_TRUE(pair.pipe.sent_by(0, Opcode::kSend).empty());
  EXPECT_TRUE(pair.side(1).memory == std::vector<std::byte>(kPairBufferBytes));
  ASSERT_GE(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].status, WcStatus::kLocalProtection);
}

TEST_F(AgentPath, TPT_LOCAL_03_a_bad_receive_segment_stores_nothing) {
  covers("TPT-LOCAL-03");
  auto qps = pair.connect({.type = QpType::kRc, .sges = 4});
  pair.side(0).fill(0, 1024, 1);
  Sge bad = pair.side(1).sge(2048, 512);
  bad.lkey = Lkey(bad.lkey.value() ^ 0x00010000U);
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, {pair.side(1).sge(0, 128), bad}), PostResult::kOk);
  const Sge sge = pair.side(0).sge(0, 512);
  ASSERT_EQ(send(*qps[0], {&sge, 1}), PostResult::kOk);
  pair.run();
  EXPECT_TRUE(pair.side(1).memory == std::vector<std::byte>(kPairBufferBytes));
  ASSERT_GE(pair.side(1).completions.size(), 1U);
  EXPECT_NE(pair.side(1).completions[0].status, WcStatus::kSuccess);
}

TEST_F(AgentPath, SAN_RMP_08_every_qp_of_the_address_space_may_use_a_key) {
  covers("SAN-RMP-08");
  pair.side(0).fill(0, 1024, 1);
  for (uint32_t i = 0; i < 10; ++i) {
    auto qps = pair.connect({.type = QpType::kRc});
    const Sge sge = pair.side(0).sge(i * 64, 64);
    const SendRequest write{.wr_id = i,
                            .opcode = SendOpcode::kRdmaWrite,
                            .sges = {&sge, 1},
                            .remote_addr = pair.side(1).region.addr + i * 64,
                            .rkey = pair.side(1).region.rkey};
    ASSERT_EQ(adapter().post_send(*qps[0], write), PostResult::kOk);
  }
  pair.run();
  ASSERT_EQ(pair.side(0).completions.size(), 10U);
  for (const WorkCompletion& done : pair.side(0).completions) EXPECT_EQ(done.status, WcStatus::kSuccess);
  EXPECT_EQ(pair.side(1).bytes_at(0, 640), pair.side(0).bytes_at(0, 640));
  // A QP of another address space (PD) has no use of the key.
  const PdId other = pair.side(1).adapter->alloc_pd().value();
  QueuePair* stranger =
      pair.side(1)
          .adapter
          ->create_qp(
              {.type = QpType::kRc, .pd = other, .send_cq = pair.side(1).cq, .recv_cq = pair.side(1).cq})
          .value();
  const QpConfig config{.type = QpType::kRc};
  QueuePair* from = pair.make_qp(0, config);
  pair.bring_up(0, *from, config, adapter(1).qpn(*stranger), Lid(2), Psn(1), Psn(2));
  pair.bring_up(1, *stranger, config, adapter(0).qpn(*from), Lid(1), Psn(2), Psn(1));
  const Sge sge = pair.side(0).sge(0, 64);
  const SendRequest write{.wr_id = 99,
                          .opcode = SendOpcode::kRdmaWrite,
                          .sges = {&sge, 1},
                          .remote_addr = pair.side(1).region.addr + 4096,
                          .rkey = pair.side(1).region.rkey};
  ASSERT_EQ(adapter().post_send(*from, write), PostResult::kOk);
  pair.run();
  EXPECT_EQ(pair.side(0).completions.back().status, WcStatus::kRemoteAccess);
  EXPECT_EQ(pair.side(1).bytes_at(4096, 64), std::vector<std::byte>(64));
}

TEST(AgentPathSession, PUSH_WQ_10_the_messaging_layer_adds_flow_control) {
  covers("PUSH-WQ-10");
  SessionPairOptions options;
  options.pools({{2048, 4}});
  SessionPair pair(options);
  pair.run_until_open();
  // A fast producer against a consumer that takes one frame now and then: held, never lost, never refused.
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

}  // namespace
}  // namespace weft::test
