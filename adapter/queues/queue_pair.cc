#include "adapter/queues/queue_pair.h"

#include <algorithm>

namespace weft::adapter {

QueuePair::QueuePair(const QpConfig& wanted, Qpn number, const Engine* adapter, uint32_t inline_bytes)
    : qpn(number),
      sq(wanted.send_wqes, std::max(wanted.sges, 1U), inline_bytes),
      own_rq(wanted.recv_wqes, std::max(wanted.sges, 1U), wanted.pd),
      rq(&own_rq),
      config(wanted),
      owner(adapter) {
  if (wanted.type == QpType::kRc) {
    rx.reads.reset(kReadsPerQp);
    rx.executed_reads.reset(kReadsPerQp);
  }
  if (wanted.ack_mode == AckMode::kStrict) rx.strict_acks.reset(kStrictAcksMax);
}

}  // namespace weft::adapter
