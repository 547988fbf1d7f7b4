#include "session/session_channels.h"

#include <algorithm>
#include <string>

#include "base/check.h"

namespace weft::session {

namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace): literals only

/// Long enough that the transport does not give up before the session: the keepalive decides that a peer is
/// dead (decisions 2.12, 2.13).
constexpr Duration kAckTimeout = 500ms;
constexpr uint8_t kRetries = 7;
constexpr uint8_t kRnrForEver = 7;

}  // namespace

Result<std::unique_ptr<SessionChannels>> SessionChannels::make(adapter::ChannelAdapter& adapter,
                                                               RandomSource& random, ChannelStore& store,
                                                               const ChannelSizes& sizes) {
  auto out = std::make_unique<SessionChannels>(adapter, random, store, sizes);
  if (const Status status = out->make_memory(); !status) return status.error();
  if (const Status status = out->make_queues(); !status) return status.error();
  return out;
}

SessionChannels::~SessionChannels() {
  add_up(true);
  if (data_qp_ != nullptr) (void)adapter_.destroy_qp(data_qp_);
  if (control_qp_ != nullptr) (void)adapter_.destroy_qp(control_qp_);
  if (send_cq_ != nullptr) (void)adapter_.cqs().destroy(send_cq_);
  if (recv_cq_ != nullptr) (void)adapter_.cqs().destroy(recv_cq_);
}

Status SessionChannels::make_memory() {
  const size_t control_bytes = size_t{sizes_.message_bytes} * (sizes_.control_recvs + sizes_.control_sends);
  if (store_.control.span().size() != control_bytes) store_.control = PoolMemory::allocate(control_bytes);
  if (store_.ring.span().size() != sizes_.send_ring_bytes)
    store_.ring = PoolMemory::allocate(sizes_.send_ring_bytes);
  if (!store_.control || !store_.ring) return Error{"out of memory for a session"};
  ring_.reset(store_.ring.span());
  if (Status opened = memory_.open(); !opened) return opened;
  const Refusable<adapter::MemoryRegion> control = memory_.add(store_.control.span(), false);
  if (!control) return control.error();
  control_region_ = control.value();
  const Refusable<adapter::MemoryRegion> ring = memory_.add(store_.ring.span(), false);
  if (!ring) return ring.error();
  ring_region_ = ring.value();
  free_sends_.clear();
  free_sends_.reserve(sizes_.control_sends);
  for (uint32_t i = sizes_.control_sends; i > 0; --i) free_sends_.push_back(sizes_.control_recvs + i - 1);
  return {};
}

Status SessionChannels::make_queues() {
  const Refusable<adapter::CompletionQueue*> send_cq =
      adapter_.cqs().create(sizes_.control_sends + sizes_.frame_sends);
  if (!send_cq) return send_cq.error();
  send_cq_ = send_cq.value();
  // Room for everything the peer can complete at once (decisions section 4).
  const Refusable<adapter::CompletionQueue*> recv_cq =
      adapter_.cqs().create(sizes_.control_recvs + sizes_.frame_recvs + sizes_.indications);
  if (!recv_cq) return recv_cq.error();
  recv_cq_ = recv_cq.value();
  const Refusable<adapter::QueuePair*> control = make_qp(false);
  if (!control) return control.error();
  control_qp_ = control.value();
  control_psn_ = Psn(static_cast<uint32_t>(random_.next()));
  if (has_data_channel()) {
    const Refusable<adapter::QueuePair*> data = make_qp(true);
    if (!data) return data.error();
    data_qp_ = data.value();
    data_psn_ = Psn(static_cast<uint32_t>(random_.next()));
  }
  if (Status status = to_init(*control_qp_, false); !status) return status;
  if (data_qp_ != nullptr) {
    if (Status status = to_init(*data_qp_, true); !status) return status;
  }
  for (uint32_t slot = 0; slot < sizes_.control_recvs; ++slot) {
    if (!repost_control(slot)) return Error{"channel 0 takes no receive work requests"};
  }
  return {};
}

