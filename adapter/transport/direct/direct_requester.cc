// How it works: `DirectQp::next` goes over the places of the send queue. Normally it is sq.started and each
// step starts the next request. After an RNR NAK, or when the device could not move a request's data, it goes
// back, and the places whose parts have not left are sent again. The device moves data only while no record
// of the QP waits for its answer, and a record leaves only when no access is under way. So requests take
// effect in the order of posting. Accesses follow each other without waiting: the devices of processes and of
// files move them in order, and WindowEnd takes none behind one that a fault has failed. A write behind
// records that is not long goes as records, too: waiting for their answer would take a round trip for each
// write with immediate data.
#include "adapter/transport/direct/direct_requester.h"

#include <algorithm>

#include "adapter/memory/guarded_copy.h"
#include "adapter/transport/pieces.h"
#include "adapter/transport/rnr_timer.h"
#include "messages/transport_headers.h"

namespace weft::adapter {
namespace {

[[nodiscard]] bool is_write(const SendWqe& wqe) noexcept {
  return wqe.rule->opcode == SendOpcode::kRdmaWrite || wqe.rule->opcode == SendOpcode::kRdmaWriteWithImm;
}
[[nodiscard]] bool is_signaled(const QueuePair& qp, const SendWqe& wqe) noexcept {
  return qp.config.signal_all || (wqe.flags & kSendSignaled) != 0;
}
[[nodiscard]] uint8_t flags_of(const QueuePair& qp, const SendWqe& wqe) noexcept {
  return static_cast<uint8_t>(((wqe.flags & kSendSolicited) != 0 ? kRecordSolicited : 0) |
                              (is_signaled(qp, wqe) ? kRecordAnswer : 0));
}
/// The table has the key, and it does not allow the access. A key that the table does not have may be one
/// that the owner has not shown yet.
[[nodiscard]] bool shows(fabric::TableCheck refusal) noexcept {
  return refusal == fabric::TableCheck::kOutOfRange || refusal == fabric::TableCheck::kNoRight;
}
/// True when number `a` is that of an earlier message than `b`.
[[nodiscard]] bool is_before(uint32_t a, uint32_t b) noexcept {
  return static_cast<int32_t>(a - b) < 0;
}

}  // namespace

uint32_t DirectRequester::run(QueuePair& qp, uint32_t budget) noexcept {
  if (engine_.now < qp.tx.rnr_until) return 0;
  const DirectQp& direct = direct_of(qp);
  uint32_t steps = 0;
  run_bytes_ = 0;
  const auto may_step = [&] {
    return direct.next != qp.sq.rung && qp.abilities().finish_send && run_bytes_ < kDirectBytesPerTurn;
  };
  while (steps < budget && may_step() && step(qp) == Step::kAgain) ++steps;
  return steps + static_cast<uint32_t>(run_bytes_ / kDirectStepBytes);
}

bool DirectRequester::has_work(const QueuePair& qp) const noexcept {
  const DirectQp& direct = direct_of(qp);
  if (direct.next == qp.sq.rung || direct.waits || engine_.now < qp.tx.rnr_until) return false;
  if (!direct.ready) return may_start(qp) && !qp.sq.at(qp.sq.started).rule->moves_data();
  return direct.next < qp.sq.started || may_start(qp);
}

DirectRequester::Step DirectRequester::step(QueuePair& qp) noexcept {
  DirectQp& direct = direct_of(qp);
  const uint64_t place = direct.next;
  SendWqe& wqe = qp.sq.at(place);
  if (place == qp.sq.started) {
    if (!may_start(qp)) return Step::kStop;
    if (!wqe.rule->moves_data()) {
      const bool again = head_.run_local(qp, wqe);
      direct.next = qp.sq.started;
      return again ? Step::kAgain : Step::kStop;
    }
    if (!direct.ready) {
      if (wqe.started || !fails_by_itself(qp, wqe)) watch_silence(qp);
      return Step::kStop;
    }
    if (!wqe.started && !begin(qp, wqe)) return Step::kStop;
  } else if (wqe.done || direct.message(place).posted) {
    ++direct.next;
    return Step::kAgain;
  }
  return direct.message(place).way == DirectWay::kDma ? move(qp, place) : post_records(qp, place);
}

/// Checks a request and chooses its way. False when it has failed.
[[gnu::always_inline]] inline bool DirectRequester::begin(QueuePair& qp, SendWqe& wqe) noexcept {
  DirectQp& direct = direct_of(qp);
  wqe.started = true;
  direct.message(qp.sq.started) = {.way = way_of(qp, wqe)};
  return !fails_by_itself(qp, wqe);
}

/// The request at sq.started breaks a rule of this side, and has failed.
[[gnu::always_inline]] inline bool DirectRequester::fails_by_itself(QueuePair& qp, SendWqe& wqe) noexcept {
  const SendFault fault = head_.check(qp, wqe);
  if (fault.reason == Reason::kNone) return false;
  wqe.started = true;
  fail(qp, qp.sq.started, fault);
  return true;
}

DirectWay DirectRequester::way_of(const QueuePair& qp, const SendWqe& wqe) const noexcept {
  const uint8_t grants = direct_of(qp).grants;
  if (wqe.length == 0) return DirectWay::kRecords;  // its success tells that the peer is there
  const bool dma = is_write(wqe) ? (grants & kGrantWrite) != 0
                                 : wqe.rule->work == SendWork::kRead && (grants & kGrantRead) != 0;
  return dma ? DirectWay::kDma : DirectWay::kRecords;
}

// ---- moved by the device --------------------

DirectRequester::Step DirectRequester::move(QueuePair& qp, uint64_t place) noexcept {
  DirectQp& direct = direct_of(qp);
  const SendWqe& wqe = qp.sq.at(place);
  DirectMessage& message = direct.message(place);
  if (direct.unanswered != 0 || fits_its_record(qp, place)) {
    if (may_be_records(qp, place)) {
      message.way = DirectWay::kRecords;
      return Step::kAgain;
    }
    if (direct.unanswered != 0) return Step::kStop;  // the answer gives the QP a turn
  }
  if (wqe.cut < wqe.length) {
    const Step moved = move_pieces(qp, place);
    if (moved == Step::kStop || wqe.cut < wqe.length || message.way != DirectWay::kDma) return moved;
  }
  if (wqe.rule->has_imm) {  // the record leaves when the data are there
    message.moved = true;
    message.way = DirectWay::kRecords;
    return Step::kAgain;
  }
  const bool ended = message.accesses == 0;
  pass_on(qp, place);
  if (ended) {
    qp.sq.at(place).done = true;
    completer_.retire(qp);
  }
  return Step::kAgain;
}

/// A write whose immediate data need a record that has room for its data, too.
bool DirectRequester::fits_its_record(const QueuePair& qp, uint64_t place) const noexcept {
  const SendWqe& wqe = qp.sq.at(place);
  return wqe.rule->has_imm &&
         wqe.length + kWindowRecordBytes <= direct_of(qp).peer->window->record_bytes_max();
}

/// A write that is not long. Data of a write that the table refuses do not leave.
bool DirectRequester::may_be_records(const QueuePair& qp, uint64_t place) const noexcept {
  const SendWqe& wqe = qp.sq.at(place);
  if (!is_write(wqe) || wqe.cut != 0 || wqe.length > kDirectFollowBytes) return false;
  const fabric::WindowEnd& window = *direct_of(qp).peer->window;
  return !shows(window.peer().check(wqe.rkey.value(), wqe.remote_addr, wqe.length, kTableWrite));
}

DirectRequester::Step DirectRequester::move_pieces(QueuePair& qp, uint64_t place) noexcept {
  if (const Piece whole = whole_piece(qp, place); whole.at != nullptr) [[likely]]
    return post_access(qp, place, whole);
  std::array<Piece, kDirectPieces> pieces;
  const uint32_t count = find_pieces(qp, place, pieces);
  if (count == 0) {
    const AccessKind kind = local_use_of(qp.sq.at(place));
    fail(qp, place, head_.bad_segment(qp, place, kind));
    return Step::kStop;
  }
  const auto goes_on = [&] {
    return direct_of(qp).message(place).way == DirectWay::kDma && run_bytes_ < kDirectBytesPerTurn;
  };
  for (uint32_t i = 0; i < count && goes_on(); ++i) {
    if (post_access(qp, place, pieces[i]) == Step::kStop) return Step::kStop;
  }
  return Step::kAgain;
}

DirectRequester::Step DirectRequester::post_access(QueuePair& qp, uint64_t place,
                                                   const Piece& piece) noexcept {
  DirectQp& direct = direct_of(qp);
  DirectMessage& message = direct.message(place);
  SendWqe& wqe = qp.sq.at(place);
  const fabric::WindowAccess access{
      .kind = wqe.rule->is_read() ? fabric::DmaKind::kRead : fabric::DmaKind::kWrite,
      .key = wqe.rkey.value(),
      .remote = wqe.remote_addr + wqe.cut,
      .local = piece.at,
      .bytes = piece.bytes,
      .cookie = cookie_of(direct.id, static_cast<uint32_t>(place))};
  switch (direct.peer->window->access(access)) {
    case fabric::AccessPost::kPosted:
      wqe.cut += static_cast<uint32_t>(piece.bytes);
      run_bytes_ += piece.bytes;
      ++message.accesses;
      ++direct.accesses;
      if (direct.peer->cut) [[unlikely]]
        watch_silence(qp);
      return Step::kAgain;
    case fabric::AccessPost::kWait:
      direct.peer->waits_for_table = true;
      [[fallthrough]];
    case fabric::AccessPost::kFull:
      outlet_.wait(qp);
      return Step::kStop;
    case fabric::AccessPost::kRefused:  // the owner refuses it, too, and so knows of it
      message.refused = is_write(wqe) && shows(direct.peer->window->refusal());
      [[fallthrough]];
    case fabric::AccessPost::kThroughOwner:
      message.way = DirectWay::kRecords;
      wqe.cut = 0;
      return Step::kAgain;
    case fabric::AccessPost::kAfterFailed:  // the end of that one gives the QP a turn
    case fabric::AccessPost::kDown:
      break;
  }
  return Step::kStop;
}

/// The rest of a request as one piece; null: it may be several.
DirectRequester::Piece DirectRequester::whole_piece(QueuePair& qp, uint64_t place) noexcept {
  const SendWqe& wqe = qp.sq.at(place);
  if (wqe.length - wqe.cut > kDirectAccessBytes) return {};
  const uint32_t rest = wqe.length - wqe.cut;
  if ((wqe.flags & kSendInline) != 0) return {qp.sq.inline_data(place) + wqe.cut, rest};
  if (std::byte* const single = checked_segment(wqe); single != nullptr) return {single + wqe.cut, rest};
  return {};
}

uint32_t DirectRequester::find_pieces(QueuePair& qp, uint64_t place, std::span<Piece> out) noexcept {
  const SendWqe& wqe = qp.sq.at(place);
  const uint32_t rest = std::min(wqe.length - wqe.cut, kDirectBytesPerTurn);
  uint32_t count = 0;
  const auto add = [&](std::byte* at, uint64_t bytes) {
    while (bytes != 0 && count < out.size()) {
      const uint64_t part = std::min<uint64_t>(bytes, kDirectAccessBytes);
      out[count++] = {at, part};
      at += part;
      bytes -= part;
    }
  };
  const AccessKind kind = local_use_of(wqe);
  const AccessFault fault = for_each_piece(engine_.memory, qp.config.pd, {qp.sq.sges(place), wqe.sge_count},
                                           {wqe.cut, rest}, kind, add);
  return fault == AccessFault::kNone ? count : 0;
}

void DirectRequester::access_ended(QueuePair& qp, uint32_t low, fabric::DmaStatus status) noexcept {
  --direct_of(qp).accesses;
  uint64_t place = 0;
  if (!place_from(qp, low, place)) return;
  part_moved(qp, place, status);
  engine_.schedule.want_send(qp);  // there is room, and records may have waited for the last access
}

/// An access of the request in `place` has ended.
void DirectRequester::part_moved(QueuePair& qp, uint64_t place, fabric::DmaStatus status) noexcept {
  DirectQp& direct = direct_of(qp);
  DirectMessage& message = direct.message(place);
  SendWqe& wqe = qp.sq.at(place);
  --message.accesses;
  if (wqe.done) return;                                // it has failed
  if (status == fabric::DmaStatus::kPeerGone) return;  // window_ended() follows
  if (status == fabric::DmaStatus::kGood) {
    if (!message.posted || message.accesses != 0) return;
    wqe.done = true;
    return completer_.retire(qp);
  }
  // Memory of the peer that is not there: only its owner can tell what follows.
  const bool no_memory = status == fabric::DmaStatus::kNoMemory;
  if (!no_memory && message.dma_failures++ >= qp.attr.retry_count)
    return fail(qp, place, {Reason::kWindowFailed});
  if (no_memory) message.way = DirectWay::kRecords;
  message.posted = message.moved = false;
  wqe.cut = 0;
  direct.next = std::min(direct.next, place);
}

// ---- records --------------------

void DirectRequester::number(QueuePair& qp, uint64_t place) noexcept {
  DirectQp& direct = direct_of(qp);
  DirectMessage& message = direct.message(place);
  if (message.numbered) return;
  message.numbered = true;
  message.number = direct.next_number++;
  if (direct.unanswered == 0) {
    direct.answered_to = place;
    qp.tx.progress_at = engine_.now;
  }
  ++direct.unanswered;
  direct.reads += qp.sq.at(place).rule->is_read() ? 1U : 0U;
  watch_silence(qp);
}

WindowRecord DirectRequester::record_of(const QueuePair& qp, uint64_t place) const noexcept {
  const SendWqe& wqe = qp.sq.at(place);
  WindowRecord record{.flags = flags_of(qp, wqe),
                      .number = direct_of(qp).message(place).number,
                      .immediate = wqe.rule->invalidates ? wqe.rkey.value() : wqe.imm,
                      .total = wqe.length};
  if (wqe.rule->has_imm) record.flags |= wqe.rule->invalidates ? kRecordInvalidates : kRecordImmediate;
  if (wqe.rule->needs_remote_addr) {
    record.address = wqe.remote_addr;
    record.key = wqe.rkey.value();
  }
  return record;
}

[[gnu::always_inline]] inline DirectRequester::Step DirectRequester::post_records(QueuePair& qp,
                                                                                  uint64_t place) noexcept {
  DirectQp& direct = direct_of(qp);
  const SendWqe& wqe = qp.sq.at(place);
  if (direct.accesses != 0) return Step::kStop;  // the end of the last one gives the QP a turn
  const bool read = wqe.rule->is_read();
  if (read && !direct.message(place).numbered &&
      direct.reads >= std::min<uint32_t>(qp.attr.max_rd_atomic, kReadsPerQp))
    return Step::kStop;
  number(qp, place);
  const DirectMessage& message = direct.message(place);
  return read || message.moved || message.refused ? post_question(qp, place) : post_data(qp, place);
}

/// The next part of a request. A Send that one record holds has a short header, if the peer takes it.
DirectRequester::Step DirectRequester::post_data(QueuePair& qp, uint64_t place) noexcept {
  SendWqe& wqe = qp.sq.at(place);
  bool is_short =
      wqe.rule->opcode == SendOpcode::kSend && wqe.cut == 0 && (direct_of(qp).grants & kTakesShortSends) != 0;
  std::span<std::byte> room = outlet_.room(qp, is_short ? kShortSendBytes : kWindowRecordBytes);
  if (room.data() == nullptr) return Step::kStop;
  if (is_short && room.size() < wqe.length) {
    room = room.subspan(kWindowRecordBytes - kShortSendBytes);
    is_short = false;
  }
  const auto bytes = static_cast<uint32_t>(std::min<size_t>(room.size(), wqe.length - wqe.cut));
  if (!fill(qp, place, room.first(bytes))) return Step::kStop;
  if (is_short) {
    const WindowRecord record{.flags = flags_of(qp, wqe), .number = direct_of(qp).message(place).number};
    outlet_.put_short(qp, record, room, bytes, static_cast<uint32_t>(place));
  } else {
    WindowRecord record = record_of(qp, place);
    record.kind = is_write(wqe) ? WindowRecordKind::kWrite : WindowRecordKind::kSend;
    record.offset = wqe.cut;
    if (wqe.cut + bytes == wqe.length) record.flags |= kRecordLast;
    outlet_.put(qp, record, room, bytes, static_cast<uint32_t>(place));
  }
  wqe.cut += bytes;
  if (wqe.cut == wqe.length) pass_on(qp, place);
  return Step::kAgain;
}

/// A request of one record: a read, an atomic operation, the immediate data of a write, or a write that is
/// refused.
DirectRequester::Step DirectRequester::post_question(QueuePair& qp, uint64_t place) noexcept {
  const SendWqe& wqe = qp.sq.at(place);
  WindowRecord record = record_of(qp, place);
  record.flags |= kRecordLast;
  uint32_t bytes = 0;
  const std::span<std::byte> room = outlet_.room(qp);
  if (room.data() == nullptr) return Step::kStop;
  switch (wqe.rule->opcode) {
    case SendOpcode::kRdmaRead:
      record.kind = WindowRecordKind::kRead;
      break;
    case SendOpcode::kCompareSwap:
    case SendOpcode::kFetchAdd: {
      record.kind = wqe.rule->opcode == SendOpcode::kFetchAdd ? WindowRecordKind::kFetchAdd
                                                              : WindowRecordKind::kCompareSwap;
      store_be(room.data(), wqe.atomic.compare);
      store_be(room.data() + sizeof(uint64_t), wqe.atomic.operand);
      bytes = kWindowAtomicBytes;
      break;
    }
    default:
      record.kind = direct_of(qp).message(place).refused ? WindowRecordKind::kRefusedWrite
                                                         : WindowRecordKind::kImmediate;
      break;
  }
  outlet_.put(qp, record, room, bytes, static_cast<uint32_t>(place));
  pass_on(qp, place);
  return Step::kAgain;
}

/// Copies the next bytes of a request. False when it has failed.
[[gnu::always_inline]] inline bool DirectRequester::fill(QueuePair& qp, uint64_t place,
                                                         std::span<std::byte> to) noexcept {
  if (gather(qp, place, to) == AccessFault::kNone) return true;
  fail(qp, place, head_.bad_segment(qp, place, AccessKind::kLocalRead));
  return false;
}

AccessFault DirectRequester::gather(QueuePair& qp, uint64_t place, std::span<std::byte> to) noexcept {
  const SendWqe& wqe = qp.sq.at(place);
  if ((wqe.flags & kSendInline) != 0) {
    std::copy_n(qp.sq.inline_data(place) + wqe.cut, to.size(), to.data());
    return AccessFault::kNone;
  }
  std::byte* at = to.data();
  const auto copy = [&at](std::byte* from, uint64_t bytes) {
    copy_guarded(at, from, bytes);
    at += bytes;
  };
  if (std::byte* const single = checked_segment(wqe); single != nullptr) [[likely]]
    return AccessChecks::touch(copy, single + wqe.cut, to.size());
  return for_each_piece(engine_.memory, qp.config.pd, {qp.sq.sges(place), wqe.sge_count},
                        {wqe.cut, to.size()}, AccessKind::kLocalRead, copy);
}

/// All parts of the request in `place` have left.
void DirectRequester::pass_on(QueuePair& qp, uint64_t place) noexcept {
  DirectQp& direct = direct_of(qp);
  direct.message(place).posted = true;
  if (place == qp.sq.started) ++qp.sq.started;
  direct.next = place + 1;
}

// ---- answers --------------------

void DirectRequester::take_ready(QueuePair& qp, const WindowRecord& record) noexcept {
  DirectQp& direct = direct_of(qp);
  direct.ready = !direct.gone;
  direct.grants = record.code & kWindowGrantsAll;
  qp.tx.progress_at = engine_.now;
  engine_.schedule.want_send(qp);
}

void DirectRequester::take_gone(QueuePair& qp) noexcept {
  DirectQp& direct = direct_of(qp);
  direct.gone = true;
  direct.ready = false;
  qp.tx.progress_at = engine_.now;
  qp.tx.retransmit_at = kNever;  // the retries alone from now on
  watch_silence(qp);
}

void DirectRequester::answer(QueuePair& qp, uint64_t place) noexcept {
  DirectQp& direct = direct_of(qp);
  SendWqe& wqe = qp.sq.at(place);
  direct.message(place).answered = true;
  --direct.unanswered;
  direct.reads -= wqe.rule->is_read() ? 1U : 0U;
  wqe.done = true;
}

void DirectRequester::take_acknowledgement(QueuePair& qp, uint32_t count) noexcept {
  DirectQp& direct = direct_of(qp);
  if (direct.unanswered == 0) return;
  if (is_before(direct.next_number, count)) return qp.counters.add(QpCounter::kProtocolViolations);
  bool any = false;
  for (; direct.answered_to < qp.sq.started; ++direct.answered_to) {
    const uint64_t place = direct.answered_to;
    const DirectMessage& message = direct.message(place);
    if (!message.numbered || message.answered) continue;
    if (!is_before(message.number, count)) break;
    if (qp.sq.at(place).rule->is_read()) continue;  // ends with its data
    if (!message.posted) break;
    answer(qp, place);
    any = true;
  }
  if (any) made_progress(qp);
}

void DirectRequester::made_progress(QueuePair& qp) noexcept {
  qp.tx.progress_at = engine_.now;
  qp.tx.rnr_retries = 0;
  completer_.retire(qp);
  if (has_work(qp)) engine_.schedule.want_send(qp);
}

bool DirectRequester::find_numbered(QueuePair& qp, uint32_t number, uint64_t& place) const noexcept {
  DirectQp& direct = direct_of(qp);
  const uint64_t end = std::min(qp.sq.started + 1, qp.sq.rung);
  for (place = qp.sq.done; place < end; ++place) {
    const DirectMessage& message = direct.message(place);
    if (qp.sq.at(place).started && message.numbered && !message.answered && message.number == number)
      return true;
  }
  return false;
}

void DirectRequester::take_response(QueuePair& qp, const WindowRecord& record,
                                    std::span<const std::byte> data) noexcept {
  DirectQp& direct = direct_of(qp);
  uint64_t place = 0;
  if (!qp.abilities().finish_send || !find_numbered(qp, record.number, place)) return;
  DirectMessage& message = direct.message(place);
  const SendWqe& wqe = qp.sq.at(place);
  if (!wqe.rule->is_read() || record.total != wqe.length || record.offset != message.arrived) {
    qp.counters.add(QpCounter::kProtocolViolations);
    return fail(qp, place, {Reason::kPeerBadResponse});
  }
  uint64_t value = 0;
  if (wqe.rule->is_atomic() && data.size() == kFetchOperandBytes) {
    value = load_be<uint64_t>(data.data());
    data = std::as_bytes(std::span(&value, 1));
  }
  const AccessFault fault =
      writer_.scatter(qp.config.pd, {qp.sq.sges(place), wqe.sge_count}, record.offset, data);
  if (fault != AccessFault::kNone) {
    const Sge* segment = writer_.find_bad_segment(qp, place, AccessKind::kLocalWrite);
    return fail(qp, place, {local_reason(fault), segment});
  }
  message.arrived += static_cast<uint32_t>(data.size());
  if (record.has(kRecordLast)) answer(qp, place);
  made_progress(qp);
}

void DirectRequester::take_nak(QueuePair& qp, const WindowRecord& record) noexcept {
  DirectQp& direct = direct_of(qp);
  qp.counters.add(QpCounter::kNaksReceived);
  uint64_t place = 0;
  if (!qp.abilities().finish_send || record.code == 0 || record.code >= static_cast<uint8_t>(AckCode::kCount))
    return;
  if (!find_numbered(qp, record.number, place)) return;
  const auto code = static_cast<AckCode>(record.code);
  const NakRule& rule = nak_rule(code);
  if (code != AckCode::kReceiverNotReady) return fail(qp, place, {rule.reason});
  qp.counters.add(QpCounter::kRnrNaksReceived);
  if (qp.attr.rnr_retry != kRnrForEver && qp.tx.rnr_retries++ >= qp.attr.rnr_retry)
    return fail(qp, place, {rule.reason});
  // The peer drops what comes until this message comes again.
  qp.tx.progress_at = qp.tx.rnr_until = engine_.now + rnr_delay(record.timer);
  const uint64_t end = std::min(qp.sq.started + 1, qp.sq.rung);
  for (uint64_t again = place; again < end; ++again) {
    DirectMessage& message = direct.message(again);
    SendWqe& wqe = qp.sq.at(again);
    if (!wqe.started || !message.numbered || wqe.done) continue;
    message.posted = false;
    if (!message.moved) wqe.cut = 0;
  }
  direct.next = std::min(direct.next, place);
  engine_.timers.arm(qp, qp.tx.rnr_until);
}

bool DirectRequester::place_from(const QueuePair& qp, uint32_t low, uint64_t& place) noexcept {
  const SendQueue& sq = qp.sq;
  place = sq.done + (low - static_cast<uint32_t>(sq.done));
  return place <= sq.started && place < sq.rung && sq.at(place).started;
}

void DirectRequester::record_lost(QueuePair& qp, uint32_t low) noexcept {
  uint64_t place = 0;
  if (qp.abilities().finish_send && place_from(qp, low, place) && !qp.sq.at(place).done)
    fail(qp, place, {Reason::kWindowFailed});
}

/// Fails the oldest request that needs its peer. Requests before it that need none are executed first. One
/// that has not started may have a fault of its own, and then its peer is not the cause.
void DirectRequester::fail_waiting(QueuePair& qp, const SendFault& fault) noexcept {
  for (uint64_t place = qp.sq.done; place < qp.sq.rung; ++place) {
    SendWqe& wqe = qp.sq.at(place);
    if (wqe.done) continue;
    if (!wqe.rule->moves_data()) return;
    if (!wqe.started && fails_by_itself(qp, wqe)) return;
    wqe.started = true;
    return fail(qp, place, fault);
  }
}

void DirectRequester::window_ended(QueuePair& qp) noexcept {
  if (qp.abilities().finish_send) fail_waiting(qp, {Reason::kPeerWentSilent});
}

void DirectRequester::cut_changed(QueuePair& qp) noexcept {
  const DirectQp& direct = direct_of(qp);
  qp.tx.retransmit_at = kNever;
  qp.tx.progress_at = engine_.now;
  if (direct.unanswered != 0 || direct.accesses != 0 || has_work(qp)) arm_silence(qp);
}

void DirectRequester::fail(QueuePair& qp, uint64_t place, const SendFault& fault) noexcept {
  completer_.fail_wqe(qp, qp.sq.at(place), fault);
  qp.tx.halted = true;
  qp.sq.started = place + 1;
  direct_of(qp).next = std::min(direct_of(qp).next, qp.sq.started);  // earlier ones may have to go again
  completer_.retire(qp);
}

}  // namespace weft::adapter
