// hca/device.h -- an adapter with its ports for a program that uses the verbs: calls from several threads,
// calls that wait, fork(), and a helper thread that drives the adapter while no caller does.
// docs/consumer.md.
#pragma once

#include <poll.h>

#include <memory>
#include <string_view>
#include <vector>

#include "adapter/adapter.h"
#include "base/result.h"
#include "fabric/carrier/link_connect.h"
#include "hca/answer.h"
#include "hca/device_config.h"

namespace weft {
class StatsPage;
}  // namespace weft

namespace weft::hca {

class Context;
class DeviceCore;
class Spaces;

/// Any thread, unless a call says otherwise.
class Device {
 public:
  /// `random` gives QPNs, PSNs and keys; `link_random` gives the nonces of links. They are two objects
  /// because two threads may draw at the same time. The lock is not held while either is called
  /// (hca/random_reserve.h). Clock and both sources must outlive the device.
  Device(const DeviceConfig& config, const Clock& clock, RandomSource& random, RandomSource& link_random);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // ---- before the first open() --------------------
  /// Adds a port over a link that this device keeps up; with several NICs, of the next NIC. The link joins in
  /// help() or wait_for_ports(), not before.
  Status add_link(const fabric::LinkEndpointConfig& config);
  /// Adds a port that its owner keeps up; it must outlive the device.
  void attach(fabric::CellPort& port);
  /// Moves the counters of the device and of its adapter onto a page, as `prefix.*`, and shows the device's
  /// QPs there (hca/qp_page.h). False when the page is full. The page must outlive the device.
  bool publish(StatsPage& page, std::string_view prefix);
  /// Several NICs: `directory`, which outlives the device, finds the NICs of moved keys. It works under the
  /// device's lock, after each turn. @return where it puts its answers
  [[nodiscard]] adapter::NicKeys& use_directory(adapter::KeyDirectory& directory);
  /// With null the adapter stands still while no caller drives it. The helper must outlive the device or be
  /// replaced.
  void set_helper(Helper* helper) noexcept;

  /// With null failures appear only on the page. The sink must outlive the device or be replaced.
  void set_failure_sink(FailureSink* sink) noexcept;

  /// Drives the adapter until every port is up. False when `limit` has passed.
  [[nodiscard]] bool wait_for_ports(Duration limit);
  /// Says why a port is not up; of several, the first.
  [[nodiscard]] MissingPort missing_port();
  [[nodiscard]] Made<Context> open();
  /// Makes regions over effective, virtual and physical addresses possible, by the tables of `manager`, which
  /// must outlive the device. Call once. docs/memory.md.
  [[nodiscard]] Spaces& use_manager(adapter::MemoryManager& manager);
  /// Destroys the remaining objects of the context without waiting for acknowledgements of work requests.
  /// Closing the last context waits up to kFinishMax for cells as finish() does, because the process may then
  /// end without calling finish().
  void close(Context* context) noexcept;
  /// Call when the process ends, with objects still open. Acknowledges what its QPs have received. Then waits
  /// until the switch has all cells of links that lose cells with the process (ZeroMQ), for at most
  /// kFinishMax. False when that time has passed, or when another thread holds the device for kFinishMax. The
  /// latter includes the thread that the calling signal handler has interrupted.
  bool finish() noexcept;
  /// False when another thread holds the device longer than `limit`. A signal handler that interrupted a call
  /// of the device may make this call, and no other.
  [[nodiscard]] bool answers(Duration limit) noexcept;

  [[nodiscard]] const adapter::AdapterLimits& limits() const noexcept;
  [[nodiscard]] uint32_t ports() const noexcept;
  /// kInvalid when there is no such port.
  [[nodiscard]] Answer query_port(uint8_t port, PortState& out) noexcept;
  /// Moves the QP to the error state, so that its posted requests complete, because its peer is known to be
  /// gone. Does nothing when no QP has this number.
  void fail_qp(Qpn number) noexcept;
  [[nodiscard]] uint64_t count(DeviceCounter counter) const noexcept;
  [[nodiscard]] uint64_t count(adapter::AdapterCounter counter) const noexcept;
  /// Of port `port`, 1 to ports().
  [[nodiscard]] uint64_t count(uint8_t port, adapter::AdapterPortCounter counter) const noexcept;

  // ---- calls of the helper --------------------
  /// One look: tends the links, and drives the adapter if no caller does. `links_ready`: a descriptor of
  /// wait_fds() was ready. `stays`: the helper calls again at once, so peers need not wake it.
  [[nodiscard]] Helped help(bool links_ready, bool stays = false) noexcept;
  /// Appends the descriptors that the helper must wait for.
  void wait_fds(std::vector<pollfd>& out);

 private:
  std::unique_ptr<DeviceCore> core_;
  std::unique_ptr<Spaces> spaces_;  // null without a memory manager
};

}  // namespace weft::hca
