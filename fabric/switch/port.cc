#include "fabric/switch/port.h"

#include <bit>

namespace weft::fabric {

PortNumber PortSet::after(PortNumber port) const noexcept {
  constexpr uint32_t kWords = kPortsMax / 64;
  const uint32_t start = port / 64;
  const uint32_t bit = port % 64;
  const uint64_t above = bit == 63 ? 0 : words_[start] >> (bit + 1) << (bit + 1);
  if (above != 0) return static_cast<PortNumber>(start * 64 + static_cast<uint32_t>(std::countr_zero(above)));
  for (uint32_t step = 1; step <= kWords; ++step) {
    const uint32_t word = (start + step) % kWords;
    if (words_[word] == 0) continue;
    return static_cast<PortNumber>(word * 64 + static_cast<uint32_t>(std::countr_zero(words_[word])));
  }
  return kPortNone;
}

}  // namespace weft::fabric
