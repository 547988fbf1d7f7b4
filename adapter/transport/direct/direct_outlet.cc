#include "adapter/transport/direct/direct_outlet.h"

#include <cstring>

#include "adapter/queues/qp_list.h"

namespace weft::adapter {

bool DirectOutlet::send(QueuePair& qp, WindowRecord record, uint32_t bytes, uint32_t place) noexcept {
  DirectQp& direct = direct_of(qp);
  record.acknowledged = direct.expected;
  record.sender_life = direct.id;
  record.receiver_life = direct.peer_life;
  const auto header = encode_window_record(record);
  std::memcpy(record_.data(), header.data(), header.size());
  const std::span<const std::byte> whole = std::span(record_).first(kWindowRecordBytes + bytes);
  const fabric::FifoPost post =
      direct.peer->path->end().send(qp.peer_qpn.value(), qp.qpn.value(), whole, cookie_of(direct.id, place));
  if (post == fabric::FifoPost::kOk) {
    direct.owes_ack = false;
    qp.rx.debt.settle();
    AckList::unlink(qp);
    return true;
  }
  wait(qp);
  return false;
}

bool DirectOutlet::say(DirectPeer& peer, const DirectFarewell& farewell) noexcept {
  const auto header = encode_window_record(farewell.record);
  return peer.path->end().send(farewell.to.value(), farewell.from.value(), header, cookie_of(0, kNoPlace)) ==
         fabric::FifoPost::kOk;
}

void DirectOutlet::wait(QueuePair& qp) noexcept {
  DirectQp& direct = direct_of(qp);
  if (direct.waits) return;
  direct.waits = true;
  direct.peer->waiting.push_back(&qp);
}

}  // namespace weft::adapter
