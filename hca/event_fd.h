// hca/event_fd.h -- a descriptor that is readable while events wait: an eventfd in semaphore mode, one
// readable unit per event. A program may poll it, make it O_NONBLOCK and read it through the calls of hca/
// only.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/guarded_fd.h"
#include "fabric/link/wake_list.h"
#include "hca/answer.h"

namespace weft::hca {

/// Any thread. Every call but fd() is a system call.
class EventFd {
 public:
  /// Null when the process has no descriptor left.
  [[nodiscard]] static std::shared_ptr<EventFd> create();
  explicit EventFd(GuardedFd fd) : fd_(std::move(fd)) {}

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// For poll(): -1 once the program has closed the descriptor.
  [[nodiscard]] int poll_fd() const noexcept { return fd_.is_ours() ? fd_.get() : -1; }
  void add(uint64_t units) noexcept;
  /// Takes one unit; waits for it unless the descriptor is O_NONBLOCK. kOk, kAgain, kInterrupted.
  /// pthread_cancel() may end the wait, which unwinds the callers: none of them is noexcept or holds a
  /// lock.
  [[nodiscard]] Answer take();
  /// Takes one unit if there is one, whatever the descriptor's flags say.
  void take_back() noexcept;

 private:
  GuardedFd fd_;
};

/// A descriptor with the units it is owed. Owner: the holder of the device's lock.
struct EventSource {
  std::shared_ptr<EventFd> descriptor;
  int64_t owed = 0;             // units to write; negative: to take back
  EventSource* next = nullptr;  // of those that are owed something
  bool listed = false;
};

/// Errands that are wanted or not.
struct Wants {
  bool kick_helper = false;
  bool start_helper = false;
  bool tell_destroyers = false;  // an event was acknowledged that a destroyer may wait for
  bool restock = false;          // a table has little room left
  bool tell_failures = false;    // requests have failed that people may hear of
  std::array<bool, 3> unused{};  // one word in all
};

/// What the calls of a device want of the kernel: noted under its lock, done after it was given back.
/// Owner: the holder of the lock.
class Errands : public Wants {
 public:
  explicit Errands(fabric::WakeList& wakes) : wakes_(wakes) {}

  [[nodiscard]] bool empty() const noexcept {
    return owing_ == nullptr && wakes_.empty() && std::bit_cast<uint64_t>(static_cast<Wants>(*this)) == 0;
  }
  /// One more event of this source has come.
  void owe(EventSource& source) noexcept { add(source, 1); }
  /// Events of this source were dropped before they were taken.
  void take_back(EventSource& source, uint32_t events) noexcept { add(source, -int64_t{events}); }
  /// The source ends.
  void forget(const EventSource& source) noexcept;

  /// A part of what is to be done; it keeps alive what it needs.
  struct Bag : Wants {
    static constexpr size_t kMost = 8;
    struct Units {
      std::shared_ptr<EventFd> descriptor;
      int64_t count = 0;
    };
    std::array<std::shared_ptr<fabric::PeerBell>, kMost> bells;
    std::array<Units, kMost> units;
    /// Bells that ring() rings.
    [[nodiscard]] uint32_t peers() const noexcept {
      return static_cast<uint32_t>(
          std::count_if(bells.begin(), bells.end(), [](const auto& b) { return b != nullptr; }));
    }
    /// The system calls of bells and units.
    void ring() noexcept;
  };
  /// Call again until empty().
  [[nodiscard]] Bag take() noexcept;

 private:
  void add(EventSource& source, int64_t units) noexcept;

  fabric::WakeList& wakes_;
  EventSource* owing_ = nullptr;  // newest first, each once
};

}  // namespace weft::hca
