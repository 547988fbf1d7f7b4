// Shared receive queues.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/guarded_fd.h"
#include "verbs/c_call.h"
#include "verbs/context_ops.h"
#include "verbs/explain/explain.h"
#include "verbs/explain/refusals.h"
#include "verbs/objects.h"

namespace weft::verbs {
namespace {

ibv_srq* make_srq(ibv_pd* pd, void* user, ibv_srq_attr& attr, const hca::XrcPlace& xrc = {}) {
  const OpenContext& opened = ours(pd->context);
  auto out = std::make_unique<Srq>();
  const hca::Made<hca::Srq> made = opened.context->create_srq(*ours<Pd>(pd).object, attr.max_wr,
                                                              std::max(attr.max_sge, 1U), out.get(), xrc);
  if (made.object == nullptr) return no_object(made.refusal, "ibv_create_srq");
  out->object = made.object;
  out->domain = use_parent(pd);
  out->c.context = pd->context;
  out->c.srq_context = user;
  out->c.pd = pd;
  attr.max_sge = std::max(attr.max_sge, 1U);
  pthread_mutex_init(&out->c.mutex, nullptr);
  pthread_cond_init(&out->c.cond, nullptr);
  return &out.release()->c;
}

/// A descriptor that holds the file of `fd`, without access to it and without the locks of `fd` (flock(2)).
/// Without /proc a copy of `fd` holds it, and with it those locks.
UniqueFd hold_file(int fd) {
  const int held = ::open(fmt::format("/proc/thread-self/fd/{}", fd).c_str(), O_PATH | O_CLOEXEC);
  return UniqueFd(held >= 0 ? held : fcntl(fd, F_DUPFD_CLOEXEC, 3));
}

}  // namespace

ibv_srq* create_srq_ex(ibv_context* /*context*/, ibv_srq_init_attr_ex* attr) noexcept {
  return guarded(static_cast<ibv_srq*>(nullptr), [&]() -> ibv_srq* {
    constexpr uint32_t kPlain = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
    constexpr uint32_t kXrc = kPlain | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    const ibv_srq_type type =
        (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 ? attr->srq_type : IBV_SRQT_BASIC;
    const bool basic = type == IBV_SRQT_BASIC && (attr->comp_mask & ~kPlain) == 0;
    const bool xrc = type == IBV_SRQT_XRC && attr->comp_mask == kXrc;
    if ((!basic && !xrc) || attr->pd == nullptr) {
      explain("ibv_create_srq_ex: comp_mask {:#x}, srq_type {}: needs a PD, for XRC also a domain and a CQ",
              attr->comp_mask, static_cast<int>(type));
      return no_object(type == IBV_SRQT_TM ? EOPNOTSUPP : EINVAL);
    }
    hca::XrcPlace place;
    if (xrc) place = {.domain = ours<Xrcd>(attr->xrcd).object, .cq = ours(attr->cq).object};
    return make_srq(attr->pd, attr->srq_context, attr->attr, place);
  });
}

int get_srq_num(ibv_srq* srq, uint32_t* number) noexcept {
  *number = ours<Srq>(srq).object->number();
  return 0;
}

/// XRC domains are shared only within a process: processes that open the same file get separate domains.
ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr) noexcept {
  return guarded(static_cast<ibv_xrcd*>(nullptr), [&]() -> ibv_xrcd* {
    constexpr uint32_t kBoth = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    if (attr->comp_mask != kBoth || (attr->oflags & ~(O_CREAT | O_EXCL)) != 0) {
      explain(
          "ibv_open_xrcd: comp_mask {:#x}, oflags {:#x}: needs a descriptor and flags; flags may be O_CREAT "
          "and O_EXCL",
          attr->comp_mask, attr->oflags);
      return no_object(EINVAL);
    }
    auto out = std::make_unique<Xrcd>();
    hca::XrcOpen open{.create = (attr->oflags & O_CREAT) != 0, .exclusive = (attr->oflags & O_EXCL) != 0};
    if (attr->fd != -1) {
      struct stat file {};
      if (fstat(attr->fd, &file) != 0) return no_object(errno);
      open.file = hca::XrcFile{.device = file.st_dev, .inode = file.st_ino};
      UniqueFd held = hold_file(attr->fd);
      if (!held.valid()) return no_object(errno);
      out->file = GuardedFd(std::move(held));
    }
    const hca::Made<hca::XrcDomain> made = ours(context).context->open_xrcd(open);
    if (made.object == nullptr) return no_object(made.refusal, "ibv_open_xrcd");
    out->object = made.object;
    out->c.context = context;
    return &out.release()->c;
  });
}

int close_xrcd(ibv_xrcd* domain) noexcept {
  Xrcd& ending = ours<Xrcd>(domain);
  const Reason why = ours(domain->context).context->destroy(ending.object);
  if (why != Reason::kOk) return fail_in_use(why, "SRQs or QPs still use it", "ibv_close_xrcd");
  const std::unique_ptr<Xrcd> owned(&ending);
  return 0;
}

}  // namespace weft::verbs

using namespace weft::verbs;  // NOLINT(google-build-using-namespace): C functions stand outside
namespace adapter = weft::adapter;

static_assert(static_cast<int>(adapter::kSrqWqes) == IBV_SRQ_MAX_WR &&
              static_cast<int>(adapter::kSrqLimit) == IBV_SRQ_LIMIT);

WEFT_VERBS_API ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
  return guarded(static_cast<ibv_srq*>(nullptr), [&] { return make_srq(pd, init->srq_context, init->attr); });
}

WEFT_VERBS_API int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  return guarded(ENOMEM, [&] {
    const weft::Reason why = ours<Srq>(srq).object->modify({.wqes = attr->max_wr, .limit = attr->srq_limit},
                                                           static_cast<uint32_t>(mask));
    return fail(why, "ibv_modify_srq: mask {:#x}, max_wr {}, srq_limit {}", mask, attr->max_wr,
                attr->srq_limit);
  });
}

WEFT_VERBS_API int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* out) {
  adapter::SrqAttr attr;
  const weft::Reason why = ours<Srq>(srq).object->query(attr);
  if (why != weft::Reason::kOk) return fail(why);
  *out = {.max_wr = attr.wqes, .max_sge = attr.sges, .srq_limit = attr.limit};
  return 0;
}

WEFT_VERBS_API int ibv_destroy_srq(ibv_srq* srq) {
  Srq& queue = ours<Srq>(srq);
  const weft::Reason why = ours(srq->context).context->destroy(queue.object);
  if (why != weft::Reason::kOk)
    return fail_in_use(why, "QPs still use it: call ibv_destroy_qp first", "ibv_destroy_srq");
  pthread_mutex_destroy(&srq->mutex);
  pthread_cond_destroy(&srq->cond);
  const std::unique_ptr<Srq> owned(&queue);
  return 0;
}
