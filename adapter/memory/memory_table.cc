// How it works: every key names one entry of one table. A region has an entry of type region, which only work
// requests of this node may use (its LKey), and windows, which only peers may use (their RKeys). Registering
// with remote rights makes a window over the whole region at once, so that verbs users get an RKey; LKey and
// RKey are never equal. Each check goes through the letters of TPT-LOCAL-02 and TPT-REMOTE-02 in order:
// valid, type, PD, instance, bounds, right. Bounds are compared by subtraction, which cannot wrap: offset <=
// length and bytes <= length - offset.
//
// An entry holds the address of its first byte in this process: the identity mapping. Translation through
// page tables belongs into translate(), the one place where an offset becomes an address.
#include "adapter/memory/memory_table.h"

#include <array>
#include <limits>
#include <vector>

#include "adapter/memory/key_table.h"
#include "base/check.h"

namespace weft::adapter {
namespace {

constexpr uint32_t kNoEntry = std::numeric_limits<uint32_t>::max();
constexpr Access kRemoteRights = Access::kRemoteRead | Access::kRemoteWrite | Access::kRemoteAtomic;

[[nodiscard]] constexpr Access only(Access set, Access mask) noexcept {
  return static_cast<Access>(static_cast<uint32_t>(set) & static_cast<uint32_t>(mask));
}

/// The right an access needs.
[[nodiscard]] constexpr bool permits(Access rights, AccessKind kind) noexcept {
  switch (kind) {
    case AccessKind::kLocalRead:
      return !has(rights, Access::kNoLocalRead);
    case AccessKind::kLocalWrite:
      return has(rights, Access::kLocalWrite);
    case AccessKind::kRemoteRead:
      return has(rights, Access::kRemoteRead);
    case AccessKind::kRemoteWrite:
      return has(rights, Access::kRemoteWrite);
    case AccessKind::kRemoteAtomic:
      return has(rights, Access::kRemoteAtomic);
  }
  return false;
}

/// A remote right never exceeds the local one (SAN-LMP-01; libibverbs: remote write and atomics need local
/// write).
[[nodiscard]] constexpr bool local_rights_suffice(Access local, Access remote) noexcept {
  const bool writes = has(remote, Access::kRemoteWrite) || has(remote, Access::kRemoteAtomic);
  if (writes && !has(local, Access::kLocalWrite)) return false;
  const bool reads = has(remote, Access::kRemoteRead) || has(remote, Access::kRemoteAtomic);
  return !reads || !has(local, Access::kNoLocalRead);
}

}  // namespace

/// One line of cache: a check touches one entry.
struct alignas(64) MemoryTable::Entry {
  uint64_t start = 0;           // first address as its users name it
  uint64_t length = 0;          // bytes
  std::byte* memory = nullptr;  // where the first byte lies
  PdId pd;
  Access rights = Access::kNone;
  uint32_t region = kNoEntry;    // window: the region it is bound to
  uint32_t windows = 0;          // region: explicit windows bound to it
  uint32_t implicit = kNoEntry;  // region: its implicit window; window: itself when it is one
  uint32_t binding = 0;          // window: number of the bind that it stands for, 0 = not bound
  EntryType type = EntryType::kRegion;
  bool taken = false;
  bool valid = false;

  [[nodiscard]] bool holds(uint64_t addr, uint64_t bytes) const noexcept {
    const uint64_t offset = addr - start;  // wraps to something huge below the start
    return offset <= length && bytes <= length - offset;
  }
  [[nodiscard]] std::byte* translate(uint64_t addr) const noexcept { return memory + (addr - start); }
};

class MemoryTable::Core {
 public:
  Core(uint32_t keys, uint8_t number, RandomSource& random) : keys_(keys, number, random), entries_(keys) {}

  /// Checks a to d: valid, type, PD, instance. Unbound windows are not valid.
  AccessFault admit(PdId pd, uint32_t key, EntryType type, const Entry*& out) const noexcept {
    const std::optional<KeyParts> parts = keys_.find(key);
    if (!parts) return AccessFault::kNotValid;
    const Entry& entry = entries_[parts->index];
    if (!entry.valid) return AccessFault::kNotValid;
    if (entry.type != type) return AccessFault::kWrongType;
    if (entry.pd != pd) return AccessFault::kWrongPd;
    if (keys_.instance_of(parts->index) != parts->instance) return AccessFault::kWrongInstance;
    out = &entry;
    return AccessFault::kNone;
  }

