// adapter/transport/direct/direct_watch.h -- which of an adapter's memory windows get a turn. The cost of a
// turn does not grow with windows that stand still. docs/window.md, "Many windows".
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/clock.h"

namespace weft::adapter {

/// Up to this many windows each get a turn in each turn of the adapter: a record is seen before its bell.
inline constexpr size_t kFewWindows = 4;
/// Quiet windows whose bells are looked at in one turn.
inline constexpr size_t kQuietPerTurn = 4;
/// Turns without a bell after which a window is quiet.
inline constexpr uint32_t kTurnsUntilQuiet = 1024;
/// All windows get a turn after this time: a peer that dies rings no bell.
inline constexpr Duration kWindowSweepEvery = std::chrono::milliseconds(1);

/// A word that another thread or process steps, and its value when a window was looked at last.
struct WatchedWord {
  WatchedWord() = default;
  explicit WatchedWord(const std::atomic<uint64_t>* watched) noexcept
      : word(watched), heard(watched == nullptr ? 0 : watched->load(std::memory_order_acquire)) {}
  WatchedWord(const std::atomic<uint64_t>* watched, uint64_t before) noexcept
      : word(watched), heard(before) {}
  [[nodiscard]] bool stepped() const noexcept { return word->load(std::memory_order_acquire) != heard; }

  const std::atomic<uint64_t>* word = nullptr;
  uint64_t heard = 0;
};

/// Windows are named by their places, 0 and up, as in DirectService::peers_.
class DirectWatch {
 public:
  /// Room for this many. add() does not allocate then.
  void reserve(size_t windows);
  /// One more window, behind the others. It gets a turn in the next one.
  void add();
  /// Those behind it move up.
  void erase(size_t place) noexcept;
  /// Steps with each reserve(), add() and erase(): what call() gave is no longer valid.
  [[nodiscard]] uint64_t changes() const noexcept { return changes_; }
  /// The service has used the window: it gets a turn in the next one.
  void touch(size_t place) noexcept;
  /// The service has used the window and left nothing under way: it is active, and gets a turn when its words
  /// step.
  void use(size_t place) noexcept { activate(place); }

  /// The windows that are looked at in each turn. Stays as it is until changes() steps, but for further ones
  /// behind the others.
  [[nodiscard]] std::span<const uint32_t> active() const noexcept { return active_; }
  /// Records have come through the window, and it has no other cause for a turn.
  [[nodiscard]] bool has_record_alone(size_t place) const noexcept {
    const Watch& watch = watches_[place];
    return watch.due != Instant::min() && watch.bell.word != nullptr && !watch.bell.stepped() &&
           watch.head.stepped();
  }
  /// These records have been taken; `head`: as of rested().
  void taken(size_t place, const WatchedWord& head) noexcept {
    watches_[place].head = head;
    watches_[place].quiet = 0;
  }

  /// The windows that get a turn now, by their places. Valid until changes() steps.
  [[nodiscard]] std::span<const uint32_t> call(Instant now) noexcept;
  /// A window has had its turn. `bell`: without a word when it has none, so that it gets every turn; `head`:
  /// of its FIFO, which a peer may move without ringing; both as read before the turn. `due`: when it gets a
  /// turn without either, Instant::min() in the next one.
  void rested(size_t place, const WatchedWord& bell, const WatchedWord& head, Instant due) noexcept;
  /// False when call() would name none but windows that rest: those of a few, and quiet ones whose bells it
  /// has not looked at.
  [[nodiscard]] bool has_news(Instant now) const noexcept {
    return now >= sweep_at_ || now >= earliest_ ||
           std::any_of(active_.begin(), active_.end(),
                       [&](uint32_t place) { return watches_[place].calls(now); });
  }

  /// When a window gets a turn without a bell. `due_of(place)` tells it of a window that was touched.
  template <typename DueOf>
  [[nodiscard]] Instant next(DueOf due_of) const noexcept {
    Instant at = earliest_;
    for (const uint32_t place : active_) {
      if (watches_[place].due == Instant::min()) at = std::min(at, due_of(place));
    }
    return at;
  }

 private:
  struct Watch {
    WatchedWord bell;
    WatchedWord head;
    Instant due = Instant::min();
    uint32_t quiet = 0;  // turns
    bool active = false;

    [[nodiscard]] bool calls(Instant now) const noexcept {
      return due <= now || bell.word == nullptr || head.stepped() || bell.stepped();
    }
  };
  void activate(size_t place) noexcept;

  std::vector<Watch> watches_;
  std::vector<uint32_t> active_;  // looked at in each turn
  std::vector<uint32_t> due_;     // what call() gives
  uint64_t changes_ = 0;
  size_t cursor_ = 0;          // the next quiet one
  Instant earliest_ = kNever;  // no window that was not touched is due before
  Instant sweep_at_ = Instant::min();
};

}  // namespace weft::adapter
