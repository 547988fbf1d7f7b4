#include "fabric/window/faulty_device.h"

#include <algorithm>

#include "fabric/window/window_words.h"

namespace weft::fabric {

bool FaultyDevice::post(const DmaRequest& request) noexcept {
  if (device_.peer() != PeerState::kUp) return false;
  const bool data = request.space == DmaSpace::kMemory || request.bytes > kWindowWordBytes;
  if (held_.size() + ended_.size() >= device_.limits().requests) return false;
  return (data && strike(request)) || device_.post(request);
}

/// True when the request is held or has failed.
bool FaultyDevice::strike(const DmaRequest& request) noexcept {
  WindowFaults::Judgement judged;
  if (faults_ != nullptr) judged = faults_->judge(now_);
  if (cut_by_peer_ && judged.verdict == WindowFaults::Verdict::kPass)
    judged = {WindowFaults::Verdict::kHold, kNever};
  if (judged.verdict == WindowFaults::Verdict::kFail) {
    ended_.push_back({request.token, DmaStatus::kFailed});
    return true;
  }
  if (judged.verdict == WindowFaults::Verdict::kPass && held_.empty()) return false;
  held_.push_back({request, judged.verdict == WindowFaults::Verdict::kPass ? now_ : judged.due});
  return true;
}

void FaultyDevice::release() noexcept {
  const bool cuts = cut();
  size_t left = 0;
  for (; left < held_.size() && !cuts; ++left) {
    const Held& first = held_[left];
    if ((first.due != kNever && first.due > now_) || !device_.post(first.request)) break;
  }
  held_.erase(held_.begin(), held_.begin() + static_cast<ptrdiff_t>(left));
}

int FaultyDevice::poll(Instant now) noexcept {
  now_ = now;
  int work = device_.poll(now);
  if (device_.peer() == PeerState::kGone) {
    for (const Held& held : held_) ended_.push_back({held.request.token, DmaStatus::kPeerGone});
    held_.clear();
  }
  const size_t before = held_.size();
  release();
  if (held_.size() != before) {
    device_.flush();
    ++work;
  }
  return work;
}

uint32_t FaultyDevice::completions(std::span<DmaCompletion> out) noexcept {
  const size_t count = std::min(out.size(), ended_.size());
  std::copy_n(ended_.begin(), count, out.begin());
  ended_.erase(ended_.begin(), ended_.begin() + static_cast<ptrdiff_t>(count));
  return static_cast<uint32_t>(count) + device_.completions(out.subspan(count));
}

bool FaultyDevice::has_failed(uint64_t mask, uint64_t bits) const noexcept {
  return std::any_of(ended_.begin(), ended_.end(),
                     [=](const DmaCompletion& done) { return (done.token & mask) == bits; });
}

void FaultyDevice::abandon(uint64_t mask, uint64_t bits) noexcept {
  std::erase_if(held_, [&](const Held& held) {
    if ((held.request.token & mask) != bits) return false;
    ended_.push_back({held.request.token, DmaStatus::kFailed});
    return true;
  });
  device_.abandon(mask, bits);
}

Instant FaultyDevice::deadline() const noexcept {
  if (!ended_.empty()) return Instant::min();
  Instant at = device_.deadline();
  if (faults_ != nullptr) at = std::min(at, faults_->next_change(now_));
  if (held_.empty() || cut()) return at;
  return held_.front().due == kNever ? Instant::min() : std::min(at, held_.front().due);
}

}  // namespace weft::fabric
