// How it works: a pair is connected out of band when both adapters exist. Each side keeps its send queue as
// busy as the plan says and its receive queue filled. Completions are compared with the posted requests. When
// a node dies or a QP fails, both ends are flushed (every WQE must come back exactly once), and the pair is
// connected again. Messages of an acknowledged pair may be missing only if its connection died; those of an
// unacknowledged pair also if links were faulty.
#include "sim/raw/raw_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace weft::sim {
namespace {

using namespace std::chrono_literals;

constexpr Duration kReconnectDelay = 1ms;
constexpr Duration kFlushTime = 100ms;
/// Longest outage that a connection must survive: less than retry_count timeouts of 20 ms.
constexpr Duration kPatience = 100ms;
/// An unacknowledged message that has not arrived after this time is lost.
constexpr Duration kDatagramLife = 50ms;
constexpr Duration kLateWrites = 1s;

}  // namespace

RawPair::RawPair(const RawPairPlan& plan, const WorldParts& parts, RawNode& first, RawNode& second)
    : plan_(plan),
      world_(parts.plan),
      nodes_{&first, &second},
      ledger_(parts.ledger),
      counter_check_(parts.counter_check),
      trace_(parts.trace),
      random_(parts.random),
      saboteur_(parts.saboteur) {
  const bool cells_faulty =
      std::any_of(world_.faults.begin(), world_.faults.end(),
                  [](const FaultWindow& window) { return window.layer == FaultLayer::kCell; });
  for (uint32_t side = 0; side < 2; ++side) {
    FlowEnds ends;
    ends.loose = plan.type == adapter::QpType::kUd && cells_faulty;
    ends.name = fmt::format("{} node {} -> {}", type_name(plan.type), plan.nodes[side], plan.nodes[1 - side]);
    flows_[side] = ledger_.add_flow(ends);
  }
}

void RawPair::violation(Instant now, const std::string& text) {
  ledger_.violation(now, fmt::format("{}: {}", ledger_.name(flows_[0]), text));
}

uint32_t RawPair::step(uint32_t polled, Instant now) {
  const uint32_t mine = 1U << plan_.nodes[0] | 1U << plan_.nodes[1];
  if ((polled & mine) == 0 && now < wake_at_ && !look_again_) return 0;
  look_again_ = false;
  wake_at_ = kNever;
  int work = 0;
  for (uint32_t side = 0; side < 2; ++side) work += take_completions(side, now);
  switch (state_) {
    case State::kDown:
      work += connect(now);
      break;
    case State::kUp:
      for (uint32_t side = 0; side < 2; ++side) {
        work += work_on_windows(side, now);
        work += work_on_send_queue(side, now);
        work += send_more(side, now);
      }
      break;
    case State::kFlushing:
      work += finish_flush(now);
      break;
  }
  return work != 0 ? mine : 0;
}

int RawPair::connect(Instant now) {
  if (nodes_[0]->adapter == nullptr || nodes_[1]->adapter == nullptr || frozen()) return 0;
  if (now < connect_at_) {
    wake(connect_at_);
    return 0;
  }
  for (RawNode* node : nodes_) {
    if (node->adapter->ports().up(node->port)) continue;  // the LID is known only while the port is up
    connect_at_ = now + kReconnectDelay;
    wake(connect_at_);
    return 0;
  }
  for (uint32_t side = 0; side < 2; ++side) {
    ends_[side] = std::make_unique<RawEnd>(plan_, *nodes_[side], random_);
    if (!ends_[side]->create()) violation(now, "create_qp refused");
  }
  for (uint32_t side = 0; side < 2; ++side) {
    if (!ends_[side]->connect(*ends_[1 - side])) violation(now, "modify_qp refused");
    for (uint32_t i = 0; i < plan_.recv_wqes; ++i) ends_[side]->want_receive(now);
  }
  error_has_reason_ = false;
  connected_at_ = now;
  state_ = State::kUp;
  return 1;
}

// ---- completions

int RawPair::take_completions(uint32_t side, Instant now) {
  if (ends_[side] == nullptr || !ends_[side]->alive() || nodes_[side]->frozen) return 0;
  RawEnd& end = *ends_[side];
  std::array<adapter::WorkCompletion, 16> wcs;
  uint32_t count = end.poll_sends(wcs);
  sends_polled_[side] = count < wcs.size();
  if (saboteur_ != nullptr) count = saboteur_->on_completions(true, wcs, count);
  int work = static_cast<int>(count);
  for (uint32_t i = 0; i < count; ++i) take_send_completion(side, wcs[i], now);
  count = end.poll_receives(wcs);
  if (saboteur_ != nullptr) count = saboteur_->on_completions(false, wcs, count);
  work += static_cast<int>(count);
  for (uint32_t i = 0; i < count; ++i) take_receive_completion(side, wcs[i], now);
  if (count < wcs.size()) end.close_slots();
  if (state_ == State::kUp) work += end.post_receives(now);
  if (end.next_receive_due() != kNever) wake(std::max(end.next_receive_due(), now + 1us));
  return work;
}

