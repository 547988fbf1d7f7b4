// The commands about addresses and routes.
#include <infiniband/verbs.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/endian.h"
#include "rdma_cm/command_parts.h"
#include "rdma_cm/commands.h"
#include "rdma_cm/ip_cm.h"

namespace weft::rdma_cm {
namespace {

constexpr uint8_t kRate = 3;                // enum ibv_rate: 10 Gbit/s; it limits nothing
constexpr uint8_t kLifeTime = 14;           // 4.096 us * 2^n
constexpr uint8_t kExactly = 2;             // a path record's selector
constexpr uint32_t kPathFlags = 1 | 2 | 8;  // IB_PATH_GMP, _PRIMARY, _BIDIRECTIONAL

void to_storage(const IpAddress& address, __kernel_sockaddr_storage& storage) noexcept {
  const sockaddr_in6 from = to_sockaddr(address);
  std::memcpy(&storage, &from, sizeof from);
}

/// struct sockaddr_ib, which the installed kernel headers do not define.
struct SockaddrIb {
  uint16_t family{};
  uint16_t pkey{};
  uint32_t flow{};
  uint8_t gid[16]{};
  uint64_t service{};
  uint64_t service_mask{};
  uint64_t scope{};
};

/// A path record in the 64-byte format of InfiniBand's subnet administration.
std::array<uint32_t, 16> pack_path(const ib_user_path_rec& path) noexcept {
  std::array<std::byte, 64> wire{};
  std::memcpy(&wire[8], path.dgid, sizeof path.dgid);
  std::memcpy(&wire[24], path.sgid, sizeof path.sgid);
  std::memcpy(&wire[40], &path.dlid, sizeof path.dlid);
  std::memcpy(&wire[42], &path.slid, sizeof path.slid);
  wire[49] = std::byte{0x81};  // reversible, one path
  std::memcpy(&wire[50], &path.pkey, sizeof path.pkey);
  wire[54] = static_cast<std::byte>(kExactly << 6 | path.mtu);
  wire[55] = static_cast<std::byte>(kExactly << 6 | path.rate);
  wire[56] = static_cast<std::byte>(kExactly << 6 | path.packet_life_time);
  std::array<uint32_t, 16> out{};
  std::memcpy(out.data(), wire.data(), wire.size());
  return out;
}

}  // namespace

// ---- binding --------------------

/// An address of an interface or of this endnode binds the identifier to the device. The wildcard address
/// does not.
int Commands::bind_to(CmId& id, const IpAddress& address) noexcept {
  if (id.state != IdState::kIdle)
    return refuse(EINVAL, "the id has an address already: rdma_bind_addr comes once, before the other calls");
  if (address.family == 0) return EAFNOSUPPORT;
  const bool ours = !address.is_any();
  if (ours && !address.is_loopback() && !address.is_multicast() && !node_.node().owns(address))
    return refuse(EADDRNOTAVAIL,
                  "the address is not one of this endnode or its host; weft devices lists them");
  const int error = node_.bind(id, address);
  if (error == EADDRINUSE) return refuse(error, "another id, or another process of this host, has the port");
  if (error == EADDRNOTAVAIL)
    return refuse(error,
                  "another id, or another process of this host, has the port for this or every address, or "
                  "none is free");
  if (error != 0) return error;
  id.state = IdState::kBound;
  id.on_device = ours;
  return 0;
}

int Commands::bind_ip(Call& call) noexcept {
  return bind_to(*call.id, from_sockaddr(read_body<rdma_ucm_bind_ip>(call.body).addr));
}

/// Addresses of family AF_IB are refused, so that librdmacm uses the commands with IP addresses.
int Commands::bind(Call& call) noexcept {
  return bind_to(*call.id, from_storage(read_body<rdma_ucm_bind>(call.body).addr));
}

int Commands::listen(Call& call) noexcept {
  constexpr uint32_t kBacklogMax = 1024;
  const auto command = read_body<rdma_ucm_listen>(call.body);
  CmId& id = *call.id;
  if (id.state == IdState::kIdle) {
    if (const int error = bind_to(id, {.family = 4}); error != 0) return error;
  }
  if (id.state != IdState::kBound && id.state != IdState::kListening)
    return refuse(EINVAL, "the id connects to a peer; listen with another id, after rdma_bind_addr");
  const bool in_range = command.backlog > 0 && command.backlog < kBacklogMax;
  return node_.listen(id, in_range ? command.backlog : kBacklogMax);
}

// ---- resolving --------------------

int Commands::resolve_to(Call& call, const IpAddress& from, const IpAddress& to,
                         uint32_t timeout_ms) noexcept {
  CmId& id = *call.id;
  if (id.state != IdState::kIdle && id.state != IdState::kBound)
    return refuse(EINVAL,
                  "the id has an address already, listens or is connected; make another id for each peer");
  if (to.family == 0 || (from.family != 0 && from.family != to.family)) return EINVAL;
  if (id.state == IdState::kBound && id.source.family != to.family)
    return refuse(EINVAL, "the id is bound to an address of the other family, IPv4 or IPv6");
  IpAddress target = to;
  if (target.is_any()) target.ip = loopback(to.family).ip;
  IpAddress source = id.state == IdState::kBound ? id.source : from;
  if (source.family == 0 || source.is_any()) {
    const uint16_t port = source.port;
    source = target.is_loopback() || node_.node().owns(target) ? target : node_.node().own(to.family);
    source.port = port;
  }
  if (id.state == IdState::kIdle) {
    if (const int error = bind_to(id, source); error != 0) return error;
  }
  source.port = id.source.port;
  id.source = source;
  id.destination = target;
  id.on_device = true;
  const NodeIdentity self = node_.node().identity();
  if (target.is_multicast()) {  // no endnode has it; a program reaches it by joining
    if (!node_.tell(id, CmEvent::kAddressResolved)) return ENOMEM;
    id.state = IdState::kAddressResolved;
    return 0;
  }
  const MadAddress question{.host = self.host,
                            .ip = target.ip,
                            .family = target.family,
                            .port_space = id.port_space,
                            .port = target.port};
  id.question =
      node_.resolver().ask(call.now, question, self.lid, std::chrono::milliseconds(timeout_ms), id.handle);
  if (id.question == 0) return ENOMEM;
  id.state = IdState::kAddressQuery;
  return 0;
}

int Commands::resolve_ip(Call& call) noexcept {
  const auto command = read_body<rdma_ucm_resolve_ip>(call.body);
  return resolve_to(call, from_sockaddr(command.src_addr), from_sockaddr(command.dst_addr),
                    command.timeout_ms);
}

int Commands::resolve_addr(Call& call) noexcept {
  const auto command = read_body<rdma_ucm_resolve_addr>(call.body);
  return resolve_to(call, from_storage(command.src_addr), from_storage(command.dst_addr), command.timeout_ms);
}

int Commands::resolve_route(Call& call) noexcept {
  return take_route(*call.id);
}

int Commands::take_route(CmId& id) noexcept {
  if (id.state == IdState::kAddressQuery)
    return refuse(EINVAL, "the address is not resolved yet: wait for RDMA_CM_EVENT_ADDR_RESOLVED");
  if (id.state != IdState::kAddressResolved)
    return refuse(EINVAL,
                  "rdma_resolve_addr and RDMA_CM_EVENT_ADDR_RESOLVED come first, and the route only once");
  if (!node_.tell(id, CmEvent::kRouteResolved)) return ENOMEM;
  id.state = IdState::kRouteResolved;
  return 0;
}

// ---- queries --------------------

void Commands::fill_path(const CmId& id, ib_user_path_rec& path) noexcept {
  const NodeIdentity self = node_.node().identity();
  std::copy(id.peer_gid.begin(), id.peer_gid.end(), reinterpret_cast<std::byte*>(path.dgid));
  std::copy(self.gid.begin(), self.gid.end(), reinterpret_cast<std::byte*>(path.sgid));
  path.dlid = to_big(id.peer_lid.value());
  path.slid = to_big(self.lid.value());
  path.reversible = 1;
  path.mtu = self.mtu;
  path.pkey = to_big(kPkeyDefault);
  path.numb_path = 1;
  path.mtu_selector = path.rate_selector = path.packet_life_time_selector = kExactly;
  path.rate = kRate;
  path.packet_life_time = kLifeTime;
}

int Commands::query_route(Call& call) noexcept {
  const auto command = read_body<rdma_ucm_query>(call.body);
  const CmId& id = *call.id;
  rdma_ucm_query_route_resp out{};
  out.src_addr = to_sockaddr(id.source);
  out.dst_addr = to_sockaddr(id.destination);
  if (id.on_device) {
    const NodeIdentity self = node_.node().identity();
    out.node_guid = to_big(self.guid.value());
    out.port_num = self.port;
    out.ibdev_index = self.device_index;
    fill_path(id, out.ib_route[0]);
    out.num_paths = id.has_path() ? 1 : 0;
  }
  answer(command.response, out, call.answer_bytes);
  return 0;
}

int Commands::query(Call& call) noexcept {
  const auto command = read_body<rdma_ucm_query>(call.body);
  const CmId& id = *call.id;
  const NodeIdentity self = node_.node().identity();
  if (command.option == RDMA_USER_CM_QUERY_PATH) {
    struct {  // rdma_ucm_query_path_resp with one path
      uint32_t num_paths;
      uint32_t reserved;
      ib_path_rec_data path;
    } out{};
    if (call.answer_bytes < sizeof(rdma_ucm_query_path_resp)) return ENOSPC;
    ib_user_path_rec path{};
    fill_path(id, path);
    out.num_paths = id.has_path() ? 1 : 0;
    out.path.flags = kPathFlags;
    const std::array<uint32_t, 16> packed = pack_path(path);
    std::copy(packed.begin(), packed.end(), out.path.path_rec);
    answer(command.response, out, call.answer_bytes);
    return 0;
  }
  if (command.option > RDMA_USER_CM_QUERY_GID) return ENOSYS;
  rdma_ucm_query_addr_resp out{};
  if (call.answer_bytes < offsetof(rdma_ucm_query_addr_resp, ibdev_index)) return ENOSPC;
  if (id.on_device) {
    out.node_guid = to_big(self.guid.value());
    out.port_num = self.port;
    out.pkey = to_big(kPkeyDefault);
    out.ibdev_index = self.device_index;
  }
  if (command.option == RDMA_USER_CM_QUERY_ADDR) {
    out.src_size = sockaddr_bytes(id.source);
    out.dst_size = sockaddr_bytes(id.destination);
    to_storage(id.source, out.src_addr);
    to_storage(id.destination, out.dst_addr);
  } else {
    SockaddrIb address{.family = kAfIb, .pkey = out.pkey};
    out.src_size = out.dst_size = sizeof address;
    if (id.on_device) std::memcpy(address.gid, self.gid.data(), sizeof address.gid);
    address.service = to_big(ip_service(id.port_space, id.source.port));
    std::memcpy(&out.src_addr, &address, sizeof address);
    std::memcpy(address.gid, id.peer_gid.data(), sizeof address.gid);
    address.service = to_big(ip_service(id.port_space, id.destination.port));
    std::memcpy(&out.dst_addr, &address, sizeof address);
  }
  answer(command.response, out, call.answer_bytes);
  return 0;
}

}  // namespace weft::rdma_cm
