// How it works: a window that is used, or whose bell has rung lately, is active, and its bell is looked at in
// each turn. Of the others a few are looked at in each turn, one after the other, so that each is seen after
// some turns; a thread that is about to sleep looks at all of them anyway (WindowEnd::prepare_sleep).
#include "adapter/transport/direct/direct_watch.h"

#include <algorithm>

namespace weft::adapter {

void DirectWatch::reserve(size_t windows) {
  ++changes_;
  watches_.reserve(windows);
  active_.reserve(windows);
  due_.reserve(windows);
}

void DirectWatch::add() {
  reserve(watches_.size() + 1);
  watches_.emplace_back();
  activate(watches_.size() - 1);
}

void DirectWatch::erase(size_t place) noexcept {
  ++changes_;
  watches_.erase(watches_.begin() + static_cast<ptrdiff_t>(place));
  active_.clear();
  due_.clear();
  for (size_t i = 0; i < watches_.size(); ++i) {
    watches_[i].active = false;
    activate(i);
  }
  sweep_at_ = Instant::min();
}

void DirectWatch::activate(size_t place) noexcept {
  Watch& watch = watches_[place];
  watch.quiet = 0;
  if (watch.active) return;
  watch.active = true;
  active_.push_back(static_cast<uint32_t>(place));
}

void DirectWatch::touch(size_t place) noexcept {
  watches_[place].due = Instant::min();
  activate(place);
}

std::span<const uint32_t> DirectWatch::call(Instant now) noexcept {
  due_.clear();
  if (watches_.size() <= kFewWindows || now >= sweep_at_ || now >= earliest_) {
    sweep_at_ = now + kWindowSweepEvery;
    earliest_ = kNever;  // rested() tells it again
    for (size_t i = watches_.size(); i-- > 0;) due_.push_back(static_cast<uint32_t>(i));
    return due_;
  }
  for (size_t i = 0; i < active_.size();) {
    Watch& watch = watches_[active_[i]];
    if (watch.calls(now)) {
      watch.quiet = 0;
      due_.push_back(active_[i++]);
    } else if (++watch.quiet < kTurnsUntilQuiet) {
      ++i;
    } else {
      watch.active = false;
      active_[i] = active_.back();
      active_.pop_back();
    }
  }
  for (size_t i = 0; i < kQuietPerTurn; ++i) {
    cursor_ = cursor_ + 1 < watches_.size() ? cursor_ + 1 : 0;
    if (watches_[cursor_].active || !watches_[cursor_].calls(now)) continue;
    activate(cursor_);
    due_.push_back(static_cast<uint32_t>(cursor_));
  }
  return due_;
}

void DirectWatch::rested(size_t place, const WatchedWord& bell, const WatchedWord& head,
                         Instant due) noexcept {
  Watch& watch = watches_[place];
  watch.bell = bell;
  watch.head = head;
  watch.due = due;
  if (due == Instant::min() || bell.word == nullptr) activate(place);
  if (due != Instant::min()) earliest_ = std::min(earliest_, due);
}

}  // namespace weft::adapter
