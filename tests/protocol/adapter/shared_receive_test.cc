// Shared receive queues: several QPs take receives from one queue. Each message completes at its QP, and no
// receive is lost, whatever happens to the QP that took it.
#include <algorithm>

#include "adapter/queues/shared_receives.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {
using namespace adapter;
namespace {

/// A filter: side 0's message stays incomplete at the receiver, because its fourth cell is dropped.
Verdict drop_fourth_cell(int from, std::vector<std::byte>& cell) {
  CellView view;
  (void)decode_cell(cell, CrcCheck::kAlreadyVerified, view);
  return from == 0 && view.cell_number == 3 ? Verdict::kDrop : Verdict::kPass;
}

class SharedReceive : public ::testing::Test {
 protected:
  struct Flow {
    QueuePair* from = nullptr;
    QueuePair* to = nullptr;
    QpType type{};
  };

  ChannelAdapter& adapter(int index = 1) { return *pair.side(index).adapter; }
  SharedReceives& srqs() { return adapter().srqs(); }
  void make_srq(SrqConfig config = {}) {
    config.pd = pair.side(1).pd;
    srq = srqs().create(config).value();
  }
  /// Makes a QP of side 0 that sends to one of side 1 with the SRQ.
  Flow connect(QpConfig config = {}, const QpAttr& attr = {}) {
    QpConfig takes = config;
    takes.srq = srq;
    takes.recv_wqes = 0;
    Flow flow{.from = pair.make_qp(0, config), .to = pair.make_qp(1, takes), .type = config.type};
    const Qpn from = adapter(0).qpn(*flow.from);
    pair.bring_up(0, *flow.from, config, adapter().qpn(*flow.to), Lid(2), Psn(100), Psn(900), attr);
    pair.bring_up(1, *flow.to, takes, from, Lid(1), Psn(900), Psn(100), attr);
    return flow;
  }
  /// Posts receive `i`, whose buffer is at byte i * 1024 of side 1.
  PostResult post(uint64_t i, uint32_t bytes = 1024) {
    const Sge sge = pair.side(1).sge(static_cast<uint32_t>(i) * 1024, bytes);
    return srqs().post_recv(*srq, {.wr_id = i, .sges = {&sge, 1}});
  }
  /// Sends `bytes` bytes from `offset` of side 0.
  void send(const Flow& flow, uint32_t offset, uint32_t bytes) {
    const Sge sge = pair.side(0).sge(offset, bytes);
    const Destination dest{.lid = Lid(2), .qpn = adapter().qpn(*flow.to), .qkey = AdapterSides::kQkey};
    ASSERT_EQ(adapter(0).post_send(*flow.from, {.sges = {&sge, 1}, .dest = dest}), PostResult::kOk);
  }
  /// @return side 1's events since the last call
  std::vector<AsyncEvent> events() {
    std::vector<AsyncEvent> got;
    for (AsyncEvent event; adapter().next_event(event);) {
      if (event.kind != AsyncEventKind::kPortUp) got.push_back(event);
    }
    return got;
  }
  [[nodiscard]] std::vector<WorkCompletion>& received() { return pair.side(1).completions; }
  QpAttr to_state(QpState state) { return {.state = state}; }

