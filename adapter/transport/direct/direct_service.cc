// How it works: each turn polls the windows, takes their records and the ends of their accesses, and gives
// QPs that waited for room a turn. A QP that finds its peer on this machine says kReady to the peer's QP. It
// sends requests once the peer has said kReady to this life of it. A peer's QP that uses a switch answers
// kSwitch, and the QP goes back to RC over cells, which it can while it has sent nothing.
#include "adapter/transport/direct/direct_service.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "adapter/queues/qp_lifecycle.h"
#include "adapter/several_nics.h"
#include "adapter/transport/packet_service.h"
#include "adapter/transport/reliable/reliable_service.h"

namespace weft::adapter {
namespace {

/// False for a record to an earlier life of the QP, or from another life of its peer. The first record that
/// names the present life of the QP tells the peer's life. A `kReady` that names none may be of a life that
/// has ended since: it tells only which life to answer, until the next one. The end of such a life is no
/// news.
[[nodiscard]] bool is_of_this_life(DirectQp& direct, const WindowRecord& record) noexcept {
  const bool to_this_life = record.receiver_life == direct.id;
  if (record.kind == WindowRecordKind::kSwitch) return to_this_life && !direct.named;
  if (direct.named) return to_this_life && record.sender_life == direct.peer_life;
  const bool asks = record.kind == WindowRecordKind::kReady && record.receiver_life == 0;
  const bool ends = record.kind == WindowRecordKind::kGone;
  if (record.sender_life == 0 || ends || !(to_this_life || asks)) return false;
  direct.peer_life = record.sender_life;
  direct.named = to_this_life;
  return true;
}

/// Records of one window that a turn takes.
constexpr uint32_t kRecordsPerTurn = 64;
/// A window without QPs waits for a peer that still moves data.
constexpr Duration kSettleEvery = 1ms;

}  // namespace

const ServiceRow kRcDirectRow{.type = QpType::kRc,
                              .states_like = QpType::kRc,
                              .operations = kRcOperations,
                              .takes = kOpOnRc,
                              .send_window = kPacketWindow,
                              .acknowledged = true,
                              .connected = true,
                              .by_window = true,
                              .make = make_service<DirectService>};

DirectService::DirectService(Engine& engine, CellWriter& writer)
    : engine_(engine),
      keys_(engine, peers_),
      completer_(engine, writer),
      requester_(engine, writer, outlet_, completer_),
      responder_(engine, writer, outlet_, keys_),
      datagrams_(engine, *this) {
  if (!has_turns()) return;
  engine.memory.regions.watch_keys(&keys_);
  engine.datagram_ways = &datagrams_;
}

DirectService::~DirectService() {
  for (const auto& peer : peers_) engine_.config.direct->release(*peer->path);
}

/// A QP whose every cell is acknowledged or protected by an additional CRC wants cells.
bool DirectService::suits(const QueuePair& qp) const noexcept {
  return qp.config.ack_mode == AckMode::kSelective && !qp.config.packet_crc && !qp.path.is_global;
}

void DirectService::offer(QueuePair& qp) noexcept {
  if (!has_turns() || !suits(qp)) return;
  try {
    if (DirectPeer* peer = peer_of(qp.peer_lid); peer != nullptr) enter(qp, *peer);
  } catch (const std::bad_alloc&) {  // the switch needs no memory
  }
}

DirectPeer* DirectService::peer_of(Lid lid) {
  for (const auto& peer : peers_) {
    if (!peer->has(lid) || peer->ended) continue;
    if (!peer->made()) return peer.get();
    peer->window->poll(engine_.now);  // the peer may have ended this window a moment ago
    const fabric::WindowState state = peer->window->state();
    if (state == fabric::WindowState::kJoining || state == fabric::WindowState::kUp) return peer.get();
  }
  auto made = std::make_unique<DirectPeer>();
  made->lids.push_back(lid);
  peers_.reserve(peers_.size() + 1);
  watch_.reserve(peers_.size() + 1);
  for (const auto& peer : peers_) peer->lids.reserve(peer->lids.size() + 1);
  DirectPath* path = engine_.config.direct->claim(lid);
  if (path == nullptr) return nullptr;
  for (const auto& peer : peers_) {  // another port of the same process
    if (peer->path != path) continue;
    engine_.config.direct->release(*path);
    peer->lids.push_back(lid);
    return peer.get();
  }
  made->path = path;
  add(std::move(made));
  return peers_.back().get();
}

void DirectService::add(std::unique_ptr<DirectPeer> peer) {
  peers_.reserve(peers_.size() + 1);
  watch_.add();
  peer->place = peers_.size();
  if (!engine_.ports.empty()) peer->own_lid = engine_.ports.front()->lid();
  peers_.push_back(std::move(peer));
}

void DirectService::enter(QueuePair& qp, DirectPeer& peer) {
  auto made = std::make_unique<DirectQp>();
  made->messages.resize(std::bit_ceil(size_t{qp.sq.capacity()}));
  made->peer = &peer;
  made->id = ++last_id_;
  made->next = made->answered_to = qp.sq.started;  // a former window may have ended
  made->owes_ready = true;
  peer.waiting.reserve(peer.qps.size() + 1);
  peer.farewells.reserve(peer.farewells.size() + peer.qps.size() + 1);
  peer.qps.reserve(peer.qps.size() + 1);
  lives_.emplace(made->id, &qp);
  peer.qps.push_back(&qp);
  peer.visits = false;
  if (peer.qps.size() == 1) {  // what was shown was for queue pairs that have ended
    if (peer.pd != qp.config.pd) keys_.withdraw_all(peer);
    peer.pd = qp.config.pd;
    peer.mixed = false;
  }
  if (peer.pd != qp.config.pd && !std::exchange(peer.mixed, true)) keys_.withdraw_all(peer);
  qp.kept = std::move(made);
  qp.row = &kRcDirectRow;
  qp.service = this;
  engine_.schedule.want_send(qp);
}

/// Accesses that a late device, or a fault, has not ended: their memory belongs to the program again.
void DirectService::stop_moving(QueuePair& qp) noexcept {
  const DirectQp& direct = direct_of(qp);
  if (direct.accesses != 0) direct.peer->window->abandon(direct.id);
}

void DirectService::forget(QueuePair& qp) noexcept {
  DirectPeer& peer = *direct_of(qp).peer;
  const DirectQp& direct = direct_of(qp);
  // A peer's QP that was not named takes nothing of this one for granted.
  if (!peer.ended && !direct.told_gone && direct.peer_life != 0) {
    peer.farewells.push_back(
        {qp.peer_qpn,
         qp.qpn,
         {.kind = WindowRecordKind::kGone, .sender_life = direct.id, .receiver_life = direct.peer_life},
         peer.last_farewell++ & kFarewellNumbers});
  }
  leave(qp);
  touch(peer);
  if (peer.open()) {
    wake(peer);
    peer.window->flush();
  }
}

/// Takes a QP out of the service.
void DirectService::leave(QueuePair& qp) noexcept {
  DirectPeer& peer = *direct_of(qp).peer;
  stop_moving(qp);
  lives_.erase(direct_of(qp).id);
  found_id_ = 0;
  std::erase(peer.qps, &qp);
  std::erase(peer.waiting, &qp);
  if (peer.taken_back != 0) review_rights(peer);
  qp.kept.reset();
  qp.row = &kRcRow;
  qp.service = reliable_;
}

/// Gives the window of a peer back that has no QPs: once the peer moves none of our data. Until then each
/// turn tries again, and a new QP may use the window.
void DirectService::drop(DirectPeer& peer) noexcept {
  if (!keys_.let_go(peer)) return;
  engine_.config.direct->release(*peer.path);
  const size_t place = peer.place;
  peers_.erase(peers_.begin() + static_cast<ptrdiff_t>(place));
  watch_.erase(place);
  for (size_t i = place; i < peers_.size(); ++i) peers_[i]->place = i;
}

/// The caller drops the peer if this was its last QP.
void DirectService::to_switch(QueuePair& qp) noexcept {
  leave(qp);
  use_port(qp);
  engine_.schedule.want_send(qp);
}

/// A QP has left for RC over cells. It catches up on what one over cells has done since RTR: an expired port
/// gets its time once more, and at RTS a QP asks for its other ways.
void DirectService::use_port(QueuePair& qp) noexcept {
  if (engine_.port_of(qp).expired()) watch_port(engine_, qp);
  if (qp.ways != nullptr && qp.abilities().finish_send) engine_.several_nics->ways.begin(qp);
}

void DirectService::take(QueuePair& qp, const CellView& cell) noexcept {
  DirectPeer& peer = *direct_of(qp).peer;
  if (direct_of(qp).named) return engine_.count(AdapterCounter::kDropService);
  to_switch(qp);  // the peer's QP sends cells
  left(peer);
  reliable_->take(qp, cell);
}

uint32_t DirectService::run(QueuePair& qp, uint32_t budget, bool& /*blocked*/) noexcept {
  DirectQp& direct = direct_of(qp);
  DirectPeer& peer = *direct.peer;
  const bool answers = qp.answers;
  uint32_t steps = 0;
  if (!peer.open()) {  // requests that need no peer are executed
    touch(peer);
    if (!peer.ended) outlet_.wait(qp);
    steps = requester_.run(qp, budget);
    if (peer.ended) requester_.window_ended(qp);
    return steps;
  }
  if (responder_.pay(qp)) {
    steps = requester_.run(qp, budget);
    if (direct.owes_ack && qp.abilities().receive) (void)responder_.acknowledge(qp);
  }
  flush(peer);
  return answers ? steps + 1 : steps;
}

void DirectService::flush(DirectPeer& peer) noexcept {
  peer.window->flush();
  if (!peer.window->all_good()) (void)collect(peer);
  used(peer);
}

bool DirectService::has_work(const QueuePair& qp) const noexcept {
  return requester_.has_work(qp);
}

void DirectService::modified(QueuePair& qp) noexcept {
  DirectQp& direct = direct_of(qp);
  direct.owes_ready = true;
  const uint8_t grants = responder_.grants_of(qp);
  direct.granted |= grants;
  const auto taken_back = static_cast<uint8_t>(direct.granted & ~grants);
  if (std::exchange(direct.taken_back, taken_back) != taken_back) review_rights(*direct.peer);
  engine_.schedule.want_send(qp);
}

/// A right that a QP takes back ends at once: the table shows no key with it any more, and the checks of the
/// responder decide on each request.
void DirectService::review_rights(DirectPeer& peer) noexcept {
  uint8_t taken_back = 0;
  for (const QueuePair* qp : peer.qps) taken_back |= direct_of(*qp).taken_back;
  const uint8_t before = std::exchange(peer.taken_back, taken_back);
  if ((taken_back & ~before) != 0) keys_.withdraw_all(peer);
}

uint32_t DirectService::acknowledge(QueuePair& qp, bool& done) noexcept {
  done = true;
  DirectQp& direct = direct_of(qp);
  qp.rx.debt.settle();
  if (!direct.peer->open() || !qp.abilities().receive) return 0;
  direct.owes_ack = true;
  if (requester_.has_work(qp)) {  // its next record carries the acknowledgement
    engine_.schedule.want_send(qp);
    return 0;
  }
  const bool sent = responder_.acknowledge(qp);
  if (sent) direct.peer->window->flush();
  used(*direct.peer);
  return sent ? 1 : 0;
}

void DirectService::say_last_words(QueuePair& qp) noexcept {
  if (!qp.abilities().receive || !qp.rx.debt.due()) return;
  bool done = false;
  (void)acknowledge(qp, done);
}

// ---- windows --------------------

uint32_t DirectService::run_turn() noexcept {
  uint32_t work = 0;
  Lid lid{};
  while (DirectPath* path = engine_.config.direct->arrived(lid)) admit(*path, lid);
  more_ = false;
  const uint64_t changes = watch_.changes();
  for (const uint32_t place : watch_.call(engine_.now)) {
    work += turn_at(place);
    if (watch_.changes() == changes) continue;
    more_ = true;  // the places have changed: all get a turn in the next one
    return work;
  }
  return work;
}

uint32_t DirectService::take_arrivals() noexcept {
  uint32_t taken = 0;
  const uint64_t changes = watch_.changes();
  for (const uint32_t place : watch_.active()) {
    if (!watch_.has_record_alone(place)) continue;
    DirectPeer& peer = *peers_[place];
    if (!peer.up || !peer.open() || !rests(peer)) continue;
    taken += take_records(peer);
    if (watch_.changes() != changes) break;  // the places have changed
    watch_.taken(place, next_of(peer));
    const bool answers = !rests(peer);  // a NAK, or where the QP is
    if (answers) [[unlikely]]
      peer.window->flush();
    if (peer.more || answers) touch(peer);
  }
  return taken;
}

uint32_t DirectService::turn_at(size_t place) noexcept {
  DirectPeer* const peer = peers_[place].get();
  const bool made = peer->made();
  const WatchedWord bell(made ? peer->window->bell() : nullptr);  // before the look
  const uint32_t work = turn(*peer);
  if (place >= peers_.size() || peers_[place].get() != peer) return work;  // it has ended in this turn
  const bool soon = peer->more || (work != 0 && !(peer->open() && rests(*peer)));
  watch_.rested(place, bell, made ? next_of(*peer) : WatchedWord(), soon ? Instant::min() : due_of(*peer));
  return work;
}

/// The word that the peer's next record changes. Records of a window that has ended are not taken.
WatchedWord DirectService::next_of(const DirectPeer& peer) noexcept {
  const fabric::AwaitedWord awaited = peer.window->awaited();
  return peer.ended ? WatchedWord(awaited.word) : WatchedWord(awaited.word, awaited.value);
}

/// A turn would find nothing until the peer does something. Of an open window.
[[gnu::always_inline]] inline bool DirectService::rests(const DirectPeer& peer) noexcept {
  return !peer.waits_for_table && peer.waiting.empty() && peer.farewells.empty() && peer.window->rests();
}

void DirectService::used(const DirectPeer& peer) noexcept {
  if (rests(peer)) {
    watch_.use(peer.place);
  } else {
    touch(peer);
  }
}

/// When a peer's window has to get a turn though its bell is silent.
Instant DirectService::due_of(const DirectPeer& peer) const noexcept {
  if (peer.window == nullptr) return kNever;  // the helper opens it
  if (peer.unused() && !peer.visits) return engine_.now + kSettleEvery;
  return peer.ended ? kNever : std::min(peer.window->deadline(), DirectDatagrams::due_of(peer));
}

/// A peer has opened a window. It may serve QPs to come, and a QP that uses a switch must say so.
void DirectService::admit(DirectPath& path, Lid lid) noexcept {
  try {
    auto made = std::make_unique<DirectPeer>();
    made->lids.push_back(lid);
    made->path = &path;
    made->visits = true;
    add(std::move(made));
  } catch (const std::bad_alloc&) {
    engine_.config.direct->release(path);
  }
}

Instant DirectService::next_turn() const noexcept {
  if (more_) return Instant::min();
  return watch_.next([this](size_t place) { return due_of(*peers_[place]); });
}

uint32_t DirectService::turn(DirectPeer& peer) noexcept {
  if (!peer.made()) {
    if (peer.path->state() == DirectPath::State::kJoining && !(peer.unused() && !peer.visits)) return 0;
    while (!peer.qps.empty()) to_switch(*peer.qps.back());
    datagrams_.leave(peer);
    drop(peer);
    return 1;
  }
  if (peer.ended) {
    if (peer.unused()) drop(peer);
    return 0;
  }
  const auto work = static_cast<uint32_t>(peer.window->poll(engine_.now));
  const uint32_t taken = take_records(peer);
  const fabric::WindowState state = peer.window->state();
  if (peer.unused() && !peer.visits) {  // the last one uses the switch
    drop(peer);
    return work + taken;
  }
  if (state == fabric::WindowState::kGone || state == fabric::WindowState::kFaulty) {
    if (taken == 0) end(peer);  // what had arrived was taken out
    return work + taken;
  }
  if (const bool cut = peer.window->cut(); cut != peer.cut) [[unlikely]] {
    peer.cut = cut;
    for (QueuePair* qp : peer.qps) requester_.cut_changed(*qp);
  }
  const bool news = collect(peer) + taken + work != 0;
  const bool first = state == fabric::WindowState::kUp && !std::exchange(peer.up, true);
  if (first) peer.window->device().set_scratchpad(fabric::kScratchpadDatagrams, 1);
  const bool wakes = news || first || std::exchange(peer.waits_for_table, false);
  if (!peer.datagrams_waiting.empty()) [[unlikely]] {
    share_room(peer, wakes);
  } else if (wakes) {
    wake(peer);
  }
  return work + taken;
}

uint32_t DirectService::take_records(DirectPeer& peer) noexcept {
  fabric::WindowEnd& end = *peer.window;
  uint32_t taken = 0;
  fabric::FifoRecord slot;
  while (taken < kRecordsPerTurn && end.take(slot) == fabric::FifoTake::kRecord) {
    take_record(peer, slot);
    end.release();
    ++taken;
  }
  peer.more = taken == kRecordsPerTurn;
  more_ |= peer.more;
  return taken;
}

void DirectService::take_record(DirectPeer& peer, const fabric::FifoRecord& slot) noexcept {
  WindowRecord record;
  std::span<const std::byte> data;
  const WindowRecordFault fault = decode_window_record(slot.data, record, data);
  if (fault == WindowRecordFault::kNone && record.kind == WindowRecordKind::kDatagram)
    return engine_.datagram_taker->take_datagram(data, peer.lids);
  QueuePair* qp = engine_.qps.find(Qpn(slot.destination));
  if (qp == nullptr || qp->peer_qpn != Qpn(slot.source)) return engine_.count(AdapterCounter::kDropNoQp);
  if (qp->row != &kRcDirectRow) {
    const bool asks = fault == WindowRecordFault::kNone && record.kind == WindowRecordKind::kReady;
    if (asks && qp->abilities().receive && peer.has(qp->peer_lid))
      answer_for_switch(peer, *qp, record.sender_life);
    return engine_.count(AdapterCounter::kDropQpState);
  }
  if (direct_of(*qp).peer != &peer) return engine_.count(AdapterCounter::kDropSource);
  if (fault != WindowRecordFault::kNone) return qp->counters.add(QpCounter::kProtocolViolations);
  take_record(*qp, record, data);
}

[[gnu::always_inline]] inline void DirectService::take_record(QueuePair& qp, const WindowRecord& record,
                                                              std::span<const std::byte> data) noexcept {
  DirectQp& direct = direct_of(qp);
  if (!is_of_this_life(direct, record)) return engine_.count(AdapterCounter::kDropNoQp);
  if (qp.abilities().finish_send) requester_.take_acknowledgement(qp, record.acknowledged);
  switch (record.kind) {
    case WindowRecordKind::kReady:
      if (record.has(kRecordAnswer)) modified(qp);
      if (direct.named) requester_.take_ready(qp, record);
      return;
    case WindowRecordKind::kGone:
      return requester_.take_gone(qp);
    case WindowRecordKind::kSwitch:
      if (!direct.ready && !direct.gone && qp.abilities().receive) to_switch(qp);
      return;
    case WindowRecordKind::kAck:
      return qp.counters.add(QpCounter::kAcksReceived);
    case WindowRecordKind::kNak:
      return requester_.take_nak(qp, record);
    case WindowRecordKind::kResponse:
      return requester_.take_response(qp, record, data);
    case WindowRecordKind::kSend:
    case WindowRecordKind::kWrite:
    case WindowRecordKind::kImmediate:
    case WindowRecordKind::kRead:
    case WindowRecordKind::kCompareSwap:
    case WindowRecordKind::kFetchAdd:
    case WindowRecordKind::kRefusedWrite:
    case WindowRecordKind::kShortSend:  // has been decoded as a kSend
      if (!qp.abilities().receive) return engine_.count(AdapterCounter::kDropQpState);
      return responder_.take(qp, record, data);
    case WindowRecordKind::kDatagram:  // has been taken
      return;
  }
}

void DirectService::answer_for_switch(DirectPeer& peer, QueuePair& qp, uint32_t life) noexcept {
  (void)outlet_.say(peer, {qp.peer_qpn, qp.qpn, {.kind = WindowRecordKind::kSwitch, .receiver_life = life}});
}

QueuePair* DirectService::find(uint64_t cookie) noexcept {
  const auto id = static_cast<uint32_t>(cookie >> 32);
  if (id == found_id_ && id != 0) [[likely]]
    return found_;
  const auto found = lives_.find(id);
  if (found == lives_.end()) return nullptr;
  found_id_ = id;
  found_ = found->second;
  return found_;
}

/// Takes the ends of accesses and records.
uint32_t DirectService::collect(DirectPeer& peer) noexcept {
  fabric::WindowEnd& end = *peer.window;
  uint32_t ended = 0;
  for (fabric::AccessDone done; end.next_access(done); ++ended) {
    if (QueuePair* qp = find(done.cookie); qp != nullptr)
      requester_.access_ended(*qp, static_cast<uint32_t>(done.cookie), done.status);
  }
  for (fabric::FifoDone done; end.next_failed(done);) record_lost(peer, done.cookie);
  if (!peer.farewells.empty()) [[unlikely]] {
    say_farewells(peer);
    std::erase_if(peer.farewells,
                  [&](const DirectFarewell& farewell) { return farewell.said_at <= end.passed(); });
  }
  return ended;
}

void DirectService::record_lost(DirectPeer& peer, uint64_t cookie) noexcept {
  const auto place = static_cast<uint32_t>(cookie);
  if (cookie >> 32 == 0) {  // of no QP
    if (place == kDatagramPlace) return engine_.count(AdapterCounter::kDropDma);
    for (DirectFarewell& farewell : peer.farewells) {
      if (farewell.number == place) farewell.said_at = kNotSaid;
    }
  } else if (QueuePair* const qp = find(cookie); qp == nullptr) {
    return;
  } else if (place == kNoPlace || place == kResponsePlace) {
    responder_.record_lost(*qp, place == kResponsePlace);
  } else {
    requester_.record_lost(*qp, place);
  }
}

/// Those that have not left yet, or were lost.
void DirectService::say_farewells(DirectPeer& peer) noexcept {
  for (DirectFarewell& farewell : peer.farewells) {
    if (farewell.said_at != kNotSaid) continue;
    if (!outlet_.say(peer, farewell, farewell.number)) return;  // no room
    farewell.said_at = peer.window->posted();
  }
}

/// Datagrams wait for room, and RC may: each comes first every other time that there is some.
void DirectService::share_room(DirectPeer& peer, bool wakes) noexcept {
  const bool room = peer.window->slot().data() != nullptr;
  const bool datagrams_first = room && !peer.datagrams_were_first;
  if (datagrams_first) datagrams_.look(peer);
  if (wakes) wake(peer);
  if (!datagrams_first) datagrams_.look(peer);
  if (room) peer.datagrams_were_first = datagrams_first;
}

/// There may be room again: QPs that wait get a turn, and farewells leave.
void DirectService::wake(DirectPeer& peer) noexcept {
  say_farewells(peer);
  for (QueuePair* qp : peer.waiting) {
    direct_of(*qp).waits = false;
    engine_.schedule.want_send(*qp);
  }
  peer.waiting.clear();
}

/// The window has ended. Requests that wait for an answer fail; QPs without one hear of it with their next.
void DirectService::end(DirectPeer& peer) noexcept {
  peer.ended = true;
  datagrams_.leave(peer);
  for (size_t i = peer.qps.size(); i-- > 0;) {
    QueuePair& qp = *peer.qps[i];
    if (direct_of(qp).named) {
      requester_.window_ended(qp);
      continue;
    }
    // The peer's QP is one of its next window, or uses a switch.
    leave(qp);
    offer(qp);
    if (qp.row != &kRcDirectRow) use_port(qp);
    engine_.schedule.want_send(qp);
  }
  if (peer.unused()) drop(peer);
}

}  // namespace weft::adapter
