#include "hca/shared_queue.h"

#include <new>

#include "adapter/queues/shared_receive_queue.h"
#include "adapter/queues/shared_receives.h"
#include "hca/channel.h"
#include "hca/device_core.h"

namespace weft::hca {

Answer XrcDomain::release() noexcept {
  if (file_) {
    const auto shared = core().xrcds.find(*file_);
    if (--shared->second.opens != 0) return Answer::kOk;
    ended_ = core().xrcds.extract(shared);
  }
  return reason_of(core().adapter.srqs().dealloc_xrcd(id_));
}

Srq::Srq(ContextBase& context, void* user, ProtectionDomain& pd, adapter::SharedReceiveQueue& queue,
         const XrcPlace& xrc) noexcept
    : Object(context, user), pd_(pd), queue_(queue), xrc_(xrc) {}

void Srq::enter(adapter::SharedReceiveQueue* /*queue*/) noexcept {
  queue_.events.user = as_user();
  ++pd_.refs.users;
  if (xrc_.domain == nullptr) return;
  ++xrc_.domain->refs.users;
  ++xrc_.cq->refs.users;
}

uint32_t Srq::number() const noexcept {
  if (core().forked()) return 0;
  const Hold hold(core());
  return core().adapter.srqs().number(queue_);
}

Answer Srq::post_recv(std::span<const adapter::RecvRequest> list, size_t& posted) noexcept {
  DeviceCore& device = core();
  posted = 0;
  Answer answer = device.refusal();
  if (answer != Answer::kOk) return answer;
  const Hold hold(device);
  adapter::SharedReceives& queues = device.adapter.srqs();
  for (const adapter::RecvRequest& request : list) {
    answer = queues.post(queue_, request);
    if (answer != Answer::kOk) break;
    ++posted;
  }
  if (posted != 0) queues.ring(queue_);
  return answer;
}

Answer Srq::modify(const adapter::SrqAttr& attr, uint32_t mask) noexcept {
  DeviceCore& device = core();
  if (device.forked()) return Answer::kForked;
  adapter::SharedReceives& queues = device.adapter.srqs();
  try {
    auto room = queues.room_for(queue_, attr, mask);  // allocated, and the old one freed, outside the lock
    if (!room) return reason_of(room);
    const Hold hold(device);
    if (refs.ended) return Answer::kNoSuchObject;
    const Answer answer = reason_of(queues.modify(queue_, attr, mask, *room));
    device.caller_turn(hold.now());  // the new limit may be reached at once
    return answer;
  } catch (const std::bad_alloc&) {
    return Answer::kNoMemory;
  }
}

Answer Srq::query(adapter::SrqAttr& out) const noexcept {
  if (core().forked()) return Answer::kForked;
  const Hold hold(core());
  if (refs.ended) return Answer::kNoSuchObject;
  out = core().adapter.srqs().query(queue_);
  return Answer::kOk;
}

Answer Srq::release() noexcept {
  DeviceCore& device = core();
  device.events.deliver_events();
  if (const auto ended = device.adapter.srqs().destroy(&queue_, &memory_); !ended) return reason_of(ended);
  --pd_.refs.users;
  if (xrc_.domain == nullptr) return Answer::kOk;
  --xrc_.domain->refs.users;
  --xrc_.cq->refs.users;
  return Answer::kOk;
}

}  // namespace weft::hca
