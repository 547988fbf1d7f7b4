// adapter/port.h -- a port of an adapter: its link, its loopback, and what the subnet calls it. The handshake
// of the link says that at first; LID, LMC, state and service lanes may change while the link is up. QPs make
// their paths anew when generation() has stepped.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "adapter/verbs.h"
#include "base/clock.h"
#include "fabric/link/cell_port.h"
#include "messages/cell.h"

namespace weft::adapter {

/// Numbers as enum ibv_port_state. Only an active port carries cells; its loopback does as soon as it has a
/// LID.
enum class PortState : uint8_t { kDown = 1, kInit = 2, kArmed = 3, kActive = 4 };

/// The lane of each service level.
using ServiceLanes = std::array<VirtualLane, kVlCount>;
/// Data lanes in turn (decisions 1.15).
[[nodiscard]] ServiceLanes lanes_in_turn(uint32_t lanes) noexcept;

/// A LID stands for 2^7 LIDs at most.
inline constexpr uint8_t kLmcMax = 7;

/// Owner: the adapter.
class AdapterPort {
 public:
  /// @param link      outlives the port
  /// @param loopback  to QPs of this port (SAN-QP-03)
  /// @param number    1, 2, ...
  AdapterPort(fabric::CellPort& link, std::unique_ptr<fabric::CellPort> loopback, uint8_t number) noexcept
      : link_(&link), loopback_(std::move(loopback)), number_(number) {}

  [[nodiscard]] fabric::CellPort& link() const noexcept { return *link_; }
  [[nodiscard]] fabric::CellPort& loopback() const noexcept { return *loopback_; }
  /// Where cells to `dlid` leave.
  [[nodiscard]] fabric::CellPort& way_to(Lid dlid) const noexcept { return has(dlid) ? *loopback_ : *link_; }
  [[nodiscard]] uint8_t number() const noexcept { return number_; }
  /// Valid once known().
  [[nodiscard]] const fabric::CellPortInfo& info() const noexcept { return info_; }
  [[nodiscard]] Lid lid() const noexcept { return info_.lid; }
  [[nodiscard]] uint8_t lmc() const noexcept { return lmc_; }
  /// One of the LIDs of this port: they have all bits in common but the LMC lowest.
  [[nodiscard]] bool has(Lid lid) const noexcept {
    return ((lid.value() ^ info_.lid.value()) & lid_mask_) == 0;
  }
  [[nodiscard]] PortState state() const noexcept { return state_; }
  [[nodiscard]] bool up() const noexcept { return state_ == PortState::kActive; }
  /// The link was up once.
  [[nodiscard]] bool known() const noexcept { return known_; }
  [[nodiscard]] VirtualLane lane_of(ServiceLevel sl) const noexcept { return lanes_[sl.value() % kVlCount]; }
  /// Partitions; 0: no entry.
  [[nodiscard]] std::span<const uint16_t, kPkeysPerPort> pkeys() const noexcept { return pkeys_; }

  /// Steps each time that paths over this port are others.
  [[nodiscard]] uint32_t generation() const noexcept { return generation_; }
  /// Another number each time that its QPs have to be told of something: it came up, changed, or has expired.
  [[nodiscard]] uint32_t change() const noexcept { return generation_ * 2 + (expired_ ? 1 : 0); }
  /// The link is up, and was not when came_up() was called last: another one, or the same again.
  [[nodiscard]] bool has_news() const noexcept { return !linked_ || link_->incarnation() != incarnation_; }
  [[nodiscard]] bool linked() const noexcept { return linked_; }
  /// The port was down for so long that its QPs have failed.
  [[nodiscard]] bool expired() const noexcept { return expired_; }
  /// When a port that is down expires; never while its link is up.
  [[nodiscard]] Instant expires_at() const noexcept;

  /// What has changed when the link came up.
  struct News {
    bool lid = false;
    bool gid = false;
    bool link = false;  // another one than before
  };
  /// The link is up: the port is what its handshake says, and active.
  News came_up() noexcept;
  void went_down(Instant now) noexcept;
  void expire() noexcept { expired_ = true; }

  // While the link is up. Names and lanes of an earlier link go with it.
  /// Another base LID, and how many of its low bits are free.
  void set_lid(Lid base, uint8_t lmc) noexcept;
  void set_state(PortState state) noexcept;
  void set_lanes(const ServiceLanes& lanes) noexcept;
  /// Entries that are not named are empty. At most kPkeysPerPort.
  void set_pkeys(std::span<const uint16_t> pkeys) noexcept;

 private:
  fabric::CellPort* link_;
  std::unique_ptr<fabric::CellPort> loopback_;
  uint8_t number_;
  uint8_t lmc_ = 0;
  uint16_t lid_mask_ = 0xFFFF;  // bits that all its LIDs have in common
  PortState state_ = PortState::kDown;
  bool linked_ = false;
  bool known_ = false;
  bool expired_ = false;  // QPs on it have been failed
  uint32_t generation_ = 0;
  uint64_t incarnation_ = 0;
  fabric::CellPortInfo info_{};
  ServiceLanes lanes_{};
  Instant down_since_{};
  std::array<uint16_t, kPkeysPerPort> pkeys_{kPkeyDefault};
};

}  // namespace weft::adapter
