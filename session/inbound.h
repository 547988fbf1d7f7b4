// session/inbound.h -- frames of one incarnation on their way to the driver, in the order of indication, in
// place in our own pools. Outlives the incarnation until the driver has taken or given up the last of them.
#pragma once

#include <cstdint>
#include <span>

#include "base/fixed_ring.h"
#include "session/own_pools.h"
#include "session/session_context.h"

namespace weft::session {

/// Owner: the session's thread.
class Inbound {
 public:
  /// @param frames_max  most frames that can be indicated at once
  Inbound(SessionContext& context, IncarnationEnd& end, SessionChannels& channels, size_t frames_max);

  [[nodiscard]] OwnPools& pools() noexcept { return pools_; }
  [[nodiscard]] const OwnPools& pools() const noexcept { return pools_; }
  /// The incarnation is over: frames stay, nothing is renewed any more.
  void retire() noexcept;

  // ---- what arrives; a fault is a violation (decisions 2.16) ------------------------------------
  void on_write(const adapter::WorkCompletion& done) noexcept;
  void on_send(const adapter::WorkCompletion& done) noexcept;
  void on_send_data(std::span<const std::byte> data) noexcept;
  void on_indications(const BufferRdmaIndicate& body) noexcept;
  /// The peer says how many frames it had sent. What was promised in one keepalive must be here before the
  /// next: that tells when the last frames before a pause were lost on an unacknowledged channel.
  void on_promise(uint64_t frames) noexcept;

  // ---- the driver's side; see netdev_session.h --------------------------------------------------
  [[nodiscard]] const InboundFrame* peek(uint32_t index) noexcept;
  void release() noexcept;
  /// Drops and counts the frames that the driver has not taken.
  void drop_all() noexcept;
  [[nodiscard]] bool empty() const noexcept { return queue_.empty(); }

  void account(SessionConservation& out) const noexcept;

 private:
  struct Frame {
    InboundFrame frame;  // no bytes: a refused frame whose element goes back in its turn
    RecvPool* pool = nullptr;
  };
  void indicate(RecvPool& pool, uint32_t element, uint32_t bytes) noexcept;
  [[nodiscard]] bool fits(IndicationFault fault) noexcept;
  void pool_missing(uint32_t reference) noexcept;
  void skip_refused() noexcept;
  void free_front() noexcept;

  SessionContext& context_;
  IncarnationEnd* end_;  // null once retired
  OwnPools pools_;
  FixedRing<Frame> queue_;
  uint32_t next_slot_ = 0;  // modes without RDMA: slots are used in turn
  uint64_t indicated_ = 0;
  uint64_t released_ = 0;
  uint64_t promised_ = 0;  // the peer's count in its keepalive before last
};

}  // namespace weft::session
