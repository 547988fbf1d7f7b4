// adapter/transport/direct/direct_outlet.h -- puts the records of QPs into the FIFOs of their peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "adapter/transport/direct/direct_state.h"

namespace weft::adapter {

/// Cookie of a record that is no request and can be sent again.
inline constexpr uint32_t kNoPlace = ~uint32_t{0};
/// Cookie of a part of a response: the data are not kept.
inline constexpr uint32_t kResponsePlace = kNoPlace - 1;
/// Cookies of records and accesses: the QP's DirectQp::id above, the low half of the place below.
[[nodiscard]] constexpr uint64_t cookie_of(uint32_t id, uint32_t place) noexcept {
  return uint64_t{id} << 32 | place;
}

class DirectOutlet {
 public:
  /// @param used  some QP may use a window
  explicit DirectOutlet(bool used) : record_(used ? kFifoSlotBytesMax : 0) {}

  /// Where the data of the next record are put: as many bytes as a record to this peer can have.
  [[nodiscard]] std::span<std::byte> room(DirectPeer& peer) noexcept {
    return std::span(record_).subspan(kWindowRecordBytes,
                                      peer.path->end().record_bytes_max() - kWindowRecordBytes);
  }
  /// Sends a record with the first `bytes` bytes of room(). It carries the acknowledgement of everything that
  /// the QP has executed. False when the FIFO is full: the QP then waits, and gets a turn when there is room.
  [[nodiscard]] bool send(QueuePair& qp, WindowRecord record, uint32_t bytes = 0,
                          uint32_t place = kNoPlace) noexcept;
  /// Sends a record for a QP that has ended. False when the FIFO is full.
  [[nodiscard]] bool say(DirectPeer& peer, const DirectFarewell& farewell) noexcept;
  /// The QP gets a turn of its send queue after the next turn of its window.
  void wait(QueuePair& qp) noexcept;

 private:
  std::vector<std::byte> record_;
};

}  // namespace weft::adapter
