// A peer whose process is stopped, by SIGSTOP or in a debugger: requesters wait beyond their retries while
// the
// switch reports the stop, but not for ever.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/adapter_pair.h"
#include "tests/support/adapter_star.h"

namespace weft::test {
using namespace adapter;
namespace {

/// Timeout 14 and 7 retries, the values of most programs.
QpAttr usual_attr() {
  QpAttr attr;
  attr.ack_timeout = std::chrono::nanoseconds(4096) * (1 << 14);
  attr.retry_count = 7;
  return attr;
}

class StoppedPeer : public OverLinks {
 protected:
  void SetUp() override {
    OverLinks::SetUp();
    star_ = std::make_unique<AdapterStar>(fabric_of(3));
    qps_ = star_->connect({}, usual_attr());
    others_ = star_->connect({}, usual_attr(), 0, 2);
    exchange(qps_, 1);
  }
  /// Runs without turns of side 1.
  void run_without_peer(Duration time, Duration step = 1ms) {
    for (Duration gone{}; gone < time; gone += step) {
      star_->run_one(0);
      star_->run_one(2);
      star_->fabric.step(step);
    }
  }
  void post(const std::array<QueuePair*, 2>& qps, uint64_t id) {
    const Sge sge = star_->side(0).sge(0, 100);
    ASSERT_EQ(star_->side(0).adapter->post_send(*qps[0], {.wr_id = id, .sges = {&sge, 1}}), PostResult::kOk);
  }
  void exchange(const std::array<QueuePair*, 2>& qps, int to) {
    ASSERT_EQ(star_->post_recv(to, *qps[1], 7, {star_->side(to).sge(0, 256)}), PostResult::kOk);
    post(qps, 1);
    star_->run();
    ASSERT_EQ(star_->side(0).completions.size(), 1U);
    star_->side(0).completions.clear();
  }
  [[nodiscard]] uint64_t heard() {
    return star_->side(0).adapter->counters().get(AdapterCounter::kStandstillsHeard);
  }

