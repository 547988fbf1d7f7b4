// session/transactions.h -- configuration requests of ours that wait for the peer's reply, the keepalive
// among them. Each is answered exactly once to the driver: by the peer, by a time-out or by the end.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "session/control_channel.h"
#include "session/session_context.h"

namespace weft::session {

/// Owner: the session's thread.
class Transactions {
 public:
  Transactions(SessionContext& context, ControlChannel& control);

  /// The driver's request; returns its number, or 0 when it could not be sent.
  [[nodiscard]] uint64_t start(const CfgRequest& request) noexcept;
  /// @param frames_sent  how many frames have left for good, which the peer compares with what came
  void send_keepalive(uint64_t frames_sent) noexcept;
  /// Frames may have been lost without notice, and the peer has not yet been told twice how many there were.
  [[nodiscard]] bool owes_promise(uint64_t frames_sent) const noexcept;
  void on_reply(uint64_t context, const CfgUtilReply& body) noexcept;

  /// Answers those whose time is over.
  void expire() noexcept { give_up(CfgStatus::kTimedOut, context_.now); }
  /// Answers all: the session is gone.
  void end() noexcept { give_up(CfgStatus::kSessionLost, kNever); }
  [[nodiscard]] Instant deadline() const noexcept;

 private:
  struct Place {
    uint64_t context = 0;  // 0: unused
    CfgClass request_class{};
    uint16_t code = 0;
    Instant deadline{};
  };
  [[nodiscard]] bool send(Place& place, const CfgRequest& request) noexcept;
  /// Those whose deadline is `until` or before.
  void give_up(CfgStatus status, Instant until) noexcept;

  SessionContext& context_;
  ControlChannel& control_;
  std::vector<Place> places_;
  uint32_t open_ = 0;  // places in use
  Place keepalive_;    // one that was not answered makes room for the next
  /// Our counts in the last two keepalives: a promise is only looked at when the next one comes.
  std::array<uint64_t, 2> frames_told_{};
};

}  // namespace weft::session
