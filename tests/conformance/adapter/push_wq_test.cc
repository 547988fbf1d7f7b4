// PUSH-WQ, TPT-CQ: work queues, doorbells, completion queues.
#include <algorithm>
#include <map>
#include <set>

#include "tests/support/adapter_pair.h"
#include "tests/support/requirement.h"

namespace weft::test {
using namespace adapter;
namespace {

class PushWq : public ::testing::Test {
 protected:
  ChannelAdapter& adapter(int index = 0) { return *pair.side(index).adapter; }
  SendRequest send_request(const Sge& sge, uint64_t wr_id = 1) { return {.wr_id = wr_id, .sges = {&sge, 1}}; }
  void post_recvs(QueuePair& qp, int count, uint32_t bytes = 1024) {
    for (int i = 0; i < count; ++i) {
      ASSERT_EQ(pair.post_recv(1, qp, static_cast<uint64_t>(i), {pair.side(1).sge(0, bytes)}),
                PostResult::kOk);
    }
  }

  AdapterPair pair;
};

TEST_F(PushWq, PUSH_WQ_01_both_queues_and_both_classes) {
  covers("PUSH-WQ-01");
  auto qps = pair.connect({.type = QpType::kRc});
  post_recvs(*qps[1], 1);
  const Sge sge = pair.side(0).sge(0, 64);
  ASSERT_EQ(adapter().post_send(*qps[0], send_request(sge, 1)), PostResult::kOk);
  for (const SendOpcode opcode : {SendOpcode::kRdmaWrite, SendOpcode::kRdmaRead}) {
    const SendRequest request{.wr_id = 2,
                              .opcode = opcode,
                              .sges = {&sge, 1},
                              .remote_addr = pair.side(1).region.addr,
                              .rkey = pair.side(1).region.rkey};
    ASSERT_EQ(adapter().post_send(*qps[0], request), PostResult::kOk);
  }
  pair.run();
  ASSERT_EQ(pair.side(0).completions.size(), 3U);
  EXPECT_EQ(pair.side(0).completions[0].opcode, WcOpcode::kSend);
  EXPECT_EQ(pair.side(0).completions[1].opcode, WcOpcode::kRdmaWrite);
  EXPECT_EQ(pair.side(0).completions[2].opcode, WcOpcode::kRdmaRead);
  for (const auto& completion : pair.side(0).completions) EXPECT_EQ(completion.status, WcStatus::kSuccess);
}

/// Each QP uses its send queue and its receive queue at the same time, with both classes of operation on
/// every
/// service that has them.
TEST_F(PushWq, PUSH_WQ_01_both_queues_of_one_pair_work_at_the_same_time) {
  covers("PUSH-WQ-01");
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    const auto qps = pair.connect({.type = type});
    for (int side = 0; side < 2; ++side) {
      PairSide& here = pair.side(side);
      PairSide& there = pair.side(1 - side);
      QueuePair& qp = *qps[static_cast<size_t>(side)];
      here.completions.clear();
      here.fill(0, 600, static_cast<uint8_t>(side * 40 + 1));
      ASSERT_EQ(pair.post_recv(side, qp, 10, {here.sge(8192, 600)}), PostResult::kOk);
      const Sge sge = here.sge(0, 600);
      SendRequest request{.wr_id = 1, .sges = {&sge, 1}};
      ASSERT_EQ(here.adapter->post_send(qp, request), PostResult::kOk);
      request.wr_id = 2;
      request.opcode = SendOpcode::kRdmaWrite;
      request.remote_addr = there.region.addr + 16'384;
      request.rkey = there.region.rkey;
      ASSERT_EQ(here.adapter->post_send(qp, request), PostResult::kOk);
    }
    pair.run();
    for (int side = 0; side < 2; ++side) {
      PairSide& here = pair.side(side);
      std::map<WcOpcode, uint64_t> done;
      for (const WorkCompletion& completion : here.completions) {
        EXPECT_EQ(completion.status, WcStatus::kSuccess);
        EXPECT_EQ(completion.qpn, here.adapter->qpn(*qps[static_cast<size_t>(side)]));
        done[completion.opcode] = completion.wr_id;
      }
      const std::map<WcOpcode, uint64_t> wanted{
          {WcOpcode::kSend, 1}, {WcOpcode::kRdmaWrite, 2}, {WcOpcode::kRecv, 10}};
      EXPECT_EQ(done, wanted) << "send queue and receive queue of side " << side;
      EXPECT_EQ(here.bytes_at(8192, 600), pair.side(1 - side).bytes_at(0, 600));
      EXPECT_EQ(here.bytes_at(16'384, 600), pair.side(1 - side).bytes_at(0, 600));
    }
  }
}

TEST_F(PushWq, PUSH_WQ_02_a_descriptor_stays_until_the_adapter_is_done) {
  covers("PUSH-WQ-02");
  auto qps =
      pair.connect({.type = QpType::kRc, .send_wqes = 2, .recv_wqes = 2, .ack_mode = AckMode::kStrict});
  const Sge sge = pair.side(0).sge(0, 64);
  const auto post = [&](uint64_t id) { return adapter().post_send(*qps[0], send_request(sge, id)); };
  // A request without a data segment or with an unknown operation is refused and not queued.
  EXPECT_EQ(adapter().post_send(*qps[0], {.wr_id = 1}), PostResult::kBadSges);
  SendRequest nameless = send_request(sge);
  nameless.opcode = static_cast<SendOpcode>(200);
  EXPECT_EQ(adapter().post_send(*qps[0], nameless), PostResult::kBadOpcode);
  // The queue has two places. A descriptor holds its place from the post until its acknowledgement has come.
  pair.pipe.set_filter(
      [](int from, std::vector<std::byte>&) { return from == 1 ? Verdict::kHold : Verdict::kPass; });
  post_recvs(*qps[1], 2);
  EXPECT_EQ(pair.post_recv(1, *qps[1], 9, {pair.side(1).sge(0, 1024)}), PostResult::kWouldBlock);
  ASSERT_EQ(post(11), PostResult::kOk);
  ASSERT_EQ(post(12), PostResult::kOk);
  EXPECT_EQ(post(13), PostResult::kWouldBlock);
  pair.run(20);
  EXPECT_TRUE(pair.side(0).completions.empty()) << "pending: sent, not acknowledged";
  EXPECT_EQ(post(13), PostResult::kWouldBlock);
  pair.pipe.set_filter(nullptr);
  pair.pipe.release_held();
  pair.run(20);
  // The completion has its status and the descriptor's wr_id, and the place is free again.
  ASSERT_EQ(pair.side(0).completions.size(), 2U);
  for (uint64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(pair.side(0).completions[i].wr_id, 11 + i);
    EXPECT_EQ(pair.side(0).completions[i].status, WcStatus::kSuccess);
  }
  EXPECT_EQ(post(13), PostResult::kOk);
  EXPECT_EQ(post(14), PostResult::kOk);
  EXPECT_EQ(post(15), PostResult::kWouldBlock);
  // The same holds for receive descriptors: two were consumed, so two fit again.
  EXPECT_EQ(pair.side(1).completions.size(), 2U);
  post_recvs(*qps[1], 2);
  EXPECT_EQ(pair.post_recv(1, *qps[1], 9, {pair.side(1).sge(0, 1024)}), PostResult::kWouldBlock);
}

TEST_F(PushWq, PUSH_WQ_03_only_the_described_bytes_move) {
  covers("PUSH-WQ-03 SAN-WQE-01 SAN-WQE-07 SAN-FRAME-02");
  auto qps = pair.connect({.type = QpType::kRc, .sges = 8});
  pair.side(0).fill(0, 4096, 1);
  const std::vector<Sge> gather{pair.side(0).sge(0, 101), pair.side(0).sge(200, 1),
                                pair.side(0).sge(300, 333), pair.side(0).sge(900, 7),
                                pair.side(0).sge(1000, 158)};
  const std::vector<Sge> scatter{pair.side(1).sge(10, 33), pair.side(1).sge(100, 400),
                                 pair.side(1).sge(1000, 400)};
  ASSERT_EQ(pair.post_recv(1, *qps[1], 7, scatter), PostResult::kOk);
  ASSERT_EQ(adapter().post_send(*qps[0], {.wr_id = 1, .sges = gather}), PostResult::kOk);
  pair.run();
  std::vector<std::byte> sent;
  for (const Sge& piece : gather) {
    const auto bytes =
        pair.side(0).bytes_at(static_cast<uint32_t>(piece.addr - pair.side(0).region.addr), piece.length);
    sent.insert(sent.end(), bytes.begin(), bytes.end());
  }
  ASSERT_EQ(sent.size(), 600U);
  ASSERT_EQ(pair.side(1).completions.size(), 1U);
  EXPECT_EQ(pair.side(1).completions[0].byte_count, 600U);
  std::vector<std::byte> expected(kPairBufferBytes);
  std::copy_n(sent.begin(), 33, expected.begin() + 10);
  std::copy_n(sent.begin() + 33, 400, expected.begin() + 100);
  std::copy_n(sent.begin() + 433, 167, expected.begin() + 1000);
  EXPECT_TRUE(pair.side(1).memory == expected);
  // Cells are full across the borders of the gather list.
  const auto cells = pair.pipe.sent_by(0, Opcode::kSend);
  ASSERT_EQ(cells.size(), 3U);
  EXPECT_EQ(cells[0]->view.payload.size(), 256U);
  EXPECT_EQ(cells[1]->view.payload.size(), 256U);
}

TEST_F(PushWq, PUSH_WQ_04_posting_and_ringing_are_two_steps) {
  covers("PUSH-WQ-04");
  auto qps = pair.connect({.type = QpType::kRc});
  post_recvs(*qps[1], 2);
  const Sge sge = pair.side(0).sge(0, 64);
  ASSERT_EQ(adapter().post(*qps[0], send_request(sge)), PostResult::kOk);
  ASSERT_EQ(adapter().post(*qps[0], send_request(sge)), PostResult::kOk);
  pair.run(20);
  EXPECT_TRUE(pair.pipe.sent_by(0).empty());
  adapter().ring_send(*qps[0]);
  pair.run();
  EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kSend).size(), 2U);
}

TEST_F(PushWq, PUSH_WQ_04_the_receive_queue_has_a_doorbell_too) {
  covers("PUSH-WQ-04");
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    auto qps = pair.connect({.type = type});
    for (PairSide& side : pair.sides) side.completions.clear();
    const Sge sge = pair.side(0).sge(0, 64);
    const Sge into = pair.side(1).sge(0, 1024);
    for (uint64_t id = 1; id <= 2; ++id) {
      ASSERT_EQ(adapter(1).post(*qps[1], RecvRequest{.wr_id = id, .sges = {&into, 1}}), PostResult::kOk);
    }
    // Without the doorbell the receive descriptor is not visible: the message finds none.
    ASSERT_EQ(adapter().post_send(*qps[0], send_request(sge)), PostResult::kOk);
    pair.run(20);
    EXPECT_TRUE(pair.side(1).completions.empty());
    adapter(1).ring_recv(*qps[1]);
    if (type == QpType::kUc) {
      EXPECT_EQ(adapter(1).missed_packets(*qps[1]), 1U);
      ASSERT_EQ(adapter().post_send(*qps[0], send_request(sge)), PostResult::kOk);
    }
    pair.run();
    ASSERT_EQ(pair.side(1).completions.size(), 1U);
    EXPECT_EQ(pair.side(1).completions[0].wr_id, 1U);
    EXPECT_EQ(pair.side(1).completions[0].status, WcStatus::kSuccess);
  }
}

