// sim/raw_end.h -- one end of a raw pair during one connection: a QP, its memory, and what was posted to it
// and has not come back.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "adapter/adapter.h"
#include "base/fixed_ring.h"
#include "base/rng.h"
#include "sim/world_plan.h"

namespace weft::sim {

/// Messages that a peer may have written and this end has not read yet.
inline constexpr uint32_t kRawWindowSlots = 8;
inline constexpr uint32_t kRawSourceBytes = 16'384;
inline constexpr uint32_t kRawInlineBytes = 200;

/// What an end needs to know of the adapter it sits on; null adapter while the node is dead.
struct RawNode {
  adapter::ChannelAdapter* adapter = nullptr;
  Lid lid;
  adapter::PdId pd;
  uint8_t port = 1;
  bool frozen = false;
};

/// Owner: its pair.
class RawEnd {
 public:
  enum class Kind : uint8_t { kSend, kWrite, kRead, kReturned, kBind, kUnbind };
  /// A send WQE under way.
  struct Outstanding {
    uint64_t wr_id = 0;
    Kind kind = Kind::kSend;
    uint32_t bytes = 0;
    uint32_t source_offset = 0;  // kRead: where in the peer's source
    uint32_t slot = 0;           // kBind, kUnbind: of the window
  };

  /// All references must outlive the end; the adapter lives.
  RawEnd(const RawPairPlan& plan, RawNode& node, RandomSource& random);
  RawEnd(const RawEnd&) = delete;
  RawEnd& operator=(const RawEnd&) = delete;

  [[nodiscard]] bool create();
  [[nodiscard]] bool connect(const RawEnd& peer);
  /// Moves the QP to its error state: every WQE must come back now.
  void fail();
  [[nodiscard]] bool flushed() const noexcept { return sends_.empty() && receives_.empty(); }
  void destroy();
  /// Forgets the QP without a word: its adapter is gone.
  void abandon() noexcept { qp_ = nullptr; }
  [[nodiscard]] bool alive() const noexcept { return qp_ != nullptr; }
  [[nodiscard]] const CounterSet<adapter::QpCounter>& counters() const noexcept {
    return node_.adapter->counters(*qp_);
  }
  [[nodiscard]] adapter::Destination address(ServiceLevel sl) const noexcept;

  // ---- send queue
  [[nodiscard]] const FixedRing<Outstanding>& sends() const noexcept { return sends_; }
  [[nodiscard]] uint64_t next_wr_id() const noexcept { return next_send_; }
  /// Memory of a send WQE, bytes_max of the plan.
  [[nodiscard]] std::span<std::byte> send_slot(uint64_t wr_id) noexcept;
  /// Posts `request`; where it moves data, with one SGE over the first `bytes` of the next slot, or of that
  /// of the WQE before for what a read brought. Unchanged unless kOk.
  [[nodiscard]] adapter::PostResult post(adapter::SendRequest request, const Outstanding& what);
  [[nodiscard]] uint32_t poll_sends(std::span<adapter::WorkCompletion> out) noexcept;
  /// Until the next post, messages lie in a region of their own that take_memory() ends.
  [[nodiscard]] bool lend_memory();
  void take_memory();
  [[nodiscard]] bool memory_lent() const noexcept { return lent_mr_.length != 0; }
  /// The WQE that must complete next, if `wr_id` is it.
  [[nodiscard]] std::optional<Outstanding> finish_send(uint64_t wr_id);

  // ---- receive queue
  [[nodiscard]] uint32_t receives_posted() const noexcept { return static_cast<uint32_t>(receives_.size()); }
  [[nodiscard]] std::span<std::byte> receive_slot(uint64_t wr_id) noexcept;
  [[nodiscard]] uint32_t poll_receives(std::span<adapter::WorkCompletion> out) noexcept;
  /// False when another WQE must complete next.
  [[nodiscard]] bool finish_receive(uint64_t wr_id);
  /// One more receive WQE is to be posted at this time.
  void want_receive(Instant at) { static_cast<void>(receives_due_.push(at)); }
  /// Posts what is due. Returns how many.
  int post_receives(Instant now);
  [[nodiscard]] Instant next_receive_due() noexcept;

