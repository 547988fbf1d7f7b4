#include "session/pool_flush.h"

namespace weft::session {

namespace {
using C = SessionCounter;
constexpr uint32_t kRepliesMax = 16;
}  // namespace

PoolFlush::PoolFlush(SessionContext& context, ControlChannel& control)
    : context_(context), control_(control) {
  replies_.reset(kRepliesMax);
}

void PoolFlush::reply_after(uint64_t context, uint64_t after_frame) noexcept {
  if (!replies_.push({.context = context, .after_frame = after_frame})) {
    context_.count(C::kFlushRepliesDropped);
  }
}

bool PoolFlush::send_reply(uint64_t completed) noexcept {
  if (replies_.empty() || replies_.front().after_frame > completed) return false;
  if (!control_.send({.context = replies_.front().context, .body = BufferPoolFlushReply{}})) return false;
  replies_.pop();
  context_.count(C::kFlushRepliesOut);
  return true;
}

/// Sends the request once; true when it has left or there is nothing to flush (then `asked` is done).
bool PoolFlush::ask(const BufferPoolFlushRequest& body, Asked& asked) noexcept {
  if (asked.context != 0) return true;
  const uint64_t context = control_.next_context();
  if (body.pools.empty()) {
    asked = {.context = context, .done = true};
    return true;
  }
  if (!control_.send({.context = context, .body = body})) return false;
  context_.count(C::kFlushRequestsOut);
  asked = {.context = context, .done = false};
  return true;
}

bool PoolFlush::finish(const BufferPoolFlushRequest& ours, const BufferPoolFlushRequest& peers) noexcept {
  return ask(ours, ours_) && ask(peers, peers_) && ours_.done && peers_.done;
}

bool PoolFlush::answers(Asked& asked, uint64_t context) noexcept {
  if (context == 0 || context != asked.context || asked.done) return false;
  asked.done = true;
  return true;
}

PoolFlush::Answer PoolFlush::on_reply(uint64_t context) noexcept {
  const Answer answer = answers(ours_, context)    ? Answer::kOurPools
                        : answers(peers_, context) ? Answer::kPeersPools
                                                   : Answer::kUnknown;
  context_.count(answer == Answer::kUnknown ? C::kFlushReplyUnknown : C::kFlushRepliesIn);
  return answer;
}

}  // namespace weft::session
