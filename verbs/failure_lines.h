// verbs/failure_lines.h -- WEFT_DEBUG=verbs: each failed request, and each refused message of a peer, in one
// line. Where a peer does not answer, faults on demand that may be why are named.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "hca/device_config.h"
#include "messages/ids.h"

namespace weft::verbs {

class FailureLines final : public hca::FailureSink {
 public:
  /// @param endpoint  of the switch
  explicit FailureLines(std::string endpoint) : endpoint_(std::move(endpoint)) {}
  /// GUID of this process's port.
  void set_guid(Guid guid) noexcept { guid_.store(guid.value(), std::memory_order_relaxed); }
  void failed(const Failure& failure) noexcept override;

 private:
  std::string endpoint_;
  std::atomic<uint64_t> guid_{0};
};

}  // namespace weft::verbs
