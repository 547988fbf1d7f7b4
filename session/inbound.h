// session/inbound.h -- received frames of one incarnation for the driver, in the order of indication, in
// place in our own pools. Outlives the incarnation until the driver has taken or dropped the last one.
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
  /// Ends the incarnation's part: frames stay for the driver, elements are not renewed.
  void retire() noexcept;

  // ---- what arrives; a fault is a violation (decisions 2.16) ------------------------------------
  void on_write(const adapter::WorkCompletion& done) noexcept;
  void on_send(const adapter::WorkCompletion& done) noexcept;
  void on_send_data(std::span<const std::byte> data) noexcept;
  void on_indications(const BufferRdmaIndicate& body) noexcept;
  /// A keepalive carries the number of frames that the peer has sent. These must have arrived before the next
  /// keepalive; otherwise the last frames before a pause were lost on an unacknowledged channel.
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
    InboundFrame frame;  // no bytes: a refused frame, whose element is released when it reaches the front
    RecvPool* pool = nullptr;
  };
  void indicate(RecvPool& pool, uint32_t element, uint32_t bytes) noexcept;
  [[nodiscard]] bool fits(IndicationFault fault, uint32_t bytes) noexcept;
  void pool_missing(uint32_t reference) noexcept;
  void skip_refused() noexcept;
  void free_front() noexcept;

  SessionContext& context_;
  IncarnationEnd* end_;  // null once retired
  OwnPools pools_;
  FixedRing<Frame> queue_;
  uint32_t next_slot_ = 0;  // modes without RDMA: the receive slot that completes next
  uint64_t indicated_ = 0;
  uint64_t released_ = 0;
  uint64_t promised_ = 0;  // frame count of the peer's latest keepalive, checked at the next one
};

}  // namespace weft::session
