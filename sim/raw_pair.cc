// How it works: a pair is connected out of band as soon as both adapters live. Each side keeps its send
// queue busy as the plan says and its receive queue filled; completions are matched against what was
// posted. When a node dies or a QP fails, both ends are flushed -- every WQE must come back, once -- and
// the pair is connected anew. Messages of an acknowledged pair may be missing only if its connection died;
// those of an unacknowledged one also when the links were faulty.
#include "sim/raw_pair.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace weft::sim {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kWindowSlots = 8;
constexpr uint32_t kSourceBytes = 16'384;
constexpr uint32_t kQkey = 0x1234;
constexpr Duration kReconnectDelay = 1ms;
constexpr Duration kFlushTime = 100ms;
constexpr Duration kTrickleGap = 20ms;
/// An unacknowledged message that has not come after this long never will.
constexpr Duration kDatagramLife = 50ms;

uint64_t random_base(RandomSource& random) {
  return 0x1000'0000'0000ULL + (random.next() & 0x3FFF'FFFF'F000ULL);
}

}  // namespace

// ---- RawEnd

RawEnd::RawEnd(const RawPairPlan& plan, RawNode& node, RandomSource& random)
    : plan_(plan),
      node_(node),
      random_(random),
      send_memory_(size_t{plan.send_wqes} * plan.bytes_max),
      receive_memory_(size_t{plan.recv_wqes} * plan.bytes_max),
      window_memory_(size_t{kWindowSlots} * plan.bytes_max),
      source_memory_(kSourceBytes),
      free_slots_(kWindowSlots) {
  random_.fill(source_memory_);
}

bool RawEnd::create() {
  ChannelAdapter& adapter = *node_.adapter;
  const auto reg = [&](std::span<std::byte> memory, Access access) {
    // A random base: no address of this process is on the wire, so a run is the same everywhere.
    return adapter.memory().reg_mr(node_.pd, memory, access, {.base_addr = random_base(random_)}).value();
  };
  send_mr_ = reg(send_memory_, Access::kLocalWrite);
  receive_mr_ = reg(receive_memory_, Access::kLocalWrite);
  window_mr_ = reg(window_memory_, Access::kLocalWrite | Access::kRemoteWrite);
  source_mr_ = reg(source_memory_, Access::kRemoteRead);
  send_cq_ = adapter.create_cq(plan_.send_wqes + 1).value();
  recv_cq_ = adapter.create_cq(plan_.recv_wqes + kWindowSlots + 1).value();
  QpConfig config;
  config.type = plan_.type;
  config.pd = node_.pd;
  config.send_cq = send_cq_;
  config.recv_cq = recv_cq_;
  config.send_wqes = plan_.send_wqes;
  config.recv_wqes = plan_.recv_wqes;
  config.ack_mode = plan_.ack_mode;
  config.idata_takes_recv_wqe = plan_.idata_takes_recv_wqe;
  config.packet_crc = plan_.packet_crc;
  config.packet_bytes = plan_.packet_bytes;
  auto made = adapter.create_qp(config);
  if (!made.ok()) return false;
  qp_ = made.value();
  first_psn_ = Psn(static_cast<uint32_t>(random_.next()));
  return true;
}

