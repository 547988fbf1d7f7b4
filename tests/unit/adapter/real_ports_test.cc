// Two adapters in one process, each with two ports, over links of every kind: every way between the four
// ports carries, whichever adapter begins.
#include <gtest/gtest.h>

#include "adapter/adapter.h"
#include "adapter/bring_up.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace adapter;
namespace {

constexpr uint32_t kMessageBytes = 5000;

class RealPorts : public OverLinks {
 protected:
  struct Side {
    explicit Side(uint64_t seed) : random(seed), adapter({.guid = Guid(seed)}, random) {}
    SeededRandom random;
    ChannelAdapter adapter;
    std::vector<std::byte> memory = std::vector<std::byte>(size_t{2} * kMessageBytes);
    PdId pd;
    CompletionQueue* cq = nullptr;
    MemoryRegion region;
    std::vector<WorkCompletion> completions;
  };

  /// Port p of side s is node 2 s + p of the fabric, with the LID after that.
  void SetUp() override {
    OverLinks::SetUp();
    if (IsSkipped()) return;
    fabric = std::make_unique<TestFabric>(fabric_of(4));
    for (uint32_t s = 0; s < 2; ++s) {
      sides[s] = std::make_unique<Side>(s + 1);
      Side& side = *sides[s];
      side.adapter.ports().attach(fabric->lend(2 * s));
      side.adapter.ports().attach(fabric->lend(2 * s + 1));
      side.pd = side.adapter.alloc_pd().value();
      side.cq = side.adapter.cqs().create(64).value();
      side.region = side.adapter.memory().regions.reg_mr(side.pd, side.memory, Access::kLocalWrite).value();
    }
    run(20);
  }
  void TearDown() override { sides = {}; }
  void run(int turns) {
    for (; turns > 0; --turns) {
      for (const std::unique_ptr<Side>& side : sides) {
        side->adapter.poll(fabric->clock.now());
        std::array<WorkCompletion, 8> some;
        const uint32_t count = side->adapter.cqs().poll(*side->cq, some);
        side->completions.insert(side->completions.end(), some.begin(), some.begin() + count);
      }
      fabric->step(20us);
    }
  }
  static Lid lid_of(uint32_t side, uint8_t port) { return Lid(static_cast<uint16_t>(2 * side + port)); }
  /// A queue pair at each end of one way, and a Send over it that arrives.
  void expect_way(uint32_t from, uint8_t from_port, uint8_t to_port) {
    const uint32_t to = 1 - from;
    std::array<QueuePair*, 2> qps{};
    for (const uint32_t s : {from, to})
      qps[s] = sides[s]
                   ->adapter.create_qp({.pd = sides[s]->pd, .send_cq = sides[s]->cq, .recv_cq = sides[s]->cq})
                   .value();
    const std::array<uint8_t, 2> ports{from == 0 ? from_port : to_port, from == 0 ? to_port : from_port};
    for (uint32_t s = 0; s < 2; ++s) {
      const QpAttr attr{.port = ports[s],
                        .dlid = lid_of(1 - s, ports[1 - s]),
                        .dest_qpn = sides[1 - s]->adapter.qpn(*qps[1 - s])};
      ASSERT_EQ(bring_up(sides[s]->adapter, *qps[s], attr), ModifyResult::kOk);
    }
    Side& here = *sides[from];
    Side& there = *sides[to];
    here.completions.clear();
    there.completions.clear();
    for (uint32_t i = 0; i < kMessageBytes; ++i)
      here.memory[i] = static_cast<std::byte>(from_port * 50U + to_port * 100U + i * 7);
    const Sge source{.addr = here.region.addr, .length = kMessageBytes, .lkey = here.region.lkey};
    const Sge into{
        .addr = there.region.addr + kMessageBytes, .length = kMessageBytes, .lkey = there.region.lkey};
    ASSERT_EQ(there.adapter.post_recv(*qps[to], {.wr_id = 1, .sges = {&into, 1}}), PostResult::kOk);
    ASSERT_EQ(here.adapter.post_send(*qps[from], {.wr_id = 2, .sges = {&source, 1}}), PostResult::kOk);
    for (int turn = 0; turn < 50 && (here.completions.empty() || there.completions.empty()); ++turn) run(10);
    ASSERT_EQ(here.completions.size(), 1U);
    ASSERT_EQ(there.completions.size(), 1U);
    EXPECT_EQ(here.completions[0].status, WcStatus::kSuccess);
    EXPECT_EQ(there.completions[0].status, WcStatus::kSuccess);
    EXPECT_EQ(std::memcmp(here.memory.data(), there.memory.data() + kMessageBytes, kMessageBytes), 0);
  }

  std::unique_ptr<TestFabric> fabric;
  std::array<std::unique_ptr<Side>, 2> sides;
};

TEST_P(RealPorts, every_port_of_two_adapters_reaches_every_port_of_the_other) {
  for (const uint32_t from : {0U, 1U}) {
    for (const uint8_t from_port : {uint8_t{1}, uint8_t{2}}) {
      for (const uint8_t to_port : {uint8_t{1}, uint8_t{2}}) {
        SCOPED_TRACE(testing::Message()
                     << "side " << from << " port " << int{from_port} << " to " << int{to_port});
        expect_way(from, from_port, to_port);
      }
    }
  }
  for (uint32_t node = 0; node < 4; ++node)
    EXPECT_GT(fabric->count(node + 1, fabric::SwitchPortCounter::kCellsIn), 0U) << "each by its own link";
}

INSTANTIATE_TEST_SUITE_P(Links, RealPorts, kEveryLink, link_name);

}  // namespace
}  // namespace weft::test
