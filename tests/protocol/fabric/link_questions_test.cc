// When a link end asks its peer for news, by the kind of carrier: some lose flits, others keep them all.
#include <gtest/gtest.h>

#include "tests/support/script_carrier.h"
#include "tests/support/test_cells.h"

namespace weft::test {
using namespace fabric;
namespace {

class LinkQuestions : public ::testing::TestWithParam<bool> {
 protected:
  LinkQuestions() {
    auto owned = std::make_unique<ScriptCarrier>();
    carrier = owned.get();
    carrier->keeps = GetParam();
    engine.bring_up(std::move(owned), ScriptCarrier::params(true), now);
  }
  bool send(VirtualLane vl) {
    const std::vector<std::byte> cell = make_cell({.vl = vl, .payload_bytes = 8});
    std::byte* const to = engine.claim(vl);
    if (to == nullptr) return false;
    std::memcpy(to, cell.data(), cell.size());
    engine.commit({vl, kFlitHead | kFlitTail, static_cast<uint32_t>(cell.size()), cell_crc(cell)});
    return true;
  }
  /// The peer acknowledges its first `number` flits and gives no credit.
  void acknowledge(uint16_t number) {
    std::vector<std::byte> flit(kFlitHeaderBytes);
    compose_flit(flit.data(), {.kind = FlitKind::kAck, .acknowledged = number}, true, 0);
    carrier->arrive(std::move(flit));
    engine.poll(now);
    EXPECT_TRUE(engine.receive().empty());
    engine.flush(now);
  }
  uint64_t questions() const { return engine.counters().get(LinkCounter::kProbesSent); }

  LinkEngine engine;
  ScriptCarrier* carrier = nullptr;
  Instant now{};
};

INSTANTIATE_TEST_SUITE_P(Carriers, LinkQuestions, ::testing::Bool(), [](const auto& param_info) {
  return std::string(param_info.param ? "keeps_all" : "loses");
});

/// News of other lanes show that the peer lives. Then the credit of the starved lane may have been lost on
/// the way, so the next question comes soon. A carrier that keeps all flits has not lost it.
TEST_P(LinkQuestions, news_of_another_lane_hasten_the_question_only_where_flits_get_lost) {
  const LinkTimers timers;
  while (send(VirtualLane(1))) engine.flush(now);
  engine.poll(now);
  while (questions() < 40) {
    now = engine.deadline();
    engine.poll(now);
    carrier->take_sent();
  }
  ASSERT_EQ(engine.deadline() - now, timers.probe_max);
  acknowledge(1);
  EXPECT_EQ(engine.deadline() - now, GetParam() ? timers.probe_max : timers.probe_first);
}

}  // namespace
}  // namespace weft::test
