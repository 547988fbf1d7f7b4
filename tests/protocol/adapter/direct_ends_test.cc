// RC over a memory window when one side, or the window, ends.
#include <gtest/gtest.h>

#include "adapter/queues/queue_pair.h"
#include "messages/window_record.h"
#include "tests/support/direct_case.h"

namespace weft::test {
using namespace adapter;
namespace {

TEST_F(Direct, a_peer_that_ends_its_queue_pair_costs_the_retries) {
  connect();
  ASSERT_TRUE(pair.side(1).adapter->modify_qp(*qps[1], {.state = QpState::kReset}, kQpAttrState) ==
              ModifyResult::kOk);
  pair.run(2);
  send(1, 0, 8);
  pair.run(2, 1ms);
  EXPECT_TRUE(pair.take_completions(0).empty());
  pair.run(50, 1ms);
  expect_given_up();
}

/// Its data pass no port.
TEST_F(Direct, a_port_that_stays_down_ends_no_queue_pair_of_a_window) {
  connect();
  pair.run(20);
  pair.pipe.set_up(false);
  pair.run(12, 1s);
  AsyncEvent event;
  bool expired = false;
  while (pair.side(0).adapter->next_event(event)) expired |= event.kind == AsyncEventKind::kPortExpired;
  EXPECT_TRUE(expired);
  receive(1, 0, 64);
  send(2, 0, 64);
  pair.run(20);
  const auto done = pair.take_completions(0);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess);
  EXPECT_EQ(pair.take_completions(1).size(), 1U);
}

/// The window is refused after the port has expired: the port gets its time once more.
TEST_F(Direct, a_queue_pair_that_goes_to_a_port_which_has_expired_fails_in_its_turn) {
  pair.joins = false;
  pair.pipe.set_up(false);
  connect();
  pair.run(12, 1s);
  EXPECT_EQ(pair.side(0).adapter->query_qp(*qps[0]).state, QpState::kRts);
  pair.paths[0]->refused = true;
  pair.run(9, 1s);
  EXPECT_EQ(pair.side(0).adapter->query_qp(*qps[0]).state, QpState::kRts);
  pair.run(3, 1s);
  EXPECT_EQ(pair.side(0).adapter->query_qp(*qps[0]).state, QpState::kErr);
}

/// Programs probe a connection by them.
TEST_F(Direct, accesses_of_no_bytes_need_the_peer) {
  connect();
  pair.run(20);
  post(remote(SendOpcode::kRdmaWrite, 0), 0, 0);
  post(remote(SendOpcode::kRdmaRead, 0), 0, 0);
  pair.run(20);
  const auto good = pair.take_completions(0);
  ASSERT_EQ(good.size(), 2U);
  EXPECT_EQ(good[1].status, WcStatus::kSuccess);
  ASSERT_TRUE(pair.side(1).adapter->destroy_qp(qps[1]));
  for (const SendOpcode opcode : {SendOpcode::kRdmaWrite, SendOpcode::kRdmaRead})
    post(remote(opcode, 0), 0, 0);
  pair.run(60, 1ms);
  const auto failed = pair.take_completions(0);
  ASSERT_EQ(failed.size(), 2U);
  EXPECT_EQ(failed[0].status, WcStatus::kRetryExceeded);
  EXPECT_EQ(failed[1].status, WcStatus::kFlushed);
}

/// Two queue pairs of which the second has said that it is ready, and has heard nothing from the first.
class DirectUnheard : public Direct {
 protected:
  void SetUp() override {
    connect();  // opens the window
    pair.run(20);
    qps = {pair.make_qp(0, {}), pair.make_qp(1, {})};
    bring_up(0);
    bring_up(1);
    pair.run_one(1);
  }
  void bring_up(int index) {
    QpAttr attr;
    attr.ack_timeout = 10ms;
    attr.retry_count = 2;
    const int other = 1 - index;
    pair.bring_up(index, *qps[static_cast<size_t>(index)], {},
                  pair.side(other).adapter->qpn(*qps[static_cast<size_t>(other)]),
                  Lid(static_cast<uint16_t>(other + 1)), Psn(1), Psn(1), attr);
  }
  void restart_peer() {
    ASSERT_EQ(pair.side(1).adapter->modify_qp(*qps[1], {.state = QpState::kReset}, kQpAttrState),
              ModifyResult::kOk);
    bring_up(1);
    pair.run_one(1);
  }
  void peer_says(const WindowRecord& record) {
    const uint32_t to = pair.side(0).adapter->qpn(*qps[0]).value();
    const uint32_t from = pair.side(1).adapter->qpn(*qps[1]).value();
    ASSERT_EQ(pair.end(1).send(to, from, encode_window_record(record), 0), fabric::FifoPost::kOk);
    pair.end(1).flush();
  }
  void expect_served() {
    receive(2, 64, 64);
    send(1, 0, 8);
    pair.run(50);
    EXPECT_EQ(pair.take_completions(1).size(), 1U);
    const auto sent = pair.take_completions(0);
    ASSERT_EQ(sent.size(), 1U);
    EXPECT_EQ(sent[0].status, WcStatus::kSuccess);
  }
};

TEST_F(DirectUnheard, a_peer_that_ends_costs_the_retries) {
  pair.run_one(0);
  ASSERT_TRUE(pair.side(1).adapter->destroy_qp(qps[1]));
  send(1, 0, 8);
  pair.run(50, 1ms);
  expect_given_up();
}

TEST_F(DirectUnheard, a_peer_that_is_reset_and_comes_up_again_is_served) {
  restart_peer();
  pair.run_one(0);
  restart_peer();
  expect_served();
}

/// Its kReady was lost.
TEST_F(DirectUnheard, the_end_of_a_life_that_has_named_nobody_is_no_news) {
  peer_says({.kind = WindowRecordKind::kGone, .sender_life = 2, .receiver_life = 2});
  restart_peer();
  expect_served();
}

TEST_F(DirectUnheard, a_request_behind_a_lost_ready_is_executed) {
  ASSERT_EQ(pair.post_recv(0, *qps[0], 3, {pair.side(0).sge(0, 64)}), PostResult::kOk);
  peer_says({.kind = WindowRecordKind::kSend, .flags = kRecordLast, .sender_life = 2, .receiver_life = 2});
  pair.run_one(0);
  EXPECT_EQ(pair.take_completions(0).size(), 1U);
}

TEST_F(Direct, a_peer_that_dies_fails_what_waits_for_it_at_once) {
  connect();
  pair.run(20);
  send(1, 0, 8);
  pair.window->kill(1);
  for (int i = 0; i < 5; ++i) pair.run_one(0);
  expect_given_up();
}

TEST_F(Direct, requests_without_a_peer_are_executed_after_the_window_has_ended) {
  connect();
  receive(7, 64, 64);
  send(3, 0, 64);
  pair.run(20);
  ASSERT_EQ(pair.take_completions(0).size(), 1U);
  pair.window->kill(1);
  pair.run(20);
  delay(5);
  pair.run(200);
  const auto delayed = pair.take_completions(0);
  ASSERT_EQ(delayed.size(), 1U);
  EXPECT_EQ(delayed[0].wr_id, 5U);
  EXPECT_EQ(delayed[0].status, WcStatus::kSuccess);
  send(6, 0, 64);
  pair.run(20);
  const auto failed = pair.take_completions(0);
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed[0].status, WcStatus::kRetryExceeded);
}

