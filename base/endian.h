// base/endian.h -- big-endian integers for wire structs. No implicit conversions: a byte swap is always
// visible in the code. Loads and stores compile to one move and one bswap.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace weft {

/// Byte-swaps on little-endian machines, identity on big-endian ones.
template <class T>
[[nodiscard]] constexpr T to_big(T value) noexcept {
  static_assert(std::is_unsigned_v<T>);
  if constexpr (std::endian::native == std::endian::big || sizeof(T) == 1) {
    return value;
  } else if constexpr (sizeof(T) == 2) {
    return __builtin_bswap16(value);
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bswap32(value);
  } else {
    return __builtin_bswap64(value);
  }
}

/// Reads a big-endian integer from any address.
template <class T>
[[nodiscard]] inline T load_be(const std::byte* from) noexcept {
  T raw;
  std::memcpy(&raw, from, sizeof raw);
  return to_big(raw);
}

/// Reads an unsigned integer as it lies in memory, once: later uses of the value never look at the
/// memory again, which another process may write at any time.
template <class T>
[[nodiscard]] inline T load_once(const std::byte* from) noexcept {
  static_assert(std::is_unsigned_v<T>);
  T raw;
  std::memcpy(&raw, from, sizeof raw);
  // The compiler must assume that the value comes from here, so it cannot read the memory a second time.
  asm("" : "+r"(raw));
  return raw;
}
template <class T>
[[nodiscard]] inline T load_be_once(const std::byte* from) noexcept {
  return to_big(load_once<T>(from));
}

/// Writes a big-endian integer to any address.
template <class T>
inline void store_be(std::byte* to, T value) noexcept {
  const T raw = to_big(value);
  std::memcpy(to, &raw, sizeof raw);
}

/// An unsigned integer held in network byte order; alignment 1, so it may sit at any offset of a wire struct.
template <class T>
class BigEndian {
 public:
  BigEndian() = default;
  explicit BigEndian(T value) noexcept { store_be(bytes_, value); }
  [[nodiscard]] T get() const noexcept { return load_be<T>(bytes_); }
  void set(T value) noexcept { store_be(bytes_, value); }
  friend bool operator==(const BigEndian&, const BigEndian&) = default;

 private:
  std::byte bytes_[sizeof(T)]{};
};

using Be16 = BigEndian<uint16_t>;
using Be32 = BigEndian<uint32_t>;
using Be64 = BigEndian<uint64_t>;

}  // namespace weft
