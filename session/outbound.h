// session/outbound.h -- frames of one incarnation for the peer, the peer's pools, and the indications for
// writes whose immediate data cannot name an element.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/fixed_ring.h"
#include "session/control_channel.h"
#include "session/remote_pool.h"
#include "session/session_channels.h"
#include "session/session_context.h"

namespace weft::session {

/// Owner: the session's thread. Frames have numbers, from 0 in the order of submission.
class Outbound {
 public:
  Outbound(SessionContext& context, IncarnationEnd& end, SessionChannels& channels, ControlChannel& control);

  // ---- the driver's side; see netdev_session.h --------------------------------------------------
  [[nodiscard]] uint32_t frame_bytes_max() const noexcept;
  [[nodiscard]] std::span<std::byte> claim(uint32_t bytes_max) noexcept;
  void submit(uint32_t bytes) noexcept;
  void abandon() noexcept { claim_at_ = nullptr; }
  void flush() noexcept;

  /// Assigns free elements to waiting frames.
  void place() noexcept;
  /// All frames up to `number` have been sent.
  void complete(uint64_t number) noexcept;
  /// Frames before this number are completed.
  [[nodiscard]] uint64_t completed() const noexcept { return first_; }
  /// Frames before this number have been posted.
  [[nodiscard]] uint64_t posted() const noexcept { return first_ + posted_; }
  /// BufferRDMAIndicate for writes that have completed (decisions 2.17), in their order.
  bool send_indications() noexcept;
  [[nodiscard]] bool has_indications() const noexcept { return !indications_.empty(); }
  /// True if no frame and no indication is left to send.
  [[nodiscard]] bool drained() const noexcept {
    return (frames_.empty() || remote_.empty()) && indications_.empty();
  }
  /// Frames whose delivery is unknown if the incarnation ends now.
  [[nodiscard]] uint64_t undelivered() const noexcept { return frames_.size() + indications_.size(); }
  [[nodiscard]] size_t in_flight() const noexcept { return frames_.size(); }

  // ---- the peer's pools -------------------------------------------------------------------------
  void learn(const PoolAdvert& advert) noexcept;
  void renew(const BufferRecvPoolUpdate& body) noexcept;
  /// False when there is no such pool.
  bool forget(uint32_t reference) noexcept { return remote_.remove(reference); }
  void forget_all() noexcept { remote_.clear(); }
  [[nodiscard]] bool knows_pools() const noexcept { return !remote_.empty(); }
  [[nodiscard]] BufferPoolFlushRequest to_flush() const noexcept { return remote_.to_flush(); }

  void account(SessionConservation& out) const noexcept;

 private:
  /// A frame from submit to completion. Order in frames_: the posted ones, the placed ones, then at most one
  /// waiting.
  struct Frame {
    std::byte* at = nullptr;     // vnet header, in the send ring
    uint32_t bytes = 0;          // vnet header included
    uint64_t ring_position = 0;  // frees the ring up to here
    RemoteElement target;
    bool by_message = false;  // described by BufferRDMAIndicate
  };

  [[nodiscard]] bool can_submit() noexcept;
  /// Counts `why` when the driver begins to wait, once per wait.
  void hold(SessionCounter why) noexcept;
  void post(bool last) noexcept;
  [[nodiscard]] adapter::Sge describe(Frame& frame, adapter::SendRequest& request) noexcept;
  [[nodiscard]] uint32_t encode_send_data(Frame& frame, std::byte*& at) noexcept;
  void ask_for_pool() noexcept;

  SessionContext& context_;
  IncarnationEnd& end_;
  SessionChannels& channels_;
  ControlChannel& control_;
  RemotePools remote_;
  FixedRing<Frame> frames_;
  uint64_t first_ = 0;  // number of frames_.front()
  size_t posted_ = 0;
  size_t placed_ = 0;
  uint64_t submitted_ = 0;
  uint32_t unsignalled_ = 0;
  uint64_t unsignalled_bytes_ = 0;
  bool doorbell_ = false;
  bool held_ = false;    // the driver has been told to wait
  bool waited_ = false;  // the waiting frame has been counted
  bool by_message_;      // this direction describes frames by BufferRDMAIndicate
  std::byte* claim_at_ = nullptr;
  uint32_t claim_bytes_ = 0;
  FixedRing<Indication> indications_;
  Instant get_at_ = Instant::min();  // no BufferRecvPoolGet before
  Duration get_interval_;
};

}  // namespace weft::session