void RawPair::take_send_completion(uint32_t side, const adapter::WorkCompletion& wc, Instant now) {
  RawEnd& end = *ends_[side];
  trace_.event(now, TraceKind::kCompletion, flows_[side], wc.wr_id,
               static_cast<uint64_t>(wc.status) << 8 | static_cast<uint64_t>(wc.opcode));
  const auto done = end.finish_send(wc.wr_id);
  if (!done) return violation(now, fmt::format("send completion {} is not the one that was next", wc.wr_id));
  if (end.send_queue() == RawEnd::SendQueue::kDrained && wc.status == adapter::WcStatus::kSuccess)
    violation(now, fmt::format("send {} completed after its queue was drained", wc.wr_id));
  if (wc.status != adapter::WcStatus::kSuccess) return take_failed_send(side, *done, wc, now);
  last_move_[side] = now;
  if (done->kind == RawEnd::Kind::kBind || done->kind == RawEnd::Kind::kUnbind)
    return end.window_changed(*done);
  if (done->kind != RawEnd::Kind::kRead || ends_[1 - side] == nullptr) return;
  const std::byte* expected = ends_[1 - side]->source_memory().data() + done->source_offset;
  if (std::memcmp(end.send_slot(wc.wr_id).data(), expected, done->bytes) != 0)
    violation(now, "RDMA read: wrong data");
}

void RawPair::take_receive_completion(uint32_t side, const adapter::WorkCompletion& wc, Instant now) {
  RawEnd& end = *ends_[side];
  trace_.event(now, TraceKind::kCompletion, flows_[1 - side] | 0x100, wc.wr_id,
               static_cast<uint64_t>(wc.status) << 8 | static_cast<uint64_t>(wc.opcode));
  const bool used_wqe = wc.opcode != adapter::WcOpcode::kRdataIndicate;
  if (used_wqe && !end.finish_receive(wc.wr_id)) {
    return violation(now, fmt::format("receive completion {} is not the one that was next", wc.wr_id));
  }
  if (wc.status != adapter::WcStatus::kSuccess) return broke("a receive WQE failed", wc.status, now);
  last_move_[1 - side] = now;
  if (wc.opcode != adapter::WcOpcode::kRecv) {
    take_written(side, wc, now);
  } else if ((wc.flags & adapter::kWcWithImm) != 0) {
    take_returned(side, wc, now);
  } else if (wc.byte_count < kVnetBytes || wc.byte_count > plan_.bytes_max) {
    violation(now, fmt::format("a Send of {} bytes arrived", wc.byte_count));
  } else {
    ledger_.arrive(flows_[1 - side], now,
                   end.receive_slot(wc.wr_id).subspan(kVnetBytes, wc.byte_count - kVnetBytes));
  }
  if (used_wqe) end.want_receive(now + plan_.receiver_pause);
}

/// An RDMA write with idata has arrived.
void RawPair::take_written(uint32_t side, const adapter::WorkCompletion& wc, Instant now) {
  RawEnd& end = *ends_[side];
  const uint64_t offset = wc.written_va - end.window().addr;
  const bool inside =
      offset < end.window_memory().size() && wc.byte_count >= kVnetBytes && wc.byte_count <= plan_.bytes_max;
  if (!inside) return violation(now, fmt::format("idata for {} bytes at offset {:x}", wc.byte_count, offset));
  if (wc.imm != offset / plan_.bytes_max) violation(now, "idata names another slot than was written");
  ledger_.arrive(flows_[1 - side], now,
                 end.window_memory().subspan(offset + kVnetBytes, wc.byte_count - kVnetBytes));
  if (!end.slot_written(static_cast<uint32_t>(wc.imm)))
    violation(now, fmt::format("a write into slot {} completed after its key was unbound", wc.imm));
}

void RawPair::broke(std::string_view what, adapter::WcStatus status, Instant now) {
  if (state_ == State::kFlushing) return;
  const Duration hindered = world_.hindered(plan_.nodes[0], plan_.nodes[1], connected_at_, now);
  if (!error_has_reason_ && hindered < kPatience)
    violation(now, fmt::format("{}: {}", what, to_string(status)));
  fail(now);
}

// ---- traffic

