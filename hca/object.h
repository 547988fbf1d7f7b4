// hca/object.h -- common part of all objects of a context: the context, the number of objects that use it,
// and its asynchronous events.
#pragma once

#include <cstdint>

#include "adapter/config.h"
#include "base/pending_list.h"
#include "hca/answer.h"

namespace weft::hca {

class DeviceCore;
struct AsyncEvent;

/// Base of Context, known to its objects and the device.
class ContextBase {
 public:
  explicit ContextBase(DeviceCore& core) noexcept : core_(core) {}
  virtual ~ContextBase() = default;
  ContextBase(const ContextBase&) = delete;
  ContextBase& operator=(const ContextBase&) = delete;

  // ---- hca/ alone --------------------
  [[nodiscard]] DeviceCore& core() const noexcept { return core_; }
  /// Under the device's lock.
  virtual void add_event(const AsyncEvent& event) noexcept = 0;
  ContextBase* next = nullptr;  // in the device's list of contexts

 private:
  DeviceCore& core_;
};

/// Asynchronous events of an object, a port or the device that wait in a context.
struct WaitingEvents : PendingNews {
  class Object* object = nullptr;
  uint8_t port = 0;
};

/// A region ends once peers have moved its data. That takes microseconds, unless a peer stands still: after
/// this many looks, about one second, the region stays.
inline constexpr uint32_t kTransferLooks = 20'000;
void pause_for_transfer() noexcept;
/// Calls `attempt` until its answer is another than kAgain; kBusy when the region stays.
template <class Attempt>
[[nodiscard]] Answer after_transfers(Attempt&& attempt) {
  Answer answer = attempt();
  for (uint32_t look = 0; answer == Answer::kAgain && look < kTransferLooks; ++look) {
    pause_for_transfer();
    answer = attempt();
  }
  return answer == Answer::kAgain ? Answer::kBusy : answer;
}

/// Made and destroyed by its context, which outlives it.
class Object {
 public:
  Object(ContextBase& context, void* user) noexcept : context_(context), user_(user) { events.object = this; }
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  [[nodiscard]] ContextBase& context() const noexcept { return context_; }
  /// The pointer that the program passed when the object was made.
  [[nodiscard]] void* user() const noexcept { return user_; }

  // ---- hca/ alone, under the device's lock --------------------
  struct References {
    Object* older = nullptr;  // in the list of the same context
    Object* newer = nullptr;
    uint32_t users = 0;  // objects that use this one
    // Events that the program took and has not acknowledged, completion events and asynchronous ones.
    uint32_t unacknowledged = 0;
    // destroy() has taken the object out of adapter and context, and waits for acknowledgements. Another
    // thread may still make calls for it; they are refused.
    bool ended = false;
  };
  References refs;
  WaitingEvents events;
  /// Converts to and from the user pointer that the adapter keeps.
  [[nodiscard]] void* as_user() noexcept { return this; }
  [[nodiscard]] static Object* of_user(void* user) noexcept { return static_cast<Object*>(user); }

 protected:
  [[nodiscard]] DeviceCore& core() const noexcept { return context_.core(); }

 private:
  friend class Context;
  /// The context is closing: undoes what the program began with this object and did not undo (multicast
  /// memberships, registrations for protocols).
  virtual void abandon() noexcept {}
  /// Frees the adapter's part of the object and drops its waiting notifications. Nothing has changed unless
  /// kOk. kAgain: a peer moves data of the region; see pause_for_transfer().
  [[nodiscard]] virtual Answer release() noexcept = 0;

  ContextBase& context_;
  void* user_;
};

/// Base of Cq, known to the device.
class NotifiedObject : public Object {
 public:
  NotifiedObject(ContextBase& context, void* user, adapter::CompletionQueue& queue) noexcept
      : Object(context, user), queue_(queue) {}

  // ---- hca/ alone, under the device's lock --------------------
  [[nodiscard]] adapter::CompletionQueue& queue() const noexcept { return queue_; }
  /// The armed queue has got an entry.
  virtual void notify() noexcept = 0;

 private:
  adapter::CompletionQueue& queue_;
};

}  // namespace weft::hca
