// adapter/memory/key_table.h -- assigns 32-bit keys and finds the table index of a key (LAY-STAG). Bits
// 31..28 of a key are the adapter's number. The bits below are the permuted pair of a 20-bit index and an
// 8-bit instance. If the consumer chooses the instance, they are a random 20-bit block and the instance
// itself.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "adapter/memory/chunked_table.h"
#include "adapter/memory/key_blocks.h"
#include "adapter/memory/key_permutation.h"
#include "base/rng.h"

namespace weft::adapter {

inline constexpr uint32_t kKeyIndexBits = 20;
inline constexpr uint32_t kKeysMax = 1U << kKeyIndexBits;
inline constexpr uint32_t kKeyInstanceBits = 8;
static_assert(kKeyIndexBits + kKeyInstanceBits == kPermutedBits);

/// Index and instance that a key names; neither is checked yet.
struct KeyParts {
  uint32_t index = 0;
  uint8_t instance = 0;
};

/// Number of indices that rest before one of them is reused, as long as there are new ones. Small enough that
/// the table of an adapter with few regions stays in the cache; large enough that an old key stays invalid
/// for long.
inline constexpr uint32_t kKeyIndicesResting = 1024;

/// Most blocks of keys with chosen instances per adapter: a sixteenth of all keys.
inline constexpr uint32_t kKeyBlocksMax = 1U << 16;
/// Number of random blocks that are tried. In a full table one in three is free.
inline constexpr uint32_t kKeyBlockTries = 128;

/// Owner: the adapter's thread. New indices are used first, until kKeyIndicesResting rest. Returned indices
/// are reused first in, first out, so that an old key stays invalid as long as possible. The instance starts
/// at a random value (O-36) and grows by one each time an entry is defined anew, so an old key fails for the
/// next 255 definitions of its index. Memory grows with the indices in use. Every call is O(1).
class KeyTable {
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  struct Slot {
    uint32_t next = kNone;  // resting: next in the list; taken with a block: its first key
    uint8_t instance = 0;
    uint8_t promised = 0;  // newest promised instance; equal to `instance` when none is promised
    bool has_block = false;
  };

 public:
  /// Memory that the table may need next. May be allocated by any thread at any time.
  struct Room {
    ChunkedTable<Slot>::Chunk slots;
    KeyBlocks::Page blocks;
  };
  [[nodiscard]] static Room make_room() {
    Room out;
    out.slots = ChunkedTable<Slot>::make();
    out.blocks = KeyBlocks::make_page();
    return out;
  }
  /// True when one of the next `count` calls of take(), or take_block(), would allocate memory.
  [[nodiscard]] bool lacks_room(uint32_t count) const noexcept {
    const bool ends = used_ < keys_ && used_ + count > slots_.size();
    return (ends && room_.slots == nullptr) || room_.blocks == nullptr;
  }
  /// Takes the parts of `room` that are missing.
  void give_room(Room& room) noexcept {
    if (room_.slots == nullptr) room_.slots = std::move(room.slots);
    if (room_.blocks == nullptr) room_.blocks = std::move(room.blocks);
  }

  /// @param keys 1..kKeysMax  @param number 0..15  @param random must outlive the table
  KeyTable(uint32_t keys, uint8_t number, RandomSource& random);

  /// A free index with a new instance; empty when all are in use. Allocates when the table grows and no room
  /// was given. Without memory for that, all indices stay as they are.
  [[nodiscard]] std::optional<uint32_t> take();
  /// The index that take() gives next, if one is free.
  [[nodiscard]] uint32_t next() const noexcept { return next_is_new() ? used_ : oldest_; }
  /// Returns a taken index.
  void give_back(uint32_t index) noexcept;
  /// Gives a taken index a new instance: its present key and every promised key become old.
  void renew(uint32_t index) noexcept;

  /// A key that a taken index may get later: the one after those promised before. 0 when all 255 instances
  /// ahead of the present one are promised.
  [[nodiscard]] uint32_t promise(uint32_t index) noexcept;
  /// Withdraws all promises behind this instance, which must be present or promised.
  void withdraw_behind(const KeyParts& last) noexcept { slots_[last.index].promised = last.instance; }
  /// True when this instance is present or promised, and not old.
  [[nodiscard]] bool promised(const KeyParts& parts) const noexcept {
    const Slot& slot = slots_[parts.index];
    const auto ahead = static_cast<uint8_t>(parts.instance - slot.instance);
    return ahead <= static_cast<uint8_t>(slot.promised - slot.instance);
  }
  /// Makes a promised key the present one. Keys before it become old.
  void adopt(const KeyParts& parts) noexcept { slots_[parts.index].instance = parts.instance; }

  /// Gives a taken index its own block of 256 keys, one per instance, in place of its permuted keys. While
  /// the index is taken, no other key is in the block. False when there are too many blocks. Allocates like
  /// take().
  [[nodiscard]] bool take_block(uint32_t index);
  /// The index that has the block of a key, and the chosen instance. Call it when find() has found no present
  /// key.
  [[nodiscard]] std::optional<KeyParts> find_chosen(uint32_t key) const noexcept;
  /// Sets the present instance of such an index.
  void choose(const KeyParts& parts) noexcept { slots_[parts.index].instance = parts.instance; }

  /// Present key of an index that was taken at least once. Never 0.
  [[nodiscard]] uint32_t key_of(uint32_t index) const noexcept;
  [[nodiscard]] uint8_t instance_of(uint32_t index) const noexcept { return slots_[index].instance; }
  /// Index and instance that a key names; empty for keys of other adapters and for indices never taken. O(1).
  [[nodiscard]] std::optional<KeyParts> find(uint32_t key) const noexcept;
  /// True when the key has this adapter's number.
  [[nodiscard]] bool is_own(uint32_t key) const noexcept { return (key & ~kPermutedMask) == number_bits_; }
  [[nodiscard]] uint32_t free_count() const noexcept { return keys_ - used_ + resting_; }
  [[nodiscard]] uint32_t size() const noexcept { return keys_; }

 private:
  void grow();
  void step(uint32_t index) noexcept;
  [[nodiscard]] bool next_is_new() const noexcept { return used_ < keys_ && resting_ < kKeyIndicesResting; }
  /// The first instance after `instance` whose key may be used.
  [[nodiscard]] uint8_t after(uint32_t index, uint8_t instance) const noexcept;
  [[nodiscard]] bool block_is_free(uint32_t block) const noexcept;

  /// Cache of inverse permutations. The keys of a few pools make up almost all traffic. The entries are pure
  /// values and never become stale.
  struct Remembered {
    uint32_t key = 0;
    uint32_t plain = 0;
  };
  static constexpr uint32_t kRememberedSlots = 256;

  KeyPermutation permutation_;
  RandomSource& random_;
  uint32_t keys_;
  uint32_t number_bits_;
  uint32_t plain_of_zero_;  // index and instance that would give key 0
  uint32_t used_ = 0;       // indices below it were taken at least once
  uint32_t resting_ = 0;
  uint32_t oldest_ = kNone;  // of the resting indices
  uint32_t newest_ = kNone;
  ChunkedTable<Slot> slots_;
  KeyBlocks blocks_;
  Room room_;
  mutable std::array<Remembered, kRememberedSlots> remembered_{};
};

}  // namespace weft::adapter
