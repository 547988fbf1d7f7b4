// Memory regions, memory windows and address handles.
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "adapter/memory/memory_probe.h"
#include "verbs/addresses.h"
#include "verbs/c_call.h"
#include "verbs/context_ops.h"
#include "verbs/device_memory.h"
#include "verbs/explain/explain.h"
#include "verbs/explain/refusals.h"
#include "verbs/objects.h"
#include "verbs/process/process_node.h"
#include "verbs/regions.h"

namespace weft::verbs {
namespace {

/// Rights that the adapter's regions have. The other known flags are hints without effect: memory is never
/// pinned, so all of it may be paged on demand, and huge pages need no special treatment.
constexpr unsigned kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                             IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED;
constexpr size_t kRegionBytesMax = SIZE_MAX >> 1;
constexpr unsigned kHints = IBV_ACCESS_HUGETLB | IBV_ACCESS_ON_DEMAND;

/// Destroys the adapter's object, then frees the C object.
template <class Ours>
int end(const char* call, Ours& object, ibv_context* context) noexcept {
  const Reason why = ours(context).context->destroy(object.object);
  if (why != Reason::kOk) return fail(why, "{}", call);
  const std::unique_ptr<Ours> owned(&object);
  return 0;
}

bool knows_access(const char* call, unsigned access) {
  const unsigned wrong = access & ~(kRights | kHints | IBV_ACCESS_OPTIONAL_RANGE);
  if (wrong == 0) return true;
  explain("{}: access {:#x}: bits {:#x} are not supported", call, access, wrong);
  return false;
}

/// An implicit region covers all addresses of the process. It must be paged on demand.
bool is_implicit(const RegionRequest& request) noexcept {
  return request.addr == nullptr && request.length == SIZE_MAX &&
         (request.access & IBV_ACCESS_ON_DEMAND) != 0;
}

/// Address for peers and address of the memory have the same place in their pages, as the kernel demands.
/// Addresses of a zero-based region begin at 0 instead.
bool places_agree(const RegionRequest& request) {
  const uint64_t in_page = adapter::page_bytes() - 1;
  const uint64_t apart = reinterpret_cast<uintptr_t>(request.addr) ^ request.iova;
  if ((request.access & IBV_ACCESS_ZERO_BASED) != 0 || (apart & in_page) == 0) return true;
  explain("{}: addr {}, iova {:#x}: both must have the same offset in a page of {} bytes", request.call,
          request.addr, request.iova, in_page + 1);
  return false;
}

bool may_register(const RegionRequest& request) {
  if (!knows_access(request.call, request.access) || !places_agree(request)) return false;
  if (request.length > kRegionBytesMax && !is_implicit(request)) {
    explain("{}: {} bytes: a region over all addresses needs IBV_ACCESS_ON_DEMAND and address 0",
            request.call, request.length);
    return false;
  }
  return true;
}

/// Up to this size can_be_pinned() probes every page. Of a larger region it checks the mappings and probes
/// the first and the last byte, which takes only a few system calls.
constexpr size_t kPagesLookedAt = 16;

/// The kernel pins registered memory and refuses memory that it cannot pin: unmapped addresses, or read-only
/// memory for a region with write access. We pin nothing but refuse the same regions. Memory on demand is
/// never pinned.
bool can_be_pinned(const void* addr, size_t length, unsigned access) noexcept {
  if (length == 0 || (access & IBV_ACCESS_ON_DEMAND) != 0) return true;
  const size_t page = adapter::page_bytes();
  const bool writes = (access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)) != 0;
  auto* at =
      static_cast<std::byte*>(const_cast<void*>(addr));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  const auto there = [&](std::byte* byte) {
    return writes ? adapter::can_write(byte) : adapter::can_read(byte);
  };
  const bool small = length <= kPagesLookedAt * page;
  const size_t into = reinterpret_cast<uintptr_t>(addr) % page;
  // One call populates all pages of a small region. If it fails, a page may be missing, or the kernel may be
  // too old to know the call; the checks below tell.
  if (small && madvise(at - into, length + into, writes ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
    return true;
  if (!adapter::is_mapped(at, length) || !there(at) || !there(at + length - 1)) return false;
  if (!small) return true;
  for (size_t offset = page; offset < length; offset += page) {
    if (!there(at + offset)) return false;
  }
  return true;
}

bool may_pin(const char* call, const void* addr, size_t length, unsigned access) {
  if (can_be_pinned(addr, length, access)) return true;
  explain(
      "{}: {} bytes at {}: the memory is not there, or is read-only (a string constant, a const array) and "
      "access {:#x} has IBV_ACCESS_LOCAL_WRITE",
      call, length, addr, access);
  return false;
}

/// What a new region uses; null if there is nothing.
std::shared_ptr<RegionUses> uses_of(const RegionRequest& request) {
  RegionUses out{use_parent(request.pd), Use(request.memory), Use(request.dma)};
  const bool any = out.domain.holds() || out.memory.holds() || out.dma.holds();
  return any ? std::make_shared<RegionUses>(std::move(out)) : nullptr;
}

KnownRegion known(const RegionRequest& request, const Mr& region) noexcept {
  return {.object = region.object,
          .memory = static_cast<std::byte*>(request.addr),
          .length = request.length,
          .access = request.access,
          .uses = region.uses};
}

/// A key of the region now. Another handle of it may have changed it.
uint32_t key_of(const Mr& region) noexcept {
  return region.object->region().lkey.value();
}

/// Explains a change with values that cannot be.
int refuse_change(int flags, unsigned access) {
  explain(
      "ibv_rereg_mr: flags {:#x}, access {:#x}: must change memory, PD or access, come with the new values, "
      "and have access 0 without IBV_REREG_MR_CHANGE_ACCESS",
      flags, access);
  errno = EINVAL;
  return IBV_REREG_MR_ERR_INPUT;
}

/// @return 0, or the code for the side that failed; the region is then unchanged
int reregister(ibv_mr& mr, int flags, ibv_pd* pd, void* addr, size_t length, unsigned access) {
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool to_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
  const bool rights = (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0;
  if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0 || (to_pd && pd == nullptr) ||
      (moves && (addr == nullptr || length == 0)) || (!rights && access != 0) ||
      (rights && !knows_access("ibv_rereg_mr", access)))
    return refuse_change(flags, access);
  Handles<KnownRegion>& regions = ours(mr.context).device->regions;
  Mr& region = ours<Mr>(&mr);
  const uint32_t before = key_of(region);
  KnownRegion now = regions.find(before);
  if (now.uses != nullptr && now.uses->memory.holds()) {
    explain("ibv_rereg_mr: lkey {:#x}: a region of device memory cannot be changed", before);
    errno = EINVAL;
    return IBV_REREG_MR_ERR_CMD;
  }
  if (moves && !may_pin("ibv_rereg_mr", addr, length, rights ? access : now.access)) {
    errno = EFAULT;
    return IBV_REREG_MR_ERR_INPUT;
  }
  adapter::RegionChange change;
  if (moves) change.memory = std::span(static_cast<std::byte*>(addr), length);
  if (rights) change.access = static_cast<adapter::Access>(access & kRights);
  Use domain = use_parent(to_pd ? pd : nullptr);
  if (domain.holds() && now.uses == nullptr) now.uses = std::make_shared<RegionUses>();
  const Reason why = region.object->rereg(change, to_pd ? ours<Pd>(pd).object : nullptr);
  if (fail(why, "ibv_rereg_mr: flags {:#x}", flags) != 0) return IBV_REREG_MR_ERR_CMD;
  mr.lkey = mr.handle = key_of(region);
  mr.rkey = region.object->region().rkey.value();
  if (to_pd) mr.pd = pd;
  if (to_pd && now.uses != nullptr) now.uses->domain = std::move(domain);
  region.uses = now.uses;
  if (moves) {
    now.memory = static_cast<std::byte*>(mr.addr = addr);
    mr.length = now.length = length;
  }
  if (rights) now.access = access;
  regions.move(before, mr.handle, now);
  return 0;
}

/// A window gives rights only to peers. Programs also pass the local write right, which means nothing here.
adapter::Access window_access(const ibv_mw_bind_info& info) noexcept {
  return static_cast<adapter::Access>(info.mw_access_flags & ~static_cast<unsigned>(IBV_ACCESS_LOCAL_WRITE));
}

}  // namespace

ibv_mr* register_memory(const RegionRequest& request) {
  if (!may_register(request)) return no_object(EINVAL);
  if (!may_pin(request.call, request.addr, request.length, request.access)) return no_object(EFAULT);
  auto out = std::make_unique<Mr>();
  out->uses = uses_of(request);
  const std::span memory(static_cast<std::byte*>(request.addr), request.length);
  adapter::RegisterOptions options{.one_key = true};
  if ((request.access & IBV_ACCESS_ZERO_BASED) == 0) options.base_addr = request.iova;
  OpenContext& opened = ours(request.pd->context);
  const auto rights = static_cast<adapter::Access>(request.access & kRights);
  const hca::Made<hca::MemoryRegion> made =
      opened.context->reg_mr(*ours<Pd>(request.pd).object, memory,
                             request.unreachable ? adapter::Access::kNoLocalRead : rights, options);
  if (made.answer() == Reason::kBadRights)
    return no_object(made.refusal, "{}: access {:#x}", request.call, request.access);
  if (made.object == nullptr)
    return no_object(made.refusal, "{}: {} bytes, access {:#x}", request.call, request.length,
                     request.access);
  const adapter::MemoryRegion& region = made.object->region();
  out->object = made.object;
  out->c = {.context = request.pd->context,
            .pd = request.pd,
            .addr = request.addr,
            .length = request.length,
            .handle = region.lkey.value(),
            .lkey = region.lkey.value(),
            .rkey = region.rkey.value()};
  UndoUnlessDone made_in_vain([&] { static_cast<void>(opened.context->destroy(made.object)); });
  opened.device->regions.put(out->c.handle, known(request, *out));
  made_in_vain.dismiss();
  return &out.release()->c;
}

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) noexcept {
  return guarded(static_cast<ibv_mw*>(nullptr), [&]() -> ibv_mw* {
    if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) {
      explain("ibv_alloc_mw: type {}: must be 1 or 2", static_cast<int>(type));
      return no_object(EINVAL);
    }
    auto out = std::make_unique<Mw>();
    const auto kind = type == IBV_MW_TYPE_1 ? adapter::WindowKind::kType1 : adapter::WindowKind::kType2;
    const hca::Made<hca::Window> made = ours(pd->context).context->alloc_window(*ours<Pd>(pd).object, kind);
    if (made.object == nullptr) return no_object(made.refusal, "ibv_alloc_mw");
    out->object = made.object;
    out->domain = use_parent(pd);
    const uint32_t key = made.object->key().value();
    out->c = {.context = pd->context, .pd = pd, .rkey = key, .handle = key, .type = type};
    return &out.release()->c;
  });
}

