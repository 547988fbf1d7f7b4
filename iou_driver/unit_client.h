// iou_driver/unit_client.h -- the unit half's record of one host behind a session: address, filters, features
// and traffic statistics. Statistics are per session: a host reads and clears only its own (decisions section
// 4).
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/net/frame_port.h"
#include "iou_driver/wait_budget.h"
#include "messages/cfg_data.h"
#include "session/netdev_session.h"

namespace weft::iou {

struct UnitClient {
  session::NetdevSession* session = nullptr;
  bool present =
      false;            // from the opening of the session until it is lost or closed: `mac` is the host's own
  bool active = false;  // the session is open: frames move
  MacAddress mac{};
  uint32_t mtu_bytes = 0;  // of frames without GSO, as the host wants it
  NicFilters filters;
  Offload features = Offload::kNone;  // offloads that the host takes over
  NicStatistics statistics;
  bool link_told = false;   // link state last sent to the host
  bool link_known = false;  // a link state was sent
  uint64_t link_transaction = 0;
  uint32_t delivered = 0;        // destinations that already have the front frame, a bit each
  bool mtu_told = false;         // the log says that the NIC's MTU is too small for it
  bool slow = false;             // its budget was used up; not waited for until it takes a frame again
  WaitBudget* budget = nullptr;  // of its endnode

  /// For a host whose session is being opened.
  void reset(const session::SessionPeer& peer, uint32_t nic_mtu_bytes) noexcept {
    mac = peer.mac;
    mtu_bytes = nic_mtu_bytes;
    filters = {};
    features = peer.features;
    statistics = {};
    link_known = false;
    link_transaction = 0;
    delivered = 0;
    mtu_told = false;
    slow = false;
  }
  [[nodiscard]] uint32_t mtu_in_force(uint32_t nic_mtu_bytes) const noexcept {
    return std::min(mtu_bytes, nic_mtu_bytes);
  }
  [[nodiscard]] bool wants(const MacAddress& destination, bool group) const noexcept {
    if (group) return filters.wants_group(destination);
    return destination == mac || filters.promiscuous;
  }
};

inline constexpr uint32_t kUnitClientsMax = 31;  // one bit each, and one for the NIC

}  // namespace weft::iou
