// adapter/queues/qp_rules.h -- the allowed moves between QP states and the attributes of each, per service,
// as one table (house style 25). The rows are those of the InfiniBand verbs (modify QP), so that
// ibv_modify_qp() behaves as a verbs user expects. Any state may go to kErr or kReset without attributes.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "adapter/verbs.h"

namespace weft::adapter {

inline constexpr uint32_t kQpStateCount = 7;

/// Bit of a service in QpRule::services.
[[nodiscard]] constexpr uint16_t service_bit(QpType type) noexcept {
  return static_cast<uint16_t>(1U << static_cast<uint8_t>(type));
}

/// One allowed move.
struct QpRule {
  QpState from;
  QpState to;
  uint16_t services;  // service_bit() of the services for which it holds
  uint32_t required;  // QpAttrMask without kQpAttrState
  uint32_t optional;
};

/// All rows, for tests and documents.
[[nodiscard]] std::span<const QpRule> qp_rules() noexcept;

/// The row of a move; null when the move is not allowed or a state is out of range.
[[nodiscard]] const QpRule* find_qp_rule(QpType type, QpState from, QpState to) noexcept;

/// Checks a move and its attribute mask; `mask` includes kQpAttrState. kOk, kBadTransition, kMissingAttribute
/// or kUnexpectedAttribute. Values are checked by check_qp_values().
[[nodiscard]] ModifyResult check_qp_move(QpType type, QpState from, QpState to, uint32_t mask) noexcept;

/// kBadValue when an attribute named in `mask` is out of range: retry counts beyond 7, port 0 or beyond
/// `ports`, LID 0 or 0xFFFF, QPN beyond 24 bits, a partition beyond the table, more reads than
/// kReadsPerQp, rights that no service grants, an acknowledgement timeout beyond kAckTimeoutMax.
[[nodiscard]] ModifyResult check_qp_values(const QpAttr& attr, uint32_t mask, uint32_t ports) noexcept;

/// Copies the attributes named in `mask`, except the state and the attributes used only by a move: current
/// state, request for a drain event.
void merge_qp_attr(QpAttr& into, const QpAttr& from, uint32_t mask) noexcept;

/// What a QP may do in a state. One table, so that no code compares states.
struct QpAbilities {
  bool post_send;  // post_send() is accepted; WQEs are executed or flushed
  bool post_recv;
  bool execute_send;  // the requester starts new work
  bool finish_send;   // acknowledgements and retransmissions of work already started
  bool receive;       // the responder takes cells
  bool flush_send;    // posted WQEs complete as flushed
  bool flush_recv;
};
inline constexpr std::array<QpAbilities, kQpStateCount> kQpAbilities{{
    // post_send post_recv execute finish receive flush_send flush_recv
    {false, false, false, false, false, false, false},  // kReset
    {false, true, false, false, false, false, false},   // kInit
    {false, true, false, false, true, false, false},    // kRtr
    {true, true, true, true, true, false, false},       // kRts
    {true, true, false, true, true, false, false},      // kSqd
    {true, true, false, false, true, true, false},      // kSqe
    {true, true, false, false, false, true, true},      // kErr
}};
[[nodiscard]] constexpr const QpAbilities& qp_abilities(QpState state) noexcept {
  return kQpAbilities[static_cast<uint32_t>(state)];
}

}  // namespace weft::adapter
