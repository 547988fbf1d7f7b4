// channel/memory_table.h -- the memory translation and protection table of one adapter: regions and windows
// under keys (TPT-ENTRY, SAN-RMP). Says yes or no to every access and gives the address; touches no payload
// itself.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/result.h"
#include "base/rng.h"
#include "channel/verbs.h"

namespace weft {

using PdId = StrongId<struct PdTag, uint32_t>;

/// A registered region. `rkey` is valid when remote rights were asked for (decisions 1.4).
struct MemoryRegion {
  Lkey lkey;
  Rkey rkey;
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
  kCount,
};
[[nodiscard]] std::string_view to_string(AccessFault fault) noexcept;

/// Access the caller wants to make.
enum class AccessKind : uint8_t { kLocalRead, kLocalWrite, kRemoteRead, kRemoteWrite, kRemoteAtomic };

/// A granted remote access: where the bytes lie, and the entry for finish_remote().
struct RemoteGrant {
  std::byte* at = nullptr;
  uint32_t entry = 0;
};

/// Options of a registration beyond the rights.
struct RegisterOptions {
  /// First address as peers and work requests name it; 0 = the memory's own address. Windows of the split
  /// driver use a random base, so that no process address is shown (SAN-LMP-13, decisions section 4).
  uint64_t base_addr = 0;
};

/// Owner: the adapter's thread. Checks are O(1): one table look-up, no hash (decisions P8).
class MemoryTable {
 public:
  /// @param keys   most entries, regions and windows together
  /// @param number adapter number, the top four bits of each key (LAY-STAG)
  MemoryTable(uint32_t keys, uint8_t number, RandomSource& random);
  ~MemoryTable();
  MemoryTable(const MemoryTable&) = delete;
  MemoryTable& operator=(const MemoryTable&) = delete;

  /// Registers memory, which must outlive the registration (TPT-REG-01).
  Result<MemoryRegion> reg_mr(PdId pd, std::span<std::byte> memory, Access access,
                              const RegisterOptions& options = {});
  /// Refused while windows are bound to the region (TPT-REG-09).
  Status dereg_mr(Lkey lkey);

  // Keys of the SAN verbs (SAN-RMP-01..07): allocate, bind to a byte-exact range of a region, unbind, retire.
  Result<Rkey> alloc_rkey(PdId pd);
  Status dealloc_rkey(Rkey key);
  /// A bound key is refused (C-22). `region` must belong to the key's PD and allow binding (TPT-LOCAL-02g).
  AccessFault bind_rkey(PdId pd, const BindRequest& request) noexcept;
  /// Range null and length zero (SAN-RMP-06).
  AccessFault unbind_rkey(PdId pd, Rkey key) noexcept;

  /// libibverbs type-1 window: a further bind replaces the range under a new instance, which is returned in
  /// `key`.
  AccessFault rebind_window(PdId pd, const BindRequest& request, Rkey& key) noexcept;
  /// Makes a key stop working: invalidate by work request or by the peer's request.
  AccessFault invalidate(PdId pd, Rkey key) noexcept;

  /// Checks one data segment (TPT-LOCAL-02a-f). On kNone `at` is where its bytes lie.
  [[nodiscard]] AccessFault check_local(PdId pd, const Sge& sge, AccessKind kind,
                                        std::byte*& at) const noexcept;
  /// Checks one remote access (TPT-REMOTE-02a-f). A zero-length access needs a valid key too.
  [[nodiscard]] AccessFault check_remote(PdId pd, Rkey key, uint64_t va, uint64_t length, AccessKind kind,
                                         RemoteGrant& out) const noexcept;
  /// Tells the table that a granted operation has ended; a one-shot key dies here (SAN-RMP-12).
  void finish_remote(const RemoteGrant& grant) noexcept;

  /// True while no region, window or key uses the PD.
  [[nodiscard]] bool pd_unused(PdId pd) const noexcept;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace weft
