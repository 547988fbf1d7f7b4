// adapter/memory/address_space.h -- effective, virtual and physical addresses (LAY-ADDR, SAN-LMP): the
// driver's copy of each process's segment table, and the pages mapped for the adapter. The virtual memory
// manager is injected. Physical memory is the process's own memory.
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

/// One entry of a segment table (SAN-LMP-04). An invalid entry refuses access.
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

/// Number of a process in the operating system.
using ProcessId = StrongId<struct ProcessTag, uint32_t>;

/// The operating system's virtual memory manager, as the driver sees it. It reports every change with
/// AddressSpaces::segment_table_update() and page_changed().
class MemoryManager {
 public:
  virtual ~MemoryManager() = default;
  /// The segment table of a process. Called once for each process; from this call on the manager reports the
  /// changes of that table (SAN-LMP-08).
  virtual std::vector<Segment> segment_table(ProcessId process) = 0;
  /// The page table entry of a virtual page; empty when there is none.
  virtual std::optional<PageEntry> page_entry(uint64_t page) = 0;
  /// Brings back a page that was swapped out (SAN-LMP-14); empty when that is not possible.
  virtual std::optional<PageEntry> page_in(uint64_t page) noexcept = 0;
};

/// Kinds of address (SAN-LMP-06, SAN-LMP-11). User processes may only use effective addresses.
enum class AddressKind : uint8_t { kEffective, kVirtual, kPhysical };
enum class ProcessMode : uint8_t { kUser, kKernel };

/// An access that found no page, for the owner's default error handler (SAN-LMP-12).
struct PageFault {
  uint64_t address = 0;  // virtual
  PdId pd{};
};

/// Owner: the adapter's thread. A PD belongs to a process, and all regions of the PD use that process's
/// segment table. All its QPs share one copy, so an update reaches all of them. The page table is private to
/// the adapter and holds the pages that map_local_page() has entered.
class AddressSpaces {
 public:
  AddressSpaces(MemoryTable& table, MemoryManager& manager);
  AddressSpaces(const AddressSpaces&) = delete;
  AddressSpaces& operator=(const AddressSpaces&) = delete;

  /// Assigns the PD to a process until the PD ends. In user mode memory is then registered by reg_addresses()
  /// only (SAN-LMP-06). Refused for a PD that has a process, and in user mode for one that has regions or
  /// keys.
  Refusable<> assign(PdId pd, ProcessId process, ProcessMode mode);
  /// The PD has ended.
  void free_pd(PdId pd) noexcept { owners_.erase(pd); }
  /// OpenQP: fetches the process's segment table, unless an earlier QP or registration has done so
  /// (SAN-LMP-08). No effect for a PD without a process.
  void open_qp(PdId pd);

  /// SegmentTableUpdate (SAN-LMP-10): the manager has added, changed or (valid == false) deleted an entry.
  void segment_table_update(ProcessId process, const Segment& segment);
  /// MapLocalPage (SAN-LMP-11): enters the pages of a virtual range for the adapter.
  Refusable<> map_local_page(uint64_t address, uint64_t bytes);
  /// The manager has changed, swapped out or swapped in a page (SAN-LMP-15). No effect for pages that were
  /// never mapped for the adapter.
  void page_changed(const PageEntry& entry);

  /// Makes a region over addresses of the PD's process. Refused: a kind of address that its mode does not
  /// allow (SAN-LMP-06), and a range that its segments do not contain (SAN-LMP-02). Peers and work requests
  /// use the address itself, or with options.base_addr an opaque one (SAN-LMP-13).
  Refusable<MemoryRegion> reg_addresses(PdId pd, AddressKind kind, uint64_t address, uint64_t length,
                                        Access access, const RegisterOptions& options = {});
  /// BindRKey on addresses that need not be registered: makes the region implicitly, without a call of the
  /// kernel agent (C-17, SAN-RMP-03, SAN-RMP-05). The caller deregisters it by its LKey after the key is
  /// unbound.
  Refusable<MemoryRegion> bind_rkey(PdId pd, Rkey key, AddressKind kind, uint64_t address, uint64_t length,
                                    Access access);

  /// Converts an effective to a virtual address, by the copy of the process's table. Empty without a valid
  /// segment.
  [[nodiscard]] std::optional<uint64_t> to_virtual(ProcessId process, uint64_t effective) const noexcept;
  /// Takes the oldest page fault; empty when there is none.
  [[nodiscard]] std::optional<PageFault> take_page_fault() noexcept;
  /// Number of segment tables fetched so far.
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

  /// Finds a page of virtual memory, and pages it in if needed and possible.
  [[nodiscard]] AccessFault find_page(PdId pd, uint64_t address, AccessKind kind, MemoryPiece& out) noexcept;
  [[nodiscard]] AccessFault translate(PdId pd, AddressKind kind, uint64_t address, AccessKind access,
                                      MemoryPiece& out) noexcept;
  [[nodiscard]] Refusable<> authorise(PdId pd, AddressKind kind, uint64_t address, uint64_t length);
  /// Fetches the segment table of a process, once.
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
