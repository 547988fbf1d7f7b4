// adapter/memory/key_table.h -- gives out 32-bit keys and finds the table index of a key again (LAY-STAG). A
// key is the adapter's number in bits 31..28 and, below it, the permuted pair of a 20-bit index and an 8-bit
// instance.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>

#include "adapter/memory/chunked_table.h"
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

/// Owner: the adapter's thread. Fresh indices come first, until kKeyIndicesResting rest; what has been given
/// back is reused first in, first out, so that an old key stays wrong as long as possible. The instance
/// starts at a random value (O-36) and steps by one each time an entry is defined anew, so an old key fails
/// for the next 255 definitions of its index. Memory grows with the indices in use; every call is O(1).
class KeyTable {
 public:
  /// @param keys 1..kKeysMax  @param number 0..15  @param random outlives the table
  KeyTable(uint32_t keys, uint8_t number, RandomSource& random);

  /// A free index under a new instance; nothing when all are in use. Allocates when the table grows.
  [[nodiscard]] std::optional<uint32_t> take();
  /// Gives an index back. Only for taken ones.
  void give_back(uint32_t index) noexcept;
  /// Steps the instance of a taken index: its present key becomes an old one.
  void renew(uint32_t index) noexcept;

  /// Present key of an index that was taken at least once; never 0.
  [[nodiscard]] uint32_t key_of(uint32_t index) const noexcept;
  [[nodiscard]] uint8_t instance_of(uint32_t index) const noexcept { return slots_[index].instance; }
  /// Index and instance a key names; nothing for keys of other adapters and indices never taken. O(1).
  [[nodiscard]] std::optional<KeyParts> find(uint32_t key) const noexcept;
  [[nodiscard]] uint32_t free_count() const noexcept { return keys_ - used_ + resting_; }
  [[nodiscard]] uint32_t size() const noexcept { return keys_; }

 private:
  struct Slot {
    uint32_t next = kNone;  // in the line of resting ones
    uint8_t instance = 0;
  };
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  void grow();
  void step(uint32_t index) noexcept;

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
  mutable std::array<Remembered, kRememberedSlots> remembered_{};
};

}  // namespace weft::adapter
