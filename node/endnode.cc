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
  config.silence = spec.links.silence;
  config.link = link_config(spec);
  config.link.lid = spec.lid;
  config.link.any_port = spec.lid == kLidNone;
  return config;
}

/// The link endpoints of the adapter's ports, in order.
std::vector<fabric::LinkEndpointConfig> endpoint_configs(const EndnodeSpec& spec) {
  std::vector<fabric::LinkEndpointConfig> out{endpoint_config(spec)};
  for (const FurtherLinkSpec& further : spec.further_links) {
    fabric::LinkEndpointConfig& config = out.emplace_back(out.front());
    config.endpoint = further.endpoint;
    config.curve_secret_file = further.curve_secret;
    config.curve_server_file = further.curve_server;
    config.link.guid = further.guid;
    config.link.lid = further.lid;
  }
  return out;
}

}  // namespace

Status check_endpoint(const EndnodeSpec& spec) {
  for (const fabric::LinkEndpointConfig& config : endpoint_configs(spec))
    if (Status good = fabric::check_link_endpoint(config); !good) return good;
  return {};
}

std::vector<uint8_t> nics_of(const EndnodeSpec& spec) {
  return adapter::nics_in_turn(spec.adapter_per_link ? 1 + spec.further_links.size() : 1);
}

std::vector<session::PoolClass> session_pools(const EndnodeSpec& spec) {
  if (spec.pools.empty()) return session::SessionConfig{}.pools;
  std::vector<session::PoolClass> pools;
  for (const PoolSpec& pool : spec.pools) pools.push_back({pool.element_bytes, pool.elements});
  return pools;
}

Endnode::Endnode(std::vector<std::unique_ptr<Link>> links, std::unique_ptr<adapter::RunningAdapter> adapter)
    : links_(std::move(links)), adapter_(std::move(adapter)), session_ports_(adapter_->adapter()) {
  adapter::NicKeys* const nics = adapter_->adapter().use_directory(keys_);
  if (nics != nullptr) keys_.serve(*nics);
  for (size_t i = 0; i < links_.size(); ++i)
    adapter_->attach(links_[i]->cells, nics != nullptr ? nics->nics()[i] : uint8_t{0});
}

Result<std::unique_ptr<Endnode>> Endnode::create(const EndnodeSpec& spec,
                                                 std::unique_ptr<adapter::RunningAdapter> adapter,
                                                 RandomSource& random) {
  std::vector<std::unique_ptr<Link>> links;
  for (const fabric::LinkEndpointConfig& config : endpoint_configs(spec)) {
    Result<std::unique_ptr<fabric::LinkConnection>> link = fabric::connect_link(config, random);
    if (!link) return link.error();
    links.push_back(std::make_unique<Link>(std::move(*link)));
  }
  return std::unique_ptr<Endnode>(
      new Endnode(std::move(links), std::move(adapter)));  // tidy: private constructor
}

void Endnode::publish(StatsPage& page) {
  for (size_t i = 0; i < links_.size(); ++i)
    links_[i]->cells.publish(page, i == 0 ? "link" : fmt::format("link.{}", i + 1));
  adapter_->adapter().publish(page, "adapter");
  if (keys_.serves()) (void)keys_.publish(page);
}

control::NodeInfo Endnode::describe(const EndnodeSpec& spec, const char* program) const {
  control::NodeInfo out = describe_node(spec, program);
  const fabric::CellPortInfo& port = links_.front()->cells.info();
  const bool given = spec.lid == kLidNone;  // by a spare port
  out.lid = given ? port.lid.value() : spec.lid.value();
  if (given) out.guid = port.guid.value();
  out.ready = true;
  for (size_t i = 0; i < links_.size() && out.ready; ++i) {
    if (links_[i]->cells.up()) continue;
    out.ready = false;
    const std::string_view why = links_[i]->connection->trouble().why;
    out.fault = why.empty() ? "no link to the switch yet" : fmt::format("no link to the switch: {}", why);
    if (i != 0) out.fault = fmt::format("port {}: {}", i + 1, out.fault);
  }
  return out;
}

bool Endnode::loses_at_end() const noexcept {
  return std::any_of(links_.begin(), links_.end(), [](const std::unique_ptr<Link>& link) {
    return link->connection->link().loses_at_end();
  });
}

int Endnode::poll(Instant now) noexcept {
  int work = adapter_->poll(now);
  if (keys_.has_work()) [[unlikely]]
    work += adapter::answer_keys(keys_, *adapter_, now);
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
