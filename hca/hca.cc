#include "hca/hca.h"

#include "adapter/bring_up.h"
#include "adapter/event_log.h"

namespace weft::hca {

Hca::Hca(Guid guid, RandomSource& random, HcaEvents* events, const adapter::AdapterLimits& limits)
    : adapter_({.guid = guid, .number = 0, .limits = limits}, random), events_(events) {}

void Hca::attach(fabric::CellPort& port) {
  adapter_.attach(port);
  ports_.push_back(&port);
}

adapter::ModifyResult Hca::connect(adapter::QueuePair& qp, const adapter::QpAttr& attr) {
  return adapter::bring_up(adapter_, qp, attr);
}

int Hca::poll(Instant now) noexcept {
  int work = adapter_.poll(now);
  adapter::AsyncEvent event;
  while (adapter_.next_event(event)) {
    adapter::log_event("hca", event);
    if (events_ != nullptr) events_->on_event(event);
    ++work;
  }
  return work;
}

void Hca::wait_fds(std::vector<pollfd>& out) const {
  for (const fabric::CellPort* port : ports_) port->wait_fds(out);
}

bool Hca::prepare_sleep() noexcept {
  bool quiet = true;
  for (fabric::CellPort* port : ports_) quiet = port->prepare_sleep() && quiet;
  return quiet;
}

void Hca::finish_sleep() noexcept {
  for (fabric::CellPort* port : ports_) port->finish_sleep();
}

}  // namespace weft::hca
