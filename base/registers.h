// base/registers.h -- a hint for values that travel through memory which was written a moment ago.
#pragma once

#include <concepts>

namespace weft {

/// The value, in a register of its own. A processor hands a store on to a load only when the one holds all
/// bytes of the other; a load that is wider than the store, or joins two of them, waits until every store
/// before it has left, those to another core's lines among them. The compiler widens and joins loads of what
/// it spilled or of neighbouring members; not of what has gone through this.
template <std::unsigned_integral T>
[[nodiscard, gnu::always_inline]] inline T in_register(T value) noexcept {
  asm("" : "+r"(value));
  return value;
}

}  // namespace weft
