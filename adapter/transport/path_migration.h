// adapter/transport/path_migration.h -- automatic path migration (APM): a connected QP with an alternate path
// moves to it when the primary path fails, when its consumer asks for it, or when its peer has moved.
//
// Both ends must be ready before either may move. A QP in kRearm or kArmed sets kCell2MayMigrate in every
// cell. A QP in kRearm that receives the flag from its peer becomes kArmed. A cell on the alternate path
// without the flag comes from a peer that has moved. A QP that moves tells its peer by an ACK at once, and by
// another for each request that the peer still sends on the old path.
#pragma once

#include <cstdint>

#include "adapter/adapter_engine.h"
#include "messages/cell.h"

namespace weft::adapter {

/// Checks the attributes named in `mask`. kBadValue: there is no alternate path to arm, the alternate path is
/// in use, or its partition or cell size does not fit.
[[nodiscard]] ModifyResult check_migration(const Engine& engine, const QueuePair& qp, const QpAttr& attr,
                                           uint32_t mask) noexcept;
/// Moves the QP to its alternate path, which becomes its only path. The caller repeats the cells in flight.
/// Returns false, with kPathMigError, when the alternate path is not usable.
[[nodiscard]] bool migrate(Engine& engine, QueuePair& qp) noexcept;
/// Sends missing packets again after a move.
void repeat_by_new_path(Engine& engine, QueuePair& qp) noexcept;
/// migrate() and repeat_by_new_path(), when the path is of no use any more or the consumer asks for it.
bool move_path(Engine& engine, QueuePair& qp) noexcept;
/// Handles a cell that did not come from the QP's peer on its path; the cell came in at `port`. Returns true
/// when the peer has migrated and `qp` has followed. A peer that has not followed yet gets another ACK on the
/// new path.
[[nodiscard, gnu::cold]] bool follow_peer(Engine& engine, QueuePair& qp, const AdapterPort& port,
                                          const CellView& cell) noexcept;
/// False for a late cell of an earlier connection between the two QPs.
[[nodiscard]] bool is_current(const QueuePair& qp, const CellView& cell) noexcept;
/// Checks whether a cell of the peer brings one of the events in QueuePair::watch.
[[gnu::cold]] void watch_cell(Engine& engine, QueuePair& qp, const CellView& cell) noexcept;

}  // namespace weft::adapter
