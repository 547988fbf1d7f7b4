// adapter/memory/key_table.h -- gives out 32-bit keys and finds the table index of a key again (LAY-STAG). A
// key is the adapter's number in bits 31..28 and, below it, the permuted pair of a 20-bit index and an 8-bit
// instance.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

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

/// Owner: the adapter's thread. Indices are reused first in, first out, so that an old key stays wrong as
/// long as possible; the instance starts at a random value (O-36) and steps by one each time an entry is
/// defined anew, so an old key fails for the next 255 definitions of its index. All storage is taken at
/// construction.
class KeyTable {
 public:
  /// @param keys 1..kKeysMax  @param number 0..15
  KeyTable(uint32_t keys, uint8_t number, RandomSource& random);

  /// Takes the index that has been free longest and steps its instance; nothing when all are in use.
  [[nodiscard]] std::optional<uint32_t> take() noexcept;
  /// Gives an index back. Only for taken ones.
  void give_back(uint32_t index) noexcept;
  /// Steps the instance of a taken index: its present key becomes an old one.
  void renew(uint32_t index) noexcept;

  /// Present key of an index; never 0.
  [[nodiscard]] uint32_t key_of(uint32_t index) const noexcept;
  [[nodiscard]] uint8_t instance_of(uint32_t index) const noexcept { return instances_[index]; }
  /// Index and instance a key names; nothing for keys of other adapters and indices beyond the table. O(1).
  [[nodiscard]] std::optional<KeyParts> find(uint32_t key) const noexcept;
  [[nodiscard]] uint32_t free_count() const noexcept { return free_count_; }
  [[nodiscard]] uint32_t size() const noexcept { return static_cast<uint32_t>(instances_.size()); }

 private:
  void step(uint32_t index) noexcept;

  /// A few pools' keys make up almost all traffic: their inverse permutation is kept. Pure values, never
  /// stale.
  struct Remembered {
    uint32_t key = 0;
    uint32_t plain = 0;
  };
  static constexpr uint32_t kRememberedSlots = 16;

  KeyPermutation permutation_;
  uint32_t number_bits_;
  std::vector<uint8_t> instances_;
  std::vector<uint32_t> free_ring_;
  uint32_t free_head_ = 0;
  uint32_t free_count_ = 0;
  mutable std::array<Remembered, kRememberedSlots> remembered_{};
};

}  // namespace weft::adapter