TEST_F(Direct, a_request_with_a_wrong_key_is_its_own_fault_after_the_peer_has_gone) {
  connect();
  pair.run(20);
  ASSERT_TRUE(pair.side(1).adapter->destroy_qp(qps[1]));
  pair.run(20);
  post_wrong_key();
  pair.run(2);
  expect_wrong_key();
}

TEST_F(Direct, a_request_with_a_wrong_key_is_its_own_fault_in_the_turn_of_the_end) {
  connect();
  pair.run(20);
  pair.window->kill(1);
  post_wrong_key();
  pair.run(2);
  expect_wrong_key();
}

TEST_F(Direct, requests_before_the_one_that_needs_the_peer_are_executed_when_the_window_ends) {
  connect();
  pair.run(20);
  delay(5);
  delay(6);
  send(7, 0, 64);
  pair.run(2);
  pair.window->kill(1);
  pair.run(400);
  const auto done = pair.take_completions(0);
  ASSERT_EQ(done.size(), 3U);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess);
  EXPECT_EQ(done[1].status, WcStatus::kSuccess);
  EXPECT_EQ(done[2].status, WcStatus::kRetryExceeded);
}

/// A window of which the peer's process ends before it has a QP there, and the window of its next process.
class DirectSecondWindow : public AdapterSides, public ::testing::Test {
 protected:
  DirectSecondWindow() {
    add_side(pipe_.end(0), {}, false, {}, &ways);
    add_side(pipe_.end(1), {}, false, {}, &back);
  }
  ~DirectSecondWindow() override { remove_sides(); }

