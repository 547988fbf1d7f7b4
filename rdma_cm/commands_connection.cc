// Commands that make and end connections, and the attributes for the QP of a connection.
#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>

#include "rdma_cm/command_parts.h"
#include "rdma_cm/commands.h"
#include "rdma_cm/event_content.h"
#include "rdma_cm/ip_cm.h"

namespace weft::rdma_cm {
namespace {

constexpr uint8_t kAckTimeout = 16;  // 4.096 us * 2^n, unless the program sets another
constexpr uint8_t kRetriesMax = 7;

// Texts for refused commands.
constexpr std::string_view kNoRoute =
    "the route is not resolved yet, or the id is connected; wait for RDMA_CM_EVENT_ROUTE_RESOLVED";
constexpr std::string_view kNoConnection =
    "the id has no connection request; pass the id of the event, event->id";
constexpr std::string_view kNeverConnected =
    "the id has no connection: rdma_connect or rdma_accept come first";
constexpr std::string_view kNoQpAsked =
    "the request names no QP (qp_num 0), so the peer cannot reach one; call rdma_create_qp before "
    "rdma_connect";
constexpr std::string_view kNoQpAccepted =
    "the answer names no QP (qp_num 0), so the peer cannot reach one; call rdma_create_qp before rdma_accept";
constexpr std::string_view kNotWaiting =
    "the connection no longer waits for an answer: it was answered, or has ended";
constexpr std::string_view kRequestDataTooLong =
    "private_data_len: a connection request has room for 56 bytes";
constexpr std::string_view kDatagramDataTooLong =
    "private_data_len: a datagram request has room for 180 bytes";
constexpr std::string_view kReplyDataTooLong = "private_data_len: an answer has room for 196 bytes";
constexpr std::string_view kRejectDataTooLong = "private_data_len: a rejection has room for 148 bytes";

/// Copies a program's private data to its place; false when it does not fit.
bool put_private(std::span<std::byte> place, const uint8_t* from, size_t bytes) noexcept {
  if (bytes > place.size()) return false;
  std::memcpy(place.data(), from, bytes);
  return true;
}

/// A request's private data begin with the IP addresses; the program's data follow. False when they do not
/// fit.
bool put_request_data(std::span<std::byte> place, const CmId& id, const rdma_ucm_conn_param& param) noexcept {
  encode_ip_cm({.family = id.source.family,
                .source_port = id.source.port,
                .source = id.source.ip,
                .destination = id.destination.ip},
               place.first<kIpCmBytes>());
  return put_private(place.subspan(kIpCmBytes), param.private_data, param.private_data_len);
}

/// Fills the resources of a REQ or REP.
template <class Message>
void put_resources(Message& message, const rdma_ucm_conn_param& param) noexcept {
  message.responder_resources = param.responder_resources;
  message.initiator_depth = param.initiator_depth;
  message.flow_control = param.flow_control != 0 ? 1 : 0;
  message.rnr_retry = std::min(param.rnr_retry_count, kRetriesMax);
  message.srq = param.srq != 0 ? 1 : 0;
}

uint8_t ack_timeout_of(const CmId& id) noexcept {
  return id.ack_timeout.value_or(kAckTimeout);
}

}  // namespace

// ---- making --------------------

int Commands::connect(Call& call) noexcept {
  rdma_ucm_connect command{};
  std::memcpy(&command, call.body.data(), std::min(call.body.size(), sizeof command));
  const rdma_ucm_conn_param& param = command.conn_param;
  CmId& id = *call.id;
  if (param.valid == 0 || id.state != IdState::kRouteResolved) return refuse(EINVAL, kNoRoute);
  return id.datagrams() ? ask_for_service(call, param) : ask_for_connection(call, param);
}

int Commands::ask_for_connection(Call& call, const rdma_ucm_conn_param& param) noexcept {
  CmId& id = *call.id;
  const NodeIdentity self = node_.node().identity();
  CmReq req{.service_id = ip_service(id.port_space, id.destination.port),
            .ca_guid = self.guid.value(),
            .qpn = param.qp_num & kQpnMask,
            .psn = id.psn,
            .service = id.qp_type == IBV_QPT_UC ? kCmServiceUc : kCmServiceRc,
            .retry_count = std::min(param.retry_count, kRetriesMax),
            .pkey = kPkeyDefault,
            .path_mtu = self.mtu,
            .path = {.local_lid = self.lid.value(),
                     .remote_lid = id.peer_lid.value(),
                     .local_gid = self.gid,
                     .remote_gid = id.peer_gid,
                     .subnet_local = 1,
                     .ack_timeout = ack_timeout_of(id)}};
  put_resources(req, param);
  if (!put_request_data(req.private_data, id, param)) return refuse(EINVAL, kRequestDataTooLong);
  if (req.qpn == 0) why_ = kNoQpAsked;
  id.retry_count = req.retry_count;
  id.responder_resources = param.responder_resources;
  id.initiator_depth = param.initiator_depth;
  return asked(id, node_.manager().request(call.now, id.peer_lid, req, &id));
}

int Commands::ask_for_service(Call& call, const rdma_ucm_conn_param& param) noexcept {
  CmId& id = *call.id;
  CmSidrReq req{.pkey = kPkeyDefault, .service_id = ip_service(id.port_space, id.destination.port)};
  if (!put_request_data(req.private_data, id, param)) return refuse(EINVAL, kDatagramDataTooLong);
  return asked(id, node_.manager().request(call.now, id.peer_lid, req, &id));
}

int Commands::asked(CmId& id, Connection* connection) noexcept {
  id.connection = connection;
  if (connection == nullptr) return ENOMEM;
  id.state = IdState::kConnect;
  return 0;
}

/// On the passive side sends REP. On the active side, where there are no parameters, sends RTU.
int Commands::accept(Call& call) noexcept {
  rdma_ucm_accept command{};
  std::memcpy(&command, call.body.data(), std::min(call.body.size(), sizeof command));
  const rdma_ucm_conn_param& param = command.conn_param;
  CmId& id = *call.id;
  if (id.connection == nullptr) return refuse(EINVAL, kNoConnection);
  if (id.datagrams()) return accept_datagrams(call, command);
  if (param.valid == 0) return node_.manager().establish(call.now, *id.connection) ? 0 : EINVAL;
  CmRep rep{.ca_guid = node_.node().identity().guid.value(), .qpn = param.qp_num & kQpnMask, .psn = id.psn};
  put_resources(rep, param);
  if (!put_private(rep.private_data, param.private_data, param.private_data_len))
    return refuse(EINVAL, kReplyDataTooLong);
  if (!node_.manager().accept(call.now, *id.connection, rep)) return refuse(EINVAL, kNotWaiting);
  if (rep.qpn == 0) why_ = kNoQpAccepted;
  id.uid = command.uid;
  id.responder_resources = param.responder_resources;
  id.initiator_depth = param.initiator_depth;
  return 0;
}

int Commands::accept_datagrams(Call& call, const rdma_ucm_accept& command) noexcept {
  const rdma_ucm_conn_param& param = command.conn_param;
  CmSidrRep rep{.status = kSidrValid,
                .qpn = param.qp_num & kQpnMask,
                .service_id = call.id->peer_offer.service_id,
                .qkey = kUdpQkey};
  if (!put_private(rep.private_data, param.private_data, param.private_data_len)) return EINVAL;
  if (!node_.manager().answer(call.now, *call.id->connection, rep)) return EINVAL;
  if (param.valid != 0) call.id->uid = command.uid;
  return 0;
}

// ---- ending --------------------

int Commands::reject(Call& call) noexcept {
  const auto command = read_body<rdma_ucm_reject>(call.body);
  CmId& id = *call.id;
  if (id.connection == nullptr) return refuse(EINVAL, kNoConnection);
  if (id.datagrams()) {
    CmSidrRep rep{.status = kSidrRefused, .service_id = id.peer_offer.service_id};
    if (!put_private(rep.private_data, command.private_data, command.private_data_len)) return EINVAL;
    return node_.manager().answer(call.now, *id.connection, rep) ? 0 : EINVAL;
  }
  if (command.private_data_len > sizeof(CmRej::private_data)) return refuse(EINVAL, kRejectDataTooLong);
  const uint16_t reason = command.reason != 0 ? command.reason : kRejectConsumer;
  const auto data = std::as_bytes(std::span(command.private_data).first(command.private_data_len));
  return node_.manager().reject(call.now, *id.connection, reason, data) ? 0 : EINVAL;
}

/// As in the kernel, a connection that has already ended is not an error.
int Commands::disconnect(Call& call) noexcept {
  if (call.id->connection == nullptr || call.id->datagrams()) return refuse(EINVAL, kNeverConnected);
  static_cast<void>(node_.manager().disconnect(call.now, *call.id->connection));
  return 0;
}

/// The program reports that data of the peer came before its RTU, or that its QP has taken the other path.
/// The codes are those of the kernel's ib_cm_notify().
int Commands::notify(Call& call) noexcept {
  const auto command = read_body<rdma_ucm_notify>(call.body);
  if (call.id->connection == nullptr) return EINVAL;
  const bool established = call.id->connection->state == CmState::kEstablished;
  if (command.event == IBV_EVENT_PATH_MIG) return established ? 0 : EINVAL;
  if (command.event != IBV_EVENT_COMM_EST) return EINVAL;
  if (!node_.manager().peer_is_there(*call.id->connection)) return established ? EISCONN : EINVAL;
  return node_.tell(*call.id, CmEvent::kEstablished) ? 0 : ENOMEM;
}

// ---- the QP --------------------

int Commands::init_qp_attr(Call& call) noexcept {
  const auto command = read_body<rdma_ucm_init_qp_attr>(call.body);
  const CmId& id = *call.id;
  if (!id.on_device) return EINVAL;
  const NodeIdentity self = node_.node().identity();
  const bool unreliable = id.qp_type == IBV_QPT_UC;
  ib_uverbs_qp_attr out{};
  out.qp_state = command.qp_state;
  out.qp_attr_mask = IBV_QP_STATE;
  if (command.qp_state == IBV_QPS_INIT) {
    out.qp_attr_mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    out.port_num = self.port;
    if (id.datagrams()) {
      out.qp_attr_mask |= IBV_QP_QKEY;
      out.qkey = kUdpQkey;
    } else {
      out.qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
      if (id.connection != nullptr) out.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
      if (id.connection != nullptr && id.responder_resources != 0)
        out.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    }
  } else if (id.datagrams() || id.connection == nullptr) {
    return EINVAL;
  } else if (command.qp_state == IBV_QPS_RTR) {
    out.qp_attr_mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    out.ah_attr = make_ah(id.peer_lid, self.port);
    const uint8_t offered = id.peer_offer.path_mtu;
    out.path_mtu = offered != 0 ? std::min(offered, self.mtu) : self.mtu;
    out.dest_qp_num = id.peer_offer.qpn;
    out.rq_psn = id.peer_offer.psn;
    if (!unreliable) out.qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    out.max_dest_rd_atomic = id.responder_resources;
  } else if (command.qp_state == IBV_QPS_RTS) {
    out.qp_attr_mask |= IBV_QP_SQ_PSN;
    out.sq_psn = id.psn;
    if (!unreliable)
      out.qp_attr_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    out.timeout = ack_timeout_of(id);
    out.retry_cnt = id.retry_count;
    out.rnr_retry = id.rnr_retry;
    out.max_rd_atomic = id.initiator_depth;
  } else {
    return EINVAL;
  }
  answer(command.response, out);
  return 0;
}

}  // namespace weft::rdma_cm
