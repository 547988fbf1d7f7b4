// SAN-FLIT-07 with adapters at both ends: the cells and ACK frames are those that a Send makes.
#include <gtest/gtest.h>

#include "fabric/link/faulty_cell_port.h"
#include "tests/support/adapter_sides.h"
#include "tests/support/requirement.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

/// Adapters at both ends of two switches. An adapter receives each cell with a delay, so that the link
/// answers
/// the flit before the adapter answers the cell.
class FlitPath final : public AdapterSides {
 public:
  FlitPath() {
    for (const uint32_t node : {0U, 1U}) {
      slow_.push_back(std::make_unique<fabric::FaultyCellPort>(path.lend(node), path.random));
      slow_.back()->set_faults({.delay_ppm = 1'000'000, .delay_min = 100us, .delay_max = 100us});
      add_side(*slow_.back());
    }
  }
  ~FlitPath() override { remove_sides(); }

  TestFabric path{two_switches(96)};

 private:
  [[nodiscard]] Instant now() const override { return path.clock.now(); }
  void pass(Duration) override { path.step(2us); }

  std::vector<std::unique_ptr<fabric::FaultyCellPort>> slow_;
};

TEST(SanFlitPath, SAN_FLIT_07_a_send_of_512_bytes_between_two_adapters) {
  covers("SAN-FLIT-07");
  FlitPath path;
  path.run(100);
  // One acknowledgement for each frame, as in the specification's example.
  const auto qps = path.connect({.ack_mode = AckMode::kStrict});
  path.run(100);
  for (auto& trace : path.path.traces) trace->clear();
  path.side(0).fill(0, 512, 5);
  ASSERT_EQ(path.post_recv(1, *qps[1], 7, {path.side(1).sge(0, 512)}), PostResult::kOk);
  const Sge sge = path.side(0).sge(0, 512);
  ASSERT_EQ(path.side(0).adapter->post_send(*qps[0], {.wr_id = 1, .sges = {&sge, 1}}), PostResult::kOk);
  path.run(400);
  ASSERT_EQ(path.side(0).completions.size(), 1U);
  ASSERT_EQ(path.side(1).completions.size(), 1U);
  EXPECT_EQ(path.side(1).bytes_at(0, 512), path.side(0).bytes_at(0, 512));
  for (uint32_t link = 0; link < 3; ++link) {
    const FlitTrace& trace = *path.path.traces[link];
    const uint32_t to_unit = link == 0 ? 0 : 1;
    EXPECT_EQ(trace.count(to_unit, FlitKind::kData), 8U) << "two frames of four flits, link " << link;
    EXPECT_EQ(trace.count(1 - to_unit, FlitKind::kData), 2U) << "two ACK frames of one flit, link " << link;
    EXPECT_EQ(trace.count(1 - to_unit, FlitKind::kAck), 1U) << "for the eight, link " << link;
    EXPECT_EQ(trace.count(to_unit, FlitKind::kAck), 1U) << "for the two, link " << link;
    EXPECT_EQ(trace.count(0) + trace.count(1), 12U) << "and nothing else, link " << link;
  }
}

}  // namespace
}  // namespace weft::test
