// Captures of cells in a switch: each cell once for the node that sent it and once for the node it goes to,
// whole and as it was admitted, whatever the flits are; without a capture nothing is copied.
#include "fabric/switch/cell_taps.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "base/net/capture_set.h"
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

TEST(CellTapsAlone, each_port_is_captured_also_the_last) {
  constexpr PortNumber kPorts = 3;
  CellTaps taps(kPorts);
  CaptureSet captures(taps.points());
  const TempDir dir;
  RxFlit flit;
  const std::vector<std::byte> bytes(kCellHeaderBytes);
  flit.payload = bytes;
  for (PortNumber port = 1; port <= kPorts; ++port) {
    const std::string path = dir.path() + "/" + std::to_string(port);
    ASSERT_TRUE(captures.start({path, std::to_string(port), 0, 0, getpid()}).ok());
    CaptureRing ring = CaptureRing::open(path).value();
    for (uint8_t other = 0; other <= kPorts + 1; ++other) taps.refused(other, flit, "unknown");
    CapturedFrame frame;
    EXPECT_EQ(ring.read(frame), CaptureRing::ReadResult::kFrame) << int{port};
    EXPECT_NE(ring.read(frame), CaptureRing::ReadResult::kFrame) << "of its own cells alone";
    captures.stop(path);
  }
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
  const std::vector<CapturedFrame> sent = frames(from);
  ASSERT_EQ(sent.size(), 20U);
  for (size_t i = 0; i < sent.size(); ++i)
    EXPECT_EQ(sent[i].note, i % 5 == 4 ? "lost here: fault 1 (drop)" : "") << i;
  const std::vector<CapturedFrame> got = frames(to);
  EXPECT_EQ(got.size(), 16U);
  for (const CapturedFrame& each : got) EXPECT_EQ(each.note, "");
  EXPECT_EQ(fabric_.received[1].size(), 16U);
}

/// Its sender takes it back with its last flit: it was never a cell.
TEST_P(CellTapsInASwitch, a_poisoned_cell_is_not_captured) {
  if (GetParam().flit_payload_bytes == 0) return send(1);  // a cell is one flit
  CaptureRing from = start("1");
  CaptureRing to = start("2");
  const std::vector<std::byte> cell = make_cell({.dlid = Lid(2), .slid = Lid(1), .payload_bytes = 200});
  LinkEngine& link = fabric_.link(0, kNode);
  send_flit(link, cell, 0);
  ASSERT_NE(link.claim(VirtualLane(0)), nullptr);
  link.commit({VirtualLane(0), kFlitTail | kFlitPoison, 0, 0});
  fabric_.run(100, 10us);
  EXPECT_TRUE(frames(from).empty());
  EXPECT_TRUE(frames(to).empty());
  send(1);
  EXPECT_EQ(frames(from).size(), 1U);
  EXPECT_EQ(frames(to).size(), 1U);
}

/// A copy that waits in the switch for its output was received by then, as far as a capture goes.
TEST_P(CellTapsInASwitch, a_copy_for_a_group_that_has_to_wait_is_captured_once) {
  if (GetParam().flit_payload_bytes != 0) return send(1);  // groups get cells of one flit
  CaptureRing to = start("2");
  fabric_.freeze(1, true);
  uint32_t sent = 0;
  for (int i = 0; i < 100; ++i) {
    if (fabric_.send(0, TestCell{.dlid = Lid(0xC005), .number = sent})) ++sent;
    fabric_.step(1us);
  }
  ASSERT_GT(fabric_.fabric->cells_held(), 0U) << "copies wait in the switch";
  fabric_.freeze(1, false);
  fabric_.run(2000, 10us);
  EXPECT_GT(fabric_.received[1].size(), 0U);
  EXPECT_EQ(frames(to).size(), fabric_.received[1].size());
}

TEST_P(CellTapsInASwitch, what_else_a_fault_does_is_said_where_it_came_from_and_where_it_goes) {
  const std::pair<FaultKind, const char*> kinds[] = {
      {FaultKind::kDuplicate, "sent on twice from here: fault 1 (duplicate)"},
      {FaultKind::kDelay, "held back here: fault 2 (delay)"},
      {FaultKind::kCut, "lost here: fault 3 (cut)"}};
  CaptureRing from = start("1");
  CaptureRing to = start("2");
  for (const auto& [kind, words] : kinds) {
    FaultRule rule;
    rule.kind = kind;
    rule.port = 2;
    rule.delay_min = rule.delay_max = 10us;
    const auto id = fabric_.fabric->faults().add(rule, fabric_.clock.now());
    ASSERT_TRUE(id.ok()) << id.error().text;
    send(1);
    EXPECT_EQ(frames(from).at(0).note, words);
    const std::vector<CapturedFrame> got = frames(to);
    EXPECT_EQ(got.empty(), kind == FaultKind::kCut);
    for (const CapturedFrame& each : got) EXPECT_EQ(each.note, words);
    fabric_.fabric->faults().remove(id.value());
  }
}

TEST_P(CellTapsInASwitch, a_damaged_cell_says_so) {
  FaultRule rule;
  rule.kind = FaultKind::kCorrupt;
  rule.port = 2;
  ASSERT_TRUE(fabric_.fabric->faults().add(rule, fabric_.clock.now()));
  CaptureRing from = start("1");
  send(1);
  const bool whole = GetParam().flit_payload_bytes == 0;
  EXPECT_EQ(frames(from).at(0).note,
            whole ? "lost here: fault 1 (corrupt)" : "damaged here: fault 1 (corrupt)");
}

TEST_P(CellTapsInASwitch, what_the_switch_refuses_is_in_the_capture_of_its_sender) {
  CaptureRing from = start("1");
  TestCell cell;
  cell.slid = Lid(77);
  cell.payload_bytes = 16;
  ASSERT_TRUE(fabric_.send(0, make_cell(cell)));
  fabric_.run(100, 10us);
  const std::vector<CapturedFrame> sent = frames(from);
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].note, "refused here: drop_foreign_source");
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
