// sim/plan/world_plan.h -- a world as data: nodes, traffic, faults and their times. Everything is drawn from
// one seed; the plan is complete before the run begins.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "adapter/verbs.h"
#include "base/clock.h"
#include "fabric/link/fault_config.h"
#include "fabric/link/limits.h"
#include "messages/ids.h"
#include "messages/netdev.h"

namespace weft::sim {

/// Theme of a seed. kMixed draws one of the others.
enum class Profile : uint8_t {
  kMixed,
  kClean,       // no faults: nothing may be lost
  kFlitFaults,  // faults below the link engine, up to 10 %
  kCellFaults,  // faults above the link engine, up to 30 %
  kCrashes,     // endnodes and the switch die and come back, links are cut
  kPressure,    // slow readers, pools of 4 elements, 1 credit per lane
  kEverything,
  kCount,
};
[[nodiscard]] std::string_view to_string(Profile profile) noexcept;
/// False when `text` names no profile.
[[nodiscard]] bool parse_profile(std::string_view text, Profile& out) noexcept;

/// Kind of traffic.
enum class Traffic : uint8_t {
  kAny,     // drawn from the seed
  kCells,   // cells between link endpoints, no queue pairs
  kRaw,     // queue pairs of all services directly on the adapters
  kNetdev,  // the split network driver
  kCount,
};
[[nodiscard]] std::string_view to_string(Traffic traffic) noexcept;
[[nodiscard]] bool parse_traffic(std::string_view text, Traffic& out) noexcept;

/// "rc", "uc", "ud", "rd".
[[nodiscard]] std::string_view type_name(adapter::QpType type) noexcept;

/// Limits of one seed (decisions 5.2).
inline constexpr uint32_t kFramesPerSeedMax = 2000;
inline constexpr uint64_t kFlitsPerSeedMax = 12'000;  // of planned traffic, see WorldPlan::flits()
inline constexpr Duration kFaultsEndLatest = std::chrono::milliseconds(2500);
inline constexpr Duration kRecoveryTime = std::chrono::seconds(5);
inline constexpr Duration kDrainTime = std::chrono::seconds(2);

/// Node 0 is the switch and node n the endnode on link n - 1. A second switch, if there is one, is the node
/// after the last endnode.
inline constexpr uint32_t kSwitchNode = 0;

enum class FaultLayer : uint8_t { kFlit, kCell };

struct FaultWindow {
  FaultLayer layer = FaultLayer::kFlit;
  uint32_t link = 0;
  uint32_t from_end =
      0;  // flits: sent by the endnode (0) or the switch (1); cells: always toward the endnode
  fabric::FaultRates rates;
  Instant begin{};
  Instant end{};
};

/// If begin and end are equal, the link is reset.
struct CutWindow {
  uint32_t link = 0;
  Instant begin{};
  Instant end{};
};

struct Crash {
  uint32_t node = 0;
  Instant at{};
  Instant back_at{};
};

/// A node without turns, as under SIGSTOP: its links stay up, and its timers pass unnoticed.
struct Freeze {
  uint32_t node = 0;
  Instant at{};
  Instant until{};
};

struct FabricPlan {
  uint32_t endnodes = 2;
  uint32_t cell_payload_bytes = 1024;
  uint32_t flit_payload_bytes = 0;  // 0: one flit per cell
  uint32_t lanes = 4;
  uint32_t credits_per_lane = 32;
  bool cut_through = false;
  bool receiver_rereads = false;  // true: links like shared memory; false: like a wire
  uint32_t far_nodes = 0;         // bit n: endnode n is at a second switch, one link behind the first
  // Number of an endnode that is the second port of the previous endnode's adapter; 0: none.
  uint32_t second_port = 0;