bool RawEnd::connect(const RawEnd& peer, Lid peer_lid) {
  QpAttr attr;
  attr.state = QpState::kInit;
  attr.access = Access::kRemoteRead | Access::kRemoteWrite;
  attr.qkey = kQkey;
  const bool connected = is_connected(plan_.type);
  uint32_t mask = kQpAttrState | kQpAttrPort | kQpAttrPkeyIndex | (connected ? kQpAttrAccess : kQpAttrQkey);
  ChannelAdapter& adapter = *node_.adapter;
  if (adapter.modify_qp(*qp_, attr, mask) != ModifyResult::kOk) return false;
  attr.state = QpState::kRtr;
  attr.dlid = peer_lid;
  attr.sl = plan_.sl;
  attr.dest_qpn = peer.node_.adapter->qpn(*peer.qp_);
  attr.rq_psn = peer.first_psn_;
  mask = kQpAttrState;
  if (connected) mask |= kQpAttrAddress | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn;
  if (plan_.type == QpType::kRc) mask |= kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;
  if (adapter.modify_qp(*qp_, attr, mask) != ModifyResult::kOk) return false;
  attr.state = QpState::kRts;
  attr.sq_psn = first_psn_;
  mask = kQpAttrState | kQpAttrSqPsn;
  if (plan_.type == QpType::kRc)
    mask |= kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrMaxRdAtomic;
  return adapter.modify_qp(*qp_, attr, mask) == ModifyResult::kOk;
}

std::span<std::byte> RawEnd::send_slot(uint64_t wr_id) noexcept {
  return std::span(send_memory_).subspan(wr_id % plan_.send_wqes * plan_.bytes_max, plan_.bytes_max);
}

std::span<std::byte> RawEnd::receive_slot(uint64_t wr_id) noexcept {
  return std::span(receive_memory_).subspan(wr_id % plan_.recv_wqes * plan_.bytes_max, plan_.bytes_max);
}

bool RawEnd::post_one_receive() {
  const uint64_t offset = next_receive_ % plan_.recv_wqes * plan_.bytes_max;
  const Sge sge{receive_mr_.addr + offset, plan_.bytes_max, receive_mr_.lkey};
  if (node_.adapter->post_recv(*qp_, {next_receive_, {&sge, 1}}) != PostResult::kOk) return false;
  receives_.push_back(next_receive_++);
  return true;
}

void RawEnd::fill_receive_queue(Instant now) {
  for (uint32_t i = 0; i < plan_.recv_wqes; ++i) receives_due_.push_back(now);
}

void RawEnd::fail() {
  QpAttr attr;
  attr.state = QpState::kErr;
  static_cast<void>(node_.adapter->modify_qp(*qp_, attr, kQpAttrState));
  receives_due_.clear();
}

bool RawEnd::flushed() const noexcept {
  return sends_.empty() && receives_.empty();
}

void RawEnd::destroy() {
  if (qp_ == nullptr) return;
  ChannelAdapter& adapter = *node_.adapter;
  static_cast<void>(adapter.destroy_qp(qp_));
  static_cast<void>(adapter.destroy_cq(send_cq_));
  static_cast<void>(adapter.destroy_cq(recv_cq_));
  for (const MemoryRegion& region : {send_mr_, receive_mr_, window_mr_, source_mr_}) {
    static_cast<void>(adapter.memory().dereg_mr(region.lkey));
  }
  qp_ = nullptr;
}

// ---- RawPair

RawPair::RawPair(const RawPairPlan& plan, const WorldPlan& world, RawNode& first, RawNode& second,
                 FlowLedger& ledger, Trace& trace, RandomSource& random)
    : plan_(plan), world_(world), nodes_{&first, &second}, ledger_(ledger), trace_(trace), random_(random) {
  const bool cells_faulty =
      std::any_of(world.faults.begin(), world.faults.end(),
                  [](const FaultWindow& window) { return window.layer == FaultLayer::kCell; });
  for (uint32_t side = 0; side < 2; ++side) {
    FlowEnds ends;
    ends.loose = plan.type == QpType::kUd && cells_faulty;
    ends.name = fmt::format("qp {} node {} -> {}", static_cast<int>(plan.type), plan.nodes[side],
                            plan.nodes[1 - side]);
    flows_[side] = ledger.add_flow(ends);
  }
}

void RawPair::complain(Instant now, const std::string& text) {
  ledger_.violation(now, fmt::format("{}: {}", ledger_.name(flows_[0]), text));
}

