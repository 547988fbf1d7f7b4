// Checks of the configuration of a QP that is to be created. What they refuse has taken neither memory nor a
// place.
#include "adapter/adapter_core.h"
#include "adapter/queues/shared_receive_queue.h"

namespace weft::adapter {

Refusable<> check_size(const char* line, uint32_t value, uint32_t least, uint32_t most) noexcept {
  if (value >= least && value <= most) return {};
  return Refusal{Reason::kBadSize, line, value, most};
}

Refusable<> AdapterCore::check_queues(const QpConfig& config, const ServiceRow& row) const {
  if (config.send_cq == nullptr || config.recv_cq == nullptr)
    return Refusal{Reason::kMissingObject, "create_qp: needs a CQ for each queue"};
  if (!owns(config.send_cq) || !owns(config.recv_cq))
    return Refusal{Reason::kForeignObject, "create_qp: a CQ belongs to another adapter"};
  if (config.pd.value() >= pds.size() || !pds[config.pd.value()])
    return Refusal{Reason::kNoSuchObject, "create_qp: no such protection domain"};
  if (config.srq != nullptr && !srqs.owns(config.srq))
    return Refusal{Reason::kForeignObject, "create_qp: the SRQ belongs to another adapter"};
  if (config.srq != nullptr && config.srq->config.xrcd != XrcdId())
    return Refusal{Reason::kNotOfService, "create_qp: the SRQ serves the targets of an XRC domain"};
  if (!row.has_recv_queue && config.srq != nullptr)
    return Refusal{Reason::kNotOfService, "create_qp: an XRC initiator takes no SRQ, as it receives nothing"};
  return {};
}

Refusable<> AdapterCore::check_sizes(const QpConfig& config, const ServiceRow& row) const {
  const AdapterLimits& most = engine.config.limits;
  const uint32_t receives_least = row.has_recv_queue && config.srq == nullptr ? 1 : 0;
  Refusable<> good =
      check_size("create_qp: max_send_wr {}; 1 to {} are possible", config.send_wqes, 1, most.wqes_per_queue);
  if (good.ok())
    good = check_size("create_qp: max_recv_wr {}; at most {} are possible", config.recv_wqes, receives_least,
                      most.wqes_per_queue);
  if (good.ok())
    good = check_size("create_qp: max_send_sge or max_recv_sge {}; at most {} are possible", config.sges, 0,
                      most.sges_per_wqe);
  return good;
}

/// Fills in what an XRC QP has instead of its own queues, and checks the rest.
Refusable<> AdapterCore::check_qp(QpConfig& config, const ServiceRow& row) {
  if (!row.has_recv_queue && config.recv_cq == nullptr && !row.serves_domain) config.recv_cq = config.send_cq;
  if (row.serves_domain) {
    if (!srqs.has(config.xrcd)) return Refusal{Reason::kNoSuchObject, "create_qp: no such XRC domain"};
    if (config.send_cq != nullptr || config.recv_cq != nullptr || config.srq != nullptr ||
        config.pd != PdId())
      return Refusal{Reason::kNotOfService,
                     "create_qp: an XRC target has neither queues nor a protection domain"};
    config.send_cq = config.recv_cq = &no_cq;
  } else if (config.xrcd != XrcdId()) {
    return Refusal{Reason::kNotOfService, "create_qp: only XRC targets belong to an XRC domain"};
  } else if (Refusable<> good = check_queues(config, row); !good) {
    return good;
  }
  if (config.ack_mode == AckMode::kStrict && !row.acknowledged)
    return Refusal{Reason::kNotOfService, "create_qp: strict ack_mode needs a service with acknowledgements"};
  if (config.packet_crc && !row.connected)
    return Refusal{Reason::kNotOfService, "create_qp: only packets of connected services carry a CRC"};
  if (config.packet_crc && !row.has_packet_crc)
    return Refusal{Reason::kNotOfService, "create_qp: packets of XRC carry no CRC"};
  if (config.grh_space && !row.has_grh_space)
    return Refusal{Reason::kNotOfService, "create_qp: only receives of UD have room for a global header"};
  if (config.raw_ipv6 && !row.takes_raw_frames)
    return Refusal{Reason::kNotOfService, "create_qp: only messages of RAW are IPv6 packets"};
  return {};
}

}  // namespace weft::adapter
