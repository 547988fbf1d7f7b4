// session/session_channels.h -- the queue pairs, keys and memory of one incarnation of a session: channel 0
// for messages, channel 1 for frames, created and destroyed together (PUSH-CTRL-01, C-06). Does not interpret
// messages.
//
// Every incarnation has a protection domain of its own, so that a guessed key reaches this session's pools at
// most (decisions section 4).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "adapter/adapter.h"
#include "adapter/queues/send_ring.h"
#include "base/counters.h"
#include "base/result.h"
#include "base/rng.h"
#include "base/stats_page.h"
#include "messages/netdev.h"
#include "messages/session_mad.h"
#include "session/buffer_recv_pool.h"
#include "session/session_memory.h"

namespace weft::session {

/// Purpose of a work request, in the top byte of its wr_id.
enum class WorkKind : uint8_t { kControlSend = 1, kControlRecv = 2, kFrameSend = 3, kFrameRecv = 4 };
[[nodiscard]] constexpr uint64_t make_wr_id(WorkKind kind, uint64_t number) noexcept {
  return uint64_t{static_cast<uint8_t>(kind)} << 56 | (number & 0x00FF'FFFF'FFFF'FFFF);
}
[[nodiscard]] constexpr WorkKind work_kind(uint64_t wr_id) noexcept {
  return static_cast<WorkKind>(wr_id >> 56);
}
[[nodiscard]] constexpr uint64_t work_number(uint64_t wr_id) noexcept {
  return wr_id & 0x00FF'FFFF'FFFF'FFFF;
}

struct ChannelSizes {
  TransferMode mode = TransferMode::kRdma;
  uint32_t message_bytes = 4096;  // slot of channel 0
  uint32_t control_sends = 64;    // slots
  uint32_t control_recvs = 128;   // slots
  uint32_t frame_sends = 512;     // WQEs for outbound frames
  uint32_t frame_recvs = 0;       // receive WQEs of channel 1
  uint32_t indications = 0;       // most rdata CQEs that can wait: advertised elements, growth included
  uint32_t send_ring_bytes = 0;
  ServiceLevel sl{};
  uint8_t port = 1;
  AckPolicy acks = AckPolicy::kSelective;
  friend bool operator==(const ChannelSizes&, const ChannelSizes&) = default;
};

/// Counters of both channels over all incarnations: a queue pair's own counters end with its incarnation.
class ChannelTotals {
 public:
  /// Sets the totals to the sum of earlier queue pairs and `now`. @param last the queue pair is about to go
  void add_up(uint32_t channel, const CounterSet<adapter::QpCounter>& now, bool last) noexcept;
  [[nodiscard]] const CounterSet<adapter::QpCounter>& of(uint32_t channel) const noexcept {
    return totals_[channel].published;
  }
  /// As `prefix.qp.0.NAME` (channel 0) and `prefix.qp.1.NAME`. False when the page is full.
  bool publish(StatsPage& page, std::string_view prefix);

 private:
  struct Totals {
    std::array<uint64_t, CounterSet<adapter::QpCounter>::kSize> past{};
    CounterSet<adapter::QpCounter> published;
  };
  std::array<Totals, 2> totals_;
};

/// Memory that a session keeps from one incarnation to the next, so that reconnecting allocates none. No
/// content is carried over.
struct ChannelStore {
  PoolMemory control;  // receive slots, then send slots
  PoolMemory ring;
  ChannelTotals totals;
};

/// Owner: the session's thread.
class SessionChannels {
 public:
  /// Creates all parts, with queue pairs in INIT and receive slots of channel 0 posted. On failure frees
  /// everything. Only one object at a time may use `store`, which outlives it.
  static Result<std::unique_ptr<SessionChannels>> make(adapter::ChannelAdapter& adapter, RandomSource& random,
                                                       ChannelStore& store, const ChannelSizes& sizes);
  /// For make(): creates no adapter objects.
  SessionChannels(adapter::ChannelAdapter& adapter, RandomSource& random, ChannelStore& store,
                  const ChannelSizes& sizes)
      : adapter_(adapter), random_(random), store_(store), sizes_(sizes), memory_(adapter, random) {}
  ~SessionChannels();

  /// Binds the queue pairs to the peer's. After that both sides may send.
  Status connect(Lid peer, const SessionQueuePair& control, const SessionQueuePair& data);
  /// Accesses of this incarnation's peer that the adapter refused because key, range or right did not fit.
  [[nodiscard]] uint64_t refused_accesses() const noexcept;
  /// Brings the totals in the store up to date.
  void update_totals() noexcept { add_up(false); }
  [[nodiscard]] const ChannelSizes& sizes() const noexcept { return sizes_; }

  [[nodiscard]] SessionQueuePair control_channel() const noexcept;
  /// Zero in a session with one channel.
  [[nodiscard]] SessionQueuePair data_channel() const noexcept;

  /// The protection domain and registrations of this incarnation.
  [[nodiscard]] SessionMemory& memory() noexcept { return memory_; }

  // ---- channel 0 --------------------------------------------------------------------------------
  /// A free send slot, or an empty span. The slot stays free until send_control().
  [[nodiscard]] std::span<std::byte> control_slot() noexcept;
  [[nodiscard]] uint32_t free_control_slots() const noexcept {
    return static_cast<uint32_t>(free_sends_.size());
  }
  /// Sends the first `bytes` of control_slot(). Returns its number through `slot`.
  [[nodiscard]] adapter::PostResult send_control(uint32_t bytes, uint32_t& slot) noexcept;
  void control_sent(uint32_t slot) noexcept { free_sends_.push_back(slot); }
  [[nodiscard]] std::span<const std::byte> control_message(uint32_t slot, uint32_t bytes) const noexcept;
  [[nodiscard]] bool repost_control(uint32_t slot) noexcept;

  // ---- frames -----------------------------------------------------------------------------------
  [[nodiscard]] adapter::SendRing& ring() noexcept { return ring_; }
  /// A data segment inside the send ring.
  [[nodiscard]] adapter::Sge ring_sge(const std::byte* at, uint32_t bytes) const noexcept;
  /// Queues on channel 1, or on channel 0 if the session has only one; ring_data() sends.
  [[nodiscard]] adapter::PostResult post_data(const adapter::SendRequest& request) noexcept;
  void ring_data() noexcept;
  [[nodiscard]] bool post_frame_recv(uint32_t slot, const adapter::Sge& sge) noexcept;

  // ---- completions ------------------------------------------------------------------------------
  [[nodiscard]] uint32_t poll_sends(std::span<adapter::WorkCompletion> out) noexcept;
  /// Of both channels, in the order of arrival.
  [[nodiscard]] uint32_t poll_receives(std::span<adapter::WorkCompletion> out) noexcept;
  /// Packets known to be missing on unacknowledged channels.
  [[nodiscard]] uint64_t missed_packets() const noexcept;
  [[nodiscard]] bool port_up() const noexcept { return adapter_.ports().up(sizes_.port); }

 private:
  Status make_memory();
  Status make_queues();
  Refusable<adapter::QueuePair*> make_qp(bool data);
  Status to_init(adapter::QueuePair& qp, bool data);
  Status to_rts(adapter::QueuePair& qp, Lid peer, const SessionQueuePair& remote, Psn own_psn);
  [[nodiscard]] bool acknowledged() const noexcept { return sizes_.mode != TransferMode::kSendReceive; }
  [[nodiscard]] bool has_data_channel() const noexcept { return sizes_.mode != TransferMode::kSendDataOnly; }
  [[nodiscard]] adapter::QueuePair& data_qp() noexcept {
    return data_qp_ != nullptr ? *data_qp_ : *control_qp_;
  }

  void add_up(bool last) noexcept;

  adapter::ChannelAdapter& adapter_;
  RandomSource& random_;
  ChannelStore& store_;
  const ChannelSizes sizes_;
  adapter::SendRing ring_;
  SessionMemory memory_;
  adapter::MemoryRegion control_region_;
  adapter::MemoryRegion ring_region_;
  adapter::CompletionQueue* send_cq_ = nullptr;
  adapter::CompletionQueue* recv_cq_ = nullptr;
  adapter::QueuePair* control_qp_ = nullptr;
  adapter::QueuePair* data_qp_ = nullptr;
  Psn control_psn_;
  Psn data_psn_;
  std::vector<uint32_t> free_sends_;  // never grows after make()
};

}  // namespace weft::session
