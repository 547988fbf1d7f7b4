// fabric/window/piece_path.h -- requests of the memory space without process_vm: cut into pieces, which the
// peer's device carries out in its own poll(). Two rings of slots, one per direction (slot_ring.h). Slower,
// and the owner's current table decides. docs/window.md.
#pragma once

#include <array>
#include <span>
#include <utility>

#include "base/fixed_ring.h"
#include "fabric/carrier/slot_ring.h"
#include "fabric/window/device.h"

namespace weft::fabric {

inline constexpr uint32_t kPieceBytes = 4096;
inline constexpr uint32_t kPieceHeaderBytes = 64;
/// Pieces of one side under way. A ring holds one side's pieces and its answers to the other side's, so an
/// answer always finds a slot.
inline constexpr uint32_t kPiecesUnderWay = 16;
inline constexpr RingGeometry kPieceRing{kPieceHeaderBytes + kPieceBytes, 2 * kPiecesUnderWay};
/// Control block and slots of one ring.
inline constexpr size_t kPieceRingBytes =
    sizeof(RingControl) + size_t{kPieceRing.slots} * kPieceRing.slot_bytes;

/// Owner: the device's thread. Allocates nothing after its construction.
class PiecePath {
 public:
  /// `to_peer` and `to_us`: kPieceRingBytes each, zero at first, aligned to 128 bytes. @param requests  most
  /// requests at once. @param memory  what the peer reaches; null: nothing. All outlive this.
  PiecePath(std::span<std::byte> to_peer, std::span<std::byte> to_us, uint32_t requests, OwnerMemory* memory);

  /// The caller keeps count: at most `requests` not given by next_done().
  void start(const DmaRequest& request) noexcept { waiting_.push({request, 0, 0, DmaStatus::kGood}); }
  /// One bounded turn: the peer's pieces and answers, then our pieces. @return work done
  int poll() noexcept;
  /// True when the peer sleeps and there is something new for it: the caller wakes it.
  [[nodiscard]] bool take_wake() noexcept { return std::exchange(wake_, false); }
  /// The oldest request, when it has ended.
  [[nodiscard]] bool next_done(DmaCompletion& out) noexcept;
  /// The oldest request, ended or not, when the peer has gone; `out.token` is set. False when there is none.
  [[nodiscard]] bool abandon(DmaCompletion& out) noexcept;

  /// The peer broke a rule of the rings, or sent a piece or an answer that cannot be.
  [[nodiscard]] bool faulty() const noexcept { return faulty_ || producer_.faulty() || consumer_.faulty(); }
  [[nodiscard]] bool prepare_sleep() noexcept { return consumer_.prepare_sleep(); }
  void finish_sleep() noexcept { consumer_.finish_sleep(); }

 private:
  struct Waiting {
    DmaRequest request;
    uint64_t sent = 0;    // bytes in pieces
    uint32_t pieces = 0;  // without an answer
    DmaStatus status = DmaStatus::kGood;
  };
  struct Piece {
    uint64_t number = 0;
    uint64_t request = 0;  // counted since start-up
    uint64_t offset = 0;
    uint32_t bytes = 0;
    bool under_way = false;
  };
  struct Header;

  void take_slot(const RxSlot& slot) noexcept;
  void carry_out(const Header& header, const std::byte* data) noexcept;
  void take_answer(const Header& header, const std::byte* data) noexcept;
  void send_pieces() noexcept;
  [[nodiscard]] bool send_piece(Waiting& waiting, uint64_t request, Piece& piece) noexcept;

  RingProducer producer_;
  RingConsumer consumer_;
  OwnerMemory* memory_;
  FixedRing<Waiting> waiting_;  // requests not given by next_done(), in order
  uint64_t first_ = 0;          // the number of waiting_.front()
  std::array<Piece, kPiecesUnderWay> pieces_{};
  uint64_t next_number_ = 0;
  bool published_ = true;
  bool wake_ = false;
  bool faulty_ = false;
};

}  // namespace weft::fabric