TEST_F(PushWq, PUSH_WQ_05_one_entry_per_signalled_descriptor) {
  covers("PUSH-WQ-05 TPT-CQ-01");
  auto qps = pair.connect({.type = QpType::kRc, .signal_all = false});
  post_recvs(*qps[1], 4);
  const Sge sge = pair.side(0).sge(0, 64);
  for (uint64_t i = 0; i < 4; ++i) {
    SendRequest request = send_request(sge, 100 + i);
    request.flags = i == 3 ? static_cast<uint32_t>(adapter::kSendSignaled) : 0;
    ASSERT_EQ(adapter().post_send(*qps[0], request), PostResult::kOk);
  }
  pair.run();
  ASSERT_EQ(pair.side(0).completions.size(), 1U);
  EXPECT_EQ(pair.side(0).completions[0].wr_id, 103U);
  EXPECT_EQ(pair.side(0).completions[0].qpn, adapter().qpn(*qps[0]));
  EXPECT_EQ(pair.side(1).completions.size(), 4U);
}

TEST_F(PushWq, PUSH_WQ_06_life_cycle_by_the_verbs_alone) {
  covers("PUSH-WQ-06 SAN-QP-01");
  // Runs twice, to show what the first life of the QP leaves behind.
  for (uint64_t life = 1; life <= 2; ++life) {
    auto qps = pair.connect({.type = QpType::kRc});
    post_recvs(*qps[1], 1);
    const Sge sge = pair.side(0).sge(0, 64);
    ASSERT_EQ(adapter().post_send(*qps[0], send_request(sge)), PostResult::kOk);
    pair.run();
    ASSERT_EQ(pair.side(0).completions.size(), life);
    const Qpn gone = adapter(1).qpn(*qps[1]);
    EXPECT_TRUE(adapter(1).destroy_qp(qps[1]).ok());
    // A destroyed QP receives nothing.
    ASSERT_EQ(adapter().post_send(*qps[0], send_request(sge)), PostResult::kOk);
    pair.run(20);
    EXPECT_EQ(pair.side(1).completions.size(), life);
    EXPECT_GE(adapter(1).counters().get(AdapterCounter::kDropNoQp), life);
    EXPECT_TRUE(adapter(0).destroy_qp(qps[0]).ok());
    QueuePair* next = pair.make_qp(1, {.type = QpType::kRc});
    EXPECT_NE(adapter(1).qpn(*next), gone) << "a number rests after its QP (decisions section 4)";
    EXPECT_TRUE(adapter(1).destroy_qp(next).ok());
  }
  // No work is left that would keep the completion queue or the protection domain alive.
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(adapter(i).cqs().destroy(pair.side(i).cq).ok());
    EXPECT_TRUE(adapter(i).memory().regions.dereg_mr(pair.side(i).region.lkey).ok());
    EXPECT_TRUE(adapter(i).dealloc_pd(pair.side(i).pd).ok());
    pair.side(i).cq = adapter(i).cqs().create(8).value();
  }
}

