#include "adapter/memory/key_table.h"

#include <numeric>

#include "base/check.h"

namespace weft::adapter {

KeyTable::KeyTable(uint32_t keys, uint8_t number, RandomSource& random)
    : permutation_(random),
      number_bits_(static_cast<uint32_t>(number) << kPermutedBits),
      instances_(keys),
      free_ring_(keys),
      free_count_(keys) {
  WEFT_CHECK(keys >= 1 && keys <= kKeysMax, "key table size");
  WEFT_CHECK(number < 16, "adapter number has four bits");
  for (uint8_t& instance : instances_) instance = static_cast<uint8_t>(random.next());
  std::iota(free_ring_.begin(), free_ring_.end(), 0U);
  // Key 0 is looked up like any other: nothing remembered may claim to know it wrongly.
  for (Remembered& slot : remembered_) slot.plain = permutation_.backward(0);
}

std::optional<uint32_t> KeyTable::take() noexcept {
  if (free_count_ == 0) return std::nullopt;
  const uint32_t index = free_ring_[free_head_];
  free_head_ = free_head_ + 1 == size() ? 0 : free_head_ + 1;
  --free_count_;
  step(index);
  return index;
}

void KeyTable::give_back(uint32_t index) noexcept {
  WEFT_DCHECK(free_count_ < size(), "an index is given back twice");
  const uint32_t tail = free_head_ + free_count_;
  free_ring_[tail < size() ? tail : tail - size()] = index;
  ++free_count_;
}

void KeyTable::renew(uint32_t index) noexcept {
  step(index);
}

void KeyTable::step(uint32_t index) noexcept {
  ++instances_[index];
  // Key 0 means "none": the one pair that would give it is passed over.
  if (key_of(index) == 0) [[unlikely]]
    ++instances_[index];
}

uint32_t KeyTable::key_of(uint32_t index) const noexcept {
  return number_bits_ | permutation_.forward((index << kKeyInstanceBits) | instances_[index]);
}

std::optional<KeyParts> KeyTable::find(uint32_t key) const noexcept {
  if ((key & ~kPermutedMask) != number_bits_) return std::nullopt;
  const uint32_t permuted = key & kPermutedMask;
  Remembered& slot = remembered_[permuted % kRememberedSlots];
  if (slot.key != permuted) slot = {permuted, permutation_.backward(permuted)};
  const uint32_t index = slot.plain >> kKeyInstanceBits;
  if (index >= size()) return std::nullopt;
  return KeyParts{index, static_cast<uint8_t>(slot.plain)};
}

}  // namespace weft::adapter
