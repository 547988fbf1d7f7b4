// How it works: the CPU's crc32 instruction takes 8 bytes with a latency of three cycles and starts one per
// cycle, so one dependent chain wastes two thirds of it. Inputs of kThreeChainsBytesMin and more are cut into
// three equal lanes hashed side by side. A lane's state moves past the lanes behind it by a multiplication
// with x^(8 n) modulo the polynomial: one carry-less multiplication by a constant, reduced by one more crc32
// instruction. That instruction multiplies by x^32 and the bit-reflected product by x, so the constants are
// x^(8 n - 33); there is one per lane length, made by the compiler. crc32c_copy() is the same loop with a
// store beside each load.
//
// Inputs of crc32c_wide::kBytesMin and more are taken in larger pieces where the CPU can (crc32c_wide.cc).
//
// The instruction belongs to both baselines of the build (x86-64-v2, armv8-a+crc). Carry-less multiplication
// does not, so the program tests for it at start; without it there is one chain. Other machines use a table.
#include "base/crc32c.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/crc32c_polynomial.h"
#include "base/crc32c_wide.h"

#if defined(__x86_64__) && defined(__SSE4_2__)
#define WEFT_CRC_INSTRUCTION 1
#define WEFT_CRC_THREE_CHAINS 1
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#define WEFT_CRC_INSTRUCTION 1
#include <arm_acle.h>
#endif

