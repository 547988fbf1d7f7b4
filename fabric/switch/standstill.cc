// How it works: every 5 ms a tick looks at the lanes of outputs with waiting flits. A lane that could move
// nothing for 25 ms stands still. Its cells are then admitted only while at most half of an input lane's
// buffers are in use, so that one frozen endnode cannot take all of a sender's credit. A lane that moved
// nothing for 2 s drops all its cells until it moves again.
//
// An endnode may stand still without filling any buffer: a stopped process leaves the one request that it was
// sent in its ring. So the tick also checks whether endnodes take the flits in their rings. If an endnode has
// taken none for 25 ms, the switch answers every request for an acknowledgement in its name, so that the
// requester waits as for a port that is down. Meanwhile all lanes of the endnode count as standing still, so
// that only its cells take the longer path through check().
#include "fabric/switch/standstill.h"

#include <bit>

#include "messages/cell.h"

namespace weft::fabric {
namespace {

constexpr Duration kTickInterval = 5ms;

}  // namespace

SwitchPortCounter Standstill::check(Port& in, Port& out, VirtualLane vl, const CellHead* head) noexcept {
  // The last tick may be 5 ms old. An endnode that has taken cells since then answers for itself. A cell
  // whose lane was only briefly without credit is not dropped.
  if (out.takes_none) look_at_peer(out);
  if (out.takes_none && head != nullptr) answer_for_peer(in, vl, *head);
  if ((out.stalled_lanes & lane_bit(vl)) == 0) return kAdmitted;
  if (can_send(out, vl)) {
    if (!out.takes_none) out.stalled_lanes &= ~lane_bit(vl);
    out.expired_lanes &= ~lane_bit(vl);
    return kAdmitted;
  }
  if ((out.expired_lanes & lane_bit(vl)) != 0) return SwitchPortCounter::kDropLifetime;
  return crowded(in, vl, flits_per_cell_) ? SwitchPortCounter::kDropStandstill : kAdmitted;
}

void Standstill::tick() noexcept {
  next_tick_ = ports_.now + kTickInterval;
  for (Port* out : ports_.attached)
    if (out->up && out->peer_is_endnode) look_at_peer(*out);
  outputs_.for_each_begun([this](Port& out) { end_overdue_cells(out); });
  outputs_.waiting().for_each([this](PortNumber number) {
    if (ports_[number].up) look_at(ports_[number]);
  });
}

/// Updates whether the endnode takes the flits that it is sent.
void Standstill::look_at_peer(Port& out) noexcept {
  const bool took_none = out.takes_none;
  const TakenFlits taken = out.link->taken();
  if (taken.all) {
    out.untaken_since = kNever;
  } else if (out.untaken_since == kNever || taken.mark != out.taken_mark) {
    out.untaken_since = ports_.now;
    out.taken_mark = taken.mark;
  }
  out.takes_none = out.untaken_since != kNever && ports_.now - out.untaken_since >= config_.standstill;
  if (out.takes_none) {
    out.stalled_lanes = ~0U;
  } else if (took_none) {
    out.stalled_lanes = out.expired_lanes;  // a lane without credit is marked again by the tick
  }
}

/// Answers a request of an acknowledged connection that wants an acknowledgement, with NAK 7, which
/// acknowledges nothing. The answer has the endnode's LID as its source. No other port may use that LID, so
/// no other endnode can forge the answer.
void Standstill::answer_for_peer(Port& in, VirtualLane vl, const CellHead& head) noexcept {
  const uint32_t properties = opcode_properties(head.opcode());
  const bool acknowledged = (properties & kOpRequest) != 0 && (properties & (kOpOnRc | kOpOnXrc)) != 0;
  const bool wants = (head.flags() & (kCellAckWanted | kCellGlobal)) == kCellAckWanted;
  if (!acknowledged || !wants || vl == kVlManagement || !in.answer_rate.take(ports_.now)) return;
  if (!outputs_.lane_is_free(in, vl, kPortNone) || (in.poison_lanes & lane_bit(vl)) != 0) return;
  std::byte* cell = in.link->claim(vl);
  if (cell == nullptr) return;
  const CellTemplate fixed = make_cell_template({.dest_subnet = head.source_subnet(),
                                                 .src_subnet = head.dest_subnet(),
                                                 .dlid = head.slid(),
                                                 .slid = head.dlid(),
                                                 .vl = vl,
                                                 .sl = head.sl(),
                                                 .dest_qpn = head.source_qpn(),
                                                 .src_qpn = head.dest_qpn(),
                                                 .pkey = head.pkey()});
  const uint32_t crc = write_nak(cell, fixed, {.psn = head.psn(), .code = AckCode::kStandsStill});
  in.counters.add(SwitchPortCounter::kCellsCopied);
  in.counters.add(SwitchPortCounter::kStandstillAnswers);
  outputs_.commit(in, in, {vl, kFlitHead | kFlitTail, kNakCellBytes, crc});
}

/// Checks each lane with waiting flits.
void Standstill::look_at(Port& out) noexcept {
  // A neighbouring switch whose own output is frozen continues when it has dropped the cells in the way. So
  // wait twice as long for it: otherwise cells for all endnodes behind it would be dropped too.
  const int patience = out.peer_is_endnode ? 1 : 2;
  for (uint32_t left = out.waiting_lanes; left != 0; left &= left - 1) {
    const VirtualLane vl = lane_at(static_cast<uint32_t>(std::countr_zero(left)));
    if (ports_.now - out.egress[vl.value()].progress_at >= patience * config_.lifetime) {
      if (!can_send(out, vl)) {
        out.stalled_lanes |= lane_bit(vl);
        out.expired_lanes |= lane_bit(vl);
      }
      outputs_.drop_queued(out, vl, SwitchPortCounter::kDropLifetime);
    } else if (stands_still(out, vl, patience * config_.standstill)) {
      out.stalled_lanes |= lane_bit(vl);
      make_room(out, vl);
    }
  }
}

/// With cut-through a cell is being sent before its tail has come. If the sender, frozen or hostile, adds
/// nothing to it for a lifetime, the cell gives up the output's lane, and with one_cell_per_lane that of the
/// whole switch.
void Standstill::end_overdue_cells(Port& out) noexcept {
  for (uint32_t i = 0; i < kVlCount; ++i) {
    Egress& lane = out.egress[i];
    if (lane.owner == kPortNone || lane.ready.contains(lane.owner)) continue;
    if (ports_.now - lane.progress_at < config_.lifetime) continue;
    outputs_.give_up(ports_[lane.owner], out, lane_at(i), SwitchPortCounter::kDropLifetime);
    lane.progress_at = ports_.now;  // the cells behind it have waited for the output only from now on
  }
}

/// True when the output would take a flit: it has credit and a free slot.
bool Standstill::can_send(Port& out, VirtualLane vl) noexcept {
  return out.link->claim(vl) != nullptr;
}

/// Without credit only this lane counts. Without a free slot the whole output counts: while other lanes move,
/// this lane only waits for its turn.
bool Standstill::stands_still(Port& out, VirtualLane vl, Duration limit) const noexcept {
  if (ports_.now - out.egress[vl.value()].progress_at < limit) return false;
  if (out.link->credits(vl) == 0) return true;
  return ports_.now - out.progress_at >= limit && !can_send(out, vl);
}

/// True when, with `more` flits, more than half of an input lane's buffers are in use, so that cells that
/// stand still take room from others. The link may use fewer buffers than there are, because both ends agreed
/// on the number.
bool Standstill::crowded(const Port& in, VirtualLane vl, uint32_t more) noexcept {
  const VlBuffer& buffer = *in.buffers[vl.value()];
  const uint32_t usable = vl == kVlManagement ? buffer.capacity() : in.link->params().credits_per_lane;
  return buffer.capacity() - buffer.free_flits() + more > usable / 2;
}

/// Drops the cells that wait for a lane that stands still at the inputs that they crowd.
void Standstill::make_room(Port& out, VirtualLane vl) noexcept {
  for (Port* in : ports_.attached) {
    if (in->buffers[vl.value()] == nullptr || in->buffers[vl.value()]->flits(out.number) == 0) continue;
    if (!crowded(*in, vl, 0)) continue;
    outputs_.give_up(*in, out, vl, SwitchPortCounter::kDropStandstill);
  }
}

}  // namespace weft::fabric