  // ---- memory that the peer writes and reads
  /// The next slot that the peer may write; false when it is not free.
  [[nodiscard]] bool has_free_slot() const noexcept { return slots_[next_slot_].state == SlotState::kFree; }
  void take_slot() noexcept;
  [[nodiscard]] uint32_t next_slot() const noexcept { return next_slot_; }
  [[nodiscard]] Rkey slot_key(uint32_t slot) const noexcept { return slots_[slot].key; }
  /// A write into the slot has arrived and was looked at. False when its key had ended before.
  [[nodiscard]] bool slot_written(uint32_t slot) noexcept;
  /// Gives windows to the slots that have none, ends those that were written. Returns how many WQEs it
  /// posted.
  int renew_windows();
  /// A bind or unbind has completed.
  void window_changed(const Outstanding& what);
  /// Ends the window of the slot that was taken last, if its write has not arrived yet. True when it did.
  [[nodiscard]] bool revoke_slot();
  /// Everything that had completed before an unbind was polled: what comes now came too late.
  void close_slots() noexcept;
  /// False when a write reached a slot after its key had ended.
  [[nodiscard]] bool closed_slots_untouched() const noexcept;
  /// Writes that were lost never come.
  void reclaim_slots() noexcept;
  [[nodiscard]] const adapter::MemoryRegion& window() const noexcept { return window_mr_; }
  [[nodiscard]] std::span<const std::byte> window_memory() const noexcept { return window_memory_; }
  [[nodiscard]] const adapter::MemoryRegion& source() const noexcept { return source_mr_; }
  [[nodiscard]] std::span<const std::byte> source_memory() const noexcept { return source_memory_; }

  // ---- state of the send queue
  enum class SendQueue : uint8_t { kRuns, kDrains, kDrained, kFailed };
  [[nodiscard]] SendQueue send_queue() const noexcept { return send_queue_; }
  void set_send_queue(SendQueue state) noexcept { send_queue_ = state; }
  [[nodiscard]] bool move_to(adapter::QpState state);
  /// The adapter has given the QP up.
  [[nodiscard]] bool failed() const { return node_.adapter->query_qp(*qp_).state == adapter::QpState::kErr; }
  [[nodiscard]] Qpn qpn() const noexcept { return node_.adapter->qpn(*qp_); }
  /// The adapter has said that the queue is drained; true once.
  void note_drained() noexcept { drained_told_ = true; }
  [[nodiscard]] bool take_drained() noexcept { return std::exchange(drained_told_, false); }

 private:
  enum class SlotState : uint8_t {
    kUnbound,
    kBinding,
    kFree,
    kTaken,
    kWritten,
    kEnding,
    kRevoking,
    kRevoked,
    kClosed
  };
  struct Slot {
    SlotState state = SlotState::kFree;
    Rkey key{};
    uint32_t crc = 0;  // kClosed: of its memory when it was closed
  };

  [[nodiscard]] bool post_one_receive();
  [[nodiscard]] bool post_bind(uint32_t slot);
  [[nodiscard]] bool post_unbind(uint32_t slot, SlotState next);
  [[nodiscard]] uint32_t slot_crc(uint32_t slot) const noexcept;

  const RawPairPlan& plan_;
  RawNode& node_;
  RandomSource& random_;
  adapter::CompletionQueue* send_cq_ = nullptr;
  adapter::CompletionQueue* recv_cq_ = nullptr;
  adapter::QueuePair* qp_ = nullptr;
  Psn first_psn_;
  std::vector<std::byte> send_memory_;
  std::vector<std::byte> receive_memory_;
  std::vector<std::byte> window_memory_;
  std::vector<std::byte> source_memory_;
  adapter::MemoryRegion send_mr_, receive_mr_, window_mr_, source_mr_;
  FixedRing<Outstanding> sends_;
  FixedRing<uint64_t> receives_;
  FixedRing<Instant> receives_due_;
  uint64_t next_send_ = 0;
  uint64_t next_receive_ = 0;
  uint32_t next_slot_ = 0;
  std::array<Slot, kRawWindowSlots> slots_;
  adapter::MemoryRegion lent_mr_;  // one message, while it is sent
  uint64_t lent_wr_id_ = 0;
  SendQueue send_queue_ = SendQueue::kRuns;
  bool drained_told_ = false;
};

}  // namespace weft::sim
