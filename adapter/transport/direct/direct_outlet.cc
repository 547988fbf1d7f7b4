#include "adapter/transport/direct/direct_outlet.h"

#include <cstring>

#include "adapter/queues/qp_list.h"

namespace weft::adapter {

std::span<std::byte> DirectOutlet::room(QueuePair& qp, uint32_t head) noexcept {
  const std::span<std::byte> slot = direct_of(qp).peer->window->slot();
  if (slot.size() >= kWindowRecordBytes + kWindowAtomicBytes) [[likely]]
    return slot.subspan(head);
  wait(qp);
  return {};
}

template <class Header>
[[gnu::always_inline]] inline void DirectOutlet::put(QueuePair& qp, WindowRecord& record, Header&& encode,
                                                     std::span<std::byte> room, uint32_t bytes,
                                                     uint32_t place) noexcept {
  DirectQp& direct = direct_of(qp);
  record.acknowledged = direct.expected;
  record.sender_life = direct.id;
  record.receiver_life = direct.peer_life;
  const auto header = encode(record);
  std::memcpy(room.data() - header.size(), header.data(), header.size());
  direct.peer->window->post(qp.peer_qpn.value(), qp.qpn.value(), static_cast<uint32_t>(header.size()) + bytes,
                            cookie_of(direct.id, place));
  direct.owes_ack = false;
  qp.rx.debt.settle();
  AckList::unlink(qp);
}

void DirectOutlet::put(QueuePair& qp, WindowRecord record, std::span<std::byte> room, uint32_t bytes,
                       uint32_t place) noexcept {
  put(qp, record, encode_window_record, room, bytes, place);
}

void DirectOutlet::put_short(QueuePair& qp, WindowRecord record, std::span<std::byte> room, uint32_t bytes,
                             uint32_t place) noexcept {
  put(qp, record, encode_short_send, room, bytes, place);
}

bool DirectOutlet::send(QueuePair& qp, const WindowRecord& record, uint32_t place) noexcept {
  const std::span<std::byte> at = room(qp);
  if (at.data() == nullptr) return false;
  put(qp, record, at, 0, place);
  return true;
}

bool DirectOutlet::say(DirectPeer& peer, const DirectFarewell& farewell, uint32_t place) noexcept {
  const auto header = encode_window_record(farewell.record);
  return peer.window->send(farewell.to.value(), farewell.from.value(), header, cookie_of(0, place)) ==
         fabric::FifoPost::kOk;
}

void DirectOutlet::wait(QueuePair& qp) noexcept {
  DirectQp& direct = direct_of(qp);
  if (direct.waits) return;
  direct.waits = true;
  direct.peer->waiting.push_back(&qp);
}

}  // namespace weft::adapter
