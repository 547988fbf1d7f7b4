#include "tca/tca.h"

#include "adapter/bring_up.h"
#include "adapter/event_log.h"

namespace weft::tca {

Tca::Tca(Guid guid, RandomSource& random, const adapter::AdapterLimits& limits)
    : adapter_({.guid = guid, .number = 0, .limits = limits}, random) {}

void Tca::attach(fabric::CellPort& port) {
  adapter_.attach(port);
  ports_.push_back(&port);
}

adapter::ModifyResult Tca::accept(adapter::QueuePair& qp, const adapter::QpAttr& attr) {
  return adapter::bring_up(adapter_, qp, attr, adapter::QpState::kRtr);
}
adapter::ModifyResult Tca::confirm(adapter::QueuePair& qp, const adapter::QpAttr& attr) {
  return adapter::bring_up(adapter_, qp, attr, adapter::QpState::kRts);
}

int Tca::poll(Instant now) noexcept {
  int work = adapter_.poll(now);
  adapter::AsyncEvent event;
  while (adapter_.next_event(event)) {
    ++events_seen_[static_cast<size_t>(event.kind)];
    adapter::log_event("tca", event);
    ++work;
  }
  return work;
}

void Tca::wait_fds(std::vector<pollfd>& out) const {
  for (const fabric::CellPort* port : ports_) port->wait_fds(out);
}

bool Tca::prepare_sleep() noexcept {
  bool quiet = true;
  for (fabric::CellPort* port : ports_) quiet = port->prepare_sleep() && quiet;
  return quiet;
}

void Tca::finish_sleep() noexcept {
  for (fabric::CellPort* port : ports_) port->finish_sleep();
}

}  // namespace weft::tca
