// fabric/switch/admission.h -- decides which nodes may join a switch, and by which port: the node table of
// the topology. Owns the link engines of the ports. Acceptors (shared memory, ZeroMQ) ask it and give the
// finished carrier to the engine that it names.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/counters.h"
#include "fabric/link/link_engine.h"
#include "fabric/link/link_handshake.h"
#include "fabric/switch/spare_ports.h"
#include "fabric/switch/switch.h"

namespace weft::fabric {

/// One line of the table: an endnode, or a neighbouring switch with the LIDs behind it.
struct NodeEntry {
  std::string name;
  Guid guid;
  Lid lid;                    // kLidNone: a switch
  std::vector<Lid> beyond{};  // of a switch: the LIDs of endnodes reached through it
  bool we_join = false;       // this side connects; a HELLO from that node is refused
  [[nodiscard]] bool is_switch() const noexcept { return lid == kLidNone; }
};

enum class AdmissionCounter : uint8_t {
  kHellos,
  kWelcomed,
  kMalformed,    // not a handshake message
  kForeignUser,  // another uid on a local socket
  kUnknownKey,   // CURVE key that is not in the table
  kSilent,       // connected and sent no HELLO
  kRefusedVersion,
  kRefusedFlitPayload,
  kRefusedCellPayload,
  kRefusedCredits,
  kRefusedLidTaken,
  kRefusedLidInvalid,
  kRefusedNoPort,
  kRefusedNotAllowed,
  kRefusedRate,
  kRefusedNotOwner,
  kRefusedNoLid,
  kCount,
};
[[nodiscard]] constexpr CounterNames<AdmissionCounter> counter_labels(AdmissionCounter /*of*/) noexcept {
  return {"hellos",
          "welcomed",
          "malformed",
          "foreign_user",
          "unknown_key",
          "silent",
          "refused_version",
          "refused_flit_payload",
          "refused_cell_payload",
          "refused_credits",
          "refused_lid_taken",
          "refused_lid_invalid",
          "refused_no_port",
          "refused_not_allowed",
          "refused_rate",
          "refused_not_owner",
          "refused_no_lid"};
}

/// Destination of an admitted node's link.
struct AdmittedLink {
  LinkEngine* engine = nullptr;
  LinkParams params;
  LinkHello welcome;
};

/// Owner: the switch's thread. The cost of a look-up does not depend on the number of nodes.
class Admission {
 public:
  /// Node i gets port i + 1 and its entries in the forwarding table; spare ports follow. Fails when nodes and
  /// spare ports exceed `ports`, or when a name, GUID or LID occurs twice or is out of range.
  static Status check(const std::vector<NodeEntry>& nodes, uint32_t ports, const SpareConfig& spare = {});
  /// `fabric` must outlive the admission's links; call check() first.
  Admission(Switch& fabric, std::vector<NodeEntry> nodes, const LinkTimers& timers = {});
  /// With spare ports. `random` gives the GUIDs. `random` and `store` must outlive the admission.
  Admission(Switch& fabric, std::vector<NodeEntry> nodes, const SpareConfig& spare, RandomSource& random,
            const LinkTimers& timers = {}, LeaseStore* store = nullptr);

  /// Decides about a HELLO and counts the decision. `out` is complete only with LinkRefusal::kNone.
  [[nodiscard]] LinkRefusal admit(const LinkHello& hello, const Joiner& joiner, Takeover takeover,
                                  Instant now, AdmittedLink& out) noexcept;
  /// The node with this GUID; null when the table has none.
  [[nodiscard]] const NodeEntry* find(Guid guid) const noexcept;
  [[nodiscard]] const std::vector<NodeEntry>& nodes() const noexcept { return nodes_; }
  /// Number of ports in use or to be used: those of the nodes, then spare ones.
  [[nodiscard]] size_t links() const noexcept { return nodes_.size() + (spare_ ? spare_->ports() : 0); }
  /// Link of port `index` + 1.
  [[nodiscard]] LinkEngine& engine(size_t index) noexcept {
    return index < nodes_.size() ? *engines_[index] : spare_->engine(index - nodes_.size());
  }
  /// See Switch::links_rest().
  [[nodiscard]] bool links_rest() const noexcept { return fabric_.links_rest(); }
  [[nodiscard]] CounterSet<AdmissionCounter>& counters() noexcept { return counters_; }
  /// The REFUSE message for a refusal.
  [[nodiscard]] LinkHello refusal(const LinkHello& hello, LinkRefusal reason) noexcept;

 private:
  [[nodiscard]] LinkRefusal decide(const LinkHello& hello, Takeover takeover, AdmittedLink& out) noexcept;
  [[nodiscard]] LinkRefusal decide_spare(const LinkHello& hello, const Joiner& joiner, Takeover takeover,
                                         Instant now, AdmittedLink& out) noexcept;

  Switch& fabric_;
  std::vector<NodeEntry> nodes_;
  std::vector<std::unique_ptr<LinkEngine>> engines_;
  std::unordered_map<uint64_t, size_t> by_guid_;
  std::unique_ptr<SparePorts> spare_;
  CounterSet<AdmissionCounter> counters_;
};

}  // namespace weft::fabric