int RawPair::step(Instant now) {
  wake_at_ = kNever;
  int work = 0;
  for (uint32_t side = 0; side < 2; ++side) work += take_completions(side, now);
  switch (state_) {
    case State::kDown:
      work += connect(now);
      break;
    case State::kUp:
      for (uint32_t side = 0; side < 2; ++side) work += send_more(side, now);
      break;
    case State::kFlushing:
      work += finish_flush(now);
      break;
  }
  return work;
}

int RawPair::connect(Instant now) {
  if (nodes_[0]->adapter == nullptr || nodes_[1]->adapter == nullptr) return 0;
  if (now < connect_at_) {
    wake(connect_at_);
    return 0;
  }
  for (uint32_t side = 0; side < 2; ++side) {
    if (!nodes_[side]->adapter->port_up(1)) {  // an address is known only while the port is up
      connect_at_ = now + kReconnectDelay;
      wake(connect_at_);
      return 0;
    }
  }
  for (uint32_t side = 0; side < 2; ++side) {
    ends_[side] = std::make_unique<RawEnd>(plan_, *nodes_[side], random_);
    if (!ends_[side]->create()) complain(now, "create_qp refused");
  }
  for (uint32_t side = 0; side < 2; ++side) {
    if (!ends_[side]->connect(*ends_[1 - side], nodes_[1 - side]->lid)) complain(now, "modify_qp refused");
    ends_[side]->fill_receive_queue(now);
  }
  error_has_reason_ = false;
  state_ = State::kUp;
  return 1;
}

int RawPair::take_completions(uint32_t side, Instant now) {
  if (ends_[side] == nullptr || !ends_[side]->alive()) return 0;
  RawEnd& end = *ends_[side];
  ChannelAdapter& adapter = *end.node_.adapter;
  std::array<WorkCompletion, 16> wcs;
  uint32_t count = adapter.poll_cq(*end.send_cq_, wcs);
  int work = static_cast<int>(count);
  for (uint32_t i = 0; i < count; ++i) take_send_completion(side, wcs[i], now);
  count = adapter.poll_cq(*end.recv_cq_, wcs);
  work += static_cast<int>(count);
  for (uint32_t i = 0; i < count; ++i) take_receive_completion(side, wcs[i], now);
  while (!end.receives_due_.empty() && end.receives_due_.front() <= now && state_ == State::kUp) {
    if (!end.post_one_receive()) break;
    end.receives_due_.pop_front();
    ++work;
  }
  if (!end.receives_due_.empty()) wake(std::max(end.receives_due_.front(), now + 1us));
  return work;
}

void RawPair::take_send_completion(uint32_t side, const WorkCompletion& wc, Instant now) {
  RawEnd& end = *ends_[side];
  trace_.event(now, TraceKind::kCompletion, flows_[side], wc.wr_id,
               static_cast<uint64_t>(wc.status) << 8 | static_cast<uint64_t>(wc.opcode));
  if (end.sends_.empty() || end.sends_.front().wr_id != wc.wr_id) {
    return complain(now,
                    fmt::format("send completion {} but {} was next", wc.wr_id,
                                end.sends_.empty() ? -1 : static_cast<int64_t>(end.sends_.front().wr_id)));
  }
  const RawEnd::Outstanding done = end.sends_.front();
  end.sends_.pop_front();
  if (wc.status == WcStatus::kSuccess) {
    last_move_[side] = now;
    if (done.kind != RawEnd::Kind::kRead || ends_[1 - side] == nullptr) return;
    const std::byte* expected = ends_[1 - side]->source_memory_.data() + done.source_offset;
    if (std::memcmp(end.send_slot(wc.wr_id).data(), expected, done.bytes) != 0)
      complain(now, "RDMA read: wrong data");
    return;
  }
  if (state_ == State::kFlushing) return;
  if (!error_has_reason_) complain(now, fmt::format("a work request failed: {}", to_string(wc.status)));
  fail(now);
}

