// verbs/explain/failure_lines.h -- WEFT_DEBUG=verbs: one line for each failed request, for each refused
// message of a peer, and for long waits. If a peer does not answer, the line also names faults on demand that
// may be the cause.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "hca/device_config.h"
#include "messages/ids.h"
#include "verbs/explain/long_wait.h"

namespace weft::verbs {

class FailureLines final : public hca::FailureSink {
 public:
  /// @param endpoint  endpoint of the switch
  explicit FailureLines(std::string endpoint) : endpoint_(std::move(endpoint)) {}
  /// GUID of this process's port.
  void set_guid(Guid guid) noexcept { guid_.store(guid.value(), std::memory_order_relaxed); }
  /// Path of this process's stats page. Call it before the device is used.
  void set_page(std::string path) { page_ = std::move(path); }
  void failed(const Failure& failure) noexcept override;
  void looked() noexcept override { waits_.look(); }
  [[nodiscard]] LongWaits& waits() noexcept { return waits_; }

 private:
  std::string endpoint_;
  std::string page_;  // empty: there is none
  std::atomic<uint64_t> guid_{0};
  LongWaits waits_;
};

}  // namespace weft::verbs