  std::unique_ptr<AdapterStar> star_;
  std::array<QueuePair*, 2> qps_{};
  std::array<QueuePair*, 2> others_{};
};

TEST_P(StoppedPeer, is_waited_for_beyond_the_retries) {
  ASSERT_EQ(star_->post_recv(1, *qps_[1], 8, {star_->side(1).sge(0, 256)}), PostResult::kOk);
  post(qps_, 2);
  run_without_peer(10s);
  EXPECT_TRUE(star_->side(0).completions.empty());
  EXPECT_GT(heard(), 100U);
  star_->run();
  ASSERT_EQ(star_->side(0).completions.size(), 1U);
  EXPECT_EQ(star_->side(0).completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(star_->side(1).completions.size(), 2U) << "each message once";
}

/// A full window is on its way when the peer stops.
TEST_P(StoppedPeer, gets_a_stream_whole_when_it_goes_on) {
  constexpr uint32_t kMessages = 64;
  for (uint32_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(star_->post_recv(1, *qps_[1], 100 + i, {star_->side(1).sge(0, 256)}), PostResult::kOk);
    post(qps_, 100 + i);
  }
  run_without_peer(4s);
  EXPECT_TRUE(star_->side(0).completions.empty());
  star_->run(2000, 100us);
  ASSERT_EQ(star_->side(0).completions.size(), kMessages);
  for (const WorkCompletion& each : star_->side(0).completions) EXPECT_EQ(each.status, WcStatus::kSuccess);
}

TEST_P(StoppedPeer, costs_a_neighbour_nothing) {
  post(qps_, 2);
  run_without_peer(1s);
  ASSERT_TRUE(star_->side(0).completions.empty());
  ASSERT_EQ(star_->post_recv(2, *others_[1], 9, {star_->side(2).sge(0, 256)}), PostResult::kOk);
  post(others_, 3);
  run_without_peer(2ms, 20us);
  ASSERT_EQ(star_->side(0).completions.size(), 1U);
  EXPECT_EQ(star_->side(0).completions[0].wr_id, 3U);
}

TEST_P(StoppedPeer, is_waited_for_no_longer_than_a_minute) {
  post(qps_, 2);
  run_without_peer(59s, 2ms);
  EXPECT_TRUE(star_->side(0).completions.empty());
  run_without_peer(3s, 2ms);
  ASSERT_EQ(star_->side(0).completions.size(), 1U);
  EXPECT_EQ(star_->side(0).completions[0].status, WcStatus::kRetryExceeded);
}

INSTANTIATE_TEST_SUITE_P(Links, StoppedPeer, ::testing::Values(LinkKind::kMem, LinkKind::kShm), link_name);

/// NAK 7 built by hand, to a requester with two requests in flight and no other answer.
class StandstillNak : public ::testing::Test {
 protected:
  StandstillNak() {
    qps_ = pair_.connect({}, usual_attr());
    pair_.pipe.set_filter(
        [](int from, std::vector<std::byte>&) { return from == 0 ? Verdict::kDrop : Verdict::kPass; });
    const Sge sge = pair_.side(0).sge(0, 100);
    for (uint64_t id = 1; id <= 2; ++id)
      EXPECT_EQ(pair_.side(0).adapter->post_send(*qps_[0], {.wr_id = id, .sges = {&sge, 1}}),
                PostResult::kOk);
    pair_.run(1, Duration{});
  }
  void nak(Psn psn) {
    const CellTemplate fixed = make_cell_template({.dest_subnet = SubnetId(1),
                                                   .src_subnet = SubnetId(1),
                                                   .dlid = Lid(1),
                                                   .slid = Lid(2),
                                                   .dest_qpn = pair_.side(0).adapter->qpn(*qps_[0]),
                                                   .src_qpn = pair_.side(1).adapter->qpn(*qps_[1])});
    std::vector<std::byte> cell(kNakCellBytes);
    static_cast<void>(write_nak(cell.data(), fixed, {.psn = psn, .code = AckCode::kStandsStill}));
    pair_.pipe.inject(0, cell);
  }
  /// @return the time until the requests fail, with a NAK every 50 ms for `naks`
  Duration failed_after(Duration naks, Psn psn) {
    Duration gone{};
    for (; gone < 100s && pair_.side(0).completions.empty(); gone += 1ms) {
      if (gone < naks && gone % 50ms == Duration{}) nak(psn);
      pair_.run(1, 1ms);
    }
    return gone;
  }

  static constexpr Psn kFirst{100};  // set by AdapterSides::connect()
  AdapterPair pair_;
  std::array<QueuePair*, 2> qps_{};
};

TEST_F(StandstillNak, begins_the_retries_anew_and_acknowledges_nothing) {
  const Duration gone = failed_after(5s, kFirst.plus(1));
  EXPECT_GE(gone, 5s);
  EXPECT_LE(gone, 5s + 1s) << "0.54 s after the last one";
  ASSERT_GE(pair_.side(0).completions.size(), 1U);
  EXPECT_EQ(pair_.side(0).completions[0].wr_id, 1U) << "the one before is not acknowledged either";
  EXPECT_EQ(pair_.side(0).completions[0].status, WcStatus::kRetryExceeded);
}

/// Those that were used before it do not count when the link comes up anew, either.
TEST_F(StandstillNak, gives_the_retries_back) {
  pair_.run(400, 1ms);
  nak(kFirst.plus(1));
  pair_.run(2, 1ms);
  for (const bool up : {false, true}) {
    pair_.pipe.set_up(up);
    pair_.run(2, 1ms);
  }
  EXPECT_GE(failed_after({}, kFirst), 500ms) << "0.54 s after it";
}

TEST_F(StandstillNak, about_nothing_in_flight_is_ignored) {
  EXPECT_LE(failed_after(5s, kFirst.plus(2)), 1s);
  EXPECT_EQ(pair_.side(0).adapter->counters().get(AdapterCounter::kStandstillsHeard), 0U);
}

}  // namespace
}  // namespace weft::test
