// How it works. A frame is read by the driver straight into the send ring (claim, submit), gets the oldest
// free element of the peer that holds it (place) and becomes one work request (post): an RDMA write whose
// immediate data names the element, or a plain Send, or a SendData message around it. The latest frame placed
// is held back until the next one or flush(), so that the last request of every burst, and only it, asks for
// a completion. When no element is large enough, the frame waits and the driver gets no further claim:
// nothing is lost or overtaken.
#include "session/outbound.h"

#include <algorithm>
#include <utility>

#include "base/out_of_memory.h"
#include "messages/netdev_bytes.h"

namespace weft::session {

namespace {

using C = SessionCounter;
/// Room before and after a frame in the ring for the SendData message around it.
constexpr uint32_t kSendDataBefore = 64;
constexpr uint32_t kSendDataAfter = 128;
constexpr uint32_t kUnsignalledMax = 16;
constexpr Duration kGetIntervalMax = std::chrono::seconds(10);

}  // namespace

Outbound::Outbound(SessionContext& context, IncarnationEnd& end, SessionChannels& channels,
                   ControlChannel& control)
    : context_(context),
      end_(end),
      channels_(channels),
      control_(control),
      remote_(context.config.limits.peer_pools, context.config.limits.peer_elements),
      by_message_(context.config.force_indicate),
      get_interval_(context.config.limits.connect_interval) {
  frames_.reset(context.config.limits.send_slots);
  indications_.reset(context.config.limits.send_slots);
}

// ---- frames -------------------------------------------------------------------------------------

uint32_t Outbound::frame_bytes_max() const noexcept {
  const uint32_t agreed = context_.peer.frame_bytes_max + kVnetBytes;
  const uint32_t element = remote_.element_bytes_max() + (context_.rdma() ? 0 : kVnetBytes);
  return std::min(agreed, element);
}

void Outbound::hold(SessionCounter why) noexcept {
  if (!held_) context_.count(why);
  held_ = true;
}

/// Whether one more frame may be read from the driver's port.
bool Outbound::can_submit() noexcept {
  const bool element = remote_.any_free() && placed_ == frames_.size();
  const bool slot = frames_.size() + indications_.size() < frames_.capacity();
  if (element && slot) {
    held_ = false;
    return true;
  }
  hold(element ? C::kClaimNoMemory : C::kClaimNoElement);
  if (!element) ask_for_pool();
  return false;
}

std::span<std::byte> Outbound::claim(uint32_t bytes_max) noexcept {
  claim_at_ = nullptr;
  if (end_.decided() || !can_submit()) return {};
  const uint32_t bytes = std::min(bytes_max, frame_bytes_max());
  const bool inside_message = context_.peer.mode == TransferMode::kSendDataOnly;
  std::byte* at = channels_.ring().claim(inside_message ? bytes + kSendDataBefore + kSendDataAfter : bytes);
  if (at == nullptr) {
    hold(C::kClaimNoMemory);
    return {};
  }
  claim_at_ = inside_message ? at + kSendDataBefore : at;
  claim_bytes_ = bytes;
  return {claim_at_, bytes};
}

void Outbound::submit(uint32_t bytes) noexcept {
  if (claim_at_ == nullptr) return;
  std::byte* at = std::exchange(claim_at_, nullptr);
  if (bytes < kInnerFrameBytesMin || bytes > claim_bytes_) {
    context_.count(bytes > claim_bytes_ ? C::kFrameTooLong : C::kFrameTooShort);
    return;
  }
  const bool inside_message = context_.peer.mode == TransferMode::kSendDataOnly;
  const uint64_t position =
      channels_.ring().commit(inside_message ? bytes + kSendDataBefore + kSendDataAfter : bytes);
  frames_.push({.at = at, .bytes = bytes, .ring_position = position, .target = {}});
  ++submitted_;
  context_.count(C::kFramesOut);
  context_.count(C::kBytesOut, bytes - kVnetBytes);
  place();
}

void Outbound::place() noexcept {
  while (!end_.decided() && placed_ < frames_.size()) {
    Frame& frame = frames_.at(placed_);
    if (!remote_.take(context_.rdma() ? frame.bytes : frame.bytes - kVnetBytes, frame.target)) {
      if (!waited_) context_.count(C::kFrameWaited);
      waited_ = true;
      return ask_for_pool();
    }
    waited_ = false;
    ++placed_;
    if (placed_ - posted_ > 1) post(false);
  }
}

void Outbound::flush() noexcept {
  while (!end_.decided() && posted_ < placed_) post(true);
  if (!doorbell_ || end_.decided()) return;
  doorbell_ = false;
  channels_.ring_data();
  ask_for_pool();
}

/// Fills in the mode-dependent fields of `request`; returns the frame's segment.
adapter::Sge Outbound::describe(Frame& frame, adapter::SendRequest& request) noexcept {
  switch (context_.peer.mode) {
    case TransferMode::kRdma:
      frame.by_message = by_message_;
      request.opcode = by_message_ ? adapter::SendOpcode::kRdmaWrite : adapter::SendOpcode::kRdmaWriteWithImm;
      request.remote_addr = frame.target.address;
      request.rkey = frame.target.handle;
      if (!by_message_) {
        request.imm = encode_idata({.pool = frame.target.pool,
                                    .element = frame.target.element,
                                    .element_bytes = frame.target.element_bytes});
        context_.count(C::kWritesWithIdata);
      }
      return channels_.ring_sge(frame.at, frame.bytes);
    case TransferMode::kSendReceive:
      context_.count(C::kPlainSendsOut);
      return channels_.ring_sge(frame.at + kVnetBytes, frame.bytes - kVnetBytes);
    case TransferMode::kSendDataOnly:
      break;
  }
  std::byte* at = nullptr;
  const uint32_t bytes = encode_send_data(frame, at);
  context_.count(C::kSendDataOut);
  return channels_.ring_sge(at, bytes);
}

/// Posts the oldest placed frame. Completions are in order, so the completion of a burst's last request
/// covers the whole burst.
void Outbound::post(bool last) noexcept {
  Frame& frame = frames_.at(posted_);
  ++unsignalled_;
  unsignalled_bytes_ += frame.bytes;
  const bool signal = last || by_message_ || unsignalled_ >= kUnsignalledMax ||
                      unsignalled_bytes_ * 4 >= channels_.ring().size();
  adapter::SendRequest request;
  request.wr_id = make_wr_id(WorkKind::kFrameSend, posted());
  request.flags = signal ? uint32_t{adapter::kSendSignaled} : 0;
  request.opcode = adapter::SendOpcode::kSend;
  const adapter::Sge sge = describe(frame, request);
  request.sges = {&sge, 1};
  if (channels_.post_data(request) != adapter::PostResult::kOk) return end_.lose(C::kLostQpError);
  ++posted_;
  doorbell_ = true;
  if (signal) {
    unsignalled_ = 0;
    unsignalled_bytes_ = 0;
  }
}

/// Encodes the message around the frame in place; the message header overwrites the vnet header.
uint32_t Outbound::encode_send_data(Frame& frame, std::byte*& at) noexcept {
  const std::span<const std::byte> data(frame.at + kVnetBytes, frame.bytes - kVnetBytes);
  const NetdevMessage message{.context = control_.next_context(), .body = SendData{.data = data}};
  if (context_.peer.encoding == MessageEncoding::kBytes) {
    at = frame.at + kVnetBytes - kSendDataHeaderBytes;
    encode_send_data_header(message.context, static_cast<uint32_t>(data.size()), at);
    return kSendDataHeaderBytes + static_cast<uint32_t>(data.size());
  }
  at = frame.at - kSendDataBefore;
  return static_cast<uint32_t>(
      context_.codec.encode(message, {at, kSendDataBefore + frame.bytes + kSendDataAfter - kVnetBytes}));
}

void Outbound::complete(uint64_t number) noexcept {
  while (posted_ != 0 && first_ <= number) {
    const Frame& frame = frames_.front();
    channels_.ring().release(frame.ring_position);
    if (frame.by_message) {
      indications_.push({.pool = frame.target.pool,
                         .element = frame.target.element,
                         .element_bytes = frame.target.element_bytes,
                         .data_bytes = frame.bytes});
    }
    frames_.pop();
    ++first_;
    --posted_;
    --placed_;
  }
}

bool Outbound::send_indications() noexcept {
  if (indications_.empty()) return false;
  BufferRdmaIndicate body;
  while (!body.used.full() && body.used.size() < indications_.size()) {
    body.used.push_back(indications_.at(body.used.size()));
  }
  if (!control_.send({.context = control_.next_context(), .body = body})) return false;
  for (uint32_t i = 0; i < body.used.size(); ++i) indications_.pop();
  context_.count(C::kIndicationsOut, body.used.size());
  return true;
}

// ---- the peer's pools ---------------------------------------------------------------------------

void Outbound::learn(const PoolAdvert& advert) noexcept {
  const bool rdma = context_.rdma();
  if ((advert.pool == kPoolOfReceiveWqes) == rdma) return context_.count(C::kMsgNotExpected);
  const uint32_t theirs = context_.is_host() ? kPoolReferenceFirstUnit : kPoolReferenceFirstHost;
  if (rdma && advert.pool % kPoolReferenceStep != theirs) return context_.count(C::kPoolRefTaken);
  RemotePoolFault fault = RemotePoolFault::kLimit;
  // The peer will not advertise the pool again, so only a new session can have it.
  if (!with_memory([&] { fault = remote_.add(advert); })) return end_.lose(C::kLostNoMemory);
  if (fault == RemotePoolFault::kTaken) return context_.count(C::kPoolRefTaken);
  if (fault != RemotePoolFault::kNone) return context_.count(C::kPoolLimit);
  context_.count(C::kPoolsLearnt);
  // Permanent, because idata and messages are never mixed (decisions 2.17). Writes posted earlier complete
  // before the first message can be sent.
  if (rdma && !remote_.all_by_idata()) by_message_ = true;
  get_interval_ = context_.config.limits.connect_interval;
}

void Outbound::renew(const BufferRecvPoolUpdate& body) noexcept {
  for (const PoolRun& run : body.runs) {
    uint32_t renewed = 0;
    switch (remote_.renew(run, renewed)) {
      case RemotePoolFault::kUnknown:
        context_.count(C::kPoolRefUnknown);
        break;
      case RemotePoolFault::kRange:
        context_.count(C::kPoolElementRange);
        break;
      case RemotePoolFault::kNotConsumed:
        context_.count(C::kPoolRenewNotConsumed);
        break;
      case RemotePoolFault::kNone:
      case RemotePoolFault::kTaken:
      case RemotePoolFault::kLimit:
      case RemotePoolFault::kCount:
        break;
    }
  }
}

/// Requests a further pool when a size runs low. The peer need not answer, so requests back off
/// (PUSH-POOL-08).
void Outbound::ask_for_pool() noexcept {
  BufferRecvPoolGet body;
  if (context_.now < get_at_ || !remote_.running_low(body)) return;
  if (!control_.send({.context = control_.next_context(), .body = body})) return;
  context_.count(C::kPoolGetsOut);
  get_at_ = context_.now + get_interval_;
  get_interval_ = std::min(get_interval_ * 2, kGetIntervalMax);
}

void Outbound::account(SessionConservation& out) const noexcept {
  out.peer_elements = remote_.elements();
  out.peer_free = remote_.free();
  out.peer_consumed = remote_.consumed();
  out.frames_submitted = submitted_;
  out.frames_completed = first_;
  out.frames_in_flight = placed_;
  out.frames_waiting = frames_.size() - placed_;
}

}  // namespace weft::session
