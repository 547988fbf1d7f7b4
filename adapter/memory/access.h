// adapter/memory/access.h -- the words of the protection table: kinds of access, why one is refused, and what
// a granted one says.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft::adapter {

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
  kAlreadyBound,   // a key protects one range at a time (SAN-RMP-07, C-22); windows hang on the region
  kBadFlags,       // rights that a window cannot have
  kNoRoom,         // the tables of pages are full
  kNotMapped,      // the entry allows it, but there is no memory behind the address
  kWrongQp,        // bound to another QP
  kCount,
};
[[nodiscard]] std::string_view to_string(AccessFault fault) noexcept;

/// Access the caller wants to make.
enum class AccessKind : uint8_t { kLocalRead, kLocalWrite, kRemoteRead, kRemoteWrite, kRemoteAtomic };

/// Two bits (TPT-ENTRY-05). The table makes the first two.
enum class EntryType : uint8_t { kRegion = 0, kWindow = 1, kIscsiRegion = 2, kReserved = 3 };

/// A granted remote access: where the bytes lie, and which binding of which key granted it.
struct RemoteGrant {
  std::byte* at = nullptr;  // null when they lie in pages: MemoryTable::visit_granted() finds them
  uint64_t room = 0;        // bytes from there to the end of what the key opens
  uint32_t entry = 0;
  uint32_t binding = 0;   // each bind has a number of its own: the same key bound anew is another grant
  bool one_shot = false;  // serves one operation (SAN-RMP-12)
};

}  // namespace weft::adapter
