// adapter/memory/access.h -- types of the protection table: kinds of access, reasons for a refusal, and the
// result of a granted access.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "messages/failure.h"

namespace weft::adapter {

/// Why an access was refused. Letters: the checks of TPT-LOCAL-02 and TPT-REMOTE-02.
enum class AccessFault : uint8_t {
  kNone,
  kNotValid,       // a: no such entry, or its valid bit is clear
  kWrongType,      // b: local access through a window, or remote access through a region's LKey
  kWrongPd,        // c
  kWrongInstance,  // d: an old key
  kOutOfBounds,    // e
  kRightMissing,   // f
  kNoWindowBind,   // g: the region does not allow windows
  kAlreadyBound,  // a key protects one range at a time (SAN-RMP-07, C-22); or windows are bound to the region
  kBadFlags,      // rights that a window cannot have
  kNoRoom,        // the tables of pages are full
  kNotMapped,     // the entry allows the access, but there is no memory at the address
  kWrongQp,       // bound to another QP
  kCount,
};
[[nodiscard]] std::string_view to_string(AccessFault fault) noexcept;

/// Reason of a refused access: for a request of this side, a message of the peer, and a bind. The low byte of
/// its code is the fault.
[[nodiscard]] inline Reason local_reason(AccessFault fault) noexcept {
  return find_reason(0x100U + static_cast<uint32_t>(fault));
}
[[nodiscard]] inline Reason remote_reason(AccessFault fault) noexcept {
  return find_reason(0x200U + static_cast<uint32_t>(fault));
}
[[nodiscard]] inline Reason bind_reason(AccessFault fault) noexcept {
  return find_reason(0x300U + static_cast<uint32_t>(fault));
}

/// Kind of an access.
enum class AccessKind : uint8_t { kLocalRead, kLocalWrite, kRemoteRead, kRemoteWrite, kRemoteAtomic };

/// Two bits (TPT-ENTRY-05). The table makes regions and windows.
enum class EntryType : uint8_t { kRegion = 0, kWindow = 1, kIscsiRegion = 2, kReserved = 3 };

/// A granted remote access: the place of the bytes, and the key and binding that granted it.
struct RemoteGrant {
  std::byte* at = nullptr;  // null: the bytes lie in pages, which AccessChecks::visit_granted() finds
  uint64_t room = 0;        // bytes from there to the end of the range that the key opens
  uint32_t entry = 0;
  uint32_t binding = 0;   // number of the bind; a key that is bound anew gives another grant
  uint8_t nic = 0;        // number of the NIC whose list granted it
  bool one_shot = false;  // valid for one operation (SAN-RMP-12)
};

}  // namespace weft::adapter
