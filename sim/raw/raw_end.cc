#include "sim/raw/raw_end.h"

#include <algorithm>

#include "base/crc32c.h"

namespace weft::sim {
namespace {

constexpr uint32_t kQkey = 0x1234;

/// No address of this process appears on the wire, so that a run is the same everywhere.
uint64_t random_base(RandomSource& random) {
  return 0x1000'0000'0000ULL + (random.next() & 0x3FFF'FFFF'F000ULL);
}

}  // namespace

RawEnd::RawEnd(const RawPairPlan& plan, RawNode& node, RandomSource& random)
    : plan_(plan),
      node_(node),
      random_(random),
      send_memory_(size_t{plan.send_wqes} * plan.bytes_max),
      receive_memory_(size_t{plan.recv_wqes} * plan.bytes_max),
      window_memory_(size_t{kRawWindowSlots} * plan.bytes_max),
      source_memory_(kRawSourceBytes) {
  random_.fill(source_memory_);
  sends_.reset(plan.send_wqes);
  receives_.reset(plan.recv_wqes);
  receives_due_.reset(plan.recv_wqes + kRawWindowSlots);
}

bool RawEnd::create() {
  adapter::ChannelAdapter& adapter = *node_.adapter;
  const auto reg = [&](std::span<std::byte> memory, adapter::Access access) {
    return adapter.memory()
        .regions.reg_mr(node_.pd, memory, access, {.base_addr = random_base(random_)})
        .value();
  };
  send_mr_ = reg(send_memory_, adapter::Access::kLocalWrite);
  receive_mr_ = reg(receive_memory_, adapter::Access::kLocalWrite);
  window_mr_ =
      reg(window_memory_, adapter::Access::kLocalWrite | adapter::Access::kRemoteWrite |
                              (plan_.verbs.windows ? adapter::Access::kWindowBind : adapter::Access::kNone));
  for (Slot& slot : slots_)
    slot = {plan_.verbs.windows ? SlotState::kUnbound : SlotState::kFree, window_mr_.rkey, 0};
  source_mr_ = reg(source_memory_, adapter::Access::kRemoteRead);
  send_cq_ = adapter.cqs().create(plan_.send_wqes + 1).value();
  recv_cq_ = adapter.cqs().create(plan_.recv_wqes + kRawWindowSlots + 1).value();
  adapter::QpConfig config;
  config.type = plan_.type;
  config.pd = node_.pd;
  config.send_cq = send_cq_;
  config.recv_cq = recv_cq_;
  config.send_wqes = plan_.send_wqes;
  config.recv_wqes = plan_.recv_wqes;
  if (adapter::is_acknowledged(plan_.type)) config.ack_mode = plan_.ack_mode;
  config.idata_takes_recv_wqe = plan_.idata_takes_recv_wqe;
  config.packet_crc = plan_.packet_crc && adapter::is_connected(plan_.type);
  config.packet_bytes = plan_.packet_bytes;
  auto made = adapter.create_qp(config);
  if (!made.ok()) return false;
  qp_ = made.value();
  first_psn_ = Psn(static_cast<uint32_t>(random_.next()));
  return true;
}

bool RawEnd::connect(const RawEnd& peer) {
  adapter::QpAttr attr;
  attr.state = adapter::QpState::kInit;
  attr.access = adapter::Access::kRemoteRead | adapter::Access::kRemoteWrite;
  attr.qkey = kQkey;
  attr.port = node_.port;
  const bool connected = adapter::is_connected(plan_.type);
  const bool acknowledged = adapter::is_acknowledged(plan_.type);
  uint32_t mask = adapter::kQpAttrState | adapter::kQpAttrPort | adapter::kQpAttrPkeyIndex |
                  (connected ? adapter::kQpAttrAccess : adapter::kQpAttrQkey);
  adapter::ChannelAdapter& adapter = *node_.adapter;
  if (adapter.modify_qp(*qp_, attr, mask) != adapter::ModifyResult::kOk) return false;
  attr.state = adapter::QpState::kRtr;
  attr.dlid = peer.node_.lid;
  attr.sl = plan_.sl;
  attr.dest_qpn = peer.node_.adapter->qpn(*peer.qp_);
  attr.rq_psn = peer.first_psn_;
  mask = adapter::kQpAttrState;
  if (connected)
    mask |=
        adapter::kQpAttrAddress | adapter::kQpAttrPathMtu | adapter::kQpAttrDestQpn | adapter::kQpAttrRqPsn;
  if (acknowledged) {
    // A slow reader needs a long RNR timer; otherwise most cells of the run would be early repeats.
    attr.min_rnr_timer = std::max(attr.min_rnr_timer, plan_.receiver_pause / 2);
    mask |= adapter::kQpAttrMinRnrTimer;
  }
  if (acknowledged && connected) mask |= adapter::kQpAttrMaxDestRdAtomic;
  if (adapter.modify_qp(*qp_, attr, mask) != adapter::ModifyResult::kOk) return false;
  attr.state = adapter::QpState::kRts;
  attr.sq_psn = first_psn_;
  mask = adapter::kQpAttrState | adapter::kQpAttrSqPsn;
  if (acknowledged) mask |= adapter::kQpAttrTimeout | adapter::kQpAttrRetryCount | adapter::kQpAttrRnrRetry;
  if (acknowledged && connected) mask |= adapter::kQpAttrMaxRdAtomic;
  return adapter.modify_qp(*qp_, attr, mask) == adapter::ModifyResult::kOk;
}

void RawEnd::fail() {
  adapter::QpAttr attr;
  attr.state = adapter::QpState::kErr;
  static_cast<void>(node_.adapter->modify_qp(*qp_, attr, adapter::kQpAttrState));
  receives_due_.clear();
}

void RawEnd::destroy() {
  if (qp_ == nullptr) return;
  adapter::ChannelAdapter& adapter = *node_.adapter;
  static_cast<void>(adapter.destroy_qp(qp_));
  static_cast<void>(adapter.cqs().destroy(send_cq_));
  static_cast<void>(adapter.cqs().destroy(recv_cq_));
  take_memory();
  for (const Slot& slot : slots_) {
    if (plan_.verbs.windows && slot.state != SlotState::kUnbound)
      static_cast<void>(adapter.memory().windows.dealloc_rkey(slot.key));
  }
  for (const adapter::MemoryRegion& region : {send_mr_, receive_mr_, window_mr_, source_mr_}) {
    static_cast<void>(adapter.memory().regions.dereg_mr(region.lkey));
  }
  qp_ = nullptr;
}

adapter::Destination RawEnd::address(ServiceLevel sl) const noexcept {
  return {node_.lid, node_.adapter->qpn(*qp_), kQkey, sl};
}

// ---- send queue

std::span<std::byte> RawEnd::send_slot(uint64_t wr_id) noexcept {
  return std::span(send_memory_).subspan(wr_id % plan_.send_wqes * plan_.bytes_max, plan_.bytes_max);
}

adapter::PostResult RawEnd::post(adapter::SendRequest request, const Outstanding& what) {
  const uint64_t place = what.kind == Kind::kReturned ? next_send_ - 1 : next_send_;
  const uint64_t offset = place % plan_.send_wqes * plan_.bytes_max;
  const bool lent = memory_lent() && lent_wr_id_ == next_send_;
  adapter::Sge sge{lent ? lent_mr_.addr : send_mr_.addr + offset, what.bytes,
                   lent ? lent_mr_.lkey : send_mr_.lkey};
  // Inline data is copied when it is posted. It has no key, so its segment has the address in this process.
  if ((request.flags & adapter::kSendInline) != 0)
    sge.addr = reinterpret_cast<uintptr_t>(send_memory_.data() + offset);
  request.wr_id = next_send_;
  if (what.kind < Kind::kBind) request.sges = {&sge, 1};
  const adapter::PostResult result = node_.adapter->post_send(*qp_, request);
  if (result != adapter::PostResult::kOk) return result;
  static_cast<void>(sends_.push(what));
  sends_.back().wr_id = next_send_++;
  return result;
}

uint32_t RawEnd::poll_sends(std::span<adapter::WorkCompletion> out) noexcept {
  return node_.adapter->cqs().poll(*send_cq_, out);
}

std::optional<RawEnd::Outstanding> RawEnd::finish_send(uint64_t wr_id) {
  if (sends_.empty() || sends_.front().wr_id != wr_id) return std::nullopt;
  const Outstanding done = sends_.front();
  sends_.pop();
  return done;
}

// ---- receive queue

std::span<std::byte> RawEnd::receive_slot(uint64_t wr_id) noexcept {
  return std::span(receive_memory_).subspan(wr_id % plan_.recv_wqes * plan_.bytes_max, plan_.bytes_max);
}

uint32_t RawEnd::poll_receives(std::span<adapter::WorkCompletion> out) noexcept {
  return node_.adapter->cqs().poll(*recv_cq_, out);
}

bool RawEnd::finish_receive(uint64_t wr_id) {
  if (receives_.empty() || receives_.front() != wr_id) return false;
  receives_.pop();
  return true;
}

bool RawEnd::post_one_receive() {
  const uint64_t offset = next_receive_ % plan_.recv_wqes * plan_.bytes_max;
  const adapter::Sge sge{receive_mr_.addr + offset, plan_.bytes_max, receive_mr_.lkey};
  if (node_.adapter->post_recv(*qp_, {next_receive_, {&sge, 1}}) != adapter::PostResult::kOk) return false;
  static_cast<void>(receives_.push(next_receive_++));
  return true;
}

int RawEnd::post_receives(Instant now) {
  int posted = 0;
  for (; !receives_due_.empty() && receives_due_.front() <= now && post_one_receive(); ++posted) {
    receives_due_.pop();
  }
  return posted;
}

Instant RawEnd::next_receive_due() noexcept {
  return receives_due_.empty() ? kNever : receives_due_.front();
}

// ---- memory that the peer writes and reads

void RawEnd::take_slot() noexcept {
  slots_[next_slot_].state = SlotState::kTaken;
  next_slot_ = (next_slot_ + 1) % kRawWindowSlots;
}

bool RawEnd::slot_written(uint32_t index) noexcept {
  Slot& slot = slots_[index];
  if (slot.state == SlotState::kClosed) return false;
  if (slot.state == SlotState::kTaken)
    slot.state = plan_.verbs.windows ? SlotState::kWritten : SlotState::kFree;
  if (slot.state == SlotState::kRevoking) slot.state = SlotState::kEnding;
  if (slot.state == SlotState::kRevoked) slot.state = SlotState::kUnbound;
  return true;
}

int RawEnd::renew_windows() {
  if (!plan_.verbs.windows || send_queue_ == SendQueue::kFailed) return 0;
  int posted = 0;
  for (uint32_t index = 0; index < kRawWindowSlots && sends_.size() + 1 < plan_.send_wqes; ++index) {
    Slot& slot = slots_[index];
    if (slot.state == SlotState::kWritten && plan_.verbs.one_shot) {  // the key was invalidated by the write
      static_cast<void>(node_.adapter->memory().windows.dealloc_rkey(slot.key));
      slot.state = SlotState::kUnbound;
    }
    if (slot.state == SlotState::kUnbound && post_bind(index)) ++posted;
    if (slot.state == SlotState::kWritten && post_unbind(index, SlotState::kEnding)) ++posted;
  }
  return posted;
}

bool RawEnd::post_bind(uint32_t index) {
  Slot& slot = slots_[index];
  slot.key = node_.adapter->memory().windows.alloc_rkey(node_.pd).value();
  adapter::SendRequest request;
  request.opcode = adapter::SendOpcode::kBindWindow;
  request.bind = {.window = slot.key,
                  .region = window_mr_.lkey,
                  .addr = window_mr_.addr + uint64_t{index} * plan_.bytes_max,
                  .length = plan_.bytes_max,
                  .access = adapter::Access::kRemoteWrite |
                            (plan_.verbs.one_shot ? adapter::Access::kOneShot : adapter::Access::kNone)};
  if (post(request, {.kind = Kind::kBind, .slot = index}) != adapter::PostResult::kOk) {
    static_cast<void>(node_.adapter->memory().windows.dealloc_rkey(slot.key));
    return false;
  }
  slot.state = SlotState::kBinding;
  return true;
}

/// Ends the window by unbind, or for every second slot by invalidate.
bool RawEnd::post_unbind(uint32_t index, SlotState next) {
  adapter::SendRequest request;
  const bool invalidate = index % 2 != 0;
  request.opcode = invalidate ? adapter::SendOpcode::kLocalInvalidate : adapter::SendOpcode::kUnbindWindow;
  request.rkey = slots_[index].key;
  request.bind.window = slots_[index].key;
  if (post(request, {.kind = Kind::kUnbind, .slot = index}) != adapter::PostResult::kOk) return false;
  slots_[index].state = next;
  return true;
}

void RawEnd::window_changed(const Outstanding& what) {
  Slot& slot = slots_[what.slot];
  if (what.kind == Kind::kBind) {
    slot.state = SlotState::kFree;
    return;
  }
  static_cast<void>(node_.adapter->memory().windows.dealloc_rkey(slot.key));
  slot.state = slot.state == SlotState::kRevoking ? SlotState::kRevoked : SlotState::kUnbound;
}

bool RawEnd::revoke_slot() {
  const uint32_t last = (next_slot_ + kRawWindowSlots - 1) % kRawWindowSlots;
  return slots_[last].state == SlotState::kTaken && sends_.size() + 1 < plan_.send_wqes &&
         post_unbind(last, SlotState::kRevoking);
}

void RawEnd::close_slots() noexcept {
  for (uint32_t index = 0; index < kRawWindowSlots; ++index) {
    if (slots_[index].state != SlotState::kRevoked) continue;
    slots_[index].state = SlotState::kClosed;
    slots_[index].crc = slot_crc(index);
  }
}

uint32_t RawEnd::slot_crc(uint32_t slot) const noexcept {
  return crc32c(window_memory().subspan(size_t{slot} * plan_.bytes_max, plan_.bytes_max));
}

bool RawEnd::closed_slots_untouched() const noexcept {
  for (uint32_t index = 0; index < kRawWindowSlots; ++index) {
    if (slots_[index].state == SlotState::kClosed && slots_[index].crc != slot_crc(index)) return false;
  }
  return true;
}

void RawEnd::reclaim_slots() noexcept {
  for (Slot& slot : slots_) {
    if (slot.state == SlotState::kTaken)
      slot.state = plan_.verbs.windows ? SlotState::kWritten : SlotState::kFree;
  }
}

// ---- state of the send queue

bool RawEnd::move_to(adapter::QpState state) {
  adapter::QpAttr attr;
  attr.state = state;
  attr.sqd_notify = true;
  uint32_t mask = adapter::kQpAttrState;
  if (state == adapter::QpState::kSqd) mask |= adapter::kQpAttrSqdNotify;
  return node_.adapter->modify_qp(*qp_, attr, mask) == adapter::ModifyResult::kOk;
}

bool RawEnd::lend_memory() {
  if (memory_lent()) return false;
  const uint64_t offset = next_send_ % plan_.send_wqes * plan_.bytes_max;
  const auto lent = std::span(send_memory_).subspan(offset, plan_.bytes_max);
  lent_mr_ = node_.adapter->memory().regions.reg_mr(node_.pd, lent, adapter::Access::kLocalWrite).value();
  lent_wr_id_ = next_send_;
  return true;
}

void RawEnd::take_memory() {
  if (!memory_lent()) return;
  static_cast<void>(node_.adapter->memory().regions.dereg_mr(lent_mr_.lkey));
  lent_mr_ = {};
}

}  // namespace weft::sim
