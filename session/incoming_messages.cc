// How it works. Messages arrive here decoded by one of the two codecs. Each reason to refuse a message has
// its own counter, and the session goes on (PUSH-MSG-04).
#include "session/incoming_messages.h"

#include <algorithm>
#include <array>
#include <variant>

#include "base/endian.h"

namespace weft::session {

namespace {
using C = SessionCounter;
}

void IncomingMessages::take(std::span<const std::byte> bytes) noexcept {
  NetdevMessage message;
  if (!parts_.control.decode(bytes, message)) return;
  std::visit([&](const auto& body) { handle(message.context, body); }, message.body);
}

// ---- pools and frames ---------------------------------------------------------------------------

void IncomingMessages::handle(uint64_t, const BufferRecvPool& body) noexcept {
  for (const PoolAdvert& advert : body.pools) parts_.outbound.learn(advert);
  if (!parts_.end.decided() && parts_.outbound.knows_pools()) parts_.owner.on_peers_pool();
}

void IncomingMessages::handle(uint64_t, const BufferRecvPoolGet& body) noexcept {
  context_.count(C::kPoolGetsIn);
  if (!context_.rdma()) return context_.count(C::kMsgNotExpected);
  parts_.inbound.pools().grow(body.packet_bytes);
}

void IncomingMessages::handle(uint64_t, const BufferRecvPoolUpdate& body) noexcept {
  context_.count(C::kUpdatesIn);
  parts_.outbound.renew(body);
}

/// Pools of ours end at once; pools of the peer are not used any more, and the reply waits for the writes
/// under way (PUSH-FLUSH-02).
void IncomingMessages::handle(uint64_t context, const BufferPoolFlushRequest& body) noexcept {
  context_.count(C::kFlushRequestsIn);
  parts_.outbound.flush();
  OwnPools& pools = parts_.inbound.pools();
  for (const uint32_t reference : body.pools) {
    RecvPool* own = reference == kPoolOfReceiveWqes ? nullptr : pools.find(reference);
    if (own != nullptr && own->live()) {
      pools.flush(*own);
    } else if (reference == kPoolOfReceiveWqes || !parts_.outbound.forget(reference)) {
      context_.count(C::kFlushUnknownPool);
    }
  }
  pools.drop_spent();
  parts_.flush.reply_after(context, parts_.outbound.posted());
}

void IncomingMessages::handle(uint64_t context, const BufferPoolFlushReply&) noexcept {
  switch (parts_.flush.on_reply(context)) {
    case PoolFlush::Answer::kOurPools:
      return parts_.inbound.pools().flush_all();
    case PoolFlush::Answer::kPeersPools:
      return parts_.outbound.forget_all();
    case PoolFlush::Answer::kUnknown:
      break;
  }
}

void IncomingMessages::handle(uint64_t, const SendData& body) noexcept {
  parts_.inbound.on_send_data(body.data);
}

void IncomingMessages::handle(uint64_t, const BufferRdmaIndicate& body) noexcept {
  parts_.inbound.on_indications(body);
}

// ---- configuration ------------------------------------------------------------------------------

void IncomingMessages::handle(uint64_t context, const CfgUtilRequest& body) noexcept {
  if (parts_.control.full()) return context_.count(C::kConfigRepliesDropped);
  CfgReply reply;
  answer_request(body, reply);
  const NetdevMessage message{.context = context,
                              .body = CfgUtilReply{.request_class = body.request_class,
                                                   .code = body.code,
                                                   .status = static_cast<uint16_t>(reply.status),
                                                   .data = reply.view()}};
  if (!parts_.control.send(message) && !parts_.end.decided()) context_.count(C::kConfigRepliesDropped);
}

/// PUSH-CFG-02: every request gets an answer, even an unknown one.
void IncomingMessages::answer_request(const CfgUtilRequest& body, CfgReply& reply) noexcept {
  const bool utility = body.request_class == static_cast<uint16_t>(CfgClass::kUtility);
  if (utility && body.code == static_cast<uint16_t>(UtilityCode::kKeepalive))
    return on_keepalive(body, reply);
  context_.count(C::kConfigRequestsIn);
  const bool known_class = utility || body.request_class == static_cast<uint16_t>(CfgClass::kMacConfig);
  if (context_.events == nullptr || !known_class) {
    reply.status = CfgStatus::kUnknownRequest;
    return;
  }
  // The data lies in a receive slot or the codec's copy, which the reply will reuse: hand over a copy.
  std::array<std::byte, kCfgDataBytesMax> data;
  std::copy(body.data.begin(), body.data.end(), data.begin());
  context_.events->on_config_request(context_.self,
                                     {.request_class = static_cast<CfgClass>(body.request_class),
                                      .code = body.code,
                                      .data = std::span(data).first(body.data.size())},
                                     reply);
  reply.bytes = std::min(reply.bytes, kCfgDataBytesMax);
}

/// One keepalive and its reply show both sides that the other lives. A unit sends keepalives only if its host
/// does not, so an idle session costs one exchange per interval.
void IncomingMessages::on_keepalive(const CfgUtilRequest& body, CfgReply& reply) noexcept {
  context_.count(C::kKeepalivesIn);
  if (body.data.size() != 8) {
    reply.status = CfgStatus::kBadData;
    return;
  }
  parts_.inbound.on_promise(load_be<uint64_t>(body.data.data()));
  if (!context_.is_host() && !parts_.transactions.owes_promise(parts_.outbound.completed()))
    parts_.watch.was_asked();
}

void IncomingMessages::handle(uint64_t context, const CfgUtilReply& body) noexcept {
  parts_.transactions.on_reply(context, body);
}

}  // namespace weft::session
