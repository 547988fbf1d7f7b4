#include "session/cm_endpoint.h"

#include <algorithm>

namespace weft::session {

namespace {

constexpr uint32_t kSlotBytes = 256;
constexpr uint32_t kRecvSlots = 64;
constexpr uint32_t kSendSlots = 32;
static_assert(kCmBytesMax <= kSlotBytes);

adapter::Sge slot_sge(const adapter::MemoryRegion& region, uint32_t slot, uint32_t bytes) noexcept {
  return {.addr = region.addr + uint64_t{slot} * kSlotBytes, .length = bytes, .lkey = region.lkey};
}

}  // namespace

CmEndpoint::~CmEndpoint() {
  close();
}

Status CmEndpoint::open(Qpn wanted, uint8_t port) {
  Status status = create(wanted, port);
  if (!status) close();
  return status;
}

Status CmEndpoint::create(Qpn wanted, uint8_t port) {
  memory_ = PoolMemory::allocate(size_t{kSlotBytes} * (kRecvSlots + kSendSlots));
  if (!memory_) return Error{"out of memory for connection datagrams"};
  const Refusable<adapter::PdId> pd = adapter_.alloc_pd();
  if (!pd) return pd.error();
  pd_ = pd.value();
  has_pd_ = true;
  const Refusable<adapter::MemoryRegion> region =
      adapter_.memory().reg_mr(pd_, memory_.span(), adapter::Access::kLocalWrite);
  if (!region) return region.error();
  region_ = region.value();
  has_region_ = true;
  const Refusable<adapter::CompletionQueue*> send_cq = adapter_.create_cq(kSendSlots);
  if (!send_cq) return send_cq.error();
  send_cq_ = send_cq.value();
  const Refusable<adapter::CompletionQueue*> recv_cq = adapter_.create_cq(kRecvSlots);
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
                                                                .port = port});
  if (!qp) return qp.error();
  qp_ = qp.value();
  adapter::QpAttr attr{.state = adapter::QpState::kInit, .port = port, .qkey = kQkeyGsi};
  adapter::ModifyResult moved = adapter_.modify_qp(
      *qp_, attr,
      adapter::kQpAttrState | adapter::kQpAttrPkeyIndex | adapter::kQpAttrPort | adapter::kQpAttrQkey);
  for (uint32_t slot = 0; slot < kRecvSlots; ++slot) post_recv(slot);
  attr.state = adapter::QpState::kRtr;
  if (moved == adapter::ModifyResult::kOk) moved = adapter_.modify_qp(*qp_, attr, adapter::kQpAttrState);
  attr.state = adapter::QpState::kRts;
  if (moved == adapter::ModifyResult::kOk)
    moved = adapter_.modify_qp(*qp_, attr, adapter::kQpAttrState | adapter::kQpAttrSqPsn);
  if (moved != adapter::ModifyResult::kOk) return Error{"connection qp: " + std::string(to_string(moved))};
  return {};
}

void CmEndpoint::close() noexcept {
  if (qp_ != nullptr) (void)adapter_.destroy_qp(qp_);
  if (send_cq_ != nullptr) (void)adapter_.destroy_cq(send_cq_);
  if (recv_cq_ != nullptr) (void)adapter_.destroy_cq(recv_cq_);
  if (has_region_) (void)adapter_.memory().dereg_mr(region_.lkey);
  if (has_pd_) (void)adapter_.dealloc_pd(pd_);
  qp_ = nullptr;
  send_cq_ = recv_cq_ = nullptr;
  has_region_ = has_pd_ = false;
  next_send_ = sends_in_flight_ = 0;
}

bool CmEndpoint::post_recv(uint32_t slot) noexcept {
  const adapter::Sge sge = slot_sge(region_, slot, kSlotBytes);
  return adapter_.post_recv(*qp_, {.wr_id = slot, .sges = {&sge, 1}}) == adapter::PostResult::kOk;
}

void CmEndpoint::reap_sends() noexcept {
  std::array<adapter::WorkCompletion, 8> done;
  while (const uint32_t count = adapter_.poll_cq(*send_cq_, done)) {
    sends_in_flight_ -= std::min(sends_in_flight_, count);
  }
}

bool CmEndpoint::send(const CmMessage& message, Lid to, Qpn qpn, ServiceLevel sl) noexcept {
  if (qp_ == nullptr || to == kLidNone) return false;
  reap_sends();
  if (sends_in_flight_ == kSendSlots) return false;
  const uint32_t slot = kRecvSlots + next_send_;
  const std::span<std::byte> memory = memory_.span().subspan(size_t{slot} * kSlotBytes, kSlotBytes);
  const auto bytes = static_cast<uint32_t>(encode_cm(message, memory));
  const adapter::Sge sge = slot_sge(region_, slot, bytes);
  const adapter::SendRequest request{.opcode = adapter::SendOpcode::kSend,
                                     .flags = adapter::kSendSignaled,
                                     .sges = {&sge, 1},
                                     .dest = {.lid = to, .qpn = qpn, .qkey = kQkeyGsi, .sl = sl}};
  if (adapter_.post_send(*qp_, request) != adapter::PostResult::kOk) return false;
  next_send_ = (next_send_ + 1) % kSendSlots;
  ++sends_in_flight_;
  return true;
}

CmReceive CmEndpoint::receive(CmDatagram& out) noexcept {
  if (qp_ == nullptr) return CmReceive::kNone;
  adapter::WorkCompletion done;
  if (adapter_.poll_cq(*recv_cq_, {&done, 1}) == 0) return CmReceive::kNone;
  if (done.opcode != adapter::WcOpcode::kRecv || done.status != adapter::WcStatus::kSuccess)
    return CmReceive::kMalformed;
  const auto slot = static_cast<uint32_t>(done.wr_id);
  const std::span<const std::byte> in =
      memory_.span().subspan(size_t{slot} * kSlotBytes, std::min(done.byte_count, kSlotBytes));
  out.lid = done.src_lid;
  out.qpn = done.src_qpn;
  const CmError error = decode_cm(in, out.message);
  post_recv(slot);
  return error == CmError::kNone ? CmReceive::kMessage : CmReceive::kMalformed;
}

}  // namespace weft::session
