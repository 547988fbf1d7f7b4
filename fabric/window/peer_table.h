// fabric/window/peer_table.h -- the requester's side of a peer's window memory: finds the anchor record,
// keeps a checked copy of the protection table, refreshes it by generation, and says yes or no to every
// access before anything moves (NTB-MPT-01, C-28). docs/window.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "fabric/window/device.h"
#include "messages/window_layout.h"

namespace weft::fabric {

/// Time between two attempts to copy what the owner is changing, and after a copy that has come to no use.
inline constexpr Duration kTableRetry = 100us;
/// A record or table that stays wrong for this long is the peer's fault: its owner writes one within
/// microseconds.
inline constexpr Duration kTableRepair = 100ms;
/// Failed DMA in a row, 100 us apart, after which the window is given up.
inline constexpr uint32_t kTableDmaTries = 10;

enum class TableCheck : uint8_t {
  kGranted,
  kThroughOwner,  // the key is valid; the owner checks and executes
  kUnknownKey,
  kOutOfRange,  // the access does not lie in the entry, from its first byte to its last
  kNoRight,
};
[[nodiscard]] std::string_view name_of(TableCheck check) noexcept;

/// Why a peer's window cannot be used.
struct PeerTableFault {
  AnchorFault anchor = AnchorFault::kNone;
  TableFault table = TableFault::kNone;
  bool moved = false;      // FIFO or table have another place or size than at first
  bool no_memory = false;  // here, for the copy
  DmaStatus dma = DmaStatus::kGood;
};

/// Owner: the device's thread. One request of its own is under way at most; its completion comes to
/// complete(). `device` outlives this.
class PeerTable {
 public:
  /// `entries_max`: a larger table is refused, because a copy takes time in proportion to its entries.
  PeerTable(DmaDevice& device, uint64_t token, uint64_t entries_max = kTableEntriesMax);
  /// Later requests go to this device, which gives back the completions of earlier ones, too.
  void use(DmaDevice& device) noexcept {
    device_ = &device;
    mapped_ = device.mapped_peer();
  }

  /// Starts the next step, if none is under way and one is due.
  void poll(Instant now) noexcept;
  void complete(DmaStatus status, Instant now) noexcept;
  /// A notification has come: the table may have changed. A copy that was not used stays, because a use finds
  /// the change by itself.
  void look() noexcept { stale_ |= copy_used_; }
  [[nodiscard]] Instant deadline() const noexcept;

  /// A copy of anchor record and table exists. anchor() and entries() are valid from then on.
  [[nodiscard]] bool ready() const noexcept { return has_copy_; }
  [[nodiscard]] bool faulty() const noexcept { return step_ == Step::kFaulty; }
  /// Only when faulty().
  [[nodiscard]] const PeerTableFault& fault() const noexcept { return fault_; }
  [[nodiscard]] const WindowAnchor& anchor() const noexcept { return anchor_; }
  /// Entries in use, by key.
  [[nodiscard]] const std::vector<WindowEntry>& entries() const noexcept { return entries_; }

  /// The caller has an access to check: begins a use (docs/window.md) if there is none.
  void want_use() noexcept { wanted_ = true; }
  /// The same where the peer's memory is mapped: announces and confirms without requests. False when there
  /// is no use afterwards: want_use() then, if the access may wait.
  [[nodiscard]] bool begin_use() noexcept;
  /// No request is under way, and poll() would start none.
  [[nodiscard]] bool idle() const noexcept {
    return step_ == Step::kReady && !under_way_ && !stale_ && !wanted_;
  }
  /// check() speaks of a table that the owner knows to be used. DMA may be posted, one hold() each, until
  /// this is false again; end_use() ends it.
  [[nodiscard]] bool in_use() const noexcept { return step_ == Step::kInUse && !stale_; }
  void hold() noexcept { ++held_; }
  void release() noexcept { --held_; }
  /// No further access follows for now: the use ends when nothing is held.
  void end_use() noexcept { wanted_ = false; }

  /// The whole access against the copy: key, start, end, right. `right` is kTableRead or kTableWrite. Unless
  /// in_use() the copy may be old: then the owner has to check the access as well. O(log entries).
  [[nodiscard]] TableCheck check(uint32_t key, uint64_t start, uint64_t length,
                                 TableRight right) const noexcept;

 private:
  enum class Step : uint8_t {
    kFindAnchor,  // the scratchpad says 0
    kReadAnchor,
    kReadTable,
    kConfirmCopy,  // reads the generation once more
    kReady,
    kLook,      // reads the generation, after a notification
    kAnnounce,  // writes "table use"
    kConfirmUse,
    kInUse,
    kLeave,  // writes 0
    kFaulty,
  };

  void leave() noexcept;
  [[nodiscard]] bool is_changed() const noexcept;
  void read(uint64_t offset, std::byte* to, uint64_t bytes, Step step) noexcept;
  void read_generation(Step step) noexcept;
  void write_use(uint64_t generation, Step step) noexcept;
  void post(const DmaRequest& request, Step step) noexcept;
  void find_anchor() noexcept;
  void start_copy() noexcept;
  void take_anchor(Instant now) noexcept;
  void take_table(Instant now) noexcept;
  void take_generation(Instant now) noexcept;
  /// The copy did not succeed, and may next time.
  void again(Instant now) noexcept;
  /// What was read is wrong, perhaps because it is being written.
  void wrong(const PeerTableFault& fault, Instant now) noexcept;
  void give_up(const PeerTableFault& fault) noexcept;
  /// Room for the copy; false when there is none.
  [[nodiscard]] bool make_room() noexcept;

  DmaDevice* device_;
  uint64_t token_;
  uint64_t entries_max_;
  std::span<std::byte> mapped_;  // the peer's window memory, if this side may load and store there itself
  Step step_ = Step::kFindAnchor;
  bool under_way_ = false;
  bool has_copy_ = false;
  bool stale_ = false;   // look at the generation before any further access
  bool wanted_ = false;  // an access waits
  bool copy_used_ = false;
  uint32_t held_ = 0;
  uint32_t dma_failures_ = 0;  // in a row
  Instant retry_at_ = Instant::min();
  Instant copied_at_ = Instant::min();
  Instant wrong_since_ = kNever;
  uint64_t anchor_at_ = 0;  // of the first record that was good, then for ever
  WindowAnchor anchor_;
  WindowAnchor incoming_;
  std::array<std::byte, kAnchorBytes> record_{};
  std::vector<std::byte> table_bytes_;
  std::vector<WindowEntry> entries_;           // of the copy, by key
  std::vector<WindowEntry> incoming_entries_;  // likewise, not confirmed
  std::array<std::byte, 8> word_{};
  PeerTableFault fault_;
};

}  // namespace weft::fabric