void RawPair::take_receive_completion(uint32_t side, const WorkCompletion& wc, Instant now) {
  RawEnd& end = *ends_[side];
  trace_.event(now, TraceKind::kCompletion, flows_[1 - side] | 0x100, wc.wr_id,
               static_cast<uint64_t>(wc.status) << 8 | static_cast<uint64_t>(wc.opcode));
  const bool used_wqe = wc.opcode != WcOpcode::kRdataIndicate;
  if (used_wqe) {
    if (end.receives_.empty() || end.receives_.front() != wc.wr_id) {
      return complain(now, fmt::format("receive completion {} is not the one that was next", wc.wr_id));
    }
    end.receives_.pop_front();
  }
  if (wc.status != WcStatus::kSuccess) {
    if (state_ == State::kFlushing) return;
    if (!error_has_reason_) complain(now, fmt::format("a receive WQE failed: {}", to_string(wc.status)));
    return fail(now);
  }
  last_move_[1 - side] = now;
  if (wc.opcode == WcOpcode::kRecv) {
    ledger_.arrive(flows_[1 - side], now,
                   end.receive_slot(wc.wr_id).subspan(kVnetBytes, wc.byte_count - kVnetBytes));
  } else {
    const uint64_t offset = wc.written_va - end.window_mr_.addr;
    if (offset >= end.window_memory_.size() || wc.byte_count > plan_.bytes_max ||
        wc.byte_count < kVnetBytes) {
      return complain(now, fmt::format("idata for {} bytes at offset {:x}", wc.byte_count, offset));
    }
    if (wc.imm != offset / plan_.bytes_max) complain(now, "idata names another slot than was written");
    ledger_.arrive(flows_[1 - side], now,
                   std::span(end.window_memory_).subspan(offset + kVnetBytes, wc.byte_count - kVnetBytes));
    ++end.free_slots_;
  }
  if (used_wqe) end.receives_due_.push_back(now + plan_.receiver_pause);
}

int RawPair::send_more(uint32_t side, Instant now) {
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
  if (!post(side, now)) return 0;
  const Duration pause = planned ? plan_.gap : kTrickleGap;
  next_at_[side] =
      now + Duration(static_cast<int64_t>(random_.below(2 * static_cast<uint64_t>(pause.count()) + 1)));
  return 1;
}

bool RawPair::post(uint32_t side, Instant now) {
  RawEnd& from = *ends_[side];
  RawEnd& to = *ends_[1 - side];
  if (from.sends_outstanding() >= plan_.send_wqes) return false;
  const bool write = plan_.one_sided && random_.below(3) == 0;
  if (plan_.one_sided && random_.below(6) == 0) return post_read(from, to, now);
  if (write && to.free_slots_ == 0) return false;
  // Without acknowledgement nobody tells the sender to wait: it must know that a receive WQE is there.
  if (!is_acknowledged(plan_.type) && to.receives_posted() <= ledger_.outstanding(flows_[side])) return false;
  const auto bytes =
      static_cast<uint32_t>(plan_.bytes_min + random_.below(plan_.bytes_max - plan_.bytes_min + 1));
  const uint64_t wr_id = from.next_send_;
  const uint64_t offset = wr_id % plan_.send_wqes * plan_.bytes_max;
  const Sge sge{from.send_mr_.addr + offset, bytes, from.send_mr_.lkey};
  SendRequest request;
  request.wr_id = wr_id;
  request.sges = {&sge, 1};
  request.opcode = write ? SendOpcode::kRdmaWriteWithImm : SendOpcode::kSend;
  if (write) {
    request.imm = from.next_slot_;
    request.remote_addr = to.window_mr_.addr + uint64_t{from.next_slot_} * plan_.bytes_max;
    request.rkey = to.window_mr_.rkey;
  }
  if (!is_connected(plan_.type)) {
    request.dest = {nodes_[1 - side]->lid, to.node_.adapter->qpn(*to.qp_), kQkey, plan_.sl};
  }
  ledger_.send(flows_[side], now, bytes - kVnetBytes, false, from.send_slot(wr_id));
  const PostResult result = from.node_.adapter->post_send(*from.qp_, request);
  if (result != PostResult::kOk) {
    ledger_.excuse(flows_[side], now);
    // The adapter may have moved the QP to its error state before its completion was polled.
    if (result != PostResult::kBadState) complain(now, fmt::format("post_send: {}", to_string(result)));
    return false;
  }
  from.sends_.push_back({from.next_send_++, write ? RawEnd::Kind::kWrite : RawEnd::Kind::kSend, bytes, 0});
  if (write) {
    --to.free_slots_;
    from.next_slot_ = (from.next_slot_ + 1) % kWindowSlots;
  }
  trace_.event(now, TraceKind::kWorkPosted, flows_[side], wr_id, static_cast<uint64_t>(request.opcode));
  last_move_[side] = now;
  ++sent_[side];
  return true;
}