  AdapterPair pair;
  SharedReceiveQueue* srq = nullptr;
};

TEST_F(SharedReceive, messages_end_in_another_order_than_they_took) {
  make_srq();
  const Flow slow = connect();
  const Flow quick = connect();
  pair.side(0).fill(0, 2048, 1);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(post(i), PostResult::kOk);
  pair.pipe.set_filter([&](int from, std::vector<std::byte>& cell) {
    CellView view;
    (void)decode_cell(cell, CrcCheck::kAlreadyVerified, view);
    const bool last_of_slow = view.dest_qpn == adapter().qpn(*slow.to) && view.cell_number == 3;
    return from == 0 && last_of_slow ? Verdict::kHold : Verdict::kPass;
  });
  send(slow, 0, 1024);
  pair.run(2);
  send(quick, 1024, 1024);
  pair.run(5);
  ASSERT_EQ(received().size(), 1U);
  EXPECT_EQ(received()[0].wr_id, 1U);
  EXPECT_EQ(received()[0].qpn, adapter().qpn(*quick.to));
  pair.pipe.set_filter(nullptr);
  pair.pipe.release_held();
  pair.run(5);
  ASSERT_EQ(received().size(), 2U);
  EXPECT_EQ(received()[1].wr_id, 0U);
  EXPECT_EQ(received()[1].qpn, adapter().qpn(*slow.to));
  EXPECT_EQ(pair.side(1).bytes_at(0, 2048), pair.side(0).bytes_at(0, 2048));
}

TEST_F(SharedReceive, queue_pairs_of_different_services_share_one) {
  make_srq();
  CompletionQueue* own = adapter().cqs().create(8).value();
  const std::array<Flow, 4> flows{connect({.type = QpType::kRc}), connect({.type = QpType::kUc}),
                                  connect({.type = QpType::kUd}),
                                  connect({.type = QpType::kRd, .recv_cq = nullptr})};
  pair.side(0).fill(0, 4096, 3);
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(post(i), PostResult::kOk);
  for (uint32_t i = 0; i < 4; ++i) {
    send(flows[i], i * 1024, 200);
    pair.run(5);
  }
  ASSERT_EQ(received().size(), 4U);
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(received()[i].status, WcStatus::kSuccess);
    EXPECT_EQ(received()[i].wr_id, i);
    EXPECT_EQ(received()[i].byte_count, 200U);
    EXPECT_EQ(received()[i].qpn, adapter().qpn(*flows[i].to));
    EXPECT_EQ(pair.side(1).bytes_at(i * 1024, 200), pair.side(0).bytes_at(i * 1024, 200));
  }
  EXPECT_TRUE(adapter().cqs().destroy(own));
}

TEST_F(SharedReceive, a_message_completes_where_its_own_queue_pair_completes) {
  make_srq();
  CompletionQueue* own = adapter().cqs().create(8).value();
  QpConfig config;
  config.srq = srq;
  config.recv_cq = own;
  QueuePair* to = pair.make_qp(1, config);
  const Flow other = connect();
  const Flow flow{.from = pair.make_qp(0, {}), .to = to, .type = QpType::kRc};
  pair.bring_up(0, *flow.from, {}, adapter().qpn(*to), Lid(2), Psn(7), Psn(8));
  pair.bring_up(1, *to, config, adapter(0).qpn(*flow.from), Lid(1), Psn(8), Psn(7));
  ASSERT_EQ(post(0), PostResult::kOk);
  ASSERT_EQ(post(1), PostResult::kOk);
  send(flow, 0, 10);
  pair.run(3);
  send(other, 0, 20);
  pair.run(3);
  ASSERT_EQ(received().size(), 1U);
  EXPECT_EQ(received()[0].byte_count, 20U);
  std::array<WorkCompletion, 2> got;
  ASSERT_EQ(adapter().cqs().poll(*own, got), 1U);
  EXPECT_EQ(got[0].wr_id, 0U);
  EXPECT_EQ(got[0].byte_count, 10U);
}

TEST_F(SharedReceive, an_empty_queue_makes_reliable_senders_wait_and_loses_datagrams) {
  make_srq();
  const Flow rc = connect({.type = QpType::kRc});
  const Flow rd = connect({.type = QpType::kRd});
  const Flow ud = connect({.type = QpType::kUd});
  for (const Flow& flow : {rc, rd, ud}) send(flow, 0, 100);
  pair.run(5);
  EXPECT_TRUE(received().empty());
  EXPECT_GE(adapter().counters(*rc.to).get(QpCounter::kRnrNaksSent), 1U);
  EXPECT_GE(adapter().counters(*rd.to).get(QpCounter::kRnrNaksSent), 1U);
  EXPECT_EQ(adapter().counters().get(AdapterCounter::kDropNoRecvWqe), 1U);
  // One WQE for two waiting messages: one arrives, the other waits on.
  ASSERT_EQ(post(0), PostResult::kOk);
  pair.run(400);
  EXPECT_EQ(received().size(), 1U);
  ASSERT_EQ(post(1), PostResult::kOk);
  pair.run(400);
  ASSERT_EQ(received().size(), 2U);
  EXPECT_NE(received()[0].qpn, received()[1].qpn);
  for (const WorkCompletion& sent : pair.side(0).completions) EXPECT_EQ(sent.status, WcStatus::kSuccess);
}

