// adapter/transport/direct/direct_outlet.h -- puts the records of QPs into the FIFOs of their peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "adapter/transport/direct/direct_state.h"

namespace weft::adapter {

/// Cookie of a record that is no request and can be sent again.
inline constexpr uint32_t kNoPlace = ~uint32_t{0};
/// Cookie of a part of a response: the data are not kept.
inline constexpr uint32_t kResponsePlace = kNoPlace - 1;
/// Cookie of a datagram: it is not kept, and has no DirectQp::id.
inline constexpr uint32_t kDatagramPlace = kNoPlace - 2;
/// Cookies of records and accesses: the QP's DirectQp::id above, the low half of the place below.
[[nodiscard]] constexpr uint64_t cookie_of(uint32_t id, uint32_t place) noexcept {
  return uint64_t{id} << 32 | place;
}

class DirectOutlet {
 public:
  /// Where the data of the QP's next record are put, in the slot itself: as many bytes as a record can have,
  /// at least kWindowAtomicBytes. Null when the FIFO is full, or the peer has chosen smaller slots: the QP
  /// then waits, and gets a turn when there is room.
  /// @param head  bytes of the record's header
  [[nodiscard]] std::span<std::byte> room(QueuePair& qp, uint32_t head = kWindowRecordBytes) noexcept;
  /// Sends a record with the first `bytes` bytes of `room`, which room() has just given. It carries the
  /// acknowledgement of everything that the QP has executed.
  void put(QueuePair& qp, WindowRecord record, std::span<std::byte> room, uint32_t bytes,
           uint32_t place) noexcept;
  /// The same for a short Send (WindowRecordKind::kShortSend); `room` is behind kShortSendBytes.
  void put_short(QueuePair& qp, WindowRecord record, std::span<std::byte> room, uint32_t bytes,
                 uint32_t place) noexcept;
  /// Sends a record without data. False when the FIFO is full, as above.
  [[nodiscard]] bool send(QueuePair& qp, const WindowRecord& record, uint32_t place = kNoPlace) noexcept;
  /// Sends a record for a QP that has ended. False when the FIFO is full.
  [[nodiscard]] bool say(DirectPeer& peer, const DirectFarewell& farewell,
                         uint32_t place = kNoPlace) noexcept;
  /// The QP gets a turn of its send queue after the next turn of its window.
  void wait(QueuePair& qp) noexcept;

 private:
  template <class Header>
  void put(QueuePair& qp, WindowRecord& record, Header&& encode, std::span<std::byte> room, uint32_t bytes,
           uint32_t place) noexcept;
};

}  // namespace weft::adapter
