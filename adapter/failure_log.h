// adapter/failure_log.h -- the latest failures of an adapter, for people: WEFT_DEBUG=verbs explains them and
// `weft stat` shows them. Written on cold paths alone, and never in the way of anything: failures that are
// not taken in time are lost.
#pragma once

#include <array>
#include <cstdint>

#include "adapter/memory/access.h"
#include "adapter/verbs.h"
#include "base/clock.h"
#include "base/fixed_ring.h"
#include "messages/failure.h"
#include "messages/opcode.h"

namespace weft::adapter {

/// What a refused access is for a request of this side, for a message of the peer, and for a bind.
[[nodiscard]] constexpr Reason local_reason(AccessFault fault) noexcept {
  return static_cast<Reason>(static_cast<uint16_t>(Reason::kLocalMemory) + static_cast<uint16_t>(fault));
}
[[nodiscard]] constexpr Reason remote_reason(AccessFault fault) noexcept {
  return static_cast<Reason>(static_cast<uint16_t>(Reason::kRemoteMemory) + static_cast<uint16_t>(fault));
}
[[nodiscard]] constexpr Reason bind_reason(AccessFault fault) noexcept {
  return static_cast<Reason>(static_cast<uint16_t>(Reason::kBind) + static_cast<uint16_t>(fault));
}
/// A completion has no room for more: `imm` of a failed one.
[[nodiscard]] constexpr uint32_t code_of(Reason reason) noexcept {
  return static_cast<uint32_t>(reason);
}

[[nodiscard]] FailedWork work_of(WcOpcode opcode) noexcept;
[[nodiscard]] FailedWork work_of(Opcode opcode) noexcept;

/// A cell that fits nothing here: where from, and for which QP.
struct Stray {
  Reason reason = Reason::kNone;
  Qpn qpn{};
  Lid from{};
  Qpn from_qpn{};

  friend bool operator==(const Stray&, const Stray&) = default;
};

/// Owner: the adapter's thread.
class FailureLog {
 public:
  static constexpr size_t kKept = 32;
  /// A peer that repeats cells in vain is a fault; late cells of a QP that has gone are not. One is reported
  /// with the kStrayTimes-th cell, if that came kStraySpan after the first: retransmissions lie apart.
  static constexpr uint32_t kStrayTimes = 3;
  static constexpr Duration kStraySpan = 2ms;
  static constexpr size_t kStrayKinds = 8;     // that are counted at a time
  static constexpr uint32_t kStraysMost = 64;  // reports in the life of an adapter: peers can provoke them

  FailureLog() { ring_.reset(kKept); }
  /// `flag` becomes true with each failure.
  void report_to(bool& flag) noexcept { flag_ = &flag; }
  [[gnu::cold]] void add(const Failure& failure) noexcept;
  /// The oldest; false when there is none.
  [[nodiscard]] bool take(Failure& out) noexcept;
  /// One more of this kind. True when it is to be reported, which is once.
  [[gnu::cold, nodiscard]] bool note(const Stray& stray, Instant now, Duration span = kStraySpan) noexcept;

 private:
  struct Seen {
    Stray stray;
    uint32_t times = 0;
    bool told = false;
    Instant first{};
  };

  FixedRing<Failure> ring_;
  std::array<Seen, kStrayKinds> seen_{};
  size_t next_seen_ = 0;
  uint32_t strays_told_ = 0;
  bool* flag_ = nullptr;
};

}  // namespace weft::adapter
