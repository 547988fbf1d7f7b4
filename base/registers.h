// base/registers.h -- a hint for values that are loaded from memory just after they were stored.
#pragma once

#include <concepts>

namespace weft {

/// The value, in a register of its own. A CPU forwards a store to a load only if the store holds all bytes of
/// the load. A load that is wider than the store, or spans two stores, waits until all earlier stores have
/// left the store buffer, also those to cache lines of another core. The compiler widens and joins loads of
/// spilled values and neighbouring members, but not of a value that passed through this function.
template <std::unsigned_integral T>
[[nodiscard, gnu::always_inline]] inline T in_register(T value) noexcept {
  asm("" : "+r"(value));
  return value;
}

}  // namespace weft
