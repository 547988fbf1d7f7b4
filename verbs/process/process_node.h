// verbs/process/process_node.h -- the process as an endnode. It joins its fabric once, by the environment
// variables of docs/verbs.md. Everything in the library that needs the device starts here.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "base/rng.h"
#include "base/stats_page.h"
#include "fabric/carrier/link_connect.h"
#include "hca/device.h"
#include "hca/fork_guard.h"
#include "hca/helper_thread.h"
#include "node/key_component.h"
#include "verbs/explain/failure_lines.h"
#include "verbs/process/settings.h"

namespace weft::verbs {

/// One device with one port, or with one for each NIC. Any thread may call.
class ProcessNode {
 public:
  /// The node of this process; joins if the process has not joined yet. Null when no fabric is configured or
  /// the switch cannot be reached now; a later call tries again. The node lives as long as the process. A
  /// child after fork() gets its own.
  static ProcessNode* get();
  /// The node if the process has joined already, else null.
  static ProcessNode* joined() noexcept;

  ProcessNode(const ProcessNode&) = delete;
  ProcessNode& operator=(const ProcessNode&) = delete;
  ~ProcessNode() = default;

  [[nodiscard]] hca::Device& device() noexcept { return device_; }
  [[nodiscard]] const Settings& settings() const noexcept { return settings_; }
  /// The stats page with the counters of this process; null when it has none.
  [[nodiscard]] StatsPage* page() noexcept { return page_ ? &*page_ : nullptr; }
  [[nodiscard]] RandomSource& random() noexcept { return spare_random_; }
  /// State of a port. LID, GID, partitions and cell size are those of the last time it was up.
  [[nodiscard]] hca::PortState port(uint8_t number = 1) noexcept;
  /// The node belongs to the parent: this process is a child after fork().
  [[nodiscard]] bool forked() const noexcept { return guard_.forked(); }
  /// For calls that sleep in the kernel; null without WEFT_DEBUG=verbs and in a child after fork().
  [[nodiscard]] LongWaits* waits() noexcept;
  /// The GUID of the first port, from the time of joining. It stays the same while the fabric knows the
  /// process.
  [[nodiscard]] Guid guid() const noexcept { return guid_; }

 private:
  explicit ProcessNode(const Settings& settings);
  static Result<std::unique_ptr<ProcessNode>> join(const Settings& settings);
  Status open_page();
  Status wait_for_port();
  [[nodiscard]] Error name_in_use() const;
  void show_guids() noexcept;
  void show_wanted_address();

  Settings settings_;
  MonotonicClock clock_;
  SystemRandom random_;
  SystemRandom link_random_;
  SystemRandom spare_random_;
  std::optional<StatsPage> page_;
  std::vector<CounterCell*> shown_guids_;  // counters of the page, one for each port
  FailureLines failure_lines_;             // declared before the device, which uses it
  node::KeyComponent keys_;                // with several NICs; declared before the device, which uses it
  hca::Device device_;
  hca::ForkGuard guard_;
  hca::HelperThread helper_;  // ends before the device
  Guid guid_{};
};

}  // namespace weft::verbs
