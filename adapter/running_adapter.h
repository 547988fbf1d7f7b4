// adapter/running_adapter.h -- a channel adapter with its ports in the loop of a process. Each turn takes the
// asynchronous events, counts them and writes them to the log. A host's and an I/O unit's limits stand in
// hca/ and tca/.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "adapter/adapter.h"
#include "adapter/event_log.h"
#include "base/pollable.h"

namespace weft::adapter {

/// Owner: the loop's thread.
class RunningAdapter : public Pollable {
 public:
  /// `name` begins each log line. `random` and every attached port must outlive the adapter.
  RunningAdapter(std::string name, const AdapterConfig& config, RandomSource& random);

  [[nodiscard]] ChannelAdapter& adapter() noexcept { return adapter_; }
  [[nodiscard]] const ChannelAdapter& adapter() const noexcept { return adapter_; }
  /// `nic`: the number of the NIC that has the port, if the adapter has several.
  void attach(fabric::CellPort& port, uint8_t nic = 0);
  [[nodiscard]] uint64_t events_seen(AsyncEventKind kind) const noexcept {
    return events_seen_[static_cast<size_t>(kind)];
  }

  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void finish_sleep() noexcept override;
  [[nodiscard]] Instant deadline() const noexcept override { return adapter_.deadline(); }

 private:
  ChannelAdapter adapter_;
  EventLog log_;
  std::vector<fabric::CellPort*> ports_;
  std::array<uint64_t, static_cast<size_t>(AsyncEventKind::kCount)> events_seen_{};
};

}  // namespace weft::adapter