namespace weft {
namespace {

using crc32c_polynomial::kOne;
using crc32c_polynomial::multiply;
using crc32c_polynomial::times_x;

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = times_x(value);
    table[i] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

/// kPowers[i] = x^(8 * 2^i): moves a CRC past 2^i bytes.
constexpr std::array<uint32_t, 64> make_powers() {
  std::array<uint32_t, 64> powers{};
  uint32_t power = kOne >> 8;
  for (uint32_t& entry : powers) {
    entry = power;
    power = multiply(power, power);
  }
  return powers;
}
constexpr std::array<uint32_t, 64> kPowers = make_powers();

#if defined(WEFT_CRC_INSTRUCTION)

template <class Word>
[[gnu::always_inline]] inline Word load(const unsigned char* at) noexcept {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

template <bool kCopy, class Word>
[[gnu::always_inline]] inline void keep([[maybe_unused]] unsigned char* to, [[maybe_unused]] size_t at,
                                        [[maybe_unused]] Word word) noexcept {
  if constexpr (kCopy) std::memcpy(to + at, &word, sizeof word);
}

#if defined(WEFT_CRC_THREE_CHAINS)
uint32_t step(uint32_t state, uint64_t word) noexcept {
  return static_cast<uint32_t>(_mm_crc32_u64(state, word));
}
uint32_t step(uint32_t state, uint32_t word) noexcept {
  return _mm_crc32_u32(state, word);
}
uint32_t step(uint32_t state, uint16_t word) noexcept {
  return _mm_crc32_u16(state, word);
}
uint32_t step(uint32_t state, uint8_t word) noexcept {
  return _mm_crc32_u8(state, word);
}
#else
uint32_t step(uint32_t state, uint64_t word) noexcept {
  return __crc32cd(state, word);
}
uint32_t step(uint32_t state, uint32_t word) noexcept {
  return __crc32cw(state, word);
}
uint32_t step(uint32_t state, uint16_t word) noexcept {
  return __crc32ch(state, word);
}
uint32_t step(uint32_t state, uint8_t word) noexcept {
  return __crc32cb(state, word);
}
#endif

/// One dependent chain. `state` is a CRC without its final inversion, here and below; `to` counts with kCopy
/// only.
template <bool kCopy>
inline uint32_t one_chain(uint32_t state, unsigned char* to, const unsigned char* from,
                          size_t bytes) noexcept {
  size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    const auto word = load<uint64_t>(from + at);
    keep<kCopy>(to, at, word);
    state = step(state, word);
  }
  if ((bytes & 4) != 0) {
    const auto word = load<uint32_t>(from + at);
    keep<kCopy>(to, at, word);
    state = step(state, word);
    at += 4;
  }
  if ((bytes & 2) != 0) {
    const auto word = load<uint16_t>(from + at);
    keep<kCopy>(to, at, word);
    state = step(state, word);
    at += 2;
  }
  if ((bytes & 1) != 0) {
    const auto word = load<uint8_t>(from + at);
    keep<kCopy>(to, at, word);
    state = step(state, word);
  }
  return state;
}

#endif

#if defined(WEFT_CRC_THREE_CHAINS)

/// Below this the two multiplications at the end cost more than the shorter chains save (bench/crc_speed).
constexpr size_t kThreeChainsBytesMin = 72;
/// Words per lane at most: 3 KiB at once, so that an ordinary cell is one round.
constexpr size_t kLaneWordsMax = 128;

/// kLaneFactors[w] = x^(64 w - 33), w = 1 .. 2 kLaneWordsMax.
constexpr std::array<uint32_t, 2 * kLaneWordsMax + 1> make_lane_factors() {
  std::array<uint32_t, 2 * kLaneWordsMax + 1> factors{};
  uint32_t factor = 1;  // x^31
  for (size_t i = 1; i < factors.size(); ++i) {
    factors[i] = factor;
    factor = multiply(factor, kPowers[3]);
  }
  return factors;
}
constexpr std::array<uint32_t, 2 * kLaneWordsMax + 1> kLaneFactors = make_lane_factors();

/// The unreduced product of a state and a lane factor.
[[gnu::target("pclmul")]] inline uint64_t advance(uint32_t state, size_t words) noexcept {
  const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi32_si128(static_cast<int>(state)),
                                               _mm_cvtsi32_si128(static_cast<int>(kLaneFactors[words])), 0);
  return static_cast<uint64_t>(_mm_cvtsi128_si64(product));
}

/// Three lanes of `words` words each.
template <bool kCopy>
[[gnu::target("pclmul")]] inline uint32_t three_lanes(uint32_t state, unsigned char* to,
                                                      const unsigned char* from, size_t words) noexcept {
  const size_t lane = words * 8;
  uint64_t a = state;
  uint64_t b = 0;
  uint64_t c = 0;
  for (size_t at = 0; at < lane; at += 8) {
    const auto word_a = load<uint64_t>(from + at);
    const auto word_b = load<uint64_t>(from + lane + at);
    const auto word_c = load<uint64_t>(from + 2 * lane + at);
    keep<kCopy>(to, at, word_a);
    keep<kCopy>(to, lane + at, word_b);
    keep<kCopy>(to, 2 * lane + at, word_c);
    a = _mm_crc32_u64(a, word_a);
    b = _mm_crc32_u64(b, word_b);
    c = _mm_crc32_u64(c, word_c);
  }
  const uint64_t moved =
      advance(static_cast<uint32_t>(a), 2 * words) ^ advance(static_cast<uint32_t>(b), words);
  return static_cast<uint32_t>(_mm_crc32_u64(0, moved) ^ c);
}

/// Of a CRC, not of a state, so that the calls to it are the last thing that their callers do.
template <bool kCopy>
[[gnu::target("pclmul"), gnu::noinline]] uint32_t three_chains(uint32_t crc, unsigned char* to,
                                                               const unsigned char* from,
                                                               size_t bytes) noexcept {
  uint32_t state = ~crc;
  do {
    const size_t words = std::min(bytes / 24, kLaneWordsMax);
    state = three_lanes<kCopy>(state, to, from, words);
    const size_t done = words * 24;
    from += done;
    if constexpr (kCopy) to += done;
    bytes -= done;
  } while (bytes >= kThreeChainsBytesMin);
  return ~one_chain<kCopy>(state, to, from, bytes);
}

// Until these are initialised they are false, which selects the slower but correct path.
const bool kHaveMultiply = __builtin_cpu_supports("pclmul") != 0;
const bool kHaveWide = crc32c_wide::supported();

#endif

template <bool kCopy>
inline uint32_t run_narrow(uint32_t crc, void* to, const void* from, size_t bytes) noexcept {
#if defined(WEFT_CRC_INSTRUCTION)
  auto* out = static_cast<unsigned char*>(to);
  const auto* in = static_cast<const unsigned char*>(from);
#if defined(WEFT_CRC_THREE_CHAINS)
  if (bytes >= kThreeChainsBytesMin && kHaveMultiply) return three_chains<kCopy>(crc, out, in, bytes);
#endif
  return ~one_chain<kCopy>(~crc, out, in, bytes);
#else
  if constexpr (kCopy) {
    if (bytes != 0) std::memcpy(to, from, bytes);
    from = to;
  }
  return crc32c_extend_table(crc, from, bytes);
#endif
}

#if defined(WEFT_CRC_WIDE)
template <bool kCopy>
[[gnu::noinline]] uint32_t run_wide(uint32_t crc, void* to, const void* from, size_t bytes) noexcept {
  auto* out = static_cast<unsigned char*>(to);
  const auto* in = static_cast<const unsigned char*>(from);
  const size_t blocks = bytes - bytes % crc32c_wide::kBlockBytes;
  uint32_t state = ~crc;
  if constexpr (kCopy) {
    state = crc32c_wide::copy(state, out, in, blocks);
    out += blocks;
  } else {
    state = crc32c_wide::extend(state, in, blocks);
  }
  return ~one_chain<kCopy>(state, out, in + blocks, bytes - blocks);
}
#endif

template <bool kCopy>
inline uint32_t run(uint32_t crc, void* to, const void* from, size_t bytes) noexcept {
#if defined(WEFT_CRC_WIDE)
  if (bytes >= crc32c_wide::kBytesMin && kHaveWide) return run_wide<kCopy>(crc, to, from, bytes);
#endif
  return run_narrow<kCopy>(crc, to, from, bytes);
}

}  // namespace

uint32_t crc32c_extend_table(uint32_t crc, const void* data, size_t bytes) noexcept {
  const auto* at = static_cast<const unsigned char*>(data);
  uint32_t state = ~crc;
  for (; bytes > 0; --bytes, ++at) state = kTable[(state ^ *at) & 0xff] ^ (state >> 8);
  return ~state;
}

uint32_t crc32c_extend(uint32_t crc, const void* data, size_t bytes) noexcept {
  return run<false>(crc, nullptr, data, bytes);
}

uint32_t crc32c_copy(uint32_t crc, void* to, const void* from, size_t bytes) noexcept {
  return run<true>(crc, to, from, bytes);
}

uint32_t crc32c_copy_narrow(uint32_t crc, void* to, const void* from, size_t bytes) noexcept {
  return run_narrow<true>(crc, to, from, bytes);
}

uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b) noexcept {
  for (size_t i = 0; bytes_b != 0; bytes_b >>= 1, ++i) {
    if ((bytes_b & 1) != 0) crc_a = multiply(kPowers[i], crc_a);
  }
  return crc_a ^ crc_b;
}

}  // namespace weft
