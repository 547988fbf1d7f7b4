// How it works: four registers of four pieces each move 256 bytes on per round. A piece L:H, L at the lower
// address, moves D bits on as L x^(64 + D) + H x^D. The reflected product comes with one x too many, so the
// factors are x^(63 + D) and x^(D - 1). The registers are joined into one, its pieces into one of 16 bytes,
// and that is hashed by the crc32 instruction.
#include "base/crc32c_wide.h"

#if defined(WEFT_CRC_WIDE)

#include <immintrin.h>

#include <array>

#include "base/crc32c_polynomial.h"

namespace weft::crc32c_wide {
namespace {

using crc32c_polynomial::power_of_x;

/// Factors that move a 128-bit piece `bits` on: for its lower half, which comes first, and its upper.
struct FoldFactors {
  uint64_t lower;
  uint64_t upper;
};
constexpr FoldFactors fold_factors(uint32_t bits) noexcept {
  return {uint64_t{power_of_x(63 + bits)} << 32, uint64_t{power_of_x(bits - 1)} << 32};
}

#define WEFT_WIDE [[gnu::target("avx512f,vpclmulqdq,pclmul,sse4.2")]]

constexpr size_t kRoundBytes = 4 * kBlockBytes;
static_assert(kBytesMin >= kRoundBytes);
constexpr FoldFactors kRoundFactors = fold_factors(8 * kRoundBytes);
constexpr FoldFactors kBlockFactors = fold_factors(8 * kBlockBytes);
/// For the four pieces of a register: each is moved to the position of the last one.
constexpr std::array<FoldFactors, 3> kPieceFactors{fold_factors(384), fold_factors(256), fold_factors(128)};

WEFT_WIDE inline __m512i everywhere(const FoldFactors& factors) noexcept {
  const auto lower = static_cast<long long>(factors.lower);
  const auto upper = static_cast<long long>(factors.upper);
  return _mm512_set_epi64(upper, lower, upper, lower, upper, lower, upper, lower);
}

/// Moves four pieces on by `factors` and XORs them with `there`.
WEFT_WIDE inline __m512i fold(__m512i pieces, __m512i factors, __m512i there) noexcept {
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(pieces, factors, 0x00),
                                   _mm512_clmulepi64_epi128(pieces, factors, 0x11), there, kXorOfThree);
}

/// The block at `at`.
template <bool kCopy>
WEFT_WIDE inline __m512i next(unsigned char* to, const unsigned char* from, size_t at) noexcept {
  const __m512i bytes = _mm512_loadu_si512(from + at);
  if constexpr (kCopy) _mm512_storeu_si512(to + at, bytes);
  return bytes;
}

/// The CRC state of a folded block.
WEFT_WIDE inline uint32_t reduce(__m512i pieces) noexcept {
  const auto& [first, second, third] = kPieceFactors;
  const __m512i factors =
      _mm512_set_epi64(0, 0, static_cast<long long>(third.upper), static_cast<long long>(third.lower),
                       static_cast<long long>(second.upper), static_cast<long long>(second.lower),
                       static_cast<long long>(first.upper), static_cast<long long>(first.lower));
  const __m512i last_only = _mm512_maskz_mov_epi64(0xc0, pieces);
  const __m512i moved = fold(pieces, factors, last_only);
  alignas(64) std::array<uint64_t, 8> words;
  _mm512_store_si512(words.data(), moved);
  const uint64_t lower = words[0] ^ words[2] ^ words[4] ^ words[6];
  const uint64_t upper = words[1] ^ words[3] ^ words[5] ^ words[7];
  return static_cast<uint32_t>(_mm_crc32_u64(_mm_crc32_u64(0, lower), upper));
}

template <bool kCopy>
WEFT_WIDE uint32_t run(uint32_t state, unsigned char* to, const unsigned char* from, size_t bytes) noexcept {
  const __m512i start = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state)));
  __m512i a = _mm512_xor_si512(next<kCopy>(to, from, 0), start);
  __m512i b = next<kCopy>(to, from, kBlockBytes);
  __m512i c = next<kCopy>(to, from, 2 * kBlockBytes);
  __m512i d = next<kCopy>(to, from, 3 * kBlockBytes);
  size_t at = kRoundBytes;
  const __m512i round = everywhere(kRoundFactors);
  for (; at + kRoundBytes <= bytes; at += kRoundBytes) {
    a = fold(a, round, next<kCopy>(to, from, at));
    b = fold(b, round, next<kCopy>(to, from, at + kBlockBytes));
    c = fold(c, round, next<kCopy>(to, from, at + 2 * kBlockBytes));
    d = fold(d, round, next<kCopy>(to, from, at + 3 * kBlockBytes));
  }
  const __m512i block = everywhere(kBlockFactors);
  d = fold(fold(fold(a, block, b), block, c), block, d);
  for (; at < bytes; at += kBlockBytes) d = fold(d, block, next<kCopy>(to, from, at));
  return reduce(d);
}

}  // namespace

bool supported() noexcept {
  return __builtin_cpu_supports("vpclmulqdq") != 0 && __builtin_cpu_supports("avx512f") != 0;
}

uint32_t extend(uint32_t state, const unsigned char* from, size_t bytes) noexcept {
  return run<false>(state, nullptr, from, bytes);
}

uint32_t copy(uint32_t state, unsigned char* to, const unsigned char* from, size_t bytes) noexcept {
  return run<true>(state, to, from, bytes);
}

}  // namespace weft::crc32c_wide

#endif
