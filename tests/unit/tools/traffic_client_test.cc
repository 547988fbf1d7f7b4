// The figures of a traffic run: when a run is good, its rate, and each figure in the JSON text and the table.
#include "tools/commands/traffic_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::tools {
namespace {

using ::testing::HasSubstr;

/// Every figure differs from the others.
control::TrafficFigures figures() {
  control::TrafficFigures out;
  out.phase = "finished";
  out.frames_sent = out.frames_received = 1001;
  out.bulk_frames_received = 500;
  out.bulk_bytes_received = 2'500'000;
  out.bulk_ns = 10'000'000;
  out.round_trip = {.count = 11, .p50_ns = 1'000, .p99_ns = 2'000, .p999_ns = 3'000, .max_ns = 4'500};
  for (size_t i = 0; i < out.by_kind.size(); ++i)
    out.by_kind[i] = {.count = 20 + i, .p50_ns = 5'000, .p99_ns = 6'000, .p999_ns = 7'000, .max_ns = 8'000};
  out.bulk_round_trip = {.count = 31, .p50_ns = 9'000, .p99_ns = 10'000, .p999_ns = 11'000, .max_ns = 12'000};
  return out;
}

TEST(TrafficClient, a_run_is_good_when_each_frame_came_back_once_in_order_and_in_time) {
  EXPECT_TRUE(all_came_back(figures()));
  using Figures = control::TrafficFigures;
  for (uint64_t Figures::*const fault : {&Figures::lost, &Figures::corrupted, &Figures::duplicated,
                                         &Figures::reordered, &Figures::late, &Figures::frames_sent}) {
    Figures bad = figures();
    ++(bad.*fault);
    EXPECT_FALSE(all_came_back(bad));
  }
  Figures none = figures();
  none.frames_sent = none.frames_received = 0;
  EXPECT_FALSE(all_came_back(none));
  Figures running = figures();
  running.phase = "bulk";
  EXPECT_FALSE(all_came_back(running));
}

TEST(TrafficClient, the_rate_is_of_verified_bytes_in_one_direction) {
  EXPECT_DOUBLE_EQ(gbps_of(figures()), 2.0);
  control::TrafficFigures no_bulk = figures();
  no_bulk.bulk_ns = 0;
  EXPECT_EQ(gbps_of(no_bulk), 0.0);
}

TEST(TrafficClient, json_has_each_figure) {
  control::TrafficFigures some = figures();
  some.lost = 2;
  some.corrupted = 3;
  some.duplicated = 4;
  some.reordered = 5;
  some.late = 6;
  const std::string kind = "\"p50\":5.00,\"p99\":6.00,\"p999\":7.00,\"max\":8.00}";
  EXPECT_EQ(traffic_json_fields(some),
            "\"frames_sent\":1001,\"frames_received\":1001,\"lost\":2,\"corrupted\":3,\"duplicated\":4,"
            "\"reordered\":5,\"late\":6,"
            "\"rtt_us\":{\"count\":11,\"p50\":1.00,\"p99\":2.00,\"p999\":3.00,\"max\":4.50},"
            "\"rtt_us_by_kind\":{\"arp\":{\"count\":20," +
                kind + ",\"icmp\":{\"count\":21," + kind + ",\"icmpv6\":{\"count\":22," + kind +
                ",\"udp\":{\"count\":23," + kind +
                "},\"rtt_us_under_load\":{\"count\":31,\"p50\":9.00,\"p99\":10.00,\"p999\":11.00,"
                "\"max\":12.00},\"bytes\":2500000,\"gbps\":2.000");
}

TEST(TrafficClient, the_table_has_a_line_for_each_kind_that_was_measured) {
  control::TrafficFigures some = figures();
  some.by_kind[1].count = 0;
  const std::string table = traffic_table(some);
  EXPECT_THAT(table,
              HasSubstr("frames sent 1001, came back 1001, lost 0, corrupted 0, duplicated 0, reordered 0"));
  EXPECT_THAT(table, HasSubstr("  arp                   20        5.0        6.0        7.0        8.0\n"));
  EXPECT_EQ(table.find("  icmp "), std::string::npos);
  EXPECT_THAT(table, HasSubstr("  under load            31        9.0       10.0       11.0       12.0\n"));
  EXPECT_THAT(table, HasSubstr("bulk: 500 frames, 2.5 MB verified, 2.00 Gb/s each way, 50000 frames/s"));
}

}  // namespace
}  // namespace weft::tools
