#include "rdma_cm/event_content.h"

#include <algorithm>
#include <cstring>

namespace weft::rdma_cm {

rdma_ucm_event_resp make_event(const CmId& id, CmEvent event, int32_t status) noexcept {
  rdma_ucm_event_resp out{};
  out.uid = id.uid;
  out.id = id.handle;
  out.event = static_cast<uint32_t>(event);
  out.status = static_cast<uint32_t>(status);
  return out;
}

namespace {

/// Fields that REQ and REP share.
template <class Message>
void set_common_offer(rdma_ucm_event_resp& event, const Message& message) noexcept {
  rdma_ucm_conn_param& conn = event.param.conn;
  conn.qp_num = message.qpn;
  conn.responder_resources = message.initiator_depth;
  conn.initiator_depth = message.responder_resources;
  conn.flow_control = message.flow_control;
  conn.rnr_retry_count = message.rnr_retry;
  conn.srq = message.srq;
}

}  // namespace

void set_offer(rdma_ucm_event_resp& event, const CmReq& req) noexcept {
  set_common_offer(event, req);
  event.param.conn.retry_count = req.retry_count;
}

void set_offer(rdma_ucm_event_resp& event, const CmRep& rep) noexcept {
  set_common_offer(event, rep);
}

void set_private(rdma_ucm_event_resp& event, const CmId& id, std::span<const std::byte> data) noexcept {
  uint8_t* to = id.datagrams() ? event.param.ud.private_data : event.param.conn.private_data;
  std::memcpy(to, data.data(), data.size());
  (id.datagrams() ? event.param.ud.private_data_len : event.param.conn.private_data_len) =
      static_cast<uint8_t>(data.size());
}

ib_uverbs_ah_attr make_ah(Lid lid, uint8_t port) noexcept {
  ib_uverbs_ah_attr out{};
  out.dlid = lid.value();
  out.port_num = port;
  return out;
}

}  // namespace weft::rdma_cm
