// adapter/port.h -- a port of an adapter: its link, its loopback and its addresses. The link's handshake
// gives the first values. LID, LMC, state and service lanes may change while the link is up. QPs make their
// paths anew when generation() has stepped.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "adapter/verbs.h"
#include "base/clock.h"
#include "base/counters.h"
#include "fabric/link/cell_port.h"
#include "messages/cell.h"

namespace weft::adapter {

/// Numbers of enum ibv_port_state. Only an active port carries cells. Its loopback works as soon as the port
/// has a LID.
enum class PortState : uint8_t { kDown = 1, kInit = 2, kArmed = 3, kActive = 4 };

/// What has passed a port, and what it refused. The reasons of refusals are counted by the adapter
/// (AdapterCounter, CellError).
enum class AdapterPortCounter : uint8_t {
  kCellsSent,
  kCellsReceived,
  kCellsLooped,  // between two QPs of this port; they count as sent and as received, too
  kBytesSent,    // whole cells, headers included
  kBytesReceived,
  kBytesLooped,
  kBadCells,        // received: did not decode, or had no size of the link's cells
  kOtherPartition,  // received from another partition
  kDowns,           // the link went down
  kExpired,         // the port stayed down longer than QPs wait
  kCount,
};
[[nodiscard]] constexpr CounterNames<AdapterPortCounter> counter_labels(AdapterPortCounter /*of*/) noexcept {
  return {"cells_sent",   "cells_received", "cells_looped",    "bytes_sent", "bytes_received",
          "bytes_looped", "bad_cells",      "other_partition", "downs",      "expired"};
}

/// The lane of each service level.
using ServiceLanes = std::array<VirtualLane, kVlCount>;
/// Assigns the data lanes in turn (decisions 1.15).
[[nodiscard]] ServiceLanes lanes_in_turn(uint32_t lanes) noexcept;

/// A port has at most 2^7 LIDs.
inline constexpr uint8_t kLmcMax = 7;

/// Owner: the adapter.
class AdapterPort {
 public:
  /// @param link      must outlive the port
  /// @param loopback  to QPs of this port (SAN-QP-03)
  /// @param number    1, 2, ...
  /// @param nic       number of the NIC whose port it is
  AdapterPort(fabric::CellPort& link, std::unique_ptr<fabric::CellPort> loopback, uint8_t number,
              uint8_t nic = 0) noexcept
      : link_(&link), loopback_(std::move(loopback)), number_(number), nic_(nic) {}

  [[nodiscard]] fabric::CellPort& link() const noexcept { return *link_; }
  [[nodiscard]] fabric::CellPort& loopback() const noexcept { return *loopback_; }
  /// The carrier by which cells for `dlid` leave.
  [[nodiscard]] fabric::CellPort& way_to(Lid dlid) const noexcept { return has(dlid) ? *loopback_ : *link_; }
  [[nodiscard]] uint8_t number() const noexcept { return number_; }
  [[nodiscard]] uint8_t nic() const noexcept { return nic_; }
  /// Valid once known().
  [[nodiscard]] const fabric::CellPortInfo& info() const noexcept { return info_; }
  [[nodiscard]] Lid lid() const noexcept { return info_.lid; }
  [[nodiscard]] uint8_t lmc() const noexcept { return lmc_; }
  /// True for one of this port's LIDs: they differ only in the lowest LMC bits.
  [[nodiscard]] bool has(Lid lid) const noexcept {
    return ((lid.value() ^ info_.lid.value()) & lid_mask_) == 0;
  }
  [[nodiscard]] PortState state() const noexcept { return state_; }
  [[nodiscard]] bool up() const noexcept { return state_ == PortState::kActive; }
  /// The link has been up.
  [[nodiscard]] bool known() const noexcept { return known_; }
  [[nodiscard]] VirtualLane lane_of(ServiceLevel sl) const noexcept { return lanes_[sl.value() % kVlCount]; }
  /// P_Keys; 0: no entry.
  [[nodiscard]] std::span<const uint16_t, kPkeysPerPort> pkeys() const noexcept { return pkeys_; }

  /// Steps each time the paths over this port change.
  [[nodiscard]] uint32_t generation() const noexcept { return generation_; }
  /// Changes each time the port's QPs must be informed: the port came up, changed, or has expired.
  [[nodiscard]] uint32_t change() const noexcept { return generation_ + expiries_; }
  /// True when the link is up, and is a link for which came_up() was not called yet.
  [[nodiscard]] bool has_news() const noexcept { return !linked_ || link_->incarnation() != incarnation_; }
  [[nodiscard]] bool linked() const noexcept { return linked_; }
  /// The port stayed down until it expired, and its QPs have failed.
  [[nodiscard]] bool expired() const noexcept { return expired_; }
  /// When a port that is down expires; kNever while its link is up. A port that waits again: at once.
  [[nodiscard]] Instant expires_at() const noexcept;

  /// Changes compared with the previous link.
  struct News {
    bool lid = false;
    bool gid = false;
    bool link = false;  // a new link
  };
  /// The link is up: takes the values of its handshake and becomes active.
  News came_up() noexcept;
  void went_down(Instant now) noexcept;
  void expire() noexcept {
    expired_ = true;
    ++expiries_;
  }
  /// A port that has expired waits for its link once more, for a QP that begins to use it: until
  /// went_down().
  void wait_again() noexcept { waits_again_ = true; }
  [[nodiscard]] bool waits_again() const noexcept { return waits_again_; }

  // Only while the link is up. LIDs and lanes of an earlier link are dropped.
  /// Sets the base LID and the number of its free low bits.
  void set_lid(Lid base, uint8_t lmc) noexcept;
  void set_state(PortState state) noexcept;
  void set_lanes(const ServiceLanes& lanes) noexcept;
  /// Sets the table; further entries are empty. At most kPkeysPerPort.
  void set_pkeys(std::span<const uint16_t> pkeys) noexcept;

  CounterSet<AdapterPortCounter> counters;

 private:
  fabric::CellPort* link_;
  std::unique_ptr<fabric::CellPort> loopback_;
  uint8_t number_;
  uint8_t nic_;
  uint8_t lmc_ = 0;
  uint16_t lid_mask_ = 0xFFFF;  // bits that all its LIDs share
  PortState state_ = PortState::kDown;
  bool linked_ = false;
  bool known_ = false;
  bool expired_ = false;  // its QPs have failed
  bool waits_again_ = false;
  uint32_t generation_ = 0;
  uint32_t expiries_ = 0;
  uint64_t incarnation_ = 0;
  fabric::CellPortInfo info_{};
  ServiceLanes lanes_{};
  Instant down_since_{};
  std::array<uint16_t, kPkeysPerPort> pkeys_{kPkeyDefault};
};

}  // namespace weft::adapter
