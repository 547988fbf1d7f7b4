// base/sip_hash.h -- SipHash: a keyed hash whose results cannot be predicted without the key, even from many
// known results.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>

namespace weft {

using SipKey = std::array<uint64_t, 2>;

/// The state of an unfinished hash.
struct SipState {
  uint64_t a, b, c, d;

  [[nodiscard]] static constexpr SipState with(const SipKey& key) noexcept {
    return {key[0] ^ 0x736f6d6570736575ULL, key[1] ^ 0x646f72616e646f6dULL, key[0] ^ 0x6c7967656e657261ULL,
            key[1] ^ 0x7465646279746573ULL};
  }
  constexpr void round() noexcept {
    a += b;
    c += d;
    b = std::rotl(b, 13) ^ a;
    d = std::rotl(d, 16) ^ c;
    a = std::rotl(a, 32);
    c += b;
    a += d;
    b = std::rotl(b, 17) ^ c;
    d = std::rotl(d, 21) ^ a;
    c = std::rotl(c, 32);
  }
};

/// SipHash-2-4 of whole words.
[[nodiscard]] constexpr uint64_t sip_hash(const SipKey& key, std::span<const uint64_t> words) noexcept {
  SipState state = SipState::with(key);
  const auto take_in = [&](uint64_t word) {
    state.d ^= word;
    state.round();
    state.round();
    state.a ^= word;
  };
  for (const uint64_t word : words) take_in(word);
  take_in(static_cast<uint64_t>(words.size()) * sizeof(uint64_t) << 56);
  state.c ^= 0xff;
  for (int i = 0; i < 4; ++i) state.round();
  return state.a ^ state.b ^ state.c ^ state.d;
}

}  // namespace weft