  class Ways final : public DirectPaths {
   public:
    Ways(TestPaths::Claimed one, TestPaths::Claimed other)
        : first(Lid(2), std::move(one)), second(Lid(2), std::move(other)) {}
    DirectPath* claim(Lid peer) noexcept override {
      return claimed_ == nullptr ? claimed_ = first.claim(peer) : second.claim(peer);
    }
    void release(DirectPath& path) noexcept override { (&path == claimed_ ? first : second).release(path); }
    DirectPath* arrived(Lid& /*peer*/) noexcept override { return nullptr; }
    TestPaths first;
    TestPaths second;

   private:
    DirectPath* claimed_ = nullptr;
  };
  void delay(QueuePair& qp, uint64_t wr_id) {
    ASSERT_EQ(side(0).adapter->post_send(
                  qp, {.wr_id = wr_id, .opcode = SendOpcode::kDelay, .delay = std::chrono::microseconds(1)}),
              PostResult::kOk);
  }

 private:
  [[nodiscard]] Instant now() const override { return clock_.now(); }
  void pass(Duration step) override {
    (void)former.poll(clock_.now());
    clock_.advance(step);
  }

  const fabric::OwnWindowConfig own_{.slots = 16, .slot_bytes = 256, .table_entries = 16};
  const size_t bytes_ = fabric::OwnWindow::bytes_for(own_);
  ManualClock clock_;
  SeededRandom random_{5};
  Pipe pipe_;
  fabric::MemoryWindow next_{{.window_bytes = {bytes_, bytes_}}, random_};

 protected:
  fabric::MemoryWindow window{{.window_bytes = {bytes_, bytes_}}, random_};
  Ways ways{[this] { ways.first.open(window.end(0), own_); },
            [this] { ways.second.open(next_.end(0), own_); }};
  TestPaths back{Lid(1), [this] { back.open(next_.end(1), own_); }};
  fabric::WindowEnd former{window.end(1), own_};
};

/// A process has several queue pairs, and the record of one says nothing about another.
TEST_F(DirectSecondWindow, a_record_of_another_queue_pair_of_the_peer_is_not_taken) {
  QueuePair* const qp = make_qp(0, {});
  bring_up(0, *qp, {}, Qpn(77), Lid(2), Psn(1), Psn(2));
  run(20);
  const auto ready =
      encode_window_record({.kind = WindowRecordKind::kReady, .sender_life = 1, .receiver_life = 1});
  const uint32_t to = side(0).adapter->qpn(*qp).value();
  for (const uint32_t from : {78U, 77U}) {
    ASSERT_EQ(former.send(to, from, ready, 0), fabric::FifoPost::kOk);
    former.flush();
    run(20);
    EXPECT_EQ(side(0).adapter->counters().get(AdapterCounter::kDropNoQp), 1U) << from;
  }
}

/// The second window goes on behind the requests that needed no peer, however often they filled the queue.
TEST_F(DirectSecondWindow, does_not_begin_with_the_requests_of_the_first) {
  QueuePair* const qp = make_qp(0, {});
  QueuePair* const far = make_qp(1, {});
  bring_up(0, *qp, {}, side(1).adapter->qpn(*far), Lid(2), Psn(1), Psn(2));
  run(20);
  const size_t before = qp->sq.capacity() + 3;
  for (size_t i = 0; i < before; ++i) {
    delay(*qp, i);
    run(40);
    ASSERT_EQ(side(0).completions.size(), i + 1);
  }
  const Sge sge = side(0).sge(0, 64);
  ASSERT_EQ(side(0).adapter->post_send(*qp, {.wr_id = 700, .sges = {&sge, 1}}), PostResult::kOk);
  run(20);
  window.kill(1);
  run(20);
  ASSERT_EQ(ways.second.claims, 1);
  bring_up(1, *far, {}, side(0).adapter->qpn(*qp), Lid(1), Psn(2), Psn(1));
  for (const uint64_t id : {8U, 9U}) ASSERT_EQ(post_recv(1, *far, id, {side(1).sge(0, 64)}), PostResult::kOk);
  run(400);
  EXPECT_EQ(side(0).adapter->way_of(*qp), QpWay::kWindow);
  EXPECT_EQ(side(1).completions.size(), 1U);
  ASSERT_EQ(side(0).completions.size(), before + 1);
  EXPECT_EQ(side(0).completions.back().wr_id, 700U);
  EXPECT_EQ(side(0).completions.back().status, WcStatus::kSuccess);
}

