// sim/raw_end.h -- one end of a raw pair during one connection: a QP, its memory, and what was posted to it
// and has not come back.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "adapter/adapter.h"
#include "base/fixed_ring.h"
#include "base/rng.h"
#include "sim/world_plan.h"

namespace weft::sim {

/// Messages that a peer may have written and nobody has looked at yet.
inline constexpr uint32_t kRawWindowSlots = 8;
inline constexpr uint32_t kRawSourceBytes = 16'384;

/// What an end needs to know of the adapter it sits on; null adapter while the node is dead.
struct RawNode {
  adapter::ChannelAdapter* adapter = nullptr;
  Lid lid;
  adapter::PdId pd;
  bool frozen = false;
};

/// Owner: its pair.
class RawEnd {
 public:
  enum class Kind : uint8_t { kSend, kWrite, kRead };
  /// A send WQE under way.
  struct Outstanding {
    uint64_t wr_id = 0;
    Kind kind = Kind::kSend;
    uint32_t bytes = 0;
    uint32_t source_offset = 0;  // kRead: where in the peer's source
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
  /// Posts `request` with one SGE over the first `bytes` of the next slot. Unchanged unless kOk.
  [[nodiscard]] adapter::PostResult post(adapter::SendRequest request, const Outstanding& what);
  [[nodiscard]] uint32_t poll_sends(std::span<adapter::WorkCompletion> out) noexcept;
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
  /// Takes the next slot of the peer's writes; false when all are full.
  [[nodiscard]] bool has_free_slot() const noexcept { return free_slots_ != 0; }
  uint32_t take_slot() noexcept;
  void free_slot() noexcept { ++free_slots_; }
  [[nodiscard]] uint32_t next_slot() const noexcept { return next_slot_; }
  [[nodiscard]] const adapter::MemoryRegion& window() const noexcept { return window_mr_; }
  [[nodiscard]] std::span<const std::byte> window_memory() const noexcept { return window_memory_; }
  [[nodiscard]] const adapter::MemoryRegion& source() const noexcept { return source_mr_; }
  [[nodiscard]] std::span<const std::byte> source_memory() const noexcept { return source_memory_; }

 private:
  [[nodiscard]] bool post_one_receive();

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
  uint32_t free_slots_ = kRawWindowSlots;
};

}  // namespace weft::sim