  /// The window a key names, bound or not: what bind, unbind and invalidate work on.
  AccessFault find_window(PdId pd, Rkey key, uint32_t& out) const noexcept {
    const std::optional<KeyParts> parts = keys_.find(key.value());
    if (!parts || !entries_[parts->index].taken) return AccessFault::kNotValid;
    const Entry& entry = entries_[parts->index];
    if (entry.type != EntryType::kWindow) return AccessFault::kWrongType;
    if (entry.pd != pd) return AccessFault::kWrongPd;
    if (keys_.instance_of(parts->index) != parts->instance) return AccessFault::kWrongInstance;
    out = parts->index;
    return AccessFault::kNone;
  }

  /// Entry of a present key, whatever its PD.
  [[nodiscard]] const Entry* find_present(uint32_t key, uint32_t& index) const noexcept {
    const std::optional<KeyParts> parts = keys_.find(key);
    if (!parts || keys_.instance_of(parts->index) != parts->instance) return nullptr;
    if (!entries_[parts->index].taken) return nullptr;
    index = parts->index;
    return &entries_[parts->index];
  }

  [[nodiscard]] uint32_t index_of(const Entry& entry) const noexcept {
    return static_cast<uint32_t>(&entry - entries_.data());
  }

  /// May `request` be bound to a window of `pd`? Changes nothing.
  AccessFault check_bind(PdId pd, const BindRequest& request, const Entry*& region) const noexcept {
    const AccessFault fault = admit(pd, request.region.value(), EntryType::kRegion, region);
    if (fault != AccessFault::kNone) return fault;
    if (!has(region->rights, Access::kWindowBind)) return AccessFault::kNoWindowBind;
    if (request.length == 0 || !region->holds(request.addr, request.length)) return AccessFault::kOutOfBounds;
    if (!local_rights_suffice(region->rights, request.access)) return AccessFault::kRightMissing;
    return AccessFault::kNone;
  }

  void bind(uint32_t window, const Entry& region, const BindRequest& request) noexcept {
    Entry& entry = entries_[window];
    entry.start = has(request.access, Access::kZeroBased) ? 0 : request.addr;
    entry.length = request.length;
    entry.memory = region.translate(request.addr);
    entry.rights = only(request.access, kRemoteRights | Access::kOneShot);
    entry.region = index_of(region);
    entry.binding = next_binding();
    entry.valid = true;
    ++entries_[entry.region].windows;
  }

  /// Leaves a window allocated and without a range; nothing to do when it is so already.
  void unbind(uint32_t window) noexcept {
    Entry& entry = entries_[window];
    if (entry.region != kNoEntry && entry.implicit == kNoEntry) {
      --entries_[entry.region].windows;
      entry.region = kNoEntry;
    }
    entry.valid = false;
    entry.binding = 0;
    entry.start = entry.length = 0;
    entry.memory = nullptr;
    entry.rights = Access::kNone;
  }

  [[nodiscard]] bool is_implicit(uint32_t window) const noexcept {
    return entries_[window].implicit != kNoEntry;
  }

  /// Never 0.
  [[nodiscard]] uint32_t next_binding() noexcept {
    return bindings_ = bindings_ + 1 == 0 ? 1 : bindings_ + 1;
  }

  void release(uint32_t index) noexcept {
    entries_[index] = Entry{};
    keys_.give_back(index);
  }

