// Captures of cells in a switch: each cell once for the node that sent it and once for the node it goes to,
// whole and as it was admitted, whatever the flits are; without a capture nothing is copied.
#include "fabric/switch/cell_taps.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "base/capture_set.h"
#include "fabric/switch/live_faults.h"
#include "tests/support/shaped_fabric.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

/// Node 0 sends numbered cells to node 1, by port 1 and port 2.
class CellTapsInASwitch : public ShapedFabric {
 protected:
  CellTapsInASwitch() : captures_(fabric_.fabric->taps().points()) {}

  CaptureRing start(const std::string& port, uint32_t keep = 0) {
    const std::string path = dir_.path() + "/" + port;
    const Status started = captures_.start({path, port, keep, 0, getpid()});
    EXPECT_TRUE(started.ok()) << started.error().text;
    return CaptureRing::open(path).value();
  }
  void send(uint32_t cells) {
    ShapedFabric::send(cells);
    fabric_.run(2000, 10us);
    fabric_.expect_conserved();
  }
  static std::vector<CapturedFrame> frames(CaptureRing& ring) {
    std::vector<CapturedFrame> out;
    for (CapturedFrame frame; ring.read(frame) == CaptureRing::ReadResult::kFrame;) out.push_back(frame);
    return out;
  }

  TempDir dir_;
  CaptureSet captures_;
};

INSTANTIATE_TEST_SUITE_P(Links, CellTapsInASwitch, ShapedFabric::shapes(), ShapedFabric::name_of);

TEST_P(CellTapsInASwitch, sender_and_receiver_see_the_bytes_that_arrive) {
  CaptureRing from = start("1");
  CaptureRing to = start("2");
  CaptureRing other = start("3");
  send(20);
  const std::vector<CapturedFrame> sent = frames(from);
  const std::vector<CapturedFrame> got = frames(to);
  ASSERT_EQ(sent.size(), 20U);
  ASSERT_EQ(got.size(), 20U);
  ASSERT_EQ(fabric_.received[1].size(), 20U);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(sent[i].direction, FrameDirection::kOut);
    EXPECT_EQ(got[i].direction, FrameDirection::kIn);
    EXPECT_EQ(sent[i].port, 0U);
    EXPECT_EQ(got[i].port, 1U);
    EXPECT_EQ(sent[i].data, fabric_.received[1][i]);
    EXPECT_EQ(got[i].data, fabric_.received[1][i]);
  }
  EXPECT_TRUE(frames(other).empty()) << "no cell came from there or went there";
}

TEST_P(CellTapsInASwitch, a_capture_that_has_ended_copies_nothing) {
  CaptureRing from = start("1");
  send(3);
  EXPECT_EQ(frames(from).size(), 3U);
  EXPECT_TRUE(fabric_.fabric->taps().active());
  captures_.stop(dir_.path() + "/1");
  EXPECT_FALSE(fabric_.fabric->taps().active());
  send(3);
  EXPECT_TRUE(frames(from).empty());
  EXPECT_EQ(fabric_.received[1].size(), 6U);
}

TEST_P(CellTapsInASwitch, what_a_fault_drops_was_sent_and_not_received) {
  FaultRule rule;
  rule.port = 2;
  rule.every = 5;
  ASSERT_TRUE(fabric_.fabric->faults().add(rule, fabric_.clock.now()));
  CaptureRing from = start("1");
  CaptureRing to = start("2");
  send(20);
  EXPECT_EQ(frames(from).size(), 20U);
  EXPECT_EQ(frames(to).size(), 16U);
  EXPECT_EQ(fabric_.received[1].size(), 16U);
}

TEST_P(CellTapsInASwitch, only_the_beginning_is_kept_where_no_more_is_wanted) {
  CaptureRing to = start("2", kCellHeaderBytes);
  send(2);
  const std::vector<CapturedFrame> got = frames(to);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].data.size(), kCellHeaderBytes);
  EXPECT_EQ(got[0].frame_bytes, fabric_.received[1][0].size());
}

}  // namespace
}  // namespace weft::test
