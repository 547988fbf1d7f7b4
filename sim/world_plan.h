// sim/world_plan.h -- a world as data: what stands where, what flows, what goes wrong and when. Everything
// comes from one seed; the plan is complete before the run begins.
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

/// What a seed is about. kMixed draws one of the others.
enum class Profile : uint8_t {
  kMixed,
  kClean,       // no faults: nothing may be lost at all
  kFlitFaults,  // below the link engine, up to 10 %
  kCellFaults,  // above it, up to 30 %
  kCrashes,     // endnodes and the switch die and return, links are cut
  kPressure,    // slow readers, pools of 4 elements, 1 credit per lane
  kEverything,
  kCount,
};
[[nodiscard]] std::string_view to_string(Profile profile) noexcept;
/// False when the text names no profile.
[[nodiscard]] bool parse_profile(std::string_view text, Profile& out) noexcept;

/// What the traffic is.
enum class Traffic : uint8_t {
  kAny,     // drawn
  kCells,   // cells between link endpoints, no queue pairs
  kRaw,     // queue pairs of all services, straight on the adapters
  kNetdev,  // the split network driver
  kCount,
};
[[nodiscard]] std::string_view to_string(Traffic traffic) noexcept;
[[nodiscard]] bool parse_traffic(std::string_view text, Traffic& out) noexcept;

/// "rc", "uc", "ud", "rd".
[[nodiscard]] std::string_view type_name(adapter::QpType type) noexcept;

/// Bounds of one seed (decisions 5.2).
inline constexpr uint32_t kFramesPerSeedMax = 2000;
inline constexpr uint64_t kFlitsPerSeedMax = 12'000;  // planned, see WorldPlan::flits()
inline constexpr Duration kFaultsEndLatest = std::chrono::milliseconds(2500);
inline constexpr Duration kRecoveryTime = std::chrono::seconds(5);
inline constexpr Duration kDrainTime = std::chrono::seconds(2);

/// Node 0 is the switch; node n is the endnode on link n - 1; the node after the last endnode is a second
/// switch, if there is one.
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

/// Begin and end at the same time: a link reset.
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

/// A node that gets no turn, as under SIGSTOP: its links stay up, its timers pass unseen.
struct Freeze {
  uint32_t node = 0;
  Instant at{};
  Instant until{};
};

struct FabricPlan {
  uint32_t endnodes = 2;
  uint32_t cell_payload_bytes = 1024;
  uint32_t flit_payload_bytes = 0;  // 0: a whole cell per flit
  uint32_t lanes = 4;
  uint32_t credits_per_lane = 32;
  bool cut_through = false;
  bool receiver_rereads = false;  // links like shared memory, or like a wire
  uint32_t far_nodes = 0;         // bit n: endnode n is on a second switch, one link behind the first
  uint32_t second_port = 0;       // this endnode is the second port of the adapter of the one before; 0: none

  [[nodiscard]] uint32_t switches() const noexcept { return far_nodes != 0 ? 2 : 1; }
  /// Links of endnodes, then the one between the switches.
  [[nodiscard]] uint32_t links() const noexcept { return endnodes + switches() - 1; }
  [[nodiscard]] uint32_t nodes() const noexcept { return endnodes + switches(); }
  [[nodiscard]] uint32_t switch_of(uint32_t node) const noexcept { return far_nodes >> node & 1; }
  [[nodiscard]] uint32_t switch_node(uint32_t index) const noexcept {
    return index == 0 ? kSwitchNode : endnodes + index;
  }
  [[nodiscard]] bool is_switch(uint32_t node) const noexcept {
    return node == kSwitchNode || node > endnodes;
  }
  /// The endnode whose adapter an endnode uses.
  [[nodiscard]] uint32_t adapter_of(uint32_t node) const noexcept {
    return node != 0 && node == second_port ? node - 1 : node;
  }
  /// Those that die, freeze and return with a node, itself included, in this order.
  [[nodiscard]] std::vector<uint32_t> nodes_of_adapter(uint32_t node) const {
    const bool shared = second_port != 0 && (node == second_port || node + 1 == second_port);
    if (!shared) return {node};
    return {second_port - 1, second_port};
  }
  /// True when cells between these endnodes use the link.
  [[nodiscard]] bool on_path(uint32_t link, uint32_t node, uint32_t other) const noexcept {
    if (link == endnodes) return switch_of(node) != switch_of(other);
    return link + 1 == node || link + 1 == other;
  }
};

