// adapter/queues/work_queue.h -- the send queue of a QP: a ring of WQEs with their data segments beside them,
// all memory taken at creation (SAN-QP-01, PUSH-WQ-02). A WQE stays in its slot from the post to its
// completion.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "adapter/queues/send_operations.h"
#include "adapter/verbs.h"
#include "base/prefetch.h"

namespace weft::adapter {

struct AtomicOperands {
  uint64_t compare;
  uint64_t operand;
};

/// What every work request has, and how far it has got.
struct SendWqeHead {
  uint64_t wr_id = 0;
  uint64_t remote_addr = 0;
  const SendOpcodeRule* rule = nullptr;  // of its operation
  std::byte* single_at = nullptr;        // one segment only: where it lies, while `revision` is the table's
  uint64_t revision = 0;
  uint32_t length = 0;  // bytes of the message
  uint32_t cut = 0;     // bytes already cut into packets
  uint32_t flags = 0;   // SendFlag
  uint32_t imm = 0;
  Rkey rkey{};
  WcStatus status = WcStatus::kSuccess;
  uint8_t sge_count = 0;
  bool started = false;  // its data segments were checked, its delay has begun
  bool done = false;     // ready to complete when its turn comes
};
static_assert(sizeof(SendWqeHead) == kCacheLineBytes);

/// A posted work request. What is behind the head means something only for the operations and services that
/// have it, and others neither write nor read it: it is a line of cache of its own.
struct alignas(kCacheLineBytes) SendWqe : SendWqeHead {
  uint32_t srq;      // XRC: number of the peer's shared receive queue
  bool to_group;     // a datagram to a multicast LID
  bool is_global;    // a datagram with a global header: `route`
  Destination dest;  // of a datagram
  union {
    BindRequest bind;
    RegisterRequest registration;
    Duration delay;
    AtomicOperands atomic;
    GlobalRoute route;
  };
  SendWqe() noexcept : srq(0), to_group(false), is_global(false), dest{}, delay{} {}
};

/// Free-running positions: done <= started <= rung <= posted.
class SendQueue {
 public:
  /// @param holds a place comes free when its completion is polled (QpConfig::hold_places)
  SendQueue(uint32_t wqes, uint32_t sges, uint32_t inline_bytes, bool holds = false);

  [[nodiscard]] bool full() const noexcept {
    const uint32_t given_back = holds_ ? polled_ : static_cast<uint32_t>(done);
    return static_cast<uint32_t>(posted) - given_back >= wqes_;
  }
  /// A completion was polled that was made when WQEs before `position` were completed, its low 32 bits.
  void free_before(uint32_t position) noexcept { polled_ = position; }
  [[nodiscard]] SendWqe& at(uint64_t position) noexcept { return slots_[position & mask_]; }
  [[nodiscard]] const SendWqe& at(uint64_t position) const noexcept { return slots_[position & mask_]; }
  /// A WQE has begun of which more is to be executed: a message is half cut, a delay runs.
  [[nodiscard]] bool half_executed() const noexcept { return started < rung && at(started).started; }
  /// Data segments of a WQE; of an inline one, a single segment without key.
  [[nodiscard]] Sge* sges(uint64_t position) noexcept { return &sges_[(position & mask_) * sges_per_wqe_]; }
  [[nodiscard]] std::byte* inline_data(uint64_t position) noexcept {
    return &inline_[(position & mask_) * inline_bytes_];
  }
  [[nodiscard]] uint32_t capacity() const noexcept { return wqes_; }
  [[nodiscard]] uint32_t sges_max() const noexcept { return sges_per_wqe_; }
  [[nodiscard]] uint32_t inline_max() const noexcept { return inline_bytes_; }
  /// Forgets everything queued.
  void clear() noexcept { posted = rung = started = done = polled_ = 0; }

  uint64_t posted = 0;
  uint64_t rung = 0;     // doorbell: WQEs before it may be executed
  uint64_t started = 0;  // WQEs before it are cut into packets or executed
  uint64_t done = 0;     // WQEs before it are completed

 private:
  // What each post needs stands in the first line of cache.
  std::unique_ptr<SendWqe[]> slots_;
  std::unique_ptr<Sge[]> sges_;
  uint32_t wqes_;
  uint32_t mask_;
  uint32_t polled_ = 0;  // WQEs before it have given their places back: low 32 bits
  uint8_t sges_per_wqe_;
  bool holds_;
  uint16_t inline_bytes_;
  std::unique_ptr<std::byte[]> inline_;
};

}  // namespace weft::adapter
