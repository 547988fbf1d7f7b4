// hca/device_config.h -- what a device is made as, what it counts, what it asks of its helper.
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
  /// An access to memory that the program has unmapped under a region ends the QP, instead of being dropped
  /// as hardware does that holds the pages (docs/memory.md).
  bool strict_memory = true;
};

/// What a device asks of the thread that helps it. Called without the device's lock, by any thread.
class Helper {
 public:
  virtual ~Helper() = default;
  /// Begins to call Device::help(). False when there can be no thread.
  [[nodiscard]] virtual bool start() noexcept = 0;
  /// Ends its wait: help() is to be called now.
  virtual void kick() noexcept = 0;
};

/// Hears why requests and messages of a device have failed. Called without the device's lock, by any thread
/// that has called the device.
class FailureSink {
 public:
  virtual ~FailureSink() = default;
  virtual void failed(const Failure& failure) noexcept = 0;
};

/// A process that ends waits at most this long for its switch to take the last cells, and for the device.
inline constexpr Duration kFinishMax = std::chrono::milliseconds(100);

enum class DeviceCounter : uint8_t {
  kCallerTurns,
  kHelperTurns,
  kHelperLooks,  // it looked, and callers were driving
  kHelperKicks,
  kPeerWakes,   // noted under the lock and sent after it
  kGoneMemory,  // accesses to memory that has gone, which were dropped
  kCount
};
[[nodiscard]] constexpr CounterNames<DeviceCounter> counter_labels(DeviceCounter /*of*/) noexcept {
  return {"caller_turns", "helper_turns", "helper_looks", "helper_kicks", "peer_wakes", "gone_memory"};
}

struct PortState {
  bool up = false;
  fabric::CellPortInfo info{};  // of when it was last up
};

/// Why a port is not up.
struct MissingPort {
  std::string why;  // empty: no attempt has ended yet, or all ports are up
  LinkRefusal refusal = LinkRefusal::kNone;
  bool later = false;  // see fabric::JoinTrouble
};

/// What a look of the helper has come to.
struct Helped {
  Instant until;  // when to look again at the latest; Instant::min() is at once
  int work = 0;   // that it found; none also while callers drive
};

}  // namespace weft::hca