  [[nodiscard]] uint32_t switches() const noexcept { return far_nodes != 0 ? 2 : 1; }
  /// The links of endnodes, then the one between switches.
  [[nodiscard]] uint32_t links() const noexcept { return endnodes + switches() - 1; }
  [[nodiscard]] uint32_t nodes() const noexcept { return endnodes + switches(); }
  [[nodiscard]] uint32_t switch_of(uint32_t node) const noexcept { return far_nodes >> node & 1; }
  [[nodiscard]] uint32_t switch_node(uint32_t index) const noexcept {
    return index == 0 ? kSwitchNode : endnodes + index;
  }
  [[nodiscard]] bool is_switch(uint32_t node) const noexcept {
    return node == kSwitchNode || node > endnodes;
  }
  /// The nodes at the ends of a link, one bit each.
  [[nodiscard]] uint32_t nodes_of(uint32_t link) const noexcept {
    if (link == endnodes) return 1U << switch_node(0) | 1U << switch_node(1);
    return 1U << (link + 1) | 1U << switch_node(switch_of(link + 1));
  }
  /// The endnode that owns the adapter of an endnode.
  [[nodiscard]] uint32_t adapter_of(uint32_t node) const noexcept {
    return node != 0 && node == second_port ? node - 1 : node;
  }
  /// The endnodes that die, freeze and return together with a node, including it, in this order.
  [[nodiscard]] std::vector<uint32_t> nodes_of_adapter(uint32_t node) const {
    const bool shared = second_port != 0 && (node == second_port || node + 1 == second_port);
    if (!shared) return {node};
    return {second_port - 1, second_port};
  }
  /// True if cells between these endnodes use the link.
  [[nodiscard]] bool on_path(uint32_t link, uint32_t node, uint32_t other) const noexcept {
    if (link == endnodes) return switch_of(node) != switch_of(other);
    return link + 1 == node || link + 1 == other;
  }
};

/// A flow of cells between two endnodes.
struct CellFlowPlan {
  uint32_t from = 1;
  uint32_t to = 2;
  VirtualLane vl{};
  uint32_t cells = 0;
  uint32_t bytes_min = 60;
  uint32_t bytes_max = 60;
  Duration gap{};
};

/// Verbs of a raw pair beside Sends, writes and reads. Edition 4.
struct RawVerbsPlan {
  bool windows =
      false;  // each slot that the peer writes has a window: bound, written, unbound or invalidated
  bool one_shot = false;      // the window's key becomes invalid with its first operation
  bool revokes = false;       // some windows are unbound while the write is under way
  bool fenced = false;        // the data of a read is sent back with a fence
  bool inline_data = false;   // short messages are copied when they are posted
  bool drains = false;        // send queues are drained (SQD) and restarted
  bool takes_memory = false;  // UC: memory is deregistered while its message is sent; SQE, then restart
  [[nodiscard]] bool any() const noexcept {
    return windows || fenced || inline_data || drains || takes_memory;
  }
};

/// Two queue pairs that exchange messages; both on one node if the node numbers are equal (loopback).
struct RawPairPlan {
  uint32_t nodes[2] = {1, 2};
  adapter::QpType type = adapter::QpType::kRc;
  adapter::AckMode ack_mode = adapter::AckMode::kSelective;
  ServiceLevel sl;
  uint32_t messages[2] = {0, 0};  // number from nodes[0] and from nodes[1]
  uint32_t bytes_min = 64;
  uint32_t bytes_max = 64;
  uint32_t send_wqes = 16;
  uint32_t recv_wqes = 16;
  uint32_t packet_bytes = 0;
  bool packet_crc = false;
  bool idata_takes_recv_wqe = true;
  bool one_sided = false;     // RDMA writes and reads beside Sends
  Duration gap{};             // time between messages
  Duration receiver_pause{};  // a slow receiver posts receive WQEs this much later
  RawVerbsPlan verbs;
};

/// A request of a host to its NIC while frames move.
enum class ConfigChangeKind : uint8_t {
  kMtu,
  kMac,
  kPromiscuous,
  kMulticast,
  kFeatures,
  kReadStatistics,
  kClearStatistics,
};
inline constexpr uint32_t kConfigChangeKinds = 7;

struct ConfigChange {
  Instant at{};
  ConfigChangeKind kind{};
};

struct SessionPlan {
  uint32_t host_node = 1;
  uint32_t unit_node = 2;
  TransferMode mode = TransferMode::kRdma;
  MessageEncoding encoding = MessageEncoding::kCapnp;
  uint32_t frames[2] = {0, 0};  // number from the host and from the unit
  uint32_t bytes_min = 60;
  uint32_t bytes_max = 1514;
  Duration gap{};
  Duration reader_pause[2] = {};  // of the unit's LAN and of the host's OS
  ServiceLevel sl;
  bool force_indicate = false;
  uint32_t pool_elements = 64;
  uint32_t pool_element_bytes = 2048;
  std::vector<ConfigChange> changes{};
  Instant close_at = kNever;  // the host closes the session in an orderly way and opens it again
};

struct WorldPlan {
  uint64_t seed = 0;
  Profile profile = Profile::kMixed;
  Traffic traffic = Traffic::kAny;
  FabricPlan fabric;
  std::vector<CellFlowPlan> cell_flows;
  std::vector<RawPairPlan> raw_pairs;
  std::vector<SessionPlan> sessions;
  std::vector<FaultWindow> faults;
  std::vector<CutWindow> cuts;
  std::vector<Crash> crashes;
  std::vector<Freeze> freezes;
  Duration step_min{};  // virtual time of a turn with work
  Duration step_max{};
  uint32_t skip_ppm = 0;  // probability that a node misses its turn

  /// True if the plan has no faults.
  [[nodiscard]] bool faultless() const noexcept {
    return faults.empty() && cuts.empty() && crashes.empty() && freezes.empty();
  }
  /// End of the last fault; the start of the world when there is none.
  [[nodiscard]] Instant faults_end() const noexcept;
  /// True if a switch may have dropped cells between these endnodes because the output behind it moved
  /// nothing: a node was frozen, or one direction of a link was dead.
  [[nodiscard]] bool stood_still(uint32_t from, uint32_t to) const noexcept;
  /// For how long between two times the node was frozen.
  [[nodiscard]] Duration frozen(uint32_t node, Instant from, Instant to) const noexcept;
  /// For how long between two times cells between two endnodes may have been held up although `node` has its
  /// link. Reasons: a frozen node or a dead direction of a link, on their path or where lanes back up beside
  /// it; a cut link on the path; a dead switch of the other endnode.
  [[nodiscard]] Duration hindered(uint32_t node, uint32_t other, Instant from, Instant to) const noexcept;
  /// Estimated number of flits of the planned traffic, without repeats and control traffic.
  [[nodiscard]] uint64_t flits() const noexcept;
};

/// Several lines of text.
[[nodiscard]] std::string describe(const WorldPlan& plan);

}  // namespace weft::sim
