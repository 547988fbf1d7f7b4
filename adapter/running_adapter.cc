#include "adapter/running_adapter.h"

#include <utility>

namespace weft::adapter {

RunningAdapter::RunningAdapter(std::string name, const AdapterConfig& config, RandomSource& random)
    : adapter_(config, random), log_(std::move(name)) {}

void RunningAdapter::attach(fabric::CellPort& port, uint8_t nic) {
  adapter_.ports().attach(port, nic);
  ports_.push_back(&port);
}

int RunningAdapter::poll(Instant now) noexcept {
  int work = adapter_.poll(now);
  AsyncEvent event;
  while (adapter_.next_event(event)) {
    ++events_seen_[static_cast<size_t>(event.kind)];
    log_.write(event, now);
    ++work;
  }
  return work;
}

void RunningAdapter::wait_fds(std::vector<pollfd>& out) const {
  for (const fabric::CellPort* port : ports_) port->wait_fds(out);
}

bool RunningAdapter::prepare_sleep() noexcept {
  bool quiet = true;
  for (fabric::CellPort* port : ports_) quiet = port->prepare_sleep() && quiet;
  return quiet;
}

void RunningAdapter::finish_sleep() noexcept {
  for (fabric::CellPort* port : ports_) port->finish_sleep();
}

}  // namespace weft::adapter
