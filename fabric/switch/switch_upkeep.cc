// How it works: links come and go. When an input goes, whole cells that it left behind go their way, until
// its next link needs their buffers; what is there of an unfinished one is dropped, and the lane that it had
// begun to cross is told so. When an output goes, what waited for it is dropped and its buffers'
// credits go back. Every 5 ms a tick looks at the lanes of outputs on which something waits. One that could
// move nothing for 25 ms stands still: its cells may fill the half of an input's lane that others leave free,
// and no more, so that one frozen endnode cannot take all of a sender's credit. One that moved nothing for
// 2 s drops everything until it moves again.
//
// A link with nothing to do rests: it is told apart from those that are awake, and nobody looks at it until
// its bell rings -- something arrived, or its state changed -- or its own deadline comes, or a cell or a
// credit goes out by it. So a turn costs what the links cost that are awake, not what there are. An output
// on which something waits stays awake, because room in a ring comes without a bell; so does a link with a
// connector of its own.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "fabric/switch/switch.h"

namespace weft::fabric {
namespace {

constexpr Duration kTickInterval = 5ms;
constexpr Duration kDownPollInterval = 1ms;
constexpr Duration kRestInterval = 500us;  // between looks for links that may rest
constexpr Duration kRestAfter = 1ms;       // idle for so long

constexpr VirtualLane lane_at(uint32_t index) noexcept {
  return VirtualLane(static_cast<uint8_t>(index));
}

}  // namespace

void Switch::make_buffers(Port& port) noexcept {
  const auto outputs = static_cast<uint32_t>(ports_.size());
  const uint32_t flit_bytes = make_hello(config_.link, 0).flit_payload_bytes;
  for (uint32_t i = 0; i < config_.link.lanes; ++i) {
    port.buffers[i] = std::make_unique<VlBuffer>(config_.link.credits_per_lane, flit_bytes, outputs);
  }
  port.buffers[kVlManagement.value()] =
      std::make_unique<VlBuffer>(kManagementCellsMax * flits_per_cell_, flit_bytes, outputs);
}

int Switch::watch_links(Instant now) noexcept {
  int work = 0;
  const bool look_at_down = now >= next_down_poll_;
  if (look_at_down) next_down_poll_ = now + kDownPollInterval;
  awake_.for_each([&](PortNumber number) {
    Port& port = *ports_[number];
    // An acceptor may have brought a link up since; cells for it may come at once.
    if (!port.up && !look_at_down && port.link->state() != LinkState::kUp) return;
    ++looks_;
    port.looked_at = true;
    work += port.link->poll(now);
    const bool up = port.link->state() == LinkState::kUp;
    if (up == port.up && (!up || port.link->incarnation() == port.incarnation)) return;
    if (port.up) forget_link(port);
    if (up) take_link_up(port);
    ++work;
  });
  return work;
}

// ---- rest --------------------

/// Those whose bell rang, and those whose time has come.
void Switch::wake_links() noexcept {
  if (bells_->any()) {
    const LinkBells::Bits rung = bells_->take();
    for (uint32_t word = 0; word < rung.size(); ++word) {
      for (uint64_t left = rung[word]; left != 0; left &= left - 1)
        wake(*ports_[word * 64 + static_cast<uint32_t>(std::countr_zero(left))]);
    }
  }
  while (times_.earliest() <= now_) wake(*ports_[times_.first()]);
}

void Switch::wake(Port& port) noexcept {
  if (awake_.contains(port.number)) return;
  awake_.insert(port.number);
  times_.erase(port.number);
  if (port.rests) --resting_;
  port.rests = false;
  port.looked_at = false;
  port.link->finish_sleep();
  port.received_at = now_;
}

/// Whoever sleeps: while few links are awake, none that is up need rest.
void Switch::rest_links() noexcept {
  next_rest_ = now_ + kRestInterval;
  const bool many = awake_.size() > config_.links_awake;
  awake_.for_each([&](PortNumber number) {
    Port& port = *ports_[number];
    const bool idle = now_ - std::max(port.received_at, port.progress_at) >= kRestAfter;
    if (may_rest(port) && (!port.up || (many && idle))) static_cast<void>(rest(port));
  });
}

bool Switch::may_rest(const Port& port) const noexcept {
  return port.looked_at && (port.waiting_lanes | port.poison_lanes) == 0 && port.link->announces_all() &&
         port.up == (port.link->state() == LinkState::kUp);
}

/// False when the link has something to do after all.
bool Switch::rest(Port& port) noexcept {
  const bool quiet = port.link->prepare_sleep();
  const Instant due = quiet ? port.link->deadline() : Instant::min();
  if (due <= now_) {
    port.link->finish_sleep();
    return false;
  }
  awake_.erase(port.number);
  if (due != kNever) times_.set(port.number, due);
  port.rests = port.up;
  if (port.up) ++resting_;
  return true;
}

/// A flit that came by `in` has left its buffer.
void Switch::give_credit(Port& in, VirtualLane vl, uint32_t flits) noexcept {
  if (!awake_.contains(in.number)) [[unlikely]]
    wake(in);
  in.link->grant(vl, flits);
}

// ---- links --------------------

void Switch::take_link_up(Port& port) noexcept {
  for (uint32_t i = 0; i < kVlCount; ++i) {
    if (port.buffers[i] == nullptr) continue;
    for (Port* out : attached_)
      static_cast<void>(drop_from(port, *out, lane_at(i), SwitchPortCounter::kDropLinkReset));
  }
  const LinkParams& params = port.link->params();
  port.up = true;
  port.incarnation = port.link->incarnation();
  port.lanes = params.lanes;
  port.lid = params.lid;
  port.peer_is_endnode = params.lid != kLidNone;
}

/// The link of `port` is gone, or is a new one already: nothing is granted to the old one or sent by it. What
/// it had sent in whole stays: programs end right after their last Send.
void Switch::forget_link(Port& port) noexcept {
  port.up = false;
  for (uint32_t i = 0; i < kVlCount; ++i) {
    drop_unfinished(port, lane_at(i));
    drop_queued(port, lane_at(i), SwitchPortCounter::kDropPortDown);
  }
  for (Ingress& cell : port.ingress) {
    if (cell.held != nullptr) port.counters.add(SwitchPortCounter::kDropLinkReset);
    end_strike(cell);
  }
  port.ingress = {};
  faults_.forget(port.number, [this](const HeldCell& cell) {
    ports_[cell.input]->counters.add(SwitchPortCounter::kDropLinkReset);
  });
  port.poison_lanes = port.stalled_lanes = port.expired_lanes = 0;
}

/// The cell that is half here on one lane of an input whose link has gone.
void Switch::drop_unfinished(Port& in, VirtualLane vl) noexcept {
  const Ingress& coming = in.ingress[vl.value()];
  if (!coming.open || coming.dropping || coming.held_only) return;
  Port& out = *ports_[coming.output];
  Egress& lane = out.egress[vl.value()];
  bool stored = false;
  const uint32_t flits = in.buffers[vl.value()]->drop_unfinished(out.number, stored);
  lane.flits -= flits;
  if (lane.flits == 0) out.waiting_lanes &= ~lane_bit(vl);
  if (!stored && lane.owner == in.number) {  // its head is through
    unlock(out, vl);
    if (out.up) {
      out.poison_lanes |= lane_bit(vl);
      waiting_.insert(out.number);
    }
  }
  update_ready(in, out, vl);
  in.counters.add(SwitchPortCounter::kDropLinkReset);
}

/// Gives credit back for flits that were dropped, but none to a link that is a new one already.
void Switch::return_credit(Port& in, VirtualLane vl, uint32_t flits) noexcept {
  const bool same_link = in.up && in.link->incarnation() == in.incarnation;
  if (flits != 0 && same_link) give_credit(in, vl, flits);
}

/// Drops everything that waits for one lane of an output.
void Switch::drop_queued(Port& out, VirtualLane vl, SwitchPortCounter reason) noexcept {
  for (Port* in : attached_) {
    if (in->buffers[vl.value()] != nullptr) return_credit(*in, vl, drop_from(*in, out, vl, reason));
  }
}

/// Drops what waits from one input for one lane of an output, and the cell that is half across. Cells are
/// counted at the input. @return flits dropped, whose credits the caller returns if their link still lives.
uint32_t Switch::drop_from(Port& in, Port& out, VirtualLane vl, SwitchPortCounter reason) noexcept {
  Egress& lane = out.egress[vl.value()];
  uint32_t cells = 0;
  const uint32_t flits = in.buffers[vl.value()]->clear(out.number, cells);
  lane.flits -= flits;
  if (lane.flits == 0) out.waiting_lanes &= ~lane_bit(vl);
  lane.ready.erase(in.number);
  if (lane.owner == in.number) {
    unlock(out, vl);
    ++cells;
    if (out.up) {
      out.poison_lanes |= lane_bit(vl);
      waiting_.insert(out.number);
    }
  }
  Ingress& coming = in.ingress[vl.value()];
  if (coming.open && coming.output == out.number) coming.dropping = true;
  in.counters.add(reason, cells);
  return flits;
}

void Switch::tick() noexcept {
  next_tick_ = now_ + kTickInterval;
  begun_.for_each([&](PortNumber number) {
    if (ports_[number]->up) end_overdue_cells(*ports_[number]);
    const auto& lanes = ports_[number]->egress;
    const bool ended =
        std::all_of(lanes.begin(), lanes.end(), [](const Egress& l) { return l.owner == kPortNone; });
    if (ended) begun_.erase(number);
  });
  waiting_.for_each([&](PortNumber number) {
    Port* out = ports_[number].get();
    if (!out->up) return;
    // A neighbour whose own output is frozen goes on when it has dropped what crowds it: wait for that, or
    // cells to everybody behind it would go too.
    const int patience = out->peer_is_endnode ? 1 : 2;
    for (uint32_t left = out->waiting_lanes; left != 0; left &= left - 1) {
      const VirtualLane vl = lane_at(static_cast<uint32_t>(std::countr_zero(left)));
      if (now_ - out->egress[vl.value()].progress_at >= patience * config_.lifetime) {
        if (!can_send(*out, vl)) {
          out->stalled_lanes |= lane_bit(vl);
          out->expired_lanes |= lane_bit(vl);
        }
        drop_queued(*out, vl, SwitchPortCounter::kDropLifetime);
      } else if (stands_still(*out, vl, patience * config_.standstill)) {
        out->stalled_lanes |= lane_bit(vl);
        make_room(*out, vl);
      }
    }
  });
}

/// With cut-through a cell is under way before its tail has come. One whose sender adds nothing to it for a
/// lifetime, frozen or hostile, gives up the output's lane, and with strict lanes that of the whole switch.
void Switch::end_overdue_cells(Port& out) noexcept {
  for (uint32_t i = 0; i < kVlCount; ++i) {
    Egress& lane = out.egress[i];
    if (lane.owner == kPortNone || lane.ready.contains(lane.owner)) continue;
    if (now_ - lane.progress_at < config_.lifetime) continue;
    Port& in = *ports_[lane.owner];
    return_credit(in, lane_at(i), drop_from(in, out, lane_at(i), SwitchPortCounter::kDropLifetime));
    lane.progress_at = now_;  // those behind it wait for the output only from now on
  }
}

/// True when the output would take a flit: it has credit and a slot.
bool Switch::can_send(Port& out, VirtualLane vl) noexcept {
  return out.link->claim(vl) != nullptr;
}

/// Without credit the lane is watched alone, without a slot the whole output: while other lanes move, this
/// one is merely not its turn.
bool Switch::stands_still(Port& out, VirtualLane vl, Duration limit) noexcept {
  if (now_ - out.egress[vl.value()].progress_at < limit) return false;
  if (out.link->credits(vl) == 0) return true;
  return now_ - out.progress_at >= limit && !can_send(out, vl);
}

/// With `more` flits, more than half of an input lane's buffers are in use: what stands still there is in the
/// way of others. The link may use fewer than there are, since both its ends chose the number.
bool Switch::crowded(const Port& in, VirtualLane vl, uint32_t more) const noexcept {
  const VlBuffer& buffer = *in.buffers[vl.value()];
  const uint32_t usable = vl == kVlManagement ? buffer.capacity() : in.link->params().credits_per_lane;
  return buffer.capacity() - buffer.free_flits() + more > usable / 2;
}

/// Takes what waits for a lane that stands still out of the inputs that it crowds.
void Switch::make_room(Port& out, VirtualLane vl) noexcept {
  for (Port* in : attached_) {
    if (in->buffers[vl.value()] == nullptr || in->buffers[vl.value()]->flits(out.number) == 0) continue;
    if (!crowded(*in, vl, 0)) continue;
    return_credit(*in, vl, drop_from(*in, out, vl, SwitchPortCounter::kDropStandstill));
  }
}

uint64_t Switch::cells_held() const noexcept {
  uint64_t held = faults_.held();
  for (const Port* out : attached_) {
    for (const Egress& lane : out->egress) held += lane.owner != kPortNone ? 1 : 0;
    for (uint32_t left = out->waiting_lanes; left != 0; left &= left - 1) {
      const int lane = std::countr_zero(left);
      for (const Port* in : attached_) {
        const auto& buffer = in->buffers[static_cast<size_t>(lane)];
        if (buffer != nullptr) held += buffer->heads(out->number);
      }
    }
  }
  return held;
}

uint32_t Switch::stats_entries() const noexcept {
  constexpr auto kEach = static_cast<uint32_t>(SwitchPortCounter::kCount) +
                         static_cast<uint32_t>(LinkCounter::kCount) +
                         kVlCount * static_cast<uint32_t>(LaneCounter::kCount);
  return kEach * static_cast<uint32_t>(attached_.size());
}

void Switch::publish(StatsPage& page, std::string_view prefix) {
  for (Port* port : attached_) {
    const std::string name = fmt::format("{}.{}", prefix, port->number);
    page.publish(name, port->counters);
    port->link->publish(page, name + ".link");
  }
}

// ---- sleeping --------------------

/// Of links that nobody listens for; the acceptors wait for the others.
void Switch::wait_fds(std::vector<pollfd>& out) const {
  awake_.for_each([&](PortNumber number) { ports_[number]->link->wait_fds(out); });
}

bool Switch::prepare_sleep() noexcept {
  bool quiet = true;
  awake_.for_each([&](PortNumber number) {
    Port& port = *ports_[number];
    if (!quiet) return;
    quiet = may_rest(port) ? rest(port) : port.link->prepare_sleep();
  });
  if (quiet && !bells_->any()) return true;
  finish_sleep();
  return false;
}

void Switch::finish_sleep() noexcept {
  awake_.for_each([&](PortNumber number) { ports_[number]->link->finish_sleep(); });
}

Instant Switch::deadline() const noexcept {
  if (bells_->any()) return now_;
  Instant due = std::min(times_.earliest(), faults_.deadline());
  awake_.for_each([&](PortNumber number) { due = std::min(due, ports_[number]->link->deadline()); });
  const bool held = !waiting_.empty();
  return held ? std::min(due, next_tick_) : due;
}

}  // namespace weft::fabric
