// The ports of an adapter: what becomes of their links, and what their owner sets.
#include <algorithm>
#include <memory>

#include "adapter/adapter.h"
#include "adapter/adapter_parts.h"
#include "adapter/loopback_port.h"
#include "base/check.h"
#include "messages/multicast.h"

namespace weft::adapter {
namespace {

void port_came_up(AdapterParts& parts, AdapterPort& port) noexcept {
  Engine& engine = parts.engine;
  const AdapterPort::News news = port.came_up();
  if (news.lid) engine.raise(port, AsyncEventKind::kLidChange);
  if (news.gid) engine.raise(port, AsyncEventKind::kGidChange);
  if (news.link) engine.raise(port, AsyncEventKind::kClientReregister);
  parts.sweep.port_changed(port, AsyncEventKind::kPortUp);
}

void port_went_down(AdapterParts& parts, AdapterPort& port) noexcept {
  port.went_down(parts.engine.now);
  parts.engine.count(AdapterCounter::kPortDowns);
  parts.sweep.port_changed(port, AsyncEventKind::kPortDown);
}

void expire_port(AdapterParts& parts, AdapterPort& port) noexcept {
  port.expire();
  parts.engine.count(AdapterCounter::kPortExpired);
  parts.sweep.port_changed(port, AsyncEventKind::kPortExpired);
}

}  // namespace

int watch_ports(AdapterParts& parts) noexcept {
  Engine& engine = parts.engine;
  int work = 0;
  for (const auto& port : engine.ports) {
    work += port->link().poll(engine.now);
    const bool up = port->link().up();
    if (up && port->has_news()) {
      port_came_up(parts, *port);
    } else if (!up && port->linked()) {
      port_went_down(parts, *port);
    } else if (engine.now >= port->expires_at()) {
      expire_port(parts, *port);
    }
  }
  return work;
}

void ChannelAdapter::attach(fabric::CellPort& port) {
  attach(port, parts_->engine.memory.number());
}

void ChannelAdapter::attach(fabric::CellPort& link, uint8_t nic) {
  Engine& engine = parts_->engine;
  engine.count(AdapterCounter::kAgentCalls);
  WEFT_CHECK(engine.computer.of_nic(nic).number() == nic, "no NIC with this number");
  const auto number = static_cast<uint8_t>(engine.ports.size() + 1);
  engine.ports.push_back(
      std::make_unique<AdapterPort>(link, std::make_unique<LoopbackPort>(kLoopbackCells), number, nic));
  engine.port_events.emplace_back(number);
  engine.qps.add_port();
  engine.schedule.add_port();
  if (link.up()) port_came_up(*parts_, *engine.ports.back());
}

uint32_t ChannelAdapter::ports() const noexcept {
  return static_cast<uint32_t>(parts_->engine.ports.size());
}

const fabric::CellPortInfo* ChannelAdapter::port_info(uint8_t port) const noexcept {
  if (port == 0 || port > ports() || !parts_->engine.ports[port - 1U]->known()) return nullptr;
  return &parts_->engine.ports[port - 1U]->info();
}

bool ChannelAdapter::port_up(uint8_t port) const noexcept {
  return port != 0 && port <= ports() && parts_->engine.ports[port - 1U]->up();
}

Refusable<> ChannelAdapter::set_lid(uint8_t port, Lid base, uint8_t lmc) {
  parts_->engine.count(AdapterCounter::kAgentCalls);
  if (port == 0 || port > ports()) return Refusal{Reason::kNoSuchObject, "set_lid: no such port"};
  AdapterPort& at = *parts_->engine.ports[port - 1U];
  if (!at.linked()) return Refusal{Reason::kWrongMoment, "set_lid: the link is down"};
  if (lmc > kLmcMax || base == kLidNone || is_multicast(base) || (base.value() & ((1U << lmc) - 1)) != 0)
    return Refusal{Reason::kBadAddress,
                   "set_lid: not a unicast LID, LMC above 7, or LID bits below the LMC set"};
  at.set_lid(base, lmc);
  parts_->sweep.port_changed(at, AsyncEventKind::kLidChange);
  return {};
}

Refusable<> ChannelAdapter::set_port_state(uint8_t port, PortState state) {
  parts_->engine.count(AdapterCounter::kAgentCalls);
  if (port == 0 || port > ports()) return Refusal{Reason::kNoSuchObject, "set_port_state: no such port"};
  AdapterPort& at = *parts_->engine.ports[port - 1U];
  if (!at.linked() || state == PortState::kDown)
    return Refusal{Reason::kWrongMoment, "set_port_state: only the link can make the port Down"};
  const bool was_up = at.up();
  at.set_state(state);
  if (at.up() != was_up)
    parts_->sweep.port_changed(at, was_up ? AsyncEventKind::kPortDown : AsyncEventKind::kPortUp);
  return {};
}

Refusable<> ChannelAdapter::set_service_lanes(uint8_t port, const ServiceLanes& lanes) {
  parts_->engine.count(AdapterCounter::kAgentCalls);
  if (port == 0 || port > ports()) return Refusal{Reason::kNoSuchObject, "set_service_lanes: no such port"};
  AdapterPort& at = *parts_->engine.ports[port - 1U];
  for (const VirtualLane lane : lanes) {
    if (lane.value() >= std::max(at.info().lanes, 1U))
      return Refusal{Reason::kNoSuchObject, "set_service_lanes: the link has no such lane"};
  }
  at.set_lanes(lanes);
  parts_->sweep.begin();
  return {};
}

Refusable<> ChannelAdapter::set_pkeys(uint8_t port, std::span<const uint16_t> pkeys) {
  parts_->engine.count(AdapterCounter::kAgentCalls);
  if (port == 0 || port > ports()) return Refusal{Reason::kNoSuchObject, "set_pkeys: no such port"};
  if (pkeys.empty() || pkeys.size() > kPkeysPerPort)
    return Refusal{Reason::kBadSize, "set_pkeys: a port has 1 to {} partitions", kPkeysPerPort};
  Engine& engine = parts_->engine;
  AdapterPort& at = *engine.ports[port - 1U];
  at.set_pkeys(pkeys);
  for (QueuePair* qp : engine.qps.all()) {
    if (qp->port == port) engine.renew_path(*qp);
  }
  engine.raise(at, AsyncEventKind::kPkeyChange);
  return {};
}

std::span<const uint16_t> ChannelAdapter::pkeys(uint8_t port) const noexcept {
  if (port == 0 || port > ports()) return {};
  return parts_->engine.ports[port - 1U]->pkeys();
}

}  // namespace weft::adapter
