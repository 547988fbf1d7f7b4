// Asynchronous events.
#include <infiniband/verbs.h>

#include "verbs/c_call.h"
#include "verbs/objects.h"

namespace weft::verbs {
namespace {

static_assert(static_cast<int>(hca::EventKind::kCqError) == IBV_EVENT_CQ_ERR &&
              static_cast<int>(hca::EventKind::kQpAccessError) == IBV_EVENT_QP_ACCESS_ERR &&
              static_cast<int>(hca::EventKind::kPortActive) == IBV_EVENT_PORT_ACTIVE &&
              static_cast<int>(hca::EventKind::kSrqError) == IBV_EVENT_SRQ_ERR &&
              static_cast<int>(hca::EventKind::kLastWqeReached) == IBV_EVENT_QP_LAST_WQE_REACHED &&
              static_cast<int>(hca::EventKind::kGidChange) == IBV_EVENT_GID_CHANGE);

enum class About : uint8_t { kPort, kCq, kQp, kSrq };

About about(ibv_event_type type) noexcept {
  switch (type) {
    case IBV_EVENT_CQ_ERR:
      return About::kCq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return About::kQp;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return About::kSrq;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_WQ_FATAL:
      break;
  }
  return About::kPort;
}

}  // namespace
}  // namespace weft::verbs

using namespace weft::verbs;  // NOLINT(google-build-using-namespace): C functions stand outside
namespace hca = weft::hca;

WEFT_VERBS_API int ibv_get_async_event(ibv_context* context, ibv_async_event* out) {
  hca::AsyncEvent event;
  const weft::Reason why = ours(context).context->get_async_event(event);
  if (why != weft::Reason::kOk) return failed(errno_of(why));
  *out = {};
  out->event_type = static_cast<ibv_event_type>(event.kind);
  switch (about(out->event_type)) {
    case About::kCq:
      out->element.cq = plain(*static_cast<Cq*>(event.object->user()));
      break;
    case About::kQp:
      out->element.qp = &static_cast<Qp*>(event.object->user())->c.qp_base;
      break;
    case About::kSrq:
      out->element.srq = &static_cast<Srq*>(event.object->user())->c;
      break;
    case About::kPort:
      out->element.port_num = event.port;
      break;
  }
  return 0;
}

WEFT_VERBS_API void ibv_ack_async_event(ibv_async_event* event) {
  ibv_context* context = nullptr;
  hca::AsyncEvent out{.kind = static_cast<hca::EventKind>(event->event_type)};
  switch (about(event->event_type)) {
    case About::kCq:
      context = event->element.cq->context;
      count_acknowledged(*event->element.cq, event->element.cq->async_events_completed, 1);
      out.object = ours(event->element.cq).object;
      break;
    case About::kQp:
      context = event->element.qp->context;
      count_acknowledged(*event->element.qp, event->element.qp->events_completed, 1);
      out.object = ours(event->element.qp).object;
      break;
    case About::kSrq:
      context = event->element.srq->context;
      count_acknowledged(*event->element.srq, event->element.srq->events_completed, 1);
      out.object = ours<Srq>(event->element.srq).object;
      break;
    case About::kPort:
      return;
  }
  ours(context).context->ack_async_event(out);
}
