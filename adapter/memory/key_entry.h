// adapter/memory/key_entry.h -- what one NIC of a computer tells another about a key: the whole entry (C-31),
// so that the other NIC makes every check itself (docs/key_migration.md).
#pragma once

#include <cstdint>

#include "adapter/memory/access.h"
#include "adapter/memory/translation.h"
#include "adapter/verbs.h"

namespace weft::adapter {

/// A key that serves now, with everything that an access needs (MIG-STATE-06). A value; `translation` lasts
/// until KeyEnds::key_ended() for this key.
struct KeyEntry {
  uint32_t key = 0;     // RKey or LKey; bits 31..28 are the number of the NIC that made it (LAY-STAG)
  uint64_t start = 0;   // first address as peers and work requests name it
  uint64_t length = 0;  // bytes
  PdId pd{};
  Access rights = Access::kNone;  // with kOneShot: serves one operation
  EntryType type = EntryType::kRegion;
  WindowKind kind = WindowKind::kKey;
  Qpn serves_qp{};                     // type-2 window: the only QP that it serves
  bool one_key = false;                // a region's LKey that is also its RKey
  bool touched = false;                // one-touch: its operation was executed (TPT-ENTRY-09)
  uint32_t binding = 0;                // number of the bind
  Translation* translation = nullptr;  // null: one range of the process
  uint64_t origin = 0;                 // place of the first byte: an address, or an offset in `translation`
};

/// Is told what becomes of keys that were handed to other NICs.
class KeyEnds {
 public:
  /// A key of this NIC is about to end or to change: no other NIC may use it when the call returns.
  virtual void key_ended(uint32_t key) noexcept = 0;
  /// The one operation of a key of another NIC was executed through this NIC: no NIC may use it when the call
  /// returns.
  virtual void key_used(uint32_t key) noexcept = 0;

 protected:
  ~KeyEnds() = default;
};

/// The number of the NIC that made a key (LAY-STAG).
[[nodiscard]] constexpr uint8_t nic_of_key(uint32_t key) noexcept {
  return static_cast<uint8_t>(key >> 28);
}
/// A computer has at most this many NICs: their number is four bits of each key.
inline constexpr uint32_t kNicsMax = 16;

}  // namespace weft::adapter