int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) noexcept {
  const ibv_mw_bind_info& info = bind->bind_info;
  const hca::WindowBind request{.wr_id = bind->wr_id,
                                .flags = bind->send_flags,
                                .region = info.mr != nullptr ? ours<Mr>(info.mr).object : nullptr,
                                .addr = info.addr,
                                .length = info.length,
                                .access = window_access(info)};
  Rkey key;
  const Reason why = ours(qp).object->bind_window(*ours<Mw>(mw).object, request, key);
  if (why == Reason::kOk) mw->rkey = key.value();
  return fail(why, "ibv_bind_mw");
}

int dealloc_mw(ibv_mw* mw) noexcept {
  return end("ibv_dealloc_mw", ours<Mw>(mw), mw->context);
}

bool bind_request(ibv_mw* window, uint32_t rkey, const ibv_mw_bind_info& info,
                  adapter::BindRequest& out) noexcept {
  constexpr uint32_t kChosen = 0xFF;  // bits of the key that ibv_inc_rkey() changes
  if (window->type != IBV_MW_TYPE_2) return false;
  const uint32_t fixed = ours<Mw>(window).object->key().value() & ~kChosen;
  out = {.window = Rkey(fixed | (rkey & kChosen)),
         .region = info.mr != nullptr ? Lkey(info.mr->lkey) : Lkey(),
         .addr = info.addr,
         .length = info.length,
         .access = window_access(info)};
  return true;
}

}  // namespace weft::verbs

