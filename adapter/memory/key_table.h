// adapter/memory/key_table.h -- gives out 32-bit keys and finds the table index of a key again (LAY-STAG). A
// key is the adapter's number in bits 31..28 and, below it, the permuted pair of a 20-bit index and an 8-bit
// instance; or, where the consumer chooses the instance, a random block of 20 bits and the instance as it is.
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

/// What a key says; not yet compared with anything.
struct KeyParts {
  uint32_t index = 0;
  uint8_t instance = 0;
};

/// Indices that rest before one of them is used again, as long as there are fresh ones. Few enough that the
/// table of an adapter with few regions stays in the cache, many enough that an old key stays wrong long.
inline constexpr uint32_t kKeyIndicesResting = 1024;

/// Blocks of keys with chosen instances that an adapter has at most: a sixteenth of all keys.
inline constexpr uint32_t kKeyBlocksMax = 1U << 16;
/// Places where a block is looked for. A full table leaves one place in three free.
inline constexpr uint32_t kKeyBlockTries = 128;

/// Owner: the adapter's thread. Fresh indices come first, until kKeyIndicesResting rest; what has been given
/// back is reused first in, first out, so that an old key stays wrong as long as possible. The instance
/// starts at a random value (O-36) and steps by one each time an entry is defined anew, so an old key fails
/// for the next 255 definitions of its index. Memory grows with the indices in use; every call is O(1).
class KeyTable {
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  struct Slot {
    uint32_t next = kNone;  // in the line of resting ones; of a taken one with a block, its first key
    uint8_t instance = 0;
    uint8_t promised = 0;  // newest one, `instance` when there is none ahead
    bool has_block = false;
  };

 public:
  /// Memory that the table may need next. Anybody may take it, at any time.
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
  /// The table would take memory for the next `count` calls of take(), or of take_block().
  [[nodiscard]] bool lacks_room(uint32_t count) const noexcept {
    const bool ends = used_ < keys_ && used_ + count > slots_.size();
    return (ends && room_.slots == nullptr) || room_.blocks == nullptr;
  }
  /// Keeps of `room` what it lacks.
  void give_room(Room& room) noexcept {
    if (room_.slots == nullptr) room_.slots = std::move(room.slots);
    if (room_.blocks == nullptr) room_.blocks = std::move(room.blocks);
  }

  /// @param keys 1..kKeysMax  @param number 0..15  @param random outlives the table
  KeyTable(uint32_t keys, uint8_t number, RandomSource& random);

  /// A free index under a new instance; nothing when all are in use. Allocates when the table grows without
  /// room that was given to it.
  [[nodiscard]] std::optional<uint32_t> take();
  /// Gives an index back. Only for taken ones.
  void give_back(uint32_t index) noexcept;
  /// Steps the instance of a taken index: its present key becomes an old one, and so does every promised one.
  void renew(uint32_t index) noexcept;

  /// A key that a taken index may have later: the next one behind those that were promised before. 0 when
  /// every instance ahead of the present one is promised, at most 255.
  [[nodiscard]] uint32_t promise(uint32_t index) noexcept;
  /// Takes back what was promised behind this instance, which is present or promised.
  void withdraw_behind(const KeyParts& last) noexcept { slots_[last.index].promised = last.instance; }
  /// Was this instance promised, and is it not behind the present one yet?
  [[nodiscard]] bool promised(const KeyParts& parts) const noexcept {
    const Slot& slot = slots_[parts.index];
    const auto ahead = static_cast<uint8_t>(parts.instance - slot.instance);
    return ahead <= static_cast<uint8_t>(slot.promised - slot.instance);
  }
  /// A promised key becomes the present one; those before it are old.
  void adopt(const KeyParts& parts) noexcept { slots_[parts.index].instance = parts.instance; }

  /// Gives a taken index a block of 256 keys of its own, one for each instance, instead of its permuted keys.
  /// No other key is in the block while the index is taken. False when there are too many blocks. Allocates
  /// likewise.
  [[nodiscard]] bool take_block(uint32_t index);
  /// The index that has the block of a key, and the instance chosen. Asked when find() has found none.
  [[nodiscard]] std::optional<KeyParts> find_chosen(uint32_t key) const noexcept;
  /// The instance that such an index has now.
  void choose(const KeyParts& parts) noexcept { slots_[parts.index].instance = parts.instance; }

  /// Present key of an index that was taken at least once; never 0.
  [[nodiscard]] uint32_t key_of(uint32_t index) const noexcept;
  [[nodiscard]] uint8_t instance_of(uint32_t index) const noexcept { return slots_[index].instance; }
  /// Index and instance a key names; nothing for keys of other adapters and indices never taken. O(1).
  [[nodiscard]] std::optional<KeyParts> find(uint32_t key) const noexcept;
  [[nodiscard]] uint32_t free_count() const noexcept { return keys_ - used_ + resting_; }
  [[nodiscard]] uint32_t size() const noexcept { return keys_; }

 private:
  void grow();
  void step(uint32_t index) noexcept;
  /// The first instance behind `instance` whose key may be given out.
  [[nodiscard]] uint8_t after(uint32_t index, uint8_t instance) const noexcept;
  [[nodiscard]] bool block_is_free(uint32_t block) const noexcept;

  /// A few pools' keys make up almost all traffic: their inverse permutation is kept. Pure values, never
  /// stale.
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
  uint32_t used_ = 0;       // indices below this were taken at least once
  uint32_t resting_ = 0;
  uint32_t oldest_ = kNone;  // of the resting ones
  uint32_t newest_ = kNone;
  ChunkedTable<Slot> slots_;
  KeyBlocks blocks_;
  Room room_;
  mutable std::array<Remembered, kRememberedSlots> remembered_{};
};

}  // namespace weft::adapter
