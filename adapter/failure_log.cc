#include "adapter/failure_log.h"

#include <algorithm>

namespace weft::adapter {

FailedWork work_of(WcOpcode opcode) noexcept {
  switch (opcode) {
    case WcOpcode::kSend:
      return FailedWork::kSend;
    case WcOpcode::kRdmaWrite:
      return FailedWork::kWrite;
    case WcOpcode::kRdmaRead:
      return FailedWork::kRead;
    case WcOpcode::kCompareSwap:
    case WcOpcode::kFetchAdd:
      return FailedWork::kAtomic;
    case WcOpcode::kBindWindow:
      return FailedWork::kBind;
    case WcOpcode::kLocalInvalidate:
      return FailedWork::kInvalidate;
    case WcOpcode::kRegister:
      return FailedWork::kRegister;
    case WcOpcode::kRecv:
    case WcOpcode::kRecvRdmaWithImm:
    case WcOpcode::kRdataIndicate:
      return FailedWork::kReceive;
    case WcOpcode::kDelay:
      break;
  }
  return FailedWork::kNone;
}

FailedWork work_of(Opcode opcode) noexcept {
  const uint32_t properties = opcode_properties(static_cast<uint8_t>(opcode));
  const bool writes = (properties & kOpWritesMemory) != 0;
  if ((properties & kOpReadsMemory) != 0) return writes ? FailedWork::kAtomic : FailedWork::kRead;
  if (writes) return FailedWork::kWrite;
  return (properties & kOpNeedsRecvWqe) != 0 ? FailedWork::kSend : FailedWork::kNone;
}

void FailureLog::add(const Failure& failure) noexcept {
  if (!ring_.push(failure)) {
    ring_.pop();  // the oldest
    static_cast<void>(ring_.push(failure));
  }
  if (flag_ != nullptr) *flag_ = true;
}

bool FailureLog::take(Failure& out) noexcept {
  if (ring_.empty()) return false;
  out = ring_.front();
  ring_.pop();
  return true;
}

bool FailureLog::note(const Stray& stray, Instant now, Duration span) noexcept {
  auto* at = std::find_if(seen_.begin(), seen_.end(), [&](const Seen& one) { return one.stray == stray; });
  if (at == seen_.end()) {
    at = &seen_[next_seen_];
    next_seen_ = (next_seen_ + 1) % kStrayKinds;
    *at = {.stray = stray, .first = now};
  }
  ++at->times;
  if (at->told || at->times < kStrayTimes || now - at->first < span || strays_told_ == kStraysMost)
    return false;
  at->told = true;
  ++strays_told_;
  return true;
}

}  // namespace weft::adapter
