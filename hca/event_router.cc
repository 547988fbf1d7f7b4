#include "hca/event_router.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "adapter/queues/completion_queue.h"

namespace weft::hca {
namespace {

bool is_qp_error(adapter::AsyncEventKind kind) noexcept {
  return kind == adapter::AsyncEventKind::kQpFatal || kind == adapter::AsyncEventKind::kQpRequestError ||
         kind == adapter::AsyncEventKind::kQpAccessError;
}

}  // namespace

void EventRouter::add(ContextBase& context) noexcept {
  context.next = std::exchange(contexts_, &context);
}

void EventRouter::forget(ContextBase& context) noexcept {
  ContextBase** at = &contexts_;
  while (*at != &context) at = &(*at)->next;
  *at = context.next;
}

void EventRouter::deliver_events() noexcept {
  adapter::AsyncEvent event;
  while (adapter_.next_event(event)) deliver(event);
}

void EventRouter::deliver(const adapter::AsyncEvent& event) noexcept {
  const std::optional<EventKind> kind = kind_of(event.kind);
  // The error events of a QP are only for errors that no completion reports (InfiniBand).
  if (!kind || (event.completed && is_qp_error(event.kind))) return;
  const bool of_object = event.cq != nullptr || event.srq != nullptr || event.qpn != Qpn(0);
  if (of_object && event.user == nullptr) return;
  raise({.kind = *kind,
         .object = Object::of_user(event.user),
         .port = event.qpn == Qpn(0) ? event.port : uint8_t{0}});
}

void EventRouter::raise(const AsyncEvent& event) noexcept {
  for (ContextBase* context = contexts_; context != nullptr; context = context->next) {
    if (event.object != nullptr && &event.object->context() != context) continue;
    context->add_event(event);
  }
}

void EventRouter::deliver_notifications() noexcept {
  while (const adapter::CompletionQueue* queue = adapter_.cqs().next_notified())
    static_cast<NotifiedObject*>(Object::of_user(queue->events.user))->notify();
}

void EventRouter::acknowledge(Object& object, uint32_t events) noexcept {
  object.refs.unacknowledged -= std::min(events, object.refs.unacknowledged);
  acknowledgements_.fetch_add(1, std::memory_order_relaxed);
  if (waiters_ != 0) deferred_.tell_waiters = true;
}

}  // namespace weft::hca