int RawPair::send_more(uint32_t side, Instant now) {
  if (state_ != State::kUp || nodes_[side]->frozen) return 0;  // the other side may have failed in this step
  const bool planned = sent_[side] < plan_.messages[side];
  if (stopped_ || (!planned && !trickle_) || plan_.messages[side] == 0) {
    excuse_unacknowledged(now);
    return 0;
  }
  if (now < next_at_[side]) {
    wake(next_at_[side]);
    return 0;
  }
  excuse_unacknowledged(now);
  if (!post_something(side, now)) return 0;
  const Duration pause = planned ? plan_.gap : ledger_.trickle_gap();
  next_at_[side] =
      now + Duration(static_cast<int64_t>(random_.below(2 * static_cast<uint64_t>(pause.count()) + 1)));
  wake(next_at_[side]);
  return 1;
}

bool RawPair::post_something(uint32_t side, Instant now) {
  const RawEnd& to = *ends_[1 - side];
  // After a read, the slot after the next is still in use for the data that is sent back.
  const uint32_t room = plan_.send_wqes - (plan_.verbs.fenced ? 2 : 0);
  if (ends_[side]->sends().size() >= room || ends_[side]->send_queue() != RawEnd::SendQueue::kRuns)
    return false;
  bool write = plan_.one_sided && random_.below(3) == 0;
  const bool reads = plan_.one_sided && plan_.type == adapter::QpType::kRc;
  if (reads && random_.below(6) == 0) return post_read(side, now);
  if (write && !to.has_free_slot()) {
    if (adapter::is_acknowledged(plan_.type)) return false;
    write = false;  // slots of lost writes are reclaimed late
  }
  // Without acknowledgements no RNR NAK makes the sender wait, so the sender checks that a receive WQE is
  // posted.
  if (!adapter::is_acknowledged(plan_.type) && to.receives_posted() <= ledger_.outstanding(flows_[side]))
    return false;
  return post_message(side, write, now);
}

bool RawPair::post_message(uint32_t side, bool write, Instant now) {
  RawEnd& from = *ends_[side];
  RawEnd& to = *ends_[1 - side];
  const bool planned = sent_[side] < plan_.messages[side];
  const uint32_t most = planned ? plan_.bytes_max : trickle_bytes(sent_[side], plan_.bytes_max);
  const auto bytes = static_cast<uint32_t>(plan_.bytes_min + random_.below(most - plan_.bytes_min + 1));
  const uint64_t wr_id = from.next_wr_id();
  adapter::SendRequest request;
  request.opcode = write ? adapter::SendOpcode::kRdmaWriteWithImm : adapter::SendOpcode::kSend;
  if (write) {
    request.imm = to.next_slot();
    request.remote_addr = to.window().addr + uint64_t{request.imm} * plan_.bytes_max;
    request.rkey = to.slot_key(request.imm);
  }
  if (!adapter::is_connected(plan_.type)) request.dest = to.address(plan_.sl);
  const uint64_t frame = ledger_.send(flows_[side], now, bytes - kVnetBytes, false, from.send_slot(wr_id));
  const bool copied = plan_.verbs.inline_data && bytes <= kRawInlineBytes && random_.below(2) == 0;
  if (copied) request.flags |= adapter::kSendInline;
  if (plan_.verbs.takes_memory && !copied && random_.below(8) == 0) static_cast<void>(from.lend_memory());
  const auto kind = write ? RawEnd::Kind::kWrite : RawEnd::Kind::kSend;
  const adapter::PostResult result = from.post(request, {.kind = kind, .bytes = bytes, .frame = frame});
  if (result != adapter::PostResult::kOk) {
    ledger_.excuse(flows_[side], now);
    // The adapter may have moved the QP to the error state before its completion was polled.
    if (result != adapter::PostResult::kBadState)
      violation(now, fmt::format("post_send: {}", to_string(result)));
    return false;
  }
  if (write) to.take_slot();
  // Inline data: the memory is the sender's again.
  if (copied) std::fill_n(from.send_slot(wr_id).begin(), bytes, std::byte{0xEE});
  trace_.event(now, TraceKind::kWorkPosted, flows_[side], wr_id, static_cast<uint64_t>(request.opcode));
  last_move_[side] = now;
  ++sent_[side];
  return true;
}

bool RawPair::post_read(uint32_t side, Instant now) {
  RawEnd& from = *ends_[side];
  const RawEnd& to = *ends_[1 - side];
  const auto bytes = static_cast<uint32_t>(1 + random_.below(std::min(plan_.bytes_max, kRawSourceBytes)));
  const auto source_offset = static_cast<uint32_t>(random_.below(kRawSourceBytes - bytes + 1));
  const uint64_t wr_id = from.next_wr_id();
  adapter::SendRequest request;
  request.opcode = adapter::SendOpcode::kRdmaRead;
  request.remote_addr = to.source().addr + source_offset;
  request.rkey = to.source().rkey;
  if (plan_.verbs.fenced) std::fill_n(from.send_slot(wr_id).begin(), bytes, std::byte{0xEE});
  const RawEnd::Outstanding what{.kind = RawEnd::Kind::kRead, .bytes = bytes, .source_offset = source_offset};
  if (from.post(request, what) != adapter::PostResult::kOk) return false;
  trace_.event(now, TraceKind::kWorkPosted, 0x200, wr_id, source_offset);
  if (plan_.verbs.fenced) post_returned(side, bytes, source_offset, now);
  return true;
}

