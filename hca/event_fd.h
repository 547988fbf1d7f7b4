// hca/event_fd.h -- a descriptor that is readable while events wait: an eventfd in semaphore mode with one
// unit per event. A program may poll it and make it O_NONBLOCK, but may read it only through the calls of
// hca/.
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

/// Any thread. Every call except fd() makes a system call.
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
  /// pthread_cancel() may end the wait and unwind the callers, so no caller is noexcept or holds a lock.
  [[nodiscard]] Answer take();
  /// Takes one unit if there is one; never waits, even if the descriptor is not O_NONBLOCK.
  void take_back() noexcept;

 private:
  GuardedFd fd_;
};

/// A descriptor and the number of units still to be written to it. Owner: the holder of the device's lock.
struct EventSource {
  std::shared_ptr<EventFd> descriptor;
  int64_t owed = 0;             // units to write; negative: units to take back
  EventSource* next = nullptr;  // in the list of sources with units owed
  bool listed = false;
};

/// Errands without data: each is wanted or not.
struct Wants {
  bool kick_helper = false;
  bool start_helper = false;
  bool tell_destroyers = false;  // an acknowledgement came that a destroyer may wait for
  bool restock = false;          // a table runs short
  bool tell_failures = false;    // failures wait to be passed on
  bool tend_windows = false;     // memory windows have to be made or ended
  std::array<bool, 2> unused{};  // makes Wants one 64-bit word
};

/// System calls that the calls of a device need: noted under its lock, made after the lock is released.
/// Owner: the holder of the lock.
class Errands : public Wants {
 public:
  explicit Errands(fabric::WakeList& wakes) : wakes_(wakes) {}

  [[nodiscard]] bool empty() const noexcept {
    return owing_ == nullptr && wakes_.empty() && std::bit_cast<uint64_t>(static_cast<Wants>(*this)) == 0;
  }
  /// One more event of this source waits.
  void owe(EventSource& source) noexcept { add(source, 1); }
  /// `events` events of this source were dropped before they were taken.
  void take_back(EventSource& source, uint32_t events) noexcept { add(source, -int64_t{events}); }
  /// The source ends.
  void forget(const EventSource& source) noexcept;

  /// A bounded part of the errands. It keeps alive the objects that it needs.
  struct Bag : Wants {
    static constexpr size_t kMost = 8;
    struct Units {
      std::shared_ptr<EventFd> descriptor;
      int64_t count = 0;
    };
    std::array<std::shared_ptr<fabric::PeerBell>, kMost> bells;
    std::array<Units, kMost> units;
    /// Number of bells that ring() rings.
    [[nodiscard]] uint32_t peers() const noexcept {
      return static_cast<uint32_t>(
          std::count_if(bells.begin(), bells.end(), [](const auto& b) { return b != nullptr; }));
    }
    /// Rings the bells and writes or takes back the units, by system calls.
    void ring() noexcept;
  };
  /// Takes out one bag; call again until empty().
  [[nodiscard]] Bag take() noexcept;

 private:
  void add(EventSource& source, int64_t units) noexcept;

  fabric::WakeList& wakes_;
  EventSource* owing_ = nullptr;  // newest first, each source once
};

}  // namespace weft::hca
