#include "adapter/memory/key_table.h"

#include <utility>

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
  // Key 0 is looked up like any other key, so the remembered entry for it must be correct.
  remembered_[0].plain = plain_of_zero_;
  slots_.expect(keys);
}

std::optional<uint32_t> KeyTable::take() {
  if (free_count() == 0) return std::nullopt;
  const uint32_t index = next();
  if (next_is_new()) {
    if (used_ == slots_.size()) grow();
    ++used_;
  } else {
    oldest_ = slots_[index].next;
    --resting_;
  }
  step(index);
  return index;
}

/// Adds a chunk; each instance starts at a random value.
void KeyTable::grow() {
  const uint32_t first = slots_.size();
  slots_.grow(room_.slots != nullptr ? std::move(room_.slots) : ChunkedTable<Slot>::make());
  uint64_t bits = 0;
  for (uint32_t index = first; index < slots_.size(); ++index, bits >>= 8) {
    if (index % sizeof bits == 0) bits = random_.next();
    slots_[index].instance = slots_[index].promised = static_cast<uint8_t>(bits);
  }
}

void KeyTable::give_back(uint32_t index) noexcept {
  WEFT_DCHECK(resting_ < used_, "an index is given back twice");
  if (std::exchange(slots_[index].has_block, false)) blocks_.erase(slots_[index].next >> kKeyInstanceBits);
  slots_[index].next = kNone;
  (resting_ == 0 ? oldest_ : slots_[newest_].next) = index;
  newest_ = index;
  ++resting_;
}

void KeyTable::renew(uint32_t index) noexcept {
  step(index);
}

void KeyTable::step(uint32_t index) noexcept {
  Slot& slot = slots_[index];
  slot.instance = slot.promised = after(index, slot.promised);
}

uint8_t KeyTable::after(uint32_t index, uint8_t instance) const noexcept {
  // Key 0 means "none", and a key within a block belongs to the block's index: such pairs are skipped. There
  // are few blocks.
  for (uint32_t tries = 0; tries <= 0xFF; ++tries) {
    const uint32_t plain = (index << kKeyInstanceBits) | ++instance;
    if (number_bits_ == 0 && plain == plain_of_zero_) [[unlikely]]
      continue;
    if (blocks_.size() == 0) break;
    if (blocks_.owner(permutation_.forward(plain) >> kKeyInstanceBits) == KeyBlocks::kNobody) break;
  }
  return instance;
}

uint32_t KeyTable::promise(uint32_t index) noexcept {
  Slot& slot = slots_[index];
  const uint8_t next = after(index, slot.promised);
  if (promised({index, next})) return 0;  // all instances are promised
  slot.promised = next;
  return number_bits_ | permutation_.forward((index << kKeyInstanceBits) | slot.promised);
}

bool KeyTable::block_is_free(uint32_t block) const noexcept {
  if (block == 0 || blocks_.owner(block) != KeyBlocks::kNobody) return false;  // key 0 means "none"
  for (uint32_t low = 0; low <= 0xFF; ++low) {
    const uint32_t plain = permutation_.backward((block << kKeyInstanceBits) | low);
    const uint32_t index = plain >> kKeyInstanceBits;
    if (index < used_ && !slots_[index].has_block && promised({index, static_cast<uint8_t>(plain)}))
      return false;
  }
  return true;
}

bool KeyTable::take_block(uint32_t index) {
  if (blocks_.size() >= kKeyBlocksMax) return false;
  for (uint32_t tries = 0; tries < kKeyBlockTries; ++tries) {
    const uint64_t random = random_.next();
    const auto block = static_cast<uint32_t>(random) & (kPermutedMask >> kKeyInstanceBits);
    if (!block_is_free(block)) continue;
    blocks_.put(block, index, room_.blocks);
    Slot& slot = slots_[index];
    slot.next = block << kKeyInstanceBits;
    slot.has_block = true;
    slot.instance = static_cast<uint8_t>(random >> 32);  // permuted keys continue behind `promised`
    return true;
  }
  return false;
}

std::optional<KeyParts> KeyTable::find_chosen(uint32_t key) const noexcept {
  if (blocks_.size() == 0 || (key & ~kPermutedMask) != number_bits_) return std::nullopt;
  const uint32_t index = blocks_.owner((key & kPermutedMask) >> kKeyInstanceBits);
  if (index == KeyBlocks::kNobody) return std::nullopt;
  return KeyParts{index, static_cast<uint8_t>(key)};
}

uint32_t KeyTable::key_of(uint32_t index) const noexcept {
  const Slot& slot = slots_[index];
  if (slot.has_block) return number_bits_ | slot.next | slot.instance;
  return number_bits_ | permutation_.forward((index << kKeyInstanceBits) | slot.instance);
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
