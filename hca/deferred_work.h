// hca/deferred_work.h -- what a call of a device leaves for the moment at which it has released the lock:
// system calls, and work that allocates memory. Internal to hca/. docs/consumer.md.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "fabric/link/wake_list.h"
#include "hca/event_fd.h"

namespace weft::hca {

/// A descriptor and the number of units still to be written to it. Owner: the holder of the device's lock.
struct EventSource {
  std::shared_ptr<EventFd> descriptor;
  int64_t owed = 0;             // units to write; negative: units to take back
  EventSource* next = nullptr;  // in the list of sources with units owed
  bool listed = false;
};

/// Deferred work without data: each kind is wanted or not.
struct DeferredKinds {
  bool kick_helper = false;
  bool start_helper = false;
  bool tell_waiters = false;     // an acknowledgement came that a thread may wait for
  bool refill = false;           // a reserve runs short
  bool tell_failures = false;    // failures wait to be passed on
  bool tend_windows = false;     // memory windows have to be made or ended
  std::array<bool, 2> unused{};  // makes DeferredKinds one 64-bit word
};

/// Owner: the holder of the device's lock.
class DeferredWork : public DeferredKinds {
 public:
  explicit DeferredWork(fabric::WakeList& wakes) : wakes_(wakes) {}

  [[nodiscard]] bool empty() const noexcept {
    return owing_ == nullptr && wakes_.empty() &&
           std::bit_cast<uint64_t>(static_cast<DeferredKinds>(*this)) == 0;
  }
  /// One more event of this source waits.
  void owe(EventSource& source) noexcept { add(source, 1); }
  /// `events` events of this source were dropped before they were taken.
  void take_back(EventSource& source, uint32_t events) noexcept { add(source, -int64_t{events}); }
  /// The source ends.
  void forget(const EventSource& source) noexcept;

  /// A bounded part of the work. It keeps alive the objects that it needs.
  struct Batch : DeferredKinds {
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
  /// Takes out one batch; call again until empty().
  [[nodiscard]] Batch take() noexcept;

 private:
  void add(EventSource& source, int64_t units) noexcept;

  fabric::WakeList& wakes_;
  EventSource* owing_ = nullptr;  // newest first, each source once
};

}  // namespace weft::hca
