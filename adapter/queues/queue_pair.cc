#include "adapter/queues/queue_pair.h"

#include <algorithm>
#include <memory>

#include "adapter/queues/shared_receive_queue.h"

namespace weft::adapter {

// Besides the object, an RC QP has memory for its RDMA reads; a QP of another service has one packet; UC has
// one per direction.
static_assert(sizeof(QueuePair) + sizeof(ArrivalOrder) +
                  kReadsPerQp * (sizeof(ReadJob) + sizeof(ExecutedRead)) <=
              kIdleRcQpBytesMax);
static_assert(sizeof(QueuePair) + sizeof(TxPacket) + sizeof(RxPacket) <= kIdleUdQpBytesMax);

QueuePair::QueuePair(const QpConfig& wanted, const ServiceRow& service_row, const Engine* adapter,
                     uint32_t inline_bytes)
    : owner(adapter),
      row(&service_row),
      rq(wanted.srq == nullptr ? &own_rq : &wanted.srq->queue),
      srq(wanted.srq),
      config(wanted),
      kept(row->keep != nullptr ? row->keep() : nullptr),
      sq(row->has_send_queue ? wanted.send_wqes : 0, std::max(wanted.sges, 1U), inline_bytes,
         wanted.hold_places),
      own_rq(wanted.srq == nullptr && row->has_recv_queue ? wanted.recv_wqes : 0, std::max(wanted.sges, 1U),
             wanted.pd, wanted.hold_places) {
  // A QP with a window of one packet keeps its memory.
  if (row->send_window == 1) tx.packets.keep_one();
  if (row->receive_window == 1) rx.packets.keep_one();
  if (serves_window()) {
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
