#include "verbs/process_node.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "verbs/explain.h"
#include "verbs/per_process.h"

namespace weft::verbs {
namespace {

/// A switch on this machine answers in a millisecond, one over tcp in some tens.
constexpr Duration kJoinMax = 1s;
/// On the page of a process: its counters, and its QPs.
constexpr uint32_t kPageEntries = 2304;
/// Processes that call themselves by one name and have a page each.
constexpr uint32_t kSameNameMax = 256;

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
  if (node->shown_guid_ != nullptr) node->shown_guid_->store(node->guid_.value(), std::memory_order_relaxed);
  return node;
}

Status ProcessNode::open_page() {
  if (settings_.dir.empty()) return {};
  const std::string own = settings_.dir + "/" + settings_.name;
  for (uint32_t i = 1; i <= kSameNameMax && !page_.has_value(); ++i) {
    const std::string path = i == 1 ? own + ".stats" : fmt::format("{}-{}.stats", own, i);
    if (stats_page_holder(path).has_value()) continue;
    Result<StatsPage> made = StatsPage::create_held(path, kPageEntries);
    if (made) {
      page_ = std::move(*made);
    } else if (!stats_page_holder(path).has_value()) {  // nobody came in between
      return made.error();
    }
  }
  if (!page_.has_value()) return Error{own + ".stats: too many processes of this name"};
  shown_guid_ = page_->add("node.guid");
  device_.publish(*page_, "adapter");
  return {};
}

hca::PortState ProcessNode::port() noexcept {
  hca::PortState out;
  static_cast<void>(device_.query_port(1, out));
  return out;
}

}  // namespace weft::verbs
