// How it works. Outbound, a frame is read by the driver straight into the send ring (claim, submit), gets the
// oldest free element of the peer that holds it (place) and becomes one work request (post): an RDMA write
// whose immediate data names the element, or a plain Send, or a SendData message around it. The latest frame
// placed is held back until the next one or flush(), so that the last request of every burst, and only it,
// asks for a completion. When no element is large enough, the frame waits and the driver gets no further
// claim: nothing is lost or overtaken.
//
// Inbound, every indication is checked against the pool's own record (decisions 2.16) and queued in the order
// of arrival; the driver looks at the element in place and releases it, which makes it due for renewal.
#include <algorithm>
#include <cstring>

#include "messages/netdev_bytes.h"
#include "session/session_core.h"

namespace weft::session {

namespace {

constexpr uint32_t kFrameBytesMin = kVnetBytes + kEthernetHeaderBytes;
/// Room before and after a frame in the ring for the SendData message around it.
constexpr uint32_t kSendDataBefore = 64;
constexpr uint32_t kSendDataAfter = 128;
constexpr uint32_t kUnsignalledMax = 16;

}  // namespace

// ---- outbound -----------------------------------------------------------------------------------

uint32_t NetdevSession::Core::frame_bytes_max() const noexcept {
  if (state_ != SessionState::kOpen) return 0;
  const uint32_t agreed = peer_.frame_bytes_max + kVnetBytes;
  const uint32_t element = remote_.element_bytes_max() + (rdma() ? 0 : kVnetBytes);
  return std::min(agreed, element);
}

/// Whether one more frame may be read from the driver's port; counts each time it has to be held.
bool NetdevSession::Core::can_submit() noexcept {
  const bool element = remote_.any_free() && out_placed_ == out_.size();
  const bool slot = out_.size() + indications_.size() < out_.capacity();
  if (element && slot) {
    held_ = false;
    return true;
  }
  if (!held_) counters_.add(element ? C::kClaimNoMemory : C::kClaimNoElement);
  held_ = true;
  if (!element) maybe_get();
  return false;
}

std::span<std::byte> NetdevSession::Core::claim_frame(uint32_t bytes_max) noexcept {
  claim_at_ = nullptr;
  if (state_ != SessionState::kOpen || loss_ || !can_submit()) return {};
  const uint32_t bytes = std::min(bytes_max, frame_bytes_max());
  const bool inside_message = peer_.mode == TransferMode::kSendDataOnly;
  std::byte* at = channels_.ring().claim(inside_message ? bytes + kSendDataBefore + kSendDataAfter : bytes);
  if (at == nullptr) {
    if (!held_) counters_.add(C::kClaimNoMemory);
    held_ = true;
    return {};
  }
  claim_at_ = inside_message ? at + kSendDataBefore : at;
  claim_bytes_ = bytes;
  return {claim_at_, bytes};
}

void NetdevSession::Core::submit_frame(uint32_t bytes) noexcept {
  if (claim_at_ == nullptr) return;
  std::byte* at = std::exchange(claim_at_, nullptr);
  if (bytes < kFrameBytesMin || bytes > claim_bytes_) {
    counters_.add(bytes > claim_bytes_ ? C::kFrameTooLong : C::kFrameTooShort);
    return;
  }
  const bool inside_message = peer_.mode == TransferMode::kSendDataOnly;
  const uint64_t position =
      channels_.ring().commit(inside_message ? bytes + kSendDataBefore + kSendDataAfter : bytes);
  out_.push({.at = at, .bytes = bytes, .ring_position = position, .target = {}});
  ++frames_submitted_;
  counters_.add(C::kFramesOut);
  counters_.add(C::kBytesOut, bytes - kVnetBytes);
  place_frames();
}

void NetdevSession::Core::place_frames() noexcept {
  while (!loss_ && out_placed_ < out_.size()) {
    OutFrame& frame = out_.at(out_placed_);
    if (!remote_.take(rdma() ? frame.bytes : frame.bytes - kVnetBytes, frame.target)) {
      if (!waited_) counters_.add(C::kFrameWaited);
      waited_ = true;
      maybe_get();
      return;
    }
    waited_ = false;
    ++out_placed_;
    if (out_placed_ - out_posted_ > 1) post_frame(false);
  }
}

void NetdevSession::Core::flush() noexcept {
  while (!loss_ && out_posted_ < out_placed_) post_frame(true);
  if (!doorbell_ || loss_) return;
  doorbell_ = false;
  channels_.ring_data();
  maybe_get();
}

/// Posts the oldest placed frame. Completions are in order, so one of the last in a burst speaks for all of
/// it.
void NetdevSession::Core::post_frame(bool last) noexcept {
  OutFrame& frame = out_.at(out_posted_);
  ++unsignalled_;
  unsignalled_bytes_ += frame.bytes;
  const bool signal = last || indicate_mode_ || unsignalled_ >= kUnsignalledMax ||
                      unsignalled_bytes_ * 4 >= channels_.ring().size();
  adapter::Sge sge;
  adapter::SendRequest request;
  request.wr_id = make_wr_id(WorkKind::kFrameSend, out_first_ + out_posted_);
  request.flags = signal ? uint32_t{adapter::kSendSignaled} : 0;
  request.opcode = adapter::SendOpcode::kSend;
  switch (peer_.mode) {
    case TransferMode::kRdma:
      sge = channels_.ring_sge(frame.at, frame.bytes);
      frame.by_message = indicate_mode_;
      request.opcode =
          indicate_mode_ ? adapter::SendOpcode::kRdmaWrite : adapter::SendOpcode::kRdmaWriteWithImm;
      request.remote_addr = frame.target.address;
      request.rkey = frame.target.handle;
      if (!indicate_mode_) {
        request.imm = encode_idata({.pool = frame.target.pool,
                                    .element = frame.target.element,
                                    .element_bytes = frame.target.element_bytes});
        counters_.add(C::kWritesWithIdata);
      }
      break;
    case TransferMode::kSendReceive:
      sge = channels_.ring_sge(frame.at + kVnetBytes, frame.bytes - kVnetBytes);
      counters_.add(C::kPlainSendsOut);
      break;
    case TransferMode::kSendDataOnly: {
      std::byte* at = nullptr;
      const uint32_t bytes = encode_send_data(frame, at);
      sge = channels_.ring_sge(at, bytes);
      counters_.add(C::kSendDataOut);
      break;
    }
  }
  request.sges = {&sge, 1};
  if (channels_.post_data(request) != adapter::PostResult::kOk) return fail(C::kLostQpError);
  ++out_posted_;
  doorbell_ = true;
  if (signal) {
    unsignalled_ = 0;
    unsignalled_bytes_ = 0;
  }
}

/// Puts the message around the frame where it lies; the vnet header's bytes become part of the message
/// header.
uint32_t NetdevSession::Core::encode_send_data(OutFrame& frame, std::byte*& at) noexcept {
  const std::span<const std::byte> data(frame.at + kVnetBytes, frame.bytes - kVnetBytes);
  const NetdevMessage message{.context = next_context_++, .body = SendData{.data = data}};
  if (peer_.encoding == MessageEncoding::kBytes) {
    at = frame.at + kVnetBytes - kSendDataHeaderBytes;
    encode_send_data_header(message.context, static_cast<uint32_t>(data.size()), at);
    return kSendDataHeaderBytes + static_cast<uint32_t>(data.size());
  }
  at = frame.at - kSendDataBefore;
  return static_cast<uint32_t>(
      capnp_.encode(message, {at, kSendDataBefore + frame.bytes + kSendDataAfter - kVnetBytes}));
}

void NetdevSession::Core::complete_frames(uint64_t number) noexcept {
  while (out_posted_ != 0 && out_first_ <= number) {
    const OutFrame& frame = out_.front();
    channels_.ring().release(frame.ring_position);
    if (frame.by_message) {
      indications_.push({.pool = frame.target.pool,
                         .element = frame.target.element,
                         .element_bytes = frame.target.element_bytes,
                         .data_bytes = frame.bytes});
    }
    out_.pop();
    ++out_first_;
    --out_posted_;
    --out_placed_;
    ++frames_completed_;
  }
}

// ---- inbound ------------------------------------------------------------------------------------

RecvPool* NetdevSession::Core::own_pool(uint32_t reference) noexcept {
  for (OwnPool& own : own_pools_) {
    if (own.pool->reference() == reference) return own.pool.get();
  }
  return nullptr;
}

uint32_t NetdevSession::Core::first_reference() const noexcept {
  return config_.pool_reference_base +
         (config_.role == SessionRole::kHost ? kPoolReferenceFirstHost : kPoolReferenceFirstUnit);
}

/// The peer names a pool that we do not have, or not any more.
void NetdevSession::Core::pool_missing(uint32_t reference) noexcept {
  const uint32_t number = reference - first_reference();  // wraps to something huge below the first
  const bool was_ours = number < next_reference_ - first_reference() && number % kPoolReferenceStep == 0;
  violation(was_ours ? C::kIdataPoolFlushed : C::kIdataPoolUnknown);
}

/// Memory of pools that were flushed goes back as soon as the driver has taken their last frame.
void NetdevSession::Core::drop_spent_pools() noexcept {
  std::erase_if(own_pools_,
                [](const OwnPool& own) { return !own.pool->live() && own.pool->indicated() == 0; });
}

/// False and a session reset for an indication that does not fit our own record (decisions 2.16).
bool NetdevSession::Core::check_fault(IndicationFault fault) noexcept {
  switch (fault) {
    case IndicationFault::kNone:
      return true;
    case IndicationFault::kFlushed:
      violation(C::kIdataPoolFlushed);
      break;
    case IndicationFault::kElementRange:
      violation(C::kIdataElementRange);
      break;
    case IndicationFault::kElementNotFree:
      violation(C::kIdataElementNotFree);
      break;
    case IndicationFault::kSizeWrong:
      violation(C::kIdataSizeWrong);
      break;
    case IndicationFault::kAddressWrong:
      violation(C::kIdataAddressWrong);
      break;
    case IndicationFault::kTooLong:
      violation(C::kIdataTooLong);
      break;
    case IndicationFault::kCount:
      break;
  }
  return false;
}

/// Takes the element from the peer and queues its frame.
bool NetdevSession::Core::indicate(RecvPool& pool, uint32_t element, uint32_t bytes) noexcept {
  pool.indicate(element);
  ++frames_indicated_;
  ++frames_arrived_;
  Inbound inbound{
      .frame = {.bytes = pool.element(element).first(bytes), .pool = pool.reference(), .element = element},
      .pool = &pool};
  const bool good = bytes >= kFrameBytesMin;
  if (good) {
    counters_.add(C::kFramesIn);
    counters_.add(C::kBytesIn, bytes - kVnetBytes);
  } else {
    counters_.add(C::kFrameTooShort);
    inbound.frame.bytes = {};
  }
  WEFT_CHECK(inbound_.push(inbound), "as many places as elements");
  return good;
}

void NetdevSession::Core::on_rdata(const adapter::WorkCompletion& done) noexcept {
  const PoolElement used = decode_idata(done.imm);
  RecvPool* pool = own_pool(used.pool);
  if (pool == nullptr) return pool_missing(used.pool);
  if (!check_fault(pool->check_write(used, done.written_va, done.byte_count))) return;
  indicate(*pool, used.element, done.byte_count);
}

/// Receive WQEs are used in the order they were posted, so the slot is known before it is named.
void NetdevSession::Core::on_frame_recv(const adapter::WorkCompletion& done) noexcept {
  RecvPool& pool = *own_pools_.front().pool;
  const auto slot = static_cast<uint32_t>(work_number(done.wr_id));
  if (!pool.is_exposed(slot)) return violation(C::kCreditOverrun);
  next_receive_slot_ = (slot + 1) % pool.elements();
  counters_.add(C::kPlainSendsIn);
  indicate(pool, slot, kVnetBytes + std::min(done.byte_count, pool.element_bytes() - kVnetBytes));
}

void NetdevSession::Core::on_send_data(std::span<const std::byte> data) noexcept {
  RecvPool& pool = *own_pools_.front().pool;
  if (data.size() > pool.element_bytes() - kVnetBytes) return counters_.add(C::kMsgTooLong);
  if (!pool.is_exposed(next_receive_slot_)) return violation(C::kCreditOverrun);
  const uint32_t slot = next_receive_slot_;
  next_receive_slot_ = (slot + 1) % pool.elements();
  counters_.add(C::kSendDataIn);
  std::memcpy(pool.element(slot).data() + kVnetBytes, data.data(), data.size());
  indicate(pool, slot, kVnetBytes + static_cast<uint32_t>(data.size()));
}

const InboundFrame* NetdevSession::Core::peek_frame(uint32_t index) noexcept {
  if (behind_earlier()) return nullptr;
  skip_refused();
  for (size_t i = 0, seen = 0; i < inbound_.size(); ++i) {
    if (inbound_.at(i).frame.bytes.empty()) continue;
    if (seen++ == index) return &inbound_.at(i).frame;
  }
  return nullptr;
}

void NetdevSession::Core::follow(const Core& earlier) noexcept {
  earlier_ = &earlier;
  earlier_incarnation_ = earlier.incarnation_;
}

/// A host that died and came back is one flow to those who read it: its frames stay in order (decisions
/// 2.25).
bool NetdevSession::Core::behind_earlier() noexcept {
  if (earlier_ == nullptr) return false;
  if (earlier_->incarnation_ == earlier_incarnation_ && earlier_->holds_frames()) return true;
  earlier_ = nullptr;
  return false;
}

void NetdevSession::Core::drop_inbound() noexcept {
  counters_.add(C::kInboundLostAtReset, inbound_.size());
  while (!inbound_.empty()) release_frame();
}

/// Refused frames go back without the driver having seen them, in their turn.
void NetdevSession::Core::skip_refused() noexcept {
  while (!inbound_.empty() && inbound_.front().frame.bytes.empty()) free_front();
}

void NetdevSession::Core::release_frame() noexcept {
  skip_refused();
  if (!inbound_.empty()) free_front();
}

void NetdevSession::Core::free_front() noexcept {
  const Inbound done = inbound_.front();
  inbound_.pop();
  ++frames_released_;
  done.pool->free_element(done.frame.element);
  if (!live() && inbound_.empty()) update_gauges();  // no keepalive does it any more
  if (!done.pool->live()) return drop_spent_pools();
  if (!rdma() && !repost_receive(*done.pool, done.frame.element)) fail(C::kLostQpError);
  if (renew_at_ == kNever) renew_at_ = now_ + config_.limits.renew_delay;
}

/// A receive WQE for a slot; nothing to do where frames come inside messages.
bool NetdevSession::Core::repost_receive(RecvPool& pool, uint32_t element) noexcept {
  if (peer_.mode != TransferMode::kSendReceive) return true;
  const uint64_t offset = uint64_t{element} * pool.element_bytes() + kVnetBytes;
  return channels_.post_frame_recv(element, {.addr = pool.advert().address + offset,
                                             .length = pool.element_bytes() - kVnetBytes,
                                             .lkey = pool.lkey()});
}

}  // namespace weft::session
