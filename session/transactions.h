// session/transactions.h -- configuration requests of ours that wait for the peer's reply, the keepalive
// among them. The driver gets exactly one answer for each: the peer's, a time-out, or the session's loss.
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
  /// @param frames_sent number of completed frames, which the peer compares with those that arrived
  void send_keepalive(uint64_t frames_sent) noexcept;
  /// True if frames may have been lost unnoticed: the peer needs the final count in two keepalives to detect
  /// it.
  [[nodiscard]] bool owes_promise(uint64_t frames_sent) const noexcept;
  void on_reply(uint64_t context, const CfgUtilReply& body) noexcept;

  /// Answers the transactions that timed out.
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
  /// Answers the transactions whose deadline is not after `until`.
  void give_up(CfgStatus status, Instant until) noexcept;

  SessionContext& context_;
  ControlChannel& control_;
  std::vector<Place> places_;
  uint32_t open_ = 0;  // places in use
  Place keepalive_;    // replaced by the next keepalive if unanswered
  /// Frame counts of our last two keepalives. The peer checks a count when the next keepalive arrives.
  std::array<uint64_t, 2> frames_told_{};
};

}  // namespace weft::session