using namespace weft::verbs;  // NOLINT(google-build-using-namespace): C functions stand outside
namespace hca = weft::hca;

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

WEFT_VERBS_API ibv_mr* ibv_reg_mr(ibv_pd* pd, void* addr, size_t length, int access) {
  return guarded(static_cast<ibv_mr*>(nullptr), [&] {
    return register_memory(
        {pd, addr, length, reinterpret_cast<uint64_t>(addr), static_cast<unsigned>(access), "ibv_reg_mr"});
  });
}

WEFT_VERBS_API ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* addr, size_t length, uint64_t iova, int access) {
  return guarded(static_cast<ibv_mr*>(nullptr), [&] {
    return register_memory({pd, addr, length, iova, static_cast<unsigned>(access), "ibv_reg_mr_iova"});
  });
}

WEFT_VERBS_API ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* addr, size_t length, uint64_t iova,
                                        unsigned access) {
  return guarded(static_cast<ibv_mr*>(nullptr), [&] {
    // The headers make ibv_reg_mr() a macro for this function, with the address itself as iova.
    const bool plain = iova == reinterpret_cast<uintptr_t>(addr);
    return register_memory({pd, addr, length, iova, access, plain ? "ibv_reg_mr" : "ibv_reg_mr_iova2"});
  });
}

