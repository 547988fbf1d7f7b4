// session/control_channel.h -- messages out and in on channel 0 of one incarnation, in the encoding that was
// agreed. Encodes and decodes them and owns the send slots; their meaning is handled elsewhere
// (incoming_messages.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "messages/netdev_model.h"
#include "session/session_channels.h"
#include "session/session_context.h"

namespace weft::session {

/// Owner: the session's thread.
class ControlChannel {
 public:
  ControlChannel(SessionContext& context, IncarnationEnd& end, SessionChannels& channels);

  /// Call once the peer is known to be ready; nothing is sent earlier.
  void allow() noexcept { allowed_ = true; }
  [[nodiscard]] bool may_send() const noexcept;
  [[nodiscard]] uint64_t next_context() noexcept { return context_.next_message++; }
  /// False if the message could not be sent: no slot, not allowed, too long for a slot, or the queue pair
  /// failed (which ends the incarnation).
  [[nodiscard]] bool send(const NetdevMessage& message) noexcept;
  /// Send slots left for other messages than renewals.
  [[nodiscard]] bool room_for_renewal() const noexcept;
  [[nodiscard]] bool full() const noexcept { return channels_.free_control_slots() == 0; }

  /// False for a message that does not decode: counted and logged; the session goes on (PUSH-MSG-04).
  [[nodiscard]] bool decode(std::span<const std::byte> bytes, NetdevMessage& out) noexcept;

  void sent(uint32_t slot) noexcept;
  /// Frames described by messages that have not completed.
  [[nodiscard]] uint64_t frames_described() const noexcept;

 private:
  [[nodiscard]] size_t encode(const NetdevMessage& message, std::span<std::byte> out) noexcept;
  void refuse(NetdevError error) noexcept;

  SessionContext& context_;
  IncarnationEnd& end_;
  SessionChannels& channels_;
  bool allowed_ = false;
  std::vector<uint32_t> described_;  // by slot: frames described by the message in it
};

}  // namespace weft::session
