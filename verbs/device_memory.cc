#include "verbs/device_memory.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cstring>

#include "verbs/c_call.h"
#include "verbs/context_ops.h"
#include "verbs/explain/explain.h"
#include "verbs/objects.h"
#include "verbs/regions.h"

namespace weft::verbs {
namespace {

constexpr size_t kCacheLine = 64;
constexpr uint32_t kLogAlignmentMax = 12;  // 4 KiB, one page
constexpr uint64_t kUnit = 4;              // bytes; copies have multiples of it as size and offset

std::atomic<size_t>& bytes_in_use() noexcept {
  static std::atomic<size_t> bytes{0};
  return bytes;
}

struct Dm {
  ibv_dm c{};
  std::shared_ptr<DeviceMemory> memory;
};

int refuse_copy(uint64_t offset, size_t bytes) noexcept {
  return guarded(EINVAL, [&] {
    explain(
        "ibv_memcpy_to_dm, ibv_memcpy_from_dm: {} bytes at offset {}: must be multiples of {} within the "
        "memory",
        bytes, offset, kUnit);
    return fail(EINVAL);
  });
}

bool may_copy(const DeviceMemory& memory, uint64_t offset, size_t bytes) noexcept {
  return offset % kUnit == 0 && bytes % kUnit == 0 && memory.holds(offset, bytes);
}

int memcpy_to_dm(ibv_dm* dm, uint64_t offset, const void* from, size_t bytes) noexcept {
  const DeviceMemory& memory = *ours<Dm>(dm).memory;
  if (!may_copy(memory, offset, bytes)) return refuse_copy(offset, bytes);
  std::memcpy(memory.at(offset), from, bytes);
  return 0;
}

int memcpy_from_dm(void* to, ibv_dm* dm, uint64_t offset, size_t bytes) noexcept {
  const DeviceMemory& memory = *ours<Dm>(dm).memory;
  if (!may_copy(memory, offset, bytes)) return refuse_copy(offset, bytes);
  std::memcpy(to, memory.at(offset), bytes);
  return 0;
}

ibv_dm* shown(ibv_context* context, std::shared_ptr<DeviceMemory> memory, uint32_t handle) {
  auto out = std::make_unique<Dm>();
  out->memory = std::move(memory);
  out->c.context = context;
  out->c.memcpy_to_dm = memcpy_to_dm;
  out->c.memcpy_from_dm = memcpy_from_dm;
  out->c.handle = handle;
  return &out.release()->c;
}

}  // namespace

std::shared_ptr<DeviceMemory> DeviceMemory::make(size_t bytes, uint32_t log_alignment) {
  std::shared_ptr<DeviceMemory> out(new DeviceMemory());  // tidy: private constructor
  if (bytes == 0 || bytes > kDeviceMemoryBytes) return nullptr;
  if (bytes_in_use().fetch_add(bytes) + bytes > kDeviceMemoryBytes) {
    bytes_in_use() -= bytes;
    return nullptr;
  }
  out->bytes_ = bytes;
  const size_t alignment = std::max(kCacheLine, size_t{1} << log_alignment);
  const size_t whole = (bytes + alignment - 1) / alignment * alignment;
  out->memory_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, whole)));
  if (out->memory_ == nullptr) return nullptr;
  std::memset(out->memory_.get(), 0, whole);
  return out;
}

DeviceMemory::~DeviceMemory() {
  bytes_in_use() -= bytes_;
}

ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attr) noexcept {
  return guarded(static_cast<ibv_dm*>(nullptr), [&]() -> ibv_dm* {
    static std::atomic<uint32_t> handles{0};
    if (attr->comp_mask != 0 || attr->log_align_req > kLogAlignmentMax || attr->length == 0) {
      explain("ibv_alloc_dm: comp_mask {:#x}, log_align_req {}, length {}: must be 0, at most {}, at least 1",
              attr->comp_mask, attr->log_align_req, attr->length, kLogAlignmentMax);
      return no_object(EINVAL);
    }
    std::shared_ptr<DeviceMemory> memory = DeviceMemory::make(attr->length, attr->log_align_req);
    if (memory == nullptr) {
      explain("ibv_alloc_dm: length {}: less is left of the device's {} bytes", attr->length,
              kDeviceMemoryBytes);
      return no_object(ENOMEM);
    }
    const uint32_t handle = ++handles;
    auto& memories = ours(context).device->memories;
    UndoUnlessDone made_in_vain([&] { memories.drop(handle); });
    memories.put(handle, memory);
    ibv_dm* const out = shown(context, std::move(memory), handle);
    made_in_vain.dismiss();
    return out;
  });
}

/// Ends the memory, whichever of its handles this is. It counts as in use until the program has ended the
/// others by ibv_unimport_dm().
int free_dm(ibv_dm* dm) noexcept {
  Dm& ending = ours<Dm>(dm);
  if (ending.memory->regions != 0) return fail(EBUSY);
  ours(dm->context).device->memories.drop(dm->handle);
  const std::unique_ptr<Dm> owned(&ending);
  return 0;
}

ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, uint64_t offset, size_t length, unsigned access) noexcept {
  return guarded(static_cast<ibv_mr*>(nullptr), [&]() -> ibv_mr* {
    const std::shared_ptr<DeviceMemory>& memory = ours<Dm>(dm).memory;
    if ((access & IBV_ACCESS_ZERO_BASED) == 0 || (access & IBV_ACCESS_ON_DEMAND) != 0 ||
        !memory->holds(offset, length)) {
      explain(
          "ibv_reg_dm_mr: {} bytes at offset {}, access {:#x}: must be within the memory, zero-based, not on "
          "demand",
          length, offset, access);
      return no_object(EINVAL);
    }
    // Programs register regions of length 0. Such a region is registered with one byte that no request may
    // access.
    ibv_mr* made = register_memory({.pd = pd,
                                    .addr = memory->at(offset),
                                    .length = std::max(length, size_t{1}),
                                    .access = access,
                                    .call = "ibv_reg_dm_mr",
                                    .unreachable = length == 0,
                                    .memory = UseCount(memory, &memory->regions)});
    if (made == nullptr) return nullptr;
    made->addr = nullptr;
    made->length = length;
    return made;
  });
}

}  // namespace weft::verbs

using namespace weft::verbs;  // NOLINT(google-build-using-namespace): C functions stand outside

WEFT_VERBS_API ibv_dm* ibv_import_dm(ibv_context* context, uint32_t handle) {
  return guarded(static_cast<ibv_dm*>(nullptr), [&]() -> ibv_dm* {
    std::shared_ptr<DeviceMemory> memory = ours(context).device->memories.find(handle);
    if (memory == nullptr) {
      explain("ibv_import_dm: handle {}: this device has no such memory", handle);
      return no_object(ENOENT);
    }
    return shown(context, std::move(memory), handle);
  });
}

WEFT_VERBS_API void ibv_unimport_dm(ibv_dm* dm) {
  const std::unique_ptr<Dm> owned(&ours<Dm>(dm));
}
