// sim/raw/raw_end.h -- one end of a raw pair during one connection: a QP, its memory, and its outstanding
// work requests.
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
#include "sim/plan/world_plan.h"

namespace weft::sim {

/// Messages that a peer may write before this end has read one.
inline constexpr uint32_t kRawWindowSlots = 8;
inline constexpr uint32_t kRawSourceBytes = 16'384;
inline constexpr uint32_t kRawInlineBytes = 200;

/// The adapter of an end and its addresses; `adapter` is null while the node is dead.
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
  /// An outstanding send WQE.
  struct Outstanding {
    uint64_t wr_id = 0;
    Kind kind = Kind::kSend;
    uint32_t bytes = 0;
    uint32_t source_offset = 0;  // kRead: offset in the peer's source
    uint32_t slot = 0;           // kBind, kUnbind: slot of the window
    uint64_t frame = 0;          // kSend, kWrite: number in its flow
  };

  /// All references must outlive the end; the node's adapter must exist.
  RawEnd(const RawPairPlan& plan, RawNode& node, RandomSource& random);
  RawEnd(const RawEnd&) = delete;
  RawEnd& operator=(const RawEnd&) = delete;

  [[nodiscard]] bool create();
  [[nodiscard]] bool connect(const RawEnd& peer);
  /// Moves the QP to the error state; all WQEs must come back.
  void fail();
  [[nodiscard]] bool flushed() const noexcept { return sends_.empty() && receives_.empty(); }
  void destroy();
  /// Forgets the QP without destroying it, because its adapter no longer exists.
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
  /// Posts `request`. A request that moves data gets one SGE over the first `bytes` of the next slot, or of
  /// the previous WQE's slot to return the data of a read. Unchanged unless kOk.
  [[nodiscard]] adapter::PostResult post(adapter::SendRequest request, const Outstanding& what);
  [[nodiscard]] uint32_t poll_sends(std::span<adapter::WorkCompletion> out) noexcept;
  /// Until the next post, messages use a region of their own, which take_memory() deregisters.
  [[nodiscard]] bool lend_memory();
  void take_memory();
  [[nodiscard]] bool memory_lent() const noexcept { return lent_mr_.length != 0; }
  /// Removes and returns the WQE that must complete next, if it is `wr_id`.
  [[nodiscard]] std::optional<Outstanding> finish_send(uint64_t wr_id);

  // ---- receive queue
  [[nodiscard]] uint32_t receives_posted() const noexcept { return static_cast<uint32_t>(receives_.size()); }
  [[nodiscard]] std::span<std::byte> receive_slot(uint64_t wr_id) noexcept;
  [[nodiscard]] uint32_t poll_receives(std::span<adapter::WorkCompletion> out) noexcept;
  /// False when another WQE must complete next.
  [[nodiscard]] bool finish_receive(uint64_t wr_id);
  /// Another receive WQE is to be posted at this time.
  void want_receive(Instant at) { static_cast<void>(receives_due_.push(at)); }
  /// Posts the receive WQEs that are due. @return their number
  int post_receives(Instant now);
  [[nodiscard]] Instant next_receive_due() noexcept;

  // ---- memory that the peer writes and reads
  /// True when the peer may write the next slot.
  [[nodiscard]] bool has_free_slot() const noexcept { return slots_[next_slot_].state == SlotState::kFree; }
  void take_slot() noexcept;
  [[nodiscard]] uint32_t next_slot() const noexcept { return next_slot_; }
  [[nodiscard]] Rkey slot_key(uint32_t slot) const noexcept { return slots_[slot].key; }
  /// A write to the slot has arrived and was checked. False when the slot's key had already ended.
  [[nodiscard]] bool slot_written(uint32_t slot) noexcept;
  /// Binds windows to slots without one and ends the windows of written slots. @return the number of posted
  /// WQEs
  int renew_windows();
  /// A bind or unbind has completed.
  void window_changed(const Outstanding& what);
  /// Ends the window of the slot taken last, if its write has not arrived. True when it did so.
  [[nodiscard]] bool revoke_slot();
  /// All completions before an unbind were polled: writes that arrive from now on are too late.
  void close_slots() noexcept;
  /// False when a write reached a slot after its key had ended.
  [[nodiscard]] bool closed_slots_untouched() const noexcept;
  /// Frees the slots of lost writes.
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
  /// The adapter has moved the QP to the error state.
  [[nodiscard]] bool failed() const { return node_.adapter->query_qp(*qp_).state == adapter::QpState::kErr; }
  [[nodiscard]] Qpn qpn() const noexcept { return node_.adapter->qpn(*qp_); }
  /// Notes the adapter's event that the queue is drained; take_drained() returns true once per event.
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
    uint32_t crc = 0;  // kClosed: CRC of the slot's memory when it was closed
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
  adapter::MemoryRegion lent_mr_;  // for one message while it is sent
  uint64_t lent_wr_id_ = 0;
  SendQueue send_queue_ = SendQueue::kRuns;
  bool drained_told_ = false;
};

}  // namespace weft::sim
