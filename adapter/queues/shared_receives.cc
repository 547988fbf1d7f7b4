#include "adapter/queues/shared_receives.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "adapter/adapter_engine.h"
#include "adapter/protection_domains.h"
#include "adapter/queues/completion_queues.h"
#include "adapter/queues/qp_lifecycle.h"
#include "adapter/queues/shared_receive_queue.h"
#include "messages/cell.h"

namespace weft::adapter {

SharedReceives::SharedReceives(Engine& engine, const ProtectionDomains& pds, const CompletionQueues& cqs)
    : engine_(engine), pds_(pds), cqs_(cqs), xrcds_(engine.config.limits.xrc_domains + 1) {
  steps_.reserve(engine.config.limits.shared_receive_queues);
}
SharedReceives::~SharedReceives() = default;

bool SharedReceives::owns(const SharedReceiveQueue* srq) const noexcept {
  return srq->owner == &engine_;
}

Refusable<> SharedReceives::check(const SrqConfig& config) const {
  if (!pds_.has(config.pd)) return Refusal{Reason::kNoSuchObject, "create_srq: no such protection domain"};
  const bool xrc = config.xrcd != XrcdId();
  if (xrc != (config.cq != nullptr))
    return Refusal{Reason::kMissingObject, "create_srq: an XRC domain and a CQ must be given together"};
  if (!xrc) return {};
  if (!has(config.xrcd)) return Refusal{Reason::kNoSuchObject, "create_srq: no such XRC domain"};
  if (!cqs_.owns(*config.cq))
    return Refusal{Reason::kForeignObject, "create_srq: the CQ belongs to another adapter"};
  return {};
}

Refusable<SrqMemory> SharedReceives::make(const SrqConfig& config) const {
  const AdapterLimits& most = engine_.config.limits;
  if (config.wqes == 0 || config.wqes > most.wqes_per_queue)
    return Refusal{Reason::kBadSize, "create_srq: max_wr {}; 1 to {} are possible", config.wqes,
                   most.wqes_per_queue};
  if (config.sges > most.sges_per_wqe)
    return Refusal{Reason::kBadSize, "create_srq: max_sge {}; at most {} are possible", config.sges,
                   most.sges_per_wqe};
  return SrqMemory(std::make_unique<SharedReceiveQueue>(config).release());
}

Refusable<SharedReceiveQueue*> SharedReceives::create(const SrqConfig& config) {
  const Refusable<> good = check(config);
  Refusable<SrqMemory> made = good.ok() ? make(config) : Refusable<SrqMemory>(good.error());
  if (made.ok()) return create(std::move(*made));
  engine_.count(AdapterCounter::kAgentCalls);
  return made.error();
}

Refusable<SharedReceiveQueue*> SharedReceives::create(SrqMemory&& memory) {
  engine_.count(AdapterCounter::kAgentCalls);
  const SrqConfig& config = memory->config;
  if (const Refusable<> good = check(config); !good) return good.error();
  auto& queues = engine_.srqs.queues;
  for (uint32_t i = 0; i < engine_.config.limits.shared_receive_queues; ++i) {
    if (i == queues.size()) {
      queues.emplace_back();
      steps_.push_back(0);
    }
    if (queues[i] != nullptr) continue;
    // Each new queue of this place gets another number, never 0, so that an old number finds no queue.
    steps_[i] = steps_[i] % (kSrqNumberMask / (engine_.srqs.places())) + 1;
    memory->index = i;
    memory->number = steps_[i] * (engine_.srqs.places()) + i;
    memory->owner = &engine_;
    queues[i].reset(memory.release());
    if (config.cq != nullptr) {
      ++config.cq->users;
      config.cq->frees_places = config.cq->frees_places || config.hold_places;
      enter(config.xrcd);
    }
    return queues[i].get();
  }
  return Refusal{Reason::kTableFull,
                 "create_srq: all are in use; raise AdapterLimits::shared_receive_queues"};
}

Refusable<RecvRoom> SharedReceives::room_for(const SharedReceiveQueue& srq, const SrqAttr& attr,
                                             uint32_t mask) const {
  const uint32_t most = engine_.config.limits.wqes_per_queue;
  if ((mask & kSrqWqes) == 0) return RecvRoom();
  if (attr.wqes == 0 || attr.wqes > most)
    return Refusal{Reason::kBadSize, "modify_srq: max_wr {}; 1 to {} are possible", attr.wqes, most};
  return RecvQueue::room_for(attr.wqes, srq.queue.sges_max());
}

Refusable<> SharedReceives::modify(SharedReceiveQueue& srq, const SrqAttr& attr, uint32_t mask) {
  Refusable<RecvRoom> room = room_for(srq, attr, mask);
  if (room.ok()) return modify(srq, attr, mask, *room);
  engine_.count(AdapterCounter::kAgentCalls);
  return room.error();
}

Refusable<> SharedReceives::modify(SharedReceiveQueue& srq, const SrqAttr& attr, uint32_t mask,
                                   RecvRoom& room) {
  engine_.count(AdapterCounter::kAgentCalls);
  if (!owns(&srq)) return Refusal{Reason::kForeignObject, "modify_srq: the SRQ belongs to another adapter"};
  if ((mask & ~uint32_t{kSrqWqes | kSrqLimit}) != 0)
    return Refusal{Reason::kBadOption, "modify_srq: unknown attribute"};
  const bool resizes = (mask & kSrqWqes) != 0;
  const uint32_t wqes = resizes ? attr.wqes : srq.queue.capacity();
  if ((mask & kSrqLimit) != 0 && attr.limit > wqes)
    return Refusal{Reason::kBadSize, "modify_srq: limit {} is above the {} WQEs of the queue", attr.limit,
                   wqes};
  if (resizes && !srq.queue.resize(wqes, room))
    return Refusal{Reason::kBadSize, "modify_srq: more WQEs are in use, or no memory was given"};
  if ((mask & kSrqLimit) == 0) return {};
  srq.queue.set_low_mark(attr.limit);
  if (srq.queue.low()) engine_.tell_srq_limit(srq, srq.queue);
  return {};
}

SrqAttr SharedReceives::query(const SharedReceiveQueue& srq) const noexcept {
  return {.wqes = srq.queue.capacity(), .sges = srq.queue.sges_max(), .limit = srq.queue.low_mark()};
}

Refusable<> SharedReceives::destroy(SharedReceiveQueue* srq, SrqMemory* memory) {
  engine_.count(AdapterCounter::kAgentCalls);
  if (!owns(srq)) return Refusal{Reason::kForeignObject, "destroy_srq: the SRQ belongs to another adapter"};
  if (srq->users != 0)
    return Refusal{Reason::kBusy, "destroy_srq: QPs still take from it; destroy them first"};
  if (srq->config.cq != nullptr) {
    let_go(*srq);
    --srq->config.cq->users;
    leave(srq->config.xrcd);
  }
  engine_.events.drop(srq->events);
  srq->owner = nullptr;  // calls for a queue that has ended are refused
  SrqMemory ended(engine_.srqs.queues[srq->index].release());
  if (memory != nullptr) *memory = std::move(ended);
  return {};
}

/// XRC targets stop taking from `srq`. A target with a half received message goes to ERR, because the rest of
/// its message has no buffer.
void SharedReceives::let_go(SharedReceiveQueue& srq) noexcept {
  for (QueuePair* qp : engine_.qps.all()) {
    if (qp->srq != &srq) continue;
    if (!qp->taken.empty()) {
      engine_.report(*qp, {.reason = Reason::kSrqDestroyed});
      enter_error(engine_, *qp, AsyncEventKind::kQpFatal, WcStatus::kGeneral);
    }
    select_srq(*qp, nullptr);
  }
}

uint32_t SharedReceives::number(const SharedReceiveQueue& srq) const noexcept {
  return srq.number;
}

Refusable<XrcdId> SharedReceives::alloc_xrcd() {
  engine_.count(AdapterCounter::kAgentCalls);
  for (uint32_t i = 1; i < xrcds_.size(); ++i) {
    if (xrcds_[i].open) continue;
    xrcds_[i] = {.open = true};
    return XrcdId(i);
  }
  return Refusal{Reason::kTableFull, "alloc_xrcd: all are in use; raise AdapterLimits::xrc_domains"};
}

Refusable<> SharedReceives::dealloc_xrcd(XrcdId xrcd) {
  engine_.count(AdapterCounter::kAgentCalls);
  if (!has(xrcd)) return Refusal{Reason::kNoSuchObject, "dealloc_xrcd: no such XRC domain"};
  if (xrcds_[xrcd.value()].users != 0)
    return Refusal{Reason::kBusy, "dealloc_xrcd: queues or targets still belong to it"};
  xrcds_[xrcd.value()].open = false;
  return {};
}

bool SharedReceives::has(XrcdId xrcd) const noexcept {
  return xrcd.value() < xrcds_.size() && xrcds_[xrcd.value()].open;
}

bool SharedReceives::pd_unused(PdId pd) const noexcept {
  return std::none_of(engine_.srqs.queues.begin(), engine_.srqs.queues.end(),
                      [pd](const auto& srq) { return srq != nullptr && srq->config.pd == pd; });
}

PostResult SharedReceives::post(SharedReceiveQueue& srq, const RecvRequest& request) noexcept {
  if (!owns(&srq)) return PostResult::kBadState;
  if (request.sges.size() > srq.queue.sges_max()) return PostResult::kTooManySges;
  if (srq.queue.full()) return PostResult::kWouldBlock;
  srq.queue.post(request);
  return PostResult::kOk;
}

void SharedReceives::ring(SharedReceiveQueue& srq) noexcept {
  if (owns(&srq)) (void)srq.queue.announce();
}

PostResult SharedReceives::post_recv(SharedReceiveQueue& srq, const RecvRequest& request) noexcept {
  const PostResult result = post(srq, request);
  if (result == PostResult::kOk) ring(srq);
  return result;
}

}  // namespace weft::adapter
