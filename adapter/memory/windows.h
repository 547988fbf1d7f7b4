// adapter/memory/windows.h -- the windows of one table and their keys: allocate, bind, unbind, invalidate,
// retire (SAN-RMP-01..07, TPT-WQE-02).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "adapter/memory/access.h"
#include "adapter/memory/translation.h"
#include "adapter/verbs.h"
#include "base/result.h"

namespace weft::adapter {

class ComputerMemory;
class Regions;
class TptEntries;
struct MemoryRegion;

/// Owner: the adapter's thread. Only allocation of keys allocates memory.
class Windows {
 public:
  /// All outlive it.
  Windows(TptEntries& entries, ComputerMemory& computer, Regions& regions) noexcept
      : entries_(entries), computer_(computer), regions_(regions) {}

  // Keys of the SAN verbs (SAN-RMP-01..07): allocate, bind to a byte-exact range of a region, unbind, retire.
  Refusable<Rkey> alloc_rkey(PdId pd);
  /// Allocates `out.size()` keys, or none.
  Refusable<> alloc_rkeys(PdId pd, std::span<Rkey> out);
  /// Retires a key or window, and unbinds it first. A window of type 1 or 2 may be named by any key that it
  /// may have. A region's own key is refused: it ends with dereg_mr().
  Refusable<> dealloc_rkey(Rkey key);
  /// Binds the key to `addr`, `length` of the region, exact to the byte (SAN-RMP-02). A bound key is refused
  /// (C-22). The region must belong to the key's PD, allow binding (TPT-LOCAL-02g) and have the rights.
  /// Address and length zero unbind (SAN-RMP-06). With kZeroBased peers' addresses begin at 0. Nothing
  /// changes unless kNone.
  [[nodiscard]] AccessFault bind_rkey(PdId pd, const BindRequest& request) noexcept;
  /// BindRKey on memory that is not registered: makes its region, for local use, and binds the key to all of
  /// it (C-17). No call of the kernel agent (SAN-RMP-05). `request.region` is ignored. Refused as by
  /// Regions::reg_translated() and bind_rkey(); then there is no region.
  Refusable<MemoryRegion> bind_translated(PdId pd, std::unique_ptr<Translation> translation,
                                          const BindRequest& request);
  /// Also accepts a key that is not bound.
  [[nodiscard]] AccessFault unbind_rkey(PdId pd, Rkey key) noexcept;
  /// Executes an unbind WQE: unbinds and destroys the window; its key becomes invalid (TPT-WQE-02).
  [[nodiscard]] AccessFault destroy_window(PdId pd, Rkey key) noexcept;

  // Windows of libibverbs: types 1 and 2.
  /// Makes an unbound window of `kind`. Returns its first key.
  Refusable<Rkey> alloc_window(PdId pd, WindowKind kind);
  /// Type 1: promises the key that the window gets with its next bind request; the posted request must name
  /// it. Null key when `window` is not of type 1, or when its next 255 keys are all promised.
  [[nodiscard]] Rkey promise_key(Rkey window) noexcept;
  /// The request with the key promised after `window` was not posted: that key may be promised again.
  /// `window` is the newest key before it.
  void withdraw_promise(Rkey window) noexcept;
  /// Executes a bind request for windows of every kind. Type 1: binds the window to the range under the
  /// promised key that the request names, whatever it was bound to before. The earlier key becomes invalid;
  /// length zero only unbinds. Type 2: binds under any key of the window's block, for the requesting QP only.
  /// Refused while it is bound (kAlreadyBound), except for length zero, which unbinds. Others: bind_rkey().
  /// Nothing changes unless kNone.
  [[nodiscard]] AccessFault bind_window(const Accessor& who, const BindRequest& request) noexcept;

  /// A type-1 bind by the owner, for an allocated key: replaces the range under a new instance, which is
  /// returned in `key`. Length zero unbinds, also under a new instance. `key` changes only on kNone.
  [[nodiscard]] AccessFault rebind_window(PdId pd, const BindRequest& request, Rkey& key) noexcept;
  /// Invalidates a bound key by work request. An allocated key may be bound again, and so may a window of
  /// type 2, which only the QP to which it is bound may invalidate. A window of type 1 is refused
  /// (kWrongType), as in InfiniBand. A region's own key stays invalid until the region ends. If the region
  /// was registered by work request, its registration ends, as with Regions::invalidate_region().
  [[nodiscard]] AccessFault invalidate(const Accessor& who, Rkey key) noexcept;
  /// The same at the peer's request. The key of an ordinary region is refused (kWrongType): other peers may
  /// use it too, and the owner could not make it valid again.
  [[nodiscard]] AccessFault invalidate_for_peer(const Accessor& who, Rkey key) noexcept;

 private:
  [[nodiscard]] AccessFault bind_type1(uint32_t window, const BindRequest& request) noexcept;
  [[nodiscard]] AccessFault bind_type2(uint32_t window, const Accessor& who,
                                       const BindRequest& request) noexcept;
  /// The window of a key that was allocated separately. kWrongType for a region's own window.
  [[nodiscard]] AccessFault find_explicit(PdId pd, Rkey key, uint32_t& window) const noexcept;
  [[nodiscard]] AccessFault unbind(PdId pd, Rkey key, uint32_t& window) noexcept;
  [[nodiscard]] AccessFault invalidate(const Accessor& who, Rkey key, bool for_peer) noexcept;

  TptEntries& entries_;
  ComputerMemory& computer_;
  Regions& regions_;
};

}  // namespace weft::adapter
