// Verbs of a raw pair beside Sends, writes and reads. Windows: each slot that the peer writes has its own
// key, bound before the write and ended after it; once an unbind has completed, neither data nor a completion
// may arrive. Fence: a fenced Send returns the data of the read before it. Drain: a send queue is drained and
// restarted; nothing completes in between. Lost memory: without acknowledgements, a region is deregistered
// while its message is sent; the send queue fails (SQE), later requests are flushed, and subsequent messages
// arrive intact or not at all.
#include <fmt/format.h>

#include <cstring>

#include "sim/raw/raw_pair.h"

namespace weft::sim {
namespace {

using namespace std::chrono_literals;

/// Time for which a queue stays drained.
constexpr Duration kDrainedTime = 200us;

}  // namespace

int RawPair::work_on_windows(uint32_t side, Instant now) {
  RawEnd& end = *ends_[side];
  if (nodes_[side]->frozen || stopped_ || end.send_queue() != RawEnd::SendQueue::kRuns) return 0;
  int work = end.renew_windows();
  if (plan_.verbs.revokes && random_.below(200) == 0 && end.revoke_slot()) {
    // The write may be under way; then it is refused, and the connection ends.
    error_has_reason_ = true;
    trace_.event(now, TraceKind::kWorkPosted, 0x300 | side, 0, 0);
    ++work;
  }
  return work;
}

int RawPair::work_on_send_queue(uint32_t side, Instant now) {
  using SendQueue = RawEnd::SendQueue;
  RawEnd& end = *ends_[side];
  if (nodes_[side]->frozen || state_ != State::kUp) return 0;
  if (end.memory_lent() && random_.below(4) == 0) end.take_memory();
  switch (end.send_queue()) {
    case SendQueue::kRuns:
      if (!plan_.verbs.drains || stopped_ || random_.below(100) != 0) return 0;
      if (end.failed()) return 0;  // completions of the failed QP have not been polled yet
      if (!end.move_to(adapter::QpState::kSqd)) violation(now, "SQD refused");
      end.set_send_queue(SendQueue::kDrains);
      return 1;
    case SendQueue::kDrains:
      if (!sends_polled_[side] || !end.take_drained()) return 0;
      end.set_send_queue(SendQueue::kDrained);
      restart_at_[side] = now + kDrainedTime;
      wake(restart_at_[side]);
      return 1;
    case SendQueue::kDrained:
      if (now < restart_at_[side]) {
        wake(restart_at_[side]);
        return 0;
      }
      break;
    case SendQueue::kFailed:
      if (!end.sends().empty()) return 0;  // later requests are still being flushed
      break;
  }
  if (end.failed()) return 0;
  if (!end.move_to(adapter::QpState::kRts)) violation(now, "RTS refused after SQD or SQE");
  end.set_send_queue(SendQueue::kRuns);
  return 1;
}

void RawPair::send_queue_drained(const adapter::ChannelAdapter* adapter, Qpn qpn) noexcept {
  for (uint32_t side = 0; side < 2; ++side) {
    const bool mine = ends_[side] != nullptr && ends_[side]->alive() && nodes_[side]->adapter == adapter;
    if (!mine || ends_[side]->qpn() != qpn) continue;
    ends_[side]->note_drained();
    look_again_ = true;
  }
}

/// A failed send queue without acknowledgements stays in SQE; any other failure ends the connection. Messages
/// before the one that failed are under way: they arrive, and take receive WQEs.
void RawPair::take_failed_send(uint32_t side, const RawEnd::Outstanding& what,
                               const adapter::WorkCompletion& wc, Instant now) {
  RawEnd& end = *ends_[side];
  if (!plan_.verbs.takes_memory || state_ != State::kUp)
    return broke("a work request failed", wc.status, now);
  const bool first = wc.status == adapter::WcStatus::kLocalProtection;
  const bool rest =
      wc.status == adapter::WcStatus::kFlushed && end.send_queue() == RawEnd::SendQueue::kFailed;
  if (!first && !rest) return broke("a work request failed", wc.status, now);
  const bool message = what.kind == RawEnd::Kind::kSend || what.kind == RawEnd::Kind::kWrite;
  if (message) ledger_.excuse_frame(flows_[side], what.frame);
  end.set_send_queue(RawEnd::SendQueue::kFailed);
  look_again_ = true;
}

/// Sends the data of a read back with a fence; the message also contains their source offset.
void RawPair::post_returned(uint32_t side, uint32_t bytes, uint32_t source_offset, Instant now) {
  adapter::SendRequest request;
  request.opcode = adapter::SendOpcode::kSendWithImm;
  request.flags = adapter::kSendFence;
  request.imm = source_offset;
  const adapter::PostResult result =
      ends_[side]->post(request, {.kind = RawEnd::Kind::kReturned, .bytes = bytes});
  if (result != adapter::PostResult::kOk && result != adapter::PostResult::kBadState)
    violation(now, fmt::format("post_send behind a fence: {}", to_string(result)));
}

void RawPair::take_returned(uint32_t side, const adapter::WorkCompletion& wc, Instant now) {
  RawEnd& end = *ends_[side];
  const bool inside = wc.byte_count <= plan_.bytes_max && wc.imm + uint64_t{wc.byte_count} <= kRawSourceBytes;
  if (!inside) return violation(now, fmt::format("{} bytes returned from offset {}", wc.byte_count, wc.imm));
  if (std::memcmp(end.receive_slot(wc.wr_id).data(), end.source_memory().data() + wc.imm, wc.byte_count) != 0)
    violation(now, "a fenced Send left before the read that it waited for had completed");
}

}  // namespace weft::sim
