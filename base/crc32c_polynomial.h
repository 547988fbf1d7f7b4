// base/crc32c_polynomial.h -- arithmetic modulo the polynomial of CRC32C, for constants that the compiler
// makes. For base/crc32c*.cc only.
#pragma once

#include <cstdint>

namespace weft::crc32c_polynomial {

inline constexpr uint32_t kPolynomial = 0x82f63b78;  // Castagnoli, reflected: bit 31 is x^0
inline constexpr uint32_t kOne = 0x8000'0000;

/// Product with x.
constexpr uint32_t times_x(uint32_t a) noexcept {
  return (a >> 1) ^ ((a & 1) != 0 ? kPolynomial : 0);
}

/// Product of two reflected polynomials.
constexpr uint32_t multiply(uint32_t a, uint32_t b) noexcept {
  uint32_t product = 0;
  for (; a != 0; a <<= 1) {
    if ((a & kOne) != 0) product ^= b;
    b = times_x(b);
  }
  return product;
}

/// x^n.
constexpr uint32_t power_of_x(uint32_t n) noexcept {
  uint32_t power = kOne;
  for (; n != 0; --n) power = times_x(power);
  return power;
}

}  // namespace weft::crc32c_polynomial