Refusable<adapter::QueuePair*> SessionChannels::make_qp(bool data) {
  const bool frames_here = data || !has_data_channel();
  adapter::QpConfig config{
      .type = acknowledged() ? adapter::QpType::kRc : adapter::QpType::kUc,
      .pd = memory_.domain(),
      .send_cq = send_cq_,
      .recv_cq = recv_cq_,
      .send_wqes = (frames_here ? sizes_.frame_sends : 0) + (data ? 0 : sizes_.control_sends),
      .recv_wqes = data ? std::max(sizes_.frame_recvs, 1U) : sizes_.control_recvs,
      .sges = 1,
      .ack_mode =
          sizes_.acks == AckPolicy::kStrict ? adapter::AckMode::kStrict : adapter::AckMode::kSelective,
      .signal_all = false,
      .idata_takes_recv_wqe = false,
      .port = sizes_.port};
  return adapter_.create_qp(config);
}

Status SessionChannels::to_init(adapter::QueuePair& qp, bool data) {
  const bool writes = data && sizes_.mode == TransferMode::kRdma;
  const adapter::QpAttr attr{.state = adapter::QpState::kInit,
                             .access = writes ? adapter::Access::kRemoteWrite : adapter::Access::kNone,
                             .port = sizes_.port};
  const adapter::ModifyResult moved = adapter_.modify_qp(
      qp, attr,
      adapter::kQpAttrState | adapter::kQpAttrAccess | adapter::kQpAttrPkeyIndex | adapter::kQpAttrPort);
  if (moved != adapter::ModifyResult::kOk) return Error{"qp to init: " + std::string(to_string(moved))};
  return {};
}

Status SessionChannels::connect(Lid peer, const SessionQueuePair& control, const SessionQueuePair& data) {
  if (Status status = to_rts(*control_qp_, peer, control, control_psn_); !status) return status;
  if (data_qp_ == nullptr) return {};
  return to_rts(*data_qp_, peer, data, data_psn_);
}

Status SessionChannels::to_rts(adapter::QueuePair& qp, Lid peer, const SessionQueuePair& remote,
                               Psn own_psn) {
  adapter::QpAttr attr{.state = adapter::QpState::kRtr,
                       .dlid = peer,
                       .sl = sizes_.sl,
                       .ack_timeout = kAckTimeout,
                       .retry_count = kRetries,
                       .rnr_retry = kRnrForEver,
                       .rq_psn = remote.psn,
                       .sq_psn = own_psn,
                       .dest_qpn = remote.qpn};
  uint32_t mask = adapter::kQpAttrState | adapter::kQpAttrAddress | adapter::kQpAttrPathMtu |
                  adapter::kQpAttrDestQpn | adapter::kQpAttrRqPsn;
  if (acknowledged()) mask |= adapter::kQpAttrMaxDestRdAtomic | adapter::kQpAttrMinRnrTimer;
  adapter::ModifyResult moved = adapter_.modify_qp(qp, attr, mask);
  if (moved != adapter::ModifyResult::kOk) return Error{"qp to rtr: " + std::string(to_string(moved))};
  attr.state = adapter::QpState::kRts;
  mask = adapter::kQpAttrState | adapter::kQpAttrSqPsn;
  if (acknowledged())
    mask |= adapter::kQpAttrTimeout | adapter::kQpAttrRetryCount | adapter::kQpAttrRnrRetry |
            adapter::kQpAttrMaxRdAtomic;
  moved = adapter_.modify_qp(qp, attr, mask);
  if (moved != adapter::ModifyResult::kOk) return Error{"qp to rts: " + std::string(to_string(moved))};
  return {};
}

// ---- counters -----------------------------------------------------------------------------------

void ChannelTotals::add_up(uint32_t channel, const CounterSet<adapter::QpCounter>& now, bool last) noexcept {
  Totals& totals = totals_[channel];
  for (size_t i = 0; i < totals.past.size(); ++i) {
    const auto counter = static_cast<adapter::QpCounter>(i);
    totals.published.set(counter, totals.past[i] + now.get(counter));
    if (last) totals.past[i] = totals.published.get(counter);
  }
}

bool ChannelTotals::publish(StatsPage& page, std::string_view prefix) {
  const std::string name = std::string(prefix) + ".qp.";
  return page.publish(name + "0", totals_[0].published) && page.publish(name + "1", totals_[1].published);
}

