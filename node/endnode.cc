#include "node/endnode.h"

#include <fmt/format.h>

#include <algorithm>

#include "node/process.h"

namespace weft::node {

namespace {

fabric::LinkEndpointConfig endpoint_config(const EndnodeSpec& spec) {
  fabric::LinkEndpointConfig config;
  config.endpoint = spec.endpoint;
  config.curve_secret_file = spec.curve_secret;
  config.curve_server_file = spec.curve_server;
  config.link = link_config(spec);
  config.link.lid = spec.lid;
  config.link.any_port = spec.lid == kLidNone;
  return config;
}

}  // namespace

Status check_endpoint(const EndnodeSpec& spec) {
  return fabric::check_link_endpoint(endpoint_config(spec));
}

std::vector<session::PoolClass> session_pools(const EndnodeSpec& spec) {
  if (spec.pools.empty()) return session::SessionConfig{}.pools;
  std::vector<session::PoolClass> pools;
  for (const PoolSpec& pool : spec.pools) pools.push_back({pool.element_bytes, pool.elements});
  return pools;
}

Endnode::Endnode(std::unique_ptr<fabric::LinkConnection> link,
                 std::unique_ptr<adapter::RunningAdapter> adapter)
    : link_(std::move(link)), port_(link_->link()), adapter_(std::move(adapter)) {
  adapter_->attach(port_);
}

Result<std::unique_ptr<Endnode>> Endnode::create(const EndnodeSpec& spec,
                                                 std::unique_ptr<adapter::RunningAdapter> adapter,
                                                 RandomSource& random) {
  Result<std::unique_ptr<fabric::LinkConnection>> link = fabric::connect_link(endpoint_config(spec), random);
  if (!link) return link.error();
  return std::unique_ptr<Endnode>(
      new Endnode(std::move(*link), std::move(adapter)));  // tidy: private constructor
}

void Endnode::publish(StatsPage& page) {
  port_.publish(page, "link");
  adapter_->adapter().publish(page, "adapter");
}

control::NodeInfo Endnode::describe(const EndnodeSpec& spec, const char* program) const {
  control::NodeInfo out = describe_node(spec, program);
  const fabric::CellPortInfo& port = port_.info();
  const bool given = spec.lid == kLidNone;  // by a spare port
  out.lid = given ? port.lid.value() : spec.lid.value();
  if (given) out.guid = port.guid.value();
  out.ready = port_.up();
  if (!out.ready) {
    out.fault = link_->trouble().empty() ? "no link to the switch yet"
                                         : fmt::format("no link to the switch: {}", link_->trouble());
  }
  return out;
}

int Endnode::poll(Instant now) noexcept {
  int work = adapter_->poll(now);
  for (DriverHalf* half : halves_) work += half->poll(now);
  return work + adapter_->adapter().send_posted();
}

void Endnode::wait_fds(std::vector<pollfd>& out) const {
  adapter_->wait_fds(out);
  for (const DriverHalf* half : halves_) half->wait_fds(out);
}

Instant Endnode::deadline() const noexcept {
  Instant next = adapter_->deadline();
  for (const DriverHalf* half : halves_) next = std::min(next, half->deadline());
  return next;
}

}  // namespace weft::node
