// How it works: the CPU's crc32 instruction works on 8 bytes with a latency of three cycles, so short inputs
// use one dependent chain. Chosen once, at the first call; the table version is the reference and the
// fallback.
#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace weft {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // Castagnoli, reflected

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
    table[i] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

#if defined(__x86_64__)
bool have_instruction() noexcept {
  return __builtin_cpu_supports("sse4.2") != 0;
}

[[gnu::target("sse4.2")]] uint32_t extend_instruction(uint32_t crc, const void* data, size_t bytes) noexcept {
  const auto* at = static_cast<const unsigned char*>(data);
  uint64_t state = ~crc;
  for (; bytes >= 8; bytes -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    state = _mm_crc32_u64(state, word);
  }
  auto narrow = static_cast<uint32_t>(state);
  for (; bytes > 0; --bytes, ++at) narrow = _mm_crc32_u8(narrow, *at);
  return ~narrow;
}
#elif defined(__aarch64__)
bool have_instruction() noexcept {
  return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}

[[gnu::target("+crc")]] uint32_t extend_instruction(uint32_t crc, const void* data, size_t bytes) noexcept {
  const auto* at = static_cast<const unsigned char*>(data);
  uint32_t state = ~crc;
  for (; bytes >= 8; bytes -= 8, at += 8) {
    uint64_t word;
    std::memcpy(&word, at, 8);
    state = __crc32cd(state, word);
  }
  for (; bytes > 0; --bytes, ++at) state = __crc32cb(state, *at);
  return ~state;
}
#else
bool have_instruction() noexcept {
  return false;
}
uint32_t extend_instruction(uint32_t crc, const void* data, size_t bytes) noexcept {
  return crc32c_extend_table(crc, data, bytes);
}
#endif

using ExtendFunction = uint32_t (*)(uint32_t, const void*, size_t) noexcept;
const ExtendFunction kExtend = have_instruction() ? extend_instruction : crc32c_extend_table;

/// 32x32 bit matrix over GF(2), column by column; used to advance a CRC over zero bytes.
using Matrix = std::array<uint32_t, 32>;

uint32_t times(const Matrix& matrix, uint32_t vector) noexcept {
  uint32_t sum = 0;
  for (size_t i = 0; vector != 0; vector >>= 1, ++i) {
    if ((vector & 1) != 0) sum ^= matrix[i];
  }
  return sum;
}

Matrix square(const Matrix& matrix) noexcept {
  Matrix out{};
  for (size_t i = 0; i < out.size(); ++i) out[i] = times(matrix, matrix[i]);
  return out;
}

}  // namespace

uint32_t crc32c_extend_table(uint32_t crc, const void* data, size_t bytes) noexcept {
  const auto* at = static_cast<const unsigned char*>(data);
  uint32_t state = ~crc;
  for (; bytes > 0; --bytes, ++at) state = kTable[(state ^ *at) & 0xff] ^ (state >> 8);
  return ~state;
}

uint32_t crc32c_extend(uint32_t crc, const void* data, size_t bytes) noexcept {
  return kExtend(crc, data, bytes);
}

uint32_t crc32c_copy(uint32_t crc, void* to, const void* from, size_t bytes) noexcept {
  if (bytes != 0) std::memcpy(to, from, bytes);
  return kExtend(crc, to, bytes);
}

uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t bytes_b) noexcept {
  Matrix step{};  // advances a CRC by one zero bit
  step[0] = kPolynomial;
  for (size_t i = 1; i < step.size(); ++i) step[i] = uint32_t{1} << (i - 1);
  step = square(square(square(step)));  // one byte
  for (; bytes_b != 0; bytes_b >>= 1) {
    if ((bytes_b & 1) != 0) crc_a = times(step, crc_a);
    step = square(step);
  }
  return crc_a ^ crc_b;
}

}  // namespace weft
