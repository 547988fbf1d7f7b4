#include "adapter/transport/path_migration.h"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "adapter/limits.h"
#include "messages/opcode.h"

namespace weft::adapter {
namespace {

bool same_cells(const QueuePair& qp, const AdapterPort& port) noexcept {
  return !port.known() || qp.path.segment_bytes == 0 ||
         qp.path.segment_bytes == port.info().cell_payload_bytes;
}

/// Within the subnet the LID identifies the sender of a cell, across subnets the GID.
bool from_alternate(const AlternatePath& path, SubnetId own, const CellView& cell) noexcept {
  const bool global = path.dgid != Gid{} && subnet_of(path.dgid) != own;
  if (cell.has(kCellGlobal) != global) return false;
  if (!global) return cell.slid == path.dlid;
  return std::memcmp(cell.global_header + offsetof(GlobalHeaderWire, source), path.dgid.data(),
                     sizeof(Gid)) == 0;
}

}  // namespace

/// A service without acknowledgements may lose any number of packets, but repeats none.
bool is_current(const QueuePair& qp, const CellView& cell) noexcept {
  if (!qp.acknowledged()) return cell.psn.distance_from(qp.rx.expected) >= 0;
  const uint32_t properties = opcode_properties(static_cast<uint8_t>(cell.opcode));
  const bool acknowledges = (properties & kOpAcknowledge) != 0;
  const bool answers = acknowledges || (properties & kOpResponse) != 0;
  const Psn psn = acknowledges ? cell.ack.psn : cell.psn;
  const int32_t distance = psn.distance_from(answers ? qp.tx.psn_of(qp.tx.first) : qp.rx.expected);
  return std::abs(distance) <= static_cast<int32_t>(kPacketWindow);
}

namespace {

/// Makes the alternate path the path of the QP.
bool take_alternate(Engine& engine, QueuePair& qp) noexcept {
  QpAttr& attr = qp.attr;
  const AlternatePath to = attr.alt;
  const AdapterPort& port = *engine.ports[to.port - 1U];
  if (!port.up() || !same_cells(qp, port)) {
    engine.raise(qp, AsyncEventKind::kPathMigError);
    return false;
  }
  attr.alt = {};
  attr.path_mig_state = PathMigState::kMigrated;
  attr.dlid = qp.peer_lid = to.dlid;
  attr.dgid = to.dgid;
  attr.sl = to.sl;
  attr.pkey_index = to.pkey_index;
  attr.ack_timeout = to.ack_timeout;
  attr.port = to.port;
  engine.use_port(qp, to.port);
  qp.port_seen = port.change();
  qp.watch &= static_cast<uint8_t>(~(kWatchPeerArmed | kWatchPeerFollows));
  engine.renew_path(qp);
  engine.schedule.wait_no_more(qp);
  engine.raise(qp, AsyncEventKind::kPathMigrated);
  return true;
}

/// Sends an ACK for data that is already acknowledged, on the new path, so that the peer follows. Perhaps
/// nothing else is in flight, and the peer still sends on the path that this end has left.
void tell_of_path(Engine& engine, QueuePair& qp) noexcept {
  if (!qp.serves_window() || !qp.abilities().receive) return;
  if (qp.config.ack_mode == AckMode::kStrict) {  // if it is full, its ACKs go by the new path
    (void)qp.rx.strict_acks.push({qp.rx.expected.plus(Psn::kMask), qp.rx.executed_cell});
  }
  engine.schedule.want_ack(qp, true, engine.now);
}

/// A request from a peer that still sends on the path that `qp` has left. Responses do not count: two ends
/// that have both moved would otherwise answer each other for ever.
bool has_not_followed(const QueuePair& qp, const CellView& cell) noexcept {
  constexpr uint32_t kAnswers = kOpAcknowledge | kOpResponse;
  const bool asks = (opcode_properties(static_cast<uint8_t>(cell.opcode)) & kAnswers) == 0;
  if ((qp.watch & kWatchPeerFollows) == 0 || !asks) return false;
  return pkeys_match(cell.pkey, qp.pkey) && is_current(qp, cell);
}

}  // namespace

ModifyResult check_migration(const Engine& engine, const QueuePair& qp, const QpAttr& attr,
                             uint32_t mask) noexcept {
  const bool loads = (mask & kQpAttrAltPath) != 0;
  if (loads) {
    const AdapterPort& port = *engine.ports[attr.alt.port - 1U];
    if ((port.pkeys()[attr.alt.pkey_index] & ~kPkeyFullMember) == 0) return Reason::kNoAltPartition;
    if (qp.attr.path_mig_state == PathMigState::kArmed) return Reason::kPathArmed;
    if (!same_cells(qp, port)) return Reason::kOtherCells;
  }
  if ((mask & kQpAttrPathMigState) == 0) return ModifyResult::kOk;
  const bool loaded = loads || qp.attr.alt.dlid != kLidNone;
  const PathMigState to = attr.path_mig_state;
  if (to == PathMigState::kRearm && !loaded) return Reason::kNoAltPath;
  const bool armed = qp.attr.path_mig_state == PathMigState::kArmed;
  return to == PathMigState::kArmed && !armed ? Reason::kNotRearmed : Reason::kOk;
}

bool migrate(Engine& engine, QueuePair& qp) noexcept {
  if (!take_alternate(engine, qp)) return false;
  qp.watch |= kWatchPeerFollows;
  tell_of_path(engine, qp);
  return true;
}

void repeat_by_new_path(Engine& engine, QueuePair& qp) noexcept {
  if (qp.abilities().finish_send) qp.service->repeat_all(qp);
  engine.schedule.want_send(qp);
}

bool move_path(Engine& engine, QueuePair& qp) noexcept {
  if (!migrate(engine, qp)) return false;
  repeat_by_new_path(engine, qp);
  return true;
}

bool follow_peer(Engine& engine, QueuePair& qp, const AdapterPort& port, const CellView& cell) noexcept {
  if (cell.src_qpn != qp.peer_qpn) return false;
  if (has_not_followed(qp, cell)) tell_of_path(engine, qp);
  const AlternatePath& path = qp.attr.alt;
  if (path.dlid == kLidNone || path.port != port.number()) return false;
  if (!from_alternate(path, port.info().subnet, cell)) return false;
  if (!pkeys_match(cell.pkey, port.pkeys()[path.pkey_index]) || !is_current(qp, cell)) return false;
  const PathMigState state = qp.attr.path_mig_state;
  if ((cell.flags2 & kCell2MayMigrate) != 0 || state == PathMigState::kMigrated) return false;
  if (state == PathMigState::kArmed) return take_alternate(engine, qp);
  engine.raise(qp, AsyncEventKind::kPathMigError);  // too early: this end was not ready
  return false;
}

void watch_cell(Engine& engine, QueuePair& qp, const CellView& cell) noexcept {
  if ((qp.watch & kWatchFirstCell) != 0) {
    qp.watch &= static_cast<uint8_t>(~kWatchFirstCell);
    engine.raise(qp, AsyncEventKind::kCommEstablished);
  }
  if ((qp.watch & (kWatchPeerArmed | kWatchPeerFollows)) == 0 || !is_current(qp, cell)) return;
  qp.watch &= static_cast<uint8_t>(~kWatchPeerFollows);
  if ((qp.watch & kWatchPeerArmed) != 0 && (cell.flags2 & kCell2MayMigrate) != 0) {
    qp.watch &= static_cast<uint8_t>(~kWatchPeerArmed);
    qp.attr.path_mig_state = PathMigState::kArmed;
  }
}

}  // namespace weft::adapter
