// How it works. A table gives each command's name, its minimum length, the room for its answer and the offset
// of its identifier. execute() checks these once, so the handlers are short.
#include "rdma_cm/commands.h"

#include <infiniband/verbs.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "messages/multicast.h"
#include "rdma_cm/command_parts.h"
#include "rdma_cm/event_content.h"
#include "rdma_cm/ip_cm.h"

namespace weft::rdma_cm {

namespace {

/// rdma_ucm_write_cm_event of newer kernels, with the parameters that are used.
struct WriteCmEvent {
  uint32_t id;
  uint32_t reserved;
  uint32_t event;
  uint32_t status;
  uint64_t argument;
};

}  // namespace

std::span<const Commands::Row> Commands::rows() noexcept {  // tidy: table
  static constexpr std::array<Row, 25> kRows{{
      {"CREATE_ID", sizeof(rdma_ucm_create_id), sizeof(rdma_ucm_create_id_resp), kNoId, &Commands::create_id},
      {"DESTROY_ID", sizeof(rdma_ucm_destroy_id), sizeof(rdma_ucm_destroy_id_resp),
       offsetof(rdma_ucm_destroy_id, id), &Commands::destroy_id},
      {"BIND_IP", sizeof(rdma_ucm_bind_ip), 0, offsetof(rdma_ucm_bind_ip, id), &Commands::bind_ip},
      {"RESOLVE_IP", sizeof(rdma_ucm_resolve_ip), 0, offsetof(rdma_ucm_resolve_ip, id),
       &Commands::resolve_ip},
      {"RESOLVE_ROUTE", sizeof(rdma_ucm_resolve_route), 0, offsetof(rdma_ucm_resolve_route, id),
       &Commands::resolve_route},
      {"QUERY_ROUTE", sizeof(rdma_ucm_query), offsetof(rdma_ucm_query_route_resp, ibdev_index),
       offsetof(rdma_ucm_query, id), &Commands::query_route},
      {"CONNECT", offsetof(rdma_ucm_connect, ece), 0, offsetof(rdma_ucm_connect, id), &Commands::connect},
      {"LISTEN", sizeof(rdma_ucm_listen), 0, offsetof(rdma_ucm_listen, id), &Commands::listen},
      {"ACCEPT", offsetof(rdma_ucm_accept, ece), 0, offsetof(rdma_ucm_accept, id), &Commands::accept},
      {"REJECT", sizeof(rdma_ucm_reject), 0, offsetof(rdma_ucm_reject, id), &Commands::reject},
      {"DISCONNECT", sizeof(rdma_ucm_disconnect), 0, offsetof(rdma_ucm_disconnect, id),
       &Commands::disconnect},
      {"INIT_QP_ATTR", sizeof(rdma_ucm_init_qp_attr), sizeof(ib_uverbs_qp_attr),
       offsetof(rdma_ucm_init_qp_attr, id), &Commands::init_qp_attr},
      {"GET_EVENT", sizeof(rdma_ucm_get_event), offsetof(rdma_ucm_event_resp, reserved), kNoId,
       &Commands::get_event},
      {"GET_OPTION", 0, 0, kNoId, &Commands::get_option},
      {"SET_OPTION", sizeof(rdma_ucm_set_option), 0, offsetof(rdma_ucm_set_option, id),
       &Commands::set_option},
      {"NOTIFY", sizeof(rdma_ucm_notify), 0, offsetof(rdma_ucm_notify, id), &Commands::notify},
      {"JOIN_IP_MCAST", sizeof(rdma_ucm_join_ip_mcast), sizeof(rdma_ucm_create_id_resp),
       offsetof(rdma_ucm_join_ip_mcast, id), &Commands::join_ip_mcast},
      {"LEAVE_MCAST", sizeof(rdma_ucm_destroy_id), sizeof(rdma_ucm_destroy_id_resp), kNoId,
       &Commands::leave_mcast},
      {"MIGRATE_ID", sizeof(rdma_ucm_migrate_id), sizeof(rdma_ucm_migrate_resp), kNoId,
       &Commands::migrate_id},
      {"QUERY", sizeof(rdma_ucm_query), 0, offsetof(rdma_ucm_query, id), &Commands::query},
      {"BIND", sizeof(rdma_ucm_bind), 0, offsetof(rdma_ucm_bind, id), &Commands::bind},
      {"RESOLVE_ADDR", sizeof(rdma_ucm_resolve_addr), 0, offsetof(rdma_ucm_resolve_addr, id),
       &Commands::resolve_addr},
      {"JOIN_MCAST", sizeof(rdma_ucm_join_mcast), sizeof(rdma_ucm_create_id_resp),
       offsetof(rdma_ucm_join_mcast, id), &Commands::join_mcast},
      {"RESOLVE_IB_SERVICE", sizeof(uint32_t), 0, 0, &Commands::resolve_ib_service},
      {"WRITE_CM_EVENT", sizeof(WriteCmEvent), 0, offsetof(WriteCmEvent, id), &Commands::write_cm_event},
  }};
  return kRows;
}

const char* command_name(uint32_t number) noexcept {
  return number < Commands::rows().size() ? Commands::rows()[number].name : "?";
}

bool Commands::asks_for_event(std::span<const std::byte> command) noexcept {
  return command.size() >= sizeof(rdma_ucm_cmd_hdr) &&
         read_body<rdma_ucm_cmd_hdr>(command).cmd == RDMA_USER_CM_CMD_GET_EVENT;
}

bool Commands::is_probe(std::span<const std::byte> command) noexcept {
  if (command.size() < sizeof(rdma_ucm_cmd_hdr) + sizeof(rdma_ucm_bind)) return false;
  return read_body<rdma_ucm_cmd_hdr>(command).cmd == RDMA_USER_CM_CMD_BIND &&
         read_body<rdma_ucm_bind>(command.subspan(sizeof(rdma_ucm_cmd_hdr))).addr.ss_family == kAfIb;
}

int Commands::execute(Instant now, CmFile& file, std::span<const std::byte> command) noexcept {
  const auto refused = [this](int error) {
    if (error != EAGAIN) counters_.add(error == 0 ? CommandCounter::kDone : CommandCounter::kRefused);
    return error;
  };
  why_ = {};
  destroyed_ = {};
  if (command.size() < sizeof(rdma_ucm_cmd_hdr)) return refused(EINVAL);
  const auto header = read_body<rdma_ucm_cmd_hdr>(command);
  const std::span<const std::byte> body = command.subspan(sizeof header);
  if (header.cmd >= rows().size() || header.in > body.size()) return refused(EINVAL);
  const Row& row = rows()[header.cmd];
  if (header.in < row.body_bytes) return refused(EINVAL);
  if (header.out < row.answer_bytes) return refused(ENOSPC);
  Call call{.now = now, .file = file, .body = body.first(header.in), .answer_bytes = header.out};
  if (row.id_at != kNoId) {
    call.id = node_.ids().find(file, read_body<uint32_t>(body.subspan(row.id_at)));
    if (call.id == nullptr)
      return refused(
          refuse(ENOENT, "no such id at this event channel: it was destroyed, or has another channel"));
  }
  return refused((this->*row.handler)(call));
}

// ---- identifiers and events --------------------

int Commands::create_id(Call& call) noexcept {
  const auto command = read_body<rdma_ucm_create_id>(call.body);
  uint8_t qp_type = command.qp_type;
  switch (command.ps) {
    case RDMA_PS_TCP:
      qp_type = IBV_QPT_RC;
      break;
    case RDMA_PS_UDP:
    case RDMA_PS_IPOIB:
      qp_type = IBV_QPT_UD;
      break;
    case RDMA_PS_IB:
      break;
    default:
      return EINVAL;
  }
  CmId* id = node_.ids().create(call.file, command.ps, qp_type);
  if (id == nullptr) return ENOMEM;
  id->uid = command.uid;
  answer(command.response, rdma_ucm_create_id_resp{.id = id->handle});
  return 0;
}

int Commands::destroy_id(Call& call) noexcept {
  const auto command = read_body<rdma_ucm_destroy_id>(call.body);
  const uint64_t uid = call.id->uid;
  destroyed_ = {.uid = uid, .events = node_.destroy(call.now, *call.id)};
  answer(command.response, rdma_ucm_destroy_id_resp{.events_reported = destroyed_.events});
  return 0;
}

int Commands::get_event(Call& call) noexcept {
  const auto command = read_body<rdma_ucm_get_event>(call.body);
  QueuedEvent event;
  if (!node_.ids().pop(call.file, event)) return EAGAIN;
  if (event.request != nullptr) ++event.id->backlog;
  ++event.id->events_reported;
  if (event.group != nullptr) ++event.group->events_reported;
  answer(command.response, event.content, call.answer_bytes);
  counters_.add(CommandCounter::kEvents);
  return 0;
}

int Commands::migrate_id(Call& call) noexcept {
  const auto command = read_body<rdma_ucm_migrate_id>(call.body);
  CmFile* from = node_.file_of(static_cast<int>(command.fd));
  if (from == nullptr) return ENOENT;
  CmId* id = node_.ids().find(*from, command.id);
  if (id == nullptr) return ENOENT;
  const int moved = from != &call.file ? node_.ids().migrate(*id, call.file) : 0;
  if (moved != 0) return moved;
  answer(command.response, rdma_ucm_migrate_resp{.events_reported = id->events_reported});
  return 0;
}

// ---- options --------------------

int Commands::get_option(Call& /*call*/) noexcept {
  return ENOSYS;  // as in the kernel
}

int Commands::set_option(Call& call) noexcept {
  const auto command = read_body<rdma_ucm_set_option>(call.body);
  if (command.level == RDMA_OPTION_IB && command.optname == RDMA_OPTION_IB_PATH) return take_route(*call.id);
  if (command.level != RDMA_OPTION_ID) return ENOSYS;
  const bool byte = command.optname == RDMA_OPTION_ID_TOS || command.optname == RDMA_OPTION_ID_ACK_TIMEOUT;
  if (command.optlen != (byte ? sizeof(uint8_t) : sizeof(int))) return EINVAL;
  int value = 0;
  std::memcpy(&value, reinterpret_cast<const void*>(command.optval),  // NOLINT(performance-no-int-to-ptr)
              command.optlen);
  switch (command.optname) {
    case RDMA_OPTION_ID_TOS:
      return 0;  // there is one service level
    case RDMA_OPTION_ID_REUSEADDR:
      if (call.id->state != IdState::kIdle && (value == 0 || call.id->state == IdState::kListening))
        return EINVAL;
      call.id->reuse_address = value != 0;
      return 0;
    case RDMA_OPTION_ID_AFONLY:
      if (call.id->state != IdState::kIdle && call.id->state != IdState::kBound) return EINVAL;
      call.id->family_option = value != 0;
      return 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      if (call.id->datagrams()) return EINVAL;
      call.id->ack_timeout = static_cast<uint8_t>(value & 0x1F);  // 0: no limit
      return 0;
    default:
      return ENOSYS;
  }
}

// ---- multicast --------------------

namespace {

/// The group of an IP address as the kernel's cma_set_mgid() makes it: as IP over InfiniBand does, with
/// another signature for UDP services. An IPv6 address that is already such a Gid is not changed.
Gid multicast_gid(const IpAddress& address, uint16_t port_space) noexcept {
  const bool is_gid = address.family == 6 && address.ip[0] == std::byte{0xFF} &&
                      (address.ip[1] & std::byte{0xF0}) == std::byte{0x10} &&
                      address.ip[2] == std::byte{0xA0} && address.ip[3] == std::byte{0x1B};
  if (is_gid) return address.ip;
  Gid gid{std::byte{0xFF}, std::byte{0x12}, std::byte{address.family == 4 ? uint8_t{0x40} : uint8_t{0x60}},
          std::byte{0x1B}, std::byte{0xFF}, std::byte{0xFF}};
  std::copy(address.ip.begin() + (address.family == 4 ? 12 : 6), address.ip.end(),
            gid.begin() + (address.family == 4 ? 12 : 6));
  if (address.family == 4) gid[12] &= std::byte{0x0F};
  if (port_space == RDMA_PS_UDP) gid[3] = std::byte{0x01};
  return gid;
}

}  // namespace

int Commands::join(Call& call, const IpAddress& address, uint64_t uid, uint64_t where) noexcept {
  CmId& id = *call.id;
  if (!id.datagrams() || !id.on_device || !address.is_multicast()) return EINVAL;
  Membership* group = node_.ids().join(id, uid);
  if (group == nullptr) return ENOMEM;
  group->gid = multicast_gid(address, id.port_space);
  group->lid = multicast_lid(group->gid);
  if (!node_.tell_joined(id, *group)) {
    node_.ids().leave(id, *group);
    return ENOMEM;
  }
  answer(where, rdma_ucm_create_id_resp{.id = group->handle});
  return 0;
}

int Commands::join_ip_mcast(Call& call) noexcept {
  const auto command = read_body<rdma_ucm_join_ip_mcast>(call.body);
  return join(call, from_sockaddr(command.addr), command.uid, command.response);
}

int Commands::join_mcast(Call& call) noexcept {
  const auto command = read_body<rdma_ucm_join_mcast>(call.body);
  if (command.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) return EINVAL;
  return join(call, from_storage(command.addr), command.uid, command.response);
}

int Commands::leave_mcast(Call& call) noexcept {
  const auto command = read_body<rdma_ucm_destroy_id>(call.body);
  Membership* group = nullptr;
  CmId* id = node_.ids().member(call.file, command.id, group);
  if (id == nullptr) return ENOENT;
  answer(command.response, rdma_ucm_destroy_id_resp{.events_reported = group->events_reported});
  node_.ids().leave(*id, *group);
  return 0;
}

/// Service records belong to a subnet administrator, and the fabric has none.
int Commands::resolve_ib_service(Call& /*call*/) noexcept {
  return EOPNOTSUPP;
}

/// Queues an event that the program or its librdmacm has made, for example after librdmacm resolved a name
/// itself.
int Commands::write_cm_event(Call& call) noexcept {
  const auto command = read_body<WriteCmEvent>(call.body);
  const bool known = command.event == static_cast<uint32_t>(CmEvent::kUser) ||
                     command.event == static_cast<uint32_t>(CmEvent::kInternal);
  if (!known) return EINVAL;
  QueuedEvent event{.id = call.id,
                    .content = make_event(*call.id, static_cast<CmEvent>(command.event),
                                          static_cast<int32_t>(command.status))};
  std::memcpy(&event.content.param, &command.argument, sizeof command.argument);
  return node_.push(event) ? 0 : ENOMEM;
}

}  // namespace weft::rdma_cm
