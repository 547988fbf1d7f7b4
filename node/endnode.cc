#include "node/endnode.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace weft::node {

void declare_endnode_options(CommandLine& line, EndnodeOptions& out) {
  declare_node_options(line, out);
  line.number("lid", "N", out.lid, 1, kLidMax, "local identifier, as the switch knows it");
  line.text("switch", "ENDPOINT", out.endpoint, "shm:SOCKET-OF-SWITCH, ipc://PATH or tcp://HOST:PORT");
  line.text("curve-server", "FILE", out.curve_server, "public key of the switch");
  line.texts("pool", "BYTESxCOUNT", out.pools,
             "receive pool: element size and number; repeat, smallest first (2048x256 and 65536x32)");
}

namespace {

fabric::LinkEndpointConfig endpoint_config(const EndnodeOptions& options) {
  fabric::LinkEndpointConfig config;
  config.endpoint = options.endpoint;
  config.curve_secret_file = options.curve_secret;
  config.curve_server_file = options.curve_server;
  config.link = link_config(options);
  config.link.lid = Lid(static_cast<uint16_t>(options.lid));
  return config;
}

}  // namespace

Status check_endnode_options(const std::string& program, const EndnodeOptions& options) {
  if (Status good = check_node_options(program, options); !good) return good;
  if (options.endpoint.empty())
    return Error{"--switch is missing: shm:DIR/SWITCH.sock for one on this machine"};
  if (options.lid == 0) return Error{"--lid is missing: the number the switch's --node option has"};
  if (Status good = fabric::check_link_endpoint(endpoint_config(options)); !good) return good;
  const Result<std::vector<session::PoolClass>> pools = parse_pools(options.pools);
  return pools.ok() ? Status{} : Status(pools.error());
}

Result<std::vector<session::PoolClass>> parse_pools(const std::vector<std::string>& texts) {
  if (texts.empty()) return session::SessionConfig{}.pools;
  std::vector<session::PoolClass> pools;
  uint64_t together = 0;
  for (const std::string& text : texts) {
    const char* end = text.data() + text.size();
    session::PoolClass pool;
    const auto bytes = std::from_chars(text.data(), end, pool.element_bytes);
    const bool middle = bytes.ec == std::errc() && bytes.ptr != end && *bytes.ptr == 'x';
    const auto count = middle ? std::from_chars(bytes.ptr + 1, end, pool.elements) : bytes;
    if (!middle || count.ec != std::errc() || count.ptr != end) {
      return Error{"--pool " + text + ": write BYTESxCOUNT, as 2048x256"};
    }
    together += pool.elements;
    const std::string fault = own_pool_fault(pool.element_bytes, pool.elements, together);
    if (!fault.empty()) return Error{fmt::format("--pool {}: {}", text, fault)};
    pools.push_back(pool);
  }
  const auto smaller = [](const session::PoolClass& a, const session::PoolClass& b) {
    return a.element_bytes < b.element_bytes;
  };
  std::sort(pools.begin(), pools.end(), smaller);
  return pools;
}

Endnode::Endnode(std::unique_ptr<fabric::LinkConnection> link,
                 std::unique_ptr<adapter::RunningAdapter> adapter)
    : link_(std::move(link)), port_(link_->link()), adapter_(std::move(adapter)) {
  adapter_->attach(port_);
}

Result<std::unique_ptr<Endnode>> Endnode::create(const EndnodeOptions& options,
                                                 std::unique_ptr<adapter::RunningAdapter> adapter,
                                                 RandomSource& random) {
  Result<std::unique_ptr<fabric::LinkConnection>> link =
      fabric::connect_link(endpoint_config(options), random);
  if (!link) return link.error();
  return std::unique_ptr<Endnode>(
      new Endnode(std::move(*link), std::move(adapter)));  // tidy: private constructor
}

void Endnode::publish(StatsPage& page) {
  port_.publish(page, "link");
  adapter_->adapter().publish(page, "adapter");
}

control::NodeInfo Endnode::describe(const EndnodeOptions& options, const char* program) const {
  control::NodeInfo out = describe_node(options, program);
  out.lid = static_cast<uint16_t>(options.lid);
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
  return work;
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