bool RawPair::post_read(RawEnd& from, RawEnd& to, Instant now) {
  const auto bytes = static_cast<uint32_t>(1 + random_.below(std::min(plan_.bytes_max, kSourceBytes)));
  const auto source_offset = static_cast<uint32_t>(random_.below(kSourceBytes - bytes + 1));
  const uint64_t wr_id = from.next_send_;
  const Sge sge{from.send_mr_.addr + wr_id % plan_.send_wqes * plan_.bytes_max, bytes, from.send_mr_.lkey};
  SendRequest request;
  request.wr_id = wr_id;
  request.sges = {&sge, 1};
  request.opcode = SendOpcode::kRdmaRead;
  request.remote_addr = to.source_mr_.addr + source_offset;
  request.rkey = to.source_mr_.rkey;
  if (from.node_.adapter->post_send(*from.qp_, request) != PostResult::kOk) return false;
  trace_.event(now, TraceKind::kWorkPosted, 0x200, wr_id, source_offset);
  from.sends_.push_back({from.next_send_++, RawEnd::Kind::kRead, bytes, source_offset});
  return true;
}

void RawPair::excuse_unacknowledged(Instant now) {
  const bool faulty = !world_.faults.empty() || !world_.cuts.empty() || !world_.crashes.empty();
  if (is_acknowledged(plan_.type) || !faulty) return;
  for (uint32_t side = 0; side < 2; ++side) {
    if (ledger_.outstanding(flows_[side]) == 0) continue;
    if (now - last_move_[side] >= kDatagramLife) {
      ledger_.excuse(flows_[side], now);
    } else {
      wake(last_move_[side] + kDatagramLife);
    }
  }
}

void RawPair::node_crashed(uint32_t node, Instant now) {
  for (uint32_t side = 0; side < 2; ++side) {
    if (plan_.nodes[side] != node) continue;
    if (ends_[side] != nullptr) ends_[side]->abandon();
    if (state_ == State::kUp) fail(now);
  }
}

void RawPair::link_reset(uint32_t node, Instant /*now*/, bool switch_death) {
  if (node != plan_.nodes[0] && node != plan_.nodes[1]) return;
  // A dead switch is no reason for a connection to die: timers stop while the port is down (decisions 2.12).
  if (!switch_death) error_has_reason_ = true;
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
  for (auto& end : ends_) {
    if (!end->alive() || end->flushed()) continue;
    if (now < flush_limit_) {
      wake(flush_limit_);
      return 0;
    }
    complain(now, fmt::format("{} sends and {} receives never completed", end->sends_.size(),
                              end->receives_.size()));
  }
  for (auto& end : ends_) {
    end->destroy();
    end.reset();
  }
  state_ = State::kDown;
  connect_at_ = now + kReconnectDelay;
  wake(connect_at_);
  return 1;
}

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
    if (ends_[side] != nullptr && ends_[side]->sends_outstanding() != 0) return false;
  }
  return true;
}

}  // namespace weft::sim