TEST_F(SharedReceive, the_limit_event_comes_once_for_each_time_a_limit_is_set) {
  make_srq();
  const Flow flow = connect();
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(post(i), PostResult::kOk);
  ASSERT_TRUE(srqs().modify(*srq, {.limit = 3}, kSrqLimit));
  EXPECT_EQ(srqs().query(*srq).limit, 3U);
  send(flow, 0, 8);
  pair.run(5);
  EXPECT_TRUE(events().empty());  // three WQEs wait, not fewer than the limit
  send(flow, 0, 8);
  pair.run(5);
  std::vector<AsyncEvent> got = events();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].kind, AsyncEventKind::kSrqLimit);
  EXPECT_EQ(got[0].srq, srq);
  EXPECT_EQ(srqs().query(*srq).limit, 0U);
  send(flow, 0, 8);
  pair.run(5);
  EXPECT_TRUE(events().empty());  // no longer armed
  // A limit above the current number of WQEs raises the event at once, because no later change would.
  ASSERT_TRUE(srqs().modify(*srq, {.limit = 2}, kSrqLimit));
  got = events();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].kind, AsyncEventKind::kSrqLimit);
}

TEST_F(SharedReceive, what_cannot_be_is_refused) {
  const AdapterLimits limits = adapter().limits();
  const PdId pd = pair.side(1).pd;
  EXPECT_FALSE(srqs().create({.pd = PdId(999)}));
  EXPECT_FALSE(srqs().create({.pd = pd, .wqes = 0}));
  EXPECT_FALSE(srqs().create({.pd = pd, .wqes = limits.wqes_per_queue + 1}));
  EXPECT_FALSE(srqs().create({.pd = pd, .sges = limits.sges_per_wqe + 1}));
  make_srq({.wqes = 3, .sges = 2});
  EXPECT_EQ(srqs().query(*srq).wqes, 3U);
  EXPECT_EQ(srqs().query(*srq).sges, 2U);
  // An overflow is refused, and a request with too many segments too.
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(post(i), PostResult::kOk);
  EXPECT_EQ(post(3), PostResult::kWouldBlock);
  const std::array<Sge, 3> three{};
  EXPECT_EQ(srqs().post_recv(*srq, {.sges = three}), PostResult::kTooManySges);
  // A new size must hold the queued WQEs; a limit in the same call is checked against the new size.
  EXPECT_FALSE(srqs().modify(*srq, {.wqes = 2}, kSrqWqes));
  EXPECT_FALSE(srqs().modify(*srq, {.wqes = limits.wqes_per_queue + 1}, kSrqWqes));
  EXPECT_FALSE(srqs().modify(*srq, {.limit = 4}, kSrqLimit));
  EXPECT_FALSE(srqs().modify(*srq, {}, 4));
  EXPECT_EQ(srqs().query(*srq).wqes, 3U);
  ASSERT_TRUE(srqs().modify(*srq, {.wqes = 4, .limit = 4}, kSrqWqes | kSrqLimit));
  EXPECT_EQ(post(3), PostResult::kOk);
  // A QP with an SRQ has no receive queue of its own. The SRQ and its domain cannot be destroyed meanwhile.
  const Flow flow = connect();
  EXPECT_EQ(pair.post_recv(1, *flow.to, 1, {pair.side(1).sge(0, 8)}), PostResult::kBadOpcode);
  EXPECT_FALSE(srqs().destroy(srq));
  ASSERT_TRUE(adapter().destroy_qp(flow.to));
  const PdId other = adapter().alloc_pd().value();
  SharedReceiveQueue* second = srqs().create({.pd = other}).value();
  EXPECT_FALSE(adapter().dealloc_pd(other));
  // Another adapter accepts none of its SRQs.
  EXPECT_FALSE(adapter(0).srqs().destroy(second));
  EXPECT_FALSE(adapter(0).srqs().modify(*second, {.limit = 1}, kSrqLimit));
  EXPECT_EQ(adapter(0).srqs().post_recv(*second, {}), PostResult::kBadState);
  EXPECT_FALSE(adapter(0).create_qp(
      {.pd = pair.side(0).pd, .send_cq = pair.side(0).cq, .recv_cq = pair.side(0).cq, .srq = second}));
  EXPECT_TRUE(srqs().destroy(second));
  EXPECT_TRUE(adapter().dealloc_pd(other));
  EXPECT_TRUE(srqs().destroy(srq));
}

TEST_F(SharedReceive, there_are_as_many_as_the_limit_says) {
  AdapterLimits limits;
  limits.shared_receive_queues = 2;
  AdapterPair few(256, limits);
  SharedReceives& table = few.side(1).adapter->srqs();
  SharedReceiveQueue* first = table.create({.pd = few.side(1).pd}).value();
  ASSERT_TRUE(table.create({.pd = few.side(1).pd}));
  EXPECT_FALSE(table.create({.pd = few.side(1).pd}));
  ASSERT_TRUE(table.destroy(first));
  EXPECT_TRUE(table.create({.pd = few.side(1).pd}));
}

