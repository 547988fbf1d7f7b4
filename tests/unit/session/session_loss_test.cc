// Sessions over a wire that loses, and over one that goes away: what each mode promises (decisions 2.12,
// 2.13, 5.4).
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/allocation_counter.h"
#include "tests/support/session_pair.h"

namespace weft::session {
namespace {

using namespace std::chrono_literals;
using namespace test;  // NOLINT(google-build-using-namespace): the test's own words
using C = SessionCounter;

/// Has its random numbers with it: an adapter that ends sends its last cells after the test's variables.
Pipe::Filter lossy(uint64_t seed, uint32_t ppm) {
  return [random = SeededRandom(seed), ppm](int, std::vector<std::byte>&) mutable {
    return random.chance_ppm(ppm) ? Verdict::kDrop : Verdict::kPass;
  };
}

TEST(SessionLoss, rdma_frames_survive_lost_cells) {
  for (const bool forced : {false, true}) {
    SessionPairOptions options;
    options.host.force_indicate = forced;
    SessionPair pair(options);
    pair.pipe.set_filter(lossy(3, 100'000));
    EXPECT_EQ(pair.stream(0, 0, 300, 3000), numbers(0, 300));
    EXPECT_EQ(pair.stream(1, 0, 300, 1000), numbers(0, 300));
    EXPECT_EQ(pair.host().incarnation(), 1U);
  }
}

TEST(SessionLoss, one_channel_frames_survive_lost_cells) {
  SessionPair pair(SessionPairOptions().mode(TransferMode::kSendDataOnly));
  pair.pipe.set_filter(lossy(4, 100'000));
  EXPECT_EQ(pair.stream(0, 0, 300, 1500), numbers(0, 300));
}

TEST(SessionLoss, the_opening_survives_lost_datagrams) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SessionPairOptions options;
    options.open = false;
    SessionPair pair(options);
    pair.pipe.set_filter(lossy(seed, 300'000));
    pair.run_until_open();
    EXPECT_EQ(pair.stream(0, 0, 10, 500), numbers(0, 10)) << seed;
  }
}

/// Lost frames are lost, but nothing is doubled, changed or out of order, and the session recovers by itself.
TEST(SessionLoss, send_receive_resets_on_a_gap_and_goes_on) {
  SessionPair pair(SessionPairOptions().mode(TransferMode::kSendReceive));
  pair.pipe.set_filter(lossy(5, 20'000));
  uint32_t next = 0;
  std::vector<uint32_t> got;
  for (int turn = 0; turn < 40000; ++turn) {
    if (pair.send(0, next, 1000)) ++next;
    pair.turn(100us);
    for (NetdevSession* session : pair.acceptor().sessions()) {
      while (const InboundFrame* frame = session->front_frame()) {
        got.push_back(check_frame(frame->bytes));
        session->release_frame();
      }
    }
  }
  EXPECT_TRUE(std::is_sorted(got.begin(), got.end()));
  EXPECT_EQ(std::adjacent_find(got.begin(), got.end()), got.end()) << "doubled";
  EXPECT_GT(got.size(), 300U);
  EXPECT_GT(pair.host().incarnation(), 3U);
  pair.pipe.set_filter(nullptr);
  pair.run_until_open();
  EXPECT_EQ(pair.stream(0, 900000, 50, 500), numbers(900000, 50));
}

TEST(SessionLoss, a_gap_at_the_end_is_found_by_the_keepalive) {
  SessionPair pair(SessionPairOptions().mode(TransferMode::kSendReceive));
  EXPECT_EQ(pair.stream(0, 0, 10, 500), numbers(0, 10));
  pair.pipe.set_filter(
      [](int from, std::vector<std::byte>&) { return from == 0 ? Verdict::kDrop : Verdict::kPass; });
  EXPECT_TRUE(pair.send(0, 10, 500));
  pair.run(10);
  pair.pipe.set_filter(nullptr);
  NetdevSession& unit = pair.unit();
  pair.run_for(1600ms);
  EXPECT_EQ(unit.counters().get(C::kLostGap), 1U);
  pair.run_until_open();
  EXPECT_EQ(pair.stream(0, 20, 10, 500), numbers(20, 10));
}

/// A unit that is asked does not ask; but it promises when it has sent.
TEST(SessionLoss, a_gap_at_the_end_of_what_a_unit_sent_is_found_too) {
  SessionPair pair(SessionPairOptions().mode(TransferMode::kSendReceive));
  EXPECT_EQ(pair.stream(1, 0, 10, 500), numbers(0, 10));
  pair.run_for(5s);
  pair.pipe.set_filter([](int from, std::vector<std::byte>& cell) {
    return from == 1 && cell.size() > 500 ? Verdict::kDrop : Verdict::kPass;  // the frame alone
  });
  EXPECT_TRUE(pair.send(1, 10, 500));
  pair.run(10);
  pair.pipe.set_filter(nullptr);
  pair.run_for(1600ms);
  EXPECT_EQ(pair.host().counters().get(C::kLostGap), 1U);
  pair.run_until_open();
  EXPECT_EQ(pair.stream(1, 20, 10, 500), numbers(20, 10));
}

/// A switch that dies is not a session that dies (decisions 2.12).
TEST(SessionLoss, a_link_that_is_away_for_eight_seconds_loses_nothing) {
  SessionPair pair;
  EXPECT_EQ(pair.stream(0, 0, 20, 1000), numbers(0, 20));
  pair.pipe.set_up(false);
  for (uint32_t i = 20; i < 30; ++i) EXPECT_TRUE(pair.send(0, i, 1000));
  pair.run_for(8s);
  EXPECT_EQ(pair.host().state(), SessionState::kOpen);
  pair.pipe.set_up(true);
  pair.run_for(1s);
  EXPECT_EQ(pair.receive(1), numbers(20, 10));
  EXPECT_EQ(pair.stream(0, 30, 20, 1000), numbers(30, 20));
  EXPECT_EQ(pair.host().incarnation(), 1U);
}

TEST(SessionLoss, a_link_that_stays_away_ends_the_session) {
  SessionPair pair;
  pair.pipe.set_up(false);
  EXPECT_TRUE(pair.send(0, 1, 1000));
  pair.run_for(12s);
  EXPECT_NE(pair.host().state(), SessionState::kOpen);
  EXPECT_EQ(pair.host().counters().get(C::kFramesLostAtReset), 1U);
  pair.pipe.set_up(true);
  pair.run_until_open();
  EXPECT_TRUE(pair.receive(1).empty()) << "never sent again";
  EXPECT_EQ(pair.stream(0, 5, 20, 1000), numbers(5, 20));
}

TEST(SessionLoss, a_dead_unit_is_noticed_within_two_seconds_and_its_frames_are_counted) {
  SessionPair pair;
  bool dead = true;
  pair.pipe.set_filter([&](int, std::vector<std::byte>&) { return dead ? Verdict::kDrop : Verdict::kPass; });
  const Instant at = pair.clock.now();
  for (uint32_t i = 0; i < 5; ++i) EXPECT_TRUE(pair.send(0, i, 1000));
  while (pair.host().state() == SessionState::kOpen) pair.turn(1ms);
  EXPECT_LT(pair.clock.now() - at, 2s);
  EXPECT_EQ(pair.host().counters().get(C::kFramesLostAtReset), 5U);
  dead = false;
  pair.run_until_open();
  EXPECT_EQ(pair.stream(0, 50, 20, 1000), numbers(50, 20));
}

/// The writes arrived; the message that speaks of them did not.
TEST(SessionLoss, frames_in_an_indication_that_was_never_acknowledged_are_counted) {
  SessionPairOptions options;
  options.host.force_indicate = true;
  SessionPair pair(options);
  pair.pipe.set_filter([](int from, std::vector<std::byte>& bytes) {
    CellView view;
    const bool message = decode_cell(bytes, CrcCheck::kAlreadyVerified, view) == CellError::kNone &&
                         view.opcode == Opcode::kSend;
    return from == 0 && message ? Verdict::kDrop : Verdict::kPass;
  });
  for (uint32_t i = 0; i < 5; ++i) EXPECT_TRUE(pair.send(0, i, 1000));
  pair.run(50);
  EXPECT_EQ(pair.host().conservation().frames_completed, 5U);
  while (pair.host().state() == SessionState::kOpen) pair.turn(1ms);
  EXPECT_EQ(pair.host().counters().get(C::kFramesLostAtReset), 5U);
}

/// Each side says at once that it is back, whatever part of the interval has passed.
TEST(SessionLoss, a_port_that_returns_is_followed_by_a_keepalive) {
  SessionPair pair;
  for (int i = 0; i < 3; ++i) {
    pair.pipe.set_up(false);
    pair.run_for(180ms);
    pair.pipe.clear_trace();
    pair.pipe.set_up(true);
    pair.run(20);
    EXPECT_FALSE(pair.pipe.sent_by(0, Opcode::kSend).empty()) << i;
    EXPECT_FALSE(pair.pipe.sent_by(1, Opcode::kSend).empty()) << i;
  }
}

TEST(SessionLoss, a_driver_that_lets_go_of_nothing_does_not_keep_the_next_session_away) {
  SessionPair pair;
  for (uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(pair.send(1, i, 1000));
  pair.run(20);
  pair.kill(1);
  pair.revive(1);
  while (pair.host().state() == SessionState::kOpen) pair.turn(1ms);
  EXPECT_NE(pair.host().front_frame(), nullptr) << "it has until the next attempt";
  pair.run_until_open();
  EXPECT_EQ(pair.host().front_frame(), nullptr);
  EXPECT_EQ(pair.host().counters().get(C::kInboundLostAtReset), 3U);
}

TEST(SessionLoss, frames_the_driver_has_not_taken_survive_a_loss) {
  SessionPair pair;
  for (uint32_t i = 0; i < 5; ++i) EXPECT_TRUE(pair.send(0, i, 1000));
  pair.run(20);
  NetdevSession& unit = pair.unit();
  pair.host().close();
  pair.run_for(100ms);
  EXPECT_EQ(unit.state(), SessionState::kLost);
  for (uint32_t i = 0; i < 5; ++i) {
    ASSERT_NE(unit.front_frame(), nullptr);
    EXPECT_EQ(check_frame(unit.front_frame()->bytes), i);
    unit.release_frame();
  }
  EXPECT_TRUE(unit.conservation().holds());
}

TEST(SessionConfig, transactions_end_when_the_session_does) {
  SessionPair pair;
  pair.pipe.set_filter(
      [](int from, std::vector<std::byte>&) { return from == 1 ? Verdict::kDrop : Verdict::kPass; });
  const uint64_t transaction = pair.host().request_config({.request_class = CfgClass::kUtility, .code = 1});
  EXPECT_NE(transaction, 0U);
  pair.run_for(1100ms);
  ASSERT_EQ(pair.host_events.replies.size(), 1U);
  EXPECT_EQ(pair.host_events.replies[0].transaction, transaction);
  EXPECT_EQ(pair.host_events.replies[0].status, CfgStatus::kTimedOut);
  EXPECT_NE(pair.host().request_config({.request_class = CfgClass::kUtility, .code = 1}), 0U);
  pair.run_for(900ms);
  ASSERT_EQ(pair.host_events.replies.size(), 2U);
  EXPECT_EQ(pair.host_events.replies[1].status, CfgStatus::kSessionLost);
}

TEST(SessionConfig, requests_that_wait_are_bounded) {
  SessionPairOptions options;
  options.host.limits.config_requests = 3;
  SessionPair pair(options);
  for (int i = 0; i < 3; ++i)
    EXPECT_NE(pair.host().request_config({.request_class = CfgClass::kUtility, .code = 1}), 0U);
  EXPECT_EQ(pair.host().request_config({.request_class = CfgClass::kUtility, .code = 1}), 0U);
  pair.run(20);
  EXPECT_EQ(pair.host_events.replies.size(), 3U);
  EXPECT_NE(pair.host().request_config({.request_class = CfgClass::kUtility, .code = 1}), 0U);
}

/// House style 18: a frame costs no allocation in the session. The pipe of the test allocates, so adapters
/// run outside the count.
TEST(SessionPath, a_frame_allocates_nothing) {
  for (const TransferMode mode :
       {TransferMode::kRdma, TransferMode::kSendReceive, TransferMode::kSendDataOnly}) {
    for (const MessageEncoding encoding : {MessageEncoding::kCapnp, MessageEncoding::kBytes}) {
      SessionPairOptions options;
      options.unit.session.limits.pools_per_class = 1;
      SessionPair pair(options.mode(mode, encoding));
      EXPECT_EQ(pair.stream(0, 0, 50, 1500), numbers(0, 50));
      pair.run_for(5ms, 100us);
      NetdevSession& unit = pair.unit();
      uint32_t got = 0;
      uint64_t allocated = 0;
      for (int turn = 0; turn < 300; ++turn) {
        const uint64_t before = allocations();
        for (int burst = 0; burst < 2; ++burst) {
          if (!pair.host().claim_frame(1512).empty()) pair.host().submit_frame(1512);
        }
        pair.host().poll(pair.clock.now());
        pair.acceptor().poll(pair.clock.now());
        while (unit.front_frame() != nullptr) {
          unit.release_frame();
          ++got;
        }
        allocated += allocations() - before;
        pair.adapter(0).poll(pair.clock.now());
        pair.adapter(1).poll(pair.clock.now());
        pair.clock.advance(20us);
      }
      EXPECT_GT(got, 300U);
      EXPECT_EQ(allocated, 0U) << to_string(mode) << " " << to_string(encoding);
    }
  }
}

TEST(SessionPath, elements_go_back_by_the_quarter_or_after_a_delay) {
  SessionPairOptions options;
  options.pools({{2048, 32}});
  options.host.frame_bytes_max = options.unit.session.frame_bytes_max = 1518;
  SessionPair pair(options);
  const auto& counters = pair.unit().counters();
  for (uint32_t i = 0; i < 20; ++i) EXPECT_TRUE(pair.send(0, i, 500));
  pair.run(10);
  EXPECT_EQ(pair.receive(1, 7), numbers(0, 7));
  pair.run(10);
  EXPECT_EQ(counters.get(C::kUpdatesOut), 0U);
  EXPECT_EQ(pair.receive(1, 1), numbers(7, 1));
  pair.run(2);
  EXPECT_EQ(counters.get(C::kUpdatesOut), 1U);
  EXPECT_EQ(counters.get(C::kElementsRenewed), 8U);
  EXPECT_EQ(pair.receive(1, 3), numbers(8, 3));
  pair.run(15);
  EXPECT_EQ(counters.get(C::kUpdatesOut), 1U);
  pair.run(10);
  EXPECT_EQ(counters.get(C::kUpdatesOut), 2U);
  EXPECT_EQ(counters.get(C::kElementsRenewed), 11U);
}

TEST(SessionPath, one_completion_per_burst_and_few_renewals) {
  SessionPairOptions options;
  options.pools({{2048, 64}, {65536, 8}});
  SessionPair pair(options);
  uint32_t received = 0;
  for (uint32_t i = 0; i < 400; i += 8) {
    for (uint32_t k = 0; k < 8; ++k) EXPECT_TRUE(pair.send(0, i + k, 1000));
    pair.host().flush();
    pair.turn();
    received += static_cast<uint32_t>(pair.receive(1).size());
    pair.run(5);
  }
  pair.run(50);
  received += static_cast<uint32_t>(pair.receive(1).size());
  EXPECT_EQ(received, 400U);
  pair.run(50);
  EXPECT_LE(pair.unit().counters().get(C::kUpdatesOut), 55U);
  EXPECT_EQ(pair.unit().counters().get(C::kElementsRenewed), 400U);
}

}  // namespace
}  // namespace weft::session
