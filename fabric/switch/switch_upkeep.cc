// How it works: links come and go. When an input goes, what it left behind is dropped and every lane its
// cells had begun to cross is told so; when an output goes, what waited for it is dropped and its buffers'
// credits go back. Twice a second-tenth the lifetimes are looked at: a lane whose output gave no credit for
// that long drops what waits, and everything that comes after, until credit returns, so that one frozen
// endnode cannot stop the others.
#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "fabric/switch/switch.h"

namespace weft::fabric {
namespace {

constexpr Duration kTickInterval = 50ms;
constexpr Duration kDownPollInterval = 1ms;

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
  for (Port* port : attached_) {
    // An acceptor may have brought a link up since; cells for it may come at once.
    if (!port->up && !look_at_down && port->link->state() != LinkState::kUp) continue;
    work += port->link->poll(now);
    const bool up = port->link->state() == LinkState::kUp;
    if (up == port->up && (!up || port->link->incarnation() == port->incarnation)) continue;
    if (port->up) forget_link(*port);
    if (up) take_link_up(*port);
    ++work;
  }
  return work;
}

void Switch::take_link_up(Port& port) noexcept {
  const LinkParams& params = port.link->params();
  port.up = true;
  port.incarnation = port.link->incarnation();
  port.lanes = params.lanes;
  port.lid = params.lid;
  port.peer_is_endnode = params.lid != kLidNone;
}

/// The link of `port` is gone, or is a new one already: nothing of the old one is granted or sent any more.
void Switch::forget_link(Port& port) noexcept {
  port.up = false;
  for (uint32_t i = 0; i < kVlCount; ++i) {
    const VirtualLane vl = lane_at(i);
    if (port.buffers[i] != nullptr) {
      for (Port* out : attached_)
        static_cast<void>(drop_from(port, *out, vl, SwitchPortCounter::kDropLinkReset));
    }
    drop_queued(port, vl, SwitchPortCounter::kDropPortDown);
  }
  port.ingress = {};
  port.poison_lanes = port.stalled_lanes = 0;
}

/// Drops everything that waits for one lane of an output and returns the credits, but none to a link that is
/// a new one already.
void Switch::drop_queued(Port& out, VirtualLane vl, SwitchPortCounter reason) noexcept {
  for (Port* in : attached_) {
    if (in->buffers[vl.value()] == nullptr) continue;
    const uint32_t flits = drop_from(*in, out, vl, reason);
    const bool same_link = in->up && in->link->incarnation() == in->incarnation;
    if (flits != 0 && same_link) in->link->grant(vl, flits);
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
    if (out.up) out.poison_lanes |= lane_bit(vl);
  }
  Ingress& coming = in.ingress[vl.value()];
  if (coming.open && coming.output == out.number) coming.dropping = true;
  in.counters.add(reason, cells);
  return flits;
}

void Switch::tick() noexcept {
  next_tick_ = now_ + kTickInterval;
  for (Port* out : attached_) {
    // A neighbour whose own output is frozen resumes when its lifetime has passed: wait for that, or cells to
    // everybody behind it would go too.
    const Duration lifetime = out->peer_is_endnode ? config_.lifetime : 2 * config_.lifetime;
    for (uint32_t left = out->waiting_lanes; left != 0 && out->up; left &= left - 1) {
      const VirtualLane vl = lane_at(static_cast<uint32_t>(std::countr_zero(left)));
      if (now_ - out->egress[vl.value()].progress_at < lifetime) continue;
      if (out->link->credits(vl) == 0) out->stalled_lanes |= lane_bit(vl);
      drop_queued(*out, vl, SwitchPortCounter::kDropLifetime);
    }
  }
}

uint64_t Switch::cells_held() const noexcept {
  uint64_t held = 0;
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

void Switch::publish(StatsPage& page, std::string_view prefix) {
  for (Port* port : attached_) {
    const std::string name = fmt::format("{}.{}", prefix, port->number);
    page.publish(name, port->counters);
    port->link->publish(page, name + ".link");
  }
}

// ---- sleeping --------------------

void Switch::wait_fds(std::vector<pollfd>& out) const {
  for (const Port* port : attached_) port->link->wait_fds(out);
}

bool Switch::prepare_sleep() noexcept {
  for (size_t i = 0; i < attached_.size(); ++i) {
    if (attached_[i]->link->prepare_sleep()) continue;
    for (size_t undo = 0; undo <= i; ++undo) attached_[undo]->link->finish_sleep();
    return false;
  }
  return true;
}

void Switch::finish_sleep() noexcept {
  for (Port* port : attached_) port->link->finish_sleep();
}

Instant Switch::deadline() const noexcept {
  Instant due = kNever;
  for (const Port* port : attached_) {
    due = std::min(due, port->link->deadline());
    if (port->waiting_lanes != 0) due = std::min(due, next_tick_);
  }
  return due;
}

}  // namespace weft::fabric
