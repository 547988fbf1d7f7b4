#include "session/connection_table.h"

#include <algorithm>
#include <array>

namespace weft::session {

namespace {

constexpr size_t kStates = static_cast<size_t>(SessionState::kCount);
constexpr size_t kEvents = static_cast<size_t>(ConnectionEvent::kCount);
constexpr size_t kSteps = static_cast<size_t>(ConnectionStep::kCount);

using Row = std::array<ConnectionStep, kStates>;
using Table = std::array<Row, kEvents>;
using enum ConnectionStep;

// clang-format off
/// A row for each event; columns: idle, connecting, opening, open, closing, lost. Datagrams of no incarnation
/// never come here, so idle and lost ignore them.
constexpr Table kHostTable{{
    /* open        */ Row{kConnect, kIgnore,    kIgnore,        kIgnore,        kIgnore,        kIgnore},
    /* close       */ Row{kIgnore,  kGiveUp,    kBeginFlush,    kBeginFlush,    kIgnore,        kGiveUp},
    /* attempt_due */ Row{kIgnore,  kAsk,       kIgnore,        kIgnore,        kIgnore,        kRetry},
    /* accepted    */ Row{kIgnore,  kIgnore,    kIgnore,        kIgnore,        kIgnore,        kIgnore},
    /* req         */ Row{kIgnore,  kViolation, kViolation,     kViolation,     kViolation,     kIgnore},
    /* rep         */ Row{kIgnore,  kBindPeer,  kSayRtu,        kIgnore,        kIgnore,        kIgnore},
    /* rej         */ Row{kIgnore,  kBeRefused, kIgnore,        kIgnore,        kIgnore,        kIgnore},
    /* rej_unknown */ Row{kIgnore,  kIgnore,    kBeForgotten,   kBeForgotten,   kBeForgotten,   kIgnore},
    /* rtu         */ Row{kIgnore,  kViolation, kViolation,     kViolation,     kViolation,     kIgnore},
    /* dreq        */ Row{kIgnore,  kSayDrep,   kPartAfterDreq, kPartAfterDreq, kPartAfterDreq, kIgnore},
    /* drep        */ Row{kIgnore,  kIgnore,    kIgnore,        kIgnore,        kIgnore,        kIgnore},
    /* peers_pool  */ Row{kIgnore,  kIgnore,    kBeginFrames,   kIgnore,        kIgnore,        kIgnore},
    /* flushed     */ Row{kIgnore,  kIgnore,    kIgnore,        kIgnore,        kFinishFlush,   kIgnore},
    /* ended       */ Row{kIgnore,  kTakeDown,  kTakeDown,      kTakeDown,      kCutFlush,      kIgnore},
}};

/// A unit is never connecting.
constexpr Table kUnitTable{{
    /* open        */ Row{kIgnore,  kIgnore,    kIgnore,        kIgnore,        kIgnore,        kIgnore},
    /* close       */ Row{kIgnore,  kIgnore,    kBeginFlush,    kBeginFlush,    kIgnore,        kGiveUp},
    /* attempt_due */ Row{kIgnore,  kIgnore,    kIgnore,        kIgnore,        kIgnore,        kIgnore},
    /* accepted    */ Row{kSayRep,  kIgnore,    kIgnore,        kIgnore,        kIgnore,        kSayRep},
    /* req         */ Row{kIgnore,  kIgnore,    kSayRep,        kSayRep,        kSayRep,        kIgnore},
    /* rep         */ Row{kIgnore,  kIgnore,    kViolation,     kViolation,     kViolation,     kIgnore},
    /* rej         */ Row{kIgnore,  kIgnore,    kViolation,     kViolation,     kViolation,     kIgnore},
    /* rej_unknown */ Row{kIgnore,  kIgnore,    kViolation,     kViolation,     kViolation,     kIgnore},
    /* rtu         */ Row{kIgnore,  kIgnore,    kLetSend,       kIgnore,        kIgnore,        kIgnore},
    /* dreq        */ Row{kIgnore,  kIgnore,    kPartAfterDreq, kPartAfterDreq, kPartAfterDreq, kIgnore},
    /* drep        */ Row{kIgnore,  kIgnore,    kIgnore,        kIgnore,        kIgnore,        kIgnore},
    /* peers_pool  */ Row{kIgnore,  kIgnore,    kBeginFrames,   kIgnore,        kIgnore,        kIgnore},
    /* flushed     */ Row{kIgnore,  kIgnore,    kIgnore,        kIgnore,        kFinishFlush,   kIgnore},
    /* ended       */ Row{kIgnore,  kIgnore,    kTakeDown,      kTakeDown,      kCutFlush,      kIgnore},
}};
// clang-format on

/// An array that is too short would be filled up with kUnanswered.
consteval bool answers_all(const Table& table) {
  return std::all_of(table.begin(), table.end(), [](const Row& row) {
    return std::find(row.begin(), row.end(), kUnanswered) == row.end();
  });
}
static_assert(answers_all(kHostTable) && answers_all(kUnitTable));

constexpr std::array<std::string_view, kEvents> kEventNames{
    "open",        "close", "attempt due", "accepted", "REQ",         "REP",     "REJ",
    "REJ unknown", "RTU",   "DREQ",        "DREP",     "peer's pool", "flushed", "ended"};
constexpr std::array<std::string_view, kSteps> kStepNames{
    "unanswered",   "ignore",      "violation",    "connect", "ask",       "retry",    "bind peer",
    "say RTU",      "be refused",  "be forgotten", "say REP", "let send",  "say DREP", "part after DREQ",
    "begin frames", "begin flush", "finish flush", "give up", "take down", "cut flush"};
static_assert(!kEventNames.back().empty() && !kStepNames.back().empty());

}  // namespace

std::string_view to_string(ConnectionEvent event) noexcept {
  return event < ConnectionEvent::kCount ? kEventNames[static_cast<size_t>(event)] : "?";
}

std::string_view to_string(ConnectionStep step) noexcept {
  return step < ConnectionStep::kCount ? kStepNames[static_cast<size_t>(step)] : "?";
}

ConnectionStep step_for(SessionRole role, SessionState state, ConnectionEvent event) noexcept {
  const Table& table = role == SessionRole::kHost ? kHostTable : kUnitTable;
  return table[static_cast<size_t>(event)][static_cast<size_t>(state)];
}

}  // namespace weft::session
