#include "adapter/memory/key_table.h"

#include "base/check.h"

namespace weft::adapter {

KeyTable::KeyTable(uint32_t keys, uint8_t number, RandomSource& random)
    : permutation_(random),
      random_(random),
      keys_(keys),
      number_bits_(static_cast<uint32_t>(number) << kPermutedBits),
      plain_of_zero_(permutation_.backward(0)) {
  WEFT_CHECK(keys >= 1 && keys <= kKeysMax, "key table size");
  WEFT_CHECK(number < 16, "adapter number has four bits");
  // Key 0 is looked up like any other: nothing remembered may claim to know it wrongly.
  remembered_[0].plain = plain_of_zero_;
}

std::optional<uint32_t> KeyTable::take() {
  if (free_count() == 0) return std::nullopt;
  uint32_t index = used_;
  if (used_ < keys_ && resting_ < kKeyIndicesResting) {
    if (used_ == slots_.size()) grow();
    ++used_;
  } else {
    index = oldest_;
    oldest_ = slots_[index].next;
    --resting_;
  }
  step(index);
  return index;
}

/// One more chunk, each instance at a random value.
void KeyTable::grow() {
  const uint32_t first = slots_.size();
  slots_.grow();
  uint64_t bits = 0;
  for (uint32_t index = first; index < slots_.size(); ++index, bits >>= 8) {
    if (index % sizeof bits == 0) bits = random_.next();
    slots_[index].instance = static_cast<uint8_t>(bits);
  }
}

void KeyTable::give_back(uint32_t index) noexcept {
  WEFT_DCHECK(resting_ < used_, "an index is given back twice");
  slots_[index].next = kNone;
  (resting_ == 0 ? oldest_ : slots_[newest_].next) = index;
  newest_ = index;
  ++resting_;
}

void KeyTable::renew(uint32_t index) noexcept {
  step(index);
}

void KeyTable::step(uint32_t index) noexcept {
  uint8_t& instance = slots_[index].instance;
  ++instance;
  // Key 0 means "none": the one pair that would give it is passed over.
  if (number_bits_ == 0 && ((index << kKeyInstanceBits) | instance) == plain_of_zero_) [[unlikely]]
    ++instance;
}

uint32_t KeyTable::key_of(uint32_t index) const noexcept {
  return number_bits_ | permutation_.forward((index << kKeyInstanceBits) | instance_of(index));
}

std::optional<KeyParts> KeyTable::find(uint32_t key) const noexcept {
  if ((key & ~kPermutedMask) != number_bits_) return std::nullopt;
  const uint32_t permuted = key & kPermutedMask;
  Remembered& slot = remembered_[permuted % kRememberedSlots];
  if (slot.key != permuted) slot = {permuted, permutation_.backward(permuted)};
  const uint32_t index = slot.plain >> kKeyInstanceBits;
  if (index >= used_) return std::nullopt;
  return KeyParts{index, static_cast<uint8_t>(slot.plain)};
}

}  // namespace weft::adapter