  KeyTable keys_;
  std::vector<Entry> entries_;
  uint32_t bindings_ = 0;  // made so far
};

MemoryTable::MemoryTable(uint32_t keys, uint8_t number, RandomSource& random)
    : core_(std::make_unique<Core>(keys, number, random)) {}
MemoryTable::~MemoryTable() = default;

Result<MemoryRegion> MemoryTable::reg_mr(PdId pd, std::span<std::byte> memory, Access access,
                                         const RegisterOptions& options) {
  const Access remote = only(access, kRemoteRights);
  if (options.type != EntryType::kRegion) {
    return Error{"reg_mr: makes RDMA regions only; iSCSI regions are not offered, entry type 3 is reserved"};
  }
  if (memory.empty()) return Error{"reg_mr: no memory given; a region has at least one byte"};
  if (!local_rights_suffice(access, remote)) {
    return Error{
        "reg_mr: a remote right without the local one; add local write (or drop the withheld local read)"};
  }
  uint64_t start = options.base_addr;
  if (start == 0 && !has(access, Access::kZeroBased)) start = reinterpret_cast<uintptr_t>(memory.data());
  if (memory.size() - 1 > std::numeric_limits<uint64_t>::max() - start) {
    return Error{
        "reg_mr: the region would run past the end of the address space; choose a lower base address"};
  }
  const bool with_window = remote != Access::kNone;
  if (core_->keys_.free_count() < (with_window ? 2U : 1U)) {
    return Error{"reg_mr: no free key; deregister something or raise AdapterLimits::keys"};
  }
  const uint32_t region_index = *core_->keys_.take();
  Entry& region = core_->entries_[region_index];
  region = Entry{.start = start,
                 .length = memory.size(),
                 .memory = memory.data(),
                 .pd = pd,
                 .rights = only(access, Access::kLocalWrite | Access::kNoLocalRead | Access::kWindowBind),
                 .type = EntryType::kRegion,
                 .taken = true,
                 .valid = true};
  MemoryRegion result{.lkey = Lkey(core_->keys_.key_of(region_index)),
                      .rkey = Rkey(),
                      .addr = start,
                      .length = memory.size()};
  if (with_window) {
    const uint32_t window_index = *core_->keys_.take();
    Entry& window = core_->entries_[window_index];
    window = region;
    window.rights = only(access, kRemoteRights | Access::kOneShot);
    window.type = EntryType::kWindow;
    window.region = region_index;
    window.implicit = window_index;
    window.binding = core_->next_binding();
    region.implicit = window_index;
    result.rkey = Rkey(core_->keys_.key_of(window_index));
  }
  return result;
}

Status MemoryTable::dereg_mr(Lkey lkey) {
  uint32_t index = 0;
  const Entry* region = core_->find_present(lkey.value(), index);
  if (region == nullptr || region->type != EntryType::kRegion)
    return Error{"dereg_mr: not the LKey of a region"};
  if (region->windows != 0) return Error{"dereg_mr: windows are bound to the region; unbind them first"};
  ++revision_;
  if (region->implicit != kNoEntry) core_->release(region->implicit);
  core_->release(index);
  return {};
}

Result<Rkey> MemoryTable::alloc_rkey(PdId pd) {
  Rkey key;
  if (Status status = alloc_rkeys(pd, {&key, 1}); !status) return status.error();
  return key;
}

Status MemoryTable::alloc_rkeys(PdId pd, std::span<Rkey> out) {
  if (core_->keys_.free_count() < out.size()) {
    return Error{"alloc_rkey: no free key; retire some or raise AdapterLimits::keys"};
  }
  for (Rkey& key : out) {
    const uint32_t index = *core_->keys_.take();
    core_->entries_[index] = Entry{.pd = pd, .type = EntryType::kWindow, .taken = true};
    key = Rkey(core_->keys_.key_of(index));
  }
  return {};
}

Status MemoryTable::dealloc_rkey(Rkey key) {
  uint32_t index = 0;
  const Entry* window = core_->find_present(key.value(), index);
  if (window == nullptr || window->type != EntryType::kWindow)
    return Error{"dealloc_rkey: not a present RKey"};
  if (core_->is_implicit(index)) return Error{"dealloc_rkey: the key belongs to a region; deregister that"};
  ++revision_;
  core_->unbind(index);
  core_->release(index);
  return {};
}

AccessFault MemoryTable::bind_rkey(PdId pd, const BindRequest& request) noexcept {
  if (request.addr == 0 && request.length == 0) return unbind_rkey(pd, request.window);
  uint32_t window = 0;
  AccessFault fault = core_->find_window(pd, request.window, window);
  if (fault != AccessFault::kNone) return fault;
  if (core_->entries_[window].valid || core_->is_implicit(window)) return AccessFault::kAlreadyBound;
  const Entry* region = nullptr;
  fault = core_->check_bind(pd, request, region);
  if (fault == AccessFault::kNone) {
    core_->unbind(window);  // a one-shot key that has served still hangs on its region
    core_->bind(window, *region, request);
  }
  return fault;
}

AccessFault MemoryTable::unbind_rkey(PdId pd, Rkey key) noexcept {
  uint32_t window = 0;
  const AccessFault fault = core_->find_window(pd, key, window);
  if (fault != AccessFault::kNone) return fault;
  if (core_->is_implicit(window)) return AccessFault::kWrongType;
  ++revision_;
  core_->unbind(window);
  return AccessFault::kNone;
}

AccessFault MemoryTable::destroy_window(PdId pd, Rkey key) noexcept {
  uint32_t window = 0;
  const AccessFault fault = core_->find_window(pd, key, window);
  if (fault != AccessFault::kNone) return fault;
  if (core_->is_implicit(window)) return AccessFault::kWrongType;
  ++revision_;
  core_->unbind(window);
  core_->release(window);
  return AccessFault::kNone;
}

AccessFault MemoryTable::rebind_window(PdId pd, const BindRequest& request, Rkey& key) noexcept {
  uint32_t window = 0;
  AccessFault fault = core_->find_window(pd, request.window, window);
  if (fault != AccessFault::kNone) return fault;
  if (core_->is_implicit(window)) return AccessFault::kWrongType;
  const Entry* region = nullptr;
  if (request.length != 0) fault = core_->check_bind(pd, request, region);
  if (fault != AccessFault::kNone) return fault;
  ++revision_;
  core_->unbind(window);
  core_->keys_.renew(window);
  if (region != nullptr) core_->bind(window, *region, request);
  key = Rkey(core_->keys_.key_of(window));
  return AccessFault::kNone;
}

AccessFault MemoryTable::invalidate(PdId pd, Rkey key) noexcept {
  uint32_t window = 0;
  const AccessFault fault = core_->find_window(pd, key, window);
  if (fault != AccessFault::kNone) return fault;
  if (!core_->entries_[window].valid) return AccessFault::kNotValid;
  ++revision_;
  core_->unbind(window);
  return AccessFault::kNone;
}

AccessFault MemoryTable::check_local(PdId pd, const Sge& sge, AccessKind kind,
                                     std::byte*& at) const noexcept {
  const Entry* entry = nullptr;
  const AccessFault fault = core_->admit(pd, sge.lkey.value(), EntryType::kRegion, entry);
  if (fault != AccessFault::kNone) [[unlikely]]
    return fault;
  if (!entry->holds(sge.addr, sge.length)) [[unlikely]]
    return AccessFault::kOutOfBounds;
  if (!permits(entry->rights, kind)) [[unlikely]]
    return AccessFault::kRightMissing;
  at = entry->translate(sge.addr);
  return AccessFault::kNone;
}

AccessFault MemoryTable::check_remote(PdId pd, Rkey key, uint64_t va, uint64_t length, AccessKind kind,
                                      RemoteGrant& out) const noexcept {
  const Entry* entry = nullptr;
  const AccessFault fault = core_->admit(pd, key.value(), EntryType::kWindow, entry);
  if (fault != AccessFault::kNone) [[unlikely]]
    return fault;
  if (!entry->holds(va, length)) [[unlikely]]
    return AccessFault::kOutOfBounds;
  if (!permits(entry->rights, kind)) [[unlikely]]
    return AccessFault::kRightMissing;
  out = {.at = entry->translate(va),
         .room = entry->length - (va - entry->start),
         .entry = core_->index_of(*entry),
         .binding = entry->binding,
         .one_shot = has(entry->rights, Access::kOneShot)};
  return AccessFault::kNone;
}

void MemoryTable::finish_remote(const RemoteGrant& grant) noexcept {
  if (!grant.one_shot) [[likely]]
    return;
  Entry& entry = core_->entries_[grant.entry];
  if (!entry.valid || entry.binding != grant.binding) return;
  entry.valid = false;
  ++revision_;
}

bool MemoryTable::still_bound(const RemoteGrant& grant) const noexcept {
  return grant.binding != 0 && core_->entries_[grant.entry].binding == grant.binding;
}

std::optional<TptEntry> MemoryTable::query(uint32_t key) const noexcept {
  uint32_t index = 0;
  const Entry* entry = core_->find_present(key, index);
  if (entry == nullptr) return std::nullopt;
  const bool region = entry->type == EntryType::kRegion;
  return TptEntry{.start = entry->start,
                  .length = entry->length,
                  .pd = entry->pd,
                  .instance = core_->keys_.instance_of(index),
                  .type = entry->type,
                  .valid = entry->valid,
                  .local_read = region && permits(entry->rights, AccessKind::kLocalRead),
                  .local_write = has(entry->rights, Access::kLocalWrite),
                  .remote_read = has(entry->rights, Access::kRemoteRead),
                  .remote_write = has(entry->rights, Access::kRemoteWrite),
                  .remote_atomic = has(entry->rights, Access::kRemoteAtomic),
                  .window_binding = has(entry->rights, Access::kWindowBind),
                  .one_touch_enabled = has(entry->rights, Access::kOneShot),
                  .bound_windows = entry->windows};
}

bool MemoryTable::pd_unused(PdId pd) const noexcept {
  for (const Entry& entry : core_->entries_) {
    if (entry.taken && entry.pd == pd) return false;
  }
  return true;
}

std::string_view to_string(AccessFault fault) noexcept {
  static constexpr std::array<std::string_view, static_cast<size_t>(AccessFault::kCount)> kNames{
      "none",          "not-valid",     "wrong-type",     "wrong-pd",     "wrong-instance",
      "out-of-bounds", "right-missing", "no-window-bind", "already-bound"};
  return fault < AccessFault::kCount ? kNames[static_cast<size_t>(fault)] : "unknown";
}

}  // namespace weft::adapter
