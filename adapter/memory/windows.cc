// adapter/memory/regions.cc explains how the table works.
#include "adapter/memory/windows.h"

#include <utility>

#include "adapter/memory/computer_memory.h"
#include "adapter/memory/regions.h"
#include "adapter/memory/tpt_entries.h"

namespace weft::adapter {

Refusable<Rkey> Windows::alloc_rkey(PdId pd) {
  Rkey key;
  if (Refusable<> status = alloc_rkeys(pd, {&key, 1}); !status) return status.error();
  return key;
}

Refusable<> Windows::alloc_rkeys(PdId pd, std::span<Rkey> out) {
  computer_.note_call();
  if (pd.value() >= kMemoryPdsMax)
    return Refusal{Reason::kNoSuchObject, "alloc_rkey: no such protection domain"};
  if (entries_.free_count() < out.size()) {
    return Refusal{Reason::kTableFull,
                   "alloc_rkey: no free key; deallocate some or raise AdapterLimits::keys"};
  }
  for (Rkey& key : out) {
    key = Rkey(entries_.key_of(entries_.take({.pd = pd, .type = EntryType::kWindow})));
  }
  return {};
}

Refusable<> Windows::dealloc_rkey(Rkey key) {
  computer_.note_call();
  uint32_t index = entries_.find_typed(key);
  const TableEntry* window =
      index != kNoEntry ? &entries_.at(index) : entries_.find_present(key.value(), index);
  if (window == nullptr || window->type != EntryType::kWindow)
    return Refusal{Reason::kNoSuchKey, "dealloc_rkey: not an allocated RKey"};
  if (entries_.is_implicit(index))
    return Refusal{Reason::kBusy, "dealloc_rkey: the key belongs to a region; deregister that"};
  computer_.end_grants();
  entries_.unbind(index);
  entries_.release(index);
  return {};
}

AccessFault Windows::bind_rkey(PdId pd, const BindRequest& request) noexcept {
  if (request.addr == 0 && request.length == 0) return unbind_rkey(pd, request.window);
  uint32_t window = 0;
  AccessFault fault = entries_.find_window(pd, request.window, window);
  if (fault != AccessFault::kNone) return fault;
  if (entries_.at(window).kind != WindowKind::kKey) return AccessFault::kWrongType;
  if (entries_.at(window).valid || entries_.is_implicit(window)) return AccessFault::kAlreadyBound;
  TptEntries::Admitted region;
  fault = entries_.check_bind(pd, request, region);
  if (fault == AccessFault::kNone) {
    entries_.unbind(window);  // a used one-shot key is still bound to its region
    entries_.bind(window, region, request);
  }
  return fault;
}

Refusable<MemoryRegion> Windows::bind_translated(PdId pd, std::unique_ptr<Translation> translation,
                                                 const BindRequest& request) {
  Refusable<MemoryRegion> region =
      regions_.add_translated(pd, std::move(translation), request.length,
                              Access::kLocalWrite | Access::kWindowBind, {.base_addr = request.addr});
  if (!region.ok()) return region;
  BindRequest bind = request;
  bind.region = region.value().lkey;
  const AccessFault fault = bind_rkey(pd, bind);
  if (fault == AccessFault::kNone) return region;
  regions_.end_region(entries_.present(bind.region.value()));
  return Refusal{bind_reason(fault), "bind_rkey: ", to_string(fault)};
}

Refusable<Rkey> Windows::alloc_window(PdId pd, WindowKind kind) {
  Refusable<Rkey> key = alloc_rkey(pd);
  if (!key || kind == WindowKind::kKey) return key;
  const uint32_t window = entries_.present(key->value());
  entries_.at(window).kind = kind;
  if (kind == WindowKind::kType2 && !entries_.take_block(window)) {
    entries_.release(window);
    return Refusal{Reason::kTableFull, "alloc_window: no free block of keys; deallocate some windows"};
  }
  return Rkey(entries_.key_of(window));
}

Rkey Windows::promise_key(Rkey window) noexcept {
  const uint32_t index = entries_.find_typed(window);
  if (index == kNoEntry || entries_.at(index).kind != WindowKind::kType1) return Rkey();
  return Rkey(entries_.promise_key(index));
}

void Windows::withdraw_promise(Rkey window) noexcept {
  if (entries_.find_typed(window) != kNoEntry) entries_.withdraw_behind(window);
}

AccessFault Windows::bind_window(const Accessor& who, const BindRequest& request) noexcept {
  const uint32_t window = entries_.find_typed(request.window);
  if (window == kNoEntry) return bind_rkey(who.pd, request);
  const TableEntry& entry = entries_.at(window);
  if (entry.pd != who.pd) return AccessFault::kWrongPd;
  return entry.kind == WindowKind::kType1 ? bind_type1(window, request) : bind_type2(window, who, request);
}

AccessFault Windows::bind_type1(uint32_t window, const BindRequest& request) noexcept {
  if (Rkey(entries_.key_of(window)) == request.window) return AccessFault::kWrongInstance;
  TptEntries::Admitted region;
  if (request.length != 0) {
    const AccessFault fault = entries_.check_bind(entries_.at(window).pd, request, region);
    if (fault != AccessFault::kNone) return fault;
  }
  computer_.end_grants();
  entries_.unbind(window);
  entries_.set_key(window, request.window);
  if (region.entry != nullptr) entries_.bind(window, region, request);
  return AccessFault::kNone;
}

AccessFault Windows::bind_type2(uint32_t window, const Accessor& who, const BindRequest& request) noexcept {
  if (request.length == 0) return invalidate(who, Rkey(entries_.key_of(window)));
  if (entries_.at(window).valid) return AccessFault::kAlreadyBound;
  TptEntries::Admitted region;
  const AccessFault fault = entries_.check_bind(who.pd, request, region);
  if (fault != AccessFault::kNone) return fault;
  entries_.unbind(window);  // a used one-shot key is still bound to its region
  entries_.set_key(window, request.window);
  entries_.bind(window, region, request);
  entries_.at(window).tied = who.qpn.value();
  return AccessFault::kNone;
}

AccessFault Windows::find_explicit(PdId pd, Rkey key, uint32_t& window) const noexcept {
  const AccessFault fault = entries_.find_window(pd, key, window);
  if (fault != AccessFault::kNone) return fault;
  return entries_.is_implicit(window) ? AccessFault::kWrongType : AccessFault::kNone;
}

AccessFault Windows::unbind(PdId pd, Rkey key, uint32_t& window) noexcept {
  const AccessFault fault = find_explicit(pd, key, window);
  if (fault != AccessFault::kNone) return fault;
  computer_.end_grants();
  entries_.unbind(window);
  return AccessFault::kNone;
}

AccessFault Windows::unbind_rkey(PdId pd, Rkey key) noexcept {
  uint32_t window = 0;
  return unbind(pd, key, window);
}

AccessFault Windows::destroy_window(PdId pd, Rkey key) noexcept {
  uint32_t window = 0;
  const AccessFault fault = unbind(pd, key, window);
  if (fault == AccessFault::kNone) entries_.release(window);
  return fault;
}

AccessFault Windows::rebind_window(PdId pd, const BindRequest& request, Rkey& key) noexcept {
  uint32_t window = 0;
  AccessFault fault = find_explicit(pd, request.window, window);
  if (fault != AccessFault::kNone) return fault;
  if (entries_.at(window).kind != WindowKind::kKey) return AccessFault::kWrongType;
  TptEntries::Admitted region;
  if (request.length != 0) fault = entries_.check_bind(pd, request, region);
  if (fault != AccessFault::kNone) return fault;
  computer_.end_grants();
  entries_.unbind(window);
  entries_.renew(window);
  if (region.entry != nullptr) entries_.bind(window, region, request);
  key = Rkey(entries_.key_of(window));
  return AccessFault::kNone;
}

AccessFault Windows::invalidate(const Accessor& who, Rkey key) noexcept {
  return invalidate(who, key, false);
}

AccessFault Windows::invalidate_for_peer(const Accessor& who, Rkey key) noexcept {
  return invalidate(who, key, true);
}

AccessFault Windows::invalidate(const Accessor& who, Rkey key, bool for_peer) noexcept {
  uint32_t window = 0;
  const AccessFault fault = entries_.find_window(who.pd, key, window);
  if (fault != AccessFault::kNone) return fault;
  const TableEntry& entry = entries_.at(window);
  const bool of_region = entries_.is_implicit(window);
  const bool by_request = of_region && entries_.at(entry.region).by_request;
  if (entry.kind == WindowKind::kType1) return AccessFault::kWrongType;
  if (for_peer && of_region && !by_request) return AccessFault::kWrongType;
  if (!entry.valid) return AccessFault::kNotValid;
  if (!entry.serves(who.qpn)) return AccessFault::kWrongQp;
  if (by_request) return regions_.invalidate_region(who.pd, Lkey(entries_.key_of(entry.region)));
  computer_.end_grants();
  entries_.unbind(window);
  return AccessFault::kNone;
}

}  // namespace weft::adapter
