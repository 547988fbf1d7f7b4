// How it works: a turn of poll() watches the links that are awake, takes in the flits that have arrived,
// forwards waiting flits (cell_outputs.cc), and flushes every link once. The checks of a cell's head flit
// decide once (cell_check.cc), and the rest of the cell follows. The flit lies in memory that its sender can
// still change, so the header is read once into registers and sent from there (CheckedFlit). A flit goes from
// ring to ring when nothing waits for its output and the output has credit. Otherwise it waits in the buffer
// that its credit granted, in the queue of its output. So the input ring is always drained, whatever an
// output does (decisions P4), and the credit goes back when the flit leaves.
//
// Links come and go. When an input link goes, the whole cells that it sent are still forwarded, until its
// next link needs their buffers. An incomplete cell is dropped, and the next hop on the lane on which it was
// being sent is told. When an output link goes, its waiting cells are dropped and the credits of their
// buffers go back.
#include "fabric/switch/switch.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <span>
#include <string>

#include "base/check.h"

namespace weft::fabric {
namespace {

constexpr uint32_t kManagementBurst = 64;
constexpr uint32_t kGsiBurst = 256;
constexpr uint32_t kAnswersBurst = 256;
constexpr uint32_t kCopiesBurst = 4096;  // 16 cells, each to all ports of the largest switch

constexpr Duration kDownPollInterval = 1ms;

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
      taps_(config.ports),
      awake_(ports_, config.links_awake),
      outputs_(config_, ports_, awake_),
      standstill_(config_, flits_per_cell_, ports_, outputs_),
      check_(config_, flits_per_cell_, ports_, forwarding_, standstill_),
      gate_(flits_per_cell_, ports_, awake_, outputs_, faults_, taps_) {
  const Status good = check(config);
  WEFT_CHECK(good.ok(), good.error().text.c_str());
  config_.link.is_switch = true;
  const bool given = !config.arbitration.high.empty() || !config.arbitration.low.empty();
  const VlArbitration tables = given ? config.arbitration : equal_arbitration(config.link.lanes);
  for (uint32_t i = 0; i <= config.ports; ++i) {
    auto port = std::make_unique<Port>(static_cast<PortNumber>(i));
    port->management_rate = TokenBucket(config.management_per_second, kManagementBurst);
    port->gsi_rate = TokenBucket(config.gsi_per_second, kGsiBurst);
    port->multicast_rate = TokenBucket(config.copies_per_second, kCopiesBurst);
    port->answer_rate = TokenBucket(config.standstill_answers_per_second, kAnswersBurst);
    const Status fits = port->arbiter.configure(tables, config.link.lanes);
    WEFT_CHECK(fits.ok(), fits.error().text.c_str());
    ports_.all.push_back(std::move(port));
  }
  faults_.rates().share_lanes_by(ports_[0].arbiter);
}

void Switch::attach(PortNumber number, LinkEngine& link) {
  WEFT_CHECK(number < ports_.all.size() && ports_[number].link == nullptr, "port exists and has no link yet");
  Port& port = ports_[number];
  port.link = &link;
  ports_.attached.push_back(&port);
  awake_.add(port);
}

/// Called when the first link of a port comes up: most spare ports never have one.
void Switch::make_buffers(Port& port) noexcept {
  if (port.buffers[0] != nullptr) return;
  const auto outputs = static_cast<uint32_t>(ports_.all.size());
  const uint32_t flit_bytes = make_hello(config_.link, 0).flit_payload_bytes;
  for (uint32_t i = 0; i < config_.link.lanes; ++i) {
    port.buffers[i] = std::make_unique<VlBuffer>(config_.link.credits_per_lane, flit_bytes, outputs);
  }
  port.buffers[kVlManagement.value()] =
      std::make_unique<VlBuffer>(kManagementCellsMax * flits_per_cell_, flit_bytes, outputs);
}

int Switch::poll(Instant now) noexcept {
  ports_.now = now;
  awake_.wake_due();
  int work = watch_links(now);
  work += receive_all();
  if (faults_.busy()) [[unlikely]]
    work += gate_.release_held();
  work += outputs_.forward();
  awake_.set().for_each([&](PortNumber number) {
    if (ports_[number].up) ports_[number].link->flush(now);
  });
  standstill_.poll();
  awake_.rest_idle();
  return work;
}

/// Takes turns: the port that was first in the last turn is last in this one.
int Switch::receive_all() noexcept {
  const PortSet turn = awake_.set();
  const PortNumber first = turn.after(first_);
  if (first == kPortNone) return 0;
  first_ = first;
  int work = 0;
  PortNumber at = first;
  do {
    if (ports_[at].up) work += receive_flits(ports_[at]);
    at = turn.after(at);
  } while (at != first);
  return work;
}

/// Sends a whole cell on, to which nothing special happens. False: nothing was done.
[[gnu::always_inline]] inline bool Switch::pass_along(Port& in, const RxFlit& flit, CellRun& run) noexcept {
  if (!(flit.head && flit.tail) || flit.poison || flit.payload.size() < kCellHeaderBytes) [[unlikely]]
    return false;
  const CellHead head(flit.payload.data());
  const bool goes_on = run.out != nullptr && flit.vl == run.vl && head.same_ends(run.head);
  if (!goes_on && !begin_run(in, flit, head, run)) return false;
  const CheckedFlit checked{flit, &head, true};
  if (outputs_.pass_whole(in, *run.out, checked)) [[likely]] {
    ++run.cells;
    return true;
  }
  Port& out = *run.out;
  end_run(in, run);
  in.counters.add(SwitchPortCounter::kCellsIn);
  outputs_.enqueue(in, out, checked);
  return true;
}

bool Switch::begin_run(Port& in, const RxFlit& flit, const CellHead& head, CellRun& run) noexcept {
  end_run(in, run);
  Port* out = check_.plain_output(in, flit.vl, head);
  if (out == nullptr || in.ingress[flit.vl.value()].special) return false;
  awake_.need(*out);
  run = {head, flit.vl, out, 0};
  return true;
}

void Switch::end_run(Port& in, CellRun& run) noexcept {
  if (run.cells != 0) {
    in.counters.add(SwitchPortCounter::kCellsIn, run.cells);
    outputs_.note_passed(in, *run.out, run.vl, run.cells);
  }
  run.out = nullptr;
  run.cells = 0;
}

void Switch::take_flit(Port& in, const RxFlit& flit) noexcept {
  Ingress& cell = in.ingress[flit.vl.value()];
  CellHead head;
  if (flit.head) {
    if (cell.special) [[unlikely]]
      gate_.end_strike(in, cell);
    in.counters.add(SwitchPortCounter::kCellsIn);
    SwitchPortCounter reason = SwitchPortCounter::kDropTooShort;
    if (flit.payload.size() >= kCellHeaderBytes) [[likely]] {
      head = CellHead(flit.payload.data());
      reason = check_.admit(in, flit.vl, head, cell.output);
      if (reason == kToGroup) [[unlikely]] {
        if (flit.tail && flit.vl != kVlManagement) {
          cell.open = false;
          cell.dropping = true;  // a one-flit cell has no further flits
          return copy_to_group(in, flit, head);
        }
        reason = SwitchPortCounter::kDropMulticast;
      }
    }
    cell.flits = 0;
    cell.dropping = reason != kAdmitted;
    if (cell.dropping) [[unlikely]]
      refuse(in, flit, reason);
    else if (faults_.active() || taps_.active()) [[unlikely]]
      gate_.inspect(in, flit, head);
  }
  cell.open = !flit.tail;
  if (cell.dropping) [[unlikely]] {
    in.link->grant(flit.vl, 1);
    return;
  }
  Port& out = ports_[cell.output];
  if (++cell.flits > flits_per_cell_) [[unlikely]] {
    gate_.drop_too_long(in, cell);
    in.link->grant(flit.vl, 1 + outputs_.drop_from(in, out, flit.vl, SwitchPortCounter::kDropTooLong));
    return;
  }
  if (cell.special && gate_.keep_back(in, flit, flit.head ? &head : nullptr)) [[unlikely]]
    return;
  outputs_.take(in, out, {flit, flit.head ? &head : nullptr, flits_per_cell_ == 1});
}

/// Counts a refused cell and shows it to captures.
void Switch::refuse(Port& in, const RxFlit& flit, SwitchPortCounter reason) noexcept {
  in.counters.add(reason);
  if (taps_.active()) taps_.refused(in.number, flit, counter_labels(reason)[static_cast<size_t>(reason)]);
}

int Switch::receive_flits(Port& in) noexcept {
  const std::span<const RxFlit> flits = in.link->receive();
  if (flits.empty()) return 0;
  const bool plain = flits_per_cell_ == 1 && !faults_.active() && !taps_.active();
  CellRun run;
  for (const RxFlit& flit : flits) {
    if (plain && pass_along(in, flit, run)) [[likely]]
      continue;
    end_run(in, run);
    take_flit(in, flit);
  }
  end_run(in, run);
  in.link->release();
  in.received_at = ports_.now;
  in.counters.add(SwitchPortCounter::kFlitsIn, flits.size());
  return static_cast<int>(flits.size());
}

/// Copies a whole cell to each other port, when the forwarding table assigns its LID to a group. The switch
/// does not know the members, so all endnodes get a copy. A copy is made if its output is free. The buffer
/// that the cell's credit granted may hold one copy for a busy output, if more than half of the lane's
/// buffers are free for other cells. Further copies are lost, so that a slow member delays no other.
void Switch::copy_to_group(Port& in, const RxFlit& flit, const CellHead& head) noexcept {
  const CheckedFlit checked{flit, &head, flits_per_cell_ == 1};
  const VlBuffer& buffer = *in.buffers[flit.vl.value()];
  bool held = false;
  uint64_t copies = 0;
  if (taps_.active()) [[unlikely]]
    taps_.sent(in.number, flit, head);
  for (Port* out : ports_.attached) {
    if (!check_.copies_go(in, *out, head)) continue;
    ++copies;
    if (gate_.copy_is_struck(in, *out, flit.vl, head)) [[unlikely]] {
      in.counters.add(SwitchPortCounter::kDropFault);
    } else if (!in.multicast_rate.take(ports_.now)) {
      in.counters.add(SwitchPortCounter::kDropMulticastRate);
    } else if (check_.check_output(in, flit.vl, out->number, nullptr) != kAdmitted) {
      in.counters.add(SwitchPortCounter::kDropMulticast);
    } else if (outputs_.pass_through(in, *out, checked)) {
      if (taps_.active()) [[unlikely]]
        taps_.received(out->number, flit, head);
    } else if (held || buffer.free_flits() * 2 <= buffer.capacity()) {
      in.counters.add(SwitchPortCounter::kDropMulticast);
    } else {
      if (taps_.active()) [[unlikely]]
        taps_.received(out->number, flit, head);
      outputs_.enqueue(in, *out, checked);
      held = true;
    }
  }
  if (!held) in.link->grant(flit.vl, 1);
  if (copies == 0) return in.counters.add(SwitchPortCounter::kDropNoRoute);
  in.counters.add(SwitchPortCounter::kCellsCopied, copies - 1);
}

// ---- links that come and go --------------------

int Switch::watch_links(Instant now) noexcept {
  int work = 0;
  const bool look_at_down = now >= next_down_poll_;
  if (look_at_down) next_down_poll_ = now + kDownPollInterval;
  awake_.set().for_each([&](PortNumber number) {
    Port& port = ports_[number];
    // An acceptor may have brought a link up since the last look, and cells for it may come at once.
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

void Switch::take_link_up(Port& port) noexcept {
  make_buffers(port);
  gate_.drop_left(port);
  for (uint32_t i = 0; i < kVlCount; ++i) {
    if (port.buffers[i] == nullptr) continue;
    for (Port* out : ports_.attached)
      static_cast<void>(outputs_.drop_from(port, *out, lane_at(i), SwitchPortCounter::kDropLinkReset));
  }
  const LinkParams& params = port.link->params();
  port.up = true;
  port.incarnation = port.link->incarnation();
  port.lanes = params.lanes;
  port.lid = params.lid;
  port.peer_is_endnode = params.lid != kLidNone;
  faults_.joined(port.number, params.peer_guid, ports_.now);
}

/// The link of `port` has gone or is already a new one. The old link gets no credit and sends nothing more.
/// Whole cells that it had sent stay, because programs end right after their last Send.
void Switch::forget_link(Port& port) noexcept {
  port.up = false;
  for (uint32_t i = 0; i < kVlCount; ++i) {
    outputs_.drop_unfinished(port, lane_at(i));
    outputs_.drop_queued(port, lane_at(i), SwitchPortCounter::kDropPortDown);
  }
  gate_.forget(port);
  faults_.left(port.number);
  port.ingress = {};
  port.poison_lanes = port.stalled_lanes = port.expired_lanes = 0;
  port.takes_none = false;
  port.untaken_since = kNever;
}

// ---- for operators and tests --------------------

PortNumber Switch::port_of(Guid guid) const noexcept {
  for (const Port* port : ports_.attached)
    if (port->up && port->link->params().peer_guid == guid) return port->number;
  return kPortNone;
}

uint64_t Switch::cells_held() const noexcept {
  uint64_t held = faults_.held();
  for (const Port* out : ports_.attached) {
    for (const Egress& lane : out->egress) held += lane.owner != kPortNone ? 1 : 0;
    for (uint32_t left = out->waiting_lanes; left != 0; left &= left - 1) {
      const int lane = std::countr_zero(left);
      for (const Port* in : ports_.attached) {
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
  constexpr auto kFaults = static_cast<uint32_t>(kFaultRulesMax) * static_cast<uint32_t>(FaultGauge::kCount);
  return kEach * static_cast<uint32_t>(ports_.attached.size()) + kFaults;
}

void Switch::publish(StatsPage& page, std::string_view prefix) {
  for (Port* port : ports_.attached) {
    const std::string name = fmt::format("{}.{}", prefix, port->number);
    page.publish(name, port->counters);
    port->link->publish(page, name + ".link");
  }
  faults_.publish(page);
}

// ---- sleeping --------------------

Instant Switch::deadline() const noexcept {
  return std::min({awake_.deadline(), faults_.deadline(), standstill_.deadline()});
}

}  // namespace weft::fabric
