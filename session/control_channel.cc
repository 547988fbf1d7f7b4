#include "session/control_channel.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/log.h"
#include "messages/netdev_bytes.h"

namespace weft::session {

namespace {

using C = SessionCounter;
/// Send slots that renewals leave free for everything else.
constexpr uint32_t kSlotsForOthers = 16;

}  // namespace

ControlChannel::ControlChannel(SessionContext& context, IncarnationEnd& end, SessionChannels& channels)
    : context_(context),
      end_(end),
      channels_(channels),
      described_(channels.sizes().control_recvs + channels.sizes().control_sends, 0) {}

bool ControlChannel::may_send() const noexcept {
  return allowed_ && !end_.decided() && context_.state != SessionState::kConnecting;
}

bool ControlChannel::room_for_renewal() const noexcept {
  return channels_.free_control_slots() > kSlotsForOthers;
}

size_t ControlChannel::encode(const NetdevMessage& message, std::span<std::byte> out) noexcept {
  if (context_.peer.encoding == MessageEncoding::kBytes) return encode_netdev_bytes(message, out);
  return context_.codec.encode(message, out);
}

bool ControlChannel::send(const NetdevMessage& message) noexcept {
  if (!may_send()) return false;
  const std::span<std::byte> slot = channels_.control_slot();
  if (slot.empty()) return false;
  const size_t bytes =
      encode(message, slot.first(std::min<size_t>(slot.size(), context_.peer_message_bytes)));
  if (bytes == 0) return false;
  uint32_t number = 0;
  if (channels_.send_control(static_cast<uint32_t>(bytes), number) != adapter::PostResult::kOk) {
    end_.lose(C::kLostQpError);
    return false;
  }
  if (const auto* indicate = std::get_if<BufferRdmaIndicate>(&message.body)) {
    described_[number] = indicate->used.size();
  }
  return true;
}

void ControlChannel::sent(uint32_t slot) noexcept {
  described_[slot] = 0;
  channels_.control_sent(slot);
}

uint64_t ControlChannel::frames_described() const noexcept {
  return std::accumulate(described_.begin(), described_.end(), uint64_t{0});
}

bool ControlChannel::decode(std::span<const std::byte> bytes, NetdevMessage& out) noexcept {
  const NetdevError error = context_.peer.encoding == MessageEncoding::kBytes
                                ? decode_netdev_bytes(bytes, out)
                                : context_.codec.decode(bytes, out);
  if (error == NetdevError::kNone) return true;
  refuse(error);
  return false;
}

void ControlChannel::refuse(NetdevError error) noexcept {
  if (context_.message_log.allow(context_.now)) {
    log(LogLevel::kWarn, "{}: message from lid {} dropped: {}; {} more since the last notice",
        context_.config.name, context_.peer.lid.value(), to_string(error), context_.message_log.suppressed());
  }
  switch (error) {
    case NetdevError::kTooShort:
      return context_.count(C::kMsgTooShort);
    case NetdevError::kUnknownFunction:
      return context_.count(C::kMsgUnknownFunction);
    case NetdevError::kWrongVersion:
      return context_.count(C::kMsgWrongVersion);
    case NetdevError::kLengthMismatch:
      return context_.count(C::kMsgLengthMismatch);
    case NetdevError::kCountLimit:
      return context_.count(C::kMsgCountLimit);
    case NetdevError::kBadValue:
      return context_.count(C::kMsgBadValue);
    case NetdevError::kNotParsed:
      return context_.count(C::kMsgNotParsed);
    case NetdevError::kNone:
    case NetdevError::kCount:
      break;
  }
}

}  // namespace weft::session
