// adapter/memory/window_table.h -- the half of the protection table that works on windows and their keys:
// allocate, bind, unbind, invalidate, retire (SAN-RMP-01..07, TPT-WQE-02).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "adapter/memory/access.h"
#include "adapter/verbs.h"
#include "base/result.h"
#include "base/rng.h"

namespace weft::adapter {

class TptEntries;

/// PDs have numbers below this.
inline constexpr uint32_t kMemoryPdsMax = 1U << 20;

/// A part of MemoryTable, which has the other half. Owner: the adapter's thread. All calls but allocation of
/// keys are free of allocation.
class WindowTable {
 public:
  WindowTable(const WindowTable&) = delete;
  WindowTable& operator=(const WindowTable&) = delete;

  // Keys of the SAN verbs (SAN-RMP-01..07): allocate, bind to a byte-exact range of a region, unbind, retire.
  Refusable<Rkey> alloc_rkey(PdId pd);
  /// `out.size()` keys at once, or none.
  Refusable<> alloc_rkeys(PdId pd, std::span<Rkey> out);
  /// Retires a key or window, which is unbound first; a window of type 1 or 2 by any key that it may have. A
  /// region's own key is refused: it ends with dereg_mr().
  Refusable<> dealloc_rkey(Rkey key);
  /// Ties the key to `addr`, `length` of the region, exact to the byte (SAN-RMP-02). A bound key is refused
  /// (C-22). The region must belong to the key's PD, allow binding (TPT-LOCAL-02g) and hold the rights.
  /// Address and length zero unbind (SAN-RMP-06). With kZeroBased peers count from 0. Nothing changes unless
  /// kNone.
  [[nodiscard]] AccessFault bind_rkey(PdId pd, const BindRequest& request) noexcept;
  /// Also for a key that is not bound.
  [[nodiscard]] AccessFault unbind_rkey(PdId pd, Rkey key) noexcept;
  /// What an unbind WQE does: dissolves the tie and destroys the window; its key names nothing any more
  /// (TPT-WQE-02).
  [[nodiscard]] AccessFault destroy_window(PdId pd, Rkey key) noexcept;

  // Windows of libibverbs: types 1 and 2.
  /// A window of a kind, not bound; its first key.
  Refusable<Rkey> alloc_window(PdId pd, WindowKind kind);
  /// Type 1: the key that the window gets with the next bind request; a request that is posted must name it.
  /// Null key when `window` is none of type 1, or when its 255 keys ahead are all promised.
  [[nodiscard]] Rkey promise_key(Rkey window) noexcept;
  /// The request with the key promised after `window`, the newest before it, was not posted: that key is free
  /// to be promised again.
  void withdraw_promise(Rkey window) noexcept;
  /// What a bind request does, for windows of every kind. Type 1: ties the window to the range, whatever it
  /// was tied to, under the promised key that the request names; the one before is dead, and length zero
  /// only unties. Type 2: under any key of the window's block, for the QP that asks alone; refused while it
  /// is bound (kAlreadyBound), but length zero unties it. Others: bind_rkey(). Nothing changes unless kNone.
  [[nodiscard]] AccessFault bind_window(const Accessor& who, const BindRequest& request) noexcept;

  /// A type-1 bind of the caller's own, for an allocated key: a further bind replaces the range under a new
  /// instance, which is returned in `key`. Length zero unbinds, under a new instance too. `key` changes only
  /// on kNone.
  [[nodiscard]] AccessFault rebind_window(PdId pd, const BindRequest& request, Rkey& key) noexcept;
  /// Makes a bound key stop working: invalidate by work request. An allocated key may be bound again, and so
  /// may a window of type 2, which only the QP that it is bound to invalidates; one of type 1 is refused
  /// (kWrongType), as in InfiniBand. A region's own key stays dead until the region ends, and one of a region
  /// that was registered by work request ends that registration, as invalidate_region() does.
  [[nodiscard]] AccessFault invalidate(const Accessor& who, Rkey key) noexcept;
  /// The same by the peer's request. The key of an ordinary region is refused (kWrongType): others may have
  /// been given it too, and the owner could not make it work again.
  [[nodiscard]] AccessFault invalidate_for_peer(const Accessor& who, Rkey key) noexcept;
  /// Ends what a registration work request has made: neither key works any more, and the entry waits for
  /// MemoryTable::stage() and the next such request. Refused while windows are bound to the region
  /// (kAlreadyBound), and for other regions (kWrongType).
  [[nodiscard]] AccessFault invalidate_region(PdId pd, Lkey key) noexcept;

  /// Steps whenever something that was granted may have ended: a region or key was retired, unbound,
  /// invalidated or used up. A grant may be used again, within its room, while this has not moved (decisions
  /// P8).
  [[nodiscard]] uint64_t revision() const noexcept { return revision_; }
  /// What was granted may have ended outside this table: every grant is asked for again.
  void end_grants() noexcept { ++revision_; }

  /// The next registration would take memory that was not supplied (adapter/supplies.h).
  [[nodiscard]] bool lacks_room() const noexcept;

  // ---- adapter/ alone --------------------
  [[nodiscard]] TptEntries& entries() noexcept { return *entries_; }

 protected:
  /// @param keys   most entries, regions and windows together
  /// @param number adapter number, the top four bits of each key (LAY-STAG)
  /// @param pds    PDs that there is room for at once; others cost memory
  WindowTable(uint32_t keys, uint8_t number, RandomSource& random, uint32_t pds);
  ~WindowTable();

  [[nodiscard]] const TptEntries& entries() const noexcept { return *entries_; }

 private:
  [[nodiscard]] AccessFault bind_type1(uint32_t window, const BindRequest& request) noexcept;
  [[nodiscard]] AccessFault bind_type2(uint32_t window, const Accessor& who,
                                       const BindRequest& request) noexcept;
  /// The window of a key that was allocated for itself; a region's own window is kWrongType.
  [[nodiscard]] AccessFault find_explicit(PdId pd, Rkey key, uint32_t& window) const noexcept;

  std::unique_ptr<TptEntries> entries_;
  uint64_t revision_ = 1;
};

}  // namespace weft::adapter
