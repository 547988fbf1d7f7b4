// Identifiers that are the same at every start, paths, and the words for link kinds.
#include <array>
#include <filesystem>

#include "base/fnv.h"
#include "fabric/carrier/curve_keys.h"
#include "tools/topology/topology.h"

namespace weft::tools {
namespace {

/// FNV-1a, then the finaliser of splitmix64, so that similar names differ in all bits.
uint64_t stable_hash(std::string_view fabric, std::string_view node, uint32_t index) noexcept {
  constexpr std::string_view kEnd = "\xFF";  // ends a name, so that "ab", "c" differs from "a", "bc"
  uint64_t hash = kFnvBasis;
  for (const std::string_view part : {fabric, kEnd, node, kEnd}) hash = fnv1a(part, hash);
  hash += index;
  hash = (hash ^ (hash >> 30)) * 0xBF58'476D'1CE4'E5B9;
  hash = (hash ^ (hash >> 27)) * 0x94D0'49BB'1331'11EB;
  return hash ^ (hash >> 31);
}

constexpr std::array<std::string_view, 3> kLinkKinds{"auto", "shm", "zmq"};

}  // namespace

std::string_view to_string(LinkKind kind) noexcept {
  return kLinkKinds[static_cast<size_t>(kind)];
}

std::vector<uint32_t> next_switches(const Topology& topology, uint32_t from) {
  std::vector<uint32_t> next(topology.switches.size(), kNoSwitch);
  std::vector<uint32_t> reached{from};
  for (size_t i = 0; i < reached.size(); ++i) {  // breadth first: the shortest path
    const uint32_t here = reached[i];
    for (const SwitchLink& link : topology.switch_links) {
      if (link.from != here && link.to != here) continue;
      const uint32_t there = link.from == here ? link.to : link.from;
      if (there == from || next[there] != kNoSwitch) continue;
      next[there] = here == from ? there : next[here];
      reached.push_back(there);
    }
  }
  return next;
}

bool is_local_endpoint(std::string_view endpoint) noexcept {
  const bool tcp = endpoint.starts_with("tcp://");
  return endpoint.starts_with("ipc://") || (tcp && !fabric::endpoint_needs_curve(std::string(endpoint)));
}

Guid stable_guid(std::string_view fabric, std::string_view node) noexcept {
  const uint64_t hash = stable_hash(fabric, node, 0);
  return Guid(hash == 0 ? 1 : hash);
}

MacAddress stable_mac(std::string_view fabric, std::string_view node, uint32_t index) noexcept {
  const uint64_t hash = stable_hash(fabric, node, index + 1);
  MacAddress mac{};
  for (size_t i = 0; i < mac.size(); ++i) mac[i] = static_cast<uint8_t>(hash >> (8 * i));
  mac[0] = static_cast<uint8_t>((mac[0] & 0xFC) | 0x02);
  return mac;
}

void resolve_paths(Topology& topology, const std::string& file) {
  const std::filesystem::path base = std::filesystem::absolute(file).parent_path();
  const auto resolve = [&base](std::string& path) {
    if (!path.empty() && path.front() != '/') path = (base / path).lexically_normal();
  };
  resolve(topology.curve_dir);
  for (UnitNode& unit : topology.units) {
    if (unit.nic.kind != node::NicKind::kPcap) continue;
    resolve(unit.nic.argument);
    resolve(unit.nic.output);
  }
}

}  // namespace weft::tools
