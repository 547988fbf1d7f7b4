// How it works: a turn of poll() watches the links that are awake (switch_upkeep.cc), takes in what has
// arrived (switch_ingress.cc), forwards what waits and can go, and flushes every link once. Forwarding is
// per output: the arbiter names a lane among those with credit and something ready; the lane serves its
// inputs in turn, one cell at a time. From head to tail a cell owns its lane of the output, so cells never
// mix (SAN-VL-07). A cell is ready when its tail is here, or its head with cut-through.
#include "fabric/switch/switch.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace weft::fabric {
namespace {

constexpr uint32_t kManagementBurst = 64;
constexpr uint32_t kGsiBurst = 256;
constexpr uint32_t kCopiesBurst = 4096;  // 16 cells for all ports of the largest switch

}  // namespace

Status Switch::check(const SwitchConfig& config) {
  if (config.ports < 1 || config.ports > kPortsMax) {
    return Error{fmt::format("{} ports: choose 1 to {}", config.ports, kPortsMax)};
  }
  LinkConfig link = config.link;
  link.is_switch = true;
  if (Status good = check_link_config(link); !good) return good;
  if (config.arbitration.high.empty() && config.arbitration.low.empty()) return {};
  return VlArbiter().configure(config.arbitration, config.link.lanes);
}

Switch::Switch(const SwitchConfig& config)
    : config_(config),
      flits_per_cell_(
          flits_per_cell(config.link.cell_payload_bytes, make_hello(config.link, 0).flit_payload_bytes)),
      forwarding_(config.table_per_input ? config.ports + 1 : 1),
      taps_(config.ports) {
  const Status good = check(config);
  WEFT_CHECK(good.ok(), good.error().text.c_str());
  config_.link.is_switch = true;
  lane_outputs_.fill(kPortNone);
  const bool given = !config.arbitration.high.empty() || !config.arbitration.low.empty();
  const VlArbitration tables = given ? config.arbitration : equal_arbitration(config.link.lanes);
  for (uint32_t i = 0; i <= config.ports; ++i) {
    auto port = std::make_unique<Port>(static_cast<PortNumber>(i));
    port->management_rate = TokenBucket(config.management_per_second, kManagementBurst);
    port->gsi_rate = TokenBucket(config.gsi_per_second, kGsiBurst);
    port->multicast_rate = TokenBucket(config.copies_per_second, kCopiesBurst);
    const Status fits = port->arbiter.configure(tables, config.link.lanes);
    WEFT_CHECK(fits.ok(), fits.error().text.c_str());
    ports_.push_back(std::move(port));
  }
}

Switch::~Switch() = default;

void Switch::attach(PortNumber number, LinkEngine& link) {
  WEFT_CHECK(number < ports_.size() && ports_[number]->link == nullptr, "port exists and has no link yet");
  Port& port = *ports_[number];
  port.link = &link;
  make_buffers(port);
  attached_.push_back(&port);
  link.set_bell(bells_, number);
  awake_.insert(number);
}

int Switch::poll(Instant now) noexcept {
  now_ = now;
  wake_links();
  int work = watch_links(now);
  work += receive_all();
  if (faults_.held() != 0) [[unlikely]]
    work += release_held();
  waiting_.for_each([&](PortNumber number) {
    Port& out = *ports_[number];
    if (out.up) work += forward(out);
    if ((out.waiting_lanes | out.poison_lanes) == 0) waiting_.erase(number);
  });
  awake_.for_each([&](PortNumber number) {
    if (ports_[number]->up) ports_[number]->link->flush(now);
  });
  if (now >= next_tick_) [[unlikely]]
    tick();
  if (now >= next_rest_) [[unlikely]]
    rest_links();
  return work;
}

/// In turns: who was first in the last turn is last in this one.
int Switch::receive_all() noexcept {
  const PortSet turn = awake_;
  const PortNumber first = turn.after(first_);
  if (first == kPortNone) return 0;
  first_ = first;
  int work = 0;
  PortNumber at = first;
  do {
    if (ports_[at]->up) work += receive_flits(*ports_[at]);
    at = turn.after(at);
  } while (at != first);
  return work;
}

// ---- output --------------------

int Switch::forward(Port& out) noexcept {
  if (out.poison_lanes != 0) [[unlikely]]
    send_poison(out);
  int work = 0;
  for (uint32_t turn = 0; turn < kTurnsPerForwardMax; ++turn) {
    const uint32_t ready = ready_lanes(out);
    if (ready == 0) break;
    const VlArbiter::Choice choice = out.arbiter.choose(ready);
    const uint32_t bytes = send_turn(out, choice.vl, choice.bytes);
    if (bytes == 0) break;
    out.arbiter.charge(bytes);
    ++work;
  }
  return work;
}

uint32_t Switch::ready_lanes(Port& out) const noexcept {
  uint32_t ready = 0;
  for (uint32_t left = out.waiting_lanes & ~out.poison_lanes; left != 0; left &= left - 1) {
    const VirtualLane vl(static_cast<uint8_t>(std::countr_zero(left)));
    const Egress& lane = out.egress[vl.value()];
    const bool can_go = lane.owner != kPortNone ? lane.ready.contains(lane.owner) : !lane.ready.empty();
    if (!can_go || !lane_is_free(out, vl, lane.owner)) continue;
    // Asking for memory also tells the link that this lane wants credit, so that it asks the peer if none
    // comes.
    if (out.link->claim(vl) != nullptr) ready |= lane_bit(vl);
  }
  return ready;
}

