#include "verbs/addresses.h"

#include <cstring>

#include "messages/link_hello.h"
#include "messages/link_local.h"
#include "verbs/process_node.h"

namespace weft::verbs {

ibv_gid own_gid(ProcessNode& node) noexcept {
  const Gid gid = link_local_gid(node.guid());
  ibv_gid out{};
  std::memcpy(out.raw, gid.data(), sizeof out.raw);
  return out;
}

uint16_t pkey_at(ProcessNode& node, size_t index) noexcept {
  const hca::PortState port = node.port();
  if (index == 0 && port.info.pkeys[0] == 0) return kPkeyDefault;
  return index < kLinkPkeysMax ? port.info.pkeys[index] : 0;
}

Gid far_gid(const ibv_gid& gid) noexcept {
  const Gid out = group_gid(gid);
  return is_link_local(out) ? Gid{} : out;
}

Gid group_gid(const ibv_gid& gid) noexcept {
  Gid out;
  std::memcpy(out.data(), gid.raw, sizeof out);
  return out;
}

adapter::AhAttr ah_attr_of(const ibv_ah_attr& attr) noexcept {
  adapter::AhAttr out;
  out.dlid = Lid(attr.dlid);
  out.sl = ServiceLevel(attr.sl);
  out.port = attr.port_num;
  out.is_global = attr.is_global != 0;
  if (!out.is_global) return out;
  std::memcpy(out.route.dgid.data(), attr.grh.dgid.raw, sizeof out.route.dgid);
  out.route.flow_label = attr.grh.flow_label;
  out.route.traffic_class = attr.grh.traffic_class;
  out.route.hop_limit = attr.grh.hop_limit;
  return out;
}

}  // namespace weft::verbs
