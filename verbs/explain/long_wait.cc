#include "verbs/explain/long_wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>
#include <utility>

#include "base/out_of_memory.h"
#include "verbs/explain/explain.h"

namespace weft::verbs {
namespace {

/// "1 send request waits", "2 send requests wait".
std::string counted(uint32_t count, std::string_view kind, std::string_view one, std::string_view many) {
  return fmt::format("{} {} request{} {}", count, kind, count == 1 ? "" : "s", count == 1 ? one : many);
}

/// What completes into the CQ from this QP, or why nothing does.
std::string words_of(const adapter::QpLoad& qp) {
  std::string out = fmt::format("QP {:#x} ({})", qp.qpn.value(), to_string(qp.state));
  const size_t head = out.size();
  const auto add = [&](const std::string& text) { out += (out.size() == head ? ": " : ", ") + text; };
  if (qp.sends_here && qp.sends != 0)
    add(counted(qp.sends, "send", "waits for the peer", "wait for the peer"));
  if (qp.sends_here && qp.silent != 0)
    add(counted(qp.silent, "send", "has ended without IBV_SEND_SIGNALED and gives",
                "have ended without IBV_SEND_SIGNALED and give") +
        " no completion (set it in send_flags, or sq_sig_all in ibv_create_qp)");
  if (qp.receives_here && qp.receives != 0)
    add(counted(qp.receives, "receive", "waits for a message of the peer", "wait for messages of the peer"));
  if (out.size() == head) add("no request of this QP waits");
  if (qp.state == adapter::QpState::kReset || qp.state == adapter::QpState::kInit)
    add("it receives nothing before RTR (ibv_modify_qp)");
  return out;
}

/// Some request can still complete into the CQ.
bool expects(const adapter::QpLoad& qp) noexcept {
  return (qp.sends_here && qp.sends != 0) || (qp.receives_here && qp.receives != 0);
}

int64_t now_ns() noexcept {
  return MonotonicClock().now().time_since_epoch().count();
}

}  // namespace

std::string empty_poll_words(std::span<const adapter::QpLoad> loads, uint32_t qps) {
  std::string out = fmt::format("ibv_poll_cq: the CQ has been empty for {} s of polls",
                                std::chrono::duration_cast<std::chrono::seconds>(kLongWait).count());
  if (qps == 0) return out + ": no QP has it as send_cq or recv_cq; poll the CQ that ibv_create_qp was given";
  bool waits = qps > loads.size();
  for (const adapter::QpLoad& qp : loads) {
    out += "; " + words_of(qp);
    waits = waits || expects(qp);
  }
  if (qps > loads.size()) out += fmt::format("; and {} QPs more", qps - loads.size());
  if (!waits)
    out +=
        "; nothing can complete here: post a request first. A peer's RDMA write, read or atomic makes no "
        "completion on this side; IBV_WR_RDMA_WRITE_WITH_IMM and sends do, and each needs a posted receive";
  return out;
}

void EmptyPolls::polled(const hca::Cq& cq, int got) noexcept {
  if (got != 0) {
    since_ns_.store(0, std::memory_order_relaxed);
    told_.store(false, std::memory_order_relaxed);
    return;
  }
  if (told_.load(std::memory_order_relaxed)) return;
  const int64_t now = now_ns();
  const int64_t since = since_ns_.load(std::memory_order_relaxed);
  if (since == 0) return since_ns_.store(now, std::memory_order_relaxed);
  if (Duration(now - since) >= kLongWait && !told_.exchange(true, std::memory_order_relaxed)) tell(cq);
}

void EmptyPolls::tell(const hca::Cq& cq) noexcept {
  static_cast<void>(with_memory([&] {
    std::array<adapter::QpLoad, kQpsNamed> loads;
    uint32_t qps = 0;
    if (!cq.loads(loads, qps)) return;
    const std::string line =
        empty_poll_words(std::span(loads).first(std::min<size_t>(qps, loads.size())), qps);
    const size_t hash = std::hash<std::string>()(line);
    if (last_.exchange(hash, std::memory_order_relaxed) != hash) explain_line(line);
  }));
}

LongWaits::Call::Call(LongWaits* all, Words words, const void* of) noexcept
    : all_(all), words_(words), of_(of) {
  if (all_ == nullptr) return;
  since_ = MonotonicClock().now();
  const std::lock_guard guard(all_->mutex_);
  next_ = std::exchange(all_->first_, this);
  all_->count_.fetch_add(1, std::memory_order_relaxed);
}

LongWaits::Call::~Call() {
  if (all_ == nullptr) return;
  const std::lock_guard guard(all_->mutex_);
  Call** at = &all_->first_;
  while (*at != this) at = &(*at)->next_;
  *at = next_;
  all_->count_.fetch_sub(1, std::memory_order_relaxed);
}

void LongWaits::look() noexcept {
  if (count_.load(std::memory_order_relaxed) == 0) return;
  const Instant now = MonotonicClock().now();
  const std::lock_guard guard(mutex_);
  for (Call* call = first_; call != nullptr; call = call->next_) {
    if (call->told_ || now - call->since_ < kLongWait) continue;
    call->told_ = true;
    static_cast<void>(with_memory([&] {
      const std::string line = call->words_(call->of_);
      if (!line.empty()) explain_line(line);
    }));
  }
}

}  // namespace weft::verbs
