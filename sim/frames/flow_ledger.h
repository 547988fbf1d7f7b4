// sim/frames/flow_ledger.h -- a record of all frames sent and received. The ledger stands outside the fabric:
// it survives every crash and identifies each frame by flow and number. A flow is one direction of a session
// (decisions 2.25).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/net/frame_port.h"
#include "sim/saboteur.h"
#include "sim/trace.h"

namespace weft::sim {

/// Smallest frame that can carry a ledger entry, in bytes without vnet header.
inline constexpr uint32_t kLedgerFrameBytesMin = 60;

/// Bytes of a frame of trickling traffic, which every flow sends until a run may stop. Most frames are small,
/// few have full size, so that a seed stays small.
[[nodiscard]] inline uint32_t trickle_bytes(uint64_t number, uint32_t bytes_max) noexcept {
  if (number % 64 == 63) return bytes_max;
  return std::min(bytes_max, number % 8 == 7 ? 4000U : 300U);
}

/// Average time between two trickling frames, over all flows.
inline constexpr Duration kTrickleGap = std::chrono::milliseconds(10);

struct FlowEnds {
  MacAddress source{};
  MacAddress destination{};
  std::string name;  // "host 1 -> unit 0"
  // Datagrams over links that duplicate and reorder cells: neither order nor uniqueness is checked.
  bool loose = false;
};

struct FlowTotals {
  uint64_t sent = 0;
  uint64_t arrived = 0;
  uint64_t lost_to_crash = 0;  // explained by a crash or reset of one end of the session
};

/// Owner: the world's thread.
class FlowLedger {
 public:
  /// With a null `saboteur` no bugs are planted.
  explicit FlowLedger(Trace& trace, Saboteur* saboteur = nullptr) noexcept
      : trace_(trace), saboteur_(saboteur) {}

  uint32_t add_flow(const FlowEnds& ends);
  /// Sets the addresses of the flow's frames from now on.
  void set_addresses(uint32_t flow, const MacAddress& source, const MacAddress& destination) noexcept;
  /// Writes the next frame of a flow to `into`, vnet header and `bytes` of frame, and records it. `into`
  /// holds kVnetBytes + bytes. `doomed`: the session was not open, so the frame may be lost.
  /// @return the frame's number in its flow
  uint64_t send(uint32_t flow, Instant now, uint32_t bytes, bool doomed, std::span<std::byte> into);
  /// Checks an arriving frame: content, CRC, destination, order, no duplicate.
  void arrive(uint32_t expected_flow, Instant now, std::span<const std::byte> frame);
  /// Finds the flow and number of a frame; false when it is no ledger frame.
  [[nodiscard]] static bool peek(std::span<const std::byte> frame, uint32_t& flow, uint64_t& number) noexcept;

  /// An end of the flow has died or its session was reset: frames that were sent and have not arrived may be
  /// lost.
  void excuse(uint32_t flow, Instant now) noexcept;
  /// The sender knows that this frame did not leave.
  void excuse_frame(uint32_t flow, uint64_t number) noexcept;
  /// At the end of a run: records a violation for each frame that neither arrived nor is excused.
  void settle(Instant now);
  /// True if a frame that was sent after `since` has arrived.
  [[nodiscard]] bool passed_since(uint32_t flow, Instant since) const noexcept;
  /// Frames that have neither arrived nor are excused.
  [[nodiscard]] uint64_t outstanding(uint32_t flow) const noexcept;

  [[nodiscard]] FlowTotals totals(uint32_t flow) const noexcept;
  [[nodiscard]] uint32_t flows() const noexcept { return static_cast<uint32_t>(flows_.size()); }
  /// Average time between two frames of a trickling flow.
  [[nodiscard]] Duration trickle_gap() const noexcept { return kTrickleGap * flows(); }
  [[nodiscard]] const std::string& name(uint32_t flow) const noexcept { return flows_[flow].ends.name; }
  /// Violations, the first one first.
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
    uint64_t excused_up_to = 0;  // entries before it were examined by excuse()
    uint64_t next_expected = 0;  // no lower number may arrive any more
    uint64_t arrived = 0;
    uint64_t excused = 0;
    std::vector<std::byte> late;  // a frame that a saboteur holds back until the next one has come
  };

  void take(uint32_t expected_flow, Instant now, std::span<const std::byte> frame);
  void take_tampered(uint32_t expected_flow, Instant now, std::span<const std::byte> frame);

  Trace& trace_;
  Saboteur* saboteur_;
  std::vector<Flow> flows_;
  std::vector<std::string> violations_;
};

}  // namespace weft::sim
