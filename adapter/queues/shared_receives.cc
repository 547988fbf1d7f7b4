#include "adapter/queues/shared_receives.h"

#include <algorithm>
#include <string>

#include "adapter/engine.h"
#include "adapter/queues/shared_receive_queue.h"

namespace weft::adapter {

SharedReceives::SharedReceives(Engine& engine, const std::vector<bool>& pds) noexcept
    : engine_(engine), pds_(pds) {}
SharedReceives::~SharedReceives() = default;

bool SharedReceives::owns(const SharedReceiveQueue* srq) const noexcept {
  return srq->owner == &engine_;
}

Result<SharedReceiveQueue*> SharedReceives::create(const SrqConfig& config) {
  engine_.count(AdapterCounter::kAgentCalls);
  const AdapterLimits& most = engine_.config.limits;
  if (config.pd.value() >= pds_.size() || !pds_[config.pd.value()])
    return Error{"create_srq: no such protection domain"};
  if (config.wqes == 0 || config.wqes > most.wqes_per_queue || config.sges > most.sges_per_wqe)
    return Error{"create_srq: more WQEs or segments than AdapterLimits allow, or none"};
  for (uint32_t i = 0; i < most.shared_receive_queues; ++i) {
    if (i == queues_.size()) queues_.emplace_back();
    if (queues_[i] != nullptr) continue;
    queues_[i] = std::make_unique<SharedReceiveQueue>(config, i, &engine_);
    return queues_[i].get();
  }
  return Error{"create_srq: all are in use; raise AdapterLimits::shared_receive_queues"};
}

Status SharedReceives::modify(SharedReceiveQueue& srq, const SrqAttr& attr, uint32_t mask) {
  engine_.count(AdapterCounter::kAgentCalls);
  if (!owns(&srq)) return Error{"modify_srq: the SRQ belongs to another adapter"};
  if ((mask & ~uint32_t{kSrqWqes | kSrqLimit}) != 0) return Error{"modify_srq: unknown attribute"};
  const bool resizes = (mask & kSrqWqes) != 0;
  if (resizes && (attr.wqes == 0 || attr.wqes > engine_.config.limits.wqes_per_queue))
    return Error{"modify_srq: more WQEs than AdapterLimits allow, or none"};
  const uint32_t wqes = resizes ? attr.wqes : srq.queue.capacity();
  if ((mask & kSrqLimit) != 0 && attr.limit > wqes)
    return Error{"modify_srq: a limit of " + std::to_string(attr.limit) + " for " + std::to_string(wqes) +
                 " WQEs"};
  if (resizes && !srq.queue.resize(wqes)) return Error{"modify_srq: more WQEs than that are in use"};
  if ((mask & kSrqLimit) == 0) return {};
  srq.queue.set_low_mark(attr.limit);
  if (srq.queue.low()) engine_.tell_srq_limit(srq, srq.queue);
  return {};
}

SrqAttr SharedReceives::query(const SharedReceiveQueue& srq) const noexcept {
  return {.wqes = srq.queue.capacity(), .sges = srq.queue.sges_max(), .limit = srq.queue.low_mark()};
}

Status SharedReceives::destroy(SharedReceiveQueue* srq) {
  engine_.count(AdapterCounter::kAgentCalls);
  if (!owns(srq)) return Error{"destroy_srq: the SRQ belongs to another adapter"};
  if (srq->users != 0) return Error{"destroy_srq: QPs still take from it; destroy them first"};
  queues_[srq->index].reset();
  return {};
}

bool SharedReceives::pd_unused(PdId pd) const noexcept {
  return std::none_of(queues_.begin(), queues_.end(),
                      [pd](const auto& srq) { return srq != nullptr && srq->config.pd == pd; });
}

PostResult SharedReceives::post(SharedReceiveQueue& srq, const RecvRequest& request) noexcept {
  if (!owns(&srq)) return PostResult::kBadState;
  if (request.sges.size() > srq.queue.sges_max()) return PostResult::kBadSges;
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
