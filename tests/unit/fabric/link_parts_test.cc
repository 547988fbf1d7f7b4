// The parts of a link end, each alone: credits of all lanes, the order of what arrives, the window of what is
// sent, the watch over progress.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "base/rng.h"
#include "fabric/link/flit_sender.h"
#include "fabric/link/link_credits.h"
#include "fabric/link/memory_link.h"
#include "fabric/link/progress_watch.h"
#include "fabric/link/rx_sequence.h"
#include "tests/support/script_carrier.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

constexpr uint32_t kLanes = 4;
constexpr VirtualLane kLane0{0};
constexpr VirtualLane kLane2{2};

class LinkCreditsOf : public ::testing::Test {
 public:
  LinkCreditsOf() { credits.reset(kLanes, 4); }
  void arrive_and_grant(VirtualLane vl, uint32_t flits) {
    for (uint32_t i = 0; i < flits; ++i) ASSERT_TRUE(credits.arrive(vl));
    credits.grant(vl, flits);
  }
  LinkCredits credits;
};

TEST_F(LinkCreditsOf, a_lane_without_credit_starves_until_it_is_told_of_some) {
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(credits.ask(kLane2));
    credits.spend(kLane2);
  }
  EXPECT_FALSE(credits.starves()) << "nobody has asked yet";
  EXPECT_FALSE(credits.ask(kLane2));
  EXPECT_TRUE(credits.starves());
  EXPECT_TRUE(credits.ask(kLane0)) << "another lane is not concerned";
  EXPECT_FALSE(credits.relieved(kLane2)) << "no news";
  EXPECT_TRUE(credits.absorb(kLane2, 1));
  EXPECT_TRUE(credits.relieved(kLane2));
  EXPECT_FALSE(credits.relieved(kLane2)) << "once";
  EXPECT_FALSE(credits.starves());
  EXPECT_EQ(credits.available(kLane2), 1U);
  EXPECT_FALSE(credits.absorb(kLane2, 5)) << "more than was sent";
}

TEST_F(LinkCreditsOf, a_new_link_has_no_starved_lane_and_nothing_to_tell) {
  for (int i = 0; i < 4; ++i) credits.spend(kLane2);
  ASSERT_FALSE(credits.ask(kLane2));
  arrive_and_grant(kLane0, 1);
  credits.reset(kLanes, 4);
  EXPECT_FALSE(credits.starves());
  EXPECT_TRUE(credits.all_told());
}

TEST_F(LinkCreditsOf, lanes_with_news_take_turns) {
  std::vector<int> told;
  for (int round = 0; round < 2; ++round) {
    for (const VirtualLane lane : {kLane0, VirtualLane(1), VirtualLane(3)}) arrive_and_grant(lane, 1);
    for (int i = 0; i < 2; ++i) told.push_back(credits.tell().vl.value());
  }
  EXPECT_EQ(told, (std::vector<int>{0, 1, 3, 0})) << "lane 0 has news again and does not go before lane 3";
  const LinkCredits::Total last = credits.tell();
  EXPECT_EQ(last.vl, VirtualLane(1));
  EXPECT_EQ(last.flits, 2U) << "its total, of both rounds";
  EXPECT_TRUE(credits.all_told());
}

TEST_F(LinkCreditsOf, what_was_told_is_told_again_of_lanes_that_were_used) {
  arrive_and_grant(kLane2, 3);
  EXPECT_TRUE(credits.owes(3));
  EXPECT_FALSE(credits.owes(4));
  EXPECT_FALSE(credits.owes_of_used_lane()) << "all of its buffers are free";
  ASSERT_TRUE(credits.arrive(kLane2));
  EXPECT_TRUE(credits.owes_of_used_lane());
  static_cast<void>(credits.tell());
  EXPECT_TRUE(credits.all_told());
  credits.tell_again();
  EXPECT_FALSE(credits.all_told());
  const LinkCredits::Total again = credits.tell();
  EXPECT_EQ(again.vl, kLane2);
  EXPECT_EQ(again.flits, 3U);
  EXPECT_TRUE(credits.all_told()) << "the other lanes were never used";
}

