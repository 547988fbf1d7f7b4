// adapter/ports.h -- the ports of an adapter: what becomes of their links, and what their owner sets.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "adapter/counters.h"
#include "adapter/port.h"
#include "base/result.h"
#include "fabric/link/cell_port.h"

namespace weft {
class StatsPage;
}  // namespace weft

namespace weft::adapter {

struct Engine;
class Sweep;

/// Owner: the adapter's thread.
class Ports {
 public:
  /// Both are the adapter's and must outlive this.
  Ports(Engine& engine, Sweep& sweep) noexcept : engine_(engine), sweep_(sweep) {}
  Ports(const Ports&) = delete;
  Ports& operator=(const Ports&) = delete;

  // ---- kernel agent --------------------
  /// Adds the next port (1, 2, ...), of the first NIC. The link must outlive the adapter.
  void attach(fabric::CellPort& link);
  /// The same for a NIC of AdapterConfig::nics.
  void attach(fabric::CellPort& link, uint8_t nic);
  /// Sets the LIDs of a port whose link is up: 2^`lmc` LIDs from `base` on. A link that comes up again sets
  /// them anew. QPs continue with new paths, and kLidChange is raised.
  Refusable<> set_lid(uint8_t port, Lid base, uint8_t lmc);
  /// Below kActive a port drops arriving cells, and cells to send wait.
  Refusable<> set_state(uint8_t port, PortState state);
  Refusable<> set_service_lanes(uint8_t port, const ServiceLanes& lanes);
  /// Sets the partitions of a port, at most kPkeysPerPort. When a port is attached, entry 0 is the default
  /// partition. QPs refer to entries by index, so they follow a change.
  Refusable<> set_pkeys(uint8_t port, std::span<const uint16_t> pkeys);

  [[nodiscard]] uint32_t count() const noexcept;
  /// Port `number` (1, 2, ...), as long as the adapter lives; null when there is none.
  [[nodiscard]] const AdapterPort* find(uint8_t number) const noexcept;
  /// True while port `number` is active.
  [[nodiscard]] bool up(uint8_t number) const noexcept {
    const AdapterPort* const port = find(number);
    return port != nullptr && port->up();
  }
  /// LID, cell payload and lanes of port `number`; null until its link has been up.
  [[nodiscard]] const fabric::CellPortInfo* info(uint8_t number) const noexcept {
    const AdapterPort* const port = find(number);
    return port != nullptr && port->known() ? &port->info() : nullptr;
  }
  /// Of all ports together.
  [[nodiscard]] uint64_t total(AdapterPortCounter counter) const noexcept;
  /// Publishes the counters of each port, also of those attached later, as `prefix.N.*`; false when the page
  /// is full. The page outlives the adapter.
  [[nodiscard]] bool publish(StatsPage& page, std::string_view prefix);

  // ---- turn --------------------
  /// Polls the links, and informs QPs of ports that have come up, gone down or expired. @return work done
  int watch() noexcept;

 private:
  [[nodiscard]] bool show(AdapterPort& port);
  [[nodiscard]] AdapterPort* called_for(uint8_t port) noexcept;
  void came_up(AdapterPort& port) noexcept;
  void went_down(AdapterPort& port) noexcept;
  void expire(AdapterPort& port) noexcept;

  Engine& engine_;
  Sweep& sweep_;
  StatsPage* page_ = nullptr;  // null: none was given yet
  std::string prefix_;
};

}  // namespace weft::adapter
