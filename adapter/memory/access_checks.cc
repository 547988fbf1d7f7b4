// How it works: each check follows the letters of TPT-LOCAL-02 and TPT-REMOTE-02 in order: valid, type, PD,
// instance, bounds, right. Bounds are compared by subtraction, which cannot wrap: offset <= length and
// bytes <= length - offset.
//
// Authorisation comes first and reads one entry. Only then is an offset converted to an address. Most regions
// are one range of the process, and the entry holds the address of its first byte. A region of pages holds a
// Translation, which visit_local() and visit_granted() ask for each piece.
#include "adapter/memory/access_checks.h"

#include <array>

#include "adapter/memory/tpt_entries.h"

namespace weft::adapter {
namespace {

/// Translation for a grant in pages whose entry no longer has one: finds no memory.
class Nowhere final : public Translation {
 public:
  [[nodiscard]] AccessFault translate(uint64_t /*offset*/, AccessKind /*kind*/,
                                      MemoryPiece& /*out*/) const noexcept override {
    return AccessFault::kNotMapped;
  }
  [[nodiscard]] AccessFault check(uint64_t /*offset*/, uint64_t /*bytes*/,
                                  AccessKind /*kind*/) const noexcept override {
    return AccessFault::kNotMapped;
  }
};

[[nodiscard]] PageWalk walk_of(const Backing& backing, uint64_t offset, uint64_t bytes,
                               AccessKind kind) noexcept {
  static const Nowhere nowhere;
  const Translation* translation = backing.translation != nullptr ? backing.translation : &nowhere;
  return {*translation, backing.origin + offset, bytes, kind};
}

/// Checks e and f, and that there is memory at every address.
[[gnu::always_inline]] inline AccessFault check_range(const TableEntry& entry, uint64_t addr, uint64_t bytes,
                                                      AccessKind kind) noexcept {
  if (!entry.holds(addr, bytes)) [[unlikely]]
    return AccessFault::kOutOfBounds;
  if (!permits(entry.rights, kind)) [[unlikely]]
    return AccessFault::kRightMissing;
  if (const Translation* translation = entry.backing.translation; translation != nullptr) [[unlikely]]
    return translation->check(entry.backing.origin + (addr - entry.start), bytes, kind);
  return AccessFault::kNone;
}

}  // namespace

AccessFault AccessChecks::check_local(PdId pd, const Sge& sge, AccessKind kind,
                                      std::byte*& at) const noexcept {
  TptEntries::Admitted found;
  AccessFault fault = entries_.admit(pd, sge.lkey.value(), EntryType::kRegion, found);
  if (found.entry == nullptr) [[unlikely]]
    return fault;
  const TableEntry& entry = *found.entry;
  fault = check_range(entry, sge.addr, sge.length, kind);
  if (fault != AccessFault::kNone) [[unlikely]]
    return fault;
  at = entry.backing.at(sge.addr - entry.start);
  return AccessFault::kNone;
}

AccessFault AccessChecks::check_remote(const Accessor& who, Rkey key, uint64_t va, uint64_t length,
                                       AccessKind kind, RemoteGrant& out) const noexcept {
  TptEntries::Admitted found;
  AccessFault fault = entries_.admit(who.pd, key.value(), EntryType::kWindow, found);
  if (found.entry == nullptr) [[unlikely]]
    return fault;
  const TableEntry& entry = *found.entry;
  if (!entry.serves(who.qpn)) [[unlikely]]
    return AccessFault::kWrongQp;
  fault = check_range(entry, va, length, kind);
  if (fault != AccessFault::kNone) [[unlikely]]
    return fault;
  const uint64_t offset = va - entry.start;
  out = {.at = entry.backing.at(offset),
         .room = entry.length - offset,
         .entry = found.index,
         .binding = entry.binding,
         .nic = nic_,
         .one_shot = has(entry.rights, Access::kOneShot)};
  if (out.one_shot && entry.adopted && kind == AccessKind::kRemoteRead) [[unlikely]] {
    // The answer leaves after the read has used up the key, which withdraws this copy. The entry of its maker
    // stays bound.
    out.nic = nic_of_key(key.value());
    out.entry = computer_.entries_of(out.nic).present(key.value());
  }
  return AccessFault::kNone;
}

PageWalk AccessChecks::walk_local(const Sge& sge, AccessKind kind) const noexcept {
  uint32_t index = 0;
  const TableEntry* entry = std::as_const(entries_).find_present(sge.lkey.value(), index);
  return entry == nullptr ? walk_of({}, 0, sge.length, kind)
                          : walk_of(entry->backing, sge.addr - entry->start, sge.length, kind);
}

PageWalk AccessChecks::walk_granted(const RemoteGrant& grant, uint64_t begin, uint64_t bytes,
                                    AccessKind kind) const noexcept {
  const TableEntry& entry = computer_.entries_of(grant.nic).at(grant.entry);
  return walk_of(entry.backing, entry.length - grant.room + begin, bytes, kind);
}

void AccessChecks::finish_remote(const RemoteGrant& grant) noexcept {
  if (!grant.one_shot) [[likely]]
    return;
  TptEntries& of = computer_.entries_of(grant.nic);
  const TableEntry& entry = of.at(grant.entry);
  if (!entry.valid || entry.binding != grant.binding) return;
  computer_.end_grants();
  of.use_up(grant.entry);
}

bool AccessChecks::still_bound(const RemoteGrant& grant) const noexcept {
  return grant.binding != 0 && computer_.entries_of(grant.nic).at(grant.entry).binding == grant.binding;
}

std::string_view to_string(AccessFault fault) noexcept {
  static constexpr std::array<std::string_view, static_cast<size_t>(AccessFault::kCount)> kNames{
      "none",          "not-valid",     "wrong-type",     "wrong-pd",      "wrong-instance",
      "out-of-bounds", "right-missing", "no-window-bind", "already-bound", "bad-flags",
      "no-room",       "not-mapped",    "wrong-qp"};
  return fault < AccessFault::kCount ? kNames[static_cast<size_t>(fault)] : "unknown";
}

}  // namespace weft::adapter
