// messages/fault_rule.h -- a fault on demand: which cells of a switch, or which DMA of a program's memory
// windows, a rule strikes and what happens to them. `weft fault` makes rules from words, control/ transports
// them to the switch, messages/window_order.h to a program.
// docs/faults.md.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "messages/ids.h"

namespace weft {

enum class FaultKind : uint8_t {
  kDrop,
  kCorrupt,    // arrives as a cell whose CRC is wrong: the endnode drops it
  kDuplicate,  // arrives twice
  kReorder,    // arrives behind the next cell for the same port
  kDelay,      // arrives delay_min..delay_max later
  kRate,       // a number of cells or bits pass per second, in each direction; others wait
  kCut,        // nothing passes
  kFlap,       // cells pass for `up`, none for `down`, repeatedly
  kFailDma,    // of memory windows alone: the device does not move the data and says so
};

/// The value that may follow the word of a kind.
enum class FaultValue : uint8_t {
  kNone,
  kChance,  // the chance, which also has an option of its own
  kDelay,   // a time, or a minimum and a maximum
  kRate,    // bits or cells per second
  kFlap,    // two times, up and down
};

/// The row of a kind: its word and its value.
struct FaultKindInfo {
  FaultKind kind;
  std::string_view name;
  FaultValue value;
};
inline constexpr std::array<FaultKindInfo, 9> kFaultKinds{{
    {FaultKind::kDrop, "drop", FaultValue::kChance},
    {FaultKind::kCorrupt, "corrupt", FaultValue::kChance},
    {FaultKind::kDuplicate, "duplicate", FaultValue::kChance},
    {FaultKind::kReorder, "reorder", FaultValue::kChance},
    {FaultKind::kDelay, "delay", FaultValue::kDelay},
    {FaultKind::kRate, "rate", FaultValue::kRate},
    {FaultKind::kCut, "cut", FaultValue::kNone},
    {FaultKind::kFlap, "flap", FaultValue::kFlap},
    {FaultKind::kFailDma, "fail-dma", FaultValue::kChance},
}};

enum class FaultDirection : uint8_t { kBoth, kFrom, kTo };  // from the port's neighbour, or to it

[[nodiscard]] const FaultKindInfo& info_of(FaultKind kind) noexcept;
[[nodiscard]] std::string_view to_string(FaultKind kind) noexcept;
[[nodiscard]] std::string_view to_string(FaultDirection direction) noexcept;
[[nodiscard]] std::optional<FaultKind> fault_kind(std::string_view word) noexcept;
[[nodiscard]] std::optional<FaultDirection> fault_direction(std::string_view word) noexcept;

/// FaultRule::port: every port of the switch.
inline constexpr uint16_t kFaultEveryPort = 0;
/// FaultRule::port: the rule waits for an endnode that has not joined.
inline constexpr uint16_t kFaultNoPort = 0xFFFF;
inline constexpr uint32_t kFaultAlways = 1'000'000;  // parts per million

/// One rule. A cell matches by port, direction, lane and operation. Of the matching cells, every `every`-th
/// is struck with chance `chance_ppm`, until the rule has struck `limit` times or `lasts` has passed.
struct FaultRule {
  FaultKind kind = FaultKind::kDrop;
  uint16_t port = kFaultEveryPort;
  Guid guid{};  // set: the rule is for this endnode, on any port, and ends with its link
  FaultDirection direction = FaultDirection::kBoth;
  uint32_t lanes = UINT32_MAX;  // one bit per lane
  uint8_t opcode = 0;           // on the wire; 0: any
  uint32_t chance_ppm = kFaultAlways;
  uint32_t every = 1;
  uint64_t limit = 0;             // 0: none
  Duration lasts{};               // 0: until cleared
  Duration delay_min{};           // kDelay
  Duration delay_max{};           // kDelay
  uint32_t cells_per_second = 0;  // kRate: this, or bits_per_second
  uint64_t bits_per_second = 0;   // kRate: of whole cells, header and CRC included
  Duration up{};                  // kFlap
  Duration down{};                // kFlap
  uint64_t seed = 1;  // of the rule's random numbers: with the same seed and cells the same cells are struck

  friend bool operator==(const FaultRule&, const FaultRule&) = default;
};

}  // namespace weft
