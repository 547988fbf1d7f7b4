// adapter/transport/path_migration.h -- automatic path migration (APM): a connected QP with an alternate path
// goes over to it when the first one fails, when its consumer says so, or when its peer has.
//
// Both ends must be ready before either may move. A QP that is (kRearm, kArmed) says so in every cell
// (kCell2MayMigrate); one in kRearm that hears it from its peer is kArmed. A cell that comes by the alternate
// path and does not say it is from a peer that has moved. One that moves says so at once by an ACK, and again
// for each request that its peer still sends by the path it has left.
#pragma once

#include <cstdint>

#include "adapter/adapter_engine.h"
#include "messages/cell.h"

namespace weft::adapter {

/// Can the attributes named in `mask` be taken? kOk or kBadValue: no alternate path to be armed with, one
/// that is in use, partition or cell size that does not fit.
[[nodiscard]] ModifyResult check_migration(const Engine& engine, const QueuePair& qp, const QpAttr& attr,
                                           uint32_t mask) noexcept;
/// The QP goes over to its alternate path, which is its only one then; what is in flight has yet to be
/// repeated. False, with kPathMigError, when that path is of no use.
[[nodiscard]] bool migrate(Engine& engine, QueuePair& qp) noexcept;
/// A cell that did not come from the QP's peer by its path. True when the peer has migrated and `qp` has
/// followed; `port` is where the cell came in. A peer that has not followed yet is told of the path again.
[[nodiscard, gnu::cold]] bool follow_peer(Engine& engine, QueuePair& qp, const AdapterPort& port,
                                          const CellView& cell) noexcept;
/// What QueuePair::watch waits for may have come with a cell of the peer.
[[gnu::cold]] void watch_cell(Engine& engine, QueuePair& qp, const CellView& cell) noexcept;

}  // namespace weft::adapter
