// tests/support/test_fabric.h -- one switch and N endnode cell ports over memory cables, in virtual time.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "fabric/link_cell_port.h"
#include "fabric/memory_link.h"
#include "fabric/switch.h"
#include "tests/support/flit_trace.h"
#include "tests/support/test_cells.h"

namespace weft::test {

struct TestFabricConfig {
  SwitchConfig switching;
  uint32_t nodes = 2;  // node i has LID i + 1 and sits on port i + 1
  uint64_t seed = 1;
  bool receiver_rereads = false;
  FlitFaults faults;                   // on every link, both ways
  std::vector<uint32_t> node_credits;  // per node; empty: as the switch
};

/// Small cells unless told otherwise.
inline SwitchConfig small_switch(uint32_t flit_payload_bytes = 0, uint32_t credits = 32) {
  SwitchConfig config;
  config.ports = 4;
  config.link.guid = Guid(0x5);
  config.link.cell_payload_bytes = 256;
  config.link.flit_payload_bytes = flit_payload_bytes;
  config.link.credits_per_lane = credits;
  return config;
}

/// Sends if the port has room now.
inline bool send_cell(LinkCellPort& port, const std::vector<std::byte>& cell) {
  const VirtualLane vl = peek_vl(cell.data());
  std::byte* to = port.claim(vl, static_cast<uint32_t>(cell.size()));
  if (to == nullptr) return false;
  std::memcpy(to, cell.data(), cell.size());
  port.commit(vl, static_cast<uint32_t>(cell.size()), cell_crc(cell));
  return true;
}

class TestFabric {
 public:
  explicit TestFabric(const TestFabricConfig& config)
      : random(config.seed), fabric(std::make_unique<Switch>(config.switching)) {
    for (uint32_t i = 0; i < config.nodes; ++i) {
      MemoryCableConfig cable;
      cable.ends[0] = cable.ends[1] = config.switching.link;
      cable.ends[0].guid = Guid(0x100 + i);
      cable.ends[0].lid = Lid(static_cast<uint16_t>(i + 1));
      if (i < config.node_credits.size()) cable.ends[0].credits_per_lane = config.node_credits[i];
      cable.receiver_rereads = config.receiver_rereads;
      cable.faults[0] = cable.faults[1] = config.faults;
      traces.push_back(std::make_unique<FlitTrace>(cable.ends[0].flit_payload_bytes == 0));
      cable.observer = traces.back().get();
      cable.grant.port = static_cast<uint16_t>(i + 1);
      cables.push_back(std::make_unique<MemoryCable>(cable, random));
      nodes.push_back(std::make_unique<LinkCellPort>(cables[i]->end(0)));
      received.emplace_back();
      fabric->attach(static_cast<PortNumber>(i + 1), cables[i]->end(1));
      fabric->forwarding().set(Lid(static_cast<uint16_t>(i + 1)), static_cast<PortNumber>(i + 1));
      EXPECT_EQ(cables[i]->plug(clock.now()), LinkRefusal::kNone);
    }
    step();
  }

  /// One turn of everything. `consuming(i)` false leaves node i's cells in its link.
  void step(Duration by = 1us) {
    clock.advance(by);
    for (auto& node : nodes) node->poll(clock.now());
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (!frozen(i)) take(i);
    }
    for (size_t i = 0; i < nodes.size(); ++i) nodes[i]->flush(clock.now());
    fabric->poll(clock.now());
  }
  void run(int steps, Duration by = 1us) {
    for (int i = 0; i < steps; ++i) step(by);
  }

  /// Sends if the port has room now.
  bool send(uint32_t node, const std::vector<std::byte>& cell) { return send_cell(*nodes[node], cell); }
  bool send(uint32_t node, TestCell cell) {
    cell.slid = Lid(static_cast<uint16_t>(node + 1));
    return send(node, make_cell(cell));
  }

  [[nodiscard]] uint64_t count(uint32_t port, SwitchPortCounter counter) const {
    return fabric->port(static_cast<PortNumber>(port)).counters.get(counter);
  }
  [[nodiscard]] uint64_t total(SwitchPortCounter counter) const {
    uint64_t sum = 0;
    for (uint32_t i = 0; i <= fabric->ports(); ++i) sum += count(i, counter);
    return sum;
  }
  [[nodiscard]] uint64_t drops() const {
    uint64_t sum = 0;
    for (auto c = static_cast<size_t>(kFirstDrop); c < static_cast<size_t>(SwitchPortCounter::kCount); ++c) {
      sum += total(static_cast<SwitchPortCounter>(c));
    }
    return sum;
  }
  /// SAN-NODE-01: no cell is made or swallowed.
  void expect_conserved() const {
    EXPECT_EQ(total(SwitchPortCounter::kCellsIn),
              total(SwitchPortCounter::kCellsOut) + drops() + fabric->cells_held());
  }

  void freeze(uint32_t node, bool on) {
    if (frozen_.size() <= node) frozen_.resize(node + 1);
    frozen_[node] = on;
  }
  [[nodiscard]] bool frozen(size_t node) const { return node < frozen_.size() && frozen_[node]; }

  SeededRandom random;
  ManualClock clock;
  std::vector<std::unique_ptr<FlitTrace>> traces;  // per cable; end 0 is the node
  std::vector<std::unique_ptr<MemoryCable>> cables;
  std::unique_ptr<Switch> fabric;
  std::vector<std::unique_ptr<LinkCellPort>> nodes;
  std::vector<std::vector<std::vector<std::byte>>> received;  // per node, in order

 private:
  void take(size_t node) {
    const std::span<const RxCell> cells = nodes[node]->receive();
    for (const RxCell& cell : cells) received[node].emplace_back(cell.bytes.begin(), cell.bytes.end());
    if (!cells.empty()) nodes[node]->release();
  }
  std::vector<bool> frozen_;
};

}  // namespace weft::test