TEST_F(SharedReceive, an_error_flushes_what_the_queue_pair_took_and_says_that_it_was_the_last) {
  make_srq();
  const Flow broken = connect();
  const Flow whole = connect();
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(post(i), PostResult::kOk);
  pair.pipe.set_filter(drop_fourth_cell);
  send(broken, 0, 1024);
  pair.run(2);
  pair.pipe.set_filter(nullptr);
  (void)events();
  ASSERT_EQ(adapter().modify_qp(*broken.to, to_state(QpState::kErr), kQpAttrState), ModifyResult::kOk);
  pair.run_one(1);
  ASSERT_EQ(received().size(), 1U);  // the WQE it had begun to fill
  EXPECT_EQ(received()[0].wr_id, 0U);
  EXPECT_EQ(received()[0].status, WcStatus::kFlushed);
  std::vector<AsyncEvent> got = events();
  ASSERT_EQ(got.size(), 1U);
  EXPECT_EQ(got[0].kind, AsyncEventKind::kLastWqeReached);
  EXPECT_EQ(got[0].qpn, adapter().qpn(*broken.to));
  ASSERT_EQ(adapter().modify_qp(*broken.to, to_state(QpState::kErr), kQpAttrState), ModifyResult::kOk);
  EXPECT_TRUE(events().empty());
  // The other QPs continue.
  received().clear();
  send(whole, 0, 100);
  pair.run(5);
  ASSERT_EQ(received().size(), 1U);
  EXPECT_EQ(received()[0].wr_id, 1U);
  EXPECT_EQ(received()[0].status, WcStatus::kSuccess);
}

TEST_F(SharedReceive, a_violation_ends_the_queue_pair_that_met_it_and_says_that_it_was_the_last) {
  make_srq();
  const Flow flow = connect();
  ASSERT_EQ(post(0, 100), PostResult::kOk);
  ASSERT_EQ(post(1), PostResult::kOk);
  send(flow, 0, 200);  // longer than the receive
  pair.run(10);
  ASSERT_EQ(received().size(), 1U);
  EXPECT_EQ(received()[0].wr_id, 0U);
  EXPECT_EQ(received()[0].status, WcStatus::kLocalLength);
  const std::vector<AsyncEvent> got = events();
  const auto last = std::count_if(got.begin(), got.end(), [](const AsyncEvent& event) {
    return event.kind == AsyncEventKind::kLastWqeReached;
  });
  EXPECT_EQ(last, 1);
}

TEST_F(SharedReceive, a_reset_or_destroyed_queue_pair_gives_back_what_it_took) {
  make_srq();
  for (const bool destroyed : {false, true}) {
    const Flow stops = connect();
    const Flow other = connect();
    ASSERT_EQ(post(0), PostResult::kOk);
    pair.pipe.set_filter(drop_fourth_cell);
    send(stops, 0, 1024);
    pair.run(2);
    pair.pipe.set_filter(nullptr);
    if (destroyed) {
      ASSERT_TRUE(adapter().destroy_qp(stops.to));
    } else {
      ASSERT_EQ(adapter().modify_qp(*stops.to, to_state(QpState::kReset), kQpAttrState), ModifyResult::kOk);
    }
    received().clear();
    send(other, 0, 300);
    pair.run(5);
    ASSERT_EQ(received().size(), 1U) << destroyed;
    EXPECT_EQ(received()[0].wr_id, 0U);
    EXPECT_EQ(received()[0].byte_count, 300U);
  }
}

/// The receive behind such a completion was consumed: its place is free.
TEST_F(SharedReceive, completions_that_a_reset_takes_away_leave_room_in_the_shared_queue) {
  make_srq({.wqes = 1});
  CompletionQueue* own = adapter().cqs().create(4).value();
  const QpConfig config{.recv_cq = own, .srq = srq};
  for (const bool destroyed : {false, true}) {
    const Flow stops{.from = pair.make_qp(0, {}), .to = pair.make_qp(1, config), .type = QpType::kRc};
    pair.bring_up(0, *stops.from, {}, adapter().qpn(*stops.to), Lid(2), Psn(7), Psn(8));
    pair.bring_up(1, *stops.to, config, adapter(0).qpn(*stops.from), Lid(1), Psn(8), Psn(7));
    const Flow other = connect();
    ASSERT_EQ(post(0), PostResult::kOk);
    send(stops, 0, 300);
    pair.run(5);
    ASSERT_EQ(adapter().cqs().query(*own).fill, 1U);
    if (destroyed) {
      ASSERT_TRUE(adapter().destroy_qp(stops.to));
    } else {
      ASSERT_EQ(adapter().modify_qp(*stops.to, to_state(QpState::kReset), kQpAttrState), ModifyResult::kOk);
    }
    EXPECT_EQ(adapter().cqs().query(*own).fill, 0U) << destroyed;
    received().clear();
    ASSERT_EQ(post(1), PostResult::kOk) << destroyed;
    send(other, 0, 300);
    pair.run(5);
    ASSERT_EQ(received().size(), 1U) << destroyed;
    EXPECT_EQ(received()[0].wr_id, 1U);
  }
}

