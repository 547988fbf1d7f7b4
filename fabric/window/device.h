// fabric/window/device.h -- one end of a memory window: a device that moves bytes to and from one peer and
// knows nothing of messages, queue pairs or keys (NTB-API-02). docs/window.md.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/pollable.h"

namespace weft::fabric {

/// Where the remote bytes of a request are.
enum class DmaSpace : uint8_t {
  kWindow,  // at an offset of the peer's window memory
  kMemory,  // at an address of the peer's process
};
enum class DmaKind : uint8_t { kWrite, kRead };

struct DmaRequest {
  DmaKind kind = DmaKind::kWrite;
  DmaSpace space = DmaSpace::kWindow;
  uint64_t remote = 0;         // offset or address
  std::byte* local = nullptr;  // `bytes` bytes, lent to the device until the completion; a write only reads
  uint64_t bytes = 0;          // 0 and more
  uint64_t token = 0;          // comes back with the completion
};

enum class DmaStatus : uint8_t {
  kGood,
  kFailed,       // the device could not move all bytes
  kOutOfBounds,  // outside the window memory, or of a space that the device does not have: nothing moved
  kNoMemory,     // there is no memory at one of the ends, or the peer does not let this request at it
  kPeerGone,
};
[[nodiscard]] std::string_view name_of(DmaStatus status) noexcept;

struct DmaCompletion {
  uint64_t token = 0;
  DmaStatus status = DmaStatus::kGood;
};

enum class PeerState : uint8_t {
  kJoining,  // no request is taken yet
  kUp,
  kGone,  // has ended, or broke a rule of the device; for ever
};

inline constexpr uint32_t kScratchpads = 8;
/// Register 0: offset of the anchor record, 0 while it is not ready (NTB-ADV-02).
inline constexpr uint32_t kScratchpadAnchor = 0;
/// Register 1: address at which the owner has mapped its window memory; 0: not told.
inline constexpr uint32_t kScratchpadMapped = 1;
/// Register 4: 1 while the owner stores its records into the peer's FIFO itself, so that the second half of a
/// slot's header (kSlotMarkAt) appears behind the rest of the slot.
inline constexpr uint32_t kScratchpadMarks = 4;
/// Register that is 1 when the owner takes datagrams out of its FIFO.
inline constexpr uint32_t kScratchpadDatagrams = 5;
/// Register 3, where two programs meet in a file: subnet << 16 | LID of the owner; 0: not told.
inline constexpr uint32_t kScratchpadEndnode = 3;

/// `requests` is constant, the others are once the peer is up.
struct DeviceLimits {
  uint64_t peer_window_bytes = 0;
  uint32_t requests = 0;      // posted and not completed, at once
  bool memory_space = false;  // requests of DmaSpace::kMemory are possible
};

/// The memory of this process as a peer may reach it where the device cannot do so by itself. Called in
/// poll() and flush() of the device, by its owner's thread. `at` and `bytes` are a peer's words: the callee
/// checks them.
class OwnerMemory {
 public:
  virtual ~OwnerMemory() = default;
  /// Writes the last bytes last, as the device does ("Order" below).
  /// False, and nothing or a part is written, when the peer may not write there, or there is no memory.
  [[nodiscard]] virtual bool write(uint64_t at, std::span<const std::byte> from) noexcept = 0;
  /// Likewise; `to` is unspecified then.
  [[nodiscard]] virtual bool read(uint64_t at, std::span<std::byte> to) noexcept = 0;
};

/// Owner: one thread. poll() joins the peer, finds out whether it lives, and moves requests on. No call
/// blocks, and none but set-up allocates.
///
/// **Order.** A request's bytes move between flush() and its completion. Two requests have no order: to have
/// one, wait for the first completion. Eight bytes at a multiple of eight in the window space move as one
/// access, and all such accesses of both sides, with load_window_word() and store_window_word() of the owner,
/// have one order (seq_cst). A write of more than eight bytes moves its last bytes, as many as end an aligned
/// word, after its other bytes, because programs wait for the last bytes of a message.
class DmaDevice : public Pollable {
 public:
  [[nodiscard]] virtual PeerState peer() const noexcept = 0;
  /// True when the peer has ended for certain, so that it moves nothing more. A peer that is gone because it
  /// was silent or broke a rule may still live.
  [[nodiscard]] virtual bool peer_ended() const noexcept = 0;
  [[nodiscard]] virtual DeviceLimits limits() const noexcept = 0;

  /// Takes a request, to be started by flush(). False while limits().requests are not completed, or the peer
  /// is not up; nothing has changed then.
  [[nodiscard]] virtual bool post(const DmaRequest& request) noexcept = 0;
  /// Starts what was posted.
  virtual void flush() noexcept = 0;
  /// Takes completions, in any order; one for each request, with kPeerGone at the latest after peer() has
  /// become kGone. @return how many of `out` are set
  [[nodiscard]] virtual uint32_t completions(std::span<DmaCompletion> out) noexcept = 0;

  /// Requests posted and not completed whose token has `bits` in the places of `mask` move nothing more, and
  /// complete as failed: their memory here is no longer lent. A device that completes within flush() has
  /// none.
  virtual void abandon(uint64_t /*mask*/, uint64_t /*bits*/) noexcept {}

  /// Tells the peer that there is something to look at. Never lost; several may arrive as one.
  virtual void notify() noexcept = 0;
  /// Wakes a peer that sleeps, after a store in its memory in one order with its look before it sleeps. An
  /// awake peer that reads this memory need not be told, and nothing is counted then.
  virtual void notify_sleeper() noexcept { notify(); }
  /// True when the peer has notified since the last call.
  [[nodiscard]] virtual bool take_notification() noexcept = 0;

  /// A word of this process that counts the peer's notifications: who has many windows looks at it without a
  /// call. Null: the device has none. Lives as long as the device.
  [[nodiscard]] virtual const std::atomic<uint64_t>* bell() const noexcept { return nullptr; }

  /// Sets an own register, for the peer to read. @param index below kScratchpads
  virtual void set_scratchpad(uint32_t index, uint64_t value) noexcept = 0;
  /// The peer's register: anything that a peer may write. 0 while it is not up.
  [[nodiscard]] virtual uint64_t peer_scratchpad(uint32_t index) const noexcept = 0;
  /// The same as a word in memory, big-endian, for a user that looks often. Null: the peer is not up, or its
  /// registers are no memory. Lives as long as the device.
  [[nodiscard]] virtual const std::atomic<uint64_t>* peer_register(uint32_t /*index*/) const noexcept {
    return nullptr;
  }

  /// The peer's window memory as this process has mapped it, of a device that carries out requests of the
  /// window space by loads and stores: its user may make them itself, with those of window_words.h for the
  /// words that both sides write. Empty: it may not, or the peer is not up. Lives as long as the device.
  [[nodiscard]] virtual std::span<std::byte> mapped_peer() noexcept { return {}; }

  /// The own window memory, zero at first, aligned to 64 bytes; lives as long as the device. The peer may
  /// write it at any time.
  [[nodiscard]] virtual std::span<std::byte> own_memory() noexcept = 0;
};

}  // namespace weft::fabric
