// Counters in words, and the screen of weft stat --watch: it fits every window.
#include "tools/show/stat_screen.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/netdev_session.h"
#include "tools/show/counter_words.h"

namespace weft::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

TEST(CounterWords, states_have_words_and_numbers_their_base) {
  EXPECT_EQ(counter_text("alice.qp.0.qp_state", 3), "RTS");
  EXPECT_EQ(counter_text("alice.qp.63.service", 2), "RC");
  EXPECT_EQ(counter_text("alice.qp.0.number", 0x1a), "0x00001a");
  EXPECT_EQ(counter_text("alice.qp.0.peer_lid", 49151), "49151") << "LIDs are decimal";
  EXPECT_EQ(counter_text("alice.node.guid", 0x2A), "000000000000002a");
  EXPECT_EQ(counter_text("alice.node.guid.2", 0x2B), "000000000000002b") << "a port of several";
  EXPECT_EQ(counter_text("alice.node.ipv4", 0x0A57'BFFF), "10.87.191.255");
  EXPECT_EQ(counter_text("s1.port.2.link.up", 1), "yes");
  EXPECT_EQ(counter_text("link.up", 0), "no");
  EXPECT_EQ(counter_text("h1.unit.2.session.now.state", static_cast<uint64_t>(session::SessionState::kOpen)),
            "open");
  EXPECT_EQ(counter_state("alice.qp.0.qp_state", 99), "?");
  EXPECT_EQ(counter_state("alice.qp.0.cells_sent", 3), "");
  EXPECT_EQ(counter_text("alice.qp.0.cells_sent", 3), "3");
}

TEST(CounterWords, kinds_go_by_place_and_word) {
  EXPECT_EQ(counter_kind("alice.qp.0.qp_state"), CounterKind::kState);
  EXPECT_EQ(counter_kind("alice.qp.0.number"), CounterKind::kNumber);
  EXPECT_EQ(counter_kind("alice.node.guid.4"), CounterKind::kNumber);
  EXPECT_EQ(counter_kind("alice.qps"), CounterKind::kGauge);
  EXPECT_EQ(counter_kind("h1.link.vl.2.credits"), CounterKind::kGauge);
  EXPECT_EQ(counter_kind("h1.link.vl.2.credit_stalls"), CounterKind::kCounter);
  EXPECT_EQ(counter_kind("h1.unit.2.session.now.peer_free"), CounterKind::kGauge);
  EXPECT_EQ(counter_kind("u1.unit.acceptor.session.3.opened"), CounterKind::kCounter);
  EXPECT_EQ(counter_kind("now.link.port.1.cells_in"), CounterKind::kCounter) << "a node may have any name";
  EXPECT_EQ(counter_kind("h1.adapter.held"), CounterKind::kCounter) << "a word means this in its place only";
  EXPECT_EQ(counter_kind("held"), CounterKind::kCounter);
  EXPECT_EQ(counter_kind(""), CounterKind::kCounter);
}

TEST(StatScreen, rates_are_short_and_have_units) {
  EXPECT_EQ(rate_text("a.cells_sent", 0.4), "0 /s");
  EXPECT_EQ(rate_text("a.cells_sent", 999), "999 /s");
  EXPECT_EQ(rate_text("a.cells_sent", 1000), "1.00 k/s");
  EXPECT_EQ(rate_text("a.cells_sent", 12'345), "12.3 k/s");
  EXPECT_EQ(rate_text("a.cells_sent", 999'700), "1.00 M/s");
  EXPECT_EQ(rate_text("a.bytes_sent", 3'214'000'000.0), "3.21 GB/s");
  EXPECT_EQ(rate_text("a.bytes", 123'000.0), "123 kB/s");
  for (double rate = 1; rate < 1e19; rate *= 9.97) EXPECT_LE(rate_text("a.bytes", rate).size(), 12U) << rate;
}

StatScreen busy(size_t counters) {
  StatScreen out;
  out.title = "fabric f";
  for (size_t i = 0; i < counters; ++i) {
    const std::string name = fmt::format("a-node-of-a-long-name-{:03}.port.7.link.vl.3.flits_received", i);
    out.before[name] = 0;
    out.after[name] = 1000 + i;
  }
  return out;
}

TEST(StatScreen, fits_every_window) {
  StatScreen screen = busy(100);
  screen.blocked.assign(40, std::string(200, 'x'));
  for (const size_t rows : {1U, 5U, 8U, 10U, 24U, 60U, 200U}) {
    for (const size_t columns : {20U, 40U, 50U, 51U, 60U, 79U, 80U, 132U, 200U}) {
      const std::vector<std::string> lines = stat_screen(screen, {rows, columns});
      EXPECT_LT(lines.size(), std::max<size_t>(rows, 5)) << rows;
      for (const std::string& line : lines) EXPECT_LE(line.size(), columns) << line;
    }
  }
}

/// The rate says what happens now, so it is the last to give way.
TEST(StatScreen, a_narrow_window_has_names_and_rates_and_short_or_no_totals) {
  for (const size_t columns : {40U, 49U, 50U, 60U, 64U, 65U, 79U, 80U, 200U}) {
    const std::vector<std::string> lines = stat_screen(busy(1), {24, columns});
    ASSERT_THAT(lines, SizeIs(4));
    EXPECT_EQ(lines[3].size(), columns) << lines[3];
    EXPECT_THAT(lines[2], testing::EndsWith(" per second"));
    EXPECT_THAT(lines[3], testing::EndsWith(" 1.00 k/s"));
    EXPECT_THAT(lines[3], StartsWith("a-node-"));
    EXPECT_EQ(lines[2].find("total") != std::string::npos, columns >= 50) << columns;
    EXPECT_EQ(lines[3].find(" 1000 ") != std::string::npos, columns >= 50) << columns;
  }
  EXPECT_EQ(stat_screen(busy(1), {24, 40})[3], "a-node-of-...flits_received     1.00 k/s");
  EXPECT_EQ(stat_screen(busy(1), {24, 60})[3],
            "a-node-of-a-long-name-0...flits_received   1000     1.00 k/s");
  StatScreen large = busy(1);
  large.after.begin()->second = UINT64_MAX;
  EXPECT_EQ(stat_screen(large, {24, 64})[2].find("total"), std::string::npos);
  EXPECT_NE(stat_screen(large, {24, 65})[2].find("total"), std::string::npos);
}

TEST(StatScreen, the_lowest_window_says_how_many_counters_it_has_no_room_for) {
  EXPECT_THAT(stat_screen(busy(50), {5, 80}),
              ElementsAre("fabric f", "nothing blocks", StartsWith("counter"), "50 more"));
  EXPECT_THAT(stat_screen(busy(1), {5, 80}),
              ElementsAre("fabric f", "nothing blocks", StartsWith("counter"), HasSubstr("-000.")));
}

TEST(StatScreen, names_keep_their_beginning_and_their_last_word) {
  const std::vector<std::string> lines = stat_screen(busy(1), {24, 80});
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_EQ(lines[2], "counter                                                       total   per second");
  EXPECT_EQ(lines[3], "a-node-of-a-long-name-000.po...flits_received                  1000     1.00 k/s");
  EXPECT_LE(lines[3].size(), 80U);
}

TEST(StatScreen, the_fastest_come_first_and_the_rest_is_counted) {
  StatScreen screen = busy(50);
  std::vector<std::string> lines = stat_screen(screen, {12, 100});
  ASSERT_THAT(lines, SizeIs(11));
  EXPECT_THAT(lines, ElementsAre("fabric f", "nothing blocks", StartsWith("counter"), HasSubstr("-049."),
                                 HasSubstr("-048."), HasSubstr("-047."), HasSubstr("-046."),
                                 HasSubstr("-045."), HasSubstr("-044."), HasSubstr("-043."), "43 more"));
  screen.order = StatOrder::kName;
  EXPECT_THAT(stat_screen(screen, {12, 100})[3], HasSubstr("-000."));
}

TEST(StatScreen, what_blocks_leaves_room_for_the_counters) {
  StatScreen screen = busy(50);
  screen.remarks = {"a page is torn"};
  screen.blocked.assign(20, "u1 is frozen");
  const std::vector<std::string> lines = stat_screen(screen, {31, 80});
  EXPECT_EQ(lines[1], "a page is torn");
  EXPECT_EQ(lines[2], "what blocks:");
  EXPECT_EQ(lines[3], "  u1 is frozen");
  EXPECT_EQ(lines[9], "  and 14 more; weft stat without --watch names them");
  EXPECT_THAT(lines[10], StartsWith("counter"));
  ASSERT_THAT(lines, SizeIs(30));
}

TEST(StatScreen, a_gauge_has_no_rate_and_is_no_growth) {
  StatScreen screen;
  screen.before = {{"h.link.vl.0.credits", 4}, {"h.link.vl.0.flits_sent", 4}};
  screen.after = {{"h.link.vl.0.credits", 9}, {"h.link.vl.0.flits_sent", 9}, {"h.link.up", 1}, {"h.zero", 0}};
  screen.seconds = 0.5;
  EXPECT_THAT(stat_screen(screen, {24, 80}), SizeIs(4)) << "title, nothing blocks, header, flits_sent";
  const std::vector<std::string> table = stat_table(screen);
  ASSERT_THAT(table, SizeIs(3));
  EXPECT_THAT(table[0], testing::EndsWith(" yes"));
  EXPECT_THAT(table[1], testing::EndsWith(" 9"));
  EXPECT_THAT(table[2], testing::EndsWith(" 10/s"));
  screen.all = true;
  EXPECT_THAT(stat_table(screen), SizeIs(4));
}

TEST(Terminal, a_screen_never_scrolls_and_leaves_nothing_behind) {
  EXPECT_EQ(full_screen({"one", "two", "three"}, {3, 4}), "\x1b[Hone\x1b[K\ntwo\x1b[K\n\x1b[J");
  EXPECT_EQ(full_screen({"eleven"}, {3, 4}), "\x1b[Hel..\x1b[K\n\x1b[J");
  EXPECT_EQ(fitted("abc", 1), "a");
  EXPECT_EQ(fitted("abc", 3), "abc");
}

}  // namespace
}  // namespace weft::tools
