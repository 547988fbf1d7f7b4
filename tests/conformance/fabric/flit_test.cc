// SAN-FLIT and SAN-FRAME: how a link carries frames.
#include <gtest/gtest.h>

#include <map>

#include "tests/support/requirement.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

class SanFlit : public OverLinks {
 protected:
  [[nodiscard]] TestFabricConfig flits96(uint32_t nodes = 2, uint32_t credits = 32) const {
    return fabric_of(nodes, kFlitPayloadBytesConformance, credits);
  }
};
class SanFrame : public SanFlit {};
INSTANTIATE_TEST_SUITE_P(Links, SanFlit, kEveryLink, link_name);
INSTANTIATE_TEST_SUITE_P(Links, SanFrame, kEveryLink, link_name);

TEST_P(SanFlit, SAN_FLIT_01_each_hop_has_flits_and_numbers_of_its_own) {
  covers("SAN-FLIT-01");
  TestFabric fabric(flits96(3));
  // Advance the second hop's sequence numbers, so that they differ from the first hop's.
  ASSERT_TRUE(fabric.send(2, TestCell{.payload_bytes = 256}));
  fabric.run(10);
  for (auto& trace : fabric.traces) trace->clear();
  ASSERT_TRUE(fabric.send(0, TestCell{.payload_bytes = 256}));
  fabric.run(10);
  const std::vector<TracedFlit> first_hop = fabric.traces[0]->data(kNode);
  const std::vector<TracedFlit> second_hop = fabric.traces[1]->data(kSwitch);
  ASSERT_EQ(first_hop.size(), 4U);
  ASSERT_EQ(second_hop.size(), 4U);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(first_hop[i].payload, second_hop[i].payload);
    EXPECT_EQ(first_hop[i].fields.sequence, i + 1);
    EXPECT_EQ(second_hop[i].fields.sequence, i + 5);
  }
}

TEST_P(SanFlit, SAN_FLIT_02_credits_count_flits) {
  covers("SAN-FLIT-02");
  TestFabric fabric(flits96(2, 6));
  fabric.freeze(1, true);
  LinkEngine& first_hop = fabric.link(0, kNode);
  LinkEngine& second_hop = fabric.link(1, kSwitch);
  ASSERT_TRUE(fabric.send(0, TestCell{.payload_bytes = 256}));
  EXPECT_EQ(first_hop.credits(VirtualLane(0)), 2U) << "four flits";
  fabric.run(50);
  EXPECT_EQ(first_hop.credits(VirtualLane(0)), 6U) << "the switch passed them on";
  // Every flit costs one credit, however few bytes it carries.
  ASSERT_TRUE(fabric.send(0, TestCell{.payload_bytes = 0, .opcode = Opcode::kAck}));
  EXPECT_EQ(first_hop.credits(VirtualLane(0)), 5U);
  fabric.run(50);
  EXPECT_EQ(second_hop.credits(VirtualLane(0)), 1U) << "4 + 1 of 6 wait at the receiver";
  // One credit and four flits: one flit leaves, and each returned credit lets one more leave.
  ASSERT_TRUE(fabric.send(0, TestCell{.payload_bytes = 256}));
  fabric.run(50);
  EXPECT_EQ(fabric.traces[1]->data(kSwitch).size(), 6U);
  LinkEngine& receiver = fabric.link(1, kNode);
  EXPECT_EQ(receiver.receive().size(), 6U);
  receiver.release();
  for (size_t given_back = 1; given_back <= 3; ++given_back) {
    receiver.grant(VirtualLane(0), 1);
    fabric.run(50);
    EXPECT_EQ(fabric.traces[1]->data(kSwitch).size(), 6 + given_back);
  }
}

