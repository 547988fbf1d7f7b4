// adapter/queues/send_ring.h -- registered memory for outbound frames: a ring of bytes. Frames of any length
// are taken and given back in order. A frame is contiguous; the next frame gets what it leaves unused of its
// claim.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::adapter {

/// Owner: the session's thread. Positions count without wrapping. The session owns the memory.
class SendRing {
 public:
  static constexpr uint32_t kAlign = 64;

  void reset(std::span<std::byte> memory) noexcept {
    memory_ = memory;
    head_ = tail_ = claim_ = 0;
  }

  /// Claims `bytes` contiguous bytes; null when the ring is too full. A second claim before commit() replaces
  /// the first.
  [[nodiscard]] std::byte* claim(uint32_t bytes) noexcept {
    const uint64_t size = memory_.size();
    if (size == 0) return nullptr;
    const uint64_t at = head_ % size;
    const uint64_t pad = at + bytes <= size ? 0 : size - at;
    if (head_ + pad + bytes - tail_ > size) return nullptr;
    claim_ = head_ + pad;
    return memory_.data() + claim_ % size;
  }
  /// Keeps the first `bytes` of the claim. Returns the position to pass to release() later.
  [[nodiscard]] uint64_t commit(uint32_t bytes) noexcept {
    const uint64_t used = (uint64_t{bytes} + kAlign - 1) / kAlign * kAlign;
    const uint64_t room = memory_.size() - claim_ % memory_.size();
    head_ = claim_ + (used < room ? used : room);
    return head_;
  }
  /// Frees everything before `position`.
  void release(uint64_t position) noexcept { tail_ = position; }

  [[nodiscard]] uint64_t used() const noexcept { return head_ - tail_; }
  [[nodiscard]] uint64_t size() const noexcept { return memory_.size(); }

 private:
  std::span<std::byte> memory_;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
  uint64_t claim_ = 0;
};

}  // namespace weft::adapter
