// verbs/process_node.h -- the endnode that a process of the verbs is: it joins its fabric once, by the
// environment variables of docs/verbs.md, and everything in the library that needs the device starts here.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "base/rng.h"
#include "base/stats_page.h"
#include "fabric/carrier/link_connect.h"
#include "hca/device.h"
#include "hca/fork_guard.h"
#include "hca/helper_thread.h"
#include "verbs/failure_lines.h"
#include "verbs/settings.h"

namespace weft::verbs {

/// One port, one device. Any thread.
class ProcessNode {
 public:
  /// The node of this process, which joins if it has not yet; null when there is no fabric to join, or it
  /// cannot be reached now: a later call tries again. It stays for the life of the process. A child after
  /// fork() gets one of its own.
  static ProcessNode* get();
  /// The node if the process has joined already.
  static ProcessNode* joined() noexcept;

  ProcessNode(const ProcessNode&) = delete;
  ProcessNode& operator=(const ProcessNode&) = delete;
  ~ProcessNode() = default;

  [[nodiscard]] hca::Device& device() noexcept { return device_; }
  [[nodiscard]] const Settings& settings() const noexcept { return settings_; }
  /// The page with the counters of this process; null when it has none.
  [[nodiscard]] StatsPage* page() noexcept { return page_ ? &*page_ : nullptr; }
  [[nodiscard]] RandomSource& random() noexcept { return spare_random_; }
  /// LID, GUID, partitions and cell size of the port as it last was up.
  [[nodiscard]] hca::PortState port() noexcept;
  /// The node is that of our parent.
  [[nodiscard]] bool forked() const noexcept { return guard_.forked(); }
  /// Of when the process joined; it does not change while the fabric knows the process.
  [[nodiscard]] Guid guid() const noexcept { return guid_; }

 private:
  explicit ProcessNode(const Settings& settings);
  static Result<std::unique_ptr<ProcessNode>> join(const Settings& settings);
  Status open_page();
  Status wait_for_port();
  [[nodiscard]] Error name_in_use() const;
  void show_wanted_address();

  Settings settings_;
  MonotonicClock clock_;
  SystemRandom random_;
  SystemRandom link_random_;
  SystemRandom spare_random_;
  std::optional<StatsPage> page_;
  CounterCell* shown_guid_ = nullptr;  // on the page
  FailureLines failure_lines_;         // outlives the device
  hca::Device device_;
  hca::ForkGuard guard_;
  hca::HelperThread helper_;  // ends before the device does
  Guid guid_{};
};

}  // namespace weft::verbs
