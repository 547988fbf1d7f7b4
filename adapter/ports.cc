#include "adapter/ports.h"

#include <algorithm>
#include <memory>
#include <string>

#include "adapter/adapter_engine.h"
#include "adapter/loopback_port.h"
#include "adapter/sweep.h"
#include "base/check.h"
#include "base/stats_page.h"
#include "messages/multicast.h"

namespace weft::adapter {

// ---- links --------------------

void Ports::came_up(AdapterPort& port) noexcept {
  const AdapterPort::News news = port.came_up();
  if (news.lid) engine_.raise(port, AsyncEventKind::kLidChange);
  if (news.gid) engine_.raise(port, AsyncEventKind::kGidChange);
  if (news.link) engine_.raise(port, AsyncEventKind::kClientReregister);
  sweep_.port_changed(port, AsyncEventKind::kPortUp);
}

void Ports::went_down(AdapterPort& port) noexcept {
  port.went_down(engine_.now);
  port.counters.add(AdapterPortCounter::kDowns);
  sweep_.port_changed(port, AsyncEventKind::kPortDown);
}

void Ports::expire(AdapterPort& port) noexcept {
  if (port.waits_again()) {  // its time begins when all QPs have been told that it has expired
    if (!sweep_.runs()) port.went_down(engine_.now);
    return;
  }
  port.expire();
  port.counters.add(AdapterPortCounter::kExpired);
  sweep_.port_changed(port, AsyncEventKind::kPortExpired);
}

int Ports::watch() noexcept {
  int work = 0;
  for (const auto& port : engine_.ports) {
    work += port->link().poll(engine_.now);
    const bool is_up = port->link().up();
    if (is_up && port->has_news()) {
      came_up(*port);
    } else if (!is_up && port->linked()) {
      went_down(*port);
    } else if (engine_.now >= port->expires_at()) {
      expire(*port);
    }
  }
  return work;
}

void Ports::attach(fabric::CellPort& link) {
  attach(link, engine_.memory.number());
}

void Ports::attach(fabric::CellPort& link, uint8_t nic) {
  engine_.count(AdapterCounter::kAgentCalls);
  WEFT_CHECK(engine_.computer.of_nic(nic).number() == nic, "no NIC with this number");
  const auto number = static_cast<uint8_t>(engine_.ports.size() + 1);
  engine_.ports.push_back(
      std::make_unique<AdapterPort>(link, std::make_unique<LoopbackPort>(kLoopbackCells), number, nic));
  engine_.port_events.emplace_back(number);
  engine_.qps.add_port();
  engine_.schedule.add_port();
  if (page_ != nullptr) static_cast<void>(show(*engine_.ports.back()));
  if (link.up()) came_up(*engine_.ports.back());
}

// ---- what the owner asks and sets --------------------

uint32_t Ports::count() const noexcept {
  return static_cast<uint32_t>(engine_.ports.size());
}

const AdapterPort* Ports::find(uint8_t number) const noexcept {
  return number == 0 || number > engine_.ports.size() ? nullptr : engine_.ports[number - 1U].get();
}

/// The port of an agent's call; null when there is none.
AdapterPort* Ports::called_for(uint8_t port) noexcept {
  engine_.count(AdapterCounter::kAgentCalls);
  return find(port) == nullptr ? nullptr : engine_.ports[port - 1U].get();
}

uint64_t Ports::total(AdapterPortCounter counter) const noexcept {
  uint64_t all = 0;
  for (const auto& port : engine_.ports) all += port->counters.get(counter);
  return all;
}

bool Ports::publish(StatsPage& page, std::string_view prefix) {
  page_ = &page;
  prefix_ = prefix;
  return std::all_of(engine_.ports.begin(), engine_.ports.end(),
                     [this](const auto& port) { return show(*port); });
}

bool Ports::show(AdapterPort& port) {
  return page_->publish(prefix_ + "." + std::to_string(port.number()), port.counters);
}

Refusable<> Ports::set_lid(uint8_t port, Lid base, uint8_t lmc) {
  AdapterPort* const at = called_for(port);
  if (at == nullptr) return Refusal{Reason::kNoSuchObject, "set_lid: no such port"};
  if (!at->linked()) return Refusal{Reason::kWrongMoment, "set_lid: the link is down"};
  if (lmc > kLmcMax || base == kLidNone || is_multicast(base) || (base.value() & ((1U << lmc) - 1)) != 0)
    return Refusal{Reason::kBadAddress,
                   "set_lid: not a unicast LID, LMC above 7, or LID bits below the LMC set"};
  at->set_lid(base, lmc);
  sweep_.port_changed(*at, AsyncEventKind::kLidChange);
  return {};
}

Refusable<> Ports::set_state(uint8_t port, PortState state) {
  AdapterPort* const at = called_for(port);
  if (at == nullptr) return Refusal{Reason::kNoSuchObject, "set_state: no such port"};
  if (!at->linked() || state == PortState::kDown)
    return Refusal{Reason::kWrongMoment, "set_state: only the link can make the port Down"};
  const bool was_up = at->up();
  at->set_state(state);
  if (at->up() != was_up)
    sweep_.port_changed(*at, was_up ? AsyncEventKind::kPortDown : AsyncEventKind::kPortUp);
  return {};
}

Refusable<> Ports::set_service_lanes(uint8_t port, const ServiceLanes& lanes) {
  AdapterPort* const at = called_for(port);
  if (at == nullptr) return Refusal{Reason::kNoSuchObject, "set_service_lanes: no such port"};
  for (const VirtualLane lane : lanes) {
    if (lane.value() >= std::max(at->info().lanes, 1U))
      return Refusal{Reason::kNoSuchObject, "set_service_lanes: the link has no such lane"};
  }
  at->set_lanes(lanes);
  sweep_.begin();
  return {};
}

Refusable<> Ports::set_pkeys(uint8_t port, std::span<const uint16_t> pkeys) {
  AdapterPort* const at = called_for(port);
  if (at == nullptr) return Refusal{Reason::kNoSuchObject, "set_pkeys: no such port"};
  if (pkeys.empty() || pkeys.size() > kPkeysPerPort)
    return Refusal{Reason::kBadSize, "set_pkeys: a port has 1 to {} partitions", kPkeysPerPort};
  at->set_pkeys(pkeys);
  for (QueuePair* qp : engine_.qps.all()) {
    if (qp->port == port) engine_.renew_path(*qp);
  }
  engine_.raise(*at, AsyncEventKind::kPkeyChange);
  return {};
}

}  // namespace weft::adapter
