// sim/flow_ledger.h -- who sent what to whom, and what came of it. The ledger stands outside the fabric: it
// survives every crash and knows each frame by flow and number. A flow is one session direction (decisions
// 2.25).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/frame_port.h"
#include "sim/saboteur.h"
#include "sim/trace.h"

namespace weft::sim {

/// Smallest frame that can carry a ledger entry, without vnet header.
inline constexpr uint32_t kLedgerFrameBytesMin = 60;

/// Until a run may stop, every flow sends a little: mostly small frames and hardly ever one of full size, so
/// that a seed keeps its size.
[[nodiscard]] inline uint32_t trickle_bytes(uint64_t number, uint32_t bytes_max) noexcept {
  if (number % 64 == 63) return bytes_max;
  return std::min(bytes_max, number % 8 == 7 ? 4000U : 300U);
}

/// Between two of them, by all flows together.
inline constexpr Duration kTrickleGap = std::chrono::milliseconds(10);

struct FlowEnds {
  MacAddress source{};
  MacAddress destination{};
  std::string name;    // "host 1 -> unit 0"
  bool loose = false;  // datagrams over links that double and swap cells: neither once nor in order
};

struct FlowTotals {
  uint64_t sent = 0;
  uint64_t arrived = 0;
  uint64_t lost_to_crash = 0;  // explained by an end of the session that went away
};

/// Owner: the world's thread.
class FlowLedger {
 public:
  /// `saboteur` null: no planted bugs.
  explicit FlowLedger(Trace& trace, Saboteur* saboteur = nullptr) noexcept
      : trace_(trace), saboteur_(saboteur) {}

  uint32_t add_flow(const FlowEnds& ends);
  /// From now on frames of the flow carry these addresses.
  void set_addresses(uint32_t flow, const MacAddress& source, const MacAddress& destination) noexcept;
  /// Writes the next frame of a flow, vnet header and `bytes` of frame, and enters it. `into` holds
  /// kVnetBytes + bytes. `doomed`: the session was not open, so the frame may be lost.
  void send(uint32_t flow, Instant now, uint32_t bytes, bool doomed, std::span<std::byte> into);
  /// Checks what came out at the other end: content, CRC, destination, order, not twice.
  void arrive(uint32_t expected_flow, Instant now, std::span<const std::byte> frame);
  /// Which flow a frame belongs to; false when it is none of ours.
  [[nodiscard]] static bool peek(std::span<const std::byte> frame, uint32_t& flow, uint64_t& number) noexcept;

  /// An end of the flow died or its session reset: frames sent so far and not arrived may be lost.
  void excuse(uint32_t flow, Instant now) noexcept;
  /// At the end of a run: every frame has arrived or is excused.
  void settle(Instant now);
  /// Frames sent after `since` that have arrived.
  [[nodiscard]] bool passed_since(uint32_t flow, Instant since) const noexcept;
  /// Frames that were neither delivered nor excused yet.
  [[nodiscard]] uint64_t outstanding(uint32_t flow) const noexcept;

  [[nodiscard]] FlowTotals totals(uint32_t flow) const noexcept;
  [[nodiscard]] uint32_t flows() const noexcept { return static_cast<uint32_t>(flows_.size()); }
  /// Between two frames of a flow that only trickles, on average.
  [[nodiscard]] Duration trickle_gap() const noexcept { return kTrickleGap * flows(); }
  [[nodiscard]] const std::string& name(uint32_t flow) const noexcept { return flows_[flow].ends.name; }
  /// What went wrong, first thing first; empty when all is well.
  [[nodiscard]] const std::vector<std::string>& violations() const noexcept { return violations_; }
  void violation(Instant now, std::string text);

 private:
  struct Entry {
    Instant sent_at{};
    uint32_t bytes = 0;
    bool arrived = false;
    bool excused = false;
  };
  struct Flow {
    FlowEnds ends;
    std::vector<Entry> entries;
    uint64_t excused_up_to = 0;  // entries before it have been looked at by excuse()
    uint64_t next_expected = 0;  // no number below it may arrive any more
    uint64_t arrived = 0;
    uint64_t excused = 0;
    std::vector<std::byte> late;  // a frame that a saboteur keeps until the next one has come
  };

  void take(uint32_t expected_flow, Instant now, std::span<const std::byte> frame);
  void take_tampered(uint32_t expected_flow, Instant now, std::span<const std::byte> frame);

  Trace& trace_;
  Saboteur* saboteur_;
  std::vector<Flow> flows_;
  std::vector<std::string> violations_;
};

}  // namespace weft::sim
