// fabric/link/link_bells.h -- one bit per link: set when flits have arrived on the link or its state has
// changed. The owner of hundreds of links looks at the bits instead of polling every link.
#pragma once

#include <array>
#include <cstdint>

namespace weft::fabric {

/// Owner: the thread of the links. If another thread or process feeds a carrier, an acceptor watches it and
/// rings here (ShmAcceptor, ZmqAcceptor).
class LinkBells {
 public:
  static constexpr uint32_t kLinksMax = 256;
  using Bits = std::array<uint64_t, kLinksMax / 64>;
  void ring(uint32_t link) noexcept { rung_[link / 64] |= uint64_t{1} << (link % 64); }
  [[nodiscard]] bool any() const noexcept { return (rung_[0] | rung_[1] | rung_[2] | rung_[3]) != 0; }
  /// Returns and clears the bits set since the last call.
  [[nodiscard]] Bits take() noexcept {
    const Bits out = rung_;
    rung_ = {};
    return out;
  }

 private:
  Bits rung_{};
};

}  // namespace weft::fabric
