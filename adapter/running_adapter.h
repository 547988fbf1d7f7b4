// adapter/running_adapter.h -- a channel adapter as a process runs it: with its ports, in a loop, its
// asynchronous events taken each turn, counted and written to the log. What a host and an I/O unit add stands
// in hca/ and tca/.
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
  /// `name` stands before its log lines. `random` and every attached port must outlive it.
  RunningAdapter(std::string name, const AdapterConfig& config, RandomSource& random);

  [[nodiscard]] ChannelAdapter& adapter() noexcept { return adapter_; }
  [[nodiscard]] const ChannelAdapter& adapter() const noexcept { return adapter_; }
  void attach(fabric::CellPort& port);
  [[nodiscard]] uint64_t events_seen(AsyncEventKind kind) const noexcept {
    return events_seen_[static_cast<size_t>(kind)];
  }

  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void finish_sleep() noexcept override;
  [[nodiscard]] Instant deadline() const noexcept override { return adapter_.deadline(); }

 private:
  /// After the event was counted and logged, from within poll().
  virtual void on_event(const AsyncEvent& event) noexcept = 0;

  ChannelAdapter adapter_;
  EventLog log_;
  std::vector<fabric::CellPort*> ports_;
  std::array<uint64_t, static_cast<size_t>(AsyncEventKind::kCount)> events_seen_{};
};

}  // namespace weft::adapter