TEST_F(LinkCreditsOf, lane_15_has_no_credit_and_needs_none) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(credits.ask(kVlManagement));
    credits.spend(kVlManagement);
    ASSERT_TRUE(credits.arrive(kVlManagement));
  }
  credits.grant(kVlManagement, 100);
  EXPECT_TRUE(credits.all_told());
  EXPECT_FALSE(credits.starves());
}

TEST(RxSequenceOf, past_expected_and_future_are_told_apart_across_the_wrap) {
  RxSequence sequence;
  for (uint64_t number = 1; number < 70'000; ++number) {
    const auto wire = static_cast<uint16_t>(number);
    ASSERT_EQ(sequence.ahead(wire), 0) << number;
    ASSERT_EQ(sequence.ahead(static_cast<uint16_t>(wire + 1)), 1) << number;
    ASSERT_TRUE(sequence.misses(wire)) << number;
    sequence.accept(number - 1);
    ASSERT_EQ(sequence.ahead(wire), -1) << number;
    ASSERT_FALSE(sequence.misses(wire)) << number;
  }
  EXPECT_EQ(sequence.consumed(), 69'999U);
  EXPECT_EQ(sequence.untold(), 69'999U);
  EXPECT_EQ(sequence.tell(), static_cast<uint16_t>(69'999));
  EXPECT_EQ(sequence.untold(), 0U);
}

TEST(RxSequenceOf, a_slot_that_is_passed_twice_is_done_with_once) {
  RxSequence sequence;
  sequence.accept(5);
  sequence.pass(3);
  EXPECT_EQ(sequence.consumed(), 6U);
}

TEST(RxSequenceOf, numbers_that_do_not_rise_begin_a_new_round_of_repeats) {
  RxSequence sequence;
  EXPECT_FALSE(sequence.begins_round(2));
  EXPECT_FALSE(sequence.begins_round(3));
  EXPECT_TRUE(sequence.begins_round(1));
  EXPECT_FALSE(sequence.begins_round(2));
  EXPECT_TRUE(sequence.begins_round(2));
}

TEST(RxSequenceOf, a_flit_in_order_ends_the_count_of_repeats) {
  RxSequence sequence;
  for (uint32_t life = 0; life < 2; ++life) {
    for (uint32_t i = 0; i < kFlitRepeatsMax; ++i) EXPECT_TRUE(sequence.count_repeat());
    EXPECT_FALSE(sequence.count_repeat());
    sequence.accept(life);
  }
}

TEST(RxSequenceOf, damaged_copies_and_other_repeats_of_a_flit_have_a_limit_each) {
  RxSequence sequence;
  for (uint32_t life = 0; life < 2; ++life) {
    for (uint32_t i = 0; i < kFlitRepeatsMax; ++i) {
      EXPECT_TRUE(sequence.count_repeat()) << "lost";
      EXPECT_TRUE(sequence.count_damaged()) << "came damaged";
      EXPECT_TRUE(sequence.count_repeat()) << "and was asked for once more";
    }
    EXPECT_FALSE(sequence.count_repeat());
    EXPECT_FALSE(sequence.count_damaged());
    sequence.accept(life);
  }
}

TEST(RxSequenceOf, a_request_counts_until_its_flit_comes_or_its_time_is_over) {
  using namespace std::chrono_literals;
  RxSequence sequence;
  const Instant now{5s};
  EXPECT_FALSE(sequence.is_asked_for(now, 10ms)) << "not yet";
  sequence.note_asked(now);
  EXPECT_TRUE(sequence.is_asked_for(now + 10ms - 1ns, 10ms));
  EXPECT_FALSE(sequence.is_asked_for(now + 10ms, 10ms));
  sequence.note_asked(now + 10ms);
  EXPECT_TRUE(sequence.is_asked_for(now + 11ms, 10ms));
  sequence.accept(0);
  EXPECT_FALSE(sequence.is_asked_for(now + 11ms, 10ms));
}

TEST(RxSequenceOf, cells_have_a_head_and_then_a_tail_on_their_lane) {
  RxSequence sequence;
  EXPECT_FALSE(sequence.fits_framing(kLane0, kFlitTail)) << "no head yet";
  EXPECT_TRUE(sequence.fits_framing(kLane0, kFlitHead));
  EXPECT_FALSE(sequence.fits_framing(kLane0, kFlitHead)) << "its tail is missing";
  EXPECT_TRUE(sequence.fits_framing(kLane2, kFlitHead | kFlitTail)) << "another lane";
  EXPECT_TRUE(sequence.fits_framing(kLane0, 0));
  EXPECT_TRUE(sequence.fits_framing(kLane0, kFlitTail));
  EXPECT_TRUE(sequence.fits_framing(kLane0, kFlitHead | kFlitTail));
}

/// A cable that is plugged in by hand while it was about to come back by itself has nothing left to do.
TEST(MemoryCableOf, plugged_in_by_hand_forgets_that_it_was_to_come_back) {
  SeededRandom random(1);
  MemoryCableConfig config;
  for (LinkConfig& end : config.ends) end = small_switch().link;
  config.ends[0].guid = Guid(1);
  config.ends[0].lid = Lid(1);
  MemoryCable cable(config, random);
  Instant now{std::chrono::seconds(1)};
  ASSERT_EQ(cable.plug(now), LinkRefusal::kNone);
  cable.end(0).take_down();
  static_cast<void>(cable.end(1).poll(now));
  cable.unplug();
  ASSERT_EQ(cable.plug(now), LinkRefusal::kNone);
  now += std::chrono::seconds(1);
  for (const uint32_t end : {0U, 1U}) static_cast<void>(cable.end(end).poll(now));
  for (const uint32_t end : {0U, 1U}) EXPECT_GT(cable.end(end).deadline(), now);
}

class ProgressWatchOf : public ::testing::Test {
 public:
  /// Waits until the watch wants an answer; how long that took.
  Duration wait(bool lossless) {
    const Instant from = now;
    EXPECT_FALSE(watch.is_due(true, now));
    now = watch.deadline(true, now);
    EXPECT_TRUE(watch.is_due(true, now));
    watch.asked(lossless, now);
    return now - from;
  }
  LinkTimers timers;
  ProgressWatch watch{timers};
  Instant now{};
};

TEST_F(ProgressWatchOf, intervals_double_up_to_the_longest_one) {
  watch.start(now);
  Duration expected = timers.probe_first;
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(wait(true), expected) << i;
    expected = std::min(expected * 2, timers.probe_max);
  }
  watch.progress();
  EXPECT_EQ(wait(true), timers.probe_first) << "something has come";
}

TEST_F(ProgressWatchOf, where_questions_get_lost_the_interval_stays_short_at_first) {
  watch.start(now);
  const Instant begin = now;
  while (now - begin < timers.probe_steady) ASSERT_EQ(wait(false), timers.probe_first);
  EXPECT_EQ(wait(false), 2 * timers.probe_first);
}

TEST_F(ProgressWatchOf, what_others_get_neither_ends_nor_stretches_the_wait) {
  watch.start(now);
  for (int i = 0; i < 12; ++i) static_cast<void>(wait(true));
  ASSERT_EQ(watch.deadline(true, now), now + timers.probe_max);
  now += 1ms;
  watch.progress_elsewhere(now);
  const Instant due = now + timers.probe_first;
  EXPECT_EQ(watch.deadline(true, now), due) << "short again";
  now += 1ms;
  watch.progress_elsewhere(now);
  EXPECT_EQ(watch.deadline(true, now), due) << "not put off";
  now = due;
  EXPECT_TRUE(watch.is_due(true, now));
  watch.asked(false, now);
  EXPECT_EQ(watch.deadline(true, now), now + timers.probe_first) << "and again soon";
}

TEST_F(ProgressWatchOf, an_end_that_waits_for_nothing_asks_for_nothing) {
  watch.start(now);
  EXPECT_FALSE(watch.is_due(true, now));
  EXPECT_FALSE(watch.is_due(false, now + timers.probe_first));
  EXPECT_EQ(watch.deadline(false, now), kNever);
  EXPECT_FALSE(watch.is_due(true, now + timers.probe_first)) << "what it waits for now it has not for long";
}

TEST_F(ProgressWatchOf, a_silent_peer_is_told_of_once_and_only_while_it_is_waited_for) {
  watch.start(now);
  EXPECT_FALSE(watch.has_stalled(false, now + 2 * kPeerStalledNotice));
  now += 2 * kPeerStalledNotice;
  EXPECT_FALSE(watch.has_stalled(true, now));
  EXPECT_TRUE(watch.has_stalled(true, now + kPeerStalledNotice));
  EXPECT_FALSE(watch.has_stalled(true, now + 2 * kPeerStalledNotice)) << "once";
  watch.was_deaf();
  now += 3 * kPeerStalledNotice;
  EXPECT_FALSE(watch.has_stalled(true, now)) << "nobody listened";
  EXPECT_TRUE(watch.has_stalled(true, now + kPeerStalledNotice));
}

/// A link may rest for a second before it sends again.
TEST_F(ProgressWatchOf, the_silence_of_a_peer_begins_when_something_is_wanted_of_it) {
  watch.start(now);
  now += 2 * kPeerStalledNotice;
  EXPECT_FALSE(watch.is_due(true, now));
  EXPECT_FALSE(watch.has_stalled(true, now));
  EXPECT_TRUE(watch.has_stalled(true, now + kPeerStalledNotice));
}

class FlitSenderOf : public ::testing::Test {
 public:
  FlitSenderOf() { sender.start(carrier, true); }
  bool send() {
    if (sender.claim() == nullptr) return false;
    sender.commit({kLane0, kFlitHead | kFlitTail, 32, 0}, {}, now);
    return true;
  }
  CounterSet<LinkCounter> counters;
  ScriptCarrier carrier;
  FlitSender sender{counters};
  Instant now{};
};

TEST_F(FlitSenderOf, what_is_acknowledged_is_retired_and_the_rest_repeated_from_its_slot) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(send());
  ASSERT_TRUE(sender.claim_control());
  sender.commit_control(FlitKind::kAck, 0, {});
  ASSERT_TRUE(send());
  EXPECT_EQ(sender.unacknowledged(), 4U);
  EXPECT_EQ(sender.hear(3), FlitSender::Heard::kProgress);
  EXPECT_EQ(sender.hear(2), FlitSender::Heard::kOld);
  EXPECT_EQ(sender.hear(5), FlitSender::Heard::kBeyondSent);
  EXPECT_EQ(sender.unacknowledged(), 1U);
  sender.retire();
  EXPECT_EQ(carrier.retired, 4U) << "the flit without data stood in slot 3, data flit 4 in slot 4";
  sender.repeat(now);
  EXPECT_EQ(carrier.resent_from, 4U);
  EXPECT_EQ(sender.hear(4), FlitSender::Heard::kProgress);
  sender.retire();
  EXPECT_EQ(carrier.retired, 5U) << "everything";
  carrier.resent_from = UINT64_MAX;
  sender.repeat(now);
  EXPECT_EQ(carrier.resent_from, UINT64_MAX) << "there is nothing to repeat";
  EXPECT_EQ(counters.get(LinkCounter::kRepeatsServed), 1U);
}

TEST_F(FlitSenderOf, the_window_ends_at_its_size_whatever_the_carrier_has) {
  for (uint32_t i = 0; i < kUnacknowledgedFlitsMax; ++i) {
    ASSERT_TRUE(send()) << i;
    sender.publish(now);
  }
  EXPECT_FALSE(send());
  EXPECT_EQ(sender.hear(1), FlitSender::Heard::kProgress);
  EXPECT_TRUE(send());
  sender.stop();
  EXPECT_EQ(counters.get(LinkCounter::kFlitsSent), kUnacknowledgedFlitsMax + 1U);
  EXPECT_EQ(counters.get(LinkCounter::kFlitsLostAtReset), kUnacknowledgedFlitsMax);
}

TEST_F(FlitSenderOf, the_last_slots_are_for_flits_without_data) {
  TxSlots slots;
  slots.start(carrier);
  uint32_t data = 0;
  for (; slots.next() != nullptr; ++data) slots.fill(kFlitHeaderBytes);
  uint32_t control = 0;
  for (; slots.next_of_all() != nullptr; ++control) slots.fill(kFlitHeaderBytes);
  EXPECT_EQ(data, ScriptCarrier::kSlots - kControlSlots);
  EXPECT_EQ(control, kControlSlots);
  EXPECT_EQ(slots.position(), ScriptCarrier::kSlots);
  EXPECT_TRUE(slots.publish(now));
  EXPECT_FALSE(slots.publish(now)) << "nothing is left to hand over";
}

}  // namespace
}  // namespace weft::test
