#include "adapter/transport/ways.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "adapter/limits.h"
#include "adapter/transport/path_migration.h"

namespace weft::adapter {
namespace {

using Doing = WayState::Doing;

/// `a` is older than `b`. Counts of moves wrap.
bool is_older(uint16_t a, uint16_t b) noexcept {
  return static_cast<int16_t>(static_cast<uint16_t>(a - b)) < 0;
}

/// False for a ways cell that no adapter sends.
bool read_ways(const CellView& cell, WaysWire& out) noexcept {
  if (cell.opcode != Opcode::kWays || cell.payload.size() != sizeof out) return false;
  std::memcpy(&out, cell.payload.data(), sizeof out);
  const bool known =
      out.kind >= static_cast<uint8_t>(WaysKind::kAsk) && out.kind <= static_cast<uint8_t>(WaysKind::kUse);
  return known && out.zero == 0 && out.zero2.get() == 0 && cell.ack.code == AckCode::kAck;
}

/// As is_current(). An end that does not send knows only what it expects, and its peer sends.
bool is_of_now(const QueuePair& qp, const CellView& cell) noexcept {
  if (qp.abilities().finish_send) return is_current(qp, cell);
  return std::abs(cell.psn.distance_from(qp.rx.expected)) <= static_cast<int32_t>(kPacketWindow);
}

}  // namespace

Ways::Ways(Engine& engine, CellWriter& writer) : engine_(engine), writer_(writer) {
  asking_.reserve(engine.config.limits.queue_pairs);
}

/// The QP is an RC QP over cells, connected, within the subnet, and its program has left its path to us.
bool Ways::usable(const QueuePair& qp) const noexcept {
  return qp.ways != nullptr && !qp.ways->off && qp.row->finds_ways && qp.abilities().receive &&
         !qp.path.is_global && qp.peer_lid != kLidNone;
}

bool Ways::knows(const QueuePair& qp, Lid lid) const noexcept {
  const auto& peer = qp.ways->peer;
  return lid == qp.peer_lid || std::find(peer.begin(), peer.end(), lid) != peer.end();
}

void Ways::start(QueuePair& qp, Doing doing) noexcept {
  WayState& state = *qp.ways;
  state.doing = doing;
  state.asked = 0;
  state.other_port = 0;
  state.began = state.next_at = engine_.now;
  if (!std::exchange(state.listed, true)) asking_.push_back(&qp);
  due_ = std::min(due_, engine_.now);
}

void Ways::begin(QueuePair& qp) noexcept {
  if (!usable(qp)) return;
  qp.ways->peer = {};
  qp.ways->moves = 0;
  start(qp, Doing::kAsking);
}

void Ways::search(QueuePair& qp) noexcept {
  const bool knows_peer = usable(qp) && qp.ways->peer != decltype(qp.ways->peer){};
  if (!knows_peer || qp.ways->doing == Doing::kSearching) return;
  engine_.count(AdapterCounter::kWaySearches);
  start(qp, Doing::kSearching);
}

void Ways::forget(QueuePair& qp) noexcept {
  if (std::exchange(qp.ways->listed, false)) std::erase(asking_, &qp);
  *qp.ways = {};
}

// ---- turn --------------------

int Ways::run() noexcept {
  if (engine_.now < due_) [[likely]]
    return 0;
  int work = 0;
  due_ = kNever;
  for (size_t i = 0; i < asking_.size();) {
    QueuePair& qp = *asking_[i];
    WayState& state = *qp.ways;
    if (usable(qp) && state.doing != Doing::kNothing && state.next_at <= engine_.now) work += step(qp);
    if (!usable(qp) || state.doing == Doing::kNothing) {
      state.doing = Doing::kNothing;
      state.listed = false;
      asking_[i] = asking_.back();
      asking_.pop_back();
      continue;
    }
    due_ = std::min(due_, state.next_at);
    ++i;
  }
  return work;
}

int Ways::step(QueuePair& qp) noexcept {
  WayState& state = *qp.ways;
  const bool searches = state.doing == Doing::kSearching;
  const bool up = engine_.port_of(qp).up();
  if (searches && state.other_port != 0) {
    const Way way{std::exchange(state.other_port, uint8_t{0}), state.other_lid};
    if (go(qp, way)) {
      ++state.moves;
      state.doing = Doing::kNothing;
      engine_.count(AdapterCounter::kWaysTaken);
      say(qp, WaysKind::kUse, way);
      return 1;
    }
  }
  // An acknowledgement has come, or nothing waits for one.
  const bool answered = qp.tx.progress_at > state.began || qp.tx.first == qp.tx.end;
  if ((searches && up && answered) || (!searches && state.asked >= kWayAsksMax)) {
    state.doing = Doing::kNothing;
    return 0;
  }
  const int sent = searches ? ask_by_every_way(qp) : int{say(qp, WaysKind::kAsk, way_of(qp))};
  const uint32_t doublings = std::min<uint32_t>(state.asked, searches ? kWayDoublings : kWayAsksMax);
  state.next_at = engine_.now + (sent != 0 ? kWayAskAgain * (1U << doublings) : kWayNoCredit);
  if (sent != 0 || !up) state.asked = static_cast<uint8_t>(std::min(state.asked + 1U, kWayAsksMax));
  return sent;
}

/// The present way first: a peer that was only late answers there first. Then those that share no end with
/// it, because the silence does not tell which end is dead.
int Ways::ask_by_every_way(QueuePair& qp) noexcept {
  const Way present = way_of(qp);
  int sent = say(qp, WaysKind::kAsk, present);
  for (const bool apart : {true, false}) {
    for (const auto& port : engine_.ports) {
      for (const Lid lid : qp.ways->peer) {
        const Way way{port->number(), lid};
        const bool is_apart = way.port != present.port && lid != present.lid;
        if (lid != kLidNone && !(way == present) && is_apart == apart) sent += say(qp, WaysKind::kAsk, way);
      }
    }
  }
  return sent;
}

bool Ways::say(QueuePair& qp, WaysKind kind, const Way& way) noexcept {
  AdapterPort& port = *engine_.ports[way.port - 1U];
  if (!port.up()) return false;
  WaysWire wire{};
  wire.kind = static_cast<uint8_t>(kind);
  wire.moves = Be16(qp.ways->moves);
  for (size_t i = 0; i < kWaysLidsMax && i < engine_.ports.size(); ++i) {
    if (engine_.ports[i]->known()) wire.lids[i] = Be16(engine_.ports[i]->lid().value());
  }
  const AckBody body{.psn = qp.rx.expected.plus(Psn::kMask),
                     .cell_number = qp.rx.executed_cell,
                     .messages_completed = qp.rx.messages_completed};
  const Outlet outlet{.carrier = &port.way_to(way.lid),
                      .fixed = make_template(
                          port, {way.lid, qp.peer_qpn, qp.qpn, qp.attr.sl, port.pkeys()[qp.attr.pkey_index]}),
                      .vl = lane_of(port, qp.qpn, qp.attr.sl)};
  if (writer_.send_ways(outlet, qp.tx.psn_of(qp.tx.first), body, wire) != CellSent::kYes) return false;
  engine_.count_sent(port, 1);
  return true;
}

// ---- cells --------------------

bool Ways::take(QueuePair& qp, const AdapterPort& port, const CellView& cell) noexcept {
  WaysWire wire;
  if (!read_ways(cell, wire)) {
    qp.counters.add(QpCounter::kProtocolViolations);
    return true;
  }
  const bool global = cell.has(kCellGlobal);
  if (!usable(qp) || global || cell.src_qpn != qp.peer_qpn || !knows(qp, cell.slid)) return false;
  if (!pkeys_match(cell.pkey, port.pkeys()[qp.attr.pkey_index]) || !is_of_now(qp, cell)) return false;
  WayState& state = *qp.ways;
  for (size_t i = 0; i < kWaysLidsMax; ++i) state.peer[i] = Lid(wire.lids[i].get());
  const Way by{port.number(), cell.slid};
  const auto kind = static_cast<WaysKind>(wire.kind);
  if (kind == WaysKind::kUse) {
    take_use(qp, by, wire.moves.get());
    return true;
  }
  if (kind == WaysKind::kAsk) say(qp, WaysKind::kAnswer, by);
  if (is_older(wire.moves.get(), state.moves)) say(qp, WaysKind::kUse, way_of(qp));  // it got lost
  if (kind == WaysKind::kAnswer) take_answer(qp, by);
  return true;
}

void Ways::take_answer(QueuePair& qp, const Way& by) noexcept {
  WayState& state = *qp.ways;
  if (state.doing == Doing::kAsking || by == way_of(qp)) {
    state.doing = Doing::kNothing;
  } else if (state.doing == Doing::kSearching && state.other_port == 0) {
    state.other_port = by.port;
    state.other_lid = by.lid;
    state.next_at = engine_.now + (engine_.port_of(qp).up() ? kWayPatience : Duration::zero());
    due_ = std::min(due_, state.next_at);
  }
}

void Ways::take_use(QueuePair& qp, const Way& by, uint16_t moves) noexcept {
  WayState& state = *qp.ways;
  const bool newer = is_older(state.moves, moves);
  const bool both_moved = moves == state.moves && !(by == way_of(qp)) && yields(qp);
  if (newer || both_moved) {
    if (!(by == way_of(qp))) {
      if (!go(qp, by)) return;
      engine_.count(AdapterCounter::kWaysFollowed);
    }
    state.moves = moves;
    state.doing = Doing::kNothing;
  }
  say(qp, WaysKind::kAnswer, way_of(qp));
}

/// If both ends have moved at once, to different ways, the end with the lower first LID follows the other.
bool Ways::yields(const QueuePair& qp) const noexcept {
  const auto own = std::pair(engine_.ports.front()->lid(), qp.qpn);
  return own < std::pair(qp.ways->peer[0], qp.peer_qpn);
}

/// Makes `way` the path of the QP, and repeats what is in flight there. False when the port is of no use.
bool Ways::go(QueuePair& qp, const Way& way) noexcept {
  const AdapterPort& port = *engine_.ports[way.port - 1U];
  if (!port.up() || port.info().cell_payload_bytes != qp.path.segment_bytes) return false;
  qp.attr.dlid = qp.peer_lid = way.lid;
  qp.attr.port = way.port;
  engine_.use_port(qp, way.port);
  qp.port_seen = port.change();
  engine_.renew_path(qp);
  engine_.schedule.wait_no_more(qp);
  if (qp.abilities().finish_send) qp.service->repeat_all(qp);
  engine_.schedule.want_send(qp);
  return true;
}

}  // namespace weft::adapter
