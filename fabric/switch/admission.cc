#include "fabric/switch/admission.h"

#include <fmt/format.h>

#include <map>
#include <string_view>

#include "base/log.h"

namespace weft::fabric {
namespace {

constexpr std::array<AdmissionCounter, static_cast<size_t>(LinkRefusal::kCount)> kRefusalCounters{
    AdmissionCounter::kWelcomed,           AdmissionCounter::kRefusedVersion,
    AdmissionCounter::kRefusedFlitPayload, AdmissionCounter::kRefusedCellPayload,
    AdmissionCounter::kRefusedCredits,     AdmissionCounter::kRefusedLidTaken,
    AdmissionCounter::kRefusedLidInvalid,  AdmissionCounter::kRefusedNoPort,
    AdmissionCounter::kRefusedNotAllowed,  AdmissionCounter::kRefusedRate};

/// LIDs that leave by the node's port.
std::vector<Lid> lids_of(const NodeEntry& node) {
  return node.is_switch() ? node.beyond : std::vector<Lid>{node.lid};
}

Error same(std::string_view one, std::string_view other) {
  return Error{fmt::format("nodes {} and {} share a name, GUID or LID", one, other)};
}

}  // namespace

Status Admission::check(const std::vector<NodeEntry>& nodes, uint32_t ports) {
  if (nodes.empty()) return Error{"no node may join: give --node NAME=GUID:LID for each"};
  if (nodes.size() > ports) {
    return Error{
        fmt::format("{} nodes do not fit {} ports: give --ports {}", nodes.size(), ports, nodes.size())};
  }
  std::map<Lid, std::string_view> owners;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NodeEntry& node = nodes[i];
    if (node.guid == Guid{}) return Error{fmt::format("node {}: GUID 0 is no GUID", node.name)};
    for (const Lid lid : lids_of(node)) {
      if (lid == kLidNone || lid.value() > kLidMax) {
        return Error{
            fmt::format("node {}: LID {} is out of range: choose 1 to {}", node.name, lid.value(), kLidMax)};
      }
      const auto [earlier, fresh] = owners.emplace(lid, node.name);
      if (!fresh) return same(earlier->second, node.name);
    }
    for (size_t other = 0; other < i; ++other) {
      if (nodes[other].name == node.name || nodes[other].guid == node.guid)
        return same(nodes[other].name, node.name);
    }
  }
  return {};
}

Admission::Admission(Switch& fabric, std::vector<NodeEntry> nodes, const LinkTimers& timers)
    : fabric_(fabric), nodes_(std::move(nodes)) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const auto port = static_cast<PortNumber>(i + 1);
    engines_.push_back(std::make_unique<LinkEngine>(timers));
    fabric_.attach(port, *engines_.back());
    for (const Lid lid : lids_of(nodes_[i])) fabric_.forwarding().set(lid, port);
  }
}

const NodeEntry* Admission::find(Guid guid) const noexcept {
  for (const NodeEntry& node : nodes_) {
    if (node.guid == guid) return &node;
  }
  return nullptr;
}

LinkRefusal Admission::admit(const LinkHello& hello, Takeover takeover, AdmittedLink& out) noexcept {
  counters_.add(AdmissionCounter::kHellos);
  const LinkRefusal refusal = decide(hello, takeover, out);
  counters_.add(kRefusalCounters[static_cast<size_t>(refusal)]);
  return refusal;
}

LinkRefusal Admission::decide(const LinkHello& hello, Takeover takeover, AdmittedLink& out) noexcept {
  if (hello.kind != LinkMessageKind::kHello) return LinkRefusal::kVersion;
  const NodeEntry* node = find(hello.guid);
  const bool is_switch = (hello.flags & kLinkSwitch) != 0;
  if (node == nullptr || node->we_join || node->is_switch() != is_switch) return LinkRefusal::kNotAllowed;
  if (hello.lid != kLidNone && hello.lid != node->lid) return LinkRefusal::kLidInvalid;
  const auto index = static_cast<size_t>(node - nodes_.data());
  LinkEngine& engine = *engines_[index];
  if (engine.state() == LinkState::kUp && takeover == Takeover::kRefuse) return LinkRefusal::kLidTaken;
  const LinkGrant grant{node->lid, static_cast<uint16_t>(index + 1), fabric_.config().subnet};
  const LinkRefusal refusal = answer_hello(fabric_.link_config(), hello, grant, out.welcome, out.params);
  if (refusal == LinkRefusal::kNone) out.engine = &engine;
  return refusal;
}

LinkHello Admission::refusal(const LinkHello& hello, LinkRefusal reason) noexcept {
  return make_refusal(fabric_.link_config(), hello.boot_nonce, reason);
}

}  // namespace weft::fabric
