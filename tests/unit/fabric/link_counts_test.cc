// Counters of a link: each kind of flit at the end that sends it and at the end that takes it, the lives of
// the link, and what holds a sender back.
#include <gtest/gtest.h>

#include "base/stats_page.h"
#include "fabric/link/memory_link.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_cells.h"

namespace weft::test {
using namespace fabric;
namespace {

constexpr uint32_t kFirst = 0;
constexpr uint32_t kSecond = 1;

class LinkCounts : public ::testing::Test {
 protected:
  void plug(uint32_t credits, uint32_t ring_slots = 0) {
    MemoryCableConfig config;
    for (LinkConfig& end : config.ends) {
      end.cell_payload_bytes = 256;
      end.credits_per_lane = credits;
    }
    config.ends[kFirst].guid = Guid(0xA);
    config.ends[kFirst].lid = Lid(7);
    config.ends[kSecond].guid = Guid(0xB);
    config.ring_slots = ring_slots;
    cable = std::make_unique<MemoryCable>(config, random);
    ASSERT_EQ(cable->plug(now), LinkRefusal::kNone);
    ASSERT_TRUE(page.ok());
    for (const uint32_t end : {kFirst, kSecond})
      cable->end(end).publish(page.value(), end == kFirst ? "first" : "second");
  }
  /// False when the link has no room.
  bool send(VirtualLane vl) {
    const std::vector<std::byte> cell = make_cell({.vl = vl, .payload_bytes = 8});
    std::byte* const to = cable->end(kFirst).claim(vl);
    if (to == nullptr) return false;
    std::memcpy(to, cell.data(), cell.size());
    cable->end(kFirst).commit(
        {vl, kFlitHead | kFlitTail, static_cast<uint32_t>(cell.size()), cell_crc(cell)});
    return true;
  }
  /// A turn of one end, which takes what has come.
  void turn(uint32_t end) {
    LinkEngine& engine = cable->end(end);
    engine.poll(now);
    for (const RxFlit& flit : engine.receive()) engine.grant(flit.vl, 1);
    engine.release();
    engine.flush(now);
  }
  uint64_t count(uint32_t end, LinkCounter counter) { return cable->end(end).counters().get(counter); }
  uint64_t lane(const std::string& name) const {
    const auto entries = read_stats_page(path).value();
    for (const auto& [entry, value] : entries)
      if (entry == name) return value;
    return UINT64_MAX;
  }

