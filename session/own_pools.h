// session/own_pools.h -- the receive memory that one incarnation offers: its pools and their numbers, and
// their advertisement, renewal, growth and flush. Outlives the incarnation while the driver still holds
// frames in it; after retire() it uses neither peer nor adapter.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "session/buffer_recv_pool.h"
#include "session/control_channel.h"
#include "session/session_channels.h"
#include "session/session_context.h"

namespace weft::session {

/// Sizes that follow from the configuration and a mode.
[[nodiscard]] uint32_t own_frame_max(const SessionConfig& config, TransferMode mode) noexcept;
[[nodiscard]] uint32_t receive_slots(const SessionConfig& config) noexcept;
[[nodiscard]] constexpr uint32_t round_up(uint32_t value, uint32_t to) noexcept {
  return (value + to - 1) / to * to;
}

/// Owner: the session's thread.
class OwnPools {
 public:
  OwnPools(SessionContext& context, SessionChannels& channels);

  /// Allocates and registers the memory of every pool, or of the receive WQEs. The advertisement is sent
  /// later (PUSH-RDMAW-01).
  Status make();
  /// The peer may not write any more and no queue pair is left. Elements that the driver holds stay readable.
  void retire() noexcept;

  [[nodiscard]] RecvPool* find(uint32_t reference) noexcept;
  /// True if this incarnation has used that number for a pool, even one that was flushed.
  [[nodiscard]] bool has_been(uint32_t reference) const noexcept;
  /// Modes without RDMA have one pool.
  [[nodiscard]] RecvPool& receive_pool() noexcept { return *pools_.front().pool; }

  /// Adds a pool for packets of that size, if limits and `grow_interval` allow it (PUSH-POOL-08).
  void grow(uint32_t packet_bytes) noexcept;
  bool send_adverts(ControlChannel& control) noexcept;
  bool send_updates(ControlChannel& control) noexcept;
  [[nodiscard]] bool renewal_due() const noexcept;
  /// Latest time of the next renewal; kNever when nothing is freed.
  [[nodiscard]] Instant renew_at() const noexcept { return renew_at_; }
  /// The driver has released an element. False when its receive WQE could not be posted again.
  [[nodiscard]] bool give_back(RecvPool& pool, uint32_t element) noexcept;

  /// Ends a live pool at once; its memory is freed when the driver has released its last frame.
  void flush(RecvPool& pool) noexcept;
  void flush_all() noexcept;
  /// Live pools that a flush names.
  [[nodiscard]] BufferPoolFlushRequest to_flush() const noexcept;
  void drop_spent() noexcept;

  void account(SessionConservation& out) const noexcept;

 private:
  struct Pool {
    std::unique_ptr<RecvPool> pool;
    uint32_t pool_class = 0;  // index into the configuration
    bool advert_pending = false;
  };
  Status add(uint32_t pool_class);
  Status make_receive_slots();
  [[nodiscard]] bool post_receive(RecvPool& pool, uint32_t element) noexcept;
  [[nodiscard]] uint32_t first_reference() const noexcept;
  void advert_sent(uint32_t reference) noexcept;

  SessionContext& context_;
  SessionChannels* channels_;  // null once retired
  std::vector<Pool> pools_;
  uint32_t next_reference_;  // used in order, never twice
  Instant renew_at_ = kNever;
  Instant grow_at_ = Instant::min();  // earliest time of the next pool made on demand
};

}  // namespace weft::session
