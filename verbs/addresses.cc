#include "verbs/addresses.h"

#include <cstring>

#include "base/endian.h"
#include "messages/link_hello.h"
#include "messages/link_local.h"
#include "messages/multicast.h"
#include "rdma_cm/node_addresses.h"
#include "verbs/process/process_node.h"

namespace weft::verbs {

namespace {

constexpr int kRoceAddresses = 3;
constexpr int kRoceVersions = 2;
/// Programs that request no particular flow label set all bits of the field, beyond the 20 that it has (UCX).
constexpr uint32_t kFlowLabelMask = 0xF'FFFF;
constexpr size_t kLidAt = sizeof(Gid) - sizeof(uint16_t);

/// Interface identifier made from the MAC address 02:57:45:46:LID.
Gid mac_gid(Lid lid) noexcept {
  Gid out{};
  store_be(out.data(), kLinkLocalPrefix);
  store_be(&out[8], uint64_t{0x0057'45FF'FE46'0000} | lid.value());
  return out;
}

Gid mapped_ipv4(Lid lid) noexcept {
  Gid out = rdma_cm::ipv4_of(lid).ip;
  out[10] = out[11] = std::byte{0xFF};
  return out;
}

Gid roce_gid(Lid lid, int address) noexcept {
  if (address == 0) return mac_gid(lid);
  return address == 1 ? mapped_ipv4(lid) : rdma_cm::ipv6_of(lid).ip;
}

}  // namespace

int gid_count(const ProcessNode& node) noexcept {
  return node.settings().roce ? kRoceAddresses * kRoceVersions : 1;
}

ibv_gid gid_at(ProcessNode& node, uint8_t port, int index) noexcept {
  const Guid guid = port == 1 ? node.guid() : node.port(port).info.guid;
  const Gid gid =
      node.settings().roce ? roce_gid(node.port(port).info.lid, index / kRoceVersions) : link_local_gid(guid);
  ibv_gid out{};
  std::memcpy(out.raw, gid.data(), sizeof out.raw);
  return out;
}

ibv_gid_type gid_type_at(const ProcessNode& node, int index) noexcept {
  if (!node.settings().roce) return IBV_GID_TYPE_IB;
  return index % kRoceVersions == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
}

Lid roce_lid(const Gid& gid) noexcept {
  for (int address = 0; address < kRoceAddresses; ++address) {
    if (std::memcmp(gid.data(), roce_gid(kLidNone, address).data(), kLidAt) == 0)
      return Lid(load_be<uint16_t>(&gid[kLidAt]));
  }
  return kLidNone;
}

Lid dlid_of(const ibv_ah_attr& attr) noexcept {
  const Lid named = attr.is_global != 0 ? roce_lid(group_gid(attr.grh.dgid)) : kLidNone;
  return named != kLidNone ? named : Lid(attr.dlid);
}

Lid group_lid(const Gid& group, uint16_t lid, bool roce) noexcept {
  return roce && is_multicast(group) ? multicast_lid(group) : Lid(lid);
}

uint16_t pkey_at(ProcessNode& node, uint8_t port, size_t index) noexcept {
  const hca::PortState state = node.port(port);
  if (index == 0 && state.info.pkeys[0] == 0) return kPkeyDefault;
  return index < kLinkPkeysMax ? state.info.pkeys[index] : 0;
}

Gid far_gid(const ibv_gid& gid) noexcept {
  const Gid out = group_gid(gid);
  return is_link_local(out) || roce_lid(out) != kLidNone ? Gid{} : out;
}

Gid group_gid(const ibv_gid& gid) noexcept {
  Gid out;
  std::memcpy(out.data(), gid.raw, sizeof out);
  return out;
}

bool has_source(const ibv_ah_attr& way, int gids) noexcept {
  return way.is_global == 0 || way.grh.sgid_index < gids;
}

adapter::AhAttr ah_attr_of(const ibv_ah_attr& attr, bool roce) noexcept {
  adapter::AhAttr out;
  const Gid gid = attr.is_global != 0 ? group_gid(attr.grh.dgid) : Gid{};
  out.dlid = is_multicast(gid) ? group_lid(gid, attr.dlid, roce) : dlid_of(attr);
  out.sl = ServiceLevel(attr.sl);
  out.port = attr.port_num;
  out.is_global = attr.is_global != 0;
  if (!out.is_global) return out;
  std::memcpy(out.route.dgid.data(), attr.grh.dgid.raw, sizeof out.route.dgid);
  out.route.flow_label = attr.grh.flow_label & kFlowLabelMask;
  out.route.traffic_class = attr.grh.traffic_class;
  out.route.hop_limit = attr.grh.hop_limit;
  return out;
}

}  // namespace weft::verbs
