// Counters in the text format of Prometheus.
#include "tools/show/prometheus_text.h"

#include <gtest/gtest.h>

namespace weft::tools {
namespace {

TEST(PrometheusText, lines_of_a_metric_are_together_behind_their_type) {
  const CounterValues values{{"h1.link.up", 1},
                             {"h1.link.vl.0.flits_sent", 7},
                             {"s1.port.2.link.vl.0.credits", 256},
                             {"s1.port.2.link.vl.0.flits_sent", 18'446'744'073'709'551'615U}};
  EXPECT_EQ(prometheus_text(values, {"h1", "s1"}),
            "# TYPE weft_credits gauge\n"
            "weft_credits{node=\"s1\",place=\"port.2.link.vl.0\"} 256\n"
            "# TYPE weft_flits_sent_total counter\n"
            "weft_flits_sent_total{node=\"h1\",place=\"link.vl.0\"} 7\n"
            "weft_flits_sent_total{node=\"s1\",place=\"port.2.link.vl.0\"} 18446744073709551615\n"
            "# TYPE weft_up gauge\n"
            "weft_up{node=\"h1\",place=\"link\"} 1\n");
}

TEST(PrometheusText, what_identifies_is_no_measure) {
  EXPECT_EQ(prometheus_text({{"alice.node.guid", 42}, {"alice.node.guid.2", 43}, {"alice.qp.0.number", 5}},
                            {"alice"}),
            "");
  EXPECT_EQ(prometheus_text({}, {}), "");
}

/// A counter and a gauge of one name would be one metric of two types.
TEST(PrometheusText, a_word_may_be_a_counter_here_and_a_gauge_there) {
  const std::string text =
      prometheus_text({{"h1.adapter.held", 1}, {"h1.unit.2.session.now.state", 3}}, {"h1"});
  EXPECT_NE(text.find("# TYPE weft_held_total counter\n"), std::string::npos) << text;
  EXPECT_NE(text.find("# TYPE weft_state gauge\n"), std::string::npos) << text;
}

TEST(PrometheusText, names_of_nodes_may_have_dots_and_every_label_is_quoted) {
  EXPECT_EQ(prometheus_text({{"a.b.loop.turns", 1}, {"a.loop.turns", 2}}, {"a", "a.b"}),
            "# TYPE weft_turns_total counter\n"
            "weft_turns_total{node=\"a.b\",place=\"loop\"} 1\n"
            "weft_turns_total{node=\"a\",place=\"loop\"} 2\n");
  EXPECT_EQ(prometheus_text({{"x.a\"b\\c.odd-word", 1}}, {"x"}),
            "# TYPE weft_odd_word_total counter\nweft_odd_word_total{node=\"x\",place=\"a\\\"b\\\\c\"} 1\n");
  EXPECT_EQ(prometheus_text({{"x.qps", 1}}, {"x"}),
            "# TYPE weft_qps gauge\nweft_qps{node=\"x\",place=\"\"} 1\n");
}

}  // namespace
}  // namespace weft::tools