/// Places of the SRQ come free when completions are polled, as for programs of libibverbs.
TEST_F(SharedReceive, a_reset_frees_the_places_of_its_own_completions_and_of_no_others) {
  make_srq({.wqes = 4, .hold_places = true});
  CompletionQueue* both = adapter().cqs().create(16).value();
  const QpConfig config{.send_cq = both, .recv_cq = both, .srq = srq};
  std::array<Flow, 2> flows;
  for (Flow& flow : flows) {
    flow = {.from = pair.make_qp(0, {}), .to = pair.make_qp(1, config), .type = QpType::kRc};
    pair.bring_up(0, *flow.from, {}, adapter().qpn(*flow.to), Lid(2), Psn(7), Psn(8));
    pair.bring_up(1, *flow.to, config, adapter(0).qpn(*flow.from), Lid(1), Psn(8), Psn(7));
  }
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(post(i), PostResult::kOk);
  for (const size_t i : {0U, 1U, 1U, 1U}) {
    send(flows[i], 0, 64);
    pair.run(5);
  }
  const Sge sge = pair.side(1).sge(0, 64);
  ASSERT_EQ(adapter().post_send(*flows[0].to, {.opcode = SendOpcode::kRdmaWrite,
                                               .sges = {&sge, 1},
                                               .remote_addr = pair.side(0).region.addr,
                                               .rkey = pair.side(0).region.rkey}),
            PostResult::kOk);
  pair.run(5);
  ASSERT_EQ(adapter().cqs().query(*both).fill, 5U) << "one of them holds no place of the shared queue";
  EXPECT_EQ(post(4), PostResult::kWouldBlock);
  ASSERT_EQ(adapter().modify_qp(*flows[0].to, to_state(QpState::kReset), kQpAttrState), ModifyResult::kOk);
  EXPECT_EQ(adapter().cqs().query(*both).fill, 3U);
  EXPECT_EQ(post(4), PostResult::kOk);
  EXPECT_EQ(post(5), PostResult::kWouldBlock) << "three completions still hold their places";
}

/// Its completions go to the queue of the QP that frees places, and free none.
TEST_F(SharedReceive, one_for_xrc_leaves_the_places_of_others_at_its_completion_queue_as_they_are) {
  make_srq({.wqes = 1, .hold_places = true});
  CompletionQueue* both = adapter().cqs().create(16).value();
  const QpConfig config{.recv_cq = both, .srq = srq};
  Flow flow{.from = pair.make_qp(0, {}), .to = pair.make_qp(1, config), .type = QpType::kRc};
  pair.bring_up(0, *flow.from, {}, adapter().qpn(*flow.to), Lid(2), Psn(7), Psn(8));
  pair.bring_up(1, *flow.to, config, adapter(0).qpn(*flow.from), Lid(1), Psn(8), Psn(7));
  const XrcdId domain = srqs().alloc_xrcd().value();
  ASSERT_TRUE(srqs().create({.pd = pair.side(1).pd, .xrcd = domain, .cq = both}).ok());
  for (uint64_t i = 0; i < 2; ++i) {
    ASSERT_EQ(post(i), PostResult::kOk);
    send(flow, 0, 64);
    pair.run(5);
    WorkCompletion done;
    ASSERT_EQ(adapter().cqs().poll(*both, {&done, 1}), 1U);
    EXPECT_EQ(done.wr_id, i);
  }
}

TEST_F(SharedReceive, each_has_another_number_than_the_one_that_had_its_place) {
  std::vector<uint32_t> numbers;
  for (int life = 0; life < 4; ++life) {
    make_srq();
    numbers.push_back(srqs().number(*srq));
    ASSERT_TRUE(srqs().destroy(srq));
  }
  std::sort(numbers.begin(), numbers.end());
  EXPECT_EQ(std::adjacent_find(numbers.begin(), numbers.end()), numbers.end());
}