/// True when `input` may send on this lane now; kPortNone asks for any input.
bool Switch::lane_is_free(const Port& out, VirtualLane vl, PortNumber input) const noexcept {
  const PortNumber owner = out.egress[vl.value()].owner;
  if (owner != kPortNone && owner != input) return false;
  if (!config_.one_cell_per_lane) return true;
  const PortNumber held = lane_outputs_[vl.value()];
  return held == kPortNone || held == out.number;
}

uint32_t Switch::send_turn(Port& out, VirtualLane vl, uint32_t bytes_wanted) noexcept {
  Egress& lane = out.egress[vl.value()];
  uint32_t bytes = 0;
  for (uint32_t cells = 0; cells < kCellsPerArbitrationMax && bytes < bytes_wanted; ++cells) {
    const PortNumber from = lane.owner != kPortNone ? lane.owner : lane.ready.after(lane.last);
    if (from == kPortNone) break;
    Port& in = *ports_[from];
    do {
      if (!lane.ready.contains(from)) return bytes;
      const uint32_t flit_bytes =
          kFlitHeaderBytes + static_cast<uint32_t>(in.buffers[vl.value()]->front(out.number).payload.size());
      if (!send_front(in, out, vl)) return bytes;
      bytes += flit_bytes;
    } while (lane.owner == from);
  }
  return bytes;
}

bool Switch::send_front(Port& in, Port& out, VirtualLane vl) noexcept {
  std::byte* to = out.link->claim(vl);
  if (to == nullptr) return false;
  VlBuffer& buffer = *in.buffers[vl.value()];
  const QueuedFlit flit = buffer.front(out.number);
  if (!flit.payload.empty()) std::memcpy(to, flit.payload.data(), flit.payload.size());
  const int flags =
      (flit.head ? kFlitHead : 0) | (flit.tail ? kFlitTail : 0) | (flit.poison ? kFlitPoison : 0);
  note_sent(in, out,
            {vl, static_cast<uint8_t>(flags), static_cast<uint32_t>(flit.payload.size()), flit.cell_crc});
  buffer.pop(out.number);
  if (in.up) [[likely]]
    give_credit(in, vl, 1);
  Egress& lane = out.egress[vl.value()];
  if (--lane.flits == 0) out.waiting_lanes &= ~lane_bit(vl);
  update_ready(in, out, vl);
  return true;
}

/// Commits a claimed flit and keeps locks and counters.
void Switch::note_sent(Port& in, Port& out, const TxFlit& flit) noexcept {
  if (!awake_.contains(out.number)) [[unlikely]]
    wake(out);
  out.link->commit(flit);
  out.counters.add(SwitchPortCounter::kFlitsOut);
  out.egress[flit.vl.value()].progress_at = out.progress_at = now_;
  if ((flit.flags & kFlitHead) != 0) lock(in, out, flit.vl);
  if ((flit.flags & kFlitTail) == 0) return;
  unlock(out, flit.vl);
  if ((flit.flags & kFlitPoison) == 0) {
    out.counters.add(SwitchPortCounter::kCellsOut);
  } else {
    out.counters.add(SwitchPortCounter::kPoisonOut);
    in.counters.add(SwitchPortCounter::kDropPoisoned);
  }
}

void Switch::lock(Port& in, Port& out, VirtualLane vl) noexcept {
  out.egress[vl.value()].owner = out.egress[vl.value()].last = in.number;
  if (config_.link.cut_through) begun_.insert(out.number);
  if (config_.one_cell_per_lane) lane_outputs_[vl.value()] = out.number;
}

void Switch::unlock(Port& out, VirtualLane vl) noexcept {
  out.egress[vl.value()].owner = kPortNone;
  if (lane_outputs_[vl.value()] == out.number) lane_outputs_[vl.value()] = kPortNone;
}

/// Tells the next hop to forget cells whose rest will not come (decisions 2.7).
void Switch::send_poison(Port& out) noexcept {
  for (uint32_t left = out.poison_lanes; left != 0; left &= left - 1) {
    const VirtualLane vl(static_cast<uint8_t>(std::countr_zero(left)));
    if (out.link->claim(vl) == nullptr) continue;
    out.link->commit({vl, kFlitTail | kFlitPoison, 0, 0});
    out.counters.add(SwitchPortCounter::kPoisonOut);
    out.counters.add(SwitchPortCounter::kFlitsOut);
    out.poison_lanes &= ~lane_bit(vl);
  }
}

void Switch::update_ready(Port& in, Port& out, VirtualLane vl) noexcept {
  const VlBuffer& buffer = *in.buffers[vl.value()];
  Egress& lane = out.egress[vl.value()];
  const bool begun = config_.link.cut_through || lane.owner == in.number;
  const uint32_t sendable = begun ? buffer.flits(out.number) : buffer.whole_cells(out.number);
  if (sendable != 0) {
    lane.ready.insert(in.number);
  } else {
    lane.ready.erase(in.number);
  }
}

}  // namespace weft::fabric
