// How it works: a Feistel network is a bijection for any round function, and unpredictable if the round
// function is. Ours is SipHash reduced to one block of fixed size: one round to take the block in, two to
// finish. With six Feistel rounds over this small domain, a peer that sees a few thousand of its own keys has
// no shortcut. A mixer of multiplications and xorshifts would be faster, but could be solved from those keys
// (decisions section 4).
#include "adapter/memory/key_permutation.h"

#include "base/sip_hash.h"

namespace weft::adapter {
namespace {

constexpr uint32_t kRounds = 6;
constexpr uint32_t kHalfBits = kPermutedBits / 2;
constexpr uint32_t kHalfMask = (1U << kHalfBits) - 1;
static_assert(2 * kHalfBits == kPermutedBits);

}  // namespace

KeyPermutation::KeyPermutation(RandomSource& random) noexcept {
  const uint64_t secret_low = random.next();
  const uint64_t secret_high = random.next();
  const SipState start = SipState::with({secret_low, secret_high});
  start_ = {start.a, start.b, start.c, start.d};
}

uint32_t KeyPermutation::mix(uint32_t round, uint32_t half) const noexcept {
  const uint64_t block = (static_cast<uint64_t>(round) << 32) | half;
  SipState state{start_[0], start_[1], start_[2], start_[3]};
  state.d ^= block;
  state.round();
  state.a ^= block;
  state.c ^= 0xff;
  state.round();
  state.round();
  return static_cast<uint32_t>(state.a ^ state.b ^ state.c ^ state.d) & kHalfMask;
}

uint32_t KeyPermutation::forward(uint32_t plain) const noexcept {
  uint32_t left = (plain >> kHalfBits) & kHalfMask;
  uint32_t right = plain & kHalfMask;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const uint32_t next = left ^ mix(round, right);
    left = right;
    right = next;
  }
  return (left << kHalfBits) | right;
}

uint32_t KeyPermutation::backward(uint32_t permuted) const noexcept {
  uint32_t left = (permuted >> kHalfBits) & kHalfMask;
  uint32_t right = permuted & kHalfMask;
  for (uint32_t round = kRounds; round-- > 0;) {
    const uint32_t previous = right ^ mix(round, left);
    right = left;
    left = previous;
  }
  return (left << kHalfBits) | right;
}

}  // namespace weft::adapter
