#include "management/mad_queue_pair.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace weft::management {

namespace {

constexpr uint32_t kSlotBytes = kMadBytes;
constexpr uint32_t kRecvSlots = 64;
constexpr uint32_t kSendSlots = 32;

adapter::Sge slot_sge(const adapter::MemoryRegion& region, uint32_t slot, uint32_t bytes) noexcept {
  return {.addr = region.addr + uint64_t{slot} * kSlotBytes, .length = bytes, .lkey = region.lkey};
}

}  // namespace

MadQueuePair::~MadQueuePair() {
  close();
}

Status MadQueuePair::open(Qpn wanted) {
  Status status = create(wanted);
  if (!status) close();
  return status;
}

Status MadQueuePair::create(Qpn wanted) {
  remote_ = wanted == kQpnSmi ? kQpnSmi : kQpnGsi;
  qkey_ = wanted == kQpnSmi ? kQkeySmi : kQkeyGsi;
  memory_.resize(size_t{kSlotBytes} * (kRecvSlots + kSendSlots));
  const Refusable<adapter::PdId> pd = adapter_.alloc_pd();
  if (!pd) return pd.error();
  pd_ = pd.value();
  has_pd_ = true;
  const Refusable<adapter::MemoryRegion> region =
      adapter_.memory().regions.reg_mr(pd_, memory_, adapter::Access::kLocalWrite);
  if (!region) return region.error();
  region_ = region.value();
  has_region_ = true;
  const Refusable<adapter::CompletionQueue*> send_cq = adapter_.cqs().create(kSendSlots);
  if (!send_cq) return send_cq.error();
  send_cq_ = send_cq.value();
  const Refusable<adapter::CompletionQueue*> recv_cq = adapter_.cqs().create(kRecvSlots);
  if (!recv_cq) return recv_cq.error();
  recv_cq_ = recv_cq.value();
  const Refusable<adapter::QueuePair*> qp = adapter_.create_qp({.type = adapter::QpType::kUd,
                                                                .pd = pd_,
                                                                .send_cq = send_cq_,
                                                                .recv_cq = recv_cq_,
                                                                .send_wqes = kSendSlots,
                                                                .recv_wqes = kRecvSlots,
                                                                .sges = 1,
                                                                .wanted_qpn = wanted,
                                                                .port = port_});
  if (!qp) return qp.error();
  qp_ = qp.value();
  adapter::QpAttr attr{.state = adapter::QpState::kInit, .port = port_, .qkey = qkey_};
  adapter::ModifyResult moved = adapter_.modify_qp(
      *qp_, attr,
      adapter::kQpAttrState | adapter::kQpAttrPkeyIndex | adapter::kQpAttrPort | adapter::kQpAttrQkey);
  for (uint32_t slot = 0; slot < kRecvSlots; ++slot) post_recv(slot);
  attr.state = adapter::QpState::kRtr;
  if (moved == adapter::ModifyResult::kOk) moved = adapter_.modify_qp(*qp_, attr, adapter::kQpAttrState);
  attr.state = adapter::QpState::kRts;
  if (moved == adapter::ModifyResult::kOk)
    moved = adapter_.modify_qp(*qp_, attr, adapter::kQpAttrState | adapter::kQpAttrSqPsn);
  if (moved != adapter::ModifyResult::kOk) return Error{"management qp: " + std::string(to_string(moved))};
  return {};
}

void MadQueuePair::close() noexcept {
  if (qp_ != nullptr) (void)adapter_.destroy_qp(qp_);
  if (send_cq_ != nullptr) (void)adapter_.cqs().destroy(send_cq_);
  if (recv_cq_ != nullptr) (void)adapter_.cqs().destroy(recv_cq_);
  if (has_region_) (void)adapter_.memory().regions.dereg_mr(region_.lkey);
  if (has_pd_) (void)adapter_.dealloc_pd(pd_);
  qp_ = nullptr;
  send_cq_ = recv_cq_ = nullptr;
  has_region_ = has_pd_ = false;
  next_send_ = sends_in_flight_ = 0;
  lent_slot_ = -1;
}

bool MadQueuePair::post_recv(uint32_t slot) noexcept {
  const adapter::Sge sge = slot_sge(region_, slot, kSlotBytes);
  return adapter_.post_recv(*qp_, {.wr_id = slot, .sges = {&sge, 1}}) == adapter::PostResult::kOk;
}

void MadQueuePair::reap_sends() noexcept {
  std::array<adapter::WorkCompletion, 8> done;
  while (const uint32_t count = adapter_.cqs().poll(*send_cq_, done)) {
    sends_in_flight_ -= std::min(sends_in_flight_, count);
  }
}

bool MadQueuePair::send(Lid to, const MadBytes& mad, ServiceLevel sl) noexcept {
  if (qp_ == nullptr || to == kLidNone) return false;
  reap_sends();
  if (sends_in_flight_ == kSendSlots) return false;
  const uint32_t slot = kRecvSlots + next_send_;
  std::copy(mad.begin(), mad.end(), memory_.begin() + static_cast<ptrdiff_t>(size_t{slot} * kSlotBytes));
  const adapter::Sge sge = slot_sge(region_, slot, kMadBytes);
  const adapter::SendRequest request{.opcode = adapter::SendOpcode::kSend,
                                     .flags = adapter::kSendSignaled,
                                     .sges = {&sge, 1},
                                     .dest = {.lid = to, .qpn = remote_, .qkey = qkey_, .sl = sl}};
  if (adapter_.post_send(*qp_, request) != adapter::PostResult::kOk) return false;
  next_send_ = (next_send_ + 1) % kSendSlots;
  ++sends_in_flight_;
  return true;
}

bool MadQueuePair::receive(MadDatagram& out) noexcept {
  if (qp_ == nullptr) return false;
  if (lent_slot_ >= 0) post_recv(static_cast<uint32_t>(std::exchange(lent_slot_, -1)));
  adapter::WorkCompletion done;
  if (adapter_.cqs().poll(*recv_cq_, {&done, 1}) == 0) return false;
  const bool good = done.opcode == adapter::WcOpcode::kRecv && done.status == adapter::WcStatus::kSuccess;
  lent_slot_ = static_cast<int>(done.wr_id);
  out.from = good ? done.src_lid : kLidNone;
  out.bytes =
      std::span(memory_).subspan(done.wr_id * kSlotBytes, good ? std::min(done.byte_count, kSlotBytes) : 0);
  return true;
}

}  // namespace weft::management