/// Cells from one endnode to another.
struct CellFlowPlan {
  uint32_t from = 1;
  uint32_t to = 2;
  VirtualLane vl{};
  uint32_t cells = 0;
  uint32_t bytes_min = 60;
  uint32_t bytes_max = 60;
  Duration gap{};
};

/// What a raw pair does beside Sends, writes and reads. Edition 4.
struct RawVerbsPlan {
  bool windows =
      false;  // each slot that the peer writes has a window: bound, written, unbound or invalidated
  bool one_shot = false;      // whose key dies with its first operation
  bool revokes = false;       // and is unbound now and then while the write is under way
  bool fenced = false;        // what a read has brought is sent back behind a fence
  bool inline_data = false;   // short messages are copied at the post
  bool drains = false;        // send queues are drained (SQD) and started again
  bool takes_memory = false;  // UC: memory of a message goes while it is sent; SQE, and on again
  [[nodiscard]] bool any() const noexcept {
    return windows || fenced || inline_data || drains || takes_memory;
  }
};

/// Two queue pairs that talk; on one node when both nodes are the same (loopback).
struct RawPairPlan {
  uint32_t nodes[2] = {1, 2};
  adapter::QpType type = adapter::QpType::kRc;
  adapter::AckMode ack_mode = adapter::AckMode::kSelective;
  ServiceLevel sl;
  uint32_t messages[2] = {0, 0};  // from nodes[0], from nodes[1]
  uint32_t bytes_min = 64;
  uint32_t bytes_max = 64;
  uint32_t send_wqes = 16;
  uint32_t recv_wqes = 16;
  uint32_t packet_bytes = 0;
  bool packet_crc = false;
  bool idata_takes_recv_wqe = true;
  bool one_sided = false;     // RDMA writes and reads beside Sends
  Duration gap{};             // between messages
  Duration receiver_pause{};  // a slow receiver posts receive WQEs this much later
  RawVerbsPlan verbs;
};

/// What a host asks of its NIC while frames move.
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
  uint32_t frames[2] = {0, 0};  // from the host, from the unit
  uint32_t bytes_min = 60;
  uint32_t bytes_max = 1514;
  Duration gap{};
  Duration reader_pause[2] = {};  // of the unit's LAN, of the host's OS
  ServiceLevel sl;
  bool force_indicate = false;
  uint32_t pool_elements = 64;
  uint32_t pool_element_bytes = 2048;
  std::vector<ConfigChange> changes{};
  Instant close_at = kNever;  // the host closes the session in good order and opens it again
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
  Duration step_min{};  // virtual time of a busy turn
  Duration step_max{};
  uint32_t skip_ppm = 0;  // a node misses its turn

  /// Nothing goes wrong.
  [[nodiscard]] bool faultless() const noexcept {
    return faults.empty() && cuts.empty() && crashes.empty() && freezes.empty();
  }
  /// When the last fault is over; the start of the world when there is none.
  [[nodiscard]] Instant faults_end() const noexcept;
  /// True when cells on their way from one endnode to another may have been dropped by a switch because what
  /// is behind it moved nothing: a node was frozen or one direction of a link dead.
  [[nodiscard]] bool stood_still(uint32_t from, uint32_t to) const noexcept;
  /// How long a node was frozen between two times.
  [[nodiscard]] Duration frozen(uint32_t node, Instant from, Instant to) const noexcept;
  /// How long, between two times, cells between two endnodes may not have passed although one of them has its
  /// link: a node was frozen or one direction of a link dead, on their path or beside it where lanes back up,
  /// a link on it was cut, or the other's switch was away.
  [[nodiscard]] Duration hindered(uint32_t node, uint32_t other, Instant from, Instant to) const noexcept;
  /// About how many flits the planned traffic takes, without repeats and control traffic.
  [[nodiscard]] uint64_t flits() const noexcept;
};

/// Several lines for people.
[[nodiscard]] std::string describe(const WorldPlan& plan);

}  // namespace weft::sim
