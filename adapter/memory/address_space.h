// adapter/memory/address_space.h -- effective, virtual and physical addresses (LAY-ADDR, SAN-LMP): what the
// driver knows of each process's segment table and of the pages that are mapped for the adapter. The virtual
// memory manager is injected; physical memory is the process's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "adapter/memory/memory_table.h"
#include "adapter/memory/translation.h"
#include "adapter/verbs.h"
#include "base/fixed_ring.h"
#include "base/result.h"

namespace weft::adapter {

inline constexpr uint32_t kPageOffsetBits = 12;
inline constexpr uint32_t kSegmentPageBits = 16;
inline constexpr uint64_t kSpacePageBytes = uint64_t{1} << kPageOffsetBits;
inline constexpr uint64_t kSegmentBytes = uint64_t{1} << (kPageOffsetBits + kSegmentPageBits);

/// The three parts of an effective or virtual address (SAN-LMP-03): 36, 16 and 12 bits. The upper part is the
/// effective segment ID, or the upper bits of the virtual address.
struct AddressParts {
  uint64_t upper = 0;
  uint32_t page = 0;
  uint32_t offset = 0;

  [[nodiscard]] friend constexpr bool operator==(const AddressParts&, const AddressParts&) = default;
};
[[nodiscard]] constexpr AddressParts split_address(uint64_t address) noexcept {
  return {address / kSegmentBytes,
          static_cast<uint32_t>(address / kSpacePageBytes % (uint64_t{1} << kSegmentPageBits)),
          static_cast<uint32_t>(address % kSpacePageBytes)};
}
[[nodiscard]] constexpr uint64_t join_address(const AddressParts& parts) noexcept {
  return parts.upper * kSegmentBytes + parts.page * kSpacePageBytes + parts.offset;
}

/// One entry of a segment table (SAN-LMP-04). An entry that is not valid refuses.
struct Segment {
  uint64_t id = 0;     // effective segment ID
  uint64_t upper = 0;  // upper bits of the virtual address that it maps to
  bool valid = true;
};
/// One entry of the page table (SAN-LMP-05).
struct PageEntry {
  uint64_t page = 0;      // virtual address / 4 KiB: upper bits and page number
  uint64_t physical = 0;  // physical page number: address of the process's memory / 4 KiB
  bool valid = true;
  bool read = true;
  bool write = true;
};

/// A process, as the operating system numbers it.
using ProcessId = StrongId<struct ProcessTag, uint32_t>;

/// The virtual memory manager of the operating system, as the driver sees it. It tells the driver of every
/// change by AddressSpaces::segment_table_update() and page_changed().
class MemoryManager {
 public:
  virtual ~MemoryManager() = default;
  /// The segment table of a process. Fetched once for each process (SAN-LMP-08).
  virtual std::vector<Segment> segment_table(ProcessId process) = 0;
  /// The page table entry of a virtual page; nothing when there is none.
  virtual std::optional<PageEntry> page_entry(uint64_t page) = 0;
  /// Brings back a page that was swapped out (SAN-LMP-14); nothing when that cannot be.
  virtual std::optional<PageEntry> page_in(uint64_t page) noexcept = 0;
};

/// What an address names (SAN-LMP-06, SAN-LMP-11). User processes have effective addresses only.
enum class AddressKind : uint8_t { kEffective, kVirtual, kPhysical };
enum class ProcessMode : uint8_t { kUser, kKernel };

/// An access that found no page: for the owner's default error handler (SAN-LMP-12).
struct PageFault {
  uint64_t address = 0;  // virtual
  PdId pd{};
};

/// Owner: the adapter's thread. A PD belongs to a process, and everything under the PD follows that process's
/// segment table; all its QPs share the one copy, so that an update reaches them all. The page table is
/// private to the adapter and holds what map_local_page() has entered.
class AddressSpaces {
 public:
  AddressSpaces(MemoryTable& table, MemoryManager& manager);
  AddressSpaces(const AddressSpaces&) = delete;
  AddressSpaces& operator=(const AddressSpaces&) = delete;

  /// The PD is that of a process until it ends. In user mode it registers memory by reg_addresses() alone
  /// (SAN-LMP-06). Refused for a PD that has a process, and in user mode for one that has regions or keys.
  Refusable<> assign(PdId pd, ProcessId process, ProcessMode mode);
  /// The PD has ended.
  void free_pd(PdId pd) noexcept { owners_.erase(pd); }
  /// OpenQP: the process's segment table is fetched, unless an earlier QP or registration has done so
  /// (SAN-LMP-08). Nothing happens for a PD without process.
  void open_qp(PdId pd);

  /// SegmentTableUpdate (SAN-LMP-10): the manager has added, changed or, not valid, deleted an entry.
  void segment_table_update(ProcessId process, const Segment& segment);
  /// MapLocalPage (SAN-LMP-11): the pages of a virtual range are entered for the adapter.
  Refusable<> map_local_page(uint64_t address, uint64_t bytes);
  /// The manager has changed, swapped out or swapped in a page (SAN-LMP-15). Pages that were never mapped for
  /// the adapter are none of its business.
  void page_changed(const PageEntry& entry);

  /// A region over addresses of the PD's process. Refused: a kind of address its mode does not allow
  /// (SAN-LMP-06), a range its segments do not open (SAN-LMP-02). Peers and work requests name the address
  /// itself, or, with options.base_addr, an opaque one (SAN-LMP-13).
  Refusable<MemoryRegion> reg_addresses(PdId pd, AddressKind kind, uint64_t address, uint64_t length,
                                        Access access, const RegisterOptions& options = {});
  /// BindRKey on addresses that need not be registered: the region is made silently (C-17, SAN-RMP-03). The
  /// caller ends it by its LKey once the key is unbound.
  Refusable<MemoryRegion> bind_rkey(PdId pd, Rkey key, AddressKind kind, uint64_t address, uint64_t length,
                                    Access access);

  /// Effective to virtual address, by the copy of the process's table; nothing when no valid segment says so.
  [[nodiscard]] std::optional<uint64_t> to_virtual(ProcessId process, uint64_t effective) const noexcept;
  /// The oldest page fault that was not taken yet.
  [[nodiscard]] std::optional<PageFault> take_page_fault() noexcept;
  /// Segment tables fetched so far.
  [[nodiscard]] uint32_t fetches() const noexcept { return fetches_; }

 private:
  friend class SpaceTranslation;
  struct Process {
    bool fetched = false;
    std::unordered_map<uint64_t, Segment> segments;
  };
  struct Owner {
    ProcessId process{};
    ProcessMode mode = ProcessMode::kUser;
  };
  static constexpr uint32_t kPageFaultsMax = 64;

  /// Where a page of virtual memory lies; pages it in when that is needed and can be.
  [[nodiscard]] AccessFault find_page(PdId pd, uint64_t address, AccessKind kind, MemoryPiece& out) noexcept;
  [[nodiscard]] AccessFault translate(PdId pd, AddressKind kind, uint64_t address, AccessKind access,
                                      MemoryPiece& out) noexcept;
  [[nodiscard]] Refusable<> authorise(PdId pd, AddressKind kind, uint64_t address, uint64_t length);
  /// The segment table of a process, the first time.
  void fetch(ProcessId id);

  MemoryTable& table_;
  MemoryManager& manager_;
  std::unordered_map<PdId, Owner, StrongIdHash> owners_;
  std::unordered_map<ProcessId, Process, StrongIdHash> processes_;
  std::unordered_map<uint64_t, PageEntry> pages_;
  FixedRing<PageFault> faults_;
  uint32_t fetches_ = 0;
};

}  // namespace weft::adapter
