// adapter/memory/memory_table.h -- the memory translation and protection table of one adapter: regions and
// windows under keys (TPT-ENTRY, SAN-RMP). Says yes or no to every access and gives the address; touches no
// payload itself.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "adapter/verbs.h"
#include "base/result.h"
#include "base/rng.h"

namespace weft::adapter {

/// A registered region. `rkey` is valid when remote rights were asked for (decisions 1.4).
struct MemoryRegion {
  Lkey lkey{};
  Rkey rkey{};
  uint64_t addr = 0;    // first address as work requests and peers name it
  uint64_t length = 0;  // bytes
};

/// Why an access was refused; lettered checks of TPT-LOCAL-02 and TPT-REMOTE-02.
enum class AccessFault : uint8_t {
  kNone,
  kNotValid,       // a: no such entry, or its valid bit is clear
  kWrongType,      // b: local access through a window, or remote access through a region's LKey
  kWrongPd,        // c
  kWrongInstance,  // d: an old key
  kOutOfBounds,    // e
  kRightMissing,   // f
  kNoWindowBind,   // g: the region does not allow windows
  kAlreadyBound,   // a key protects one range at a time (SAN-RMP-07, C-22)
  kCount,
};
[[nodiscard]] std::string_view to_string(AccessFault fault) noexcept;

/// Access the caller wants to make.
enum class AccessKind : uint8_t { kLocalRead, kLocalWrite, kRemoteRead, kRemoteWrite, kRemoteAtomic };

/// A granted remote access: where the bytes lie, and which binding of which key granted it.
struct RemoteGrant {
  std::byte* at = nullptr;
  uint64_t room = 0;  // bytes from `at` to the end of what the key opens
  uint32_t entry = 0;
  uint32_t binding = 0;   // each bind has a number of its own: the same key bound anew is another grant
  bool one_shot = false;  // serves one operation (SAN-RMP-12)
};

/// Two bits (TPT-ENTRY-05). This table makes the first two.
enum class EntryType : uint8_t { kRegion = 0, kWindow = 1, kIscsiRegion = 2, kReserved = 3 };

/// One entry as a query shows it (LAY-TPT).
struct TptEntry {
  uint64_t start = 0;
  uint64_t length = 0;
  PdId pd{};
  uint8_t instance = 0;
  EntryType type = EntryType::kRegion;
  bool valid = false;
  bool local_read = false;
  bool local_write = false;
  bool remote_read = false;
  bool remote_write = false;
  bool remote_atomic = false;
  bool window_binding = false;
  bool one_touch_enabled = false;
  uint32_t bound_windows = 0;  // of a region, its implicit window not counted
};

/// Options of a registration beyond the rights.
struct RegisterOptions {
  /// First address as peers and work requests name it; 0 = the memory's own address. Windows of the split
  /// driver use a random base, so that no process address is shown (SAN-LMP-13, decisions section 4).
  uint64_t base_addr = 0;
  /// What the entry becomes; anything but kRegion is refused.
  EntryType type = EntryType::kRegion;
};

/// Owner: the adapter's thread. Checks are O(1): one table look-up, no hash (decisions P8). All calls but
/// registration and allocation of keys are free of allocation.
class MemoryTable {
 public:
  /// @param keys   most entries, regions and windows together
  /// @param number adapter number, the top four bits of each key (LAY-STAG)
  MemoryTable(uint32_t keys, uint8_t number, RandomSource& random);
  ~MemoryTable();
  MemoryTable(const MemoryTable&) = delete;
  MemoryTable& operator=(const MemoryTable&) = delete;

  /// Registers memory, which must outlive the registration (TPT-REG-01): one entry for local use and, when a
  /// remote right is asked for, a window over all of it (decisions 1.4). A remote right needs the local one
  /// (SAN-LMP-01).
  Result<MemoryRegion> reg_mr(PdId pd, std::span<std::byte> memory, Access access,
                              const RegisterOptions& options = {});
  /// Ends the region and its implicit window. Refused while other windows are bound to it (TPT-REG-09).
  Status dereg_mr(Lkey lkey);

  // Keys of the SAN verbs (SAN-RMP-01..07): allocate, bind to a byte-exact range of a region, unbind, retire.
  Result<Rkey> alloc_rkey(PdId pd);
  /// `out.size()` keys at once, or none.
  Status alloc_rkeys(PdId pd, std::span<Rkey> out);
  /// Retires a key; a bound one is unbound first. A region's own key is refused: it ends with dereg_mr().
  Status dealloc_rkey(Rkey key);
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

  /// libibverbs type-1 window: a further bind replaces the range under a new instance, which is returned in
  /// `key`. Length zero unbinds, under a new instance too. `key` changes only on kNone.
  [[nodiscard]] AccessFault rebind_window(PdId pd, const BindRequest& request, Rkey& key) noexcept;
  /// Makes a bound key stop working: invalidate by work request or by the peer's request. An allocated key
  /// may be bound again; a region's own key stays dead until the region ends.
  [[nodiscard]] AccessFault invalidate(PdId pd, Rkey key) noexcept;

  /// Checks one data segment (TPT-LOCAL-02a-f). On kNone `at` is where its bytes lie.
  [[nodiscard]] AccessFault check_local(PdId pd, const Sge& sge, AccessKind kind,
                                        std::byte*& at) const noexcept;
  /// Checks one remote access (TPT-REMOTE-02a-f). A zero-length access needs a valid key too.
  [[nodiscard]] AccessFault check_remote(PdId pd, Rkey key, uint64_t va, uint64_t length, AccessKind kind,
                                         RemoteGrant& out) const noexcept;
  /// Steps whenever something that was granted may have ended: a region or key was retired, unbound,
  /// invalidated or used up. A grant may be used again, within its room, while this has not moved (decisions
  /// P8).
  [[nodiscard]] uint64_t revision() const noexcept { return revision_; }
  /// Tells the table that a granted operation is executed; a one-shot key dies here (SAN-RMP-12).
  void finish_remote(const RemoteGrant& grant) noexcept;
  /// The binding that granted this stands, though a one-shot key of it may have served: for an RDMA read
  /// whose data leaves after its execution.
  [[nodiscard]] bool still_bound(const RemoteGrant& grant) const noexcept;

  /// The entry a local or remote key names, whoever owns it; nothing for old keys and free entries. For tools
  /// and tests.
  [[nodiscard]] std::optional<TptEntry> query(uint32_t key) const noexcept;

  /// True while no region, window or key uses the PD. O(keys).
  [[nodiscard]] bool pd_unused(PdId pd) const noexcept;

 private:
  struct Entry;
  class Core;
  std::unique_ptr<Core> core_;
  uint64_t revision_ = 1;
};

}  // namespace weft::adapter
