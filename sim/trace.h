// sim/trace.h -- the events of a run: always hashed, printed on demand. Two runs of one seed must give the
// same hash; a difference is a bug (decisions 5.2).
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string_view>

#include "base/clock.h"

namespace weft::sim {

enum class TraceKind : uint8_t {
  kFlit,          // a: link and direction, b: first header bytes, c: CRC
  kFrameSent,     // a: flow, b: number, c: bytes
  kFrameArrived,  // a: flow, b: number, c: bytes
  kFrameRefused,  // a: flow, b: number; the port could not take the frame yet
  kWorkPosted,    // a: flow, b: wr_id, c: opcode
  kCompletion,    // a: flow, b: wr_id, c: status and opcode
  kNodeCrash,     // a: node
  kNodeStart,     // a: node, b: incarnation
  kNodeFreeze,    // a: node
  kNodeThaw,      // a: node
  kLinkCut,       // a: link
  kLinkMended,    // a: link
  kFaults,        // a: link and direction, b: layer, c: packed rates
  kSessionState,  // a: session and role, b: state, c: incarnation
  kViolation,
  kCount,
};
[[nodiscard]] std::string_view to_string(TraceKind kind) noexcept;

/// Owner: the world's thread.
class Trace {
 public:
  /// With a null `out` nothing is printed; it must outlive the trace. Flits are printed only with `flits`.
  explicit Trace(std::ostream* out = nullptr, bool flits = false) noexcept : out_(out), flits_(flits) {}
  void event(Instant now, TraceKind kind, uint64_t a, uint64_t b = 0, uint64_t c = 0);
  [[nodiscard]] bool prints() const noexcept { return out_ != nullptr; }
  /// True when flits are printed; then whole cells in them get a line as well.
  [[nodiscard]] bool prints_flits() const noexcept { return out_ != nullptr && flits_; }
  /// Prints without hashing.
  void note(Instant now, std::string_view text);
  void text(Instant now, TraceKind kind, std::string_view text);
  [[nodiscard]] uint64_t hash() const noexcept { return hash_; }
  [[nodiscard]] uint64_t events() const noexcept { return events_; }

 private:
  void mix(uint64_t value) noexcept;

  std::ostream* out_;
  bool flits_;
  uint64_t hash_ = 0x57454654'53494d31ULL;
  uint64_t events_ = 0;
};

}  // namespace weft::sim
