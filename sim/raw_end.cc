#include "sim/raw_end.h"

#include <algorithm>

namespace weft::sim {
namespace {

constexpr uint32_t kQkey = 0x1234;

/// No address of this process is on the wire, so a run is the same everywhere.
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
    return adapter.memory().reg_mr(node_.pd, memory, access, {.base_addr = random_base(random_)}).value();
  };
  send_mr_ = reg(send_memory_, adapter::Access::kLocalWrite);
  receive_mr_ = reg(receive_memory_, adapter::Access::kLocalWrite);
  window_mr_ = reg(window_memory_, adapter::Access::kLocalWrite | adapter::Access::kRemoteWrite);
  source_mr_ = reg(source_memory_, adapter::Access::kRemoteRead);
  send_cq_ = adapter.create_cq(plan_.send_wqes + 1).value();
  recv_cq_ = adapter.create_cq(plan_.recv_wqes + kRawWindowSlots + 1).value();
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
    // A slow reader asks for patience; else most of the run would be cells sent again too early.
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
  static_cast<void>(adapter.destroy_cq(send_cq_));
  static_cast<void>(adapter.destroy_cq(recv_cq_));
  for (const adapter::MemoryRegion& region : {send_mr_, receive_mr_, window_mr_, source_mr_}) {
    static_cast<void>(adapter.memory().dereg_mr(region.lkey));
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
  const uint64_t offset = next_send_ % plan_.send_wqes * plan_.bytes_max;
  const adapter::Sge sge{send_mr_.addr + offset, what.bytes, send_mr_.lkey};
  request.wr_id = next_send_;
  request.sges = {&sge, 1};
  const adapter::PostResult result = node_.adapter->post_send(*qp_, request);
  if (result != adapter::PostResult::kOk) return result;
  static_cast<void>(sends_.push(what));
  sends_.back().wr_id = next_send_++;
  return result;
}

uint32_t RawEnd::poll_sends(std::span<adapter::WorkCompletion> out) noexcept {
  return node_.adapter->poll_cq(*send_cq_, out);
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
  return node_.adapter->poll_cq(*recv_cq_, out);
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

uint32_t RawEnd::take_slot() noexcept {
  const uint32_t slot = next_slot_;
  next_slot_ = (next_slot_ + 1) % kRawWindowSlots;
  --free_slots_;
  return slot;
}

}  // namespace weft::sim
