// adapter/failure_log.h -- the latest failures of an adapter, for people: WEFT_DEBUG=verbs explains them and
// `weft stat` shows them. Written on cold paths only, without waiting: failures that are not taken in time
// are lost.
#pragma once

#include <array>
#include <cstdint>

#include "adapter/verbs.h"
#include "base/clock.h"
#include "base/fixed_ring.h"
#include "messages/failure.h"
#include "messages/opcode.h"

namespace weft::adapter {

/// Code for `imm` of a failed completion, which has no other room for it.
[[nodiscard]] inline uint32_t code_of(Reason reason) noexcept {
  return rule_of(reason).code;
}

[[nodiscard]] FailedWork work_of(WcOpcode opcode) noexcept;
[[nodiscard]] FailedWork work_of(Opcode opcode) noexcept;

/// A cell that matches no QP or connection here: its source, and the QP that it names.
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
  /// A peer that repeats cells without effect indicates a fault. Late cells of a QP that has gone do not. So
  /// a kind is reported with its kStrayTimes-th cell, provided that this one came at least kStraySpan after
  /// the first: retransmissions have such distances.
  static constexpr uint32_t kStrayTimes = 3;
  static constexpr Duration kStraySpan = 2ms;
  static constexpr size_t kStrayKinds = 8;     // kinds counted at a time
  static constexpr uint32_t kStraysMost = 64;  // per adapter, because peers can provoke them

  FailureLog() { ring_.reset(kKept); }
  /// Sets `flag` with each failure.
  void report_to(bool& flag) noexcept { flag_ = &flag; }
  [[gnu::cold]] void add(const Failure& failure) noexcept;
  /// Takes the oldest failure; false when there is none.
  [[nodiscard]] bool take(Failure& out) noexcept;
  /// Counts one more cell of this kind. True when the kind is to be reported; once per kind.
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
