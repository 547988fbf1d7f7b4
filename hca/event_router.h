// hca/event_router.h -- the way of an adapter's events to the program: asynchronous events go to the contexts
// that they concern, notifications to the completion queue's object. It also counts the acknowledgements that
// a destroying thread waits for. Internal to hca/.
#pragma once

#include <atomic>
#include <cstdint>

#include "adapter/adapter.h"
#include "hca/deferred_work.h"
#include "hca/events.h"
#include "hca/object.h"

namespace weft::hca {

/// Owner: the holder of the device's lock, except for calls that say otherwise.
class EventRouter {
 public:
  EventRouter(adapter::ChannelAdapter& adapter, DeferredWork& deferred)
      : adapter_(adapter), deferred_(deferred) {}

  void add(ContextBase& context) noexcept;
  void forget(ContextBase& context) noexcept;
  [[nodiscard]] bool has_contexts() const noexcept { return contexts_ != nullptr; }

  /// Delivers all asynchronous events of the adapter.
  void deliver_events() noexcept;
  /// Delivers the notifications of completion queues.
  void deliver_notifications() noexcept;
  /// Gives the event to the context of its object, or to all contexts.
  void raise(const AsyncEvent& event) noexcept;

  /// The program has acknowledged events of `object` that it took.
  void acknowledge(Object& object, uint32_t events) noexcept;
  /// A thread begins and ends to wait for acknowledgements.
  void begin_wait() noexcept { ++waiters_; }
  void end_wait() noexcept { --waiters_; }
  /// Steps with each acknowledgement.
  [[nodiscard]] uint32_t acknowledged() const noexcept {
    return acknowledgements_.load(std::memory_order_relaxed);
  }
  /// Without the lock: waits until acknowledged() is not `seen`.
  void wait(uint32_t seen) const noexcept { acknowledgements_.wait(seen, std::memory_order_relaxed); }
  /// Without the lock: ends the wait of all threads.
  void tell_waiters() noexcept { acknowledgements_.notify_all(); }

 private:
  void deliver(const adapter::AsyncEvent& event) noexcept;

  adapter::ChannelAdapter& adapter_;
  DeferredWork& deferred_;
  ContextBase* contexts_ = nullptr;  // newest first
  uint32_t waiters_ = 0;
  std::atomic<uint32_t> acknowledgements_{0};
};

}  // namespace weft::hca
