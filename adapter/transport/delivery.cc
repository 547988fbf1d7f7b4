#include "adapter/transport/delivery.h"

#include "adapter/queues/qp_lifecycle.h"

namespace weft::adapter {

void deliver(Engine& engine, QueuePair& qp, const Delivery& message, bool with_wqe) noexcept {
  qp.counters.add(QpCounter::kMessagesReceived);
  qp.counters.add(QpCounter::kBytesReceived, message.bytes);
  const uint64_t wr_id = with_wqe ? qp.rq->finish(qp.taken) : 0;
  const WcOpcode of_write = with_wqe ? WcOpcode::kRecvRdmaWithImm : WcOpcode::kRdataIndicate;
  engine.complete(qp.config.recv_cq, qp.qpn, [&](WorkCompletion& entry) {
    entry.wr_id = wr_id;
    entry.status = WcStatus::kSuccess;
    entry.opcode = message.is_send ? WcOpcode::kRecv : of_write;
    entry.flags =
        static_cast<uint8_t>((message.has_imm ? kWcWithImm : 0) | (message.solicited ? kWcSolicited : 0) |
                             (message.grh ? kWcGrh : 0) | (message.invalidated ? kWcWithInvalidate : 0));
    entry.sl = message.sl;
    entry.qpn = qp.qpn;
    entry.byte_count = static_cast<uint32_t>(message.bytes);
    entry.imm = message.imm;
    entry.written_va = message.is_send ? 0 : message.va;
    entry.invalidated = message.invalidated ? Rkey(message.imm) : Rkey();
    entry.src_lid = message.src_lid;
    entry.pkey_index = message.pkey_index;
    entry.src_qpn = message.src_qpn;
    entry.place = place_of_receive(qp);
  });
}

}  // namespace weft::adapter
