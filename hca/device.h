// hca/device.h -- an adapter with its ports as a program has it that uses the verbs: several threads, calls
// that wait, fork(), and a helper thread that drives while no caller does. docs/consumer.md.
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
  /// `random` gives QPNs, PSNs and keys, `link_random` the nonces of links; two objects, because two
  /// threads may ask at a time. Neither is asked under the lock (hca/random_stock.h). All three must outlive
  /// the device.
  Device(const DeviceConfig& config, const Clock& clock, RandomSource& random, RandomSource& link_random);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // ---- before the first open() --------------------
  /// The next port, over a link that this device keeps up. Nothing is joined before help() or
  /// wait_for_ports().
  Status add_link(const fabric::LinkEndpointConfig& config);
  /// The next port, which its owner keeps up; it must outlive the device.
  void attach(fabric::CellPort& port);
  /// Moves the counters of the device and of its adapter onto a page, as `prefix.*`, and shows its QPs there
  /// (hca/qp_table.h); false when it is full.
  /// The page must outlive the device.
  bool publish(StatsPage& page, std::string_view prefix);
  /// Null: the adapter stands still while no caller drives it. Must outlive the device or be replaced.
  void set_helper(Helper* helper) noexcept;

  /// Null: failures are shown on the page alone. Must outlive the device or be replaced.
  void set_failure_sink(FailureSink* sink) noexcept;

  /// Waits until every port is up, driving meanwhile. False when the time has passed.
  [[nodiscard]] bool wait_for_ports(Duration limit);
  /// Why the first port that is not up is not.
  [[nodiscard]] MissingPort missing_port();
  [[nodiscard]] Made<Context> open();
  /// Regions over effective, virtual and physical addresses become possible, by the tables of `manager`. It
  /// outlives the device. Once. docs/memory.md.
  [[nodiscard]] Spaces& use_manager(adapter::MemoryManager& manager);
  /// Destroys what the context still has, without waiting for acknowledgements of work requests. The last one
  /// waits as finish() does: its program may end in whatever way.
  void close(Context* context) noexcept;
  /// The process ends, with whatever it has open: acknowledges what its QPs have received, and waits until
  /// the switch has what was sent over links that lose it with the process (ZeroMQ), kFinishMax at most.
  /// False when that time has passed, or another thread has held the device for as long -- be it the one that
  /// the caller has interrupted as a signal handler.
  bool finish() noexcept;
  /// False when another thread holds the device longer than `limit`. Unlike any other call this one may
  /// interrupt it.
  [[nodiscard]] bool answers(Duration limit) noexcept;

  [[nodiscard]] const adapter::AdapterLimits& limits() const noexcept;
  [[nodiscard]] uint32_t ports() const noexcept;
  /// kInvalid when there is no such port.
  [[nodiscard]] Answer query_port(uint8_t port, PortState& out) noexcept;
  /// The QP of that number goes to the error state, so that what is posted there completes: its peer is known
  /// to be gone. Nothing happens when there is none.
  void fail_qp(Qpn number) noexcept;
  [[nodiscard]] uint64_t count(DeviceCounter counter) const noexcept;
  [[nodiscard]] uint64_t count(adapter::AdapterCounter counter) const noexcept;
  /// Cells that failed validation, for whatever reason.
  [[nodiscard]] uint64_t bad_cells() const noexcept;

  // ---- the helper's --------------------
  /// One look: drives when no caller does. `links_ready`: a descriptor of wait_fds() was ready. `stays`: the
  /// helper comes again at once, so no peer need wake it.
  [[nodiscard]] Helped help(bool links_ready, bool stays = false) noexcept;
  /// Adds the descriptors whose readiness asks for help().
  void wait_fds(std::vector<pollfd>& out);

 private:
  std::unique_ptr<DeviceCore> core_;
  std::unique_ptr<Spaces> spaces_;  // null without a memory manager
};

}  // namespace weft::hca
