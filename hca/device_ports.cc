#include "hca/device_ports.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace weft::hca {
namespace {

constexpr std::string_view kSharedMemory = "shm:";
// Upper limit; room for them is reserved before the lock is taken.
constexpr size_t kFdsPerPort = 4;

}  // namespace

Result<fabric::CellPort*> DevicePorts::add_link(const fabric::LinkEndpointConfig& config) {
  Result<std::unique_ptr<fabric::LinkSupervisor>> supervisor = fabric::make_connector(config, random_);
  if (!supervisor) return supervisor.error();
  const bool apart = config.endpoint.starts_with(kSharedMemory);
  links_.push_back(std::make_unique<KeptLink>(config.timers, apart, std::move(*supervisor), wakes_));
  fabric::CellPort& port = links_.back()->cells();
  ports_.push_back(&port);
  if (!apart) path_ports_.push_back(&port);
  return &port;
}

void DevicePorts::add(fabric::CellPort& port) {
  ports_.push_back(&port);
  path_ports_.push_back(&port);
}

bool DevicePorts::prepare_sleep() noexcept {
  bool prepared = true;
  for (fabric::CellPort* port : ports_) prepared &= port->prepare_sleep();
  return prepared;
}

void DevicePorts::finish_sleep() noexcept {
  for (fabric::CellPort* port : ports_) port->finish_sleep();
}

bool DevicePorts::has_faulty() const noexcept {
  return std::any_of(links_.begin(), links_.end(), [](const auto& link) {
    return link->upkeep() != nullptr && link->engine().state() == fabric::LinkState::kFaulty;
  });
}

bool DevicePorts::loses_at_end() const noexcept {
  return std::any_of(links_.begin(), links_.end(),
                     [](const auto& link) { return link->engine().loses_at_end(); });
}

void DevicePorts::look(Instant now) noexcept {
  for (const auto& link : links_) {
    if (link->upkeep() != nullptr) link->upkeep()->look(now);
  }
}

bool DevicePorts::settle(Instant now) noexcept {
  bool changed = false;
  for (const auto& link : links_) {
    if (link->upkeep() != nullptr) changed |= link->upkeep()->settle(now);
  }
  return changed;
}

void DevicePorts::clear() noexcept {
  for (const auto& link : links_) {
    if (link->upkeep() != nullptr) link->upkeep()->clear();
  }
}

Instant DevicePorts::deadline() const noexcept {
  Instant at = kNever;
  for (const auto& link : links_) {
    if (link->upkeep() != nullptr) at = std::min(at, link->upkeep()->deadline());
  }
  return at;
}

void DevicePorts::supervision_fds(std::vector<pollfd>& out) const {
  for (const auto& link : links_) {
    if (link->upkeep() != nullptr) link->upkeep()->wait_fds(out);
  }
}

void DevicePorts::path_fds(std::vector<pollfd>& out) const {
  for (const fabric::CellPort* port : path_ports_) port->wait_fds(out);
}

size_t DevicePorts::path_fds_max() const noexcept {
  return kFdsPerPort * path_ports_.size();
}

MissingPort DevicePorts::missing() const {
  for (const auto& link : links_) {
    const fabric::JoinTrouble trouble = link->trouble();
    if (!trouble.why.empty() || trouble.later)
      return {std::string(trouble.why), trouble.refusal, trouble.later};
  }
  return {};
}

}  // namespace weft::hca
