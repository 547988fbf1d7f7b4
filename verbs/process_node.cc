#include "verbs/process_node.h"

#include <utility>

#include "base/log.h"
#include "verbs/explain.h"
#include "verbs/per_process.h"

namespace weft::verbs {
namespace {

/// A switch on this machine answers in a millisecond, one over tcp in some tens.
constexpr Duration kJoinMax = 1s;

PerProcess<ProcessNode>& current() noexcept {
  static PerProcess<ProcessNode>& instance = PerProcess<ProcessNode>::make();
  return instance;
}

fabric::LinkEndpointConfig endpoint_config(const Settings& settings) {
  fabric::LinkEndpointConfig config;
  config.endpoint = settings.endpoint;
  config.curve_secret_file = settings.curve_secret;
  config.curve_server_file = settings.curve_server;
  config.link.guid = settings.guid;
  config.link.lid = settings.lid;
  config.link.any_port = settings.lid == kLidNone || settings.identity != 0;
  config.link.identity = settings.identity;
  config.link.cell_payload_bytes = settings.cell_payload_bytes;
  config.link.flit_payload_bytes = settings.flit_payload_bytes;
  return config;
}

}  // namespace

ProcessNode::ProcessNode(const Settings& settings)
    : settings_(settings),
      device_({.guid = settings.guid}, clock_, random_, link_random_),
      helper_(device_, clock_) {}

ProcessNode* ProcessNode::joined() noexcept {
  return current().known();
}

ProcessNode* ProcessNode::get() {
  return current().get([]() -> std::unique_ptr<ProcessNode> {
    Result<Settings> settings = read_settings();
    if (!settings) {
      explain("{}", settings.error().text);
      return nullptr;
    }
    Result<std::unique_ptr<ProcessNode>> made = join(*settings);
    if (made) return std::move(*made);
    explain("no device: {}", made.error().text);
    return nullptr;
  });
}

Result<std::unique_ptr<ProcessNode>> ProcessNode::join(const Settings& settings) {
  log_setup(settings.name, explains() ? LogLevel::kInfo : LogLevel::kError);
  const fabric::LinkEndpointConfig endpoint = endpoint_config(settings);
  if (Status good = fabric::check_link_endpoint(endpoint); !good) return good.error();
  std::unique_ptr<ProcessNode> node(new ProcessNode(settings));  // tidy: private constructor
  if (Status opened = node->open_page(); !opened) return opened.error();
  if (Status added = node->device_.add_link(endpoint); !added) return added.error();
  if (!node->device_.wait_for_ports(kJoinMax))
    return Error{settings.endpoint + " does not answer; is the fabric up, and has its switch a spare port?"};
  node->guid_ = node->port().info.guid;
  return node;
}

Status ProcessNode::open_page() {
  if (settings_.dir.empty()) return {};
  Result<StatsPage> made = StatsPage::create(settings_.dir + "/" + settings_.name + ".stats");
  if (!made) return made.error();
  page_ = std::move(*made);
  device_.publish(*page_, "adapter");
  return {};
}

hca::PortState ProcessNode::port() noexcept {
  hca::PortState out;
  static_cast<void>(device_.query_port(1, out));
  return out;
}

}  // namespace weft::verbs
