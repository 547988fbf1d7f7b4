// tests/support/test_fabric.h -- one switch and N endnode cell ports in virtual time, over links of any kind:
// memory cables (sim/fabric), shared memory between two ends of one process, ZeroMQ over a Unix socket. The
// latter two come up through the production acceptors and connectors. Over memory cables there may be two
// switches.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "sim/fabric/sim_fabric.h"
#include "tests/support/flit_trace.h"
#include "tests/support/link_probe.h"
#include "tests/support/switch_box.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_cells.h"

namespace weft::test {

enum class LinkKind : uint8_t { kMem, kShm, kZmq, kTcp };  // kZmq: ipc; kTcp: ZeroMQ over loopback
/// The kinds that a row is shown over; tcp is ZeroMQ again.
inline constexpr std::array kLinkKinds{LinkKind::kMem, LinkKind::kShm, LinkKind::kZmq};
[[nodiscard]] std::string to_string(LinkKind kind);
inline void PrintTo(LinkKind kind, std::ostream* out) {
  *out << to_string(kind);
}

/// To be called from SetUp() of a suite over links of kind `kind`.
inline void skip_what_a_sanitizer_misreads([[maybe_unused]] LinkKind kind) {
#if defined(__SANITIZE_THREAD__)
  if (kind == LinkKind::kZmq || kind == LinkKind::kTcp) {
    GTEST_SKIP() << "ZeroMQ's own threads are not instrumented and look like races; any other build runs it";
  }
#endif
}
struct TestFabricConfig {
  LinkKind links = LinkKind::kMem;
  fabric::SwitchConfig switching;
  uint32_t nodes = 2;  // node i has LID i + 1 and sits on port i + 1
  uint64_t seed = 1;
  uint32_t far = 0;                // memory cables only: as in SimFabricConfig
  uint32_t trunks = 0;             // memory cables only: as in SimFabricConfig; their links follow the nodes'
  uint32_t ring_slots = 0;         // memory cables only; 0: as many as links have
  bool receiver_rereads = false;   // memory cables only; see MemoryCableConfig
  uint32_t node_credits = 0;       // memory cables only: of every node, fewer than the switch offers
  uint32_t node_lanes = 0;         // memory cables only: lanes of node 1, fewer than the others have
  bool first_is_a_switch = false;  // memory cables only: node 0 says so, and LID 9 lies behind it
  fabric::FlitFaults faults;       // on every link, both ways
};

/// Node 0 -- switch -- switch -- node 1. Link 2 joins the switches: its end 1 is at the first one.
inline TestFabricConfig two_switches(uint32_t flit_payload_bytes, uint32_t trunks = 1) {
  TestFabricConfig config;
  config.switching = small_switch(flit_payload_bytes);
  config.far = 2;
  config.trunks = trunks;
  return config;
}

/// Base of suites that run over every kind of link:
/// INSTANTIATE_TEST_SUITE_P(Links, Suite, kEveryLink, link_name).
class OverLinks : public ::testing::TestWithParam<LinkKind> {
 protected:
  void SetUp() override { skip_what_a_sanitizer_misreads(GetParam()); }
  /// A fabric over links of the kind under test.
  [[nodiscard]] TestFabricConfig fabric_of(uint32_t nodes, uint32_t flit_payload_bytes = 0,
                                           uint32_t credits = 32) const {
    TestFabricConfig config;
    config.links = GetParam();
    config.switching = small_switch(flit_payload_bytes, credits);
    config.nodes = nodes;
    return config;
  }
};
inline const auto kEveryLink = ::testing::ValuesIn(kLinkKinds);
inline std::string link_name(const ::testing::TestParamInfo<LinkKind>& param_info) {
  return to_string(param_info.param);
}

/// End of a link.
inline constexpr uint32_t kNode = 0;
inline constexpr uint32_t kSwitch = 1;

/// Sends flit `index` of a cell past the cell port: on links with small flits a cell may come piece by piece.
void send_flit(fabric::LinkEngine& from, const std::vector<std::byte>& cell, size_t index);

class TestFabric {
 public:
  explicit TestFabric(const TestFabricConfig& config);
  ~TestFabric();

  /// One turn of everything: nodes, then switches. Frozen nodes leave their cells in their links; lent ones
  /// are polled by whoever has them.
  void step(Duration by = 1us);
  void run(int steps, Duration by = 1us) {
    for (int i = 0; i < steps; ++i) step(by);
  }

  /// Sends if the port has room now.
  bool send(uint32_t node, const std::vector<std::byte>& cell) { return send_cell(*nodes[node], cell); }
  bool send(uint32_t node, TestCell cell) {
    cell.slid = Lid(static_cast<uint16_t>(node + 1));
    return send(node, make_cell(cell));
  }

  /// A memory cable; the one of node `link`, or one between switches.
  [[nodiscard]] fabric::MemoryCable& cable(size_t link) {
    return cables_->cable(static_cast<uint32_t>(link));
  }
  /// One end of the link of node `node`.
  [[nodiscard]] fabric::LinkEngine& link(uint32_t node, uint32_t end);
  void set_faults(uint32_t node, uint32_t from_end, const fabric::FlitFaults& faults);
  [[nodiscard]] const fabric::FaultCounts& fault_counts(uint32_t node, uint32_t from_end) const;

  [[nodiscard]] uint64_t count(uint32_t port, fabric::SwitchPortCounter counter) const {
    return fabric->port(static_cast<fabric::PortNumber>(port)).counters.get(counter);
  }
  [[nodiscard]] uint64_t total(fabric::SwitchPortCounter counter) const;
  [[nodiscard]] uint64_t drops() const;
  /// SAN-NODE-01: no cell is made or swallowed.
  void expect_conserved() const;

  void freeze(uint32_t node, bool on) { nodes_[node].frozen = on; }
  /// The node's port, for an adapter that polls it itself.
  [[nodiscard]] fabric::CellPort& lend(uint32_t node) {
    nodes_[node].lent = true;
    return *nodes[node];
  }

  SeededRandom random;
  ManualClock clock;
  std::vector<std::unique_ptr<FlitTrace>> traces;  // per link
  fabric::Switch* fabric = nullptr;                // the first one
  std::vector<std::unique_ptr<fabric::LinkCellPort>> nodes;
  std::vector<std::vector<std::vector<std::byte>>> received;  // per node, in order

 private:
  struct NodeState {
    bool frozen = false;
    bool lent = false;
  };
  void plug(const TestFabricConfig& config);
  void join(const TestFabricConfig& config);
  void settle();
  void take(size_t node);

  std::vector<NodeState> nodes_;
  std::optional<sim::SimFabric> cables_;
  // Links that are not memory cables, in the order of their making.
  LinkKind kind_;
  bool unsettled_ = false;  // the test has failed: no more waiting
  TempDir dir_;
  std::vector<std::unique_ptr<LinkProbe>> probes_;
  std::optional<SwitchBox> box_;
  std::vector<std::unique_ptr<fabric::LinkConnection>> connections_;
};

}  // namespace weft::test