/// Side 0 has a window to side 1, and one that another process has opened.
class DirectStranger : public AdapterSides, public ::testing::Test {
 protected:
  DirectStranger() {
    for (fabric::MemoryWindow* window : {&peers_, &strangers_}) window->set_owner_memory(0, &memory_[0]);
    peers_.set_owner_memory(1, &memory_[1]);
    add_side(pipe_.end(0), {}, false, {}, &ways_);
    add_side(pipe_.end(1), {}, false, {}, &back_);
    ways_.strangers.open(strangers_.end(0), own_);
    ways_.strangers.arrives = true;
  }
  ~DirectStranger() override { remove_sides(); }

  /// The ways of side 0.
  class Ways final : public DirectPaths {
   public:
    explicit Ways(TestPaths::Claimed claimed) : peers(Lid(2), std::move(claimed)) {}
    DirectPath* claim(Lid peer) noexcept override { return peers.claim(peer); }
    void release(DirectPath& path) noexcept override {
      (&path == admitted_ ? strangers : peers).release(path);
    }
    DirectPath* arrived(Lid& peer) noexcept override {
      DirectPath* path = strangers.arrived(peer);
      if (path != nullptr) admitted_ = path;
      return path;
    }
    TestPaths peers;
    TestPaths strangers{Lid(3), [] {}};

   private:
    DirectPath* admitted_ = nullptr;
  };

  ManualClock clock;
  fabric::WindowEnd& stranger() { return stranger_; }

 private:
  [[nodiscard]] Instant now() const override { return clock.now(); }
  void pass(Duration step) override {
    (void)stranger_.poll(clock.now());
    clock.advance(step);
  }
  /// The window of both sides comes up when both have claimed it.
  void claimed() {
    if (ways_.peers.claims == 0 || back_.claims == 0) return;
    ways_.peers.open(peers_.end(0), own_);
    back_.open(peers_.end(1), own_);
  }

  const fabric::OwnWindowConfig own_{.slots = 16, .slot_bytes = 256, .table_entries = 16};
  const size_t bytes_ = fabric::OwnWindow::bytes_for(own_);
  SeededRandom random_{5};
  Pipe pipe_;
  std::array<ProcessMemory, 2> memory_;
  fabric::MemoryWindow peers_{{.window_bytes = {bytes_, bytes_}}, random_};
  fabric::MemoryWindow strangers_{{.window_bytes = {bytes_, bytes_}}, random_};
  fabric::WindowEnd stranger_{strangers_.end(1), own_};
  Ways ways_{[this] { claimed(); }};
  TestPaths back_{Lid(1), [this] { claimed(); }};
};

/// It knows the numbers of both queue pairs and of their lives.
TEST_F(DirectStranger, ends_no_queue_pair_that_is_not_its_own) {
  const auto qps = connect({});
  run(30);
  ASSERT_EQ(side(0).adapter->way_of(*qps[0]), QpWay::kWindow);
  ASSERT_EQ(stranger().state(), fabric::WindowState::kUp);
  const auto gone =
      encode_window_record({.kind = WindowRecordKind::kGone, .sender_life = 1, .receiver_life = 1});
  const uint32_t to = side(0).adapter->qpn(*qps[0]).value();
  ASSERT_EQ(stranger().send(to, side(1).adapter->qpn(*qps[1]).value(), gone, 0), fabric::FifoPost::kOk);
  stranger().flush();
  run(10);
  EXPECT_EQ(side(0).adapter->counters().get(AdapterCounter::kDropSource), 1U);
  ASSERT_EQ(post_recv(1, *qps[1], 5, {side(1).sge(0, 64)}), PostResult::kOk);
  const Sge sge = side(0).sge(0, 64);
  ASSERT_EQ(side(0).adapter->post_send(*qps[0], {.sges = {&sge, 1}}), PostResult::kOk);
  run(30);
  ASSERT_EQ(side(0).completions.size(), 1U);
  EXPECT_EQ(side(0).completions[0].status, WcStatus::kSuccess);
}

}  // namespace
}  // namespace weft::test