void RawPair::excuse_unacknowledged(Instant now) {
  const bool faulty = !world_.faultless();
  if (adapter::is_acknowledged(plan_.type) || !faulty) return;
  for (uint32_t side = 0; side < 2; ++side) {
    if (ledger_.outstanding(flows_[side]) == 0) continue;
    if (now - last_move_[side] >= kDatagramLife) {
      ledger_.excuse(flows_[side], now);
      // Writes that a frozen node or a dead direction holds back may still arrive.
      const bool none_late = now >= world_.faults_end() + kLateWrites;
      if (none_late && ends_[1 - side] != nullptr && ends_[1 - side]->alive())
        ends_[1 - side]->reclaim_slots();
    } else {
      wake(last_move_[side] + kDatagramLife);
    }
  }
}

void RawPair::trickle() noexcept {
  trickle_ = true;
  look_again_ = true;
}

void RawPair::stop() noexcept {
  stopped_ = true;
  look_again_ = true;
}

// ---- failure

void RawPair::node_crashed(uint32_t node, Instant now) {
  for (uint32_t side = 0; side < 2; ++side) {
    if (plan_.nodes[side] != node) continue;
    if (ends_[side] != nullptr) ends_[side]->abandon();
    if (state_ == State::kUp) fail(now);
    look_again_ = true;
  }
}

void RawPair::check_counters(uint32_t node, Instant now) {
  for (uint32_t side = 0; side < 2; ++side) {
    if (plan_.nodes[side] == node) check_end(side, now);
  }
}

void RawPair::check_end(uint32_t side, Instant now) {
  if (ends_[side] == nullptr || !ends_[side]->alive()) return;
  counter_check_.check(fmt::format("node {}, {},", plan_.nodes[side], ledger_.name(flows_[side])),
                       ends_[side]->counters(), now);
  if (!ends_[side]->closed_slots_untouched())
    violation(now, "data was placed after the key of its window was unbound");
}

void RawPair::link_reset(uint32_t link, bool switch_death) {
  if (!world_.fabric.on_path(link, plan_.nodes[0], plan_.nodes[1])) return;
  // The death of a switch is no reason for a connection to die: timers stop while the port is down (decisions
  // 2.12).
  if (!switch_death) error_has_reason_ = true;
}

void RawPair::freeze_changed(Instant now) noexcept {
  look_again_ = true;
  flush_limit_ = now + kFlushTime;
}

void RawPair::fail(Instant now) {
  for (uint32_t flow : flows_) ledger_.excuse(flow, now);
  for (auto& end : ends_) {
    if (end != nullptr && end->alive()) end->fail();
  }
  state_ = State::kFlushing;
  flush_limit_ = now + kFlushTime;
}

int RawPair::finish_flush(Instant now) {
  if (frozen()) return 0;
  for (const auto& end : ends_) {
    if (!end->alive() || end->flushed()) continue;
    if (now < flush_limit_) {
      wake(flush_limit_);
      return 0;
    }
    violation(now, fmt::format("{} sends and {} receives never completed", end->sends().size(),
                               end->receives_posted()));
  }
  for (uint32_t side = 0; side < 2; ++side) {
    check_end(side, now);
    ends_[side]->destroy();
    ends_[side].reset();
  }
  state_ = State::kDown;
  connect_at_ = now + kReconnectDelay;
  wake(connect_at_);
  return 1;
}

// ---- state

bool RawPair::finished() const noexcept {
  return sent_[0] >= plan_.messages[0] && sent_[1] >= plan_.messages[1];
}

bool RawPair::recovered(Instant since) const {
  for (uint32_t side = 0; side < 2; ++side) {
    if (plan_.messages[side] != 0 && !ledger_.passed_since(flows_[side], since)) return false;
  }
  return true;
}

bool RawPair::drained() const noexcept {
  if (state_ == State::kFlushing) return false;
  for (uint32_t side = 0; side < 2; ++side) {
    if (ledger_.outstanding(flows_[side]) != 0) return false;
    if (ends_[side] != nullptr && !ends_[side]->sends().empty()) return false;
  }
  return true;
}

}  // namespace weft::sim
