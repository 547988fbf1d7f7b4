#include "rdma_cm/gsi_port.h"

#include <fcntl.h>

#include <algorithm>

#include "hca/memory.h"
#include "hca/queue_pair.h"
#include "messages/multicast.h"

namespace weft::rdma_cm {
namespace {

constexpr uint32_t kSlotBytes = 512;
constexpr uint32_t kSendSlots = 128;
static_assert(adapter::kGrhBytes + kMadBytes <= kSlotBytes);

}  // namespace

GsiPort::~GsiPort() {
  if (context_ != nullptr) device_->close(context_);
}

Status GsiPort::open(hca::Device& device) {
  device_ = &device;
  context_ = device.open().object;
  if (context_ == nullptr) return Error{"no context for connection management"};
  if (Status made = make_objects(); !made) return made;
  return bring_up();
}

Status GsiPort::make_objects() {
  memory_.resize(size_t{kSlotBytes} * (kRecvSlots + kSendSlots));
  pd_ = context_->alloc_pd().object;
  channel_ = context_->create_channel().object;
  if (pd_ == nullptr || channel_ == nullptr) return Error{"no protection domain or channel for QP1"};
  for (const int fd : {channel_->fd(), context_->async_fd()}) {
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
      return Error{"a descriptor of QP1 cannot be made non-blocking"};
  }
  send_cq_ = context_->create_cq(kSendSlots).object;
  recv_cq_ = context_->create_cq(kRecvSlots, channel_).object;
  region_ = context_->reg_mr(*pd_, memory_, adapter::Access::kLocalWrite).object;
  if (send_cq_ == nullptr || recv_cq_ == nullptr || region_ == nullptr)
    return Error{"no completion queues or memory for QP1"};
  const hca::QpInit init{.send_cq = send_cq_,
                         .recv_cq = recv_cq_,
                         .management = true,
                         .config = {.type = adapter::QpType::kUd,
                                    .send_wqes = kSendSlots,
                                    .recv_wqes = kRecvSlots,
                                    .sges = 1,
                                    .grh_space = true}};
  const hca::Made<hca::Qp> qp = context_->create_qp(*pd_, init);
  qp_ = qp.object;
  if (qp_ == nullptr) return Error{"QP1 of the port cannot be made: " + std::string(to_string(qp.answer()))};
  return {};
}

Status GsiPort::bring_up() {
  adapter::QpAttr attr{.state = adapter::QpState::kInit, .port = 1, .qkey = kQkeyGsi};
  hca::Answer moved = qp_->modify(
      attr, adapter::kQpAttrState | adapter::kQpAttrPkeyIndex | adapter::kQpAttrPort | adapter::kQpAttrQkey);
  for (uint32_t slot = 0; slot < kRecvSlots; ++slot) static_cast<void>(post_recv(slot));
  attr.state = adapter::QpState::kRtr;
  if (moved == hca::Answer::kOk) moved = qp_->modify(attr, adapter::kQpAttrState);
  attr.state = adapter::QpState::kRts;
  if (moved == hca::Answer::kOk) moved = qp_->modify(attr, adapter::kQpAttrState | adapter::kQpAttrSqPsn);
  if (moved == hca::Answer::kOk) moved = qp_->attach_mcast(kGidEverybody, kLidEverybody);
  if (moved != hca::Answer::kOk) return Error{"QP1 of the port: " + std::string(to_string(moved))};
  everybody_ =
      context_->create_ah(*pd_, {.dlid = kLidEverybody, .is_global = true, .route = {.dgid = kGidEverybody}})
          .object;
  if (everybody_ == nullptr) return Error{"no address handle for the group of all endnodes"};
  return {};
}

adapter::Sge GsiPort::slot_sge(uint32_t slot, uint32_t bytes) const noexcept {
  return {.addr = region_->region().addr + uint64_t{slot} * kSlotBytes,
          .length = bytes,
          .lkey = region_->region().lkey};
}

// ---- receiving --------------------

bool GsiPort::post_recv(uint32_t slot) noexcept {
  const adapter::Sge sge = slot_sge(slot, kSlotBytes);
  const adapter::RecvRequest request{.wr_id = slot, .sges = {&sge, 1}};
  size_t posted = 0;
  return qp_->post_recv({&request, 1}, posted) == hca::Answer::kOk;
}

bool GsiPort::receive(GsiDatagram& out) noexcept {
  if (received_slot_ >= 0)
    static_cast<void>(post_recv(static_cast<uint32_t>(std::exchange(received_slot_, -1))));
  adapter::WorkCompletion done;
  if (recv_cq_->poll({&done, 1}) != 1) return false;
  received_slot_ = static_cast<int>(done.wr_id);
  const bool good = done.status == adapter::WcStatus::kSuccess && done.byte_count >= adapter::kGrhBytes;
  out.from = good ? done.src_lid : kLidNone;
  const uint32_t bytes = good ? std::min(done.byte_count, kSlotBytes) - adapter::kGrhBytes : 0;
  out.mad = std::span(memory_).subspan(done.wr_id * kSlotBytes + adapter::kGrhBytes, bytes);
  return true;
}

void GsiPort::arm() noexcept {
  recv_cq_->arm(false);
}

void GsiPort::clear() noexcept {
  hca::Cq* cq = nullptr;
  while (channel_->get_event(cq) == hca::Answer::kOk) cq->ack_events(1);
}

bool GsiPort::next_event(hca::AsyncEvent& out) noexcept {
  if (context_->get_async_event(out) != hca::Answer::kOk) return false;
  context_->ack_async_event(out);
  return true;
}

// ---- sending --------------------

bool GsiPort::post(const MadBytes& mad, adapter::SendRequest request) noexcept {
  std::array<adapter::WorkCompletion, 16> done;
  for (int count = send_cq_->poll(done); count > 0; count = send_cq_->poll(done))
    sends_in_flight_ -= std::min(sends_in_flight_, static_cast<uint32_t>(count));
  if (sends_in_flight_ == kSendSlots) return false;
  const uint32_t slot = kRecvSlots + next_send_;
  std::copy(mad.begin(), mad.end(), memory_.begin() + static_cast<ptrdiff_t>(slot) * kSlotBytes);
  const adapter::Sge sge = slot_sge(slot, kMadBytes);
  request.flags = adapter::kSendSignaled;
  request.sges = {&sge, 1};
  request.dest.qkey = kQkeyGsi;
  size_t posted = 0;
  if (qp_->post_send({&request, 1}, posted) != hca::Answer::kOk) return false;
  next_send_ = (next_send_ + 1) % kSendSlots;
  ++sends_in_flight_;
  return true;
}

bool GsiPort::send(Lid to, const MadBytes& mad) noexcept {
  return post(mad, {.dest = {.lid = to, .qpn = kQpnGsi}});
}

bool GsiPort::flood(const MadBytes& mad) noexcept {
  return post(mad, {.dest = {.qpn = kQpnMulticast}, .ah = &everybody_->value()});
}

}  // namespace weft::rdma_cm