TEST_P(SanFlit, SAN_FLIT_03_header_carries_lane_check_size_and_credit) {
  covers("SAN-FLIT-03");
  TestFabric fabric(flits96());
  // Traffic in one direction, so that flits of the other direction have credit of lane 3 to return.
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(fabric.send(1, TestCell{.dlid = Lid(1), .vl = VirtualLane(3), .payload_bytes = 10}));
  }
  fabric.step();
  fabric.step();
  fabric.traces[0]->clear();
  ASSERT_TRUE(fabric.send(0, TestCell{.vl = VirtualLane(2), .payload_bytes = 100}));
  fabric.step();
  const std::vector<TracedFlit> flits = fabric.traces[0]->data(kNode);
  ASSERT_EQ(flits.size(), 2U);
  EXPECT_EQ(flits[0].fields.vl, VirtualLane(2));
  EXPECT_EQ(flits[0].fields.payload_bytes, 96);
  EXPECT_EQ(flits[1].fields.payload_bytes, 32 + 100 + 4 - 96);
  EXPECT_EQ(flits[0].fields.credit_vl, VirtualLane(3));
  EXPECT_EQ(flits[0].fields.credit, 3);
  // The flit's check notices every flipped bit.
  std::vector<std::byte> raw(kFlitHeaderBytes + 96);
  std::copy(flits[0].payload.begin(), flits[0].payload.end(), raw.begin() + kFlitHeaderBytes);
  compose_flit(raw.data(), flits[0].fields, false, 0);
  const FlitProfile profile{96, 4, false};
  FlitView view;
  ASSERT_EQ(decode_flit(raw, profile, view), FlitError::kNone);
  for (size_t bit = 0; bit < raw.size() * 8; ++bit) {
    raw[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(decode_flit(raw, profile, view), FlitError::kNone) << "bit " << bit;
    raw[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

/// The flits that one end refused as damaged, in header or payload.
uint64_t damaged(const LinkEngine& end) {
  uint64_t sum = 0;
  for (const LinkCounter c :
       {LinkCounter::kBadCrc, LinkCounter::kBadCellCrc, LinkCounter::kBadLength, LinkCounter::kTooShort}) {
    sum += end.counters().get(c);
  }
  return sum;
}

TEST_P(SanFlit, SAN_FLIT_04_a_damaged_flit_is_repeated_on_its_hop_only) {
  covers("SAN-FLIT-04");
  for (const uint32_t flit_payload : {0U, kFlitPayloadBytesConformance}) {
    const size_t flits_of_cell = flit_payload == 0 ? 1 : 4;
    TestFabric fabric(fabric_of(2, flit_payload));
    FlitFaults damage;
    damage.corrupt_ppm = 1'000'000;
    fabric.set_faults(1, kSwitch, damage);
    ASSERT_TRUE(fabric.send(0, TestCell{.payload_bytes = 256}));
    fabric.run(2);
    fabric.set_faults(1, kSwitch, {});
    EXPECT_TRUE(fabric.received[1].empty());
    fabric.run(5000);
    ASSERT_EQ(fabric.received[1].size(), 1U);
    EXPECT_GT(fabric.traces[1]->data(kSwitch).size(), flits_of_cell);
    EXPECT_EQ(fabric.traces[0]->data(kNode).size(), flits_of_cell);
    EXPECT_GT(damaged(fabric.link(1, kNode)), 0U);
    EXPECT_EQ(damaged(fabric.link(0, kSwitch)), 0U);
    // The far end acknowledges the flits, so the sender does not keep them.
    EXPECT_EQ(fabric.link(0, kNode).unacknowledged(), 0U);
    EXPECT_EQ(fabric.link(1, kSwitch).unacknowledged(), 0U);
  }
}

TEST_P(SanFlit, SAN_FLIT_04_one_percent_damage_reaches_no_endnode) {
  covers("SAN-FLIT-04");
  TestFabricConfig config = flits96();
  config.faults.corrupt_ppm = 10'000;
  TestFabric fabric(config);
  uint32_t sent = 0;
  for (int turn = 0; turn < 20'000 && sent < 1000; ++turn) {
    if (fabric.send(0, TestCell{.number = sent, .payload_bytes = 256})) ++sent;
    fabric.step();
  }
  for (int turn = 0; turn < 20'000 && fabric.received[1].size() < 1000; ++turn) fabric.step();
  ASSERT_EQ(fabric.received[1].size(), 1000U);
  for (uint32_t i = 0; i < 1000; ++i) EXPECT_EQ(cell_number(fabric.received[1][i]), i);
  EXPECT_GT(fabric.fault_counts(0, kNode).corrupted, 20U);
  EXPECT_EQ(fabric.drops(), 0U);
}

TEST_P(SanFlit, SAN_FLIT_05_one_ack_flit_for_eight) {
  covers("SAN-FLIT-05");
  TestFabric fabric(flits96());
  for (uint32_t i = 0; i < 8; ++i) ASSERT_TRUE(fabric.send(0, TestCell{.number = i, .payload_bytes = 20}));
  fabric.run(100);
  EXPECT_EQ(fabric.traces[0]->count(kNode, FlitKind::kData), 8U);
  EXPECT_EQ(fabric.traces[0]->count(kSwitch), 1U);
  EXPECT_EQ(fabric.traces[0]->count(kSwitch, FlitKind::kAck), 1U);
  EXPECT_EQ(fabric.link(0, kNode).unacknowledged(), 0U);
}

TEST_P(SanFlit, SAN_FLIT_06_contention_slows_and_loses_nothing) {
  covers("SAN-FLIT-06");
  TestFabric fabric(flits96(3));
  std::map<uint32_t, uint32_t> sent;
  std::map<uint32_t, uint32_t> withheld;  // turns in which a sender had no credit
  const auto finished = [&] { return sent[0] == 400 && sent[2] == 400; };
  for (int turn = 0; turn < 4000 && !finished(); ++turn) {
    for (const uint32_t from : {0U, 2U}) {
      if (sent[from] == 400) continue;
      if (fabric.send(from, TestCell{.number = sent[from], .payload_bytes = 256})) ++sent[from];
      if (fabric.link(from, kNode).credits(VirtualLane(0)) == 0) ++withheld[from];
    }
    // The receiver consumes one turn in ten, half of what the two senders offer.
    fabric.freeze(1, turn % 10 != 0);
    fabric.step();
  }
  EXPECT_TRUE(finished());
  fabric.freeze(1, false);
  fabric.run(1000);
  EXPECT_EQ(fabric.received[1].size(), 800U);
  EXPECT_EQ(fabric.drops(), 0U);
  EXPECT_GT(withheld[0], 100U);
  EXPECT_GT(withheld[2], 100U);
  fabric.expect_conserved();
}

TEST(SanFlitPath, SAN_FLIT_07_worked_example) {
  covers("SAN-FLIT-07");
  TestFabric path(two_switches(96));
  // A 512-byte Send: two frames.
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(path.send(0, TestCell{.dlid = Lid(2), .number = i, .payload_bytes = 256}));
  }
  path.run(50, 2us);
  EXPECT_EQ(path.received[1].size(), 2U);
  for (uint32_t link = 0; link < 3; ++link) {
    const uint32_t toward_unit = link == 0 ? 0 : 1;
    EXPECT_EQ(path.traces[link]->count(toward_unit, FlitKind::kData), 8U) << "link " << link;
    EXPECT_EQ(path.traces[link]->count(toward_unit), 8U) << "link " << link;
    EXPECT_EQ(path.traces[link]->count(1 - toward_unit, FlitKind::kAck), 1U) << "link " << link;
    EXPECT_EQ(path.traces[link]->count(1 - toward_unit), 1U) << "link " << link;
    path.traces[link]->clear();
  }
  // One ACK frame for each of them.
  for (uint32_t i = 0; i < 2; ++i) {
    const TestCell ack{.dlid = Lid(1), .number = i, .payload_bytes = 0, .opcode = Opcode::kAck};
    ASSERT_TRUE(path.send(1, ack));
  }
  path.run(50, 2us);
  EXPECT_EQ(path.received[0].size(), 2U);
  for (uint32_t link = 0; link < 3; ++link) {
    const uint32_t toward_host = link == 0 ? 1 : 0;
    EXPECT_EQ(path.traces[link]->count(toward_host, FlitKind::kData), 2U) << "link " << link;
    EXPECT_EQ(path.traces[link]->count(toward_host), 2U) << "link " << link;
    EXPECT_EQ(path.traces[link]->count(1 - toward_host, FlitKind::kAck), 1U) << "link " << link;
    EXPECT_EQ(path.traces[link]->count(1 - toward_host), 1U) << "link " << link;
  }
}

TEST_P(SanFrame, SAN_FRAME_01_no_damaged_frame_is_delivered) {
  covers("SAN-FRAME-01 PUSH-CELL-05");
  // The flit CRC is computed over the damaged bytes, so that only the frame's CRC can notice the damage.
  TestFabric fabric(flits96());
  const std::vector<std::byte> good = make_cell({.payload_bytes = 40});
  for (size_t at = 0; at < good.size(); ++at) {
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte{0x10};
    while (!fabric.send(0, bad)) fabric.step();
    fabric.run(3);
  }
  fabric.run(50);
  EXPECT_TRUE(fabric.received[1].empty());
  EXPECT_TRUE(fabric.received[0].empty());
  const uint64_t caught = fabric.nodes[1]->counters().get(CellPortCounter::kBadCrc) + fabric.drops();
  EXPECT_EQ(caught, good.size());
  ASSERT_TRUE(fabric.send(0, good));
  fabric.run(5);
  EXPECT_EQ(fabric.received[1].size(), 1U);
}

TEST_P(SanFrame, SAN_FRAME_04_an_acknowledgement_is_one_flit) {
  covers("SAN-FRAME-04");
  TestFabric fabric(flits96());
  // Without and with selective blocks; three is the maximum.
  for (const uint32_t blocks : {0U, 1U, 3U}) {
    fabric.traces[0]->clear();
    fabric.traces[1]->clear();
    ASSERT_TRUE(fabric.send(0, TestCell{.payload_bytes = 16 * blocks, .opcode = Opcode::kAck}));
    fabric.run(3);
    EXPECT_EQ(fabric.traces[0]->data(kNode).size(), 1U);
    EXPECT_EQ(fabric.traces[1]->data(kSwitch).size(), 1U);
  }
  EXPECT_EQ(fabric.received[1].size(), 3U);
}

}  // namespace
}  // namespace weft::test
