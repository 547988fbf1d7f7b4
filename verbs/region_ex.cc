// Newer calls for regions: registration by a struct, DMA handles, buffers that the library allocates, advice,
// and import of regions of another context.
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <span>

#include "verbs/c_call.h"
#include "verbs/context_ops.h"
#include "verbs/explain/explain.h"
#include "verbs/newer_abi.h"
#include "verbs/objects.h"
#include "verbs/regions.h"

namespace weft::verbs {

/// Memory of ibv_alloc_buf(): ordinary memory in whole pages.
struct Buffer {
  struct Free {
    void operator()(std::byte* pages) const noexcept { std::free(pages); }
  };
  Pd* pd = nullptr;
  Use domain;  // of `pd`
  std::unique_ptr<std::byte, Free> memory;
  size_t bytes = 0;

  [[nodiscard]] bool holds(const void* at, size_t length) const noexcept {
    const size_t offset = reinterpret_cast<uintptr_t>(at) - reinterpret_cast<uintptr_t>(memory.get());
    return offset <= bytes && length <= bytes - offset;
  }
};

namespace {

constexpr uint8_t kProcessingHints = 4;
constexpr uint8_t kMemoryTypes = 2;  // volatile, persistent

ibv_mr* register_buffer(ibv_pd* pd, const Buffer& buffer, const RegionRequest& request) {
  if (buffer.pd != &ours<Pd>(pd) || !buffer.holds(request.addr, request.length)) {
    explain("{}: {} bytes: not within the buffer, or the buffer belongs to another PD", request.call,
            request.length);
    return no_object(EINVAL);
  }
  return register_memory(request);
}

ibv_mr* register_by_struct(ibv_pd* pd, const MrInit& init) {
  constexpr const char* kCall = "ibv_reg_mr_ex";
  constexpr uint64_t kFile = kMrFd | kMrFdOffset;
  const uint64_t mask = init.comp_mask;
  if ((mask & ~(kMrIova | kMrAddr | kFile | kMrDmaHandle | kMrBuffer)) != 0 ||
      ((mask & kFile) != 0 && (mask & (kMrAddr | kMrBuffer)) != 0) || (mask & (kMrAddr | kFile)) == 0) {
    explain("{}: comp_mask {:#x}: must have an address or a file, not both", kCall, mask);
    return no_object(EINVAL);
  }
  if ((mask & kFile) != 0) {
    explain("{}: fd {}: DMA buffers are not supported", kCall, init.fd);
    return no_object(EOPNOTSUPP);
  }
  const uint64_t start = (mask & kMrIova) != 0 ? init.iova : reinterpret_cast<uint64_t>(init.addr);
  RegionRequest request{pd, init.addr, init.length, start, static_cast<unsigned>(init.access), kCall};
  const bool on_demand = (request.access & IBV_ACCESS_ON_DEMAND) != 0;
  if (on_demand && (mask & kMrDmaHandle) != 0) {
    explain("{}: access {:#x}: memory on demand cannot have a DMA handle", kCall, request.access);
    return no_object(EINVAL);
  }
  if ((mask & kMrDmaHandle) != 0) request.dma = init.dmah->users;
  return (mask & kMrBuffer) != 0 ? register_buffer(pd, *static_cast<Buffer*>(init.buf), request)
                                 : register_memory(request);
}

DmaHandle* make_dma_handle(ibv_context* context, const DmaHandleInit& init) {
  const auto cpus = static_cast<uint64_t>(sysconf(_SC_NPROCESSORS_CONF));
  const bool bad = (init.comp_mask & ~(kDmaCpu | kDmaHint | kDmaMemoryType)) != 0 ||
                   ((init.comp_mask & kDmaCpu) != 0 && init.cpu_id >= cpus) ||
                   ((init.comp_mask & kDmaHint) != 0 && init.processing_hint >= kProcessingHints) ||
                   ((init.comp_mask & kDmaMemoryType) != 0 && init.memory_type >= kMemoryTypes);
  if (bad) {
    explain("ibv_alloc_dmah: comp_mask {:#x}, cpu_id {}, ph {}, tph_mem_type {}: out of range",
            init.comp_mask, init.cpu_id, init.processing_hint, init.memory_type);
    return no_object(EINVAL);
  }
  auto out = std::make_unique<DmaHandle>();
  out->context = context;
  return out.release();
}

/// Brings the pages of a range into memory, as a first access would.
int page_in(std::byte* from, uint64_t bytes, bool to_write) noexcept {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t into = reinterpret_cast<uintptr_t>(from) % page;
  if (madvise(from - into, bytes + into, to_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0) return 0;
  return errno == EINVAL ? 0 : EFAULT;  // EINVAL: an older kernel without the call; advice may be ignored
}

int advise(ibv_pd* pd, ibv_advise_mr_advice advice, const ibv_sge& range) {
  const KnownRegion region = ours(pd->context).device->regions.find(range.lkey);
  if (region.object == nullptr) return ENOENT;
  if (region.object->pd().id() != ours<Pd>(pd).object->id()) return EPERM;
  if ((region.access & IBV_ACCESS_ON_DEMAND) == 0) return EINVAL;
  const bool writes = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  if (writes && (region.access & IBV_ACCESS_LOCAL_WRITE) == 0) return EPERM;
  const uint64_t offset = range.addr - region.object->region().addr;
  if (offset > region.length || range.length > region.length - offset) return EFAULT;
  if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return 0;
  // The first byte of an implicit region has address 0, and `memory` is null.
  const uintptr_t at = reinterpret_cast<uintptr_t>(region.memory) + offset;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address, not a place in an array
  return page_in(reinterpret_cast<std::byte*>(at), range.length, writes);
}

}  // namespace

/// Prefetches before it returns, so IBV_ADVISE_MR_FLAG_FLUSH changes nothing.
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge* ranges,
              uint32_t count) noexcept {
  return guarded(ENOMEM, [&] {
    if (advice != IBV_ADVISE_MR_ADVICE_PREFETCH && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE &&
        advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) {
      explain("ibv_advise_mr: advice {}: only the three kinds of prefetch are supported",
              static_cast<int>(advice));
      return fail(ENOTSUP);
    }
    if ((flags & ~static_cast<uint32_t>(IBV_ADVISE_MR_FLAG_FLUSH)) != 0 || count == 0) return fail(EINVAL);
    for (const ibv_sge& range : std::span(ranges, count)) {
      const int fault = advise(pd, advice, range);
      if (fault == 0) continue;
      explain(
          "ibv_advise_mr: lkey {:#x}, {} bytes: not within an on-demand region of this PD, or its access "
          "does not allow it",
          range.lkey, range.length);
      return fail(fault);
    }
    return 0;
  });
}

}  // namespace weft::verbs

