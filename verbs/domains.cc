// Protection domains. Thread domains, and parent domains, which are made from a protection domain.
#include <infiniband/verbs.h>

#include <memory>
#include <utility>

#include "verbs/c_call.h"
#include "verbs/context_ops.h"
#include "verbs/explain/explain.h"
#include "verbs/explain/refusals.h"
#include "verbs/objects.h"

namespace weft::verbs {
namespace {

/// Flag of newer headers: allows memory that is shared with the host of a confidential guest. It changes
/// nothing here.
constexpr uint32_t kMayShareMemory = 1U << 2;
constexpr uint32_t kKnownDomainMask =
    IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | kMayShareMemory;

std::unique_ptr<Pd> shown_domain(ibv_context* context, hca::ProtectionDomain* object, UseCount users) {
  auto out = std::make_unique<Pd>();
  out->object = object;
  out->users = std::move(users);
  out->c = {.context = context, .handle = object->id().value()};
  return out;
}

}  // namespace

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attr) noexcept {
  return guarded(static_cast<ibv_td*>(nullptr), [&]() -> ibv_td* {
    if (attr->comp_mask != 0) {
      explain("ibv_alloc_td: comp_mask {:#x}: must be 0", attr->comp_mask);
      return no_object(EOPNOTSUPP);
    }
    auto out = std::make_unique<Td>();
    out->c.context = context;
    return &out.release()->c;
  });
}

int dealloc_td(ibv_td* td) noexcept {
  if (ours<Td>(td).users != 0) return fail(EBUSY);
  const std::unique_ptr<Td> owned(&ours<Td>(td));
  return 0;
}

/// The allocators of a parent domain are never called: queues are not made from the program's memory.
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attr) noexcept {
  return guarded(static_cast<ibv_pd*>(nullptr), [&]() -> ibv_pd* {
    if ((attr->comp_mask & ~kKnownDomainMask) != 0 || attr->pd == nullptr) {
      explain("ibv_alloc_parent_domain: comp_mask {:#x}: only bits {:#x} are supported, and a PD is required",
              attr->comp_mask, kKnownDomainMask);
      return no_object(EINVAL);
    }
    Pd& parent = ours<Pd>(attr->pd);
    std::unique_ptr<Pd> out =
        shown_domain(context, parent.object, std::make_shared<UseCount::element_type>(0));
    out->base = Use(parent.users);
    if (attr->td != nullptr) {
      out->thread = &ours<Td>(attr->td);
      ++out->thread->users;
    }
    return &out.release()->c;
  });
}

}  // namespace weft::verbs

using namespace weft::verbs;  // NOLINT(google-build-using-namespace): C functions stand outside
namespace hca = weft::hca;

WEFT_VERBS_API ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return guarded(static_cast<ibv_pd*>(nullptr), [&]() -> ibv_pd* {
    OpenContext& opened = ours(context);
    const hca::Made<hca::ProtectionDomain> made = opened.context->alloc_pd();
    if (made.object == nullptr) return no_object(made.refusal, "ibv_alloc_pd");
    const uint32_t handle = made.object->id().value();
    UndoUnlessDone made_in_vain([&] {
      opened.device->domains.drop(handle);
      static_cast<void>(opened.context->destroy(made.object));
    });
    auto users = std::make_shared<UseCount::element_type>(0);
    opened.device->domains.put(handle, {made.object, users});
    ibv_pd* const out = &shown_domain(context, made.object, std::move(users)).release()->c;
    made_in_vain.dismiss();
    return out;
  });
}

namespace {

/// Ends the PD, whichever of its handles this is. The program then ends the others by ibv_unimport_pd().
int end_domain(const Pd& domain) noexcept {
  const std::shared_ptr<OpenDevice> device = ours(domain.c.context).device;
  auto known = device->domains.take(domain.c.handle);
  const weft::Reason why = device->context.destroy(domain.object);
  if (why == weft::Reason::kOk) return 0;
  device->domains.put_back(std::move(known));
  return fail_in_use(why,
                     "regions, QPs, SRQs, windows or address handles of this PD still exist: destroy them "
                     "first (ibv_destroy_qp, ibv_dereg_mr, ...)",
                     "ibv_dealloc_pd: PD {}", domain.c.handle);
}

}  // namespace

WEFT_VERBS_API int ibv_dealloc_pd(ibv_pd* pd) {
  Pd& domain = ours<Pd>(pd);
  if (const uint32_t users = *domain.users; users != 0) {
    explain("ibv_dealloc_pd: {} {} still use it", users,
            domain.base.holds() ? "objects made through this parent domain" : "parent domains or buffers");
    return fail(EBUSY);
  }
  if (!domain.base.holds()) {
    if (const int fault = end_domain(domain); fault != 0) return fault;
  }
  const std::unique_ptr<Pd> owned(&domain);
  if (domain.thread != nullptr) --domain.thread->users;
  return 0;
}

WEFT_VERBS_API ibv_pd* ibv_import_pd(ibv_context* context, uint32_t handle) {
  return guarded(static_cast<ibv_pd*>(nullptr), [&]() -> ibv_pd* {
    KnownDomain known = ours(context).device->domains.find(handle);
    if (known.object == nullptr) {
      explain("ibv_import_pd: handle {}: this device has no such PD", handle);
      return no_object(ENOENT);
    }
    return &shown_domain(context, known.object, std::move(known.users)).release()->c;
  });
}

WEFT_VERBS_API void ibv_unimport_pd(ibv_pd* pd) {
  const std::unique_ptr<Pd> owned(&ours<Pd>(pd));
}
