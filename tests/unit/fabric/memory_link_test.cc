#include "fabric/link/memory_link.h"

#include <gtest/gtest.h>

#include <map>

#include "fabric/link/faulty_cell_port.h"
#include "fabric/link/link_cell_port.h"
#include "tests/support/test_cells.h"

namespace weft::fabric {
namespace {

struct Profile {
  const char* name;
  uint32_t flit_payload_bytes;
  uint32_t credits;
  bool rereads;
};

/// Two cell ports over one memory cable, driven in virtual time.
class PortPair {
 public:
  PortPair(const Profile& profile, const FlitFaults& faults, uint64_t seed = 1) : random(seed) {
    MemoryCableConfig config;
    for (LinkConfig& end : config.ends) {
      end.cell_payload_bytes = 256;
      end.flit_payload_bytes = profile.flit_payload_bytes;
      end.credits_per_lane = profile.credits;
      end.cut_through = true;
    }
    config.ends[0].guid = Guid(0xA);
    config.ends[1].guid = Guid(0xB);
    config.ends[0].lid = Lid(7);
    config.receiver_rereads = profile.rereads;
    config.faults[0] = config.faults[1] = faults;
    cable = std::make_unique<MemoryCable>(config, random);
    a = std::make_unique<LinkCellPort>(cable->end(0));
    b = std::make_unique<LinkCellPort>(cable->end(1));
    EXPECT_EQ(cable->plug(clock.now()), LinkRefusal::kNone);
  }

  void step(uint32_t to_send) {
    clock.advance(5us);
    for (LinkCellPort* port : {a.get(), b.get()}) port->poll(clock.now());
    for (uint32_t i = 0; i < to_send; ++i) send_next(*a, sent_a);
    if (to_send != 0) send_next(*b, sent_b);
    take(*a, got_a);
    take(*b, got_b);
    for (LinkCellPort* port : {a.get(), b.get()}) port->flush(clock.now());
  }

  void send_next(LinkCellPort& port, std::map<uint32_t, uint32_t>& sent) {
    const VirtualLane vl(static_cast<uint8_t>(random.below(4)));
    test::TestCell want;
    want.vl = vl;
    want.number = sent[vl.value()];
    want.payload_bytes = static_cast<uint32_t>(random.below(257));
    const std::vector<std::byte> cell = test::make_cell(want);
    std::byte* to = port.claim(vl, static_cast<uint32_t>(cell.size()));
    if (to == nullptr) return;
    std::memcpy(to, cell.data(), cell.size());
    port.commit(vl, static_cast<uint32_t>(cell.size()), test::cell_crc(cell));
    ++sent[vl.value()];
  }

  static void take(LinkCellPort& port, std::map<uint32_t, uint32_t>& got) {
    const std::span<const RxCell> cells = port.receive();
    for (const RxCell& cell : cells) {
      CellView view;
      ASSERT_EQ(decode_cell(cell.bytes, CrcCheck::kVerify, view), CellError::kNone);
      EXPECT_EQ(view.psn.value(), got[cell.vl.value()]) << "lane " << int{cell.vl.value()};
      ++got[cell.vl.value()];
    }
    if (!cells.empty()) port.release();
  }

  SeededRandom random;
  ManualClock clock;
  std::unique_ptr<MemoryCable> cable;
  std::unique_ptr<LinkCellPort> a;
  std::unique_ptr<LinkCellPort> b;
  std::map<uint32_t, uint32_t> sent_a, sent_b, got_a, got_b;
};

class MemoryLink : public ::testing::TestWithParam<Profile> {};

INSTANTIATE_TEST_SUITE_P(
    Profiles, MemoryLink,
    ::testing::Values(Profile{"whole", 0, 32, false}, Profile{"whole_reread", 0, 32, true},
                      Profile{"flits96", 96, 32, false}, Profile{"flits96_reread", 96, 32, true},
                      Profile{"one_credit", 0, 1, false}, Profile{"one_credit96", 96, 1, true}),
    [](const auto& param_info) { return std::string(param_info.param.name); });

TEST_P(MemoryLink, every_cell_arrives_once_in_order_per_lane) {
  PortPair pair(GetParam(), {});
  for (int i = 0; i < 2000; ++i) pair.step(5);
  for (int i = 0; i < 200; ++i) pair.step(0);
  EXPECT_EQ(pair.sent_a, pair.got_b);
  EXPECT_EQ(pair.sent_b, pair.got_a);
  EXPECT_GT(pair.sent_a[0], 300U);
  EXPECT_EQ(pair.cable->end(0).unacknowledged(), 0U);
  for (uint8_t lane = 0; lane < 4; ++lane) {
    EXPECT_EQ(pair.cable->end(0).credits(VirtualLane(lane)), GetParam().credits) << int{lane};
  }
}

TEST_P(MemoryLink, flit_faults_cost_nothing_but_time) {
  FlitFaults faults;
  faults.drop_ppm = faults.corrupt_ppm = 30'000;
  faults.duplicate_ppm = faults.reorder_ppm = faults.delay_ppm = 20'000;
  faults.delay_min = 10us;
  faults.delay_max = 200us;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    PortPair pair(GetParam(), faults, seed);
    for (int i = 0; i < 2000; ++i) pair.step(3);
    pair.cable->set_faults(0, {});
    pair.cable->set_faults(1, {});
    for (int i = 0; i < 20000; ++i) pair.step(0);
    EXPECT_EQ(pair.sent_a, pair.got_b);
    EXPECT_EQ(pair.sent_b, pair.got_a);
    EXPECT_GT(pair.sent_a[0], 20U);
    EXPECT_EQ(pair.cable->end(0).incarnation(), 1U);
    EXPECT_EQ(pair.cable->end(1).incarnation(), 1U);
    EXPECT_GT(pair.cable->fault_counts(0).dropped, 10U);
  }
}

}  // namespace
}  // namespace weft::fabric