using namespace weft::verbs;  // NOLINT(google-build-using-namespace): C functions stand outside

WEFT_VERBS_API ibv_mr* ibv_import_mr(ibv_pd* pd, uint32_t handle) {
  return guarded(static_cast<ibv_mr*>(nullptr), [&]() -> ibv_mr* {
    const KnownRegion region = ours(pd->context).device->regions.find(handle);
    if (region.object == nullptr || region.object->pd().id() != ours<Pd>(pd).object->id()) {
      explain("ibv_import_mr: handle {:#x}: the PD has no such region", handle);
      return no_object(ENOENT);
    }
    auto out = std::make_unique<Mr>();
    out->object = region.object;
    out->uses = region.uses;
    out->c = {.context = pd->context,
              .pd = pd,
              .addr = nullptr,
              .length = region.length,
              .handle = handle,
              .lkey = region.object->region().lkey.value(),
              .rkey = region.object->region().rkey.value()};
    return &out.release()->c;
  });
}

WEFT_VERBS_API void ibv_unimport_mr(ibv_mr* mr) {
  const std::unique_ptr<Mr> owned(&ours<Mr>(mr));
}

extern "C" {

ibv_mr* weft_reg_mr_ex(ibv_pd* pd, const MrInit* init) WEFT_VERBS_NAMED("ibv_reg_mr_ex");
ibv_mr* weft_reg_mr_ex(ibv_pd* pd, const MrInit* init) {
  return guarded(static_cast<ibv_mr*>(nullptr), [&] { return register_by_struct(pd, *init); });
}

DmaHandle* weft_alloc_dmah(ibv_context* context, const DmaHandleInit* init)
    WEFT_VERBS_NAMED("ibv_alloc_dmah");
DmaHandle* weft_alloc_dmah(ibv_context* context, const DmaHandleInit* init) {
  return guarded(static_cast<DmaHandle*>(nullptr), [&] { return make_dma_handle(context, *init); });
}

int weft_dealloc_dmah(DmaHandle* handle) WEFT_VERBS_NAMED("ibv_dealloc_dmah");
int weft_dealloc_dmah(DmaHandle* handle) {
  if (*handle->users != 0) return fail(EBUSY);
  const std::unique_ptr<DmaHandle> owned(handle);
  return 0;
}

void* weft_alloc_buf(ibv_pd* pd, size_t bytes, Buffer** out) WEFT_VERBS_NAMED("ibv_alloc_buf");
void* weft_alloc_buf(ibv_pd* pd, size_t bytes, Buffer** out) {
  return guarded(static_cast<void*>(nullptr), [&]() -> void* {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    if (bytes == 0 || bytes > SIZE_MAX / 2) return no_object(EINVAL);
    auto made = std::make_unique<Buffer>();
    made->memory.reset(static_cast<std::byte*>(std::aligned_alloc(page, (bytes + page - 1) / page * page)));
    if (made->memory == nullptr) return no_object(ENOMEM);
    made->bytes = bytes;
    made->pd = &ours<Pd>(pd);
    made->domain = Use(made->pd->users);
    *out = made.release();
    return (*out)->memory.get();
  });
}

void weft_free_buf(Buffer* buffer) WEFT_VERBS_NAMED("ibv_free_buf");
void weft_free_buf(Buffer* buffer) {
  const std::unique_ptr<Buffer> owned(buffer);
}

ibv_mr* weft_reg_buf_mr(ibv_pd* pd, Buffer* buffer, void* addr, size_t length, int access)
    WEFT_VERBS_NAMED("ibv_reg_buf_mr");
ibv_mr* weft_reg_buf_mr(ibv_pd* pd, Buffer* buffer, void* addr, size_t length, int access) {
  return guarded(static_cast<ibv_mr*>(nullptr), [&] {
    return register_buffer(pd, *buffer,
                           {pd, addr, length, reinterpret_cast<uint64_t>(addr), static_cast<unsigned>(access),
                            "ibv_reg_buf_mr"});
  });
}

int weft_export_buf_dmabuf_fd(Buffer* buffer) WEFT_VERBS_NAMED("ibv_export_buf_dmabuf_fd");
int weft_export_buf_dmabuf_fd(Buffer* /*buffer*/) {
  errno = ENODATA;  // the memory is ordinary, so there is no dmabuf; errno as in the manual
  return -1;
}

}  // extern "C"
