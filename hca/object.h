// hca/object.h -- what every object of a context has: its context, the objects that use it, the events of
// it that a program has taken and not acknowledged.
#pragma once

#include <cstdint>

#include "adapter/config.h"
#include "base/pending_list.h"
#include "hca/answer.h"

namespace weft::hca {

class DeviceCore;
struct AsyncEvent;

/// A context as its objects and the device know it.
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
  ContextBase* next = nullptr;  // of the device's

 private:
  DeviceCore& core_;
};

/// Asynchronous events of an object, a port or the device that wait in a context.
struct WaitingEvents : PendingNews {
  class Object* object = nullptr;
  uint8_t port = 0;
};

/// Made and destroyed by its context, which outlives it.
class Object {
 public:
  Object(ContextBase& context, void* user) noexcept : context_(context), user_(user) { events.object = this; }
  virtual ~Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  [[nodiscard]] ContextBase& context() const noexcept { return context_; }
  /// Whatever the program said when it was made.
  [[nodiscard]] void* user() const noexcept { return user_; }

  // ---- hca/ alone, under the device's lock --------------------
  struct Books {
    Object* older = nullptr;  // of the same context
    Object* newer = nullptr;
    uint32_t users = 0;           // objects that were made with this one
    uint32_t unacknowledged = 0;  // events taken and not acknowledged, of either kind
  };
  Books books;
  WaitingEvents events;
  /// The object as the adapter keeps it for us, and back.
  [[nodiscard]] void* as_user() noexcept { return this; }
  [[nodiscard]] static Object* of_user(void* user) noexcept { return static_cast<Object*>(user); }
  /// Its context ends: what the program began with it and did not end is ended.
  virtual void abandon() noexcept {}
  /// Frees what the adapter has of it and drops what waits for it. Nothing has changed unless kOk.
  [[nodiscard]] virtual Answer release() noexcept = 0;

 protected:
  [[nodiscard]] DeviceCore& core() const noexcept { return context_.core(); }

 private:
  ContextBase& context_;
  void* user_;
};

/// A CQ as the device knows it.
class NotifiedObject : public Object {
 public:
  NotifiedObject(ContextBase& context, void* user, adapter::CompletionQueue& queue) noexcept
      : Object(context, user), queue_(queue) {}

  // ---- hca/ alone, under the device's lock --------------------
  [[nodiscard]] adapter::CompletionQueue& queue() const noexcept { return queue_; }
  /// It has got what it was armed for.
  virtual void notify() noexcept = 0;

 private:
  adapter::CompletionQueue& queue_;
};

}  // namespace weft::hca