WEFT_VERBS_API int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* addr, size_t length, int access) {
  return guarded(static_cast<int>(IBV_REREG_MR_ERR_CMD),
                 [&] { return reregister(*mr, flags, pd, addr, length, static_cast<unsigned>(access)); });
}

/// Ends the region, whichever of its handles this is. The program then ends the others by ibv_unimport_mr().
WEFT_VERBS_API int ibv_dereg_mr(ibv_mr* mr) {
  const OpenContext& opened = ours(mr->context);
  const std::shared_ptr<OpenDevice> device = opened.device;
  Mr& region = ours<Mr>(mr);
  auto entry = device->regions.take(key_of(region));
  const weft::Reason why = opened.context->destroy(region.object);
  if (why != weft::Reason::kOk) {
    device->regions.put_back(std::move(entry));
    return fail(why, "ibv_dereg_mr");
  }
  const std::unique_ptr<Mr> owned(&region);
  const std::shared_ptr<RegionUses>& uses = entry.empty() ? region.uses : entry.mapped().uses;
  if (uses != nullptr) uses->end();
  return 0;
}

WEFT_VERBS_API ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  return guarded(static_cast<ibv_ah*>(nullptr), [&]() -> ibv_ah* {
    const ProcessNode& node = *ours(pd->context).node;
    const int gids = gid_count(node);
    if (!has_source(*attr, gids)) {
      explain("ibv_create_ah: grh.sgid_index {}: the port's GID table has {} entries, from 0",
              attr->grh.sgid_index, gids);
      errno = EINVAL;
      return nullptr;
    }
    auto out = std::make_unique<Ah>();
    const hca::Made<hca::AddressHandle> made =
        ours(pd->context).context->create_ah(*ours<Pd>(pd).object, ah_attr_of(*attr, node.settings().roce));
    if (made.object == nullptr) return no_object(made.refusal, "ibv_create_ah");
    out->object = made.object;
    out->domain = use_parent(pd);
    out->c = {.context = pd->context, .pd = pd, .handle = 0};
    return &out.release()->c;
  });
}

WEFT_VERBS_API int ibv_destroy_ah(ibv_ah* ah) {
  return end("ibv_destroy_ah", ours<Ah>(ah), ah->context);
}

/// The way back: LID and level of the datagram, and with a global header where that came from.
WEFT_VERBS_API int ibv_init_ah_from_wc(ibv_context* /*context*/, uint8_t port, ibv_wc* wc, ibv_grh* grh,
                                       ibv_ah_attr* out) {
  *out = {};
  out->dlid = wc->slid;
  out->sl = wc->sl;
  out->src_path_bits = wc->dlid_path_bits;
  out->port_num = port;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) return 0;
  const uint32_t word = be32toh(grh->version_tclass_flow);
  out->is_global = 1;
  out->grh.dgid = grh->sgid;
  out->grh.flow_label = word & 0xFFFFF;
  out->grh.traffic_class = static_cast<uint8_t>(word >> 20);
  out->grh.hop_limit = weft::kHopLimitDefault;
  return 0;
}

WEFT_VERBS_API ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port) {
  ibv_ah_attr attr;
  static_cast<void>(ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr));
  return ibv_create_ah(pd, &attr);
}
