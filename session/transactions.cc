#include "session/transactions.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/endian.h"

namespace weft::session {

namespace {
using C = SessionCounter;
}

Transactions::Transactions(SessionContext& context, ControlChannel& control)
    : context_(context), control_(control), places_(context.config.limits.config_requests) {}

bool Transactions::send(Place& place, const CfgRequest& request) noexcept {
  const uint64_t number = control_.next_context();
  const NetdevMessage message{
      .context = number,
      .body = CfgUtilRequest{.request_class = static_cast<uint16_t>(request.request_class),
                             .code = request.code,
                             .data = request.data}};
  if (!control_.send(message)) return false;
  place = {.context = number,
           .request_class = request.request_class,
           .code = request.code,
           .deadline = context_.now + context_.config.limits.config_timeout};
  return true;
}

uint64_t Transactions::start(const CfgRequest& request) noexcept {
  const auto place =
      std::find_if(places_.begin(), places_.end(), [](const Place& one) { return one.context == 0; });
  if (place == places_.end() || !send(*place, request)) return 0;
  ++open_;
  context_.count(C::kConfigRequestsOut);
  return place->context;
}

void Transactions::send_keepalive(uint64_t frames_sent) noexcept {
  std::array<std::byte, 8> data;
  store_be(data.data(), frames_sent);
  const CfgRequest request{.request_class = CfgClass::kUtility,
                           .code = static_cast<uint16_t>(UtilityCode::kKeepalive),
                           .data = data};
  if (!send(keepalive_, request)) return;
  context_.count(C::kKeepalivesOut);
  frames_told_ = {frames_sent, frames_told_[0]};
}

bool Transactions::owes_promise(uint64_t frames_sent) const noexcept {
  return context_.peer.mode == TransferMode::kSendReceive &&
         (frames_told_[0] != frames_sent || frames_told_[1] != frames_sent);
}

void Transactions::on_reply(uint64_t context, const CfgUtilReply& body) noexcept {
  const auto answers = [&](const Place& place) {
    return place.context == context && context != 0 &&
           static_cast<uint16_t>(place.request_class) == body.request_class && place.code == body.code;
  };
  if (answers(keepalive_)) {
    keepalive_ = {};
    return;
  }
  const auto place = std::find_if(places_.begin(), places_.end(), answers);
  if (place == places_.end()) return context_.count(C::kConfigReplyUnknown);
  *place = {};
  --open_;
  context_.count(C::kConfigRepliesIn);
  CfgReply reply;
  reply.status = static_cast<CfgStatus>(body.status);
  reply.bytes = static_cast<uint32_t>(body.data.size());
  std::copy(body.data.begin(), body.data.end(), reply.data.begin());
  if (context_.events != nullptr) context_.events->on_config_reply(context_.self, context, reply);
}

void Transactions::give_up(CfgStatus status, Instant until) noexcept {
  if (keepalive_.deadline <= until) keepalive_ = {};
  if (open_ == 0) return;
  for (Place& place : places_) {
    if (place.context == 0 || place.deadline > until) continue;
    const Place expired = std::exchange(place, {});
    --open_;
    context_.count(C::kConfigTimedOut);
    CfgReply reply;
    reply.status = status;
    if (context_.events != nullptr) context_.events->on_config_reply(context_.self, expired.context, reply);
  }
}

/// Earliest deadline of the requests. The keepalive has none: the next keepalive replaces it.
Instant Transactions::deadline() const noexcept {
  Instant next = kNever;
  if (open_ == 0) return next;
  for (const Place& place : places_) {
    if (place.context != 0) next = std::min(next, place.deadline);
  }
  return next;
}

}  // namespace weft::session
