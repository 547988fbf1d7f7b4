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
    AdmissionCounter::kRefusedNotAllowed,  AdmissionCounter::kRefusedRate,
    AdmissionCounter::kRefusedNotOwner,    AdmissionCounter::kRefusedNoLid};

/// LIDs that are reached by the node's port.
std::vector<Lid> lids_of(const NodeEntry& node) {
  return node.is_switch() ? node.beyond : std::vector<Lid>{node.lid};
}

Error same(std::string_view one, std::string_view other) {
  return Error{fmt::format("nodes {} and {} share a name, GUID or LID", one, other)};
}

}  // namespace

Status Admission::check(const std::vector<NodeEntry>& nodes, uint32_t ports, const SpareConfig& spare) {
  if (nodes.empty() && spare.ports == 0)
    return Error{"no node may join: give --node NAME=GUID:LID for each, or --spare-ports N"};
  if (nodes.size() + spare.ports > ports) {
    return Error{fmt::format("{} nodes{} do not fit {} ports: give --ports {}", nodes.size(),
                             spare.ports == 0 ? "" : fmt::format(" and {} spare ports", spare.ports), ports,
                             nodes.size() + spare.ports)};
  }
  const uint32_t spare_begin = spare.first_lid.value();
  const uint32_t spare_end = spare_begin + spare.lid_count();
  if (spare.ports != 0 && (spare_begin == 0 || spare_end - 1 > kLidMax))
    return Error{fmt::format("spare ports need {} LIDs in a row, from 1 to {}: give --spare-lid FIRST",
                             spare.lid_count(), kLidMax)};
  std::map<Lid, std::string_view> owners;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NodeEntry& node = nodes[i];
    if (node.guid == Guid{}) return Error{fmt::format("node {}: GUID 0 is no GUID", node.name)};
    for (const Lid lid : lids_of(node)) {
      if (lid == kLidNone || lid.value() > kLidMax) {
        return Error{
            fmt::format("node {}: LID {} is out of range: choose 1 to {}", node.name, lid.value(), kLidMax)};
      }
      if (lid.value() >= spare_begin && lid.value() < spare_end) {
        return Error{fmt::format("node {}: LID {} is one of the spare ports' ({} to {})", node.name,
                                 lid.value(), spare_begin, spare_end - 1)};
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
    by_guid_.emplace(nodes_[i].guid.value(), i);
  }
}

Admission::Admission(Switch& fabric, std::vector<NodeEntry> nodes, const SpareConfig& spare,
                     RandomSource& random, const LinkTimers& timers, LeaseStore* store)
    : Admission(fabric, std::move(nodes), timers) {
  const auto first_port = static_cast<PortNumber>(nodes_.size() + 1);
  spare_ = std::make_unique<SparePorts>(fabric, spare, first_port, random, timers, store);
}

const NodeEntry* Admission::find(Guid guid) const noexcept {
  const auto at = by_guid_.find(guid.value());
  return at == by_guid_.end() ? nullptr : &nodes_[at->second];
}

LinkRefusal Admission::admit(const LinkHello& hello, const Joiner& joiner, Takeover takeover, Instant now,
                             AdmittedLink& out) noexcept {
  counters_.add(AdmissionCounter::kHellos);
  const bool any_port = (hello.flags & kLinkAnyPort) != 0;
  const LinkRefusal refusal =
      any_port ? decide_spare(hello, joiner, takeover, now, out) : decide(hello, takeover, out);
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
  const LinkGrant grant{node->lid, static_cast<uint16_t>(index + 1), fabric_.config().subnet, node->guid};
  const LinkRefusal refusal = answer_hello(fabric_.link_config(), hello, grant, out.welcome, out.params);
  if (refusal == LinkRefusal::kNone) out.engine = &engine;
  return refusal;
}

LinkRefusal Admission::decide_spare(const LinkHello& hello, const Joiner& joiner, Takeover takeover,
                                    Instant now, AdmittedLink& out) noexcept {
  if (hello.kind != LinkMessageKind::kHello) return LinkRefusal::kVersion;
  if ((hello.flags & kLinkSwitch) != 0) return LinkRefusal::kNotAllowed;
  if (spare_ == nullptr) return LinkRefusal::kNoPort;
  SparePorts::Choice choice;
  LinkRefusal refusal = spare_->choose(hello, joiner, takeover, now, find(hello.guid) != nullptr, choice);
  if (refusal != LinkRefusal::kNone) return refusal;
  refusal = answer_hello(fabric_.link_config(), hello, choice.grant, out.welcome, out.params);
  if (refusal != LinkRefusal::kNone) return refusal;
  spare_->take(choice, hello, joiner);
  out.engine = choice.engine;
  return LinkRefusal::kNone;
}

LinkHello Admission::refusal(const LinkHello& hello, LinkRefusal reason) noexcept {
  LinkHello out = make_refusal(fabric_.link_config(), hello.boot_nonce, reason);
  if (spare_ != nullptr) out.port = static_cast<uint16_t>(spare_->ports());
  return out;
}

}  // namespace weft::fabric