void SessionChannels::add_up(bool last) noexcept {
  if (control_qp_ != nullptr) store_.totals.add_up(0, adapter_.counters(*control_qp_), last);
  if (data_qp_ != nullptr) store_.totals.add_up(1, adapter_.counters(*data_qp_), last);
}

SessionQueuePair SessionChannels::control_channel() const noexcept {
  return {.qpn = adapter_.qpn(*control_qp_), .psn = control_psn_};
}

SessionQueuePair SessionChannels::data_channel() const noexcept {
  if (data_qp_ == nullptr) return {};
  return {.qpn = adapter_.qpn(*data_qp_), .psn = data_psn_};
}

// ---- channel 0 ----------------------------------------------------------------------------------

std::span<std::byte> SessionChannels::control_slot() noexcept {
  if (free_sends_.empty()) return {};
  return store_.control.span().subspan(size_t{free_sends_.back()} * sizes_.message_bytes,
                                       sizes_.message_bytes);
}

adapter::PostResult SessionChannels::send_control(uint32_t bytes, uint32_t& slot) noexcept {
  slot = free_sends_.back();
  const adapter::Sge sge{.addr = control_region_.addr + uint64_t{slot} * sizes_.message_bytes,
                         .length = bytes,
                         .lkey = control_region_.lkey};
  const adapter::SendRequest request{.wr_id = make_wr_id(WorkKind::kControlSend, slot),
                                     .opcode = adapter::SendOpcode::kSend,
                                     .flags = adapter::kSendSignaled,
                                     .sges = {&sge, 1}};
  const adapter::PostResult result = adapter_.post_send(*control_qp_, request);
  if (result == adapter::PostResult::kOk) free_sends_.pop_back();
  return result;
}

std::span<const std::byte> SessionChannels::control_message(uint32_t slot, uint32_t bytes) const noexcept {
  return store_.control.span().subspan(size_t{slot} * sizes_.message_bytes,
                                       std::min(bytes, sizes_.message_bytes));
}

bool SessionChannels::repost_control(uint32_t slot) noexcept {
  const adapter::Sge sge{.addr = control_region_.addr + uint64_t{slot} * sizes_.message_bytes,
                         .length = sizes_.message_bytes,
                         .lkey = control_region_.lkey};
  return adapter_.post_recv(*control_qp_, {.wr_id = make_wr_id(WorkKind::kControlRecv, slot),
                                           .sges = {&sge, 1}}) == adapter::PostResult::kOk;
}

// ---- frames -------------------------------------------------------------------------------------

adapter::Sge SessionChannels::ring_sge(const std::byte* at, uint32_t bytes) const noexcept {
  return {.addr = ring_region_.addr + static_cast<uint64_t>(at - store_.ring.span().data()),
          .length = bytes,
          .lkey = ring_region_.lkey};
}

adapter::PostResult SessionChannels::post_data(const adapter::SendRequest& request) noexcept {
  return adapter_.post(data_qp(), request);
}

void SessionChannels::ring_data() noexcept {
  adapter_.ring_send(data_qp());
}

bool SessionChannels::post_frame_recv(uint32_t slot, const adapter::Sge& sge) noexcept {
  return adapter_.post_recv(data_qp(), {.wr_id = make_wr_id(WorkKind::kFrameRecv, slot),
                                        .sges = {&sge, 1}}) == adapter::PostResult::kOk;
}

uint32_t SessionChannels::poll_sends(std::span<adapter::WorkCompletion> out) noexcept {
  return adapter_.cqs().poll(*send_cq_, out);
}

uint32_t SessionChannels::poll_receives(std::span<adapter::WorkCompletion> out) noexcept {
  return adapter_.cqs().poll(*recv_cq_, out);
}

uint64_t SessionChannels::refused_accesses() const noexcept {
  uint64_t refused = 0;
  for (const adapter::QueuePair* qp : {control_qp_, data_qp_}) {
    if (qp != nullptr) refused += adapter_.counters(*qp).get(adapter::QpCounter::kAccessRefused);
  }
  return refused;
}

uint64_t SessionChannels::missed_packets() const noexcept {
  if (acknowledged()) return 0;
  return adapter_.missed_packets(*control_qp_) +
         (data_qp_ != nullptr ? adapter_.missed_packets(*data_qp_) : 0);
}

}  // namespace weft::session
