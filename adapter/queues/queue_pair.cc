#include "adapter/queues/queue_pair.h"

#include <algorithm>
#include <memory>

#include "adapter/queues/shared_receive_queue.h"

namespace weft::adapter {

// Beside the object an RC QP has the places of its RDMA reads; a QP of another service has one packet, UC one
// of each direction.
static_assert(sizeof(QueuePair) + sizeof(ArrivalOrder) +
                  kReadsPerQp * (sizeof(ReadJob) + sizeof(ExecutedRead)) <=
              kIdleRcQpBytesMax);
static_assert(sizeof(QueuePair) + sizeof(TxPacket) + sizeof(RxPacket) <= kIdleUdQpBytesMax);

QueuePair::QueuePair(const QpConfig& wanted, const Engine* adapter, uint32_t inline_bytes)
    : owner(adapter),
      rq(wanted.srq == nullptr ? &own_rq : &wanted.srq->queue),
      srq(wanted.srq),
      config(wanted),
      sq(wanted.type == QpType::kXrcRecv ? 0 : wanted.send_wqes, std::max(wanted.sges, 1U), inline_bytes),
      own_rq(wanted.srq == nullptr && !is_xrc(wanted.type) ? wanted.recv_wqes : 0, std::max(wanted.sges, 1U),
             wanted.pd) {
  // Only RC and XRC have more than one packet under way; a datagram is received as it comes.
  const bool initiates = wanted.type == QpType::kRc || wanted.type == QpType::kXrcSend;
  const bool serves = wanted.type == QpType::kRc || wanted.type == QpType::kXrcRecv;
  if (!initiates) tx.packets.keep_one();
  if (wanted.type == QpType::kUc) rx.packets.keep_one();
  if (serves) {
    rx.order = std::make_unique<ArrivalOrder>();
    rx.reads.reset(kReadsPerQp);
    rx.executed_reads.reset(kReadsPerQp);
  }
}

void FreeQueue::operator()(QueuePair* qp) const noexcept {
  const std::unique_ptr<QueuePair> last(qp);
}

void FreeQueue::operator()(SharedReceiveQueue* srq) const noexcept {
  const std::unique_ptr<SharedReceiveQueue> last(srq);
}

}  // namespace weft::adapter
