// adapter/transport/direct/direct_requester.h -- the send queue of a QP over a memory window. The device
// moves the data of writes and reads where the peer's table allows it (NTB-WRITE-02, NTB-READ-02). All other
// requests go as records (NTB-SEND-01). Takes the peer's answers.
#pragma once

#include <cstdint>
#include <span>

#include "adapter/transport/cell_writer.h"
#include "adapter/transport/completer.h"
#include "adapter/transport/direct/direct_outlet.h"
#include "adapter/transport/send_head.h"

namespace weft::adapter {

/// Bytes of one access.
inline constexpr uint32_t kDirectAccessBytes = 256 * 1024;
/// Bytes of accesses after which a QP's run ends: a turn is bounded, and the copy is part of it. The access
/// that crosses the bound is made whole.
inline constexpr uint32_t kDirectBytesPerTurn = 1024 * 1024;
/// Bytes that count as one step of the turn, as a cell does.
inline constexpr uint32_t kDirectStepBytes = 16 * 1024;
/// A write of at most this many bytes does not wait for the answer to earlier records: it follows them as
/// records. Above, the copy by the owner costs more than the wait.
inline constexpr uint32_t kDirectFollowBytes = 64 * 1024;
/// A QP with requests asks its peer's QP again whether it is ready.
inline constexpr Duration kDirectAskEvery = 20ms;
/// Pieces of memory that one step looks up.
inline constexpr uint32_t kDirectPieces = 16;

class DirectRequester {
 public:
  DirectRequester(Engine& engine, CellWriter& writer, DirectOutlet& outlet, Completer& completer) noexcept
      : engine_(engine),
        writer_(writer),
        outlet_(outlet),
        completer_(completer),
        head_(engine, writer, completer) {}

  /// Starts up to `budget` requests or parts of requests, of kDirectBytesPerTurn; returns how many, and one
  /// for each kDirectStepBytes. The caller flushes the window.
  uint32_t run(QueuePair& qp, uint32_t budget) noexcept;
  [[nodiscard]] bool has_work(const QueuePair& qp) const noexcept;
  void on_timer(QueuePair& qp) noexcept;

  /// The peer has executed all messages before `count`.
  void take_acknowledgement(QueuePair& qp, uint32_t count) noexcept;
  void take_nak(QueuePair& qp, const WindowRecord& record) noexcept;
  void take_response(QueuePair& qp, const WindowRecord& record, std::span<const std::byte> data) noexcept;
  /// The peer's QP receives, or does so no more.
  void take_ready(QueuePair& qp, const WindowRecord& record) noexcept;
  void take_gone(QueuePair& qp) noexcept;
  /// An access has ended. `place`: the low half of its place in the send queue.
  void access_ended(QueuePair& qp, uint32_t place, fabric::DmaStatus status) noexcept;
  /// A record of the request in `place` did not reach the peer (NTB-SEND-04).
  void record_lost(QueuePair& qp, uint32_t place) noexcept;
  /// The window is cut off, or no longer: the peer's silence counts anew.
  void cut_changed(QueuePair& qp) noexcept;
  /// The window has ended: all requests that wait for it fail.
  void window_ended(QueuePair& qp) noexcept;

 private:
  enum class Step : uint8_t { kAgain, kStop };
  struct Piece {
    std::byte* at = nullptr;
    uint64_t bytes = 0;
  };

  [[nodiscard]] Step step(QueuePair& qp) noexcept;
  /// The request at sq.started may be started or gone on with.
  [[nodiscard]] bool may_start(const QueuePair& qp) const noexcept;
  [[nodiscard]] bool begin(QueuePair& qp, SendWqe& wqe) noexcept;
  [[nodiscard]] bool fails_by_itself(QueuePair& qp, SendWqe& wqe) noexcept;
  [[nodiscard]] DirectWay way_of(const QueuePair& qp, const SendWqe& wqe) const noexcept;
  [[nodiscard]] Step move(QueuePair& qp, uint64_t place) noexcept;
  [[nodiscard]] bool fits_its_record(const QueuePair& qp, uint64_t place) const noexcept;
  [[nodiscard]] bool may_be_records(const QueuePair& qp, uint64_t place) const noexcept;
  [[nodiscard]] Step move_pieces(QueuePair& qp, uint64_t place) noexcept;
  [[nodiscard]] Step post_access(QueuePair& qp, uint64_t place, const Piece& piece) noexcept;
  [[nodiscard]] Step post_records(QueuePair& qp, uint64_t place) noexcept;
  [[nodiscard]] Step post_data(QueuePair& qp, uint64_t place) noexcept;
  [[nodiscard]] Step post_question(QueuePair& qp, uint64_t place) noexcept;
  [[nodiscard]] WindowRecord record_of(const QueuePair& qp, uint64_t place) const noexcept;
  [[nodiscard]] Piece whole_piece(QueuePair& qp, uint64_t place) noexcept;
  /// The only segment of a request, as it was checked at first; null: it has several, or keys have changed.
  [[nodiscard]] std::byte* checked_segment(const SendWqe& wqe) const noexcept {
    return wqe.revision == engine_.computer.revision() ? wqe.single_at : nullptr;
  }
  [[nodiscard]] uint32_t find_pieces(QueuePair& qp, uint64_t place, std::span<Piece> out) noexcept;
  [[nodiscard]] AccessFault gather(QueuePair& qp, uint64_t place, std::span<std::byte> to) noexcept;
  [[nodiscard]] bool fill(QueuePair& qp, uint64_t place, std::span<std::byte> to) noexcept;
  void part_moved(QueuePair& qp, uint64_t place, fabric::DmaStatus status) noexcept;
  void number(QueuePair& qp, uint64_t place) noexcept;
  void pass_on(QueuePair& qp, uint64_t place) noexcept;
  void answer(QueuePair& qp, uint64_t place) noexcept;
  void made_progress(QueuePair& qp) noexcept;
  void watch_silence(QueuePair& qp) noexcept;
  void arm_silence(QueuePair& qp) noexcept;
  void end_silence(QueuePair& qp) noexcept;
  [[nodiscard]] Duration patience(const QueuePair& qp) const noexcept;
  [[nodiscard]] bool find_numbered(QueuePair& qp, uint32_t number, uint64_t& place) const noexcept;
  /// The full place of a request that is not completed; false for one that is.
  [[nodiscard]] static bool place_from(const QueuePair& qp, uint32_t low, uint64_t& place) noexcept;
  [[gnu::cold]] void fail_waiting(QueuePair& qp, const SendFault& fault) noexcept;
  [[gnu::cold]] void fail(QueuePair& qp, uint64_t place, const SendFault& fault) noexcept;

  Engine& engine_;
  uint64_t run_bytes_ = 0;  // of the accesses of this run
  CellWriter& writer_;
  DirectOutlet& outlet_;
  Completer& completer_;
  SendHead head_;
};

[[gnu::always_inline]] inline bool DirectRequester::may_start(const QueuePair& qp) const noexcept {
  const DirectQp& direct = direct_of(qp);
  return head_.may_run(qp, direct.reads != 0 || direct.accesses != 0);
}

}  // namespace weft::adapter
