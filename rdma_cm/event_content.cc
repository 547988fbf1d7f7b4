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

void set_offer(rdma_ucm_event_resp& event, const CmMad& mad) noexcept {
  rdma_ucm_conn_param& conn = event.param.conn;
  conn.qp_num = mad.qpn;
  conn.responder_resources = mad.initiator_depth;
  conn.initiator_depth = mad.responder_resources;
  conn.flow_control = mad.flow_control;
  conn.retry_count = mad.retry_count;
  conn.rnr_retry_count = mad.rnr_retry;
  conn.srq = mad.srq;
}

void set_private(rdma_ucm_event_resp& event, const CmId& id, const CmMad& mad, size_t skip) noexcept {
  const size_t bytes = private_bytes(mad.kind) - skip;
  uint8_t* to = id.datagrams() ? event.param.ud.private_data : event.param.conn.private_data;
  std::memcpy(to, &mad.private_data[skip], bytes);
  (id.datagrams() ? event.param.ud.private_data_len : event.param.conn.private_data_len) =
      static_cast<uint8_t>(bytes);
}

ib_uverbs_ah_attr make_ah(Lid lid, uint8_t port) noexcept {
  ib_uverbs_ah_attr out{};
  out.dlid = lid.value();
  out.port_num = port;
  return out;
}

}  // namespace weft::rdma_cm
