// How it works. What has to be said on channel 0 is not queued as messages but kept as state: pools to
// advertise, freed elements, writes to indicate, replies that wait for writes. send_pending() turns it into
// messages when a send slot is free, so a slow peer costs nothing but delay and many small facts become one
// message. Replies to requests leave at once. Whatever the peer sends is decoded by one of the two codecs,
// and each reason to refuse it has its own counter; the session goes on (PUSH-MSG-04).
#include <algorithm>

#include "base/endian.h"
#include "base/log.h"
#include "messages/netdev_bytes.h"
#include "session/session_core.h"

namespace weft::session {

namespace {

/// Send slots that renewals leave free for everything else.
constexpr uint32_t kSlotsForOthers = 16;
/// Freed elements are renewed once they are this part of their pool.
constexpr uint32_t kRenewShare = 4;
constexpr Duration kGetIntervalMax = std::chrono::seconds(10);

}  // namespace

// ---- outbound -----------------------------------------------------------------------------------

size_t NetdevSession::Core::encode(const NetdevMessage& message, std::span<std::byte> out) noexcept {
  if (peer_.encoding == MessageEncoding::kBytes) return encode_netdev_bytes(message, out);
  return capnp_.encode(message, out);
}

bool NetdevSession::Core::send_message(const NetdevMessage& message) noexcept {
  if (!moving() || !connected_) return false;
  const std::span<std::byte> slot = channels_.control_slot();
  if (slot.empty()) return false;
  const size_t bytes = encode(message, slot.first(std::min<size_t>(slot.size(), peer_message_bytes_)));
  if (bytes == 0) return false;
  uint32_t number = 0;
  if (channels_.send_control(static_cast<uint32_t>(bytes), number) != adapter::PostResult::kOk) {
    fail(C::kLostQpError);
    return false;
  }
  if (const auto* indicate = std::get_if<BufferRdmaIndicate>(&message.body)) {
    slot_indications_[number] = indicate->used.size();
  }
  return true;
}

int NetdevSession::Core::send_pending() noexcept {
  if (!moving() || !connected_) return 0;
  int work = 0;
  work += static_cast<int>(send_adverts());
  work += static_cast<int>(send_flush_replies());
  work += static_cast<int>(send_indications());
  if (renewal_due()) work += static_cast<int>(send_updates());
  return work;
}

/// New pools, several in one message (PUSH-POOL-05).
bool NetdevSession::Core::send_adverts() noexcept {
  const bool any = std::any_of(own_pools_.begin(), own_pools_.end(),
                               [](const OwnPool& own) { return own.advert_pending && own.pool->live(); });
  if (!any) return false;
  BufferRecvPool body;
  for (OwnPool& own : own_pools_) {
    if (!own.advert_pending || !own.pool->live() || body.pools.full()) continue;
    PoolAdvert advert = own.pool->advert();
    if (advert.pool == kPoolOfReceiveWqes) {
      advert.address = 0;  // nobody writes there by address
      advert.element_bytes = peer_.frame_bytes_max;
    }
    body.pools.push_back(advert);
  }
  if (body.pools.empty() || !send_message({.context = next_context_++, .body = body})) return false;
  for (const PoolAdvert& sent : body.pools) {
    for (OwnPool& own : own_pools_) {
      if (own.pool->reference() == sent.pool) own.advert_pending = false;
    }
  }
  counters_.add(C::kPoolsAdvertised, body.pools.size());
  return true;
}

bool NetdevSession::Core::send_flush_replies() noexcept {
  if (flush_replies_.empty() || flush_replies_.front().after_frame > out_first_) return false;
  if (!indications_.empty()) return false;  // of writes before the reply
  if (!send_message({.context = flush_replies_.front().context, .body = BufferPoolFlushReply{}}))
    return false;
  flush_replies_.pop();
  counters_.add(C::kFlushRepliesOut);
  return true;
}

/// Writes that have completed (decisions 2.17), in their order.
bool NetdevSession::Core::send_indications() noexcept {
  if (indications_.empty()) return false;
  BufferRdmaIndicate body;
  while (!body.used.full() && body.used.size() < indications_.size()) {
    body.used.push_back(indications_.at(body.used.size()));
  }
  if (!send_message({.context = next_context_++, .body = body})) return false;
  for (uint32_t i = 0; i < body.used.size(); ++i) indications_.pop();
  counters_.add(C::kIndicationsOut, body.used.size());
  return true;
}

/// A quarter of a pool is worth a message, however the rest of it is used; less waits for the delay.
bool NetdevSession::Core::renewal_due() const noexcept {
  if (renew_at_ == kNever) return false;
  if (now_ >= renew_at_) return true;
  return std::any_of(own_pools_.begin(), own_pools_.end(), [&](const OwnPool& own) {
    return own.pool->freed() != 0 && own.pool->freed() * kRenewShare >= own.pool->elements();
  });
}

/// Pools whose flush has been asked are the peer's no more.
bool NetdevSession::Core::can_renew() const noexcept {
  return own_flush_.context == 0 && channels_.free_control_slots() > kSlotsForOthers;
}

bool NetdevSession::Core::send_updates() noexcept {
  if (!can_renew()) return false;
  BufferRecvPoolUpdate body;
  uint32_t renewed = 0;
  for (OwnPool& own : own_pools_) {
    if (!own.pool->live() || own.advert_pending) continue;
    PoolRun run;
    while (!body.runs.full() && own.pool->take_run(run)) {
      body.runs.push_back(run);
      renewed += run.count;
    }
  }
  const bool more = body.runs.full();
  renew_at_ = more ? now_ : kNever;
  if (body.runs.empty()) return false;
  // A slot is free, so only a lost session keeps this from leaving.
  if (!send_message({.context = next_context_++, .body = body})) return false;
  counters_.add(C::kUpdatesOut);
  counters_.add(C::kElementsRenewed, renewed);
  return true;
}

/// Asks for a further pool when a size runs low; silence is no error, so it asks ever more rarely
/// (PUSH-POOL-08).
void NetdevSession::Core::maybe_get() noexcept {
  BufferRecvPoolGet body;
  if (now_ < get_at_ || !remote_.running_low(body)) return;
  if (!send_message({.context = next_context_++, .body = body})) return;
  counters_.add(C::kPoolGetsOut);
  get_at_ = now_ + get_interval_;
  get_interval_ = std::min(get_interval_ * 2, kGetIntervalMax);
}

void NetdevSession::Core::send_keepalive() noexcept {
  if (!connected_) return;
  std::array<std::byte, 8> data;
  store_be(data.data(), out_first_);
  const CfgRequest request{.request_class = CfgClass::kUtility,
                           .code = static_cast<uint16_t>(UtilityCode::kKeepalive),
                           .data = data};
  if (start_transaction(request, true) == 0) return;
  counters_.add(C::kKeepalivesOut);
  frames_told_ = {out_first_, frames_told_[0]};
}

/// Frames may have been lost without notice, and the peer has not yet been told twice how many there were.
bool NetdevSession::Core::owes_promise() const noexcept {
  return peer_.mode == TransferMode::kSendReceive &&
         (frames_told_[0] != out_first_ || frames_told_[1] != out_first_);
}

uint64_t NetdevSession::Core::start_transaction(const CfgRequest& request, bool internal) noexcept {
  // One place is the keepalive's; a keepalive that was not answered makes room for the next.
  const size_t first = internal ? 0 : 1;
  const size_t end = internal ? 1 : transactions_.size();
  for (size_t i = first; i < end; ++i) {
    Transaction& place = transactions_[i];
    if (place.context != 0 && !internal) continue;
    const uint64_t context = next_context_++;
    const NetdevMessage message{
        .context = context,
        .body = CfgUtilRequest{.request_class = static_cast<uint16_t>(request.request_class),
                               .code = request.code,
                               .data = request.data}};
    if (!send_message(message)) return 0;
    if (place.context == 0) ++transactions_open_;
    place = {.context = context,
             .request_class = request.request_class,
             .code = request.code,
             .deadline = now_ + config_.limits.config_timeout,
             .internal = internal};
    return context;
  }
  return 0;
}

uint64_t NetdevSession::Core::request_config(const CfgRequest& request) noexcept {
  if (state_ != SessionState::kOpen || request.data.size() > kCfgDataBytesMax) return 0;
  const uint64_t context = start_transaction(request, false);
  if (context != 0) counters_.add(C::kConfigRequestsOut);
  return context;
}

/// Sends the request once; true when it has left or there is nothing to flush (then `asked` is done).
bool NetdevSession::Core::ask_flush(const BufferPoolFlushRequest& body, FlushAsked& asked) noexcept {
  if (asked.context != 0) return true;
  const uint64_t context = next_context_++;
  if (body.pools.empty()) {
    asked = {.context = context, .done = true};
    return true;
  }
  if (!send_message({.context = context, .body = body})) return false;
  counters_.add(C::kFlushRequestsOut);
  asked = {.context = context, .done = false};
  return true;
}

// ---- inbound ------------------------------------------------------------------------------------

void NetdevSession::Core::on_message(std::span<const std::byte> bytes) noexcept {
  NetdevMessage message;
  const NetdevError error = peer_.encoding == MessageEncoding::kBytes ? decode_netdev_bytes(bytes, message)
                                                                      : capnp_.decode(bytes, message);
  if (error != NetdevError::kNone) return refuse_message(error);
  std::visit([&](const auto& body) { handle(message.context, body); }, message.body);
}

void NetdevSession::Core::refuse_message(NetdevError error) noexcept {
  if (message_log_.allow(now_)) {
    log(LogLevel::kWarn, "{}: message from lid {} dropped: {}; {} more since the last notice", config_.name,
        peer_.lid.value(), to_string(error), message_log_.suppressed());
  }
  switch (error) {
    case NetdevError::kTooShort:
      return counters_.add(C::kMsgTooShort);
    case NetdevError::kUnknownFunction:
      return counters_.add(C::kMsgUnknownFunction);
    case NetdevError::kWrongVersion:
      return counters_.add(C::kMsgWrongVersion);
    case NetdevError::kLengthMismatch:
      return counters_.add(C::kMsgLengthMismatch);
    case NetdevError::kCountLimit:
      return counters_.add(C::kMsgCountLimit);
    case NetdevError::kBadValue:
      return counters_.add(C::kMsgBadValue);
    case NetdevError::kNotParsed:
      return counters_.add(C::kMsgNotParsed);
    case NetdevError::kNone:
    case NetdevError::kCount:
      break;
  }
}

void NetdevSession::Core::handle(uint64_t, const BufferRecvPool& body) noexcept {
  for (const PoolAdvert& advert : body.pools) learn_pool(advert);
  if (!remote_.empty()) opened();
}

void NetdevSession::Core::learn_pool(const PoolAdvert& advert) noexcept {
  if ((advert.pool == kPoolOfReceiveWqes) == rdma()) return counters_.add(C::kMsgNotExpected);
  const uint32_t theirs =
      config_.role == SessionRole::kHost ? kPoolReferenceFirstUnit : kPoolReferenceFirstHost;
  if (rdma() && advert.pool % kPoolReferenceStep != theirs) return counters_.add(C::kPoolRefTaken);
  RemotePoolFault fault = RemotePoolFault::kLimit;
  try {
    fault = remote_.add(advert);
  } catch (const std::bad_alloc&) {
    fault = RemotePoolFault::kLimit;
  }
  if (fault == RemotePoolFault::kTaken) return counters_.add(C::kPoolRefTaken);
  if (fault != RemotePoolFault::kNone) return counters_.add(C::kPoolLimit);
  counters_.add(C::kPoolsLearnt);
  // From here on for good: idata and messages are never mixed (decisions 2.17). A write posted before has
  // completed before the first message can be sent.
  if (rdma() && !remote_.all_by_idata()) indicate_mode_ = true;
  get_interval_ = config_.limits.connect_interval;
}

void NetdevSession::Core::handle(uint64_t, const BufferRecvPoolGet& body) noexcept {
  counters_.add(C::kPoolGetsIn);
  if (!rdma()) return counters_.add(C::kMsgNotExpected);
  const auto fits = std::find_if(config_.pools.begin(), config_.pools.end(), [&](const PoolClass& pools) {
    return pools.element_bytes >= body.packet_bytes;
  });
  const auto wanted = static_cast<uint32_t>(fits - config_.pools.begin());
  // A flushed pool counts as long as the driver has frames in it: inbound_ and memory have room for no more.
  const auto have = std::count_if(own_pools_.begin(), own_pools_.end(),
                                  [&](const OwnPool& own) { return own.pool_class == wanted; });
  const bool allowed = fits != config_.pools.end() && have < config_.limits.pools_per_class &&
                       now_ >= grow_at_ && state_ != SessionState::kClosing;
  if (!allowed || !add_pool(wanted)) return counters_.add(C::kPoolGetsRefused);
  grow_at_ = now_ + config_.limits.grow_interval;
}

void NetdevSession::Core::handle(uint64_t, const BufferRecvPoolUpdate& body) noexcept {
  counters_.add(C::kUpdatesIn);
  for (const PoolRun& run : body.runs) {
    uint32_t renewed = 0;
    switch (remote_.renew(run, renewed)) {
      case RemotePoolFault::kUnknown:
        counters_.add(C::kPoolRefUnknown);
        break;
      case RemotePoolFault::kRange:
        counters_.add(C::kPoolElementRange);
        break;
      case RemotePoolFault::kNotConsumed:
        counters_.add(C::kPoolRenewNotConsumed);
        break;
      case RemotePoolFault::kNone:
      case RemotePoolFault::kTaken:
      case RemotePoolFault::kLimit:
      case RemotePoolFault::kCount:
        break;
    }
  }
}

/// Pools of ours end at once; pools of the peer are not used any more, and the reply waits for the writes
/// under way (PUSH-FLUSH-02).
void NetdevSession::Core::handle(uint64_t context, const BufferPoolFlushRequest& body) noexcept {
  counters_.add(C::kFlushRequestsIn);
  flush();
  for (const uint32_t reference : body.pools) {
    RecvPool* own = reference == kPoolOfReceiveWqes ? nullptr : own_pool(reference);
    if (own != nullptr && own->live()) {
      flush_own_pool(*own);
    } else if (reference == kPoolOfReceiveWqes || !remote_.remove(reference)) {
      counters_.add(C::kFlushUnknownPool);
    }
  }
  drop_spent_pools();
  if (!flush_replies_.push({.context = context, .after_frame = out_first_ + out_posted_})) {
    counters_.add(C::kFlushRepliesDropped);
  }
}

void NetdevSession::Core::flush_own_pool(RecvPool& pool) noexcept {
  channels_.deregister(pool.lkey());
  pool.retire();
  counters_.add(C::kPoolsFreed);
}

void NetdevSession::Core::handle(uint64_t context, const BufferPoolFlushReply&) noexcept {
  if (context == own_flush_.context && context != 0 && !own_flush_.done) {
    own_flush_.done = true;
    for (OwnPool& own : own_pools_) {
      if (own.pool->live() && own.pool->reference() != kPoolOfReceiveWqes) flush_own_pool(*own.pool);
    }
    drop_spent_pools();
  } else if (context == peer_flush_.context && context != 0 && !peer_flush_.done) {
    peer_flush_.done = true;
    remote_.clear();
  } else {
    return counters_.add(C::kFlushReplyUnknown);
  }
  counters_.add(C::kFlushRepliesIn);
}

void NetdevSession::Core::handle(uint64_t, const SendData& body) noexcept {
  if (peer_.mode != TransferMode::kSendDataOnly) return counters_.add(C::kMsgNotExpected);
  on_send_data(body.data);
}

void NetdevSession::Core::handle(uint64_t, const BufferRdmaIndicate& body) noexcept {
  if (!rdma()) return counters_.add(C::kMsgNotExpected);
  for (const Indication& used : body.used) {
    RecvPool* pool = own_pool(used.pool);
    if (pool == nullptr) return pool_missing(used.pool);
    if (!check_fault(pool->check_indication(used))) return;
    counters_.add(C::kIndicationsIn);
    indicate(*pool, used.element, used.data_bytes);
  }
}

// ---- configuration ------------------------------------------------------------------------------

void NetdevSession::Core::handle(uint64_t context, const CfgUtilRequest& body) noexcept {
  if (channels_.free_control_slots() == 0) return counters_.add(C::kConfigRepliesDropped);
  CfgReply reply;
  answer_request(body, reply);
  const NetdevMessage message{.context = context,
                              .body = CfgUtilReply{.request_class = body.request_class,
                                                   .code = body.code,
                                                   .status = static_cast<uint16_t>(reply.status),
                                                   .data = reply.view()}};
  if (!send_message(message) && !loss_) counters_.add(C::kConfigRepliesDropped);
}

/// PUSH-CFG-02: every request has an answer, also one that nobody knows.
void NetdevSession::Core::answer_request(const CfgUtilRequest& body, CfgReply& reply) noexcept {
  const bool utility = body.request_class == static_cast<uint16_t>(CfgClass::kUtility);
  if (utility && body.code == static_cast<uint16_t>(UtilityCode::kKeepalive))
    return on_keepalive(body, reply);
  counters_.add(C::kConfigRequestsIn);
  const bool known_class = utility || body.request_class == static_cast<uint16_t>(CfgClass::kMacConfig);
  if (events_ == nullptr || !known_class) {
    reply.status = CfgStatus::kUnknownRequest;
    return;
  }
  // The data lies in a receive slot or the codec's copy, which the reply will reuse: hand over a copy.
  std::array<std::byte, kCfgDataBytesMax> data;
  std::copy(body.data.begin(), body.data.end(), data.begin());
  events_->on_config_request(self_,
                             {.request_class = static_cast<CfgClass>(body.request_class),
                              .code = body.code,
                              .data = std::span(data).first(body.data.size())},
                             reply);
  reply.bytes = std::min(reply.bytes, kCfgDataBytesMax);
}

/// The count of frames tells when the last ones before a pause were lost on an unacknowledged channel: what
/// was promised in one keepalive must be here before the next.
void NetdevSession::Core::on_keepalive(const CfgUtilRequest& body, CfgReply& reply) noexcept {
  counters_.add(C::kKeepalivesIn);
  if (body.data.size() != 8) {
    reply.status = CfgStatus::kBadData;
    return;
  }
  if (peer_.mode == TransferMode::kSendReceive && frames_arrived_ < frames_promised_) fail(C::kLostGap);
  frames_promised_ = load_be<uint64_t>(body.data.data());
  if (config_.role != SessionRole::kUnit || keepalive_at_ == kNever || owes_promise()) return;
  // One question and its answer show both sides that the other lives: a unit asks only when nobody asks it,
  // so that an idle session costs one exchange in an interval.
  keepalive_at_ = now_ + config_.limits.keepalive_interval * 5 / 4;
  update_gauges();
}

void NetdevSession::Core::handle(uint64_t context, const CfgUtilReply& body) noexcept {
  const auto place =
      std::find_if(transactions_.begin(), transactions_.end(), [&](const Transaction& transaction) {
        return transaction.context == context && context != 0 &&
               static_cast<uint16_t>(transaction.request_class) == body.request_class &&
               transaction.code == body.code;
      });
  if (place == transactions_.end()) return counters_.add(C::kConfigReplyUnknown);
  const bool internal = place->internal;
  *place = {};
  --transactions_open_;
  if (internal) return;
  counters_.add(C::kConfigRepliesIn);
  CfgReply reply;
  reply.status = static_cast<CfgStatus>(body.status);
  reply.bytes = static_cast<uint32_t>(body.data.size());
  std::copy(body.data.begin(), body.data.end(), reply.data.begin());
  if (events_ != nullptr) events_->on_config_reply(self_, context, reply);
}

}  // namespace weft::session
