// How it works: every 5 ms a tick looks at the lanes of outputs on which something waits. One that could
// move nothing for 25 ms stands still: its cells may fill the half of an input's lane that others leave
// free, and no more, so that one frozen endnode cannot take all of a sender's credit. One that moved
// nothing for 2 s drops everything until it moves again.
//
// An endnode may stand still without filling anything: a process that was stopped leaves the one request that
// it was sent in its ring. The tick also looks whether endnodes take what is in their rings. For one that has
// taken nothing for 25 ms every request that asks for an acknowledgement is answered here, in its name, so
// that the requester waits for it as for a port that is down. All its lanes count as standing still
// meanwhile, so that its cells, and no others, take the longer way.
#include "fabric/switch/standstill.h"

#include <bit>

#include "messages/cell.h"

namespace weft::fabric {
namespace {

constexpr Duration kTickInterval = 5ms;

}  // namespace

SwitchPortCounter Standstill::check(Port& in, Port& out, VirtualLane vl, const CellHead* head) noexcept {
  // The last tick may be 5 ms old. An endnode that has taken cells since then answers for itself, and a cell
  // that finds its lane out of credit for a moment is not lost for it.
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

/// Does the endnode take what it is sent?
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

/// A request of an acknowledged connection that wants an answer gets one: NAK 7, which acknowledges nothing.
/// It comes from the LID of the endnode, which no port but its own may use, so no other endnode can forge it.
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

/// At each lane on which something waits.
void Standstill::look_at(Port& out) noexcept {
  // A neighbour whose own output is frozen goes on when it has dropped what crowds it: wait for that, or
  // cells to everybody behind it would go too.
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

/// With cut-through a cell is under way before its tail has come. One whose sender adds nothing to it for a
/// lifetime, frozen or hostile, gives up the output's lane, and with strict lanes that of the whole switch.
void Standstill::end_overdue_cells(Port& out) noexcept {
  for (uint32_t i = 0; i < kVlCount; ++i) {
    Egress& lane = out.egress[i];
    if (lane.owner == kPortNone || lane.ready.contains(lane.owner)) continue;
    if (ports_.now - lane.progress_at < config_.lifetime) continue;
    outputs_.give_up(ports_[lane.owner], out, lane_at(i), SwitchPortCounter::kDropLifetime);
    lane.progress_at = ports_.now;  // those behind it wait for the output only from now on
  }
}

/// True when the output would take a flit: it has credit and a slot.
bool Standstill::can_send(Port& out, VirtualLane vl) noexcept {
  return out.link->claim(vl) != nullptr;
}

/// Without credit the lane is watched alone, without a slot the whole output: while other lanes move, this
/// one is merely not its turn.
bool Standstill::stands_still(Port& out, VirtualLane vl, Duration limit) const noexcept {
  if (ports_.now - out.egress[vl.value()].progress_at < limit) return false;
  if (out.link->credits(vl) == 0) return true;
  return ports_.now - out.progress_at >= limit && !can_send(out, vl);
}

/// With `more` flits, more than half of an input lane's buffers are in use: what stands still there is in the
/// way of others. The link may use fewer than there are, since both its ends chose the number.
bool Standstill::crowded(const Port& in, VirtualLane vl, uint32_t more) noexcept {
  const VlBuffer& buffer = *in.buffers[vl.value()];
  const uint32_t usable = vl == kVlManagement ? buffer.capacity() : in.link->params().credits_per_lane;
  return buffer.capacity() - buffer.free_flits() + more > usable / 2;
}

/// Takes what waits for a lane that stands still out of the inputs that it crowds.
void Standstill::make_room(Port& out, VirtualLane vl) noexcept {
  for (Port* in : ports_.attached) {
    if (in->buffers[vl.value()] == nullptr || in->buffers[vl.value()]->flits(out.number) == 0) continue;
    if (!crowded(*in, vl, 0)) continue;
    outputs_.give_up(*in, out, vl, SwitchPortCounter::kDropStandstill);
  }
}

}  // namespace weft::fabric