  TempDir dir;
  std::string path = dir.path() + "/stats";
  Result<StatsPage> page = StatsPage::create(path, 1000);
  SeededRandom random{1};
  std::unique_ptr<MemoryCable> cable;
  Instant now{};
};

/// A flit tells the credit of one lane. So data flits of three lanes are answered by an acknowledgement, with
/// the credit of one lane, and by two flits for the credit of the others.
TEST_F(LinkCounts, each_kind_of_flit_is_counted_where_it_leaves_and_where_it_comes) {
  plug(8);
  for (int i = 0; i < 4; ++i) {
    for (const uint8_t vl : {uint8_t{0}, uint8_t{1}, uint8_t{2}}) ASSERT_TRUE(send(VirtualLane(vl)));
  }
  cable->end(kFirst).flush(now);
  turn(kSecond);
  turn(kFirst);
  EXPECT_EQ(count(kFirst, LinkCounter::kFlitsSent), 12U);
  EXPECT_EQ(count(kSecond, LinkCounter::kFlitsReceived), 12U);
  EXPECT_EQ(count(kSecond, LinkCounter::kAckFlitsSent), 1U);
  EXPECT_EQ(count(kFirst, LinkCounter::kAckFlitsReceived), 1U);
  EXPECT_EQ(count(kSecond, LinkCounter::kCreditFlitsSent), 2U);
  EXPECT_EQ(count(kFirst, LinkCounter::kCreditFlitsReceived), 2U);
  for (const LinkCounter none :
       {LinkCounter::kFlitsReceived, LinkCounter::kAckFlitsSent, LinkCounter::kCreditFlitsSent})
    EXPECT_EQ(count(kFirst, none), 0U);
  for (const LinkCounter none :
       {LinkCounter::kFlitsSent, LinkCounter::kAckFlitsReceived, LinkCounter::kCreditFlitsReceived})
    EXPECT_EQ(count(kSecond, none), 0U);
}

TEST_F(LinkCounts, a_link_counts_its_lives_and_the_times_it_came_back) {
  plug(8);
  for (const uint32_t end : {kFirst, kSecond}) {
    EXPECT_EQ(count(end, LinkCounter::kIncarnation), 1U);
    EXPECT_EQ(count(end, LinkCounter::kResets), 0U) << "it has come up, but not again";
    EXPECT_EQ(count(end, LinkCounter::kUp), 1U);
  }
  cable->unplug();
  for (const uint32_t end : {kFirst, kSecond}) EXPECT_EQ(count(end, LinkCounter::kUp), 0U);
  ASSERT_EQ(cable->plug(now), LinkRefusal::kNone);
  for (const uint32_t end : {kFirst, kSecond}) {
    EXPECT_EQ(count(end, LinkCounter::kIncarnation), 2U);
    EXPECT_EQ(count(end, LinkCounter::kResets), 1U);
    EXPECT_EQ(count(end, LinkCounter::kUp), 1U);
  }
}

TEST_F(LinkCounts, a_sender_without_credit_counts_the_lane_once_until_credit_comes) {
  plug(2);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(send(VirtualLane(3)));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(send(VirtualLane(3)));
  EXPECT_EQ(lane("first.vl.3.credit_stalls"), 1U);
  EXPECT_EQ(lane("first.vl.2.credit_stalls"), 0U);
  EXPECT_EQ(count(kFirst, LinkCounter::kSlotStalls), 0U) << "slots were free";
  cable->end(kFirst).flush(now);
  turn(kSecond);
  turn(kFirst);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(send(VirtualLane(3)));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(send(VirtualLane(3)));
  EXPECT_EQ(lane("first.vl.3.credit_stalls"), 2U);
}

TEST_F(LinkCounts, each_refusal_for_want_of_a_slot_counts) {
  constexpr uint32_t kSlots = 32;
  plug(64, kSlots);
  for (uint32_t i = 0; i < kSlots - kControlSlots; ++i) ASSERT_TRUE(send(VirtualLane(0)));
  EXPECT_EQ(count(kFirst, LinkCounter::kSlotStalls), 0U);
  EXPECT_FALSE(send(VirtualLane(0)));
  EXPECT_FALSE(send(VirtualLane(0)));
  EXPECT_EQ(count(kFirst, LinkCounter::kSlotStalls), 2U);
  EXPECT_EQ(lane("first.vl.0.credit_stalls"), 0U) << "credit was there";
}

TEST_F(LinkCounts, a_lane_shows_what_it_has_sent_and_what_its_receiver_holds) {
  plug(8);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(send(VirtualLane(1)));
  cable->end(kFirst).flush(now);
  EXPECT_EQ(cable->end(kSecond).receive().size(), 3U);
  cable->end(kSecond).release();
  cable->end(kSecond).grant(VirtualLane(1), 1);
  now += 20ms;
  for (const uint32_t end : {kFirst, kSecond}) cable->end(end).poll(now);
  EXPECT_EQ(lane("first.vl.1.flits_sent"), 3U);
  EXPECT_EQ(lane("first.vl.1.credits"), 5U);
  EXPECT_EQ(lane("first.vl.1.held"), 0U);
  EXPECT_EQ(lane("second.vl.1.flits_received"), 3U);
  EXPECT_EQ(lane("second.vl.1.held"), 2U) << "one of three is given back";
  EXPECT_EQ(lane("second.vl.0.flits_received"), 0U);
}

}  // namespace
}  // namespace weft::test
