// messages/fault_rule.h -- a fault on demand: which cells of a switch a rule strikes and what they suffer.
// `weft fault` makes rules from words, control/ carries them, the switch applies them. docs/faults.md.
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
  kRate,       // a number of cells or bits pass in a second, each way; others wait
  kCut,        // nothing passes
  kFlap,       // cells pass for `up`, nothing passes for `down`, again and again
};

/// What may stand behind the word of a kind.
enum class FaultValue : uint8_t {
  kNone,
  kChance,  // the chance, which has an option of its own, too
  kDelay,   // a time, or a shortest and a longest one
  kRate,    // bits or cells per second
  kFlap,    // two times, up and down
};

/// Everything that is said once of a kind.
struct FaultKindInfo {
  FaultKind kind;
  std::string_view name;
  FaultValue value;
};
inline constexpr std::array<FaultKindInfo, 8> kFaultKinds{{
    {FaultKind::kDrop, "drop", FaultValue::kChance},
    {FaultKind::kCorrupt, "corrupt", FaultValue::kChance},
    {FaultKind::kDuplicate, "duplicate", FaultValue::kChance},
    {FaultKind::kReorder, "reorder", FaultValue::kChance},
    {FaultKind::kDelay, "delay", FaultValue::kDelay},
    {FaultKind::kRate, "rate", FaultValue::kRate},
    {FaultKind::kCut, "cut", FaultValue::kNone},
    {FaultKind::kFlap, "flap", FaultValue::kFlap},
}};

enum class FaultDirection : uint8_t { kBoth, kFrom, kTo };  // from the neighbour of the port, or to it

[[nodiscard]] const FaultKindInfo& info_of(FaultKind kind) noexcept;
[[nodiscard]] std::string_view to_string(FaultKind kind) noexcept;
[[nodiscard]] std::string_view to_string(FaultDirection direction) noexcept;
[[nodiscard]] std::optional<FaultKind> fault_kind(std::string_view word) noexcept;
[[nodiscard]] std::optional<FaultDirection> fault_direction(std::string_view word) noexcept;

/// Of a rule: each port of the switch.
inline constexpr uint16_t kFaultEveryPort = 0;
/// Of a rule for an endnode that has not joined.
inline constexpr uint16_t kFaultNoPort = 0xFFFF;
inline constexpr uint32_t kFaultAlways = 1'000'000;  // parts per million

/// One rule. A cell matches it by port, direction, lane and operation; of those that match, every `every`-th
/// is struck with `chance_ppm`, until it has struck `limit` times or `lasts` is over.
struct FaultRule {
  FaultKind kind = FaultKind::kDrop;
  uint16_t port = kFaultEveryPort;
  Guid guid{};  // the rule is for this endnode, on whatever port, and ends when its link goes
  FaultDirection direction = FaultDirection::kBoth;
  uint32_t lanes = UINT32_MAX;  // as bits
  uint8_t opcode = 0;           // on the wire; 0: any
  uint32_t chance_ppm = kFaultAlways;
  uint32_t every = 1;
  uint64_t limit = 0;             // 0: none
  Duration lasts{};               // 0: until it is cleared
  Duration delay_min{};           // kDelay
  Duration delay_max{};           // kDelay
  uint32_t cells_per_second = 0;  // kRate: these, or bits
  uint64_t bits_per_second = 0;   // kRate: of whole cells, header and CRC included
  Duration up{};                  // kFlap
  Duration down{};                // kFlap
  uint64_t seed = 1;  // of the rule's own random numbers: the same seed and cells, the same strikes

  friend bool operator==(const FaultRule&, const FaultRule&) = default;
};

}  // namespace weft
