// hca/device_config.h -- configuration of a device, its counters, and its interfaces to helper and failure
// sink.
#pragma once

#include <cstdint>
#include <string>

#include "adapter/config.h"
#include "base/clock.h"
#include "base/counters.h"
#include "fabric/link/cell_port.h"
#include "hca/hca_limits.h"
#include "messages/failure.h"
#include "messages/link_hello.h"

namespace weft::hca {

struct DeviceConfig {
  Guid guid{};
  adapter::AdapterLimits limits = hca_limits();
  /// What happens when a transfer accesses registered memory that the program has unmapped. True: the QP
  /// fails. False: the access is dropped; hardware would still reach the pages, which it keeps
  /// (docs/memory.md).
  bool strict_memory = true;
  /// Where the programs of a fabric have their files. Those of this machine meet there to make memory windows
  /// (docs/window.md). Empty: all queue pairs use the ports.
  std::string direct_programs{};
  /// A file that one other process maps too, for a memory window to it. Empty: none.
  std::string direct_file{};
  uint32_t direct_file_side = 0;  // 0 or 1; the peer has the other
  bool direct_file_locks = true;  // false: the peer runs under another kernel
  /// Several NICs: NIC i has port i + 1 (docs/key_migration.md).
  uint8_t nics = 1;
};

/// The thread that helps a device. The device calls it from any thread, without holding its lock.
class Helper {
 public:
  virtual ~Helper() = default;
  /// Starts calling Device::help(). False when no thread can be made.
  [[nodiscard]] virtual bool start() noexcept = 0;
  /// Ends the helper's wait: it must call help() now.
  virtual void kick() noexcept = 0;
};

/// Receives the failures of requests and messages of a device. Called without the device's lock, by any
/// thread that calls the device.
class FailureSink {
 public:
  virtual ~FailureSink() = default;
  virtual void failed(const Failure& failure) noexcept = 0;
  /// The helper has looked at the device, at least twice a second. Called by the helper alone.
  virtual void looked() noexcept {}
};

/// Longest wait at the end of a process, for its switch to take the last cells and for a thread that holds
/// the device.
inline constexpr Duration kFinishMax = std::chrono::milliseconds(100);

enum class DeviceCounter : uint8_t {
  kCallerTurns,
  kHelperTurns,
  kHelperLooks,  // looks of the helper that found callers driving
  kHelperKicks,
  kPeerWakes,   // bells of peers, noted under the lock and rung after it
  kGoneMemory,  // accesses to unmapped memory that were dropped
  kCount
};
[[nodiscard]] constexpr CounterNames<DeviceCounter> counter_labels(DeviceCounter /*of*/) noexcept {
  return {"caller_turns", "helper_turns", "helper_looks", "helper_kicks", "peer_wakes", "gone_memory"};
}

struct PortState {
  bool up = false;
  fabric::CellPortInfo info{};  // as of the last time that the port was up
};

/// Why a port is not up.
struct MissingPort {
  std::string why;  // empty: no attempt has ended yet, or all ports are up
  LinkRefusal refusal = LinkRefusal::kNone;
  bool later = false;  // see fabric::JoinTrouble
};

/// Result of one look of the helper.
struct Helped {
  Instant until;  // latest time of the next look; Instant::min(): at once
  int work = 0;   // units of work found; 0 also while callers drive
};

}  // namespace weft::hca
