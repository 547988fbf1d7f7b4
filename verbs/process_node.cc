#include "verbs/process_node.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <utility>

#include "adapter/memory/fault_handler.h"
#include "base/endian.h"
#include "base/environment.h"
#include "base/guarded_fd.h"
#include "base/log.h"
#include "base/process_limits.h"
#include "rdma_cm/node_addresses.h"
#include "verbs/explain.h"
#include "verbs/per_process.h"

namespace weft::verbs {
namespace {

/// A switch on this machine answers in a millisecond, one over tcp in some tens.
constexpr Duration kJoinMax = 1s;
/// For a switch that is there and cannot yet say yes: a crowd starts at once, or LIDs rest. Longer than a
/// machine with hundreds of ranks takes to start, and half of what a LID rests.
constexpr Duration kLaterMax = 30s;
/// On the page of a process: its counters, and its QPs.
constexpr uint32_t kPageEntries = 2432;
/// Of a process that joins: the helper thread's two, those of page and link, and a few more on the way.
constexpr size_t kDescriptors = 8;
/// Processes that call themselves by one name and have a page each.
constexpr uint32_t kSameNameMax = 256;

PerProcess<ProcessNode>& current() noexcept {
  static PerProcess<ProcessNode>& instance = PerProcess<ProcessNode>::make();
  return instance;
}

/// Before there are threads: a child of fork() would wait for ever for a parent's thread that is making it.
[[gnu::constructor]] void make_node_at_load() {
  static_cast<void>(current());
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

/// The program's actions for SIGSEGV and SIGBUS are kept beside our handler, where the object that `weft run`
/// preloads sees them set (preload/hooks_signals.cc). Without it, our handler goes when another is set, and
/// each thread finds that out by itself.
void keep_programs_signals() noexcept {
  using Keep = void (*)(decltype(&adapter::set_program_action), void (*)());
  const auto keep = reinterpret_cast<Keep>(dlsym(RTLD_DEFAULT, "weft_preload_keep_signals"));
  if (keep == nullptr || !adapter::install_fault_handler()) return;
  keep(adapter::set_program_action, [] { adapter::forget_guard(); });
}

}  // namespace

ProcessNode::ProcessNode(const Settings& settings)
    : settings_(settings),
      failure_lines_(settings.endpoint),
      device_({.guid = settings.guid, .strict_memory = settings.strict_memory}, clock_, random_,
              link_random_),
      helper_(device_, clock_) {
  if (explains()) device_.set_failure_sink(&failure_lines_);
}

ProcessNode* ProcessNode::joined() noexcept {
  return current().known();
}

ProcessNode* ProcessNode::get() {
  return current().get([]() -> std::unique_ptr<ProcessNode> {
    // Without a fabric to join the program may just be looking for hardware.
    if (environment_variable("WEFT_FABRIC").empty()) {
      explain("WEFT_FABRIC is not set: no device");
      return nullptr;
    }
    Result<Settings> settings = read_settings();
    if (!settings) {
      explain_once(fmt::format("no device: {}", settings.error().text));
      return nullptr;
    }
    Result<std::unique_ptr<ProcessNode>> made = join(*settings);
    if (made) return std::move(*made);
    explain_once(fmt::format("no device: {}", made.error().text));
    return nullptr;
  });
}

Result<std::unique_ptr<ProcessNode>> ProcessNode::join(const Settings& settings) {
  // Of the preloaded object, if there is one: it keeps the program from closing what is ours.
  guard_descriptors(reinterpret_cast<DescriptorKeeper>(dlsym(RTLD_DEFAULT, "weft_keep_descriptor")));
  log_setup(settings.name, explains() ? LogLevel::kInfo : LogLevel::kError, LogTime::kOfDay);
  const fabric::LinkEndpointConfig endpoint = endpoint_config(settings);
  if (Status good = fabric::check_link_endpoint(endpoint); !good) return good.error();
  if (Status room = check_spare_descriptors(kDescriptors); !room) return room.error();
  std::unique_ptr<ProcessNode> node(new ProcessNode(settings));  // tidy: private constructor
  keep_programs_signals();
  if (Status opened = node->open_page(); !opened)
    explain("the tools will not see this program: {}", opened.error().text);
  if (Status added = node->device_.add_link(endpoint); !added) return added.error();
  if (Status up = node->wait_for_port(); !up) return up.error();
  node->guid_ = node->port().info.guid;
  node->failure_lines_.set_guid(node->guid_);
  if (node->shown_guid_ != nullptr) node->shown_guid_->store(node->guid_.value(), std::memory_order_relaxed);
  return node;
}

Status ProcessNode::wait_for_port() {
  const Instant until = clock_.now() + kLaterMax;
  while (!device_.wait_for_ports(kJoinMax)) {
    const hca::MissingPort missing = device_.missing_port();
    if (missing.later && clock_.now() < until) {
      explain("{}: waiting for the switch: {}", settings_.endpoint, missing.why);
      continue;
    }
    if (missing.refusal == LinkRefusal::kLidTaken && settings_.identity != 0) return name_in_use();
    if (!missing.why.empty()) return Error{fmt::format("{}: {}", settings_.endpoint, missing.why)};
    return Error{settings_.endpoint + " does not answer; is the fabric up?"};
  }
  return {};
}

/// The first process of a name has the first page.
Error ProcessNode::name_in_use() const {
  const std::optional<pid_t> holder =
      settings_.dir.empty() ? std::nullopt
                            : stats_page_holder(settings_.dir + "/" + settings_.name + ".stats");
  const std::string by = holder.value_or(0) != 0 ? fmt::format("pid {}", *holder) : "another process";
  return Error{
      fmt::format("name '{}' is in use by {}: a name has one process at a time", settings_.name, by)};
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
    } else if (!stats_page_holder(path).has_value()) {  // no other process came in between
      return made.error();
    }
  }
  if (!page_.has_value()) return Error{own + ".stats: too many processes of this name"};
  shown_guid_ = page_->add("node.guid");
  show_wanted_address();
  device_.publish(*page_, "adapter");
  return {};
}

/// One that WEFT_IP gives; without, tools know the address by the LID.
void ProcessNode::show_wanted_address() {
  const char* wanted = secure_getenv("WEFT_IP");
  CounterCell* const shown = page_->add("node.ipv4");
  if (wanted == nullptr || shown == nullptr) return;
  const rdma_cm::IpAddress own = rdma_cm::NodeAddresses(clock_, kLidNone, wanted).own(4);
  if (!own.same_ip(rdma_cm::ipv4_of(kLidNone)))
    shown->store(load_be<uint32_t>(&own.ip[12]), std::memory_order_relaxed);
}

hca::PortState ProcessNode::port() noexcept {
  hca::PortState out;
  static_cast<void>(device_.query_port(1, out));
  return out;
}

}  // namespace weft::verbs
