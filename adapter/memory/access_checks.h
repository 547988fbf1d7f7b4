// adapter/memory/access_checks.h -- allows or refuses each access to registered memory, and calls an action
// on the bytes of an allowed one (TPT-LOCAL-02, TPT-REMOTE-02).
#pragma once

#include <cstdint>

#include "adapter/memory/access.h"
#include "adapter/memory/computer_memory.h"
#include "adapter/memory/guarded_copy.h"
#include "adapter/memory/translation.h"
#include "adapter/verbs.h"

namespace weft::adapter {

/// Owner: the adapter's thread. Checks are O(1): one table look-up without a hash (decisions P8). The cost
/// does not grow with the number of registrations.
class AccessChecks {
 public:
  /// Both outlive it. `nic` is the number of the NIC whose table it is.
  AccessChecks(TptEntries& entries, ComputerMemory& computer, uint8_t nic) noexcept
      : entries_(entries), computer_(computer), nic_(nic) {}

  [[nodiscard]] uint8_t nic() const noexcept { return nic_; }

  /// Checks one data segment (TPT-LOCAL-02a-f). On kNone `at` is the place of its bytes, or null when they
  /// lie in pages.
  [[nodiscard]] AccessFault check_local(PdId pd, const Sge& sge, AccessKind kind,
                                        std::byte*& at) const noexcept;
  /// Checks one remote access (TPT-REMOTE-02a-f). An access of zero bytes needs a valid key too.
  [[nodiscard]] AccessFault check_remote(const Accessor& who, Rkey key, uint64_t va, uint64_t length,
                                         AccessKind kind, RemoteGrant& out) const noexcept;
  /// Calls `action` on memory of a region. kNotMapped when the memory has gone (guarded_copy.h).
  template <class Action>
  [[gnu::always_inline]] static AccessFault touch(Action&& action, std::byte* at, uint64_t bytes) noexcept {
    try {
      action(at, bytes);
    } catch (const MemoryFault&) {
      return AccessFault::kNotMapped;
    }
    return AccessFault::kNone;
  }
  /// The same for accesses that ComputerMemory::tolerate_gone_memory() applies to: all but local reads.
  template <class Action>
  [[gnu::always_inline]] AccessFault reach(Action&& action, std::byte* at, uint64_t bytes) const noexcept {
    const AccessFault fault = touch(action, at, bytes);
    if (fault == AccessFault::kNone || computer_.gone_memory() == nullptr) [[likely]]
      return fault;
    return go_without(action, at, bytes);
  }
  /// Checks a data segment and calls `action(at, bytes)` for each of its pieces in order. Payload is accessed
  /// only through this function and visit_granted(). Returns kNone, or the reason why it stopped.
  template <class Action>
  [[gnu::always_inline]] AccessFault visit_local(PdId pd, const Sge& sge, AccessKind kind,
                                                 Action action) const noexcept {
    std::byte* at = nullptr;
    const AccessFault fault = check_local(pd, sge, kind, at);
    if (fault != AccessFault::kNone) [[unlikely]]
      return fault;
    if (at == nullptr) [[unlikely]]
      return visit(walk_local(sge, kind), kind, action);
    return kind == AccessKind::kLocalRead ? touch(action, at, sge.length) : reach(action, at, sge.length);
  }
  /// The same for bytes [begin, begin + bytes) of a grant of any NIC. They must be within its room, and the
  /// grant must be valid.
  template <class Action>
  [[gnu::always_inline]] AccessFault visit_granted(const RemoteGrant& grant, uint64_t begin, uint64_t bytes,
                                                   AccessKind kind, Action action) const noexcept {
    if (bytes == 0) return AccessFault::kNone;
    if (grant.at == nullptr) [[unlikely]]
      return visit(walk_granted(grant, begin, bytes, kind), kind, action);
    return reach(action, grant.at + begin, bytes);
  }
  /// A granted operation was executed; invalidates a one-shot key (SAN-RMP-12).
  void finish_remote(const RemoteGrant& grant) noexcept;
  /// True while the binding that gave the grant exists, even if its one-shot key has been used: for an RDMA
  /// read whose data leaves after its execution.
  [[nodiscard]] bool still_bound(const RemoteGrant& grant) const noexcept;

 private:
  template <class Action>
  AccessFault visit(PageWalk walk, AccessKind kind, Action& action) const noexcept {
    AccessFault fault = AccessFault::kNone;
    for (MemoryPiece piece; fault == AccessFault::kNone && !walk.done();) {
      fault = walk.next(piece);
      if (fault != AccessFault::kNone) return fault;
      fault = kind == AccessKind::kLocalRead ? touch(action, piece.at, piece.bytes)
                                             : reach(action, piece.at, piece.bytes);
    }
    return fault;
  }
  /// Repeats the access from its first byte, with copies that skip missing memory.
  template <class Action>
  [[gnu::noinline, gnu::cold]] AccessFault go_without(Action& action, std::byte* at,
                                                      uint64_t bytes) const noexcept {
    computer_.gone_memory()->missed();
    const FinishWithoutMemory finish;
    return touch(action, at, bytes);
  }
  /// The walk over a segment that check_local() has accepted.
  [[nodiscard]] PageWalk walk_local(const Sge& sge, AccessKind kind) const noexcept;
  [[nodiscard]] PageWalk walk_granted(const RemoteGrant& grant, uint64_t begin, uint64_t bytes,
                                      AccessKind kind) const noexcept;

  TptEntries& entries_;
  ComputerMemory& computer_;
  uint8_t nic_;
};

}  // namespace weft::adapter
