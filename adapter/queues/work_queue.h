// adapter/queues/work_queue.h -- the send queue of a QP: a ring of WQEs and their data segments, all memory
// taken at creation (SAN-QP-01, PUSH-WQ-02). A WQE stays in its slot from the post to its completion.
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

/// The fields of every work request, and its progress.
struct SendWqeHead {
  uint64_t wr_id = 0;
  uint64_t remote_addr = 0;
  const SendOpcodeRule* rule = nullptr;  // of the operation
  // Address of a single segment; valid while the memory table has this `revision`.
  std::byte* single_at = nullptr;
  uint64_t revision = 0;
  uint32_t length = 0;  // bytes of the message
  uint32_t cut = 0;     // bytes already cut into packets
  uint32_t flags = 0;   // SendFlag bits
  uint32_t imm = 0;
  Rkey rkey{};
  WcStatus status = WcStatus::kSuccess;
  uint8_t sge_count = 0;
  bool started = false;  // the data segments were checked, or the delay has begun
  bool done = false;     // completes when all earlier WQEs have completed
};
static_assert(sizeof(SendWqeHead) == kCacheLineBytes);

/// A posted work request. Each field behind the head is valid only for the operations and services that use
/// it; the others neither write nor read it. These fields begin a new cache line, so that others do not load
/// it.
struct alignas(kCacheLineBytes) SendWqe : SendWqeHead {
  uint32_t srq;      // XRC: number of the peer's shared receive queue
  bool to_group;     // the destination of the datagram is a multicast LID
  bool is_global;    // the datagram has a global header: `route`
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

/// The positions count without wrapping: done <= started <= rung <= posted.
class SendQueue {
 public:
  /// @param holds a place becomes free when its completion is polled (QpConfig::hold_places)
  SendQueue(uint32_t wqes, uint32_t sges, uint32_t inline_bytes, bool holds = false);

  [[nodiscard]] bool full() const noexcept {
    const uint32_t given_back = holds_ ? polled_ : static_cast<uint32_t>(done);
    return static_cast<uint32_t>(posted) - given_back >= wqes_;
  }
  /// Completed WQEs behind the last polled completion; 0 for a queue that does not hold its places.
  [[nodiscard]] uint32_t unpolled() const noexcept {
    return holds_ ? static_cast<uint32_t>(done) - polled_ : 0;
  }
  /// A completion was polled. `position`: the low 32 bits of `done` when the completion was made.
  void free_before(uint32_t position) noexcept { polled_ = position; }
  [[nodiscard]] SendWqe& at(uint64_t position) noexcept { return slots_[position & mask_]; }
  [[nodiscard]] const SendWqe& at(uint64_t position) const noexcept { return slots_[position & mask_]; }
  /// The WQE at `started` has begun and is not finished: a message is partly cut, or a delay runs.
  [[nodiscard]] bool half_executed() const noexcept { return started < rung && at(started).started; }
  /// Data segments of a WQE. An inline WQE has one segment without key.
  [[nodiscard]] Sge* sges(uint64_t position) noexcept { return &sges_[(position & mask_) * sges_per_wqe_]; }
  [[nodiscard]] std::byte* inline_data(uint64_t position) noexcept {
    return &inline_[(position & mask_) * inline_bytes_];
  }
  [[nodiscard]] uint32_t capacity() const noexcept { return wqes_; }
  [[nodiscard]] uint32_t sges_max() const noexcept { return sges_per_wqe_; }
  [[nodiscard]] uint32_t inline_max() const noexcept { return inline_bytes_; }
  /// Drops every WQE.
  void clear() noexcept { posted = rung = started = done = polled_ = 0; }

  uint64_t posted = 0;
  uint64_t rung = 0;     // doorbell: WQEs before it may be executed
  uint64_t started = 0;  // WQEs before it are cut into packets or executed
  uint64_t done = 0;     // WQEs before it are completed

 private:
  // The members that each post uses stand in the first cache line.
  std::unique_ptr<SendWqe[]> slots_;
  std::unique_ptr<Sge[]> sges_;
  uint32_t wqes_;
  uint32_t mask_;
  uint32_t polled_ = 0;  // low 32 bits: WQEs before it have given their places back
  uint8_t sges_per_wqe_;
  bool holds_;
  uint16_t inline_bytes_;
  std::unique_ptr<std::byte[]> inline_;
};

}  // namespace weft::adapter
