#include "adapter/queues/completion_queues.h"

#include <algorithm>
#include <utility>

#include "adapter/adapter_engine.h"
#include "adapter/queues/completion_queue.h"

namespace weft::adapter {
namespace {

/// An XRC target may be destroyed before its receives are polled, so such entries carry the number of the
/// SRQ.
void free_places(Engine& engine, std::span<const WorkCompletion> polled) noexcept {
  for (const WorkCompletion& entry : polled) {
    if (ends_receive(entry.opcode) && entry.place != 0) {
      if (SharedReceiveQueue* srq = engine.srqs.find(entry.place); srq != nullptr) srq->queue.free_places(1);
      continue;
    }
    QueuePair* qp = engine.qps.find(entry.qpn);
    if (qp == nullptr || entry.opcode == WcOpcode::kRdataIndicate) continue;
    if (ends_receive(entry.opcode)) {
      qp->own_rq.free_places(1);
    } else {
      qp->sq.free_before(entry.place);
    }
  }
}

}  // namespace

CompletionQueues::CompletionQueues(Engine& engine) : engine_(engine) {
  queues_.reserve(engine.config.limits.completion_queues);
  notified_.reset(engine.config.limits.completion_queues);
}

CompletionQueues::~CompletionQueues() = default;

/// `line` has a `{}` for the number and one for the largest.
Refusable<> CompletionQueues::check_size(const char* line, uint32_t cqes) const noexcept {
  const uint32_t most = engine_.config.limits.cqes_per_queue;
  if (cqes != 0 && cqes <= most) return {};
  return Refusal{Reason::kBadSize, line, cqes, most};
}

Refusable<std::unique_ptr<CompletionQueue>> CompletionQueues::make(uint32_t cqes) const {
  if (Refusable<> good = check_size("create_cq: {} entries; 1 to {} are possible", cqes); !good)
    return good.error();
  return std::make_unique<CompletionQueue>(cqes);
}

Refusable<CompletionQueue*> CompletionQueues::create(uint32_t cqes, uint32_t vector) {
  Refusable<std::unique_ptr<CompletionQueue>> made = make(cqes);
  if (made.ok()) return create(std::move(*made), vector);
  engine_.count(AdapterCounter::kAgentCalls);
  return made.error();
}

Refusable<CompletionQueue*> CompletionQueues::create(std::unique_ptr<CompletionQueue>&& made,
                                                     uint32_t vector) {
  engine_.count(AdapterCounter::kAgentCalls);
  const AdapterLimits& most = engine_.config.limits;
  if (vector >= most.completion_vectors)
    return Refusal{Reason::kNoSuchObject, "create_cq: comp_vector {}; there are {}, from 0", vector,
                   most.completion_vectors};
  auto place = std::find(queues_.begin(), queues_.end(), nullptr);
  if (place == queues_.end()) {
    if (queues_.size() == most.completion_queues)
      return Refusal{Reason::kTableFull, "create_cq: all are in use; raise AdapterLimits::completion_queues"};
    place = queues_.emplace(place);  // within the reserved memory
  }
  *place = std::move(made);
  (*place)->join(static_cast<uint32_t>(place - queues_.begin()), notified_);
  return place->get();
}

Refusable<FixedRing<WorkCompletion>> CompletionQueues::room_for(uint32_t cqes) const {
  if (Refusable<> good = check_size("resize_cq: {} entries; 1 to {} are possible", cqes); !good)
    return good.error();
  return CompletionQueue::room_for(cqes);
}

Refusable<> CompletionQueues::resize(CompletionQueue& cq, uint32_t cqes) {
  Refusable<FixedRing<WorkCompletion>> room = room_for(cqes);
  if (room.ok()) return resize(cq, *room);
  engine_.count(AdapterCounter::kAgentCalls);
  return room.error();
}

Refusable<> CompletionQueues::resize(CompletionQueue& cq, FixedRing<WorkCompletion>& room) {
  engine_.count(AdapterCounter::kAgentCalls);
  if (!owns(cq)) return Refusal{Reason::kForeignObject, "resize_cq: the CQ belongs to another adapter"};
  if (!cq.resize(room))
    return Refusal{Reason::kBadSize, "resize_cq: {} entries wait to be polled", cq.fill()};
  return {};
}

Refusable<> CompletionQueues::destroy(CompletionQueue* cq, std::unique_ptr<CompletionQueue>* memory) {
  engine_.count(AdapterCounter::kAgentCalls);
  if (!owns(*cq)) return Refusal{Reason::kForeignObject, "destroy_cq: the CQ belongs to another adapter"};
  if (cq->users != 0)
    return Refusal{Reason::kBusy, "destroy_cq: QPs still complete there; destroy them first"};
  engine_.events.drop(cq->events);
  notified_.remove(cq);
  std::unique_ptr<CompletionQueue> ended = std::move(queues_[cq->index()]);
  if (memory != nullptr) *memory = std::move(ended);
  return {};
}

bool CompletionQueues::owns(const CompletionQueue& cq) const noexcept {
  return cq.index() < queues_.size() && queues_[cq.index()].get() == &cq;
}

CqInfo CompletionQueues::query(const CompletionQueue& cq) const noexcept {
  return {.depth = cq.depth(), .fill = cq.fill(), .overrun = cq.overrun()};
}

uint32_t CompletionQueues::loads(const CompletionQueue& cq, std::span<QpLoad> out) const noexcept {
  uint32_t count = 0;
  for (const QueuePair* qp : engine_.qps.all()) {
    const bool sends = qp->config.send_cq == &cq;
    const bool receives = qp->config.recv_cq == &cq;
    if (!sends && !receives) continue;
    if (count++ >= out.size()) continue;
    const RecvQueue& queue = qp->config.srq != nullptr ? qp->config.srq->queue : qp->own_rq;
    out[count - 1] = {.qpn = qp->qpn,
                      .state = qp->state,
                      .sends_here = sends,
                      .receives_here = receives,
                      .sends = static_cast<uint32_t>(qp->sq.posted - qp->sq.done),
                      .silent = qp->sq.unpolled(),
                      .receives = queue.fill()};
  }
  return count;
}

uint32_t CompletionQueues::poll(CompletionQueue& cq, std::span<WorkCompletion> out) noexcept {
  const uint32_t taken = cq.poll(out);
  if (taken != 0 && cq.frees_places) free_places(engine_, out.first(taken));
  return taken;
}

void CompletionQueues::arm(CompletionQueue& cq, CqNotify when) noexcept {
  cq.arm(when);
}

bool CompletionQueues::take_notification(CompletionQueue& cq) noexcept {
  return cq.take_notification();
}

CompletionQueue* CompletionQueues::next_notified() noexcept {
  while (!notified_.empty()) {
    CompletionQueue* cq = notified_.front();
    notified_.pop();
    if (cq->leave_list()) return cq;
  }
  return nullptr;
}

void CompletionQueues::end_overrun() noexcept {
  for (const auto& cq : queues_) {
    if (cq != nullptr) cq->fails_users = false;
  }
}

}  // namespace weft::adapter
