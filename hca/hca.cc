#include "hca/hca.h"

#include "channel/bring_up.h"
#include "channel/event_log.h"

namespace weft {

Hca::Hca(Guid guid, RandomSource& random, HcaEvents* events, const AdapterLimits& limits)
    : adapter_({.guid = guid, .number = 0, .limits = limits}, random), events_(events) {}

void Hca::attach(CellPort& port) {
  adapter_.attach(port);
  ports_.push_back(&port);
}

ModifyResult Hca::connect(QueuePair& qp, const QpAttr& attr) {
  return bring_up(adapter_, qp, attr);
}

int Hca::poll(Instant now) noexcept {
  int work = adapter_.poll(now);
  AsyncEvent event;
  while (adapter_.next_event(event)) {
    log_event("hca", event);
    if (events_ != nullptr) events_->on_event(event);
    ++work;
  }
  return work;
}

void Hca::wait_fds(std::vector<pollfd>& out) const {
  for (const CellPort* port : ports_) port->wait_fds(out);
}

bool Hca::prepare_sleep() noexcept {
  bool quiet = true;
  for (CellPort* port : ports_) quiet = port->prepare_sleep() && quiet;
  return quiet;
}

void Hca::finish_sleep() noexcept {
  for (CellPort* port : ports_) port->finish_sleep();
}

}  // namespace weft