TEST_F(PushWq, PUSH_WQ_08_unregistered_memory_is_not_read) {
  covers("PUSH-WQ-08 SAN-QP-02");
  PairSide& side = pair.side(0);
  const MemoryRegion ended =
      adapter()
          .memory()
          .regions.reg_mr(side.pd, std::span(side.memory).first(64), Access::kLocalWrite)
          .value();
  ASSERT_TRUE(adapter().memory().regions.dereg_mr(ended.lkey).ok());
  const Lkey wrong(side.region.lkey.value() ^ 0x00F0'0000U);
  const std::array<Sge, 4> bad{
      {{.addr = side.region.addr, .length = 64, .lkey = wrong},
       {.addr = ended.addr, .length = 64, .lkey = ended.lkey},
       {.addr = side.region.addr - 1, .length = 64, .lkey = side.region.lkey},
       {.addr = side.region.addr + side.region.length - 63, .length = 64, .lkey = side.region.lkey}}};
  for (const Sge& sge : bad) {
    for (const SendOpcode opcode : {SendOpcode::kSend, SendOpcode::kRdmaWrite}) {
      auto qps = pair.connect({.type = QpType::kRc});
      post_recvs(*qps[1], 1);
      side.completions.clear();
      const SendRequest request{.wr_id = 1,
                                .opcode = opcode,
                                .sges = {&sge, 1},
                                .remote_addr = pair.side(1).region.addr,
                                .rkey = pair.side(1).region.rkey};
      ASSERT_EQ(adapter().post_send(*qps[0], request), PostResult::kOk);
      pair.run(20);
      ASSERT_GE(side.completions.size(), 1U);
      EXPECT_EQ(side.completions[0].status, WcStatus::kLocalProtection);
      EXPECT_TRUE(pair.pipe.sent_by(0).empty());
    }
  }
}

TEST_F(PushWq, PUSH_SEND_01_both_ends_take_part) {
  covers("PUSH-SEND-01 SAN-SEM-01");
  for (int from = 0; from < 2; ++from) {
    auto qps = pair.connect({.type = QpType::kRc});
    const auto f = static_cast<size_t>(from);
    for (PairSide& side : pair.sides) side.completions.clear();
    pair.side(from).fill(2048, 600, static_cast<uint8_t>(from + 5));
    pair.pipe.clear_trace();
    // Without a receive descriptor the sender moves no data.
    const Sge sge = pair.side(from).sge(2048, 600);
    ASSERT_EQ(adapter(from).post_send(*qps[f], {.wr_id = 1, .sges = {&sge, 1}}), PostResult::kOk);
    pair.run(20);
    EXPECT_TRUE(pair.side(from).completions.empty());
    EXPECT_EQ(pair.side(1 - from).bytes_at(8192, 600), std::vector<std::byte>(600));
    // The receiver's descriptor names the place of the data.
    ASSERT_EQ(pair.post_recv(1 - from, *qps[1 - f], 7, {pair.side(1 - from).sge(8192, 1024)}),
              PostResult::kOk);
    pair.run();
    ASSERT_EQ(pair.side(from).completions.size(), 1U);
    EXPECT_EQ(pair.side(from).completions[0].opcode, WcOpcode::kSend);
    ASSERT_EQ(pair.side(1 - from).completions.size(), 1U);
    EXPECT_EQ(pair.side(1 - from).completions[0].wr_id, 7U);
    EXPECT_EQ(pair.side(1 - from).completions[0].byte_count, 600U);
    EXPECT_EQ(pair.side(1 - from).bytes_at(8192, 600), pair.side(from).bytes_at(2048, 600));
    for (const TracedCell* cell : pair.pipe.sent_by(from, Opcode::kSend)) {
      EXPECT_FALSE(cell->view.has(kCellVa)) << "no address of the destination travels";
    }
  }
}

TEST_F(PushWq, SAN_WQE_06_delay_holds_later_requests_back) {
  covers("SAN-WQE-06");
  auto delayed = pair.connect({.type = QpType::kRc});
  auto other = pair.connect({.type = QpType::kRc});
  post_recvs(*delayed[1], 2);
  post_recvs(*other[1], 1);
  const Sge sge = pair.side(0).sge(0, 64);
  const SendRequest delay{.wr_id = 9, .opcode = SendOpcode::kDelay, .delay = std::chrono::milliseconds(1)};
  ASSERT_EQ(adapter().post_send(*delayed[0], send_request(sge)), PostResult::kOk);
  ASSERT_EQ(adapter().post_send(*delayed[0], delay), PostResult::kOk);
  ASSERT_EQ(adapter().post_send(*delayed[0], send_request(sge)), PostResult::kOk);
  ASSERT_EQ(adapter().post_send(*other[0], send_request(sge)), PostResult::kOk);
  pair.run(90);  // 0.9 ms
  EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kSend).size(), 2U);
  pair.run(100);
  EXPECT_EQ(pair.pipe.sent_by(0, Opcode::kSend).size(), 3U);
}

}  // namespace
}  // namespace weft::test
