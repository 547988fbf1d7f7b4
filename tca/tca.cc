#include "tca/tca.h"

#include "channel/bring_up.h"
#include "channel/event_log.h"

namespace weft {

Tca::Tca(Guid guid, RandomSource& random, const AdapterLimits& limits)
    : adapter_({.guid = guid, .number = 0, .limits = limits}, random) {}

void Tca::attach(CellPort& port) {
  adapter_.attach(port);
  ports_.push_back(&port);
}

ModifyResult Tca::accept(QueuePair& qp, const QpAttr& attr) {
  return bring_up(adapter_, qp, attr, QpState::kRtr);
}
ModifyResult Tca::confirm(QueuePair& qp, const QpAttr& attr) {
  return bring_up(adapter_, qp, attr, QpState::kRts);
}

int Tca::poll(Instant now) noexcept {
  int work = adapter_.poll(now);
  AsyncEvent event;
  while (adapter_.next_event(event)) {
    ++events_seen_[static_cast<size_t>(event.kind)];
    log_event("tca", event);
    ++work;
  }
  return work;
}

void Tca::wait_fds(std::vector<pollfd>& out) const {
  for (const CellPort* port : ports_) port->wait_fds(out);
}

bool Tca::prepare_sleep() noexcept {
  bool quiet = true;
  for (CellPort* port : ports_) quiet = port->prepare_sleep() && quiet;
  return quiet;
}

void Tca::finish_sleep() noexcept {
  for (CellPort* port : ports_) port->finish_sleep();
}

}  // namespace weft
