// The latest failures, out of made-up pages.
#include "tools/show/failure_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "messages/failure.h"

namespace weft::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

void put(CounterValues& values, const std::string& node, size_t place, const Failure& failure,
         uint64_t number) {
  const FailureGauges gauges = gauges_of(failure, number);
  for (size_t i = 0; i < gauges.size(); ++i)
    values[node + "." + failure_prefix(place) + "." + std::string(CounterSet<FailureGauge>::kLabels[i])] =
        gauges[i];
}

TEST(FailureList, those_of_each_node_in_the_order_in_which_they_came) {
  const Failure first{.reason = Reason::kNoReceive, .by_peer = true, .qpn = 1};
  const Failure second{.reason = Reason::kPeerWentSilent, .status = 12, .qpn = 2};
  CounterValues values{{"a.qp.0.number", 7}, {"a.b.failed.0.else", 5}};
  put(values, "b.c", 0, second, 10);
  put(values, "b.c", 1, first, 9);
  put(values, "a", 0, first, 3);
  put(values, "a", 1, {}, 0);
  EXPECT_THAT(take_failures(values),
              ElementsAre(NodeFailure{"a", describe(first)}, NodeFailure{"b.c", describe(first)},
                          NodeFailure{"b.c", describe(second)}));
  EXPECT_EQ(values, (CounterValues{{"a.qp.0.number", 7}, {"a.b.failed.0.else", 5}}));
}

TEST(FailureList, none_where_nothing_has_failed) {
  CounterValues values{{"a.qps", 1}};
  EXPECT_THAT(take_failures(values), IsEmpty());
  EXPECT_EQ(values.size(), 1U);
}

}  // namespace
}  // namespace weft::tools