TEST_F(SharedReceive, the_limit_may_be_the_size_and_the_size_what_is_in_use) {
  make_srq({.wqes = 8});
  for (uint64_t i = 0; i < 4; ++i) ASSERT_EQ(post(i), PostResult::kOk);
  EXPECT_TRUE(srqs().modify(*srq, {.limit = 8}, kSrqLimit));
  EXPECT_FALSE(srqs().modify(*srq, {.limit = 9}, kSrqLimit));
  EXPECT_FALSE(srqs().modify(*srq, {.wqes = 3}, kSrqWqes));
  EXPECT_TRUE(srqs().modify(*srq, {.wqes = 4}, kSrqWqes));
  EXPECT_EQ(post(4), PostResult::kWouldBlock);
  EXPECT_TRUE(srqs().modify(*srq, {.limit = 4}, kSrqLimit));
  EXPECT_FALSE(srqs().modify(*srq, {.limit = 5}, kSrqLimit));
}

TEST_F(SharedReceive, an_abandoned_message_without_acknowledgement_gives_its_receive_back) {
  make_srq();
  const Flow uc = connect({.type = QpType::kUc});
  const Flow other = connect();
  ASSERT_EQ(post(0), PostResult::kOk);
  int cells = 0;
  pair.pipe.set_filter(
      [&](int, std::vector<std::byte>&) { return cells++ == 1 ? Verdict::kDrop : Verdict::kPass; });
  send(uc, 0, 1024);
  pair.run(3);
  pair.pipe.set_filter(nullptr);
  EXPECT_EQ(adapter().missed_packets(*uc.to), 1U);
  send(other, 0, 300);
  pair.run(5);
  ASSERT_EQ(received().size(), 1U);
  EXPECT_EQ(received()[0].wr_id, 0U);
  EXPECT_EQ(received()[0].qpn, adapter().qpn(*other.to));
}

TEST_F(SharedReceive, segments_are_checked_in_the_domain_of_the_queue) {
  PairSide& side = pair.side(1);
  const PdId own = adapter().alloc_pd().value();
  std::vector<std::byte> memory(1024);
  const MemoryRegion region = adapter().memory().regions.reg_mr(own, memory, Access::kLocalWrite).value();
  srq = srqs().create({.pd = own}).value();
  const Flow flow = connect();
  const Sge there{.addr = region.addr, .length = 1024, .lkey = region.lkey};
  ASSERT_EQ(srqs().post_recv(*srq, {.wr_id = 1, .sges = {&there, 1}}), PostResult::kOk);
  ASSERT_EQ(post(2), PostResult::kOk);  // memory of the QP's domain
  pair.side(0).fill(0, 500, 5);
  const std::vector<std::byte> before = side.bytes_at(2048, 500);
  send(flow, 0, 500);
  send(flow, 0, 500);
  pair.run(10);
  ASSERT_EQ(received().size(), 2U);
  EXPECT_EQ(received()[0].status, WcStatus::kSuccess);
  EXPECT_TRUE(std::equal(memory.begin(), memory.begin() + 500, pair.side(0).memory.begin()));
  EXPECT_EQ(received()[1].status, WcStatus::kLocalProtection);
  EXPECT_EQ(side.bytes_at(2048, 500), before);
}

TEST_F(SharedReceive, writes_with_immediate_data_take_from_it_in_their_turn) {
  make_srq();
  const Flow flow = connect();
  for (uint64_t i = 0; i < 2; ++i) ASSERT_EQ(post(i), PostResult::kOk);
  const Sge sge = pair.side(0).sge(0, 64);
  send(flow, 0, 32);
  ASSERT_EQ(adapter(0).post_send(*flow.from, {.opcode = SendOpcode::kRdmaWriteWithImm,
                                              .sges = {&sge, 1},
                                              .imm = 77,
                                              .remote_addr = pair.side(1).region.addr + 8192,
                                              .rkey = pair.side(1).region.rkey}),
            PostResult::kOk);
  pair.run(5);
  ASSERT_EQ(received().size(), 2U);
  EXPECT_EQ(received()[0].opcode, WcOpcode::kRecv);
  EXPECT_EQ(received()[1].opcode, WcOpcode::kRecvRdmaWithImm);
  EXPECT_EQ(received()[1].wr_id, 1U);
  EXPECT_EQ(received()[1].imm, 77U);
}

}  // namespace
}  // namespace weft::test
